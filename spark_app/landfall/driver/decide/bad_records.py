"""Decide whether a topic partition has too many bad records to continue. Pure.

It stops if its bad records within ``badRecords.window`` are at least ``minCount`` and more than
``maxRatio`` of its records in that time. Only this driver's records count: what a driver before it
landed is not counted. Nothing is lost by that: bad records are dead letters until they stop the
topic partition.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache

from landfall.api.next_steps import SEE_VALUE
from landfall.api.spec import BadRecords
from landfall.api.values import format_duration
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice

STEPS = 12
"""Into how many steps the window is divided: counts leave it a step at a time."""


@dataclass(frozen=True, slots=True)
class _WindowCount:
    """Records landed from ``since``, for one step of the window."""

    since: datetime
    bad: int
    records: int


@dataclass
class BadRecordHistory:
    """Counts records and bad records by topic partition and time; see the module.

    Attributes:
        limits: the section of the spec.
        permitted: below which offset a topic partition's bad records are allowed in any number,
            because an operator permitted it.
    """

    limits: BadRecords
    permitted: Mapping[TopicPartition, int] = field(default_factory=dict)
    _counts: dict[TopicPartition, tuple[_WindowCount, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._of_topic = cache(self.limits.for_topic)

    def landed(self, slices: Iterable[LandedSlice], now: datetime) -> None:
        """Count committed slices, except those whose bad records a decision permitted."""
        for landed in slices:
            tp = landed.piece.topic_partition
            if landed.piece.offsets.end <= self.permitted.get(tp, -1):
                continue
            window = self._of_topic(tp.topic).window
            self._counts[tp] = _added(
                self._recent(tp, now),
                _WindowCount(now, landed.dead_lettered, _records(landed)),
                window,
            )

    def error(
        self, tp: TopicPartition, slices: Sequence[LandedSlice], now: datetime
    ) -> Stalled | None:
        """Return why these slices of a topic partition must not be committed; else None."""
        counted = [s for s in slices if s.piece.offsets.end > self.permitted.get(tp, -1)]
        new = sum(s.dead_lettered for s in counted)
        if not new:
            return None
        before, limits = self._recent(tp, now), self._of_topic(tp.topic)
        bad = new + sum(count.bad for count in before)
        records = sum(map(_records, counted)) + sum(count.records for count in before)
        if bad < limits.min_count or bad <= limits.max_ratio * records:
            return None
        first = next((error for s in counted for error in s.errors), "")
        offsets = f"[{counted[0].piece.offsets.start}, {counted[-1].piece.offsets.end})"
        return Stalled(
            Reason.BAD_RECORDS,
            f"{tp}: {bad} of {records} records within {format_duration(limits.window)} are bad, "
            f"{new} of them in {offsets}, "
            f"more than maxRatio {limits.max_ratio:g} allows; first: {first}; {SEE_VALUE}",
        )

    def _recent(self, tp: TopicPartition, now: datetime) -> tuple[_WindowCount, ...]:
        window = self._of_topic(tp.topic).window
        return tuple(count for count in self._counts.get(tp, ()) if now - count.since < window)


def _added(
    counts: tuple[_WindowCount, ...], new: _WindowCount, window: timedelta
) -> tuple[_WindowCount, ...]:
    if not counts or new.since - counts[-1].since >= window / STEPS:
        return (*counts, new)
    last = counts[-1]
    return (*counts[:-1], _WindowCount(last.since, last.bad + new.bad, last.records + new.records))


def _records(landed: LandedSlice) -> int:
    return landed.landed + landed.filtered + landed.dead_lettered
