"""The common value of each logical type, as a field and as JSON, independent of its format.

With ``decode.values: Common`` every decoder makes fields and JSON by this table, so that a topic
that moves from one format to another keeps its output partitions and its filters.

======================  ==============================================  ==========================
logical type            field                                           JSON
======================  ==============================================  ==========================
boolean, integer        itself                                          itself
float                   the double that it is                           the same number; ``"NaN"``,
                                                                        ``"Infinity"``,
                                                                        ``"-Infinity"``
text, enum, UUID        text; a number of an enum without a name is     text
                        its digits
bytes                   base64 text (RFC 4648, section 4)               the same text
decimal                 text with all its digits                        the same text
date                    ``2026-11-21``                                  the same text
time of day             ``04:00:00.000000``                             the same text
instant                 ``2026-11-21T04:00:00.000000Z``, rounded down   the same text
                        to microseconds
time without a zone     the same without ``Z``                          the same text
======================  ==============================================  ==========================

Times have six digits after the second for every unit, so that equal times are equal texts
and texts are in the order of times. A time outside of the years 1 to 9999 has no value. Pure.
"""

import base64
import math
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from landfall.pipeline.decimal_texts import decimal_texts
from landfall.pipeline.event_time.numbers import MAX_MICROS, MIN_MICROS
from landfall.pipeline.records import FieldValues, Int64s

OUT_OF_CALENDAR = "a time outside of the years 1 to 9999"
_WALL_TIME = "%Y-%m-%dT%H:%M:%S"
"""Arrow adds the fraction that the unit has."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6}


def field_values(values: pa.Array) -> FieldValues:
    """Return a column of single values as a field; lists, structs and maps are Python's values."""
    type_ = values.type
    if kinds.is_string(type_):
        return values
    if is_text(type_):
        return texts(values)
    if kinds.is_integer(type_) and not values.null_count:
        try:
            integers: Int64s = values.cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid:  # an integer of 64 bits without a sign
            return list(values.to_pylist())
        return integers
    return list(values.to_pylist())


def is_text(type_: pa.DataType) -> bool:
    """Return whether values of a type other than text are text as a field and as JSON."""
    is_time = kinds.is_timestamp(type_) or kinds.is_date(type_) or kinds.is_time(type_)
    return bool(is_time or kinds.is_decimal(type_) or kinds.is_binary(type_))


def texts(values: pa.Array) -> pa.StringArray:
    """Return times, decimals and bytes as text, shape (rows,); null stays null."""
    type_ = values.type
    if kinds.is_timestamp(type_):
        return _wall_times(values)
    if kinds.is_time(type_):
        return values.cast(pa.time64("us")).cast(pa.string())
    if kinds.is_binary(type_):
        plain = values.to_pylist()
        return pa.array(
            [None if value is None else base64_text(value) for value in plain], pa.string()
        )
    return decimal_texts(values)


def out_of_calendar(values: pa.Array) -> Int64s:
    """Return the rows of dates or timestamps that are outside of the years 1 to 9999."""
    if kinds.is_date32(values.type):
        numbers, micros = values.view(pa.int32()), 86_400 * 10**6
    elif values.type.unit == "ns":
        return np.empty(0, np.int64)  # nanoseconds of 64 bits are in the years 1677 to 2262
    else:
        numbers, micros = values.view(pa.int64()), 10**6 // _PER_SECOND[values.type.unit]
    plain = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    return np.flatnonzero((plain < MIN_MICROS // micros) | (plain > MAX_MICROS // micros))


def base64_text(value: bytes) -> str:
    """Return bytes as text."""
    return base64.b64encode(value).decode()


def of_python(value: object, *, in_json: bool = False) -> object:
    """Return a value of Python's as a field, or what JSON is encoded of; times are in UTC."""
    match value:
        case bytes():
            return base64_text(value)
        case datetime():
            return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
        case float() if in_json and not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict() if in_json:
            return {_key(key): of_python(inner, in_json=True) for key, inner in value.items()}
        case list() | tuple() if in_json:
            return [of_python(inner, in_json=True) for inner in value]
    return value


def _key(key: object) -> object:
    return of_python(key, in_json=True) if isinstance(key, datetime | float) else key


def _wall_times(values: pa.Array) -> pa.StringArray:
    zone = None if values.type.tz is None else "UTC"
    if values.type.unit == "ns":
        # Rounded down also before 1970, as everywhere.
        numbers = values.view(pa.int64())
        plain = numbers.fill_null(0).to_numpy(zero_copy_only=False) // 1000
        values = pa.array(plain, pa.int64(), mask=np.asarray(numbers.is_null()))
        values = values.view(pa.timestamp("us", zone))
    micros = values.cast(pa.timestamp("us", zone))
    return pc.strftime(micros, format=_WALL_TIME if zone is None else f"{_WALL_TIME}Z")
