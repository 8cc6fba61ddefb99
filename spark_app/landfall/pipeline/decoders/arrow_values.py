"""Fields and typed columns from Arrow columns of decoded values, whose types the schema gives.

For decoders of formats that carry or have a schema. What a declared column can be read from is
known when the decoder is built, so a mistake there is an error in the resource; only values out of
range make rows bad.

==================  ===================================================================
column              is read from
==================  ===================================================================
String              text
Int32, Int64        integers in range
Float64             integers, floats
Boolean             booleans
Timestamp           timestamps; integers, floats and text in the column's unit
Date                text (ISO 8601); with unit Days integers
Decimal             integers, floats, text; bytes, which are the unscaled number
Binary              bytes
Json                anything; the decoder gives JSON text
==================  ===================================================================
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from landfall.api.spec import ColumnType, ColumnUnit
from landfall.pipeline import common_values
from landfall.pipeline.decoders import Decoded, Path, Wanted
from landfall.pipeline.decoders.typed_columns import (
    TypedColumn,
    as_timestamps,
    record_batch,
    typed_columns,
)
from landfall.pipeline.event_time import MAX_MICROS, MIN_MICROS
from landfall.pipeline.records import FieldValues, Records

_RANGES: Mapping[ColumnType, tuple[int, int]] = {
    ColumnType.INT32: (-(2**31), 2**31 - 1),
    ColumnType.INT64: (-(2**63), 2**63 - 1),
}
_SOURCES: Mapping[ColumnType, tuple[Callable[[pa.DataType], bool], ...]] = {
    ColumnType.STRING: (kinds.is_string,),
    ColumnType.INT32: (kinds.is_integer,),
    ColumnType.INT64: (kinds.is_integer,),
    ColumnType.FLOAT64: (kinds.is_integer, kinds.is_floating),
    ColumnType.BOOLEAN: (kinds.is_boolean,),
    ColumnType.TIMESTAMP: (
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_string,
        kinds.is_timestamp,
    ),
    ColumnType.DATE: (kinds.is_string,),
    ColumnType.BINARY: (kinds.is_binary,),
    ColumnType.DECIMAL: (
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_string,
        kinds.is_binary,
    ),
}
"""What a column can be read from; Json from anything, List and Struct from nothing here."""


def check(column: TypedColumn, source: pa.DataType) -> None:
    """Return normally if the column can be read from values of the type ``source``.

    Raises:
        ValueError: it cannot; the message names the column.
    """
    fits = any(of(source) for of in _SOURCES.get(column.type, ()))
    if column.declared.unit is ColumnUnit.DAYS:
        fits = fits or kinds.is_integer(source)
    if column.type is ColumnType.JSON:
        fits = True
    if not fits:
        raise ValueError(f"column {column.name}: {column.type} cannot be read from {source}")


def field_values(
    fields: Mapping[Path, pa.Array], errors: dict[int, str], *, common: bool
) -> dict[Path, FieldValues]:
    """Return columns as fields, as ``common_values`` has them.

    Args:
        fields: the column of each wanted path.
        errors: gets the rows with a time outside of the calendar.
        common: whether such times are errors; if not, they are text with a longer year.
    """
    for path, values in fields.items() if common else ():
        if kinds.is_timestamp(values.type):
            text = f"field {'.'.join(path)}: {common_values.OUT_OF_CALENDAR}"
            for row in common_values.out_of_calendar(values).tolist():
                errors.setdefault(row, text)
    return {path: common_values.field_values(values) for path, values in fields.items()}


def named(numbers: pa.Array, symbols: Mapping[int, str]) -> pa.StringArray:
    """Return the names of an enum's numbers; a number that has none is its text."""
    encoded = numbers.dictionary_encode()
    names = [symbols.get(number, str(number)) for number in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices)


def batch(
    schema: pa.Schema, columns: Sequence[pa.Array]
) -> tuple[pa.RecordBatch, Mapping[int, str]]:
    """Return the typed columns, and errors by row.

    Args:
        schema: made by ``typed_columns.schema_of``.
        columns: one column for each of the schema, of a type that ``check`` takes.
    """
    errors: dict[int, str] = {}
    values = [
        _values(column, array, errors)
        for column, array in zip(typed_columns(schema), columns, strict=True)
    ]
    made, more = record_batch(schema, values)
    return made, {**more, **errors}


def decoded(
    records: Records,
    wanted: Wanted,
    fields: Mapping[Path, FieldValues],
    columns: Sequence[pa.Array],
    errors: Mapping[int, str],
) -> Decoded:
    """Return rows with fields and typed columns, without those that have an error.

    Args:
        records: the rows; none has fallen out.
        wanted: what the later stages need.
        fields: the fields.
        columns: what ``batch`` makes the typed columns of; not read if none are wanted.
        errors: what is wrong, by row; it counts before what is wrong with a column.
    """
    if wanted.schema is None:
        return Decoded(records, fields).reject(errors)
    made, more = batch(wanted.schema, columns)
    return Decoded(records, fields, made).reject({**more, **errors})


def patched(column: pa.Array, rows: Sequence[int], values: pa.Array) -> pa.Array:
    """Return a column that has other values, of its own type, in some rows."""
    places = np.arange(len(column))
    places[rows] = np.arange(len(column), len(column) + len(rows))
    return pa.concat_arrays([column, values]).take(pa.array(places))


def _values(
    column: TypedColumn, array: pa.Array, errors: dict[int, str]
) -> Sequence[object] | pa.Array:
    match column.type:
        case ColumnType.INT32 | ColumnType.INT64:
            return _integers(column, array, errors)
        case ColumnType.TIMESTAMP if kinds.is_timestamp(array.type):
            return _times(column, array, errors)
        case ColumnType.TIMESTAMP if not kinds.is_string(array.type):
            return array.to_pylist()
        case ColumnType.FLOAT64:
            # Unsafe means here that an integer beyond 2^53 is rounded.
            return array.cast(pa.float64(), safe=False)
        case _:
            return array


def _times(column: TypedColumn, array: pa.Array, errors: dict[int, str]) -> pa.Array:
    """Return the times; those outside of the calendar, as of numbers and text, are errors."""
    times, outside = as_timestamps(array)
    micros = times.view(pa.int64())
    within = pc.and_(
        pc.greater_equal(micros, MIN_MICROS), pc.less_equal(micros, MAX_MICROS)
    ).fill_null(fill_value=True)
    for row in sorted({*outside, *np.flatnonzero(pc.invert(within)).tolist()}):
        found = array[row].cast(pa.int64()).as_py()
        errors.setdefault(row, f"column {column.name}: timestamp out of range, got {found}")
    return times


def _integers(column: TypedColumn, array: pa.Array, errors: dict[int, str]) -> pa.Array:
    low, high = _RANGES[column.type]
    target = pa.int32() if column.type is ColumnType.INT32 else pa.int64()
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        # Only integers without a sign exceed the 64-bit ones, and none of them is negative.
        is_outside = pc.greater(array, pa.scalar(high, array.type))
        if pa.types.is_signed_integer(array.type):
            is_outside = pc.or_(is_outside, pc.less(array, pa.scalar(low, array.type)))
        outside = np.asarray(is_outside.fill_null(fill_value=False))
        for row in np.flatnonzero(outside).tolist():
            errors.setdefault(
                row, f"column {column.name}: expected {column.type}, got {array[row]}"
            )
        return pc.if_else(pa.array(outside), pa.scalar(None, array.type), array).cast(target)
