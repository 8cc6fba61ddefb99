"""Columns as files hold them: a schema's, made storable, and the Kafka record's.

Some Arrow types have no place in Parquet or ORC, or none that other readers know. They are stored
otherwise, at any level of nesting:

=============================  =====================================================
Arrow type                     stored as
=============================  =====================================================
null                           String, all null
a struct without members       String, ``{}``
a decimal of over 38 digits    String, with all its digits
a time in milliseconds or      a time in microseconds, the only unit that Iceberg and
seconds                        Delta have
=============================  =====================================================

Nanoseconds that a payload's schema has stay nanoseconds. A time of day is text in ORC.

Both formats add the coordinates of the record (``_topic`` to ``_timestamp``) unless ``envelope`` is
false. A column of the payload that has the name of one of these, in any case, gets an
underscore after its name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats import unreadable
from landfall.formats.options import SortKey
from landfall.pipeline.decimal_texts import decimal_texts
from landfall.pipeline.decoders.typed_columns import TIMESTAMP, as_timestamps, in_timestamps
from landfall.pipeline.records import HEADERS, Records

KAFKA_TIMESTAMP = pa.timestamp("ms", tz="UTC")
"""What Kafka has; files hold ``TIMESTAMP``."""
COORDINATES = ("topic", "partition", "offset", "timestamp")
ENVELOPE = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
    ]
)
_COORDINATE_NAMES = frozenset(f"_{name}" for name in COORDINATES)
_MAX_DIGITS = 38

Convert = Callable[[pa.Array], pa.Array]
"""Makes a column of a leaf storable; returns the column itself if it is."""


def envelope(records: Records) -> list[pa.Array]:
    """Return the columns of ``ENVELOPE`` for these records."""
    return [*coordinates(records), records.keys, records.values, records.headers]


def coordinates(records: Records) -> list[pa.Array]:
    """Return topic, partition, offset and timestamp of each record.

    A Kafka timestamp that ``TIMESTAMP`` cannot hold is null: only dead letters have one.
    """
    rows, tp = len(records), records.topic_partition
    millis = records.timestamps
    stamps, _ = in_timestamps(millis, 1_000, millis == -1)
    return [
        pa.repeat(tp.topic, rows),
        pa.repeat(np.int32(tp.partition), rows),
        pa.array(records.offsets),
        stamps,
    ]


def wrong_timestamps(records: Records, wrong: unreadable.Wrong) -> pa.BooleanArray | None:
    """Return which Kafka timestamps cannot be held; None if all can. -1 is none at all."""
    stamps = records.timestamps
    found = wrong(KAFKA_TIMESTAMP, stamps) & (stamps != -1)
    return pa.array(found) if found.any() else None


def sort_keys(wanted: Sequence[SortKey], schema: pa.Schema) -> list[SortKey]:
    """Return those keys whose columns are there and have an order."""
    return [
        key
        for key in wanted
        if key.column in schema.names and not pa.types.is_nested(schema.field(key.column).type)
    ]


def as_leaf(column: pa.Array) -> pa.Array:
    """Return a column of a type without inner types as it is stored."""
    type_ = column.type
    if pa.types.is_null(type_) or (pa.types.is_decimal(type_) and type_.precision > _MAX_DIGITS):
        return decimal_texts(column)
    if pa.types.is_timestamp(type_) and type_.unit in {"s", "ms"}:
        return as_timestamps(column)[0].cast(pa.timestamp("us", type_.tz))
    return column


def in_micros(column: pa.Array) -> pa.Array:
    """Return what ``as_leaf`` does, and a time of day in microseconds, too."""
    is_coarse = pa.types.is_time32(column.type)
    return column.cast(pa.time64("us")) if is_coarse else as_leaf(column)


def table(
    records: Records,
    typed: pa.RecordBatch,
    *,
    is_enveloped: bool,
    own: bool,
    convert: Convert = as_leaf,
) -> pa.Table:
    """Return typed columns as a table, as they are stored, followed by the records' coordinates.

    Args:
        records: the records.
        typed: their columns.
        is_enveloped: whether there are coordinates.
        own: whether the columns follow the payloads' schema, which the group does not choose.
        convert: makes a leaf storable.

    Raises:
        ValueError: two declared columns have the same name.
    """
    stored = _stored(typed.schema, convert, is_enveloped=is_enveloped, own=own)
    names = stored.schema.names
    if stored.has_duplicates:
        raise ValueError(
            f"{records.topic_partition}: two columns have the same name among {', '.join(names)}"
        )
    added = coordinates(records) if is_enveloped else []
    if stored.changed or own:
        arrays = typed.columns
        for i in stored.changed:
            arrays[i] = _converted(arrays[i], convert)
        return pa.Table.from_arrays([*arrays, *added], schema=stored.schema)
    # An object of Python for each of hundreds of columns takes as long as writing a few rows.
    made = pa.Table.from_batches([typed]).replace_schema_metadata()
    for i, array in enumerate(added, typed.num_columns):
        made = made.append_column(stored.schema.field(i), array)
    return made


@dataclass(frozen=True, slots=True)
class _StoredColumns:
    """How typed columns are stored.

    Attributes:
        schema: of the file.
        changed: the columns that are stored with another type, by their position.
        has_duplicates: whether two columns have the same name.
    """

    schema: pa.Schema
    changed: Sequence[int]
    has_duplicates: bool


@lru_cache(256)  # hundreds of files have the columns of one topic
def _stored(typed: pa.Schema, convert: Convert, *, is_enveloped: bool, own: bool) -> _StoredColumns:
    types = [storable(pa.array([], field.type), convert).type for field in typed]
    fields = [
        field.with_type(type_) for field, type_ in zip(typed.remove_metadata(), types, strict=True)
    ]
    if own:
        names = _renamed(typed.names) if is_enveloped else typed.names
        fields = [pa.field(name, type_) for name, type_ in zip(names, types, strict=True)]
    if is_enveloped:
        fields += [ENVELOPE.field(name).with_name(f"_{name}") for name in COORDINATES]
    changed = [i for i, field in enumerate(typed) if _changes(field.type, convert)]
    names = [field.name for field in fields]
    return _StoredColumns(pa.schema(fields), changed, len(set(names)) < len(names))


def _renamed(names: Sequence[str]) -> list[str]:
    taken = {name.casefold() for name in names} | _COORDINATE_NAMES
    made = []
    for name in names:
        free = name
        while free.casefold() in _COORDINATE_NAMES or (free != name and free.casefold() in taken):
            free += "_"
        taken.add(free.casefold())
        made.append(free)
    return made


def storable(column: pa.Array, convert: Convert = as_leaf) -> pa.Array:
    """Return the column with leaves changed by ``convert``; nulls stay nulls.

    Args:
        column: of any type that decoders make.
        convert: makes a leaf storable, or returns it as it is; a function of a module.
    """
    return _converted(column, convert) if _changes(column.type, convert) else column


@lru_cache(4096)
def _changes(type_: pa.DataType, convert: Convert) -> bool:
    return bool(_converted(pa.array([], type_), convert).type != type_)


def _converted(column: pa.Array, convert: Convert) -> pa.Array:
    type_ = column.type
    if pa.types.is_struct(type_):
        if not type_.num_fields:
            return pc.if_else(column.is_valid(), "{}", pa.scalar(None, pa.string()))
        # ``field`` and not ``flatten``: the struct's own nulls are put back.
        inner = [_converted(column.field(i), convert) for i in range(type_.num_fields)]
        fields = [type_.field(i).with_type(array.type) for i, array in enumerate(inner)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=column.is_null())
    if pa.types.is_list(type_):
        items = _converted(column.values, convert)
        made = pa.list_(type_.value_field.with_type(items.type))
        return _around(made, column, items)
    if pa.types.is_map(type_):
        keys, items = (_converted(child, convert) for child in (column.keys, column.items))
        made = pa.map_(keys.type, type_.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays(
            [keys, items], fields=[made.key_field, made.item_field]
        )
        return _around(made, column, entries)
    return convert(column)


def _around(type_: pa.DataType, column: pa.Array, items: pa.Array) -> pa.Array:
    """Return the lists of ``column`` with other items."""
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(
        type_, len(column), buffers, column.null_count, column.offset, children=[items]
    )
