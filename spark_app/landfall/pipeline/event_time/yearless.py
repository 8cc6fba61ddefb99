"""Event times from dates without a year, as in syslog. Pure.

The year is the Kafka timestamp's, or the one before or after it: the one that brings the time
nearest to the Kafka timestamp. So a line of 31 December that reaches Kafka on 1 January is dated a
few minutes back, and not a year ahead. 29 February exists in leap years only; if none of the three
is one, the text is no time.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from landfall.api.spec import Timestamp
from landfall.pipeline.event_time.iso8601 import instant
from landfall.pipeline.event_time.numbers import (
    MAX_MILLIS,
    EventTimes,
    checked,
    expected,
    with_value,
)
from landfall.pipeline.records import Int64s
from landfall.pipeline.timezones import Zone

LEAP_YEAR = 2000
"""The year in which texts are parsed at first: it has all days."""
_DAY_MILLIS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def yearless_times(texts: pa.StringArray, timestamp: Timestamp, kafka: Int64s) -> EventTimes:
    """Return the times of text without nulls; ``kafka`` holds the rows' Kafka timestamps."""
    dates = _Dates(timestamp)
    micros, errors = np.zeros(len(texts), np.int64), {}
    invalid = f"timestamp: expected {expected(timestamp)}"
    for row, (text, near) in enumerate(zip(texts.to_pylist(), kafka.tolist(), strict=True)):
        if not 0 <= near <= MAX_MILLIS:
            errors[row] = (
                "timestamp: no year, and the record has no Kafka timestamp to take it from"
            )
        elif found := dates.candidates(text, near):
            micros[row] = min(found, key=lambda micros: abs(micros - near * 1000))
        else:
            errors[row] = with_value(invalid, text)
    times = checked(micros, texts)
    return EventTimes(times.micros, errors={**times.errors, **errors})


class _Dates:
    """The times that a text may mean; each text is parsed once."""

    def __init__(self, timestamp: Timestamp) -> None:
        self._layout = f"%Y {timestamp.format}"
        self._zone = Zone(timestamp.timezone)
        self._years: dict[int, int] = {}
        self._known: dict[tuple[str, int], Sequence[int]] = {}

    def candidates(self, text: str, near: int) -> Sequence[int]:
        """Microseconds in the year of a Kafka timestamp and the adjacent ones; none for no time."""
        day = near // _DAY_MILLIS
        if day not in self._years:
            self._years[day] = (_EPOCH + timedelta(days=day)).year
        key = (text, self._years[day])
        if key not in self._known:
            self._known[key] = self._in_years(*key)
        return self._known[key]

    def _in_years(self, text: str, year: int) -> Sequence[int]:
        try:
            date = datetime.strptime(f"{LEAP_YEAR} {text}", self._layout)  # noqa: DTZ007  # instant adds the zone
        except ValueError:
            return ()
        found = []
        for candidate in range(max(year - 1, 1), min(year + 1, 9999) + 1):
            try:
                found.append(instant(date.replace(year=candidate), self._zone))
            except ValueError:
                continue  # 29 February
        return found
