"""Typed columns: the Arrow schema of ``spec.decode.columns``, and conversion of values to it.

Types are declared, never inferred. A value that does not fit its column's type makes the row bad;
the error names the column.

=========  ==================  ============================  ============================
type       Arrow type          from JSON                     from text (Delimited, Regex)
=========  ==================  ============================  ============================
String     string              text                          the text
Int32/64   int32, int64        an integer in range           decimal digits, as in ``text_values``
Float64    double              a number                      a decimal number, as there
Boolean    bool                true, false                   ``true``, ``false``
Timestamp  timestamp[us, UTC]  a number in the column's      the same
                               unit, or text
Date       date32              text such as ``2026-11-21``;  the same
                               a number of days, unit Days
Binary     binary              base64 text                   the UTF-8 bytes of the text
Json       string              any JSON value, verbatim      JSON
Decimal    decimal128          see ``decimal_columns``       the same
List       list                an array                      JSON
Struct     struct              an object                     JSON
=========  ==================  ============================  ============================

Timestamps keep microseconds, here and wherever a decoder or a transform makes one (``TIMESTAMP``):
table formats (Iceberg, Delta) know no coarser unit. Digits beyond microseconds are cut off.

Absent and null values become null, and so does empty text, except in String and Binary. A null in a
column that is not nullable makes the row bad. What a List or a Struct holds is converted as columns
of its type are (``nested_columns``).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Column, ColumnType, ColumnUnit, Item, Timestamp, TimeUnit, ValueType
from landfall.pipeline.decoders import Path, decimal_columns, nested_columns
from landfall.pipeline.decoders.text_values import read_column
from landfall.pipeline.event_time import column_times
from landfall.pipeline.records import Int64s

_PATH, _TYPE = b"landfall.path", b"landfall.type"

TIMESTAMP = pa.timestamp("us", "UTC")
"""The type of every time that Landfall itself gives a type. ADR 0038 explains why microseconds."""
_PER_SECOND: Mapping[str, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ARROW: Mapping[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT32: pa.int32(),
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.TIMESTAMP: TIMESTAMP,
    ColumnType.DATE: pa.date32(),
    ColumnType.BINARY: pa.binary(),
    ColumnType.JSON: pa.string(),
}
JSON_TYPES: Mapping[ColumnType, Any] = {
    ColumnType.STRING: str | None,
    ColumnType.INT32: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | None,
    ColumnType.INT64: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None,
    ColumnType.FLOAT64: int | float | None,
    ColumnType.BOOLEAN: bool | None,
    ColumnType.TIMESTAMP: int | float | str | None,
    ColumnType.DATE: str | None,
    ColumnType.BINARY: bytes | None,
    ColumnType.JSON: msgspec.Raw,
    ColumnType.DECIMAL: msgspec.Raw,
}
"""The type that msgspec must find in JSON for each column type without inner types."""
DAYS = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | str | None
"""The type that msgspec must find in JSON for a Date with unit Days."""
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAYS = range(date.min.toordinal() - _EPOCH_DAY, date.max.toordinal() - _EPOCH_DAY + 1)
"""The days of the years 1 to 9999."""
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A declared column: name, path in the payload, whether it may be null, type and encoding."""

    name: str
    path: Path
    nullable: bool
    declared: ValueType

    @property
    def type(self) -> ColumnType:
        """The declared type."""
        return self.declared.type

    @property
    def arrow(self) -> pa.DataType:
        """The type in Arrow."""
        return arrow_type(self.declared)


def arrow_type(declared: ValueType) -> pa.DataType:
    """Return the Arrow type of a declared type."""
    match declared.type:
        case ColumnType.DECIMAL:
            return decimal_columns.arrow_type(declared)
        case ColumnType.LIST | ColumnType.STRUCT:
            return nested_columns.arrow_type(declared, arrow_type)
    return ARROW[declared.type]


def json_type(declared: ValueType, types: Mapping[ColumnType, Any] = JSON_TYPES) -> Any:
    """Return the type that msgspec must find for a declared type.

    Args:
        declared: the type, and what is in it.
        types: msgspec's types for types without inner types.
    """
    if declared.unit is ColumnUnit.DAYS:
        return DAYS
    if declared.type in {ColumnType.LIST, ColumnType.STRUCT} and declared.type not in types:
        return nested_columns.json_type(declared, lambda inner: json_type(inner, types))
    return types[declared.type]


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of declared columns.

    The metadata of each field holds the path and the declared type; ``typed_columns`` reads them.
    """
    return pa.schema([_arrow_field(column) for column in columns])


def _arrow_field(column: Column) -> pa.Field:
    type_text = _type_text(*_type_settings(column))
    metadata = {_PATH: msgspec.json.encode(column.path), _TYPE: type_text}
    return pa.field(column.name, arrow_type(column), column.nullable, metadata)


_type_settings = attrgetter(*ValueType.model_fields)


@lru_cache(1024)  # thousands of columns have a few types, and a model takes longer than a field
def _type_text(*settings: object) -> bytes:
    """Return the declared type with these settings, in the order of its fields, as JSON."""
    declared = ValueType.model_validate(dict(zip(ValueType.model_fields, settings, strict=True)))
    return declared.model_dump_json().encode()


def typed_columns(schema: pa.Schema) -> tuple[TypedColumn, ...]:
    """Return the declared columns of a schema that ``schema_of`` made, in order."""
    return tuple(
        TypedColumn(
            field.name,
            msgspec.json.decode(field.metadata[_PATH], type=tuple[str, ...]),
            field.nullable,
            _declared(field.metadata[_TYPE]),
        )
        for field in schema
    )


@lru_cache(1024)
def _declared(text: bytes) -> ValueType:
    return ValueType.model_validate_json(text)


@dataclass(frozen=True, slots=True, eq=False)
class _SameSchema:
    """A schema as a key: pyarrow's ``==`` passes over the metadata of fields."""

    schema: pa.Schema

    def __hash__(self) -> int:
        return id(self.schema)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SameSchema) and other.schema is self.schema


@lru_cache(64)
def _columns_and_schema(key: _SameSchema) -> tuple[tuple[TypedColumn, ...], pa.Schema]:
    """Return the declared columns, and the schema of their batches; each chunk has one."""
    # Without the metadata, which is for decoders and does not belong in the written file.
    fields = [pa.field(field.name, field.type) for field in key.schema]
    return typed_columns(key.schema), pa.schema(fields)


def record_batch(
    schema: pa.Schema, values: Sequence[Sequence[object] | pa.Array | Int64s]
) -> tuple[pa.RecordBatch, Mapping[int, str]]:
    """Convert one sequence of values per column to typed columns.

    Args:
        schema: made by ``schema_of``.
        values: for each column text, Python values of the type that ``JSON_TYPES`` names, such
            values that are all integers as an int64 array, or an Arrow array of the column's own
            type.

    Returns:
        The batch and the errors by row. Rows with errors are in the batch as null; the caller must
        remove them.
    """
    errors: dict[int, str] = {}
    arrays = []
    columns, written = _columns_and_schema(_SameSchema(schema))
    for column, column_values in zip(columns, values, strict=True):
        array, column_errors = _checked(column, column_values)
        arrays.append(array)
        if column_errors:
            errors = column_errors | errors  # the first column that is wrong names the row
    return pa.record_batch(arrays, schema=written), errors


def _checked(
    column: TypedColumn, values: Sequence[object] | pa.Array | Int64s
) -> tuple[pa.Array, dict[int, str]]:
    if isinstance(values, np.ndarray):
        array, errors = _of_integers(column, values)
    else:
        array, errors = _array(column, values)
    if column.nullable or not array.null_count:
        return array, errors
    nulls = np.flatnonzero(array.is_null()).tolist()
    # A value that could not be converted is null, too; the error with the reason wins.
    return array, dict.fromkeys(nulls, f"column {column.name}: null") | errors


def _inner(
    name: str, declared: Item | Column, values: Sequence[object]
) -> tuple[pa.Array, dict[int, str]]:
    """Convert what is inside of lists and structs."""
    return _checked(TypedColumn(name, (), declared.nullable, declared), values)


def _array(
    column: TypedColumn, values: Sequence[object] | pa.Array
) -> tuple[pa.Array, dict[int, str]]:
    if own := _own_conversion(column.declared):
        return own(column, values)
    if isinstance(values, pa.Array) and not pa.types.is_string(values.type):
        return values, {}
    if column.type is ColumnType.DATE and not isinstance(values, pa.Array):
        values = pa.array(values, pa.string())
    if isinstance(values, pa.Array):
        return _from_text(column, values)
    match column.type:
        case ColumnType.FLOAT64:
            return _each(column, values, float)
        case ColumnType.JSON:
            return _each(column, values, _json_text)
        case _:
            return pa.array(values, ARROW[column.type]), {}


def _of_integers(column: TypedColumn, values: Int64s) -> tuple[pa.Array, dict[int, str]]:
    match column.type:
        case ColumnType.INT64:  # a wide chunk has thousands of columns: ``pa.array`` takes longer
            array = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
        case ColumnType.INT32:
            array = pa.array(values, pa.int32())
        case ColumnType.FLOAT64:
            array = pa.array(values.astype(np.float64))
        case _:
            return _array(column, values.tolist())
    return array, {}


def _own_conversion(
    declared: ValueType,
) -> Callable[[TypedColumn, Any], tuple[pa.Array, dict[int, str]]] | None:
    """Return what converts values of a type that depends on more than its name."""
    match declared.type:
        case ColumnType.TIMESTAMP:
            return _timestamps
        case ColumnType.DATE if declared.unit is ColumnUnit.DAYS:
            return _days
        case ColumnType.DECIMAL:
            return _decimals
        case ColumnType.LIST | ColumnType.STRUCT:
            return _nested
    return None


def _decimals(
    column: TypedColumn, values: Sequence[object] | pa.Array
) -> tuple[pa.Array, dict[int, str]]:
    return decimal_columns.convert(column.name, column.declared, values)


def as_timestamps(array: pa.Array) -> tuple[pa.Array, Sequence[int]]:
    """Return times of any unit, or dates at 00:00 UTC, as ``TIMESTAMP``, rounded down.

    A time without a zone counts as UTC. The rows of times that are no 64-bit number of
    microseconds, some 290,000 years from 1970, come second; they are null.
    """
    is_date = pa.types.is_date32(array.type)
    numbers = array.view(pa.int32() if is_date else pa.int64()).fill_null(0)
    values = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
    per_unit = 86_400 * 10**6 if is_date else 10**6 // _PER_SECOND[array.type.unit]
    missing = np.asarray(array.is_null())
    if not per_unit:
        return pa.array(values // 1000, pa.int64(), mask=missing).view(TIMESTAMP), ()
    return in_timestamps(values, per_unit, missing)


def in_timestamps(
    values: Int64s, per_unit: int, missing: npt.NDArray[np.bool_]
) -> tuple[pa.Array, Sequence[int]]:
    """Return numbers of ``per_unit`` microseconds since 1970 as ``as_timestamps`` returns times.

    Args:
        values: the numbers.
        per_unit: microseconds in one of them.
        missing: the rows that have none, and are null.
    """
    most = (2**63 - 1) // per_unit
    outside = (values > most) | (values < -most)
    micros = np.where(outside, 0, values) * per_unit
    made = pa.array(micros, pa.int64(), mask=missing | outside).view(TIMESTAMP)
    return made, np.flatnonzero(outside & ~missing).tolist()


def _from_text(column: TypedColumn, texts: pa.StringArray) -> tuple[pa.Array, dict[int, str]]:
    arrow_type = ARROW[column.type]
    if column.type in {ColumnType.STRING, ColumnType.BINARY}:
        return texts.cast(arrow_type), {}
    present = _without_empty_text(texts)
    if column.type is ColumnType.JSON:
        return _each(column, present.to_pylist(), lambda text: _json_text(_RAW.decode(text)))
    values, bad = read_column(present, column.type, arrow_type)
    return values, {
        row: _unexpected(column, text)
        for row, text in zip(bad.tolist(), present.take(pa.array(bad)).to_pylist(), strict=True)
    }


def _without_empty_text(texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _nested(
    column: TypedColumn, values: Sequence[object] | pa.Array
) -> tuple[pa.Array, dict[int, str]]:
    """Convert lists and structs, which are JSON texts or what msgspec makes of ``json_type``."""
    errors: dict[int, str] = {}
    if isinstance(values, pa.Array):
        decode = msgspec.json.Decoder(json_type(column.declared) | None).decode
        values, errors = nested_columns.of_texts(column.name, decode, values)
    array, of_values = nested_columns.convert(column.name, column.declared, values, _inner)
    return array, of_values | errors


def _days(
    column: TypedColumn, values: Sequence[object] | pa.Array
) -> tuple[pa.Array, dict[int, str]]:
    """Convert numbers of days, and text that holds one or is a date."""
    if isinstance(values, pa.Array):
        values = values.to_pylist()
    days: list[int | None] = [None] * len(values)
    texts: list[str | None] = [None] * len(values)
    errors: dict[int, str] = {}
    for row, value in enumerate(values):
        if isinstance(value, str) and not _WHOLE_NUMBER.fullmatch(value):
            texts[row] = value
        elif value is not None:
            number = int(str(value))
            if number in _DAYS:
                days[row] = number
            else:
                errors[row] = f"column {column.name}: expected days of a Date, got {value!r:.80}"
    dates, of_texts = _from_text(column, pa.array(texts, pa.string()))
    return pc.coalesce(dates, pa.array(days, pa.int32()).cast(pa.date32())), of_texts | errors


@lru_cache(1024)
def _time(declared: ValueType) -> Timestamp:
    return Timestamp(
        field="column",
        unit=TimeUnit(declared.unit or ColumnUnit.MILLISECONDS),
        format=declared.format,
        timezone=declared.timezone or "UTC",
    )


def _timestamps(
    column: TypedColumn, values: Sequence[object] | pa.StringArray
) -> tuple[pa.Array, dict[int, str]]:
    if isinstance(values, pa.TimestampArray):
        return values, {}
    if isinstance(values, pa.StringArray):
        # Empty text is null for every unit.
        values = _without_empty_text(values)
    else:
        values = [None if value == "" else value for value in values]
    times = column_times(values, _time(column.declared))
    missing = np.zeros(len(values), np.bool_)
    missing[[*times.absent.tolist(), *times.errors]] = True
    errors = {row: f"column {column.name}: {error}" for row, error in times.errors.items()}
    return pa.array(times.micros, pa.int64(), mask=missing).cast(ARROW[column.type]), errors


def _each(
    column: TypedColumn, values: Sequence[object], convert: Callable[[Any], object]
) -> tuple[pa.Array, dict[int, str]]:
    """Convert value by value; a value that cannot be converted is null and has an error."""
    converted: list[object] = []
    errors: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except (ValueError, OverflowError, msgspec.MsgspecError, RecursionError):
            converted.append(None)
            errors[row] = _unexpected(column, value)
    return pa.array(converted, ARROW[column.type]), errors


def _unexpected(column: TypedColumn, value: object) -> str:
    return f"column {column.name}: expected {column.type}, got {value!r:.80}"


def _json_text(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text


_RAW = msgspec.json.Decoder(msgspec.Raw)
