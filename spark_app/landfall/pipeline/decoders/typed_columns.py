"""Typed columns: what ``spec.decode.columns`` declares, as an Arrow schema, and values made into such columns.

Types are declared, never inferred. A value that is not of its column's type makes a bad row that
names the column.

==========  =====================  =============================================  ==========================================
type        Arrow                  from JSON                                      from text (Delimited, Regex)
==========  =====================  =============================================  ==========================================
String      string                 text                                           the text
Int32/64    int32, int64           an integer in range                            digits
Float64     double                 a number                                       a number
Boolean     bool                   true, false                                    ``true``, ``false``
Timestamp   timestamp[ms, UTC]     an integer of milliseconds, or ISO-8601 text   the same
Date        date32                 ISO-8601 text                                  the same
Binary      binary                 base64 text                                    the text's UTF-8 bytes
Json        string                 anything, verbatim                             JSON
==========  =====================  =============================================  ==========================================

Absent and null are null; so is empty text, except in String and Binary. Null in a column that is
not nullable is bad.
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

ARROW: Mapping[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.INT32: pa.int32(),
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.TIMESTAMP: pa.timestamp("ms", "UTC"),
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
"""What msgspec must find in JSON; where Python's value says the same as JSON's, a field of that
path can share it.
"""


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A declared column: its name, where in the payload it stands, what it must be."""

    name: str
    path: Path
    type: ColumnType
    nullable: bool


def schema_of(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of declared columns; each field's metadata holds its path and type for the decoder."""
    return pa.schema([_arrow_field(column) for column in columns])


def _arrow_field(column: Column) -> pa.Field:
    path = tuple(column.field.split(".")) if column.field else (column.name,)
    metadata = {_PATH: msgspec.json.encode(path), _TYPE: column.type.encode()}
    return pa.field(column.name, ARROW[column.type], column.nullable, metadata)


def typed_columns(schema: pa.Schema) -> tuple[TypedColumn, ...]:
    """What ``schema_of`` was given, in order."""
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
    schema: pa.Schema, values: Sequence[Sequence[object] | pa.StringArray]
) -> tuple[pa.RecordBatch, Mapping[int, str]]:
    """Columns of text, or of Python values that ``JSON_TYPES`` let through, as typed columns; and what is wrong, by row.

    Rows with errors are in the batch, too, as null: the caller takes them out.
    """
    errors: dict[int, str] = {}
    arrays = []
    for column, column_values in zip(typed_columns(schema), values, strict=True):
        array, wrong = _array(column, column_values)
        if not column.nullable and array.null_count:
            wrong = (
                dict.fromkeys(
                    np.flatnonzero(array.is_null()).tolist(), f"column {column.name}: null"
                )
                | wrong
            )
        arrays.append(array)
        errors = wrong | errors
    fields = [pa.field(field.name, field.type) for field in schema]
    return pa.record_batch(arrays, schema=pa.schema(fields)), errors


def _array(
    column: TypedColumn, values: Sequence[object] | pa.StringArray
) -> tuple[pa.Array, dict[int, str]]:
    if column.type is ColumnType.TIMESTAMP:
        return _timestamps(column, values)
    if isinstance(values, pa.Array):
        return _from_text(column, values)
    match column.type:
        case ColumnType.FLOAT64:
            return _each(column, values, float)
        case ColumnType.JSON:
            return _each(column, values, _json_text)
        case ColumnType.DATE:
            return _from_text(column, pa.array(values, pa.string()))
        case _:
            return pa.array(values, ARROW[column.type]), {}


def _from_text(column: TypedColumn, texts: pa.StringArray) -> tuple[pa.Array, dict[int, str]]:
    kind = ARROW[column.type]
    if column.type in {ColumnType.STRING, ColumnType.BINARY}:
        return texts.cast(kind), {}
    filled = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    if column.type is ColumnType.JSON:
        return _each(column, filled.to_pylist(), lambda text: _json_text(_RAW.decode(text)))
    try:
        return filled.cast(kind), {}
    except pa.ArrowInvalid:
        return _each(
            column,
            filled.to_pylist(),
            lambda text: pa.array([text], pa.string()).cast(kind)[0].as_py(),
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
    return pa.array(times.millis, pa.int64(), mask=missing).cast(ARROW[column.type]), errors


def _each(
    column: TypedColumn, values: Sequence[object], convert: Callable[[Any], object]
) -> tuple[pa.Array, dict[int, str]]:
    made: list[object] = []
    errors: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            made.append(None if value is None else convert(value))
        except (ValueError, OverflowError, msgspec.MsgspecError, RecursionError):
            made.append(None)
            errors[row] = f"column {column.name}: expected {column.type}, got {value!r:.80}"
    return pa.array(made, ARROW[column.type]), errors


def _json_text(raw: msgspec.Raw) -> str | None:
    text = bytes(raw).decode()
    return None if text == "null" else text


_RAW = msgspec.json.Decoder(msgspec.Raw)
