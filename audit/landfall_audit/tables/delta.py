"""Opens Delta tables by delta-rs, whose rows are read by DataFusion on delta-kernel."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from landfall_audit.errors import AuditRetry
from landfall_audit.login.s3 import BucketAccess
from landfall_audit.tables import OpenedTable, TableColumns, filled, slot_in

_THROUGH = "/through"


@dataclass(frozen=True)
class DeltaVersion:
    """One version of a Delta table; see ``OpenedTable``."""

    table: Any
    through: int
    other_lanes: frozenset[str]

    @property
    def columns(self) -> TableColumns:
        """The columns that landed files have: of partitions, only folders have the values."""
        folders = {*self.table.metadata().partition_columns}
        names = [field.name for field in self.table.schema().fields if field.name not in folders]
        return TableColumns({name: (name,) for name in names})

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """See ``OpenedTable``."""
        from deltalake import QueryBuilder  # noqa: PLC0415  # an extra

        named = ", ".join(f'"{name}"' for name in (n.replace('"', '""') for n in columns))
        found = QueryBuilder().register("t", self.table).execute(f"SELECT {named} FROM t")  # noqa: S608
        for batch in found:
            yield pa.record_batch(batch)


@dataclass(frozen=True)
class DeltaFormat:
    """The Delta tables of a publisher; see ``TableFormat``.

    Attributes:
        template: of their URLs.
        storage: options of delta-rs.
        application: by which a commit names the position of the group's lane.
    """

    template: str
    storage: Mapping[str, str]
    application: str

    def table_of(self, topic: str, generation: int) -> str:
        """See ``TableFormat``."""
        return filled(self.template.rstrip("/"), topic, generation)

    def open(self, table: str, last: int) -> OpenedTable | None:
        """See ``TableFormat``."""
        from deltalake import DeltaTable  # noqa: PLC0415  # an extra
        from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415  # an extra

        try:
            loaded = DeltaTable(table, storage_options=dict(self.storage))
            history = loaded.history()
            version, through = position(history, self.application, last)
            if version is None:
                return None
            loaded.load_as_version(version)
        except TableNotFoundError:
            return None
        except Exception as error:
            raise AuditRetry(f"Delta table {table}: {type(error).__name__}: {error}") from error
        return DeltaVersion(loaded, through, lanes_in(history, self.application))


def position(
    history: Iterable[Mapping[str, Any]], application: str, last: int
) -> tuple[int | None, int]:
    """The newest version that has nothing after a slot, and the slot through which it has all.

    Args:
        history: the commits, newest first.
        application: the name of the positions.
        last: the slot.
    """
    version: int | None = None
    restored: int | None = None
    for commit in history:
        number = int(commit["version"])
        if restored is not None and number > restored:
            continue
        restored = None
        version = number if version is None else version
        if commit.get("operation") == "RESTORE":
            parameters = commit.get("operationParameters") or {}
            if parameters.get("version") is None:
                raise ValueError("it was restored to a time, so its position is not known")
            restored = int(parameters["version"])
            continue
        found = commit.get(f"{application}{_THROUGH}")
        if found is None:
            continue
        if (through := slot_in(found)) <= last:
            return version, through
        version = None
    return version, -1


def lanes_in(history: Iterable[Mapping[str, Any]], application: str) -> frozenset[str]:
    """The other groups, with their lanes, that have published to a table."""
    names = {name for commit in history for name in commit if name.startswith("landfall/")}
    lanes = {name.removesuffix(_THROUGH) for name in names if name.endswith(_THROUGH)}
    return frozenset(lanes - {application})


def storage_of(access: BucketAccess) -> dict[str, str]:
    """Options of delta-rs that reach a bucket."""
    found = {
        "aws_endpoint_url": access.endpoint,
        "aws_region": access.region,
        "aws_access_key_id": access.key_id,
        "aws_secret_access_key": access.secret_key,
        "aws_session_token": access.token,
        "aws_allow_http": "true" if access.endpoint.startswith("http://") else "",
        "aws_virtual_hosted_style_request": "" if access.path_style else "true",
    }
    return {name: value for name, value in found.items() if value}
