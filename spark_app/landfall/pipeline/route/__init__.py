"""The output partition of a record: a function of the record alone, never of the clock.

A pattern is text with placeholders:

=========================  =====================================================================
``{topic}``                the topic of the record
``{kafka_partition}``      its Kafka partition
``{date}``                 ``2026-11-21``, short for ``{time:%Y-%m-%d}``
``{hour}``                 ``04``, short for ``{time:%H}``
``{minute}``               ``59``, short for ``{time:%M}``
``{minute:15}``            the minute rounded down to a multiple of 15: ``00``, ``15``, ``30``,
                           ``45``; any width above 1 that divides an hour
``{time:%Y/%m}``           the event time by strftime directives, with any text between them; a
                           ``/`` separates directories
``%Y`` outside braces      the same as ``{time:%Y}``
``{field:meta.country}``   the value of a payload field; dots separate the names of a nested path
``{key:customer.id}``      the value of a field of the key, as ``decode.key`` decodes it
``{key}``                  the whole key as text
``{schema:name}``          the full name of the payload's schema, such as ``shop.Order``
``{header:tenant}``        the value of a header as text; of several of one name the last
``{schema:id}``            the number that the schema registry has given to it
=========================  =====================================================================

The directives are ``%Y %y %m %b %d %j %H %M %S %F %G %V %u``. All give digits but ``%b``, the
month as ``Jan``; none depends on a locale. A brace or a ``%`` that is not part of a placeholder is
an error. Labels are made from wall time in the route's time zone: when clocks are set back, both
passes of the repeated hour have the same label.

Field values are escaped as in Hive. These are percent-encoded: ASCII characters other than
letters, digits, ``_``, ``.`` and ``-``; characters that are not printable; and values that
consist of dots alone. Absent and empty values become ``__HIVE_DEFAULT_PARTITION__``. So no value
can leave or split the directory it is in. A row is bad if its directories are too long, or if a
field is an object or an array.

Only the distinct time buckets and field values of a chunk are rendered, not every row. Pure: no I/O
but the time zone database, no clock.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Route, Timestamp
from landfall.pipeline.event_time import EventTime, Path
from landfall.pipeline.records import (
    UNREADABLE_HEADERS,
    BadRows,
    FieldValues,
    Int64s,
    Records,
)
from landfall.pipeline.route.pattern import (
    Pattern,
    PatternInput,
    fits,
    header_of,
    parse_route,
)
from landfall.pipeline.timezones import EPOCH, MAX_SECONDS, MIN_SECONDS, Zone, distinct

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_SAFE = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Routed:
    """The output partitions of some rows.

    Attributes:
        codes: index into ``partitions``, int64, shape (rows,); -1 for bad rows.
        partitions: the distinct output partitions, each with at least one row.
        times_ms: event times in milliseconds since 1970 UTC, shape (rows,); None if the pattern has
            no time placeholder.
        bad: rows that cannot be routed.
    """

    codes: Int64s
    partitions: tuple[str, ...]
    times_ms: Int64s | None
    bad: BadRows


@dataclass(frozen=True)
class Router:
    """Assigns rows to output partitions."""

    pattern: Pattern
    event_time: EventTime
    zone: Zone

    @classmethod
    def of(cls, route: Route, timestamp: Timestamp | None) -> "Router":
        """Build the router of ``spec.route`` and ``spec.decode.timestamp``.

        Raises:
            ValueError: the pattern is invalid; the message names the placeholder.
        """
        pattern = parse_route(route.pattern, route.topic_path)
        return cls(pattern, EventTime(timestamp), Zone(route.timezone))

    @property
    def fields(self) -> tuple[Path, ...]:
        """Paths the decoder must extract, for the event time (if it is used) and the fields."""
        timed = self.event_time.fields if self.pattern.granularity else ()
        of_payload = (path for path in self.pattern.fields if header_of(path) is None)
        return tuple(dict.fromkeys((*timed, *of_payload)))

    def route(self, records: Records, fields: Mapping[Path, FieldValues]) -> Routed:
        """Return the output partition of every row, or what is wrong with it."""
        times, times_ms = self._times(records, fields)
        values = [
            _value_axis(path, fields[path]) if name is None else _header_axis(name, records)
            for path, name in zip(
                self.pattern.fields, map(header_of, self.pattern.fields), strict=True
            )
        ]
        # Later dictionaries win: of several errors of a row the time's is kept, then the error of
        # the first field in the pattern.
        errors = {
            row: error for axis in reversed(values) for row, error in axis.errors.items()
        } | dict(times.errors)
        rows = np.arange(len(records))
        good = np.delete(rows, list(errors)) if errors else rows
        # From here on each distinct combination of time bucket and field values is looked at once.
        combined, combinations = _combine(
            [times.codes[good], *(axis.codes[good] for axis in values)]
        )
        inputs = [
            PatternInput(
                records.topic_partition.topic,
                records.topic_partition.partition,
                times.labels[time],
                tuple(axis.labels[code] for axis, code in zip(values, codes, strict=True)),
            )
            for time, *codes in combinations.tolist()
        ]
        numbers, partitions, too_long = _number([self.pattern.render(input_) for input_ in inputs])
        codes = np.full(len(records), -1, np.int64)
        codes[good] = numbers[combined]
        if too_long:
            errors |= {
                row: too_long[combined[i]]
                for i, row in enumerate(good.tolist())
                if combined[i] in too_long
            }
        bad = sorted(errors)
        return Routed(
            codes,
            partitions,
            times_ms,
            BadRows(np.array(bad, np.int64), [errors[row] for row in bad]),
        )

    def _times(
        self, records: Records, fields: Mapping[Path, FieldValues]
    ) -> tuple["_Axis[datetime]", Int64s | None]:
        """Return wall times, in steps of the pattern's granularity, and the event times."""
        step = self.pattern.granularity
        if not step:
            return _Axis(np.zeros(len(records), np.int64), (EPOCH,)), None
        times = self.event_time.read(records, fields)
        local, errors = self.zone.to_local(times.millis // 1000), dict(times.errors)
        # An instant near the end of the year 9999 in UTC may be in the year 10000 in the zone.
        if len(local) and (local.min() < MIN_SECONDS or local.max() > MAX_SECONDS):
            outside = (local < MIN_SECONDS) | (local > MAX_SECONDS)
            local = np.where(outside, 0, local)
            zone_errors = {
                row: f"timestamp out of range in {self.zone.name}, got {times.millis[row]}"
                for row in np.flatnonzero(outside).tolist()
            }
            errors = zone_errors | errors
        codes, buckets = distinct(local // step)
        labels = [EPOCH + timedelta(seconds=bucket * step) for bucket in buckets.tolist()]
        return _Axis(codes, labels, errors), times.millis


Label = TypeVar("Label")


@dataclass(frozen=True)
class _Axis(Generic[Label]):
    """One of the values an output partition depends on, such as the time or a field.

    Attributes:
        codes: index into ``labels``, shape (rows,).
        labels: the distinct values.
        errors: what is wrong, by row.
    """

    codes: Int64s
    labels: Sequence[Label]
    errors: Mapping[int, str] = field(default_factory=dict)


def _combine(columns: Sequence[Int64s]) -> tuple[Int64s, Int64s]:
    """Return ``(codes, combinations)``: the distinct combinations, and each row's index in them.

    A combination is one code of each column; ``combinations`` has shape (combinations, columns).
    """
    codes, combinations = distinct(columns[0])
    combinations = combinations[:, np.newaxis]
    for column in columns[1:]:
        values = int(column.max(initial=0)) + 1
        codes, pairs = distinct(codes * values + column)
        combinations = np.column_stack([combinations[pairs // values], pairs % values])
    return codes, combinations


def _number(names: Sequence[str]) -> tuple[Int64s, tuple[str, ...], Mapping[int, str]]:
    """Number the distinct names; names that are too long get -1 and an error."""
    numbers = np.full(len(names), -1, np.int64)
    errors = {}
    known = dict[str, int]()
    for i, name in enumerate(names):
        if fits(name):
            numbers[i] = known.setdefault(name, len(known))
        else:
            errors[i] = (
                f"route: output partition is too long, {len(name.encode())} bytes: {name[:60]!r}..."
            )
    return numbers, tuple(known), errors


# ------------------------------------------------------------------------------------------- fields


def _value_axis(path: Path, values: FieldValues) -> _Axis[str]:
    """Return the escaped values of a field; objects and arrays are errors."""
    if isinstance(values, np.ndarray):
        codes, numbers = distinct(values)
        return _Axis(codes, [escape(str(number)) for number in numbers.tolist()])
    if isinstance(values, pa.Array):
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        return _Axis(
            np.asarray(encoded.indices, np.int64),
            [escape(text or "") for text in encoded.dictionary.to_pylist()],
        )
    texts = values if set(map(type, values)) == {str} else [_as_text(value) for value in values]
    known: dict[str | None, int] = {}
    codes = np.fromiter(
        (known.setdefault(text, len(known)) for text in texts), np.int64, len(texts)
    )
    error = f"route: field {'.'.join(path)!r} is not a single value"
    errors = (
        dict.fromkeys(np.flatnonzero(codes == known[None]).tolist(), error) if None in known else {}
    )
    return _Axis(codes, [escape(text or "") for text in known], errors)


def _header_axis(name: str, records: Records) -> _Axis[str]:
    """Return the escaped values of a header; what is no text is an error."""
    found, unreadable = header_values(records.headers, name)
    errors = dict.fromkeys(unreadable, f"route: header {name!r} is not UTF-8")
    for row in np.flatnonzero(np.asarray(records.headers.is_null())).tolist():
        errors[row] = f"route: {UNREADABLE_HEADERS}"
    axis = _value_axis((name,), found)
    return _Axis(axis.codes, axis.labels, errors)


def header_values(headers: pa.ListArray, name: str) -> tuple[pa.StringArray, list[int]]:
    """Return the last value of this header of each row, and the rows where it is not UTF-8.

    Null stands for a header that is absent or null, or not UTF-8.
    """
    pairs, rows = headers.flatten(), pc.list_parent_indices(headers).to_numpy()
    hits = np.flatnonzero(pc.equal(pairs.field("key"), name).to_numpy(zero_copy_only=False))
    last = np.full(len(headers), -1, np.int64)
    np.maximum.at(last, rows[hits], hits)
    at = pa.array(last, mask=last < 0)
    values = pairs.field("value").take(at)
    try:
        return values.cast(pa.string()), []
    except pa.ArrowInvalid:
        texts = [_utf8(value) for value in values.to_pylist()]
        return (
            pa.array([text or None for text in texts], pa.string()),
            [row for row, text in enumerate(texts) if text is None],
        )


def _utf8(value: bytes | None) -> str | None:
    """The text of a value, empty if there is none; None if it is not UTF-8."""
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        return None


def _as_text(value: object) -> str | None:
    """Return a value as text, empty if it is absent; None if it is an object or an array."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str() | int() | float():
            return str(value)
        case _:
            return None


def escape(text: str) -> str:
    """Return any text as a directory name or a part of one.

    The result is printable, never empty, contains no ``/`` and is neither ``.`` nor ``..``.
    """
    if not text:
        return DEFAULT_PARTITION
    if _SAFE.fullmatch(text) and text.strip("."):
        return text
    allowed = "_-" if not text.strip(".") else "_-."
    return "".join(
        char if _is_plain(char) or char in allowed else _percent_encode(char) for char in text
    )


def _is_plain(char: str) -> bool:
    return char.isalnum() if char.isascii() else char.isprintable()


def _percent_encode(char: str) -> str:
    # Half of a surrogate pair, which some JSON parsers let through, has no UTF-8 otherwise.
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", "surrogatepass"))
