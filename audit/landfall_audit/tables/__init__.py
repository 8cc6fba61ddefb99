"""Tables of Delta and Iceberg: compared with the landed objects that they are to have.

Whether the objects are right is the business of ``checks``. Here they are what is expected: a table
names the slot of the ledger through which it has everything, and the ledger shows which objects
counted at that slot. Of these, a table of all rows has each row once. A keyed table has of each key
the newest row, unless it deletes the key.

- ``delta`` and ``iceberg`` open a table with the library of its format, in one version.
- ``row_texts`` makes a text of each row, the same for the same values in objects and tables.
- ``rows`` keeps hashes of rows in files, by their keys, and compares them; it is pure but for the
  files.
- ``table_check`` works through the tables of a group.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from landfall_audit import Fault

PARTITION, OFFSET = "_partition", "_offset"
"""The columns of landed files that name the record of a row."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table.

    Attributes:
        in_files: by its name in the table, the names that a column may have in landed files.
    """

    in_files: Mapping[str, Sequence[str]]

    def of_file(self, names: Sequence[str]) -> dict[str, str]:
        """The columns that a file has, by their names in the table."""
        found = {
            column: next((name for name in candidates if name in names), None)
            for column, candidates in self.in_files.items()
        }
        return {column: name for column, name in found.items() if name is not None}

    def named(self, name: str) -> str | None:
        """The column of the table that has this name in landed files; None if there is none."""
        return next((c for c, names in self.in_files.items() if name in names), None)


class OpenedTable(Protocol):
    """One version of a table.

    Attributes:
        through: the slot through which it has everything; -1 if it has nothing of the group.
        other_lanes: groups, with their lanes, that have rows in it, too.
        columns: that it has.
    """

    @property
    def through(self) -> int: ...  # noqa: D102
    @property
    def other_lanes(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def columns(self) -> TableColumns: ...  # noqa: D102

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows with some of their columns."""
        ...


class TableFormat(Protocol):
    """Names and opens the tables of a publisher."""

    def table_of(self, topic: str, generation: int) -> str:
        """The name of the table of objects."""
        ...

    def open(self, table: str, last: int) -> OpenedTable | None:
        """Open the newest version that has nothing later than a slot; None if there is none.

        Raises:
            AuditRetry: the catalog, or the store of the table, does not answer as it should.
            AuditStalled: a setting is wrong, or a package is not installed.
        """
        ...


@dataclass
class TableResult:
    """Findings in one table. The attributes are fields of ``audit --tables --json``.

    Attributes:
        publisher: its name.
        table: its name or URL.
        through: the slot of the ledger through which it has everything.
        expected: rows of landed objects that count at that slot.
        found: of these, rows that the table has.
        missing: of these, rows that it has not.
        duplicate: rows beyond the first of an expected one.
        corrupted: rows of an expected record with other values.
        outdated: rows that were landed, and do not count: an older row of a key, a deleted one.
        foreign: rows that no landed object has, which counts at that slot.
        added: rows without an offset, which other programs have added.
        unchecked: why the table cannot be compared; empty if it can.
        error: what was not available to compare it; empty if all was.
        rows: examples of what is wrong, by its kind.
        faults: objects that are lost or damaged.
    """

    publisher: str
    table: str
    through: int = -1
    expected: int = 0
    found: int = 0
    missing: int = 0
    duplicate: int = 0
    corrupted: int = 0
    outdated: int = 0
    foreign: int = 0
    added: int = 0
    unchecked: str = ""
    error: str = ""
    rows: dict[str, list[str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    @property
    def is_compared(self) -> bool:
        """Return whether the table was compared."""
        return not (self.unchecked or self.error)

    @property
    def is_whole(self) -> bool:
        """Return whether nothing is wrong in what was compared."""
        wrong = self.missing, self.duplicate, self.corrupted, self.outdated, self.foreign
        return not (any(wrong) or self.faults)


def filled(template: str, topic: str, generation: int) -> str:
    """The name of a table by a template."""
    return template.replace("{topic}", topic).replace("{generation}", str(generation))


def slot_in(text: Any) -> int:
    """The slot that a table names as its position.

    Raises:
        ValueError: it is none.
    """
    found = int(str(text)[:20])
    if found < -1:
        raise ValueError(f"{found} is no slot")
    return found
