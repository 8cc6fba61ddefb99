"""Wall time of a time zone, a column at a time. Pure: no I/O but the time zone database, no clock, no logging.

The shift between UTC and wall time is constant within nearly every hour, so it is asked of
``zoneinfo`` once per distinct hour in a column, at both of its ends. Only hours whose ends disagree
(a transition inside, as in zones shifted by half an hour, at 00:01, or by odd seconds before 1900)
are asked second by second. Instants are seconds since 1970.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from landfall.pipeline.records import Int64s

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # wall time, on purpose
MIN_SECONDS = -62_135_596_800
"""0001-01-01T00:00:00."""
MAX_SECONDS = 253_402_300_799
"""9999-12-31T23:59:59."""
_DAY = 86_400


def distinct(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Return ``(codes, values)``: the sorted distinct numbers, and for each row which of them it is."""
    if not len(numbers):
        return numbers, numbers
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > 4 * len(numbers) + 1024:
        values, codes = np.unique(numbers, return_inverse=True)
        return codes.astype(np.int64, copy=False), values
    # close together, as times of one batch are: a table beats sorting
    seen = np.zeros(high - low + 1, np.bool_)
    seen[numbers - low] = True
    return (np.cumsum(seen) - 1)[numbers - low], np.flatnonzero(seen) + low


@dataclass(frozen=True)
class Zone:
    """A time zone by its IANA name."""

    name: str

    @cached_property
    def info(self) -> ZoneInfo:
        """The zone's rules."""
        return ZoneInfo(self.name)

    @cached_property
    def is_utc(self) -> bool:
        """Whether wall time is UTC."""
        return self.name in {"UTC", "Etc/UTC"}

    def to_local(self, utc: Int64s) -> Int64s:
        """Wall time, shape (rows,): when clocks go back, two instants an hour apart have one wall time."""
        return utc if self.is_utc else utc + self._shift(utc, _shift_at_utc)

    def to_utc(self, local: Int64s) -> Int64s:
        """Instants of wall times, shape (rows,).

        A wall time that comes twice means the first, one that is skipped is read as if clocks had
        not moved yet (PEP 495).
        """
        return local if self.is_utc else local - self._shift(local, _shift_at_local)

    def _shift(self, seconds: Int64s, shift_at: Callable[[ZoneInfo, int], int]) -> Int64s:
        codes, hours = distinct(seconds // 3600)
        first = self._ask(shift_at, (hours * 3600).tolist())
        last = self._ask(shift_at, (hours * 3600 + 3599).tolist())
        shift = first[codes]
        torn = np.flatnonzero((first != last)[codes])
        if len(torn):
            codes, moments = distinct(seconds[torn])
            shift[torn] = self._ask(shift_at, moments.tolist())[codes]
        return shift

    def _ask(self, shift_at: Callable[[ZoneInfo, int], int], moments: Sequence[int]) -> Int64s:
        return np.fromiter(
            (shift_at(self.info, moment) for moment in moments), np.int64, len(moments)
        )


def _moment(seconds: int) -> datetime:
    # a day of room at both ends of the calendar, where no zone moves its clocks
    return EPOCH + timedelta(seconds=min(max(seconds, MIN_SECONDS + _DAY), MAX_SECONDS - _DAY))


@lru_cache(1 << 16)
def _shift_at_utc(zone: ZoneInfo, seconds: int) -> int:
    return _seconds(_moment(seconds).replace(tzinfo=UTC).astimezone(zone).utcoffset())


@lru_cache(1 << 16)
def _shift_at_local(zone: ZoneInfo, seconds: int) -> int:
    return _seconds(_moment(seconds).replace(tzinfo=zone).utcoffset())


def _seconds(shift: timedelta | None) -> int:
    assert shift is not None, "a zone's time has a shift"
    return int(shift.total_seconds())
