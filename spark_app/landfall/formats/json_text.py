"""Typed rows of any Arrow types as JSON objects, with nothing lost, whole columns at a time.

==============================  ==================================================================
Arrow type                      in JSON
==============================  ==================================================================
text, integers, booleans        as they are
floats                          the shortest number that reads back the same double; ``"NaN"``,
                                ``"Infinity"``, ``"-Infinity"``
decimals                        text with all digits
timestamps                      ISO 8601 text with all digits of the unit, and ``Z`` if the file
                                declares them as UTC
dates, times                    ISO 8601 text
durations                       number of their unit
binary                          base64 text
lists, structs                  arrays, objects
maps                            objects if keys are text, else arrays of ``{"key", "value"}``
dictionaries, extensions        as what they stand for
null                            null
==============================  ==================================================================

``decode.columns`` reads these back exactly (``decoders.typed_columns``): base64 as Binary, ISO 8601
text as Timestamp and Date.
"""

import base64

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from landfall.pipeline.decimal_texts import decimal_texts
from landfall.pipeline.decoders.avro.node import quoted
from landfall.pipeline.decoders.avro.scalars import float_texts

_SECONDS = "%Y-%m-%dT%H:%M:%S"
"""Arrow adds the fraction that the unit has."""


def json_objects(rows: pa.RecordBatch) -> pa.BinaryArray:
    """Return a JSON object for each row, shape (rows,)."""
    return _object(rows.schema.names, rows.columns, len(rows)).cast(pa.binary())


def json_texts(column: pa.Array) -> pa.StringArray:
    """Return each value as JSON, shape (rows,); null is the text ``null``."""
    type_ = column.type
    if isinstance(type_, pa.BaseExtensionType):
        return json_texts(column.storage)
    if kinds.is_dictionary(type_):
        return json_texts(column.dictionary_decode())
    if kinds.is_nested(type_):
        return _nested(column)
    return _leaf(column)


def _leaf(column: pa.Array) -> pa.StringArray:
    type_ = column.type
    if kinds.is_floating(type_):
        return float_texts(column.cast(pa.float32()) if kinds.is_float16(type_) else column)
    if kinds.is_integer(type_) or kinds.is_boolean(type_) or kinds.is_null(type_):
        return column.cast(pa.string()).fill_null("null")
    if kinds.is_duration(type_):
        return column.cast(pa.int64()).cast(pa.string()).fill_null("null")
    if kinds.is_timestamp(type_):
        return quoted(_timestamps(column))
    if _is_binary(type_):
        return quoted(pa.array([_base64(value) for value in column.to_pylist()], pa.string()))
    return quoted(decimal_texts(column))


def _is_binary(type_: pa.DataType) -> bool:
    return bool(
        kinds.is_binary(type_)
        or kinds.is_large_binary(type_)
        or kinds.is_fixed_size_binary(type_)
        or kinds.is_binary_view(type_)
    )


def _base64(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _timestamps(column: pa.Array) -> pa.StringArray:
    if column.type.tz is None:
        return pc.strftime(column, format=_SECONDS)
    # The instant stays the same; Parquet stores no other zone than UTC.
    in_utc = column.cast(pa.timestamp(column.type.unit, "UTC"))
    return pc.strftime(in_utc, format=f"{_SECONDS}Z")


def _nested(column: pa.Array) -> pa.StringArray:
    type_ = column.type
    if kinds.is_struct(type_):
        names = [field.name for field in type_]
        made = _object(names, column.flatten(), len(column))
    elif kinds.is_map(type_):
        made = _map(column)
    else:
        made = _brackets("[", _lists(column), "]")
    return pc.if_else(column.is_valid(), made, "null") if column.null_count else made


def _object(names: list[str], columns: list[pa.Array], rows: int) -> pa.StringArray:
    tokens: list[object] = []
    for i, (name, column) in enumerate(zip(names, columns, strict=True)):
        tokens += [f"{',' if i else '{'}{orjson.dumps(name).decode()}:", json_texts(column)]
    if not tokens:
        return pa.repeat("{}", rows)
    return pc.binary_join_element_wise(*tokens, "}", "")


def _lists(column: pa.Array) -> pa.ListArray:
    """Return lists of any kind as lists of JSON; a null one is empty."""
    return _of_items(column, json_texts(column.flatten()))


def _of_items(column: pa.Array, texts: pa.StringArray) -> pa.ListArray:
    """Return lists of these texts, which are all items of all lists, in order."""
    sizes = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds), texts)


def _map(column: pa.MapArray) -> pa.StringArray:
    lists = pa.Array.from_buffers(  # a map is stored as a list of structs
        pa.list_(pa.struct([column.type.key_field, column.type.item_field])),
        len(column),
        column.buffers()[:2],
        column.null_count,
        column.offset,
        children=[
            pa.StructArray.from_arrays(
                [column.keys, column.items], fields=[column.type.key_field, column.type.item_field]
            )
        ],
    )
    items = lists.flatten()
    keys, values = (json_texts(child) for child in items.flatten())
    if kinds.is_string(column.type.key_type) or kinds.is_large_string(column.type.key_type):
        pairs = pc.binary_join_element_wise(keys, ":", values, "")
        return _brackets("{", _of_items(lists, pairs), "}")
    tokens = ('{"key":', keys, ',"value":', values, "}", "")
    return _brackets("[", _of_items(lists, pc.binary_join_element_wise(*tokens)), "]")


def _brackets(left: str, lists: pa.ListArray, right: str) -> pa.StringArray:
    return pc.binary_join_element_wise(left, pc.binary_join(lists, ","), right, "")
