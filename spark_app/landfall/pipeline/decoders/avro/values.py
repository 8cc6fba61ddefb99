"""From columns of Avro types to what the later stages want: fields, declared columns, JSON.

============  =====================================  ==============================================
column type   from the Avro type                     otherwise
============  =====================================  ==============================================
String        string, enum, uuid; decimal as digits  the row is bad, unless the value is null
Int32, Int64  int, long, if it fits; of dates and    the same
              times their numbers
Float64       int, long, float, double               the same
Boolean       boolean                                the same
Timestamp     a timestamp, rounded down to           a number in the column's unit, a string, as
              microseconds; a date at 00:00 UTC      from JSON
Date          date; a string as ISO 8601; with unit  the row is bad
              Days an int or a long
Decimal       decimal, if its digits fit; a number,  the row is bad
              a string; bytes are unscaled
List, Struct  what is an array or an object in the   the row is bad
              JSON of the value
Binary        bytes, fixed; a string's UTF-8         the row is bad
Json          any type                               never
============  =====================================  ==============================================

A field is a number for int, long, and all dates and times but ``date``, which is ISO 8601 text; it
is text for string, enum, uuid, decimal, and bytes that are UTF-8. A local timestamp counts as UTC.
With ``decode.values: Common`` fields are as ``common_values`` has them.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import ColumnType, ColumnUnit
from landfall.pipeline import common_values
from landfall.pipeline.decimal_texts import decimal_texts
from landfall.pipeline.decoders import Path
from landfall.pipeline.decoders.avro.branches import branch_nodes, within
from landfall.pipeline.decoders.avro.nested import MapNode, RecordNode, RecursiveNode, UnionNode
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.decoders.typed_columns import (
    TIMESTAMP,
    TypedColumn,
    as_timestamps,
    record_batch,
    typed_columns,
)
from landfall.pipeline.records import FieldValues

Errors = Mapping[int, str]
_NONE: Errors = {}


def follow(node: Node, column: pa.Array, path: Path) -> tuple[Node, pa.Array] | None:
    """Return what is at a path, null where it is absent; None if no value can have it."""
    for part in path:
        if isinstance(node, UnionNode) and node.members is None and node.nodes:
            node = node.nodes[0]
        if isinstance(node, RecordNode) and part in node.names:
            column, node = pc.struct_field(column, part), node.nodes[node.names.index(part)]
        elif isinstance(node, UnionNode) and node.members is not None and part in node.members:
            column, node = pc.struct_field(column, part), node.nodes[node.members.index(part)]
        elif isinstance(node, MapNode):
            column, node = pc.map_lookup(column, pa.scalar(part), "first"), node.entries.nodes[1]
        else:
            return None
    return node, column


def places(node: Node, path: Path) -> tuple[Node, ...]:
    """Return what reads the values at a path, in each branch that has it; none if none has."""
    found = (
        follow(inner, pa.nulls(0, inner.arrow), within(path, inner, member))
        for inner, member in branch_nodes(node)
    )
    return tuple(place[0] for place in found if place is not None)


def can_become(declared: TypedColumn, node: Node) -> bool:
    """Return whether a declared column can be made of values that a node reads, of some at least.

    Of other types, each value makes its row bad. Text may be no time, and a number out of range.
    """
    none = pa.nulls(0, node.arrow)
    convert = _CONVERT.get(declared.type)
    if convert is not None and convert(none) is not None:
        return True
    if isinstance(node, UnionNode) and node.members is None and node.nodes:
        node = node.nodes[0]
    is_json = isinstance(node, RecursiveNode) or pa.types.is_null(none.type)
    match declared.type:
        case ColumnType.JSON:
            return True
        case ColumnType.LIST:
            return bool(is_json or pa.types.is_list(none.type))
        case ColumnType.STRUCT:
            return bool(is_json or pa.types.is_struct(none.type) or pa.types.is_map(none.type))
    return _is_read_as_json(declared, none.type)


def field_values(
    node: Node, column: pa.Array, path: Path, member: str = "", *, common: bool = False
) -> tuple[FieldValues, Errors]:
    """Return the values at a path as a field, and errors by row; ``branches`` has ``member``.

    With ``common`` they follow ``common_values``.
    """
    found = follow(node, column, within(path, node, member))
    if found is None:
        return [None] * len(column), _NONE
    values = found[1]
    if common or pa.types.is_string(values.type):
        return common_values.field_values(values), _NONE
    if pa.types.is_date(values.type) or pa.types.is_decimal(values.type):
        return decimal_texts(values), _NONE
    if pa.types.is_integer(values.type) or pa.types.is_temporal(values.type):
        numbers = _storage(values)
        return (numbers.to_pylist(), _NONE) if numbers.null_count else (_int64s(numbers), _NONE)
    if pa.types.is_binary(values.type):
        return _texts(values, ".".join(path))
    return values.to_pylist(), _NONE


def declared_columns(
    schema: pa.Schema, node: Node, column: pa.Array, member: str = ""
) -> tuple[pa.RecordBatch, Errors]:
    """Return the columns that the group declares, and errors by row; see ``field_values``."""
    errors: dict[int, str] = {}
    arrays, fields = [], []
    for declared, field in zip(typed_columns(schema), schema, strict=True):
        at = follow(node, column, within(declared.path, node, member))
        array, found = _declared(declared, field, at, len(column))
        if not declared.nullable and array.null_count:
            nulls = np.flatnonzero(array.is_null()).tolist()
            found = dict.fromkeys(nulls, f"column {declared.name}: null") | dict(found)
        errors = dict(found) | errors
        arrays.append(array)
        fields.append(pa.field(field.name, field.type))
    return pa.record_batch(arrays, schema=pa.schema(fields)), errors


def json_objects(node: Node, column: pa.Array) -> tuple[pa.BinaryArray, Errors]:
    """Return each row as a JSON object, and errors by row."""
    if not isinstance(node, RecordNode | MapNode):
        errors = dict.fromkeys(range(len(column)), "json: the schema is no record, so no object")
        return pa.nulls(len(column), pa.binary()), errors
    return node.text(column).cast(pa.binary()), _NONE


def _declared(
    declared: TypedColumn, field: pa.Field, found: tuple[Node, pa.Array] | None, rows: int
) -> tuple[pa.Array, Errors]:
    type_ = declared.arrow
    if found is None:
        return pa.nulls(rows, type_), _NONE
    at, values = found
    if declared.type in _AS_JSON:
        texts = pc.if_else(values.is_valid(), at.text(values), pa.scalar(None, pa.string()))
        return (texts, _NONE) if declared.type is ColumnType.JSON else _as_payload(field, texts)
    convert = _CONVERT.get(declared.type)
    if convert is not None and (converted := convert(values)):
        array, wrong = converted
        return array, dict.fromkeys(wrong, f"column {declared.name}: out of range")
    if _is_read_as_json(declared, values.type):
        is_kept = declared.type is ColumnType.DECIMAL or pa.types.is_string(values.type)
        return _as_payload(field, values if is_kept else values.to_pylist())
    wrong = np.flatnonzero(values.is_valid()).tolist()
    text = f"column {declared.name}: expected {declared.type}, got {values.type}"
    return pa.nulls(len(values), type_), dict.fromkeys(wrong, text)


Converted = tuple[pa.Array, Sequence[int]] | None
"""A column and the rows that do not fit it; None if the type cannot be converted."""


_AS_JSON = {ColumnType.JSON, ColumnType.LIST, ColumnType.STRUCT}


def _as_payload(field: pa.Field, values: pa.Array | Sequence[object]) -> tuple[pa.Array, Errors]:
    """Convert as values of a payload of JSON are."""
    batch, errors = record_batch(pa.schema([field.with_nullable(nullable=True)]), [values])
    return batch.column(0), errors


def _is_read_as_json(declared: TypedColumn, type_: pa.DataType) -> bool:
    kinds = pa.types
    is_number = kinds.is_integer(type_) or kinds.is_floating(type_)
    match declared.type:
        case ColumnType.TIMESTAMP:
            return bool(kinds.is_string(type_) or is_number)
        case ColumnType.DATE:
            of_days = declared.declared.unit is ColumnUnit.DAYS and kinds.is_integer(type_)
            return bool(kinds.is_string(type_) or of_days)
        case ColumnType.DECIMAL:
            is_text = kinds.is_string(type_) or kinds.is_binary(type_) or kinds.is_null(type_)
            return bool(is_text or is_number or kinds.is_decimal(type_))
    return False


def _string(values: pa.Array) -> Converted:
    is_text = pa.types.is_string(values.type) or pa.types.is_decimal(values.type)
    return (decimal_texts(values), ()) if is_text or pa.types.is_null(values.type) else None


def _integer(type_: pa.DataType) -> Callable[[pa.Array], Converted]:
    def convert(values: pa.Array) -> Converted:
        if pa.types.is_null(values.type):
            return values.cast(type_), ()
        if pa.types.is_temporal(values.type):
            values = _storage(values)
        if not pa.types.is_integer(values.type):
            return None
        if type_.bit_width >= values.type.bit_width:
            return values.cast(type_), ()
        fits = pc.and_(pc.greater_equal(values, -(2**31)), pc.less(values, 2**31))
        wrong = np.flatnonzero(pc.invert(fits).fill_null(pa.scalar(value=False))).tolist()
        return pc.if_else(fits, values, pa.scalar(None, values.type)).cast(type_), wrong

    return convert


def _float(values: pa.Array) -> Converted:
    if pa.types.is_integer(values.type):
        # Not ``cast``, which refuses an integer that no double is equal to.
        return values.cast(pa.float64(), safe=False), ()
    is_number = pa.types.is_floating(values.type) or pa.types.is_null(values.type)
    return (values.cast(pa.float64()), ()) if is_number else None


def _boolean(values: pa.Array) -> Converted:
    fits = pa.types.is_boolean(values.type) or pa.types.is_null(values.type)
    return (values.cast(pa.bool_()), ()) if fits else None


def _timestamp(values: pa.Array) -> Converted:
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        return as_timestamps(values)
    return (values.cast(TIMESTAMP), ()) if pa.types.is_null(values.type) else None


def _date(values: pa.Array) -> Converted:
    fits = pa.types.is_date(values.type) or pa.types.is_null(values.type)
    return (values.cast(pa.date32()), ()) if fits else None


def _binary(values: pa.Array) -> Converted:
    fits = (
        pa.types.is_binary(values.type)
        or pa.types.is_string(values.type)
        or pa.types.is_null(values.type)
    )
    return (values.cast(pa.binary()), ()) if fits else None


_CONVERT: Mapping[ColumnType, Callable[[pa.Array], Converted]] = {
    ColumnType.STRING: _string,
    ColumnType.INT32: _integer(pa.int32()),
    ColumnType.INT64: _integer(pa.int64()),
    ColumnType.FLOAT64: _float,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.TIMESTAMP: _timestamp,
    ColumnType.DATE: _date,
    ColumnType.BINARY: _binary,
}


def _storage(values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type):
        return values
    return values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())


def _int64s(numbers: pa.Array) -> FieldValues:
    return numbers.to_numpy(zero_copy_only=False).astype(np.int64)


def _texts(values: pa.BinaryArray, name: str) -> tuple[FieldValues, Errors]:
    try:
        return values.cast(pa.string()), _NONE
    except pa.ArrowInvalid:
        texts: list[object] = []
        errors = {}
        for row, value in enumerate(values.to_pylist()):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError:
                texts.append(None)
                errors[row] = f"field {name}: bytes that are not UTF-8"
        return pa.array(texts, pa.string()), errors
