"""Tables of files in a catalog, such as a Hive metastore: folders become partitions of tables.

A table is external: its location is the folder of a topic, and each folder below it is a partition
with values of its own. Readers list the folder, so an object in an existing partition needs no
more. ``naming`` maps an object to its table and partition, ``hive_types``, ``storage`` and
``files`` define the table, ``step`` publishes. Each catalog is one module that implements
``Catalog``: ``landfall.publish.catalog.hive``, ``landfall.publish.catalog.glue``.

Nothing is ever deleted: not a table, a partition, a column or an object.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Columns = Mapping[str, str]
"""Types as Hive writes them, such as ``array<string>``, by name in lower case, in order."""
Values = tuple[str, ...]
"""The values that identify a partition, one for each of the table's keys."""


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table, and of the database that it is in."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


@dataclass(frozen=True, slots=True)
class Storage:
    """How Hive reads and writes files of a format.

    Attributes:
        input_format: class of the input format.
        output_format: class of the output format.
        serde: class that makes columns of the input format's output.
        parameters: of the SerDe.
        classification: AWS Glue's name of the format.
    """

    input_format: str
    output_format: str
    serde: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    classification: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as it is in the catalog, or as desired.

    Attributes:
        name: its name.
        location: URL of its folder.
        columns: without the keys of partitions.
        keys: what its partitions are found by, in order; all of type string.
        storage: None for what is not known.
        properties: of the table.
        is_external: whether dropping it leaves the objects alone.
        found: the table as the catalog describes it.
    """

    name: TableName
    location: str
    columns: Columns
    keys: tuple[str, ...]
    storage: Storage | None
    properties: Mapping[str, str]
    is_external: bool = True
    found: Any = None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as it is in the catalog, or as desired.

    Attributes:
        values: one for each key of the table.
        location: URL of its folder.
        columns: those that readers look for in its objects.
        found: the partition as the catalog describes it.
    """

    values: Values
    location: str
    columns: Columns
    found: Any = None


class TableChanged(Exception):  # noqa: N818  # the name is the state
    """Another client has changed the table since it was loaded."""


class Catalog(Protocol):
    """The tables of a catalog.

    Every method raises ``Retry`` if the catalog does not answer or the outcome is unknown; each may
    be called again. ``Stalled``, with the name of the table, means that a user must act.
    """

    def load(self, name: TableName) -> Table | None:
        """The table as it is now; None if it, or its database, does not exist."""
        ...

    def create(self, table: Table) -> None:
        """Create a table, unless one of its name exists."""
        ...

    def change(self, table: Table, columns: Columns, properties: Mapping[str, str]) -> None:
        """Give a table other columns and properties.

        Raises:
            TableChanged: it is not as it was loaded; nothing was done.
        """
        ...

    def partitions(self, table: Table, values: Sequence[Values]) -> list[Partition]:
        """Return the partitions that exist, of those with these values."""
        ...

    def add(self, table: Table, partitions: Sequence[Partition]) -> None:
        """Add the partitions that do not exist; existing ones stay as they are."""
        ...

    def widen(self, table: Table, partitions: Sequence[Partition], columns: Columns) -> None:
        """Give partitions, as they were found, these columns."""
        ...
