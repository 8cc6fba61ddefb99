"""The time, for those that wait by it: dated like the wall clock, but passing as the monotonic clock does.

Somebody sets a wall clock right, by an hour perhaps. What measures waiting by it then lands nothing
for an hour, or believes that a driver did nothing for one. Here an hour's jump is followed slowly,
as `adjtime(3)` does it, so that every interval is right to a tenth and times of different machines
agree again after a while.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock

LEAN = 0.1
"""By how much of the time that passes the clock may lean towards the wall clock; below 1, so that
it never goes back.
"""


def wall_clock() -> datetime:
    """What the machine believes the time to be."""
    return datetime.now(UTC)


class SteadyClock:
    """Tells the time; from any thread."""

    def __init__(
        self,
        wall: Callable[[], datetime] = wall_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with the time on the wall; ``monotonic`` counts seconds."""
        self._wall, self._monotonic = wall, monotonic
        self._told, self._at = wall(), monotonic()
        self._one_at_a_time = Lock()

    def __call__(self) -> datetime:
        """The time, never before what was told earlier."""
        with self._one_at_a_time:
            at, wall = self._monotonic(), self._wall()
            passed = timedelta(seconds=at - self._at)
            lean = passed * LEAN
            ahead = self._told + passed
            self._told, self._at = min(max(wall, ahead - lean), ahead + lean), at
            return self._told
