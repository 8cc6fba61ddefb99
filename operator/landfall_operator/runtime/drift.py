"""How often an object that somebody keeps changing is put back.

The first changes are put back at once. Then somebody else, such as a controller, insists: the
object is put back at longer intervals, so that the two do not write in a circle, and an Event says
so.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from landfall_operator.core.cache import Key

AT_ONCE = 3
"""How often an object is put back at once."""
INTERVAL = 600.0
"""Seconds between two repairs of an object after that, and until the count begins anew."""


@dataclass(slots=True)
class _Repairs:
    count: int
    last: float


class DriftLimit:
    """Counts, for each object, how often it was put back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives the time in seconds."""
        self._clock = clock
        self._repairs: dict[tuple[Key, str], _Repairs] = {}

    def count(self, key: Key, name: str) -> int:
        """Count a repair of an object; returns how many there were in a row, 0 if it must wait."""
        now = self._clock()
        known = self._repairs.get((key, name))
        waited = known is None or now - known.last >= INTERVAL
        if known is None or (waited and known.count < AT_ONCE):
            self._repairs[key, name] = _Repairs(1, now)
            return 1
        if known.count >= AT_ONCE and not waited:
            return 0
        known.count, known.last = known.count + 1, now
        return known.count

    def forget(self, key: Key) -> None:
        """Forget the objects of a group."""
        self._repairs = {at: value for at, value in self._repairs.items() if at[0] != key}
