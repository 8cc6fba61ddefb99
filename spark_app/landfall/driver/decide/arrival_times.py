"""Since when records wait, from what the driver saw of the log's ends. Pure.

Kafka can say which offset a time has, not which time an offset has, and a producer may write any
timestamp it likes. So the driver remembers when it first saw each end offset; a record waits since
the first sight of an end beyond it. What was there before the driver started is dated by its Kafka
timestamp, once.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime

MARKS = 256
"""Sights kept per topic partition; past that, neighbours are merged and age is overstated a little,
never understated.
"""


@dataclass(frozen=True, slots=True)
class ArrivalTimes:
    """Sights of one topic partition: every offset below ``ends[i]`` was there at ``times[i]``; both increase."""

    ends: tuple[int, ...] = ()
    times: tuple[datetime, ...] = ()

    def see(self, end: int, now: datetime) -> "ArrivalTimes":
        """Note that the log ended at ``end`` when looked at ``now``; only growth counts."""
        if self.ends and end <= self.ends[-1]:
            return self
        ends, times = (*self.ends, end), (*self.times, now)
        return (
            ArrivalTimes(ends, times)
            if len(ends) <= MARKS
            else ArrivalTimes(ends[1::2], times[::2][: len(ends[1::2])])
        )

    def landed(self, checkpoint: int) -> "ArrivalTimes":
        """Forget what is landed."""
        keep = bisect_right(self.ends, checkpoint)
        return ArrivalTimes(self.ends[keep:], self.times[keep:]) if keep else self

    def since(self, checkpoint: int) -> datetime | None:
        """Since when the record at ``checkpoint`` waits; None when nothing beyond it was seen."""
        at = bisect_right(self.ends, checkpoint)
        return self.times[at] if at < len(self.ends) else None
