"""Ranges that count as a backfill landed them, and no longer as COMMITs did. Pure.

The auditor does the same with code of its own (``landfall_audit.ledger.landed_again``).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from landfall.ledger import Purpose, Replace
from landfall.ledger.effects import Effect, LifetimeBegan, ObjectsReplaced
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import LandedAgain, NewObject, ReplacementList
from landfall.ledger.task_results import LandedObject, LandedSlice


@dataclass(frozen=True, slots=True)
class AgainSlice:
    """A slice of a backfill, with the slot of its REPLACE, and the objects that it names for it."""

    slot: int
    landed: LandedSlice

    @property
    def start(self) -> int:
        """Its first offset."""
        return self.landed.piece.offsets.start


Life = tuple[TopicPartition, int]
"""A topic partition, and the slot in which it entered."""


@dataclass
class LandedAgainNow:
    """The slices of backfills that count, through the last record taken in.

    Attributes:
        group: its name.
    """

    group: str
    _slices: dict[Life, list[AgainSlice]] = field(default_factory=lambda: defaultdict(list))
    _before: dict[int, dict[Life, list[AgainSlice]]] = field(default_factory=dict)
    _entered: dict[TopicPartition, list[int]] = field(default_factory=lambda: defaultdict(list))

    def take(self, effect: Effect, listed: ReplacementList | None = None) -> None:
        """Take in the next event, with the list of a REPLACE that is applied."""
        match effect:
            case LifetimeBegan():
                self._entered[effect.topic_partition].append(effect.slot)
            case ObjectsReplaced(slot=slot, record=record) if listed is not None:
                if record.purpose is Purpose.BACKFILL:
                    self._put(record, self._of(slot, listed))
                elif record.undoes in self._before:
                    self._put(record, self._before[record.undoes])
            case _:
                pass

    @property
    def slices(self) -> Iterator[LandedSlice]:
        """Those that count, by topic partition and offset."""
        return (again_slice.landed for again_slice in self.with_slots)

    @property
    def with_slots(self) -> Iterator[AgainSlice]:
        """The same, each with the slot of its REPLACE."""
        for life in sorted(self._slices):
            yield from self._slices[life]

    def replaced_by(self, slot: int, piece: Slice) -> int | None:
        """The slot of the backfill that landed a slice of this COMMIT again; None for none."""
        slices = self._slices.get(self._life(piece.topic_partition, slot), ())
        place = bisect_left(slices, piece.offsets.end, key=lambda each: each.start) - 1
        is_again = place >= 0 and slices[place].landed.piece.offsets.end > piece.offsets.start
        return slices[place].slot if is_again else None

    def _life(self, tp: TopicPartition, slot: int) -> Life:
        """The life that a topic partition had in a slot."""
        entered = self._entered[tp]
        place = bisect_left(entered, slot) - 1
        return tp, entered[place] if place >= 0 else -1

    def _put(self, record: Replace, new: Mapping[Life, Sequence[AgainSlice]]) -> None:
        gone: dict[Life, list[AgainSlice]] = {}
        for slice_ in record.slices:
            life = self._life(slice_.topic_partition, record.header.seq)
            before = self._slices[life]
            gone[life] = [
                again_slice for again_slice in before if again_slice.start in slice_.offsets
            ]
            kept = [
                again_slice for again_slice in before if again_slice.start not in slice_.offsets
            ]
            kept += new.get(life, ())
            self._slices[life] = sorted(kept, key=lambda each: each.start)
        self._before[record.header.seq] = gone

    def _of(self, slot: int, listed: ReplacementList) -> Mapping[Life, list[AgainSlice]]:
        objects, found = _by_range(self.group, listed), defaultdict[Life, list[AgainSlice]](list)
        for again in listed.landed_again:
            life = self._life(again.piece.topic_partition, slot)
            found[life].append(AgainSlice(slot, _as_slice(again, objects[again.piece])))
        return found


def in_force(
    tp: TopicPartition, offset: int, replaced: Iterable[tuple[Replace, ReplacementList]]
) -> tuple[int, LandedAgain] | None:
    """The range of a backfill that an offset counts in, with the slot of its REPLACE.

    Args:
        tp: the topic partition.
        offset: in it.
        replaced: the REPLACEs that concern it and are applied, in order, with their lists.
    """
    now: tuple[int, LandedAgain] | None = None
    before: dict[int, tuple[int, LandedAgain] | None] = {}
    for record, listed in replaced:
        slot = record.header.seq
        if record.purpose is Purpose.BACKFILL:
            before[slot] = now
            now = next(
                (
                    (slot, again)
                    for again in listed.landed_again
                    if again.piece.topic_partition == tp and offset in again.piece.offsets
                ),
                None,
            )
        elif record.undoes in before:
            before[slot], now = now, before[record.undoes]
    return now


def _by_range(group: str, listed: ReplacementList) -> dict[Slice, list[LandedObject]]:
    """The new objects by the range that their rows are of."""
    found: dict[Slice, list[LandedObject]] = defaultdict(list)
    pieces = [again.piece for again in listed.landed_again]
    for new in listed.objects:
        at = _tp(group, new), new.landed.first_offset
        place = bisect_right(pieces, at, key=lambda p: (p.topic_partition, p.offsets.start)) - 1
        found[pieces[place]].append(new.landed)
    return found


def _tp(group: str, new: NewObject) -> TopicPartition:
    origin = object_names.origin(group, new.key)
    return TopicPartition(origin.topic, origin.partition)


def _as_slice(again: LandedAgain, objects: Iterable[LandedObject]) -> LandedSlice:
    return LandedSlice(
        piece=again.piece,
        objects=tuple(objects),
        landed=again.landed,
        filtered=again.filtered,
        dead_lettered=again.dead_lettered,
        invisible=again.invisible,
        input_bytes=again.input_bytes,
        schemas=again.schemas,
    )
