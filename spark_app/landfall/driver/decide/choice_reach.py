"""Find the offsets that a backfill's choice may reach: a first look at a ledger. Pure.

To know exactly what counts takes two kilobytes of memory for each object. A backfill of an hour
needs to know that for the hour alone, and only once the ledger has been read it is known in which
offsets the rows of an hour are. So records are looked at one by one, and of what a choice may take,
no more than the first and the last offset of each topic partition is kept. What was replaced since
is taken in, too: the second look, at these offsets alone, decides.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from landfall.driver.decide.backfill import Backfill, SliceChoice, chosen, reached
from landfall.driver.decide.counting import Ranges
from landfall.driver.decide.landed_now import LandedNow
from landfall.errors import Stalled
from landfall.ledger import Record, time_of
from landfall.ledger.effects import (
    LettersReplayed,
    ObjectsReplaced,
    RangeLanded,
    SpecOpened,
    effects,
)
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.replace.replacement_lists import ReplacementList, Section
from landfall.ledger.task_results import LandedObject, LandedSlice, ReplayedSlice


class ChoiceReach:
    """The ranges, in the records read so far, that a choice may take.

    Slices are chosen by when they were landed, and by the objects that hold their rows, which may
    be of another record. A slice that is chosen has rows both of what is in time and of objects
    that are chosen.
    """

    def __init__(self, group: str, choice: SliceChoice) -> None:
        """``group`` is the name of the group whose ledger it is."""
        self._group = group
        self._choice = choice
        self._generation = 0
        self._in_time: dict[TopicPartition, OffsetRange] = {}
        self._held: dict[TopicPartition, OffsetRange] = {}
        self._named: dict[TopicPartition, OffsetRange] = {}

    def take(self, record: Record, listed: ReplacementList | None = None) -> None:
        """Take the next record in; ``listed`` is what the list of a REPLACE holds."""
        for effect in effects(record):
            match effect:
                case SpecOpened():
                    self._generation = effect.generation
                case RangeLanded(slot=slot, landed=landed, time=time):
                    self._land(landed, time_of(slot, time), self._generation)
                case LettersReplayed(landed=again):
                    self._hold(again)
                case ObjectsReplaced(record=replace) if listed is not None:
                    self._replace(listed, time_of(replace.header.seq, replace.header.time))
                case _:
                    pass

    @property
    def ranges(self) -> Ranges:
        """From the first to the last offset that may be chosen, by topic partition."""
        if not self._choice.needs_objects:
            return self._in_time
        found = dict(self._named)  # every one has an object
        for tp in self._in_time.keys() & self._held.keys():
            if (both := _common(self._in_time[tp], self._held[tp])) is not None:
                _widen(found, Slice(tp, both))
        return found

    def _land(self, landed: LandedSlice, time: datetime, generation: int) -> None:
        if self._choice.is_in_time(landed.piece.topic_partition.topic, time):
            _widen(self._in_time, landed.piece)
            if generation in self._choice.generations:  # without rows, no object names it
                _widen(self._held, landed.piece)
        self._hold(landed)

    def _hold(self, landed: LandedSlice | ReplayedSlice) -> None:
        for object_ in landed.objects:
            self._look(object_, [landed.piece])

    def _replace(self, listed: ReplacementList, time: datetime) -> None:
        for again in listed.landed_again:
            if self._choice.is_in_time(again.piece.topic_partition.topic, time):
                _widen(self._in_time, again.piece)
                if listed.made_by and listed.made_by.generation in self._choice.generations:
                    _widen(self._held, again.piece)
        for new in listed.objects:
            self._look(new.landed, self._slices(new.landed, new.sections))

    def _look(self, landed: LandedObject, slices: Iterable[Slice]) -> None:
        """Look at an object with rows of some slices."""
        key = landed.key
        takes = self._choice.takes(landed, object_names.origin(self._group, key).generation)
        if not (takes or key in self._choice.keys):
            return
        for slice_ in slices:
            if takes:
                _widen(self._held, slice_)
            if key in self._choice.keys:
                _widen(self._named, slice_)

    def _slices(self, landed: LandedObject, sections: Iterable[Section]) -> Iterator[Slice]:
        topic = object_names.origin(self._group, landed.key).topic
        for section in sections:
            offsets = OffsetRange(section.first_offset, section.last_offset + 1)
            yield Slice(TopicPartition(topic, section.partition), offsets)


def chosen_within(
    within: Ranges, read: Callable[[Ranges], LandedNow], choice: SliceChoice
) -> tuple[LandedNow, Backfill]:
    """Return what is landed in the ranges that a choice may reach, and what it lands again.

    An object that cannot be cut may have rows outside of these ranges, which are read then, too.

    Args:
        within: what ``ChoiceReach`` has found.
        read: what is landed in some ranges.
        choice: what is chosen.

    Raises:
        Stalled, Retry: as ``backfill.chosen``, and as ``read``.
    """
    while True:
        landed = read(within)
        if (wider := _widened(within, _reached(landed, choice))) == within:
            return landed, chosen(landed, choice)
        within = wider


def _reached(landed: LandedNow, choice: SliceChoice) -> Ranges:
    try:
        return reached(landed, choice)
    except Stalled:  # ``chosen`` raises this, after it has looked at names
        return {}


def _widened(ranges: Ranges, others: Ranges) -> Ranges:
    wider = dict(ranges)
    for tp, offsets in others.items():
        _widen(wider, Slice(tp, offsets))
    return wider


def _widen(ranges: dict[TopicPartition, OffsetRange], slice_: Slice) -> None:
    tp, offsets = slice_.topic_partition, slice_.offsets
    before = ranges.get(tp, offsets)
    ranges[tp] = OffsetRange(min(before.start, offsets.start), max(before.end, offsets.end))


def _common(one: OffsetRange, other: OffsetRange) -> OffsetRange | None:
    start, end = max(one.start, other.start), min(one.end, other.end)
    return OffsetRange(start, end) if start < end else None
