"""How many rows of each file of a feed were landed, as the records of a ledger count them.

COMMITs count by part (``PartRows``). A part that was parked has another number when it is tried
again, and what was landed under the first one belongs to the same file: it is counted under the
first number, by which files are known. A REPLAY takes dead letters away and records where they
went.

A merge changes neither count, and feeds are never landed again by a backfill. So these are the
figures of landing, with dead letters as replays have left them.

COMMITs of former releases do not count by part. What they have landed is unknown, never 0.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from landfall.ledger import Discover, PartList, Record
from landfall.ledger.effects import (
    LettersReplayed,
    LifetimeBegan,
    PartsNumbered,
    RangeLanded,
    effects,
)
from landfall.ledger.feeds import number_of
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice, ReplayedSlice

_FIELDS = 3


@dataclass(frozen=True, slots=True)
class FileRows:
    """The rows of a file that are landed, left out by a transform, and dead letters now."""

    landed: int
    filtered: int
    dead_letters: int


class FeedRows:
    """The rows of all parts of a feed. ``take`` its records in order, from the first on."""

    def __init__(
        self, tp: TopicPartition, read: Callable[[PartList], Sequence[ListedPart]]
    ) -> None:
        """Count nothing yet; ``read`` reads a list of parts that a DISCOVER names."""
        self._tp = tp
        self._read = read
        self._begin()

    def _begin(self) -> None:
        # Flat arrays, since a feed may have millions of parts.
        self._counts = array("q")
        self._unknown = bytearray()
        self._first: dict[int, int] = {}

    def take(self, record: Record) -> None:
        """Take the next record in; records about other topics change nothing.

        Raises:
            Stalled: LEDGER_BROKEN, a list is gone or damaged.
            Retry: the store does not answer.
        """
        for effect in effects(record, self._tp):
            match effect:
                case LifetimeBegan() if effect.topic_partition == self._tp:
                    self._begin()
                case PartsNumbered() if effect.topic_partition == self._tp:
                    self._renumber(effect.record)
                case RangeLanded(landed=landed):
                    self._count(landed, replayed=False)
                case LettersReplayed(landed=again):
                    self._count(again, replayed=True)
                case _:
                    pass

    def of(self, first: int, last: int) -> FileRows | None:
        """The rows of the parts with these numbers; None if they are not known."""
        if any(self._unknown[first : last + 1]):
            return None
        counts = self._counts[_FIELDS * first : _FIELDS * (last + 1)]
        landed, filtered, dead_letters = (sum(counts[field::_FIELDS]) for field in range(_FIELDS))
        return FileRows(landed, filtered, dead_letters)

    def _at(self, number: int) -> int:
        """The number under which a part is counted; there is room for it afterwards."""
        known = self._first.get(number, number)
        if missing := max(0, known + 1 - len(self._unknown)):
            self._counts.extend([0] * (_FIELDS * missing))
            self._unknown.extend(bytes(missing))
        return known

    def _renumber(self, record: Discover) -> None:
        if record.listed and record.again:
            for number, part in enumerate(self._read(record.listed), record.listed.first):
                if not part.is_new:
                    self._first[number] = self._first.get(part.former, part.former)

    def _count(self, landed: LandedSlice | ReplayedSlice, *, replayed: bool) -> None:
        if landed.piece.topic_partition != self._tp:
            return
        if landed.parts is UNSET:
            self._forget(landed.piece)
            return
        for part in landed.parts:
            at = _FIELDS * self._at(part.number)
            self._counts[at] += part.landed
            self._counts[at + 1] += part.filtered
            self._counts[at + 2] += part.dead_lettered - (part.rows if replayed else 0)

    def _forget(self, slice_: Slice) -> None:
        """Mark the landed rows of these offsets as unknown."""
        first, end = slice_.offsets.start, slice_.offsets.end
        for number in range(number_of(first), number_of(end - 1) + 1) if first < end else ():
            self._unknown[self._at(number)] = True
