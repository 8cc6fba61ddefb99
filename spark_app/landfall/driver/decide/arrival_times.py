"""How long records have waited, by the end offsets that the driver saw. Pure.

Kafka can return which offset a time has, but not which time an offset has, and a producer may write
any timestamp it likes. So the driver remembers when it first saw each end offset: a record has
waited since the driver first saw an end offset beyond it. Records that were there before the driver
started are dated by their Kafka timestamps, once.
"""

from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime

MARKS = 256
"""Observations kept per topic partition. Beyond that, neighbors are merged, which overstates an age
a little and never understates it.
"""


@dataclass(frozen=True, slots=True)
class ArrivalTimes:
    """End offsets of one topic partition and when each was first seen.

    Attributes:
        ends: every offset below ``ends[i]`` was in the log at ``times[i]``; increasing.
        times: increasing.
    """

    ends: tuple[int, ...] = ()
    times: tuple[datetime, ...] = ()

    def record(self, end: int, now: datetime) -> "ArrivalTimes":
        """Add an observation: at ``now`` the log ended at ``end``. Only growth counts."""
        if self.ends and end <= self.ends[-1]:
            return self
        ends, times = (*self.ends, end), (*self.times, now)
        return (
            ArrivalTimes(ends, times)
            if len(ends) <= MARKS
            else ArrivalTimes(ends[1::2], times[::2][: len(ends[1::2])])
        )

    def landed(self, checkpoint: int) -> "ArrivalTimes":
        """Return the same without the records below ``checkpoint``, which are landed."""
        keep = bisect_right(self.ends, checkpoint)
        return ArrivalTimes(self.ends[keep:], self.times[keep:]) if keep else self

    def oldest_at(self, checkpoint: int) -> datetime | None:
        """Return when the oldest unlanded record was first seen; None if nothing is unlanded."""
        at = bisect_right(self.ends, checkpoint)
        return self.times[at] if at < len(self.ends) else None
