"""Checks that the old program's objects and the start of the ledger meet. Pure.

With L the last offset of the old rows, C what it is if each offset has a row, F the first new one:

=================  ===========  ======================================================
offsets in rows    F            result
=================  ===========  ======================================================
stored             = L + 1      joined, if each offset of Secor's last upload has a row
stored             > L + 1      gap L+1..F-1: no old object has them
stored             < L + 1      overlap F..L: in old and new objects
not stored         = C + 1      joined, if each offset of the last objects has a row
not stored         > C + 1      gap C+1..F-1, unless so many had no row
not stored         < C + 1      overlap F..C at least, since no two rows have one offset
=================  ===========  ======================================================

Offsets without a row are records that compaction removed, markers of transactions, and messages
that the old program dropped: so a gap is where to look, not yet a loss.

Before all that, no old object may have a generation of Landfall's, and the first new objects must
be in the store, with the rows that the ledger records.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from landfall.ledger.offsets import TopicPartition
from landfall_migrate.new_objects import Start
from landfall_migrate.old_objects import OldObject


class Result(StrEnum):
    """How old and new objects meet in one topic partition."""

    JOINED = "joined"
    GAP = "gap"
    OVERLAP = "overlap"
    NOT_BEGUN = "not begun"
    """Neither the ledger nor the group records where the topic partition begins."""
    UNREADABLE = "unreadable"
    """An old object, or a first new one, is missing or cannot be read."""
    WRONG_GENERATION = "wrong generation"
    """An old object has the generation of new ones, or a higher one."""


@dataclass(frozen=True, slots=True)
class ReadObject:
    """The contents of an old object.

    Attributes:
        object: which.
        rows: how many.
        last: the highest offset; None if the format stores none.
        error: why it cannot be read; empty if it can.
    """

    object: OldObject
    rows: int = 0
    last: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Joint:
    """The join of old and new objects in one topic partition.

    Attributes:
        topic_partition: which.
        result: how.
        last_old: the last offset in old objects; the last for sure if the format stores none.
        first_new: the first offset that Landfall lands.
        first: of the gap or overlap.
        last: of the gap or overlap.
        by_offsets: whether the old rows have offsets; otherwise rows are counted.
        note: what is not proven, or why nothing is.
        old_object: the key of the object with the last old row, below the old root.
        new_object: the key of the object with the first new row; empty if nothing is landed.
    """

    topic_partition: TopicPartition
    result: Result
    last_old: int | None = None
    first_new: int | None = None
    first: int | None = None
    last: int | None = None
    by_offsets: bool = True
    note: str = ""
    old_object: str = ""
    new_object: str = ""

    @property
    def line(self) -> str:
        """The result on one line."""
        old = _place(self.last_old, self.old_object)
        new = _place(self.first_new, self.new_object)
        if self.first_new is not None and not self.new_object:
            new += ", not landed yet"
        where = f" {self.first}..{self.last}" if self.first is not None else ""
        note = f" ({self.note})" if self.note else ""
        head = f"{self.topic_partition}: last old {old}; first new {new}"
        return f"{head}: {self.result}{where}{note}"


_NO_OFFSETS = "the format stores no offsets: "


def _place(offset: int | None, key: str) -> str:
    return ("?" if offset is None else str(offset)) + (f" in {key}" if key else "")


def joint(tp: TopicPartition, read: Sequence[ReadObject], start: Start | None) -> Joint:
    """How the last old objects of a topic partition and its first new ones meet."""
    first_new, new = _begin(start)
    if errors := [f"{content.object.key}: {content.error}" for content in read if content.error]:
        note = "; ".join(errors)
        return Joint(tp, Result.UNREADABLE, first_new=first_new, note=note, new_object=new)
    by_offsets = all(content.last is not None for content in read if content.rows)
    last, key = _last(read, by_offsets=by_offsets)
    result, between, note = _meet(read, last, first_new, by_offsets=by_offsets)
    if start and start.error:
        result, between, note = Result.UNREADABLE, (None, None), start.error
    return Joint(tp, result, last, first_new, *between, by_offsets, note, key, new)


def _begin(start: Start | None) -> tuple[int | None, str]:
    """The first new offset, and the object with the first new row."""
    if start is None:
        return None, ""
    return start.offset, start.first.upload.key if start.first else ""


_Between = tuple[int | None, int | None]


def _meet(
    read: Sequence[ReadObject], last: int, first_new: int | None, *, by_offsets: bool
) -> tuple[Result, _Between, str]:
    """The result, from where to where it is not joined, and a note."""
    if first_new is None:
        return Result.NOT_BEGUN, (None, None), "neither the ledger nor startingOffsets has it"
    if first_new > last + 1:
        note = "no old object has them: check if they had records"
        if not by_offsets:
            note = f"{_NO_OFFSETS}unless so many offsets had no row"
        return Result.GAP, (last + 1, first_new - 1), note
    if first_new <= last:
        note = "" if by_offsets else f"{_NO_OFFSETS}at least these, by the count of rows"
        return Result.OVERLAP, (first_new, last), note
    if not by_offsets:
        return Result.JOINED, (None, None), f"{_NO_OFFSETS}if each offset up to it has a row"
    begin = min(content.object.offset for content in read)
    absent = last + 1 - begin - sum(content.rows for content in read)
    if absent > 0 and read[0].object.generation is not None:
        # An object of the last upload may be gone. Of Connect, each object is an upload of its own.
        note = f"of these, {absent} are in no object of Secor's last upload: check if they had "
        return Result.GAP, (begin, last), f"{note}records"
    return Result.JOINED, (None, None), ""


def _last(read: Sequence[ReadObject], *, by_offsets: bool) -> tuple[int, str]:
    """The last old offset and its object; without offsets, the least that it can be.

    Objects of one upload of Secor share their first offset, so that their rows are counted
    together; each object of Connect has a first offset of its own.
    """
    if by_offsets and any(content.last is not None for content in read):
        return max(
            (content.last, content.object.key) for content in read if content.last is not None
        )
    counts: dict[tuple[int, str], int] = {}
    keys: dict[tuple[int, str], str] = {}
    for content in read:
        own = "" if content.object.generation is not None else content.object.key
        at = (content.object.offset, own)
        counts[at] = counts.get(at, 0) + content.rows
        keys[at] = max(keys.get(at, ""), content.object.key)
    return max((offset + rows - 1, keys[offset, own]) for (offset, own), rows in counts.items())


def joints(
    read: Mapping[TopicPartition, Sequence[ReadObject]],
    starts: Mapping[TopicPartition, Start],
    misnamed: Iterable[tuple[OldObject, int]] = (),
) -> tuple[Joint, ...]:
    """One result per topic partition that has old objects, in order.

    Args:
        read: the last old objects.
        starts: where Landfall begins.
        misnamed: old objects whose generation is not below the one next to them.
    """
    found = {tp: joint(tp, objects, starts.get(tp)) for tp, objects in read.items()}
    for old, generation in misnamed:
        note = f"{old.key} has generation {old.generation}: generation must be above it, not "
        first_new, new = _begin(starts.get(old.topic_partition))
        found[old.topic_partition] = Joint(
            old.topic_partition,
            Result.WRONG_GENERATION,
            first_new=first_new,
            note=f"{note}{generation}",
            new_object=new,
        )
    return tuple(found[tp] for tp in sorted(found))
