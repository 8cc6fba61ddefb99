"""The state of published tables, as ``landfall table`` shows it. Pure.

A publisher whose destination has tables may offer ``HasTables``. It reads what the destination has
and changes nothing. What a destination does not show is None.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from landfall.publish import DueObjects, Hold

if TYPE_CHECKING:
    from landfall.publish.following import Follower


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a table.

    Attributes:
        now: the time.
        small_bytes: files below this size count as small.
        retired: replaced objects that are not deleted yet, by REPLACE, in the order of the slots.
    """

    now: datetime
    small_bytes: int
    retired: tuple[DueObjects, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The data files of a table's current version.

    Attributes:
        count: how many.
        bytes: of all of them.
        small: how many are smaller than ``Question.small_bytes``.
        deletes: files of deleted rows that readers apply to them: delete files, deletion vectors.
    """

    count: int
    bytes: int
    small: int
    deletes: int = 0

    @classmethod
    def of(cls, sizes: list[int], small_bytes: int, deletes: int = 0) -> "TableFiles":
        """The files of these sizes in bytes."""
        small = sum(size < small_bytes for size in sizes)
        return cls(len(sizes), sum(sizes), small, deletes)


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that a table keeps: snapshots of Iceberg, versions in the log of Delta.

    Attributes:
        count: with the current one.
        oldest: when the oldest one was committed; None if there is none.
        refs: the names of branches and tags but ``main``, sorted.
    """

    count: int
    oldest: datetime | None = None
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """The files of a table's metadata.

    Attributes:
        current_bytes: what a reader of the current version begins with: ``metadata.json``; or the
            last checkpoint and the commits after it.
        bytes: of all files that the table names, for all versions that it keeps; None if these are
            too many to look at.
        files: how many these are.
    """

    current_bytes: int
    bytes: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True)
class Care:
    """The maintenance of a table.

    Attributes:
        maintained: whether the publisher maintains it.
        last: when that last changed something; None if it never has, as far as is known.
        outcome: what it did then.
        garbage: files of metadata that nothing names any longer, and that the next time deletes.
    """

    maintained: bool
    last: datetime | None = None
    outcome: str = ""
    garbage: int = 0


@dataclass(frozen=True, slots=True)
class Details:
    """The facts that a destination shows of a table.

    Attributes:
        holds: for each REPLACE of ``Question.retired``, why its old objects must stay; None if no
            kept version names them.
    """

    files: TableFiles
    versions: Versions
    metadata: TableMetadata
    care: Care
    holds: tuple[Hold | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Retained:
    """Replaced objects of a table that are not deleted yet: their rows are stored twice.

    Attributes:
        objects: how many.
        bytes: of all of them.
        until: when they are looked at again; None if only the grace period keeps them.
        why: what names them; empty if only the grace period keeps them.
    """

    objects: int = 0
    bytes: int = 0
    until: datetime | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class TableHealth:
    """The state of a table.

    Attributes:
        table: its name or URL.
        slot: the slot of the ledger through which it has everything, as of the ledger's end.
        waiting_objects: objects that are visible, and that it does not have yet.
        waiting_replacements: REPLACEs that it has not followed yet.
        waiting_since: when the first of these became visible, ISO 8601 in UTC; empty for none.
        retained: replaced objects that are not deleted yet.
        exists: whether it exists; None if its destination did not answer.
        details: what its destination shows; None if it shows none of it.
        failed: whether the last pass of the publisher did not bring it up to date. The position of
            the publisher knows that, and not why.
        error: why its state is not known.
        needs_action: whether a user has to resolve that.
    """

    table: str
    slot: int
    waiting_objects: int = 0
    waiting_replacements: int = 0
    waiting_since: str = ""
    retained: Retained = Retained()
    exists: bool | None = None
    details: Details | None = None
    failed: bool = False
    error: str = ""
    needs_action: bool = False

    @property
    def lacks_any(self) -> bool:
        """Return whether it lacks anything."""
        return bool(self.waiting_objects or self.waiting_replacements)


@runtime_checkable
class HasTables(Protocol):
    """A publisher whose destination has tables."""

    def health(self, follower: "Follower", question: Question) -> Iterator[TableHealth]:
        """Yield the state of each table, sorted by name. Nothing is changed.

        Raises:
            Retry: the store does not answer, or the destination for several tables in a row.
            Stalled: the ledger is broken, or two topics share a table.
        """
        ...
