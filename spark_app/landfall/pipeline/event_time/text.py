"""Event times from text: by Arrow if all rows have one shape, else text by text. Pure."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Timestamp, TimeUnit
from landfall.pipeline.event_time.iso8601 import DAY, DAY_IN_NANOSECONDS, instant, parse_iso8601
from landfall.pipeline.event_time.numbers import (
    MAX_MICROS,
    MIN_MICROS,
    NUMERIC,
    PER_SECOND,
    EventTimes,
    auto_unit,
    checked,
    expected,
    to_micros,
    with_value,
)
from landfall.pipeline.event_time.yearless import yearless_times
from landfall.pipeline.odd_rows import rows_with_others
from landfall.pipeline.records import Int64s
from landfall.pipeline.timezones import Zone

_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]*))?")
_BEGINS_WITH_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ENDS_IN_ZONE = re.compile(r"(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)\Z")
_NANOSECONDS = re.compile(r"\.[0-9]{7}")
_DATE_LENGTH = len("2026-11-21")
_MAX_DIGITS = 1000
"""More than any time has. Python refuses to parse integers of more than 4300 digits."""
_FEW_TEXTS = 100
_CHARACTERS = "-+:. TZ"
"""What nearly all text has other than digits."""
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_SECOND = ":[0-5][0-9]"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):?[0-5][0-9])"
_MICROS = rf"[T ]{_CLOCK}(?:{_SECOND}(?:\.[0-9]{{1,6}})?)?"
_NANOS = rf"[T ]{_CLOCK}{_SECOND}\.[0-9]{{7,9}}"
_SHAPES = tuple(
    rf"\A{shape}\z"
    for shape in (
        rf"{DAY}{_MICROS}{_ZONE}",
        rf"{DAY}(?:{_MICROS})?",
        r"[0-9]{1,18}",
        rf"{DAY_IN_NANOSECONDS}{_NANOS}{_ZONE}",
        rf"{DAY_IN_NANOSECONDS}{_NANOS}",
    )
)
"""The shapes in which nearly all text is; Arrow reads a column in which all rows have the same."""


def as_text(values: Sequence[object]) -> pa.StringArray:
    """Return Python strings as an Arrow column."""
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        # Some JSON parsers let half of a surrogate pair through. No valid time contains one, so
        # replacing it does not turn bad text into a time.
        return pa.array(
            [str(value).encode(errors="replace").decode() for value in values], pa.string()
        )


def text_times(
    texts: pa.StringArray, timestamp: Timestamp, kafka: Int64s | None = None
) -> EventTimes:
    """Return the times of text without nulls.

    ``kafka`` holds the Kafka timestamps, which a format without a year needs.
    """
    if kafka is not None:
        return yearless_times(texts, timestamp, kafka)
    micros = _column_micros(texts, timestamp)
    if micros is not None:
        return checked(micros, texts)
    odd = rows_with_others(texts, _CHARACTERS)
    if timestamp.unit is not TimeUnit.CUSTOM and 0 < len(odd) <= len(texts) // 32:
        rest = np.delete(np.arange(len(texts)), odd)
        parts = ((rows, text_times(texts.take(pa.array(rows)), timestamp)) for rows in (rest, odd))
        return _scattered(len(texts), parts)
    return _times_by_shape(texts, timestamp)


def _scattered(length: int, parts: Iterable[tuple[Int64s, EventTimes]]) -> EventTimes:
    """Return the times of all rows, joined from parts."""
    micros, errors = np.zeros(length, np.int64), dict[int, str]()
    for rows, times in parts:
        micros[rows] = times.micros
        errors |= {int(rows[row]): error for row, error in times.errors.items()}
    return EventTimes(micros, errors=errors)


def _times_by_shape(texts: pa.StringArray, timestamp: Timestamp) -> EventTimes:
    """Return the times of text in several shapes: each shape is a column, the rest single texts."""
    parts: list[tuple[Int64s, EventTimes]] = []
    rest = np.arange(len(texts))
    # To compile the patterns costs as much as to read a few texts one by one.
    has_shapes = timestamp.unit is not TimeUnit.CUSTOM and len(texts) > _FEW_TEXTS
    for shape in _SHAPES if has_shapes else ():
        is_of_shape = np.asarray(pc.match_substring_regex(texts.take(pa.array(rest)), shape))
        rows = rest[is_of_shape]
        column = texts.take(pa.array(rows))
        column_micros = _column_micros(column, timestamp) if len(rows) else None
        if column_micros is not None:
            parts.append((rows, checked(column_micros, column)))
            rest = rest[~is_of_shape]
    parts.append((rest, _each_text(texts.take(pa.array(rest)), timestamp)))
    return _scattered(len(texts), parts)


# ------------------------------------------------------------------------------- a column at a time


def _column_micros(texts: pa.StringArray, timestamp: Timestamp) -> Int64s | None:
    """Return microseconds before the range check, or None if Arrow cannot read all rows."""
    if timestamp.unit is TimeUnit.CUSTOM:
        return None
    numbers = _digits(texts) if timestamp.unit in NUMERIC else None
    return (
        _iso_micros(texts, Zone(timestamp.timezone))
        if numbers is None
        else to_micros(numbers, timestamp.unit)
    )


def _digits(texts: pa.StringArray) -> Int64s | None:
    """Return the numbers, or None unless all rows are plain digits that fit in int64."""
    if not pc.all(pc.ascii_is_decimal(texts)).as_py():
        return None
    try:
        return np.asarray(texts.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None


def _iso_micros(texts: pa.StringArray, zone: Zone) -> Int64s | None:
    """Return microseconds, or None if Arrow cannot read all rows, or only some have a zone."""
    if not len(texts):
        return np.empty(0, np.int64)
    if pc.any(pc.starts_with(texts, "0000")).as_py():
        return None  # Arrow has a year 0, ``datetime`` and the calendar of readers have none
    # The first text alone selects the cast: one that fails may do so for each row, which is dear.
    first = texts[0].as_py()
    if not _BEGINS_WITH_DATE.match(first):
        return None
    zone_name = "UTC" if _ENDS_IN_ZONE.search(first, _DATE_LENGTH) else None
    # Microseconds before nanoseconds: nanoseconds in int64 end in the year 2262, but Arrow reads
    # more than six decimals only as nanoseconds.
    unit, per_micro = ("ns", 10**3) if _NANOSECONDS.search(first) else ("us", 1)
    try:
        instants = np.asarray(texts.cast(pa.timestamp(unit, zone_name)).cast(pa.int64()))
    except pa.ArrowInvalid:
        return None
    return instants // per_micro if zone_name else _in_zone(instants // per_micro, zone)


def _in_zone(local_micros: Int64s, zone: Zone) -> Int64s:
    """Return the instants of wall times, both in microseconds."""
    if zone.is_utc:
        return local_micros
    return zone.to_utc(local_micros // 10**6) * 10**6 + local_micros % 10**6


# ------------------------------------------------------------------------------------- text by text


def _each_text(texts: pa.StringArray, timestamp: Timestamp) -> EventTimes:
    """Return the times of text in any shape; each distinct text is parsed once."""
    parse = _parser(timestamp)
    rows = texts.to_pylist()
    known = {}
    invalid = set()
    for text in set(rows):
        try:
            # Digits can stand for more than int64 can hold.
            known[text] = max(min(parse(text), MAX_MICROS + 1), MIN_MICROS - 1)
        except OverflowError:
            known[text] = MAX_MICROS + 1
        except ValueError:
            known[text] = 0
            invalid.add(text)
    times = checked(np.fromiter((known[text] for text in rows), np.int64, len(rows)), texts)
    error = f"timestamp: expected {expected(timestamp)}"
    errors = {row: with_value(error, text) for row, text in enumerate(rows) if text in invalid}
    return EventTimes(times.micros, errors={**times.errors, **errors})


def _parser(timestamp: Timestamp) -> Callable[[str], int]:
    """Return a function from one text to microseconds; it raises ValueError or OverflowError."""
    zone = Zone(timestamp.timezone)
    unit = timestamp.unit
    layout = timestamp.format

    def iso(text: str) -> int:
        return instant(parse_iso8601(text), zone)

    def custom(text: str) -> int:
        assert layout is not None, "the spec's validation requires a format with Custom"
        return instant(datetime.strptime(text, layout), zone)  # noqa: DTZ007  # instant adds the zone

    def number(text: str) -> int:
        match = _NUMBER.fullmatch(text)
        return (
            _decimal_micros(match[1] == "-", match[2], match[3] or "", unit) if match else iso(text)
        )

    return {TimeUnit.ISO8601: iso, TimeUnit.CUSTOM: custom}.get(unit, number)


def _decimal_micros(negative: bool, whole: str, fraction: str, unit: TimeUnit) -> int:  # noqa: FBT001  # the sign
    """Return the microseconds, rounded down, of a decimal number given by its digits."""
    if len(whole) > _MAX_DIGITS:
        raise OverflowError
    millionths = int(whole + f"{fraction:0<6}"[:6])
    if negative:
        # Cutting digits off rounds toward zero; a negative number with digits left is one lower.
        millionths = -millionths - (fraction[6:].strip("0") != "")
    unit = auto_unit(millionths // 10**6) if unit is TimeUnit.AUTO else unit
    return millionths // PER_SECOND[unit]
