"""Event times from text: by Arrow if all rows have one shape, else text by text. Pure."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Timestamp, TimeUnit
from landfall.pipeline.event_time.iso8601 import instant, parse_iso8601
from landfall.pipeline.event_time.numbers import (
    MAX_MICROS,
    MIN_MICROS,
    NUMERIC,
    PER_SECOND,
    Times,
    auto_unit,
    checked,
    expected,
    to_micros,
    with_value,
)
from landfall.pipeline.event_time.yearless import yearless_times
from landfall.pipeline.records import Int64s
from landfall.pipeline.timezones import Zone

_NUMBER = re.compile(r"([+-]?)([0-9]+)(?:\.([0-9]*))?")
_MAX_DIGITS = 1000
"""More than any time has. Python refuses to parse integers of more than 4300 digits."""
_CHUNK_ROWS = 256
"""If Arrow cannot read some rows, the column is divided into chunks of this size, and only chunks
with such rows are read text by text.
"""


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


def text_times(texts: pa.StringArray, timestamp: Timestamp, kafka: Int64s | None = None) -> Times:
    """Return the times of text without nulls.

    ``kafka`` holds the Kafka timestamps, which a format without a year needs.
    """
    if kafka is not None:
        return yearless_times(texts, timestamp, kafka)
    micros = _column_micros(texts, timestamp)
    if micros is not None:
        return checked(micros, texts)
    if len(texts) <= _CHUNK_ROWS:
        return _each_text(texts, timestamp)
    chunks = [
        (start, text_times(texts.slice(start, _CHUNK_ROWS), timestamp))
        for start in range(0, len(texts), _CHUNK_ROWS)
    ]
    errors = {start + row: error for start, chunk in chunks for row, error in chunk.errors.items()}
    return Times(np.concatenate([chunk.micros for _, chunk in chunks]), errors=errors)


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
    # Microseconds before nanoseconds: nanoseconds in int64 end in the year 2262, but Arrow reads
    # more than six decimals only as nanoseconds.
    for unit, per_micro in (("us", 1), ("ns", 10**3)):
        for zone_name in ("UTC", None):
            try:
                instants = np.asarray(texts.cast(pa.timestamp(unit, zone_name)).cast(pa.int64()))
            except pa.ArrowInvalid:
                continue
            micros = instants // per_micro
            return micros if zone_name else _in_zone(micros, zone)
    return None


def _in_zone(local_micros: Int64s, zone: Zone) -> Int64s:
    """Return the instants of wall times, both in microseconds."""
    if zone.is_utc:
        return local_micros
    return zone.to_utc(local_micros // 10**6) * 10**6 + local_micros % 10**6


# ------------------------------------------------------------------------------------- text by text


def _each_text(texts: pa.StringArray, timestamp: Timestamp) -> Times:
    """Return the times of text in any shape; each distinct text is parsed once."""
    parse = _parser(timestamp)
    rows, known, invalid = texts.to_pylist(), {}, set()
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
    return Times(times.micros, errors={**times.errors, **errors})


def _parser(timestamp: Timestamp) -> Callable[[str], int]:
    """Return a function from one text to microseconds; it raises ValueError or OverflowError."""
    zone, unit, layout = Zone(timestamp.timezone), timestamp.unit, timestamp.format

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
