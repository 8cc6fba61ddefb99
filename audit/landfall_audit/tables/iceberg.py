"""Opens Iceberg tables by pyiceberg."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from landfall_audit.errors import AuditRetry
from landfall_audit.login.s3 import BucketAccess
from landfall_audit.tables import OpenedTable, TableColumns, filled, slot_in

_THROUGH = ".through"
_MAPPING = "schema.name-mapping.default"
_OWN_NAMES = {"_partition": "_kafka_partition"}
"""Columns whose names Iceberg keeps for itself, and what they are called in tables."""
_NO_NAME = re.compile("[^A-Za-z0-9_]")
_CODE = {"auth", "py-io-impl", "s3.retry-strategy-impl", "write.py-location-provider.impl"}
"""Properties of catalogs and tables that name Python code to import."""
_OWN_CODE = ("pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO")
_LOWER = {"hive", "glue"}
"""Catalogs whose names have lower case letters only."""


@dataclass(frozen=True)
class IcebergSnapshot:
    """One snapshot of an Iceberg table; see ``OpenedTable``."""

    table: Any
    snapshot: int
    through: int
    other_lanes: frozenset[str]

    @property
    def columns(self) -> TableColumns:
        """The columns, with the names that the table's mapping has for files."""
        mapping = json.loads(self.table.properties.get(_MAPPING, "[]"))
        names = {entry.get("field-id"): entry.get("names", []) for entry in mapping}
        of_ours = {name: file for file, name in _OWN_NAMES.items()}
        return TableColumns(
            {
                field.name: (
                    *names.get(field.field_id, ()),
                    of_ours.get(field.name, field.name),
                    field.name.removesuffix("_"),
                )
                for field in self.table.schema().fields
            }
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See ``OpenedTable``."""
        scan = self.table.scan(selected_fields=tuple(columns), snapshot_id=self.snapshot)
        yield from scan.to_arrow_batch_reader()


@dataclass(frozen=True)
class IcebergFormat:
    """The Iceberg tables of a publisher; see ``TableFormat``.

    Attributes:
        template: of their names.
        properties: of the catalog.
        key: the name of the position of the group's lane.
    """

    template: str
    properties: Mapping[str, str]
    key: str

    def table_of(self, topic: str, generation: int) -> str:
        """See ``TableFormat``."""
        name = filled(self.template, _NO_NAME.sub("_", topic), generation)
        return name.lower() if self.properties.get("type") in _LOWER else name

    @cached_property
    def _catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415  # an extra

        properties = {name: value for name, value in self.properties.items() if name != "name"}
        name = self.properties.get("name", "landfall")
        if properties.get("type") == "rest":
            return _rest_catalog(name, properties)
        return _without_code(load_catalog(name, **properties), properties)

    def open(self, table: str, last: int) -> OpenedTable | None:
        """See ``TableFormat``."""
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415  # an extra

        try:
            loaded = self._catalog.load_table(table)
            snapshot, through = position(loaded.metadata, self.key, last)
        except NoSuchTableError:
            return None
        except Exception as error:
            raise AuditRetry(f"Iceberg table {table}: {type(error).__name__}: {error}") from error
        if snapshot is None:
            return None
        return IcebergSnapshot(loaded, snapshot, through, lanes_in(loaded.properties, self.key))


def _rest_catalog(name: str, own: Mapping[str, str]) -> Any:
    from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415  # an extra

    class AuditedRestCatalog(RestCatalog):
        """A REST catalog that names no Python code."""

        def _fetch_config(self) -> None:
            super()._fetch_config()
            check_code(self.properties, own)  # the next session would import it

    return _without_code(AuditedRestCatalog(name, **own), own)


def _without_code(catalog: Any, own: Mapping[str, str]) -> Any:
    """A catalog that loads no table which names Python code."""
    load = catalog._load_file_io  # noqa: SLF001  # the one place for all kinds of catalogs

    def load_file_io(properties: Any = None, location: str | None = None) -> Any:
        check_code({**catalog.properties, **(properties or {})}, own)
        return load(properties or {}, location)

    catalog._load_file_io = load_file_io  # noqa: SLF001
    return catalog


def check_code(properties: Mapping[str, Any], own: Mapping[str, str]) -> None:
    """Raise ValueError if properties name Python code that the group's spec does not name."""
    for name in _CODE & properties.keys():
        if properties[name] != own.get(name) and properties[name] not in _OWN_CODE:
            raise ValueError(f"the catalog names Python code, which is not imported: {name}")


def position(metadata: Any, key: str, last: int) -> tuple[int | None, int]:
    """The newest snapshot that has nothing after a slot, and the slot through which it has all.

    Args:
        metadata: of the table.
        key: the name of the positions.
        last: the slot.
    """
    known = {entry.snapshot_id: entry for entry in metadata.snapshots}
    chosen: Any = known.pop(metadata.current_snapshot_id, None)
    snapshot = chosen
    while snapshot is not None:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        before = known.pop(snapshot.parent_snapshot_id, None)  # once: any program may write it
        if key in summary:
            if (through := slot_in(summary[key])) <= last:
                return chosen.snapshot_id, through
            chosen = before
        snapshot = before
    if chosen is None or key not in metadata.properties:
        return (None if chosen is None else chosen.snapshot_id), -1
    through = slot_in(metadata.properties[key])  # the snapshot that has it has expired
    return (chosen.snapshot_id, through) if through <= last else (None, -1)


def lanes_in(properties: Mapping[str, str], key: str) -> frozenset[str]:
    """The other groups, with their lanes, that have published to a table."""
    names = (name for name in properties if name.startswith("landfall."))
    return frozenset(n.removesuffix(_THROUGH) for n in names if n.endswith(_THROUGH) and n != key)


def files_of(access: BucketAccess) -> dict[str, str]:
    """Properties of pyiceberg that reach a bucket."""
    found = {
        "s3.endpoint": access.endpoint,
        "s3.region": access.region,
        "s3.access-key-id": access.key_id,
        "s3.secret-access-key": access.secret_key,
        "s3.session-token": access.token,
        "s3.force-virtual-addressing": "" if access.path_style or not access.endpoint else "true",
    }
    return {name: value for name, value in found.items() if value}
