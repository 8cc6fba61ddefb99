"""What counts of a range as another group's ledger says: which objects, landed by whom. Pure.

A COMMIT names the objects of its ranges. By a REPLACE that is applied, others have taken their
place: of a merged object, *sections* say which rows come from which topic partition. A backfill
takes the place of the ranges themselves, too, and what undoes it brings them back. What was
superseded is no more a reason to refuse a range than it is one to read it.

Records that a REPLAY has landed are read from their dead letters, which hold them as they were. So
their rows in data objects are left out, also where they were merged with those of COMMITs. Once
these dead letters have expired, the objects of the REPLAY are all there is: then they are read, if
the spec that made them keeps what Kafka held.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from landfall.errors import Reason, Stalled
from landfall.ledger import Record, Replace
from landfall.ledger.effects import (
    LettersReplayed,
    ObjectsReplaced,
    RangeLanded,
    RangeSkipped,
    effects,
)
from landfall.ledger.names import object_names
from landfall.ledger.names.object_names import MergePlace, merge_place
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import LandedAgain, NewObject, ReplacementList
from landfall.ledger.replace.replacing import changes_rows
from landfall.ledger.task_results import (
    DecidedObject,
    LandedObject,
    LandedSlice,
    ObjectKind,
    ReplayedSlice,
)

RowRange = tuple[int, int]
"""The rows ``first <= row < end`` of an object."""
FoundRange = tuple[OffsetRange, Stalled | None]
"""A range that was landed or skipped, and why it cannot be read; None if nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Piece(DecidedObject):
    """An object that holds records of a topic partition.

    Attributes:
        first_offset: of its first record of the topic partition.
        last_offset: of its last one.
        rows: which of its rows are of the topic partition; None for all.
    """

    first_offset: int
    last_offset: int
    rows: tuple[RowRange, ...] | None

    @property
    def is_dead_letters(self) -> bool:
        """Whether it holds dead letters."""
        return self.landed.kind is ObjectKind.DEAD_LETTERS


@dataclass(frozen=True)
class RangeContents:
    """What holds the records of a range.

    Attributes:
        pieces: in the order of their first offsets.
        end: up to where they hold all of it.
        why: what is wrong from there on; None if the range is held to its end.
    """

    pieces: tuple[Piece, ...]
    end: int
    why: Stalled | None = None


@dataclass(frozen=True, slots=True)
class CountingRange:
    """A range as it was landed last, and the slot of the record that did.

    That is a COMMIT, a backfill, or a REPLAY whose dead letters have expired.
    """

    slot: int
    landed: LandedSlice | LandedAgain | ReplayedSlice

    @property
    def offsets(self) -> OffsetRange:
        """Its offsets."""
        return self.landed.piece.offsets


@dataclass
class Counting:
    """What counts in and around a slice, through the last record taken in.

    Attributes:
        group: the name of the group that landed it.
        slice_: the slice.
        ranges: that are landed.
        pieces: the objects that hold them, by key.
        mixed: by key, objects of which nothing says which rows are whose, and the offsets in them.
        faults: ranges that cannot be read for another reason than what is in ``ranges``.
        expired: dead letters that slots up to this one name have expired; -1 for none.
    """

    group: str
    slice_: Slice
    ranges: list[CountingRange] = field(default_factory=list)
    pieces: dict[str, Piece] = field(default_factory=dict)
    mixed: dict[str, FoundRange] = field(default_factory=dict)
    faults: list[FoundRange] = field(default_factory=list)
    expired: int = -1
    _before: dict[int, "_EarlierPieces"] = field(default_factory=dict)
    _sections: dict[str, frozenset["Bounds"]] = field(default_factory=dict)
    _replayed: dict[str, frozenset["Bounds"]] = field(default_factory=dict)

    @property
    def found(self) -> Iterator[FoundRange]:
        """Return what is known of ranges; what none without a fault covers is in no COMMIT."""
        for range_ in self.ranges:
            yield range_.offsets, _why_left_out(self.group, range_.landed)
        yield from self.mixed.values()
        yield from self.faults

    def pieces_with(self, offsets: OffsetRange) -> Iterator[Piece]:
        """The objects that have rows from these offsets, as far as their sections say."""
        for key, piece in self.pieces.items():
            bounds = self._sections[key]
            if any(first < offsets.end and offsets.start <= last for first, last in bounds):
                yield piece

    def take(self, record: Record, listed: ReplacementList | None) -> None:
        """Take the next record in, with the list of a REPLACE that is applied."""
        for effect in effects(record, self.slice_.topic_partition):
            match effect:
                case RangeLanded(slot=seq, landed=landed) if self._is_own(landed.piece):
                    self.ranges.append(CountingRange(seq, landed))
                    self._put_landed(seq, landed.objects)
                case RangeSkipped():
                    self.faults.append((effect.piece.offsets, _skipped(self.group, effect)))
                case LettersReplayed(slot=seq, landed=again) if self._is_own(again.piece):
                    self._replay(seq, again)
                case ObjectsReplaced() if listed is not None:
                    self._replace(effect.record, listed)
                case _:
                    pass

    def _is_own(self, piece: Slice) -> bool:
        return piece.topic_partition == self.slice_.topic_partition

    def _replay(self, seq: int, again: ReplayedSlice) -> None:
        letters = self.pieces.get(again.dead_letters)
        if letters is not None and letters.slot <= self.expired:
            self._take_replayed(seq, again)
            return
        for object_ in again.objects:
            bounds = frozenset([(object_.first_offset, object_.last_offset)])
            self._replayed[object_.upload.key] = bounds

    def _take_replayed(self, seq: int, again: ReplayedSlice) -> None:
        """Let the objects of a REPLAY count instead of the dead letters that it has read."""
        del self.pieces[again.dead_letters], self._sections[again.dead_letters]
        self.ranges.append(CountingRange(seq, again))
        self._put_landed(seq, again.objects)

    def _put_landed(self, seq: int, objects: Iterable[LandedObject]) -> None:
        for object_ in objects:
            bounds = object_.first_offset, object_.last_offset
            self.pieces[object_.upload.key] = Piece(seq, object_, *bounds, rows=None)
            self._sections[object_.upload.key] = frozenset([bounds])

    def _replace(self, record: Replace, listed: ReplacementList) -> None:
        seq, retired = record.header.seq, dict[str, frozenset[Bounds]]()
        replayed = frozenset[Bounds]()
        for key in (object_.key for object_ in listed.retire):
            self.pieces.pop(key, None)
            self.mixed.pop(key, None)
            replayed |= self._replayed.pop(key, frozenset())
            if sections := self._sections.pop(key, None):
                retired[object_names.renamed(key, 0)] = sections
        before = self._before.get(
            record.undoes, _EarlierPieces(self._landed_again(seq, listed), {})
        )
        if changes_rows(record.purpose, record.undoes):
            unnamed = self._without_unnamed(record)
            swapped = self._swapped(record, before.ranges)
            self._before[seq] = _EarlierPieces(swapped, retired, replayed, unnamed)
            for key, (piece, sections) in before.unnamed.items():
                self.pieces[key], self._sections[key] = piece, sections
        # A backfill lands the records themselves again: none of its rows is of a REPLAY.
        left_out = frozenset() if listed.made_by else replayed | before.replayed
        # A backfill lands what is present; a merge may be of rows of a former life. Copies have
        # the names of what they are copies of, but for the plan.
        known = None if listed.made_by else self._known({**retired, **before.objects}, listed)
        for new in listed.objects:
            if found := self._rows_of(new, left_out, known):
                self._put(seq, new, found)

    def _landed_again(self, seq: int, listed: ReplacementList) -> list[CountingRange]:
        tp = self.slice_.topic_partition
        pieces = (range_ for range_ in listed.landed_again if range_.piece.topic_partition == tp)
        return [CountingRange(seq, piece) for piece in pieces]

    def _without_unnamed(self, record: Replace) -> "Mapping[str, tuple[Piece, frozenset[Bounds]]]":
        """Leave out objects of ranges that are landed again and no REPLACE names; return them.

        They are dead letters that a REPLAY has used up, and objects that were given up. But the
        former were read instead of the objects of the REPLAY, and the latter are missed.
        """
        tp = self.slice_.topic_partition
        spans = [slice_.offsets for slice_ in record.slices if slice_.topic_partition == tp]
        found = [
            key
            for key, piece in self.pieces.items()
            if any(piece.first_offset in span for span in spans)
        ]
        return {key: (self.pieces.pop(key), self._sections.pop(key)) for key in found}

    def _swapped(self, record: Replace, again: Iterable[CountingRange]) -> list[CountingRange]:
        """Replace the ranges that a REPLACE concerns, and return the latter."""
        tp = self.slice_.topic_partition
        spans = [slice_.offsets for slice_ in record.slices if slice_.topic_partition == tp]
        gone = [r for r in self.ranges if any(r.offsets.start in span for span in spans)]
        self.ranges = [r for r in self.ranges if r not in gone] + [*again]
        return gone

    def _rows_of(
        self,
        new: NewObject,
        left_out: frozenset["Bounds"],
        known: frozenset[tuple[MergePlace, "Bounds"]] | None,
    ) -> "_PieceRows | None":
        """Return the rows of a new object of this life of the topic partition; None if none is.

        Sections outside the slice are left out: no caller asks for them, and a REPLAY that landed
        them is not among the records.

        Args:
            new: the object.
            left_out: bounds of sections of REPLAYs.
            known: places and bounds of the sections that it may be made of; others are of a former
                life. None if all of its rows are of this life.
        """
        tp, key = self.slice_.topic_partition, new.key
        if object_names.origin(self.group, key).topic != tp.topic:
            return None
        at = 0
        rows = list[RowRange]()
        bounds = list[Bounds]()
        place = merge_place(self.group, key)
        for section in new.sections:
            own = (section.first_offset, section.last_offset)
            if section.partition == tp.partition and section.rows:
                if own in left_out:
                    again = self._replayed.get(key, frozenset())
                    self._replayed[key] = again | {own}
                elif self._is_wanted(own) and (known is None or (place, own) in known):
                    rows.append((at, at + section.rows))
                    bounds.append(own)
            at += section.rows
        if not rows:
            return None
        is_whole = len(rows) == len(new.sections)
        return _PieceRows(frozenset(bounds), None if is_whole else tuple(rows))

    def _known(
        self, sources: Mapping[str, frozenset["Bounds"]], listed: ReplacementList
    ) -> "frozenset[tuple[MergePlace, Bounds]]":
        """The places and bounds of sections that new objects may be made of.

        An object is merged within its folder and generation, and a former life has earlier
        generations. What no object of its folder has may be in any of its generation; and what
        none of its generation has, as earlier software has merged it, in any.
        """
        own = {
            (merge_place(self.group, key), bounds)
            for key, sections in sources.items()
            for bounds in sections
        }
        new = {
            (merge_place(self.group, object_.key), (section.first_offset, section.last_offset))
            for object_ in listed.objects
            for section in object_.sections
            if section.partition == self.slice_.topic_partition.partition
        }
        moved = {(generation, bounds) for (_, generation), bounds in own - new}
        away = {bounds for _, bounds in moved - {(place[1], bounds) for place, bounds in new}}
        elsewhere = {
            (place, bounds)
            for place, bounds in new
            if (place[1], bounds) in moved or bounds in away
        }
        return frozenset(own & new | elsewhere)

    def _is_wanted(self, bounds: "Bounds") -> bool:
        offsets = self.slice_.offsets
        return bounds[0] < offsets.end and offsets.start <= bounds[1]

    def _put(self, seq: int, new: NewObject, rows: "_PieceRows") -> None:
        key = new.key
        first = min(first for first, _ in rows.bounds)
        last = max(last for _, last in rows.bounds)
        self._sections[key] = rows.bounds
        if new.mixed:
            why = Stalled(
                Reason.SPEC_INVALID,
                f"{key}: {self.group} has sorted its rows, or left duplicates out, when it put it "
                f"in the place of others in slot {seq}: {self.slice_.topic_partition} cannot be "
                "landed from it",
            )
            self.mixed[key] = OffsetRange(first, last + 1), why
        else:
            self.pieces[key] = Piece(
                slot=seq,
                landed=new.landed,
                first_offset=first,
                last_offset=last,
                rows=rows.rows,
            )


Bounds = tuple[int, int]
"""The first and the last offset of a section."""


@dataclass(frozen=True, slots=True)
class _PieceRows:
    """The rows of an object that are of the topic partition: their sections, and where they are."""

    bounds: frozenset[Bounds]
    rows: tuple[RowRange, ...] | None


@dataclass(frozen=True, slots=True)
class _EarlierPieces:
    """What a backfill, or its undoing, has replaced by other ranges and objects."""

    ranges: list[CountingRange]
    objects: Mapping[str, frozenset[Bounds]]
    replayed: frozenset[Bounds] = frozenset()
    unnamed: Mapping[str, tuple[Piece, frozenset[Bounds]]] = field(default_factory=dict)


def counting(
    group: str,
    slice_: Slice,
    records: Iterable[Record],
    lists: Mapping[int, ReplacementList],
    expired: int = -1,
) -> Counting:
    """Return what counts of a slice.

    Args:
        group: the name of the group that landed it.
        slice_: the range.
        records: the COMMITs, HOLEs, REPLAYs and REPLACEs about it, in order.
        lists: of the REPLACEs that are applied, by slot.
        expired: dead letters that slots up to this one name have expired; -1 for none.
    """
    found = Counting(group, slice_, expired=expired)
    for record in records:
        found.take(record, lists.get(record.header.seq))
    return found


def held(counting: Counting) -> RangeContents:
    """What holds the records of a slice, up to the first that cannot be read."""
    end, why = _covered(counting)
    start = counting.slice_.offsets.start
    pieces = counting.pieces_with(OffsetRange(start, end)) if start < end else ()
    in_order = sorted(pieces, key=lambda p: (p.first_offset, p.key))
    return RangeContents(tuple(in_order), end, why)


def _why_left_out(group: str, landed: LandedSlice | LandedAgain | ReplayedSlice) -> Stalled | None:
    if not landed.filtered:
        return None
    return Stalled(
        Reason.SPEC_INVALID,
        f"{landed.piece}: {group} has left out {landed.filtered} of its records, by a transform; "
        "they are in no object",
    )


def _skipped(group: str, hole: RangeSkipped) -> Stalled:
    return Stalled(
        Reason.DATA_LOSS,
        f"{hole.piece}: {group} has skipped it in slot {hole.slot} of its ledger: "
        f"{hole.reason}; `landfall skip` skips it here, too",
    )


def _covered(counting: Counting) -> tuple[int, Stalled | None]:
    """Up to where ranges without a fault cover the slice, and what is wrong there."""
    offsets, found = counting.slice_.offsets, list(counting.found)
    at, faults = offsets.start, [(r, why) for r, why in found if why]
    for range_, why in sorted(found, key=lambda each: each[0]):
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
        return at, not_landed(counting.group, counting.slice_.topic_partition, at)
    return at, None


def not_landed(group: str, tp: TopicPartition, offset: int) -> Stalled:
    """Return what is wrong with an offset that no record is about."""
    return Stalled(Reason.DATA_LOSS, f"{tp}: offset {offset} is in no COMMIT of {group}")


def row_mask(rows: Sequence[RowRange], start: int, count: int) -> list[bool]:
    """Return which of the rows ``start <= row < start + count`` are in one of these ranges."""
    wanted = [False] * count
    for first, end in rows:
        low, high = max(first, start) - start, min(end, start + count) - start
        if low < high:
            wanted[low:high] = [True] * (high - low)
    return wanted
