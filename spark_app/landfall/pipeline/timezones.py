"""Conversion between UTC and wall time of a time zone, a column at a time.

A zone's offset from UTC is constant within nearly every hour, so ``zoneinfo`` is asked once for
each distinct hour in a column, at both ends of the hour. Only in hours whose two ends disagree is
it asked for each distinct second: a transition falls inside such an hour, as in zones shifted by
half an hour, in zones that change at 00:01, and before 1900, when offsets had odd seconds.

Instants and wall times are seconds since 1970. Pure: no I/O but the time zone
database, no clock, no logging.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

import numpy as np

from landfall.pipeline.records import Int64s

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # wall time has no zone
MIN_SECONDS = -62_135_596_800
"""0001-01-01T00:00:00."""
MAX_SECONDS = 253_402_300_799
"""9999-12-31T23:59:59."""
_DAY = 86_400


def distinct(numbers: Int64s) -> tuple[Int64s, Int64s]:
    """Return ``(codes, values)``: the distinct numbers, sorted, and each row's index in them."""
    if not len(numbers):
        return numbers, numbers
    low, high = int(numbers.min()), int(numbers.max())
    if high - low > 4 * len(numbers) + 1024:
        values, codes = np.unique(numbers, return_inverse=True)
        return codes.astype(np.int64, copy=False), values
    # Times of one batch are close together, and then a lookup table is faster than sorting.
    seen = np.zeros(high - low + 1, np.bool_)
    seen[numbers - low] = True
    return (np.cumsum(seen) - 1)[numbers - low], np.flatnonzero(seen) + low


@dataclass(frozen=True)
class Zone:
    """A time zone by its IANA name."""

    name: str

    @cached_property
    def info(self) -> ZoneInfo:
        """The rules of the zone."""
        return ZoneInfo(self.name)

    @cached_property
    def is_utc(self) -> bool:
        """Return whether wall time is UTC."""
        return self.name in {"UTC", "Etc/UTC"}

    def to_local(self, utc: Int64s) -> Int64s:
        """Return wall times, shape (rows,).

        When clocks are set back, two instants an hour apart have the same wall time.
        """
        return utc if self.is_utc else utc + self._offsets(utc, _offset_at_utc)

    def to_utc(self, local: Int64s) -> Int64s:
        """Return the instants of wall times, shape (rows,).

        A wall time that occurs twice means the first occurrence; one that is skipped is read as if
        the clocks had not been set forward yet (PEP 495, ``fold=0``).
        """
        return local if self.is_utc else local - self._offsets(local, _offset_at_local)

    def _offsets(self, seconds: Int64s, offset_at: Callable[[ZoneInfo, int], int]) -> Int64s:
        """Return the offset from UTC in seconds, for each row."""
        codes, hours = distinct(seconds // 3600)
        at_start = self._each(offset_at, (hours * 3600).tolist())
        at_end = self._each(offset_at, (hours * 3600 + 3599).tolist())
        offsets = at_start[codes]
        in_transition = np.flatnonzero((at_start != at_end)[codes])
        if len(in_transition):
            codes, moments = distinct(seconds[in_transition])
            offsets[in_transition] = self._each(offset_at, moments.tolist())[codes]
        return offsets

    def _each(self, offset_at: Callable[[ZoneInfo, int], int], moments: Sequence[int]) -> Int64s:
        return np.fromiter(
            (offset_at(self.info, moment) for moment in moments), np.int64, len(moments)
        )


def _datetime(seconds: int) -> datetime:
    # A day away from both ends of the calendar, or converting to a zone would leave the calendar.
    # No zone changes its offset in the first or last day.
    return EPOCH + timedelta(seconds=min(max(seconds, MIN_SECONDS + _DAY), MAX_SECONDS - _DAY))


@lru_cache(1 << 16)
def _offset_at_utc(zone: ZoneInfo, seconds: int) -> int:
    return _seconds(_datetime(seconds).replace(tzinfo=UTC).astimezone(zone).utcoffset())


@lru_cache(1 << 16)
def _offset_at_local(zone: ZoneInfo, seconds: int) -> int:
    return _seconds(_datetime(seconds).replace(tzinfo=zone).utcoffset())


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None, "an aware datetime has an offset"
    return int(offset.total_seconds())
