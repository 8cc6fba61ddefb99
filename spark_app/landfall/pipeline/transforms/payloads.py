"""Payloads made of typed columns: one JSON object for each row, with all columns in order.

=========================  ==================================================================
column                     in JSON
=========================  ==================================================================
text, integer, boolean     as they are
Float64                    the shortest number that reads back the same; NaN and infinity have
                           no JSON, so their rows are rejected
Timestamp                  ISO 8601 text in UTC, ``2026-11-21T04:00:00.000000Z``
Date                       ``2026-11-21``
Binary                     base64 text
Json                       text, as the column holds it
Decimal                    text with all digits, ``0.00``
list, struct, map          arrays and objects; a map is an object if its keys are text
null                       null
=========================  ==================================================================

A tombstone stays a tombstone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import msgspec
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decimal_texts import decimal_text, decimal_texts
from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.records import FieldValues

TIMES = "%Y-%m-%dT%H:%M:%SZ"
"""How a column of times is written; Arrow adds the fraction that its unit has."""


@dataclass(frozen=True)
class JsonPayloads:
    """Replaces payloads by JSON objects made of the typed columns."""

    fields: tuple[Path, ...] = ()

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with other payloads; reject those that hold a number without JSON."""
        assert decoded.columns is not None, "only groups with typed columns have this step"
        decoded = decoded.reject(_without_json(decoded.columns))
        assert decoded.columns is not None
        objects = json_objects(decoded.columns)
        values = decoded.records.values
        if values.null_count:
            objects = pc.if_else(values.is_null(), pa.scalar(None, pa.binary()), objects)
        return replace(decoded, records=decoded.records.with_values(objects))


def _without_json(columns: pa.RecordBatch) -> dict[int, str]:
    errors: dict[int, str] = {}
    for name, array in zip(columns.schema.names, columns.columns, strict=True):
        if pa.types.is_floating(array.type):
            finite = pc.fill_null(pc.is_finite(array), fill_value=True)
            rows = np.flatnonzero(pc.invert(finite))
            errors |= dict.fromkeys(rows.tolist(), f"column {name}: a number that JSON cannot hold")
    return errors


def json_objects(columns: pa.RecordBatch) -> pa.BinaryArray:
    """Return one JSON object for each row, shape (rows,)."""
    tokens: list[object] = []
    for i, (name, array) in enumerate(zip(columns.schema.names, columns.columns, strict=True)):
        tokens += [f"{',' if i else '{'}{orjson.dumps(name).decode()}:", json_texts(array)]
    if not tokens:
        return pa.array([b"{}"] * len(columns), pa.binary())
    return pc.binary_join_element_wise(*tokens, "}", "").cast(pa.binary())


def json_texts(array: pa.Array) -> pa.StringArray:
    """Return each value as JSON, shape (rows,); null is the text ``null``."""
    types = pa.types
    if types.is_string(array.type):
        return _quoted(array)
    if types.is_integer(array.type) or types.is_boolean(array.type):
        return array.cast(pa.string()).fill_null("null")
    if types.is_timestamp(array.type) or types.is_date(array.type):
        return _quoted(time_texts(array))
    if types.is_decimal(array.type):
        return _quoted(decimal_texts(array))
    return _by_msgspec([_with_digits(value) for value in array.to_pylist()])


def _with_digits(value: object) -> object:
    """Return a value with all digits of the decimals inside."""
    match value:
        case Decimal():
            return decimal_text(value)
        case dict():
            return {name: _with_digits(inner) for name, inner in value.items()}
        case list():
            return [_with_digits(inner) for inner in value]
        case tuple():
            return tuple(_with_digits(inner) for inner in value)
    return value


def time_texts(array: pa.Array) -> pa.StringArray:
    """Return times and dates in the notation of ISO 8601."""
    if pa.types.is_date(array.type):
        return array.cast(pa.date32()).cast(pa.string())
    if array.type.tz not in {None, "UTC"}:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    return pc.strftime(array, format=TIMES if array.type.tz else TIMES.removesuffix("Z"))


def routable(array: pa.Array) -> FieldValues:
    """Return values as the fields of a payload would hold them; times are text."""
    if pa.types.is_int64(array.type) and not array.null_count:
        integers: FieldValues = array.to_numpy()
        return integers
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        return time_texts(array)
    if pa.types.is_decimal(array.type):
        return decimal_texts(array)
    return array if pa.types.is_string(array.type) else list(array.to_pylist())


def _quoted(texts: pa.StringArray) -> pa.StringArray:
    # Most columns hold nothing that JSON must escape, and then only quotes need to be added.
    plain = not pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py()
    if plain:
        return pc.binary_join_element_wise('"', texts, '"', "").fill_null("null")
    return _by_msgspec(texts.to_pylist())


def _by_msgspec(values: Sequence[object]) -> pa.StringArray:
    return pa.array([msgspec.json.encode(value).decode() for value in values], pa.string())
