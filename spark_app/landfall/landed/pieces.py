"""Which objects hold the records of a range, as the other group's ledger says. Pure.

A COMMIT names the objects of its ranges. By a REPLACE that is applied, others have taken their
place: of a merged object, *sections* say which rows come from which topic partition.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from landfall.errors import Reason, Stalled
from landfall.ledger import Commit, Hole, Record, Replace, object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replacement_lists import LandedAgain, NewObject, Replaced
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind

RowRange = tuple[int, int]
"""The rows ``first <= row < end`` of an object."""
FoundRange = tuple[OffsetRange, Stalled | None]
"""A range that was landed or skipped, and why it cannot be read; None if nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Piece:
    """An object that holds records of a topic partition.

    Attributes:
        slot: of the record that names it.
        landed: the object.
        first_offset: of its first record of the topic partition.
        last_offset: of its last one.
        rows: which of its rows are of the topic partition; None for all.
    """

    slot: int
    landed: LandedObject
    first_offset: int
    last_offset: int
    rows: tuple[RowRange, ...] | None = None

    @property
    def key(self) -> str:
        """The key of the object."""
        return self.landed.upload.key

    @property
    def is_dead_letters(self) -> bool:
        """Whether it holds dead letters."""
        return self.landed.kind is ObjectKind.DEAD_LETTERS


@dataclass(frozen=True)
class Held:
    """What holds the records of a range.

    Attributes:
        pieces: in the order of their first offsets.
        end: up to where they hold all of it.
        why: what is wrong from there on; None if the range is held to its end.
    """

    pieces: tuple[Piece, ...]
    end: int
    why: Stalled | None = None


@dataclass
class _Found:
    """What the records so far say."""

    slice_: Slice
    group: str
    pieces: dict[str, Piece] = field(default_factory=dict)
    ranges: list[FoundRange] = field(default_factory=list)


def held(
    group: str,
    slice_: Slice,
    records: Iterable[Record],
    lists: Mapping[int, Replaced],
) -> Held:
    """What holds the records of a slice.

    Args:
        group: the name of the group that landed it.
        slice_: the range.
        records: the COMMITs, HOLEs and REPLACEs about it, in order.
        lists: of the REPLACEs that are applied, by slot.
    """
    found = _found(group, slice_, records, lists)
    end, why = _covered(found)
    pieces = (p for p in found.pieces.values() if _overlaps(p, slice_.offsets.start, end))
    in_order = sorted(pieces, key=lambda p: (p.first_offset, p.key))
    return Held(tuple(in_order), end, why)


def ranges(
    group: str,
    slice_: Slice,
    records: Iterable[Record],
    lists: Mapping[int, Replaced],
) -> Sequence[FoundRange]:
    """What the records say of the ranges in and around a slice; the arguments are as of ``held``.

    What no range without a fault covers is in no COMMIT, or was skipped.
    """
    return _found(group, slice_, records, lists).ranges


def _found(
    group: str, slice_: Slice, records: Iterable[Record], lists: Mapping[int, Replaced]
) -> _Found:
    found = _Found(slice_, group)
    for record in records:
        match record:
            case Commit():
                for landed in record.slices:
                    if landed.piece.topic_partition == slice_.topic_partition:
                        _commit(found, record.header.seq, landed)
            case Hole():
                found.ranges.append((record.piece.offsets, _skipped(group, record)))
            case Replace():
                if listed := lists.get(record.header.seq):
                    _replace(found, record.header.seq, listed)
    return found


def _commit(found: _Found, seq: int, landed: LandedSlice) -> None:
    found.ranges.append((landed.piece.offsets, _why_left_out(found, landed)))
    for each in landed.objects:
        found.pieces[each.upload.key] = Piece(seq, each, each.first_offset, each.last_offset)


def _why_left_out(found: _Found, landed: LandedSlice | LandedAgain) -> Stalled | None:
    if not landed.filtered:
        return None
    return Stalled(
        Reason.SPEC_INVALID,
        f"{landed.piece}: {found.group} has left out {landed.filtered} of its records, by a "
        "transform; they are in no object",
    )


def _skipped(group: str, hole: Hole) -> Stalled:
    return Stalled(
        Reason.DATA_LOSS,
        f"{hole.piece}: {group} has skipped it in slot {hole.header.seq} of its ledger: "
        f"{hole.reason}; `landfall skip` skips it here, too",
    )


def _replace(found: _Found, seq: int, listed: Replaced) -> None:
    for again in listed.landed_again:
        if again.piece.topic_partition == found.slice_.topic_partition:
            found.ranges.append((again.piece.offsets, _why_left_out(found, again)))
    for retired in listed.retire:
        found.pieces.pop(retired.landed.upload.key, None)
    for new in listed.objects:
        if piece := _of_sections(found, seq, new):
            found.pieces[new.landed.upload.key] = piece


def _of_sections(found: _Found, seq: int, new: NewObject) -> Piece | None:
    """A new object as far as it has rows of the topic partition; None if it has none."""
    tp, key = found.slice_.topic_partition, new.landed.upload.key
    if object_names.origin(found.group, key).topic != tp.topic:
        return None
    at, rows, offsets = 0, list[RowRange](), list[int]()
    for section in new.sections:
        if section.partition == tp.partition and section.rows:
            rows.append((at, at + section.rows))
            offsets += (section.first_offset, section.last_offset)
        at += section.rows
    if not rows:
        return None
    first, last = min(offsets), max(offsets)
    if new.mixed:
        why = Stalled(
            Reason.SPEC_INVALID,
            f"{key}: {found.group} has sorted its rows, or left duplicates out, when it put it in "
            f"the place of others in slot {seq}: {tp} cannot be landed from it",
        )
        found.ranges.append((OffsetRange(first, last + 1), why))
        return None
    is_whole = len(rows) == len(new.sections)
    return Piece(seq, new.landed, first, last, None if is_whole else tuple(rows))


def _covered(found: _Found) -> tuple[int, Stalled | None]:
    """Up to where ranges without a fault cover the slice, and what is wrong there."""
    offsets = found.slice_.offsets
    at, faults = offsets.start, [(r, why) for r, why in found.ranges if why]
    for range_, why in sorted(found.ranges, key=lambda each: each[0]):
        if why is None and range_.start <= at < range_.end:
            at = range_.end
    at = min(at, offsets.end)
    first = min(
        ((max(r.start, offsets.start), why) for r, why in faults if r.end > offsets.start),
        default=None,
        key=lambda each: each[0],
    )
    if first and first[0] <= at and first[0] < offsets.end:
        return first
    if at < offsets.end:
        return at, not_landed(found.group, found.slice_.topic_partition, at)
    return at, None


def not_landed(group: str, tp: TopicPartition, offset: int) -> Stalled:
    """What is wrong with an offset that no record is about."""
    return Stalled(Reason.DATA_LOSS, f"{tp}: offset {offset} is in no COMMIT of {group}")


def _overlaps(piece: Piece, start: int, end: int) -> bool:
    return piece.first_offset < end and start <= piece.last_offset


def row_mask(rows: Sequence[RowRange], start: int, count: int) -> list[bool]:
    """Which of the rows ``start <= row < start + count`` are in one of these ranges."""
    wanted = [False] * count
    for first, end in rows:
        low, high = max(first, start) - start, min(end, start + count) - start
        if low < high:
            wanted[low:high] = [True] * (high - low)
    return wanted
