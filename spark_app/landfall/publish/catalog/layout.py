"""The desired tables and partitions of a group, and checks of existing ones."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from landfall.api.spec import TopicSpecs
from landfall.ledger.names.object_names import ObjectName
from landfall.publish import VisibleObject
from landfall.publish.catalog import Columns, Partition, Storage, Table, TableName, Values
from landfall.publish.catalog.files import STORAGES, ColumnsOf
from landfall.publish.catalog.naming import TableNaming, TablePlace
from landfall.publish.context import Context


@dataclass(frozen=True, slots=True)
class Placed:
    """An object, and its table and partition."""

    object: VisibleObject
    name: ObjectName
    place: TablePlace

    @property
    def key(self) -> str:
        """The object's key."""
        return self.object.key


@dataclass(frozen=True)
class TableLayout:
    """The desired tables and partitions.

    Attributes:
        context: the group and its store.
        naming: names of tables.
        specs: of topics.
        files: the columns of objects.
        scheme: of URLs, instead of ``s3``.
        properties: of tables that are created.
        storage: of tables that are created, by format.
        skips_other_folders: whether objects in folders other than the route's are skipped.
    """

    context: Context
    naming: TableNaming
    specs: TopicSpecs
    files: ColumnsOf
    scheme: str = "s3"
    properties: Mapping[str, str] = field(default_factory=dict)
    storage: Mapping[str, Storage] = field(default_factory=lambda: STORAGES)
    skips_other_folders: bool = False

    def is_published(self, key: str) -> bool:
        """Return whether an object's topic is published."""
        return self.context.object_name(key) is not None

    def placed(self, each: VisibleObject, name: ObjectName) -> Placed | None:
        """An object and where it belongs; None if it is to be skipped.

        Raises:
            ValueError: its folders are not the route's.
        """
        wanted = self.naming.keys(self.specs.for_topic(name.topic))
        try:
            place = self.naming.place(name, wanted)
        except ValueError as error:
            if self.skips_other_folders:
                return None
            raise ValueError(
                f"{each.key} is in folders of another route: {error}; "
                "otherFolders: Skip leaves such objects out"
            ) from error
        return Placed(each, name, place)

    def columns(self, placed: Iterable[Placed]) -> Mapping[str, Columns]:
        """The columns of objects by their keys.

        Raises:
            ValueError, Retry: as ``ColumnsOf.of``, or a column has the name of a folder.
        """
        listed = list(placed)
        found = self.files.of((placement.object, placement.name) for placement in listed)
        for placement in listed:
            if clash := found[placement.key].keys() & set(placement.place.keys):
                raise ValueError(
                    f"column {min(clash)} of {placement.key} has the name of a folder of the "
                    "route; rename one of them"
                )
        return found

    def table(self, name: TableName, placed: Sequence[Placed], columns: Columns) -> Table:
        """The table to be created."""
        first = placed[0]
        format_ = self.specs.for_topic(first.name.topic).output.format
        properties = {**self.properties, "EXTERNAL": "TRUE"}
        return Table(
            name=name,
            location=self.url(first.place.folder),
            columns=columns,
            keys=first.place.keys,
            storage=self.storage[format_],
            properties=properties,
        )

    def partitions(self, placed: Iterable[Placed]) -> dict[Values, Partition]:
        """The partitions of objects, each once."""
        return {
            placement.place.values: Partition(
                placement.place.values, self.url(placement.place.directory), {}
            )
            for placement in placed
        }

    def url(self, key: str) -> str:
        """The URL of a folder for the catalog."""
        found = self.context.url(key)
        return f"{self.scheme}://{found.removeprefix('s3://')}" if found[:5] == "s3://" else found

    def check(self, table: Table, placed: Sequence[Placed]) -> None:
        """Return if an existing table is suitable for these objects.

        Raises:
            ValueError: it is not; the message has the reason.
        """
        folders = {placement.place.folder for placement in placed}
        wanted = self.url(min(folders))
        if len(folders) > 1 or _normal(table.location) != _normal(wanted):
            other = self.url(max(folders)) if len(folders) > 1 else table.location
            raise ValueError(
                f"is at {other}, and the topic at {wanted}: two topics or destinations, or another "
                "group, have a table of this name; options table and tables give other ones"
            )
        if not table.is_external:
            raise ValueError(
                "is managed, so that dropping it would delete landed objects; make it external, "
                "without external.table.purge, or drop it without its data"
            )
        keys = placed[0].place.keys
        if tuple(key.lower() for key in table.keys) != keys:
            raise ValueError(
                f"has the partition keys {', '.join(table.keys) or 'none'}, and the route "
                f"{', '.join(keys)}; drop the table, or name another one with option table"
            )

    def check_partitions(
        self, table: Table, wanted: Iterable[Partition], found: Iterable[Partition]
    ) -> None:
        """Return if existing partitions have the desired locations.

        Raises:
            ValueError: one is not.
        """
        locations = {partition.values: partition.location for partition in wanted}
        for partition in found:
            location = locations.get(partition.values, partition.location)
            if _normal(partition.location) != _normal(location):
                named = "/".join(
                    f"{k}={v}" for k, v in zip(table.keys, partition.values, strict=True)
                )
                raise ValueError(
                    f"partition {named} is at {partition.location}, and its objects at {location}; "
                    "drop the partition, which leaves its files alone"
                )


def _normal(location: str) -> str:
    """Normalize a location so that one folder has one: Hadoop writes some differently."""
    scheme, _, rest = location.partition(":")
    scheme = "s3" if scheme in {"s3a", "s3n"} else scheme
    return f"{scheme}:{re.sub('^/+', '', rest).rstrip('/')}"
