"""When a record happened: from its Kafka timestamp or from a payload field. Pure: no I/O, no clock, no logging.

========================  =====================================================================================
``unit``                  reads
========================  =====================================================================================
Seconds .. Nanoseconds    numbers, and text that is a number; other text as Iso8601
Auto                      the same, in a unit told by the number's size
Iso8601                   text as ``datetime.fromisoformat`` does; without a zone it is wall time of ``timezone``
Custom                    text (or a number's digits) by ``strptime``; without ``%z`` wall time of ``timezone``
========================  =====================================================================================

Auto is Secor's rule, on the number's whole part: from 10^18 nanoseconds, from 10^15 microseconds,
from 10^12 milliseconds, everything below (so 0 and negative numbers too) seconds. Fractions of any
length never shift a time: they round down to a millisecond; only a binary fraction of seconds
rounds to the nearest, and never up into the next second.

An event time is an instant in the years 1 to 9999. Absent and null fields follow ``missing``;
anything else is a bad row.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import NoneType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import MissingTimestamp, Timestamp, TimeUnit
from landfall.pipeline.records import FieldValues, Int64s, Records
from landfall.pipeline.timezones import EPOCH, MAX_SECONDS, MIN_SECONDS, Zone

MIN_MILLIS = MIN_SECONDS * 1000
MAX_MILLIS = MAX_SECONDS * 1000 + 999

_MILLI = timedelta(milliseconds=1)
_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]*))?")
_MOST_DIGITS = 1000
"""More than any time has; Python reads no more than 4300 at once."""
_INT64 = range(-(2**63), 2**63)
_PER_MILLI = {TimeUnit.MILLISECONDS: 1, TimeUnit.MICROSECONDS: 10**3, TimeUnit.NANOSECONDS: 10**6}
_NUMERIC = {TimeUnit.SECONDS, TimeUnit.AUTO, *_PER_MILLI}
_AUTO = (
    (10**18, TimeUnit.NANOSECONDS),
    (10**15, TimeUnit.MICROSECONDS),
    (10**12, TimeUnit.MILLISECONDS),
)

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Times:
    """Event times of some rows.

    Attributes:
        millis: milliseconds since 1970 UTC, shape (rows,); 0 where ``errors`` has the row.
        absent: rows that hold no time at all, increasing.
        errors: what is wrong, by row.
    """

    millis: Int64s
    absent: Int64s = field(default_factory=lambda: np.empty(0, np.int64))
    errors: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EventTime:
    """Dates records by this field, or by the Kafka timestamp if it is None."""

    timestamp: Timestamp | None

    @property
    def fields(self) -> tuple[Path, ...]:
        """The payload field this reads, if any."""
        return (self.timestamp.path,) if self.timestamp else ()

    def read(self, records: Records, fields: Mapping[Path, FieldValues]) -> Times:
        """The event time of every row, or what is wrong with it; nothing is absent any more."""
        if self.timestamp is None:
            return _kafka_times(records.timestamps, np.arange(len(records)))
        times = column_times(fields[self.timestamp.path], self.timestamp)
        return times if not len(times.absent) else _with_missing(times, records, self.timestamp)


def _kafka_times(timestamps: Int64s, rows: Int64s) -> Times:
    """Times of all rows, of which only ``rows`` matter."""
    bad = rows[timestamps[rows] < 0]
    return Times(timestamps, errors=dict.fromkeys(bad.tolist(), "record has no Kafka timestamp"))


def _with_missing(times: Times, records: Records, timestamp: Timestamp) -> Times:
    absent, millis, errors = times.absent, times.millis.copy(), dict(times.errors)
    match timestamp.missing:
        case MissingTimestamp.EPOCH:
            millis[absent] = 0
        case MissingTimestamp.KAFKA_TIMESTAMP:
            kafka = _kafka_times(records.timestamps, absent)
            millis[absent] = kafka.millis[absent]
            errors |= kafka.errors
        case MissingTimestamp.DEAD_LETTER:
            errors |= dict.fromkeys(absent.tolist(), f"timestamp: no field {timestamp.field!r}")
    return Times(millis, errors=errors)


# ---------------------------------------------------------------------------- a column, by its kind


def column_times(values: FieldValues, timestamp: Timestamp) -> Times:
    """The times in a column of field values; what is absent is left to the caller."""
    if isinstance(values, np.ndarray):
        return _int_times(values, timestamp)
    if isinstance(values, pa.Array):
        if not values.null_count:
            return _times_of(str, values, timestamp)
        return _scattered(
            len(values), {str: pc.is_valid(values), NoneType: pc.is_null(values)}, values, timestamp
        )
    kinds = set(map(type, values))
    if len(kinds) == 1:
        return _times_of(kinds.pop(), values, timestamp)
    masks = {kind: [type(value) is kind for value in values] for kind in kinds}
    return _scattered(len(values), masks, np.fromiter(values, object, len(values)), timestamp)


def _scattered(
    rows: int,
    masks: Mapping[type, object],
    values: pa.Array | npt.NDArray[np.object_],
    timestamp: Timestamp,
) -> Times:
    """Times of a column of several kinds: each kind's rows are read as a column of their own."""
    millis, absent = np.zeros(rows, np.int64), np.empty(0, np.int64)
    errors: dict[int, str] = {}
    for kind, mask in masks.items():
        at = np.flatnonzero(np.asarray(mask))
        if not len(at):
            continue
        picked = values.take(pa.array(at)) if isinstance(values, pa.Array) else values[at].tolist()
        part = _times_of(kind, picked, timestamp)
        millis[at] = part.millis
        absent = at if kind is NoneType else absent
        errors |= {int(at[row]): error for row, error in part.errors.items()}
    return Times(millis, absent, errors)


def _times_of(kind: type, values: Sequence[object] | pa.Array, timestamp: Timestamp) -> Times:
    if kind is NoneType:
        return Times(np.zeros(len(values), np.int64), np.arange(len(values)))
    if kind is str:
        return _text_times(values if isinstance(values, pa.Array) else _strings(values), timestamp)
    if kind is int:
        return _big_int_times(values, timestamp)
    if kind is float and timestamp.unit in _NUMERIC:
        return _float_times(np.asarray(values, np.float64), timestamp.unit)
    return _all_bad(values, f"timestamp: expected {_expected(timestamp)}")


def _strings(values: Sequence[object]) -> pa.StringArray:
    try:
        return pa.array(values, pa.string())
    except (
        UnicodeEncodeError
    ):  # half of a surrogate pair, which some JSON parsers let through: no time holds one
        return pa.array(
            [str(value).encode(errors="replace").decode() for value in values], pa.string()
        )


def _expected(timestamp: Timestamp) -> str:
    match timestamp.unit:
        case TimeUnit.ISO8601:
            return "ISO-8601 text"
        case TimeUnit.CUSTOM:
            return f"text by {timestamp.format!r}"
        case TimeUnit.AUTO:
            return "a number or ISO-8601 text"
        case _:
            return f"a number of {timestamp.unit.lower()} or ISO-8601 text"


def _all_bad(values: Sequence[object], error: str) -> Times:
    return Times(
        np.zeros(len(values), np.int64),
        errors={row: _said(error, value) for row, value in enumerate(values)},
    )


def _said(error: str, value: object) -> str:
    plain = (
        value.as_py()
        if isinstance(value, pa.Scalar)
        else value.item()
        if isinstance(value, np.generic)
        else value
    )
    shown = repr(plain)
    return f"{error}, got {shown if len(shown) <= 80 else shown[:77] + '...'}"


# ------------------------------------------------------------------------------------------ numbers


def _int_times(values: Int64s, timestamp: Timestamp) -> Times:
    if timestamp.unit is TimeUnit.CUSTOM:
        return _text_times(pa.array(values).cast(pa.string()), timestamp)
    if timestamp.unit is TimeUnit.ISO8601:
        return _all_bad(values.tolist(), f"timestamp: expected {_expected(timestamp)}")
    return _checked(_millis(values, timestamp.unit), values)


def _big_int_times(values: Sequence[object] | pa.Array, timestamp: Timestamp) -> Times:
    """Times of Python integers: the few that int64 cannot hold are later than any year, or earlier."""
    try:
        return _int_times(np.array(values, np.int64), timestamp)
    except OverflowError:
        numbers = [
            value if isinstance(value, int) and value in _INT64 else None for value in values
        ]
        times = _int_times(np.array([number or 0 for number in numbers], np.int64), timestamp)
        far = {
            row: _said("timestamp out of range", values[row])
            for row, n in enumerate(numbers)
            if n is None
        }
        return Times(times.millis, errors={**times.errors, **far})


def _float_times(values: npt.NDArray[np.float64], unit: TimeUnit) -> Times:
    held = np.abs(values) < 2.0**63  # also false for NaN
    whole = np.floor(np.where(held, values, 0))
    fraction = np.where(held, values, 0) - whole
    # the unit is told by the number without its fraction, as Secor does: -0.5 and 0.5 are both
    # seconds, like 0
    millis = _millis(whole.astype(np.int64), unit)
    in_seconds = (unit is TimeUnit.SECONDS) | ((unit is TimeUnit.AUTO) & (whole < 10**12))
    millis += np.where(in_seconds, np.minimum(np.rint(fraction * 1000), 999), 0).astype(np.int64)
    return _checked(np.where(held, millis, MAX_MILLIS + 1), values)


def _millis(values: Int64s, unit: TimeUnit) -> Int64s:
    """Milliseconds, rounded down; a number too large to scale stays too large."""
    if unit is TimeUnit.AUTO:
        return _auto_millis(values)
    if unit is TimeUnit.SECONDS:
        return np.asarray(np.clip(values, MIN_SECONDS - 1, MAX_SECONDS + 1) * 1000)
    per_milli = _PER_MILLI[unit]
    return values if per_milli == 1 else values // per_milli


def _auto_unit(value: int) -> TimeUnit:
    return next((unit for least, unit in _AUTO if value >= least), TimeUnit.SECONDS)


def _auto_millis(values: Int64s) -> Int64s:
    if not len(values):
        return values
    smallest, largest = _auto_unit(int(values.min())), _auto_unit(int(values.max()))
    if smallest is largest:
        return _millis(values, smallest)
    return np.select(
        [values >= least for least, _ in _AUTO],
        [_millis(values, unit) for _, unit in _AUTO],
        _millis(values, TimeUnit.SECONDS),
    )


def _checked(millis: Int64s, values: npt.NDArray[np.generic] | pa.StringArray) -> Times:
    """Let the calendar's years through; ``values`` are what the times came from, for the errors."""
    if not len(millis) or (millis.min() >= MIN_MILLIS and millis.max() <= MAX_MILLIS):
        return Times(millis)
    bad = np.flatnonzero((millis < MIN_MILLIS) | (millis > MAX_MILLIS)).tolist()
    millis = millis.copy()
    millis[bad] = 0
    return Times(millis, errors={row: _said("timestamp out of range", values[row]) for row in bad})


# --------------------------------------------------------------------------------------------- text


_CHUNK = 256
"""Rows: when a column has a shape no column function reads, only such chunks of it are read one by
one.
"""


def _text_times(texts: pa.StringArray, timestamp: Timestamp) -> Times:
    """Times of text without nulls."""
    fast = _fast_text_millis(texts, timestamp)
    if fast is not None:
        return _checked(fast, texts)
    if len(texts) <= _CHUNK:
        return _each_text(texts, timestamp)
    chunks = [
        (start, _text_times(texts.slice(start, _CHUNK), timestamp))
        for start in range(0, len(texts), _CHUNK)
    ]
    errors = {start + row: error for start, chunk in chunks for row, error in chunk.errors.items()}
    return Times(np.concatenate([chunk.millis for _, chunk in chunks]), errors=errors)


def _fast_text_millis(texts: pa.StringArray, timestamp: Timestamp) -> Int64s | None:
    """Milliseconds, not checked yet, if all rows have one shape that Arrow reads."""
    if timestamp.unit is TimeUnit.CUSTOM:
        return None
    digits = _digits(texts) if timestamp.unit in _NUMERIC else None
    return (
        _iso_millis(texts, Zone(timestamp.timezone))
        if digits is None
        else _millis(digits, timestamp.unit)
    )


def _digits(texts: pa.StringArray) -> Int64s | None:
    """The numbers, if all rows are plain digits that fit."""
    if not pc.all(pc.ascii_is_decimal(texts)).as_py():
        return None
    try:
        return np.asarray(texts.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None


def _iso_millis(texts: pa.StringArray, zone: Zone) -> Int64s | None:
    """Milliseconds, if all rows have a shape Arrow knows, and all a zone or all none."""
    for unit, per_milli in (("us", 10**3), ("ns", 10**6)):
        for zone_name in ("UTC", None):
            try:
                moments = np.asarray(texts.cast(pa.timestamp(unit, zone_name)).cast(pa.int64()))
            except pa.ArrowInvalid:
                continue
            return moments // per_milli if zone_name else _zoned(moments // per_milli, zone)
    return None


def _zoned(local_millis: Int64s, zone: Zone) -> Int64s:
    if zone.is_utc:
        return local_millis
    return zone.to_utc(local_millis // 1000) * 1000 + local_millis % 1000


def _each_text(texts: pa.StringArray, timestamp: Timestamp) -> Times:
    """Times of text in shapes no column function reads; every distinct text is read once."""
    read = _reader(timestamp)
    rows, known, unread = texts.to_pylist(), {}, set()
    for text in set(rows):
        try:
            # digits can say more than int64 can hold
            known[text] = max(min(read(text), MAX_MILLIS + 1), MIN_MILLIS - 1)
        except OverflowError:
            known[text] = MAX_MILLIS + 1
        except ValueError:
            known[text] = 0
            unread.add(text)
    times = _checked(np.fromiter((known[text] for text in rows), np.int64, len(rows)), texts)
    error = f"timestamp: expected {_expected(timestamp)}"
    other = (
        {row: _said(error, text) for row, text in enumerate(rows) if text in unread}
        if unread
        else {}
    )
    return Times(times.millis, errors={**times.errors, **other})


def _reader(timestamp: Timestamp) -> Callable[[str], int]:
    """How to read one text as milliseconds; raises ValueError or OverflowError."""
    zone, unit, layout = Zone(timestamp.timezone), timestamp.unit, timestamp.format

    def iso(text: str) -> int:
        return _instant(datetime.fromisoformat(text), zone)

    def custom(text: str) -> int:
        assert layout is not None, "spec: Custom has a format"
        return _instant(datetime.strptime(text, layout), zone)  # noqa: DTZ007  # the zone comes next

    def number(text: str) -> int:
        match = _NUMBER.fullmatch(text)
        return (
            _decimal_millis(match[1] == "-", match[2], match[3] or "", unit) if match else iso(text)
        )

    return {TimeUnit.ISO8601: iso, TimeUnit.CUSTOM: custom}.get(unit, number)


def _decimal_millis(negative: bool, whole: str, fraction: str, unit: TimeUnit) -> int:  # noqa: FBT001  # the sign
    """Milliseconds, rounded down, of a decimal number given by its digits."""
    if len(whole) > _MOST_DIGITS:
        raise OverflowError
    thousandths = int(whole + f"{fraction:0<3}"[:3])
    if negative:
        thousandths = -thousandths - (fraction[3:].strip("0") != "")
    unit = _auto_unit(thousandths // 1000) if unit is TimeUnit.AUTO else unit
    return thousandths if unit is TimeUnit.SECONDS else thousandths // 1000 // _PER_MILLI[unit]


def _instant(moment: datetime, zone: Zone) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=zone.info)
    shift = aware.utcoffset()
    assert shift is not None, "aware"
    return (moment.replace(tzinfo=None) - EPOCH - shift) // _MILLI
