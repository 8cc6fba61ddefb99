"""Finds the outcome of one offset, as far as the ledger alone shows it. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from landfall.ledger import Purpose, Record, Replace
from landfall.ledger.effects import (
    Effect,
    LettersReplayed,
    LifetimeBegan,
    LifetimeEnded,
    ObjectGivenUp,
    ObjectsReplaced,
    RangeLanded,
    RangeSkipped,
    effects,
)
from landfall.ledger.names import object_names
from landfall.ledger.names.object_names import MergePlace, merge_place
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.replace.replacement_lists import (
    LandedAgain,
    NewObject,
    ReplacementList,
    Section,
)
from landfall.ledger.replace.replacing import changes_rows
from landfall.ledger.task_results import DecidedObject, LandedObject, LandedSlice, ReplayedSlice


@dataclass(frozen=True, slots=True)
class Unknown:
    """No ADD ever added the topic partition."""


@dataclass(frozen=True, slots=True)
class BeforeStart:
    """Landing began at a later offset, ``start``."""

    start: int


@dataclass(frozen=True, slots=True)
class NotLanded:
    """The offset is not landed yet; ``checkpoint`` is the next offset to land.

    If the topic partition has left, ``left`` is the slot of the DROP; -1 if it is a member.
    """

    checkpoint: int
    left: int = -1


@dataclass(frozen=True, slots=True)
class SkippedOffset:
    """The offset was skipped by the HOLE in ``slot``: lost in Kafka, or by a decision."""

    slot: int
    hole: RangeSkipped


@dataclass(frozen=True, slots=True)
class Committed:
    """The COMMIT in ``slot`` covers the offset.

    Its record is in one of the slice's objects, or was filtered, or is invisible. If dead letters
    of the slice were replayed, it may be in one of the new objects instead.

    Attributes:
        slot: of the COMMIT.
        landed: the slice that covers the offset.
        replays: slots of REPLAYs of the slice's dead letters, with what they landed.
        lost: objects that a LOST gave up, by key, with its slot.
        replacements: REPLACEs of objects that may hold the offset, applied or not.
        again: the range of a backfill that the offset counts in now; None for the COMMIT's range.
    """

    slot: int
    landed: LandedSlice
    replays: tuple[tuple[int, ReplayedSlice], ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    replacements: tuple[Replace, ...] = ()
    again: LandedAgain | None = None

    @property
    def now(self) -> LandedSlice | LandedAgain:
        """The range that the offset counts in, with its counters."""
        return self.again or self.landed

    def candidates(self, offset: int) -> tuple[LandedObject, ...]:
        """The objects, dead letters included, that may hold the offset.

        Dead letters that were replayed are left out: their records are in the new objects.
        """
        replayed = {s.dead_letters for _, s in self.replays}
        objects = (*self.landed.objects, *(o for _, s in self.replays for o in s.objects))
        return tuple(
            o
            for o in objects
            if o.first_offset <= offset <= o.last_offset and o.upload.key not in replayed
        )

    @property
    def schemas(self) -> frozenset[str]:
        """The SHA-256s of the schemas that the slice, or its replay, was decoded with."""
        replayed = (name for _, s in self.replays for name in s.schemas)
        return frozenset((*self.now.schemas, *replayed))

    def slot_of(self, landed: LandedObject) -> int:
        """The slot of the COMMIT or REPLAY that names one of the candidates."""
        return next((slot for slot, s in self.replays if landed in s.objects), self.slot)


OffsetState = Unknown | BeforeStart | NotLanded | SkippedOffset | Committed


def find_offset(records: Iterable[Record], tp: TopicPartition, offset: int) -> OffsetState:
    """Return an offset's outcome by the whole ledger; of a recreated topic, in its last life."""
    state: OffsetState = Unknown()
    for effect in (effect for record in records for effect in effects(record, tp)):
        match effect:
            case LifetimeBegan(entry=entry) if entry.topic_partition == tp:
                is_before = offset < entry.start
                state = BeforeStart(entry.start) if is_before else NotLanded(entry.start)
            case LifetimeEnded(slot=slot, topic_partition=left) if left == tp:
                state = replace(state, left=slot) if isinstance(state, NotLanded) else state
            case RangeSkipped(piece=piece) if piece.topic_partition == tp:
                state = _passed(state, piece.offsets, offset, SkippedOffset(effect.slot, effect))
            case RangeLanded(landed=landed) if landed.piece.topic_partition == tp:
                covering = Committed(effect.slot, landed)
                state = _passed(state, landed.piece.offsets, offset, covering)
            case _ if isinstance(state, Committed):
                state = _changed(state, effect, tp, offset)
            case _:
                pass
    return state


def _changed(state: Committed, effect: Effect, tp: TopicPartition, offset: int) -> Committed:
    match effect:
        case ObjectsReplaced(record=record):
            spans = (s.offsets for s in record.slices if s.topic_partition == tp)
            if any(offset in span for span in spans):
                return replace(state, replacements=(*state.replacements, record))
        case ObjectGivenUp(slot=slot, key=key):
            return replace(state, lost={**state.lost, key: slot})
        case LettersReplayed(slot=slot, landed=again):
            # By offset: what is replayed may have replaced the COMMIT's dead letters.
            if again.piece.topic_partition == tp and offset in again.piece.offsets:
                return replace(state, replays=(*state.replays, (slot, again)))
        case _:
            pass
    return state


def _passed(
    state: OffsetState, offsets: OffsetRange, offset: int, covering: OffsetState
) -> OffsetState:
    """The state after a record passed a range; ``covering`` if the offset is in it."""
    return covering if offset in offsets else _advanced(state, offsets.end)


def _advanced(state: OffsetState, end: int) -> OffsetState:
    if isinstance(state, NotLanded):
        return NotLanded(max(state.checkpoint, end))
    return state


def row_of(landed: LandedObject | Section, offset: int) -> int | None:
    """The row of an offset, counted from 0; None if only reading the object can show it.

    The row follows from the offset if the object, or the section of a merged one, holds every
    offset from its first to its last.
    """
    is_dense = landed.rows == landed.last_offset - landed.first_offset + 1
    return (
        offset - landed.first_offset
        if is_dense and landed.first_offset <= offset <= landed.last_offset
        else None
    )


@dataclass(frozen=True, slots=True)
class CandidateRows(DecidedObject):
    """Rows of an object that may hold an offset.

    Attributes:
        first_row: of these rows in the object, counted from 0.
        rows: which rows they are: all, or the rows of a section.
        is_in_order: whether they are in the order of their offsets.
        is_alone: whether all of them are of the same Kafka partition.
    """

    first_row: int
    rows: LandedObject | Section
    is_in_order: bool = True
    is_alone: bool = True

    def row_of(self, offset: int) -> int | None:
        """The row of an offset in the object; None if only reading the object can show it."""
        row = row_of(self.rows, offset) if self.is_in_order else None
        return None if row is None else self.first_row + row


def leaving_out(replacements: Iterable[Replace]) -> Replace | None:
    """The last of these that may have left records out: a duplicate, or by other code."""
    is_merge = Purpose.COMPACT
    found = (
        replacement
        for replacement in replacements
        if replacement.duplicates or replacement.purpose is not is_merge
    )
    return next(iter([*found][-1:]), None)


def places(
    group: str,
    tp: TopicPartition,
    offset: int,
    committed: Committed,
    replaced: Iterable[tuple[Replace, ReplacementList]],
) -> list[CandidateRows]:
    """Where an offset may be.

    What merges rows of a former life of the topic partition has none of this one.

    Args:
        group: name of the group.
        tp: the topic partition.
        offset: in it.
        committed: what the ledger records of it.
        replaced: the REPLACEs that concern it and are applied, with their lists.
    """
    found = [CandidateRows(committed.slot_of(o), o, 0, o) for o in committed.candidates(offset)]
    replayed = {slice_.dead_letters for _, slice_ in committed.replays}
    for record, listed in replaced:
        retired = {object_.key for object_ in listed.retire}
        gone = [place for place in found if place.key in retired]
        found = [place for place in found if place.key not in retired]
        is_merge = not changes_rows(record.purpose, record.undoes)
        sources = {merge_place(group, place.key) for place in gone}
        made = {new.key: merge_place(group, new.key) for new in listed.objects}
        for new in listed.objects:
            is_own = not is_merge or _is_made_of(made[new.key], sources, made.values())
            if new.key in replayed or not is_own:
                continue
            if object_names.origin(group, new.key).topic == tp.topic:
                found += _places_in(record.header.seq, new, tp.partition, offset)
    return found


def _is_made_of(
    place: MergePlace, sources: Collection[MergePlace], made: Collection[MergePlace]
) -> bool:
    """Return whether a merged object may have rows of objects at these places, which retire.

    If none of the new ones has the generation of a source, as earlier software merged it, any of
    its folder may.
    """
    moved = {folder for folder, generation in sources if (folder, generation) not in made}
    return place in sources or place[0] in moved


def _places_in(slot: int, new: NewObject, partition: int, offset: int) -> Iterator[CandidateRows]:
    first_row = 0
    for section in new.sections:
        is_in = section.partition == partition
        if is_in and section.first_offset <= offset <= section.last_offset and section.rows:
            if new.mixed:
                is_alone = {other.partition for other in new.sections} == {partition}
                yield CandidateRows(
                    slot, new.landed, 0, new.landed, is_in_order=False, is_alone=is_alone
                )
                return
            yield CandidateRows(slot, new.landed, first_row, section)
        first_row += section.rows
