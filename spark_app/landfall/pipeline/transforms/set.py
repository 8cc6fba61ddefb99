"""Step ``Set``: gives fields or columns a value; its options are the values by name.

=====================================  =============================  ========================
value                                  gives                          type
=====================================  =============================  ========================
a number, true or false                this value                     Int64, Float64, Boolean
text                                   this text                      String
text with ``{topic}``, ``{date}``,     the text with the topic or     String
``{time:%Y-%m}`` and what else a       pieces of the event time in
route's pattern has                    the route's time zone
``{kafka_partition}`` ``{offset}``     where the record was           Int64
``{kafka_timestamp}``                  when Kafka got it              Timestamp
``{event_time}``                       the event time                 Timestamp
=====================================  =============================  ========================

A value that was there is replaced. In JSON a Timestamp is ISO 8601 text. A record without an event
time is rejected if a value needs it. A column that exists keeps its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from landfall.api.route_pattern import TokenKind, tokens
from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.typed_columns import TIMESTAMP, as_timestamps
from landfall.pipeline.event_time import EventTime
from landfall.pipeline.records import FieldValues, Int64s, Records
from landfall.pipeline.route.pattern import Pattern, PatternInput, parse_text
from landfall.pipeline.timezones import EPOCH, MAX_SECONDS, MIN_SECONDS, Zone, distinct
from landfall.pipeline.transforms import TransformContext
from landfall.pipeline.transforms.documents import put, read_documents, with_documents
from landfall.pipeline.transforms.names import columns_by_name, path_of, with_columns
from landfall.pipeline.transforms.payloads import json_texts, routable

Constant: TypeAlias = str | int | float | bool
_TYPED = ("{kafka_partition}", "{offset}", "{kafka_timestamp}", "{event_time}")


@dataclass(frozen=True)
class Set:
    """Gives fields or columns a value.

    Attributes:
        constants: the values that are the same for every record, by name.
        typed: names with one of ``{kafka_partition}`` to ``{event_time}``.
        patterns: names with text that has placeholders.
        event_time: reads the event time; None if no value needs it.
        zone: the time zone of pieces of the event time.
        dated_by_column: whether the event time is in a typed column that a step has written.
        writes: the names, in the order of the options.
    """

    constants: Mapping[Path, Constant]
    typed: Mapping[Path, str]
    patterns: Mapping[Path, Pattern]
    event_time: EventTime | None
    zone: Zone
    dated_by_column: bool
    writes: tuple[Path, ...]
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Set":
        """Build the step; ValueError names a wrong option."""
        if not options:
            raise ValueError("options: name at least one field, as name: value")
        constants = {}
        typed = {}
        patterns = {}
        for name, value in options.items():
            path = path_of(name)
            if isinstance(value, str) and value in _TYPED:
                typed[path] = value
            elif isinstance(value, str) and (pattern := _pattern(name, value)):
                patterns[path] = pattern
            else:
                constants[path] = _constant(name, value)
        needs_time = "{event_time}" in typed.values() or any(
            pattern.granularity for pattern in patterns.values()
        )
        event_time = EventTime(context.timestamp) if needs_time else None
        paths = event_time.fields if event_time else ()
        dated_by_column = any(context.is_written_column(path) for path in paths)
        writes = tuple(path_of(name) for name in options)
        zone = Zone(context.timezone)
        return cls(
            constants=constants,
            typed=typed,
            patterns=patterns,
            event_time=event_time,
            zone=zone,
            dated_by_column=dated_by_column,
            writes=writes,
        )

    @property
    def fields(self) -> tuple[Path, ...]:
        """The field of the event time, if a value needs it."""
        return self.event_time.fields if self.event_time and not self.dated_by_column else ()

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with these values; reject those without the event time they need."""
        decoded, micros = self._dated(self._with_kafka_times(decoded))
        values = {path: self._value(path, decoded, micros) for path in self.writes}
        if decoded.columns is not None:
            named = {".".join(path): array for path, array in values.items()}
            return with_columns(decoded, {**columns_by_name(decoded.columns), **named})
        decoded, documents = read_documents(decoded)
        if len(documents) < len(next(iter(values.values()))):
            return self.apply(decoded)  # once more, for the rows that are left
        errors: dict[int, str] = {}
        for path, array in values.items():
            for row, text in enumerate(json_texts(array).to_pylist()):
                document = documents[row]
                if document is not None and not put(document, path, msgspec.Raw(text.encode())):
                    errors[row] = f"set: what is above {'.'.join(path)} is no object"
        return with_documents(decoded, documents, self.writes, errors)

    def _with_kafka_times(self, decoded: Decoded) -> Decoded:
        """Return the rows whose Kafka timestamps are times, if a value needs them."""
        if "{kafka_timestamp}" not in self.typed.values():
            return decoded
        _, outside = _kafka_times(decoded.records)
        return decoded.reject(dict.fromkeys(outside, "set: Kafka timestamp out of range"))

    def _dated(self, decoded: Decoded) -> tuple[Decoded, Int64s]:
        """Return the rows that have an event time, if one is needed, with their times."""
        if self.event_time is None:
            return decoded, np.empty(0, np.int64)
        fields: dict[Path, FieldValues] = dict(decoded.fields)
        if self.dated_by_column and decoded.columns is not None:
            for path in self.event_time.fields:
                fields[path] = routable(decoded.columns.column(".".join(path)))
        times = self.event_time.read(decoded.records, fields)
        local = self.zone.to_local(times.micros // 10**6)
        outside = np.flatnonzero((local < MIN_SECONDS) | (local > MAX_SECONDS))
        out_of_range = dict.fromkeys(
            outside.tolist(), f"timestamp out of range in {self.zone.name}"
        )
        errors = {
            row: f"set: {error}" for row, error in (out_of_range | dict(times.errors)).items()
        }
        return decoded.reject(errors), np.delete(times.micros, sorted(errors))

    def _value(self, path: Path, decoded: Decoded, micros: Int64s) -> pa.Array:
        rows = len(decoded.records)
        if path in self.constants:
            value = self.constants[path]
            return pa.repeat(pa.scalar(value), rows)
        if path in self.typed:
            return _typed(self.typed[path], decoded, micros)
        return self._text(self.patterns[path], decoded, micros)

    def _text(self, pattern: Pattern, decoded: Decoded, micros: Int64s) -> pa.StringArray:
        tp, rows = decoded.records.topic_partition, len(decoded.records)
        if not pattern.granularity:
            text = pattern.render(PatternInput(tp.topic, tp.partition, EPOCH, ()))
            return pa.repeat(pa.scalar(text), rows)
        local = self.zone.to_local(micros // 10**6)
        codes, buckets = distinct(local // pattern.granularity)
        steps = (timedelta(seconds=bucket * pattern.granularity) for bucket in buckets.tolist())
        texts = [
            pattern.render(PatternInput(tp.topic, tp.partition, EPOCH + step, ())) for step in steps
        ]
        return pa.array(texts, pa.string()).take(pa.array(codes))


def _typed(value: str, decoded: Decoded, micros: Int64s) -> pa.Array:
    records = decoded.records
    match value:
        case "{offset}":
            return pa.array(records.offsets)
        case "{kafka_partition}":
            return pa.repeat(pa.scalar(records.topic_partition.partition, pa.int64()), len(records))
        case "{event_time}":
            return pa.array(micros, pa.int64()).cast(TIMESTAMP)
        case _:
            return _kafka_times(records)[0]


def _kafka_times(records: Records) -> tuple[pa.Array, Sequence[int]]:
    missing = records.timestamps == -1
    return as_timestamps(pa.array(records.timestamps, pa.timestamp("ms"), mask=missing))


def _constant(name: str, value: object) -> Constant:
    match value:
        case str() | bool():
            return value
        case int() if -(2**63) <= value < 2**63:
            return value
        case float() if isfinite(value):
            return value
        case _:
            raise ValueError(f"options: {name}: expected text, a number or a boolean")


def _pattern(name: str, text: str) -> Pattern | None:
    """The pattern that a text is; None if it has no placeholder."""
    if not set(text) & set("{}%"):
        return None
    try:
        kinds = {token.kind for token in tokens(text)}
        pattern = parse_text(text)
    except ValueError as error:
        raise ValueError(f"options: {name}: {error}") from error
    if of_record := kinds & {TokenKind.FIELD, TokenKind.HEADER, TokenKind.SCHEMA}:
        kind = min(kind.value for kind in of_record)
        raise ValueError(f"options: {name}: {{{kind}:…}} is no placeholder here")
    return pattern
