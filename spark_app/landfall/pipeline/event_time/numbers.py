"""Event times from numbers, and what all event times share: their type, range and errors. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.api.spec import Timestamp, TimeUnit
from landfall.pipeline.records import Int64s
from landfall.pipeline.timezones import MAX_SECONDS, MIN_SECONDS

MIN_MILLIS = MIN_SECONDS * 1000
"""0001-01-01T00:00:00.000Z."""
MAX_MILLIS = MAX_SECONDS * 1000 + 999
"""9999-12-31T23:59:59.999Z."""
MIN_MICROS = MIN_SECONDS * 10**6
MAX_MICROS = MAX_SECONDS * 10**6 + 999_999
"""9999-12-31T23:59:59.999999Z."""

PER_SECOND = {
    TimeUnit.SECONDS: 1,
    TimeUnit.MILLISECONDS: 10**3,
    TimeUnit.MICROSECONDS: 10**6,
    TimeUnit.NANOSECONDS: 10**9,
}
"""How many of a unit make a second."""
NUMERIC = {TimeUnit.AUTO, *PER_SECOND}
"""The units of numbers."""

_INT64 = range(-(2**63), 2**63)
_AUTO = (
    (10**18, TimeUnit.NANOSECONDS),
    (10**15, TimeUnit.MICROSECONDS),
    (10**12, TimeUnit.MILLISECONDS),
)
_MAX_SHOWN = 80
"""Characters of a value that an error message shows."""


@dataclass(frozen=True)
class EventTimes:
    """Event times of some rows.

    Attributes:
        micros: microseconds since 1970 UTC, int64, shape (rows,); 0 for rows in ``errors``.
        absent: rows that hold no time at all, increasing.
        errors: what is wrong, by row.
    """

    micros: Int64s
    absent: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    errors: Mapping[int, str] = field(default_factory=dict)

    @property
    def millis(self) -> Int64s:
        """Milliseconds since 1970 UTC, rounded down."""
        return self.micros // 1000


# ------------------------------------------------------------------------------------------- errors


def expected(timestamp: Timestamp) -> str:
    """Return how an error message describes the values that this timestamp setting accepts."""
    match timestamp.unit:
        case TimeUnit.ISO8601:
            return "ISO-8601 text"
        case TimeUnit.CUSTOM:
            return f"text in the format {timestamp.format!r}"
        case TimeUnit.AUTO:
            return "a number or ISO-8601 text"
        case _:
            return f"a number of {timestamp.unit.lower()} or ISO-8601 text"


def all_bad(values: Sequence[object], error: str) -> EventTimes:
    """Return times in which every row has this error, each with its own value."""
    return EventTimes(
        np.zeros(len(values), np.int64),
        errors={row: with_value(error, value) for row, value in enumerate(values)},
    )


def with_value(error: str, value: object) -> str:
    """Return the error with the value that caused it, shortened."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    elif isinstance(value, np.generic):
        value = value.item()
    shown = repr(value)
    return f"{error}, got {shown if len(shown) <= _MAX_SHOWN else shown[: _MAX_SHOWN - 3] + '...'}"


def checked(micros: Int64s, values: npt.NDArray[np.generic] | pa.StringArray) -> EventTimes:
    """Return the times, those outside the years 1 to 9999 as errors.

    Args:
        micros: microseconds since 1970 UTC, shape (rows,).
        values: what they were read from, for the error messages.
    """
    if not len(micros) or (micros.min() >= MIN_MICROS and micros.max() <= MAX_MICROS):
        return EventTimes(micros)
    bad = np.flatnonzero((micros < MIN_MICROS) | (micros > MAX_MICROS)).tolist()
    micros = micros.copy()
    micros[bad] = 0
    errors = {row: with_value("timestamp out of range", values[row]) for row in bad}
    return EventTimes(micros, errors=errors)


# ------------------------------------------------------------------------------------------ numbers


def int_times(values: Int64s, unit: TimeUnit) -> EventTimes:
    """Return the times of an int64 column in a numeric unit."""
    return checked(to_micros(values, unit), values)


def split_overflow(values: Sequence[object] | pa.Array) -> tuple[Int64s, Mapping[int, str]]:
    """Return Python integers as int64, 0 where they do not fit, and errors for the latter by row.

    In every unit a number that does not fit in int64 is outside the years 1 to 9999.
    """
    fits = [isinstance(value, int) and value in _INT64 for value in values]
    numbers = [value if fit else 0 for value, fit in zip(values, fits, strict=True)]
    errors = {
        row: with_value("timestamp out of range", values[row])
        for row, fit in enumerate(fits)
        if not fit
    }
    return np.array(numbers, np.int64), errors


def float_times(values: npt.NDArray[np.float64], unit: TimeUnit) -> EventTimes:
    """Return the times of a column of doubles in a numeric unit."""
    fits = np.abs(values) < 2.0**63  # also false for NaN
    numbers = np.where(fits, values, 0)
    whole = np.floor(numbers)
    # As in Secor, the number without its fraction decides the unit: -0.5 and 0.5 are
    # both seconds, as is 0.
    micros = to_micros(whole.astype(np.int64), unit)
    is_auto = unit is TimeUnit.AUTO
    in_seconds = (unit is TimeUnit.SECONDS) | (is_auto & (whole < 10**12))
    in_millis = (unit is TimeUnit.MILLISECONDS) | (is_auto & (whole >= 10**12) & (whole < 10**15))
    micros += np.where(in_seconds, _fraction(numbers, whole, 10**6), 0)
    micros += np.where(in_millis, _fraction(numbers, whole, 10**3), 0)
    return checked(np.where(fits, micros, MAX_MICROS + 1), values)


def _fraction(
    values: npt.NDArray[np.float64], whole: npt.NDArray[np.float64], micros: int
) -> Int64s:
    """Return the microseconds in the fraction of doubles of a unit that has so many, rounded down.

    A double that is the nearest to a whole number of microseconds means that number: most of these
    have no double of their own, and 0.29 is a little less. From the year 2242, and before 1698,
    doubles do not distinguish microseconds: seconds are rounded down to milliseconds there, and
    milliseconds to whole ones.
    """
    parts = np.where(np.abs(whole) < 2**33 * (10**6 // micros), micros, micros // 1000)
    fraction = values - whole
    count = np.minimum(np.floor(fraction * parts), parts - 1)
    count -= count / parts > fraction  # the product may be rounded up
    # Whole numbers below 2^53 and their quotient: this is the double nearest to the next count.
    count += (whole * parts + count + 1) / parts == values
    return np.asarray((count * (micros // parts)).astype(np.int64))


def to_micros(values: Int64s, unit: TimeUnit) -> Int64s:
    """Return microseconds, rounded down; a number that is out of range stays out of range."""
    if unit is TimeUnit.AUTO:
        return _auto_micros(values)
    per_second = PER_SECOND[unit]
    if per_second < 10**6:
        # Clipped first, because the product might overflow int64 and wrap into the valid range.
        least, most = MIN_SECONDS * per_second - 1, (MAX_SECONDS + 1) * per_second
        return np.asarray(np.clip(values, least, most) * (10**6 // per_second))
    return values if per_second == 10**6 else values // (per_second // 10**6)


def auto_unit(value: int) -> TimeUnit:
    """Return the unit that the size of a number implies."""
    return next((unit for minimum, unit in _AUTO if value >= minimum), TimeUnit.SECONDS)


def _auto_micros(values: Int64s) -> Int64s:
    if not len(values):
        return values
    smallest, largest = auto_unit(int(values.min())), auto_unit(int(values.max()))
    if smallest is largest:
        return to_micros(values, smallest)
    return np.select(
        [values >= minimum for minimum, _ in _AUTO],
        [to_micros(values, unit) for _, unit in _AUTO],
        to_micros(values, TimeUnit.SECONDS),
    )
