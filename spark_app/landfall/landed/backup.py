"""Another group's records at offsets that Kafka has lost, as a ``source.Backup``.

Its ledger is read: a few requests for each question, however much that group has landed. What is
committed and not confirmed yet is looked up in its store, and is never called lost: it is in the
ledger for good. That an object is gone or damaged which was visible, the task finds out that reads
it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from threading import Lock

from landfall.errors import Reason, Stalled
from landfall.landed import pieces
from landfall.landed.history import History, Life
from landfall.landed.pieces import FoundRange
from landfall.landed.what_counts import WhatCounts
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import CoveredPrefix

MAX_OFFSETS = 1_000_000
"""How many offsets are looked up at once: each COMMIT about them is read."""


class LandedBackup:
    """A ``source.Backup``. Thread-safe, for a driver that has ended may still be asking."""

    def __init__(self, group: str, field: str, open_history: Callable[[], History]) -> None:
        """Connect at the first question.

        Args:
            group: the name of the other group.
            field: of the spec that names it, for messages.
            open_history: opens the history of its lane.
        """
        self.group = group
        self._field = field
        self._open_history = open_history
        self._lock = Lock()

    @cached_property
    def _history(self) -> History:
        return self._open_history()

    @cached_property
    def _what_counts(self) -> WhatCounts:
        return WhatCounts(self._history, self._field)

    def first_stretch(
        self, tp: TopicPartition, topic_id: str, offsets: OffsetRange
    ) -> CoveredPrefix:
        """See ``source.Backup``."""
        with self._lock:
            return self._first_stretch(tp, topic_id, offsets)

    def _first_stretch(
        self, tp: TopicPartition, topic_id: str, offsets: OffsetRange
    ) -> CoveredPrefix:
        self._history.follow()
        life = self._history.life(tp)
        if life is None or life.topic_id != topic_id:
            return _lacking(offsets, another_topic(self.group, life, topic_id), tp)
        if offsets.start < life.start:
            before = OffsetRange(offsets.start, min(life.start, offsets.end))
            return _lacking(before, f"{self.group} began at offset {life.start}", tp)
        if life.end <= offsets.start < life.committed:
            committed = OffsetRange(offsets.start, min(offsets.end, life.committed))
            return CoveredPrefix(committed, self._unconfirmed(tp, life), is_committed=True)
        if offsets.start >= life.end:
            why = f"{self.group} has landed it up to offset {life.end}"
            return replace(_lacking(offsets, why, tp), is_final=life.ended >= 0)
        end = min(offsets.end, life.end, offsets.start + MAX_OFFSETS)
        return self._within(Slice(tp, OffsetRange(offsets.start, end)), life)

    def _unconfirmed(self, tp: TopicPartition, life: Life) -> Stalled:
        """Why what is committed and not visible has to wait."""
        return Stalled(
            Reason.SOURCE_UNAVAILABLE,
            f"{tp}: {self.group} has committed it up to offset {life.committed}, but its objects "
            f"from offset {life.end} on are not visible yet; the driver of {self.group} makes "
            "them visible: see that it runs and that its store answers",
        )

    def _within(self, slice_: Slice, life: Life) -> CoveredPrefix:
        """The first stretch of a range that the other group has dealt with."""
        tp = slice_.topic_partition
        stretch, why = first_stretch(
            slice_.offsets,
            self._what_counts.of(slice_, life).found,
            lambda offset: pieces.not_landed(self.group, tp, offset),
        )
        return CoveredPrefix(stretch, why, is_final=why is not None)


def another_topic(group: str, life: Life | None, topic_id: str) -> str:
    """Return what is wrong with a life of a topic partition that is not of this topic."""
    if life is None:
        return f"{group} has never landed it"
    return (
        f"{group} has landed another topic of this name: its id is {life.topic_id}, not {topic_id}"
    )


def _lacking(offsets: OffsetRange, why: str, tp: TopicPartition) -> CoveredPrefix:
    return CoveredPrefix(offsets, Stalled(Reason.DATA_LOSS, f"{tp}: {why}"), is_final=True)


def first_stretch(
    offsets: OffsetRange, ranges: Iterable[FoundRange], not_landed: Callable[[int], Stalled]
) -> tuple[OffsetRange, Stalled | None]:
    """The first part of a range that can be read, or that cannot be, and then why.

    An offset can be read if a range without a fault covers it, and none with one.

    Args:
        offsets: the range; not empty.
        ranges: what is known, in any order; they may overlap.
        not_landed: returns what is wrong with an offset that no range covers.
    """
    edges: dict[int, Counter[Stalled | None]] = {offsets.start: Counter()}
    for range_, why in ranges:
        start, end = max(range_.start, offsets.start), min(range_.end, offsets.end)
        if start < end:
            edges.setdefault(start, Counter())[why] += 1
            edges.setdefault(end, Counter())[why] -= 1
    covering, first = Counter[Stalled | None](), tuple[Stalled | None, ...]()
    for edge in sorted(edges):
        for why, change in edges[edge].items():
            covering[why] += change
        faults = [why for why, count in covering.items() if why and count > 0]
        wrong = None if covering[None] and not faults else next(iter(faults), not_landed(edge))
        if not first:
            first = (wrong,)
        elif (wrong is None) != (first[0] is None):
            return OffsetRange(offsets.start, edge), first[0]
    return offsets, first[0]
