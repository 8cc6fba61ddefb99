"""When a record happened, read from its Kafka timestamp or from a payload field.

========================  ==========================================================================
``unit``                  what is read
========================  ==========================================================================
Seconds to Nanoseconds    numbers, and text that is a number; any other text as Iso8601
Auto                      the same, in the unit that the size of the number implies
Iso8601                   text as ``datetime.fromisoformat`` reads it, and the forms that
                          ``iso8601`` adds
Custom                    text (or the digits of a number) as ``datetime.strptime`` reads it;
                          without a year, in the one that is nearest to the Kafka timestamp
========================  ==========================================================================

Text without a time zone is wall time of ``timezone``.

Auto is Secor's rule, applied to the number without its fraction: from 10^18 it is nanoseconds, from
10^15 microseconds, from 10^12 milliseconds, and anything below, including 0 and negative numbers,
seconds. A fraction is rounded down to a microsecond; a double, as which a JSON number with a
fraction is read, means the microsecond that it is the nearest double to.

An event time is an instant in the years 1 to 9999. The treatment of an absent or null field is set
by ``missing``; any other value that is not a time makes the row bad.

Pure: no I/O but the time zone database, no clock, no logging. ``numbers`` reads numeric columns and
holds what all share; ``text`` reads text, ``yearless`` text without a year, ``iso8601`` one text in
that notation; this module finds out what a column holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import MissingTimestamp, Timestamp, TimeUnit
from landfall.pipeline.event_time.numbers import (
    MAX_MICROS,
    MAX_MILLIS,
    MIN_MICROS,
    MIN_MILLIS,
    NUMERIC,
    EventTimes,
    all_bad,
    expected,
    float_times,
    int_times,
    split_overflow,
    to_micros,
    with_value,
)
from landfall.pipeline.event_time.text import as_text, text_times
from landfall.pipeline.records import FieldValues, Int64s, Records

Path: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class EventTime:
    """Dates records by a payload field.

    Attributes:
        timestamp: which field, and how to read it; None dates records by their Kafka timestamp.
    """

    timestamp: Timestamp | None

    @property
    def fields(self) -> tuple[Path, ...]:
        """The path of the payload field this reads, if any."""
        return (self.timestamp.path,) if self.timestamp else ()

    def read(self, records: Records, fields: Mapping[Path, FieldValues]) -> EventTimes:
        """Return the event time of every row, or what is wrong with it; none is absent."""
        if self.timestamp is None:
            return _kafka_times(records.timestamps, np.arange(len(records)))
        kafka = records.timestamps if self.timestamp.is_yearless else None
        times = column_times(fields[self.timestamp.path], self.timestamp, kafka)
        return times if not len(times.absent) else _with_missing(times, records, self.timestamp)


def _kafka_times(timestamps: Int64s, rows: Int64s) -> EventTimes:
    """Return times of all rows, with errors only for the ``rows`` without a timestamp."""
    missing = dict.fromkeys(rows[timestamps[rows] < 0].tolist(), "record has no Kafka timestamp")
    late = rows[timestamps[rows] > MAX_MILLIS].tolist()
    errors = {row: with_value("timestamp out of range", timestamps[row]) for row in late}
    return EventTimes(to_micros(timestamps, TimeUnit.MILLISECONDS), errors=errors | missing)


def _with_missing(times: EventTimes, records: Records, timestamp: Timestamp) -> EventTimes:
    """Return the times with absent ones replaced by the setting ``missing``."""
    absent = times.absent
    micros = times.micros.copy()
    errors = dict(times.errors)
    match timestamp.missing:
        case MissingTimestamp.EPOCH:
            micros[absent] = 0
        case MissingTimestamp.KAFKA_TIMESTAMP:
            kafka = _kafka_times(records.timestamps, absent)
            micros[absent] = kafka.micros[absent]
            errors |= kafka.errors
        case MissingTimestamp.DEAD_LETTER:
            errors |= dict.fromkeys(absent.tolist(), f"timestamp: no field {timestamp.field!r}")
    return EventTimes(micros, errors=errors)


# ------------------------------------------------------------ a column, by the types of its values


def column_times(
    values: FieldValues, timestamp: Timestamp, kafka: Int64s | None = None
) -> EventTimes:
    """Return the times in a column of field values; the caller decides about absent ones.

    ``kafka`` holds the Kafka timestamps, which a format without a year needs.
    """
    if isinstance(values, np.ndarray):
        return _int64_times(values, timestamp, kafka)
    if isinstance(values, pa.Array):
        if not values.null_count:
            return _times_of(str, values, timestamp, kafka)
        masks: dict[type, object] = {str: pc.is_valid(values), NoneType: pc.is_null(values)}
        return _mixed_times(masks, values, timestamp, kafka)
    types: set[type] = set(map(type, values))
    if len(types) == 1:
        return _times_of(types.pop(), values, timestamp, kafka)
    by_type: dict[type, object] = {
        type_: [type(value) is type_ for value in values] for type_ in types
    }
    return _mixed_times(by_type, np.fromiter(values, object, len(values)), timestamp, kafka)


def _mixed_times(
    masks: Mapping[type, object],
    values: pa.Array | npt.NDArray[np.object_],
    timestamp: Timestamp,
    kafka: Int64s | None,
) -> EventTimes:
    """Return the times of a column of several types, each read as a column of its own."""
    micros, absent = np.zeros(len(values), np.int64), np.empty(0, np.int64)
    errors: dict[int, str] = {}
    for type_, mask in masks.items():
        rows = np.flatnonzero(np.asarray(mask))
        if not len(rows):
            continue
        of_type = (
            values.take(pa.array(rows)) if isinstance(values, pa.Array) else values[rows].tolist()
        )
        times = _times_of(type_, of_type, timestamp, None if kafka is None else kafka[rows])
        micros[rows] = times.micros
        absent = rows if type_ is NoneType else absent
        errors |= {int(rows[row]): error for row, error in times.errors.items()}
    return EventTimes(micros, absent, errors)


def _times_of(
    type_: type,
    values: Sequence[object] | pa.Array,
    timestamp: Timestamp,
    kafka: Int64s | None,
) -> EventTimes:
    if type_ is NoneType:
        return EventTimes(np.zeros(len(values), np.int64), np.arange(len(values)))
    if type_ is str:
        texts = values if isinstance(values, pa.Array) else as_text(values)
        return text_times(texts, timestamp, kafka)
    if type_ is int:
        return _python_int_times(values, timestamp, kafka)
    if type_ is float and timestamp.unit in NUMERIC:
        return float_times(np.asarray(values, np.float64), timestamp.unit)
    return all_bad(values, f"timestamp: expected {expected(timestamp)}")


def _int64_times(values: Int64s, timestamp: Timestamp, kafka: Int64s | None) -> EventTimes:
    if timestamp.unit is TimeUnit.CUSTOM:
        return text_times(pa.array(values).cast(pa.string()), timestamp, kafka)
    if timestamp.unit is TimeUnit.ISO8601:
        return all_bad(values.tolist(), f"timestamp: expected {expected(timestamp)}")
    return int_times(values, timestamp.unit)


def _python_int_times(
    values: Sequence[object] | pa.Array, timestamp: Timestamp, kafka: Int64s | None
) -> EventTimes:
    try:
        return _int64_times(np.array(values, np.int64), timestamp, kafka)
    except OverflowError:
        numbers, overflow_errors = split_overflow(values)
        times = _int64_times(numbers, timestamp, kafka)
        return EventTimes(times.micros, errors={**times.errors, **overflow_errors})


__all__: Sequence[str] = (
    "MAX_MICROS",
    "MAX_MILLIS",
    "MIN_MICROS",
    "MIN_MILLIS",
    "EventTime",
    "Path",
    "Times",
    "column_times",
)
