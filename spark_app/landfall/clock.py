"""A clock for measuring waits: dated by the wall clock, advancing like the monotonic clock.

A wall clock can be set, perhaps by an hour. Code that measures waits with it would then land
nothing for an hour, or would believe that a driver did nothing for one. This clock approaches a
changed wall clock slowly, as `adjtime(3)` does. Every interval is right to a tenth, and the clocks
of different machines agree again after a while.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock

MAX_SLEW = 0.1
"""Largest correction towards the wall clock, as a share of the time that passes. Below 1, so that
the clock never goes back.
"""


def wall_clock() -> datetime:
    """The machine's current time, in UTC."""
    return datetime.now(UTC)


class SteadyClock:
    """Returns the time when called; thread-safe."""

    def __init__(
        self,
        wall: Callable[[], datetime] = wall_clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start at the wall clock's time; ``monotonic`` counts seconds from any start."""
        self._wall = wall
        self._monotonic = monotonic
        self._last_time = wall()
        self._last_tick = monotonic()
        self._lock = Lock()

    def __call__(self) -> datetime:
        """The current time, never before a time returned earlier."""
        # Both clocks are read under the lock: otherwise two threads could return times out of
        # order.
        with self._lock:
            tick, wall = self._monotonic(), self._wall()
            passed = timedelta(seconds=tick - self._last_tick)
            slew = passed * MAX_SLEW
            expected = self._last_time + passed
            self._last_time = min(max(wall, expected - slew), expected + slew)
            self._last_tick = tick
            return self._last_time
