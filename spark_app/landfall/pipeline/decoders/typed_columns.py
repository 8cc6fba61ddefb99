"""Typed columns: the Arrow schema of ``spec.decode.columns``, and conversion of values to it.

Types are declared, never inferred. A value that does not fit its column's type makes the row bad;
the error names the column.

=========  ==================  ============================  ============================
type       Arrow type          from JSON                     from text (Delimited, Regex)
=========  ==================  ============================  ============================
String     string              text                          the text
Int32/64   int32, int64        an integer in range           digits
Float64    double              a number                      a number
Boolean    bool                true, false                   ``true``, ``false``
Timestamp  timestamp[us, UTC]  milliseconds (an integer) or  the same
                               ISO-8601 text
Date       date32              ISO-8601 text                 the same
Binary     binary              base64 text                   the UTF-8 bytes of the text
Json       string              any JSON value, verbatim      JSON
=========  ==================  ============================  ============================

Timestamps keep microseconds, here and wherever a decoder or a transform makes one (``TIMESTAMP``):
table formats (Iceberg, Delta) know no coarser unit. Digits beyond microseconds are cut off.

Absent and null values become null, and so does empty text, except in String and Binary. A null in a
column that is not nullable makes the row bad.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Column, ColumnType, Timestamp, TimeUnit
from landfall.pipeline.decoders import Path
from landfall.pipeline.event_time import column_times

_PATH, _TYPE = b"landfall.path", b"landfall.type"

TIMESTAMP = pa.timestamp("us", "UTC")
"""The type of every time that Landfall itself gives a type. ADR 0038 says why microseconds."""
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
    ColumnType.TIMESTAMP: int | str | None,
    ColumnType.DATE: str | None,
    ColumnType.BINARY: bytes | None,
    ColumnType.JSON: msgspec.Raw,
}
"""The type that msgspec must find in JSON for each column type."""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A declared column: name, path in the payload, type, and whether it may be null."""

    name: str
    path: Path
    type: ColumnType
    nullable: bool


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """Return the Arrow schema of declared columns.

    The metadata of each field holds the path and the declared type; ``typed_columns`` reads them.
    """
    return pa.schema([_arrow_field(column) for column in columns])


def _arrow_field(column: Column) -> pa.Field:
    path = tuple(column.field.split(".")) if column.field else (column.name,)
    metadata = {_PATH: msgspec.json.encode(path), _TYPE: column.type.encode()}
    return pa.field(column.name, ARROW[column.type], column.nullable, metadata)


def typed_columns(schema: pa.Schema) -> tuple[TypedColumn, ...]:
    """Return the declared columns of a schema that ``schema_of`` made, in order."""
    return tuple(
        TypedColumn(
            field.name,
            msgspec.json.decode(field.metadata[_PATH], type=tuple[str, ...]),
            ColumnType(field.metadata[_TYPE].decode()),
            field.nullable,
        )
        for field in schema
    )


def record_batch(
    schema: pa.Schema, values: Sequence[Sequence[object] | pa.Array]
) -> tuple[pa.RecordBatch, Mapping[int, str]]:
    """Convert one sequence of values per column to typed columns.

    Args:
        schema: made by ``schema_of``.
        values: for each column text, Python values of the type that ``JSON_TYPES`` names, or an
            Arrow array of the column's own type.

    Returns:
        The batch and the errors by row. Rows with errors are in the batch as null; the caller must
        remove them.
    """
    errors: dict[int, str] = {}
    arrays = []
    for column, column_values in zip(typed_columns(schema), values, strict=True):
        array, column_errors = _array(column, column_values)
        if not column.nullable and array.null_count:
            nulls = np.flatnonzero(array.is_null()).tolist()
            # A value that could not be converted is null, too; the error that says why wins.
            column_errors = dict.fromkeys(nulls, f"column {column.name}: null") | column_errors
        arrays.append(array)
        errors = column_errors | errors  # the first column that is wrong names the row
    # Without the metadata, which is for decoders and does not belong in the written file.
    fields = [pa.field(field.name, field.type) for field in schema]
    return pa.record_batch(arrays, schema=pa.schema(fields)), errors


def _array(
    column: TypedColumn, values: Sequence[object] | pa.Array
) -> tuple[pa.Array, dict[int, str]]:
    if isinstance(values, pa.Array) and not pa.types.is_string(values.type):
        return values, {}
    if column.type is ColumnType.TIMESTAMP:
        return _timestamps(column, values)
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
    most = (2**63 - 1) // per_unit
    outside = (values > most) | (values < -most)
    micros = np.where(outside, 0, values) * per_unit
    made = pa.array(micros, pa.int64(), mask=missing | outside).view(TIMESTAMP)
    return made, np.flatnonzero(outside).tolist()


def _from_text(column: TypedColumn, texts: pa.StringArray) -> tuple[pa.Array, dict[int, str]]:
    arrow_type = ARROW[column.type]
    if column.type in {ColumnType.STRING, ColumnType.BINARY}:
        return texts.cast(arrow_type), {}
    present = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if column.type is ColumnType.JSON:
        return _each(column, present.to_pylist(), lambda text: _json_text(_RAW.decode(text)))
    try:
        return present.cast(arrow_type), {}
    except pa.ArrowInvalid:
        # Arrow does not say which rows it could not cast, so each is cast by itself.
        return _each(
            column,
            present.to_pylist(),
            lambda text: pa.array([text], pa.string()).cast(arrow_type)[0].as_py(),
        )


def _timestamps(
    column: TypedColumn, values: Sequence[object] | pa.StringArray
) -> tuple[pa.Array, dict[int, str]]:
    times = column_times(
        values if isinstance(values, pa.Array) else list(values),
        Timestamp(field=column.name, unit=TimeUnit.MILLISECONDS),
    )
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
            errors[row] = f"column {column.name}: expected {column.type}, got {value!r:.80}"
    return pa.array(converted, ARROW[column.type]), errors


def _json_text(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text


_RAW = msgspec.json.Decoder(msgspec.Raw)
