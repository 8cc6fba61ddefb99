"""The last landed rows of a topic, and the payloads that they would be under a new schema."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from landfall import registry
from landfall.api.spec import ColumnUnit, GroupSpec
from landfall.cli.contract.new_schema import unresolved
from landfall.cli.contract.schema_columns import has_own_columns
from landfall.formats.columns import COORDINATES, ENVELOPE
from landfall.formats.typed_rows import plain_rows
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders.avro.own_columns import VALUE
from landfall.pipeline.decoders.avro.schema import Record, Schema, Union
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.pipeline.decoders.typed_columns import TypedColumn, schema_of, typed_columns
from landfall.reading import LandedGroup
from landfall.reading import rows as landed
from landfall.reading.files import File
from landfall.reading.scans import Scan

_COLUMNS = frozenset({"Parquet", "Orc", "Avro"})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND: Mapping[ColumnUnit | None, int] = {
    ColumnUnit.SECONDS: 1,
    ColumnUnit.MILLISECONDS: 10**3,
    ColumnUnit.MICROSECONDS: 10**6,
    ColumnUnit.NANOSECONDS: 10**9,
}


@dataclass(frozen=True)
class LandedRow:
    """A row of a landed object.

    Attributes:
        topic_partition: where its record was.
        offset: of the record; None if the format does not keep it.
        timestamp_ms: Kafka's; -1 if it is not kept.
        place: the coordinates, for people; its object and row if there is no offset.
        values: by column, without the coordinates.
    """

    topic_partition: TopicPartition
    offset: int | None
    timestamp_ms: int
    place: str
    values: Mapping[str, Any]


def last_objects(group: LandedGroup, topic: str, rows: int) -> Scan | None:
    """Return a scan of the last objects that have so many rows, or of the last one for no rows.

    Returns:
        The scan; None if nothing of the topic has landed.

    Raises:
        Stalled: LEDGER_BROKEN.
        Retry: the store does not answer.
    """
    if topic not in group.topics():
        return None
    chosen, left = list[File](), rows
    for file in reversed(group.scan(topic).files()):
        chosen.append(file)
        left -= file.rows
        if left <= 0:
            break
    return group.scan_of(topic, tuple(reversed(chosen)), group.slot) if chosen else None


def landed_columns(objects: Scan) -> pa.Schema | None:
    """Return the columns of the last object; None if its format has none.

    Raises:
        Stalled: OBJECT_LOST, it is gone or damaged.
        Retry: the store does not answer.
    """
    *_, (body, output) = objects.bodies()
    if output.format not in _COLUMNS:
        return None
    return landed.schema_of(body, output).remove_metadata()


def last_rows(objects: Scan, topic: str, count: int) -> list[LandedRow]:
    """Return the last rows of objects with columns, in the order in which they became visible.

    Objects from before the group had columns are passed over.

    Raises:
        Stalled: OBJECT_LOST, an object is gone or damaged.
        Retry: the store does not answer.
    """
    kept = deque[LandedRow](maxlen=count)
    for body, output in objects.bodies():
        number = 0
        for batch in landed.batches(body, output, None) if output.format in _COLUMNS else ():
            if batch.schema.names == ENVELOPE.names:
                break
            tail = batch.slice(max(0, batch.num_rows - count))
            number += batch.num_rows - tail.num_rows
            for values in plain_rows(tail):
                number += 1
                kept.append(_row(body.file, topic, number, values))
    return list(kept)


def _row(file: File, topic: str, number: int, values: dict[str, Any]) -> LandedRow:
    coordinates = {name: values.pop(f"_{name}", None) for name in COORDINATES}
    partition, offset = coordinates["partition"], coordinates["offset"]
    tp = TopicPartition(topic, file.name.partition if partition is None else partition)
    time = coordinates["timestamp"]
    millis = _since_epoch(time) // 1000 if isinstance(time, datetime) else -1
    place = f"{file.key} row {number}" if offset is None else f"{tp} offset {offset}"
    return LandedRow(tp, offset, millis, place, values)


def why_not_tried(spec: GroupSpec, path: str) -> str:
    """Return why payloads cannot be made of landed rows; empty if they can.

    Args:
        spec: of the topic.
        path: of the fields that it is made of.

    Raises:
        Stalled: SPEC_INVALID, the group is wrong.
    """
    if spec.decode.envelope is not None:
        return f"rows of envelopes ({path}.decode.envelope) are no payloads"
    if spec.output.format not in _COLUMNS or not (has_own_columns(spec) or spec.decode.columns):
        return f"rows have no columns ({path}.output.format {spec.output.format})"
    built = registry.pipeline(unresolved(spec), path)
    read = [field for field in built.wanted.fields if field[0]]
    no_fields = {*built.wanted.fields, *built.router.pattern.fields} - {*read}
    of_records = any(not field[0] for field in no_fields - {SCHEMA_ID, SCHEMA_NAME})
    if of_records or spec.decode.key_columns() or spec.decode.typed_headers():
        return "stages read keys or headers, which rows do not have"
    landed_paths = [] if has_own_columns(spec) else [of.path for of in columns_of(spec)]
    for field in read if landed_paths else ():
        if not any(field[: len(known)] == known for known in landed_paths):
            return f"stages read {'.'.join(field)}, which no column has"
    return ""


def columns_of(spec: GroupSpec) -> tuple[TypedColumn, ...]:
    """Return the declared columns of payloads."""
    return typed_columns(schema_of(spec.decode.payload_columns()))


def payload_value(spec: GroupSpec, schema: Schema, row: LandedRow) -> Any:
    """Return the value of the payload that a row would be made of.

    Args:
        spec: of the topic.
        schema: of the payload.
        row: the row.
    """
    if not has_own_columns(spec):
        return _nested(columns_of(spec), row.values)
    is_value = {*row.values} == {VALUE} and not _has_field(schema, VALUE)
    return row.values[VALUE] if is_value else row.values


def _has_field(schema: Schema, name: str) -> bool:
    root = schema.resolve(schema.root)
    kinds = root.branches if isinstance(root, Union) else (root,)
    records = [kind for kind in map(schema.resolve, kinds) if isinstance(kind, Record)]
    return len(records) == 1 and name in {field.name for field in records[0].fields}


def _nested(columns: Sequence[TypedColumn], values: Mapping[str, Any]) -> dict[str, Any]:
    """Put the values of declared columns where their paths lead."""
    made: dict[str, Any] = {}
    for column in columns:
        if column.name not in values:
            continue  # the object is from before the column
        value = _in_unit(column, values[column.name])
        if value is None and len(column.path) > 1:
            continue  # what is around it may be null
        inner = made
        for part in column.path[:-1]:
            inner = inner.setdefault(part, {})
        inner[column.path[-1]] = value
    return made


def _in_unit(column: TypedColumn, value: Any) -> Any:
    """Return a time as the number that the payload has, if the column declares a unit."""
    per_second = _PER_SECOND.get(column.declared.unit)
    if not isinstance(value, datetime) or per_second is None:
        return value
    return _since_epoch(value) * per_second // 10**6


def _since_epoch(time: datetime) -> int:
    """Return a time in microseconds since 1970; without a zone, as ORC has it, it is in UTC."""
    utc = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (utc - _EPOCH) // timedelta(microseconds=1)
