"""Simulated time in which the driver's own CPU time passes for real.

Everything runs on one thread. What happens elsewhere is an event with a time. What the driver's
process computes is measured and added to the time, and its threads compute one after another, as
under Python's lock. So a slow driver delays what it schedules, as it does in a cluster.
"""

import heapq
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count


class Timeline:
    """What time it is, and what happens when.

    Attributes:
        start: what the clock shows in the beginning.
        now: seconds since then, on the driver's thread.
        cpu_seconds: what the driver's process has computed.
    """

    def __init__(self, start: datetime, cpu: Callable[[], float] = time.thread_time) -> None:
        """``cpu`` is what this thread has computed; a test makes it constant, so all is the same.

        Everything else that passes is simulated.
        """
        self.start, self.now, self.cpu_seconds = start, 0.0, 0.0
        self.cpu = cpu
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._free = 0.0
        self._mark = cpu()

    def clock(self) -> datetime:
        """The time on the driver's thread."""
        self._charge()
        self._happen(self.now)
        return self.start + timedelta(seconds=self.now)

    def at(self, seconds: float, event: Callable[[], object]) -> None:
        """Let something happen at a time."""
        heapq.heappush(self._events, (seconds, next(self._numbers), event))

    def compute(self, at: float, seconds: float) -> float:
        """Let a thread beside the driver's compute from a time on; returns when it is done."""
        self._free = max(self._free, at) + seconds
        self.cpu_seconds += seconds
        return self._free

    def pause(self, seconds: float) -> None:
        """Let the driver's thread wait for an answer."""
        self.wait(seconds, lambda: False)

    def wait(self, timeout: float, is_over: Callable[[], bool]) -> None:
        """Let the driver's thread wait until something is over, or for so many seconds."""
        self._charge()
        until = self.now + timeout
        self._happen(self.now)
        while not is_over():
            if not self._events or self._events[0][0] > until:
                self.now = until
                return
            self.now = max(self.now, self._events[0][0])
            self._happen(self.now)

    def _charge(self) -> None:
        """Add what the driver's thread has computed since the last time."""
        spent = self.cpu() - self._mark
        self.now = self._free = max(self.now, self._free) + spent
        self.cpu_seconds += spent
        self._mark = self.cpu()

    def _happen(self, until: float) -> None:
        """Let all happen that is due; what that computes is not the driver's."""
        while self._events and self._events[0][0] <= until:
            _, _, event = heapq.heappop(self._events)
            event()
        self._mark = self.cpu()
