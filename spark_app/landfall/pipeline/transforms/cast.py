"""Step ``Cast``: gives fields or columns another type; its options are the types by name.

====================  ============================================================================
to                    from
====================  ============================================================================
String                text; numbers and booleans as JSON writes them; times in ISO 8601
Int32, Int64          text of digits; whole numbers in range; times, in milliseconds (Int64)
Float64               text of a number; numbers that a double holds exactly
Boolean               the text ``true`` or ``false``; booleans
Timestamp             ISO 8601 text, text or integers of milliseconds; dates, times
Date                  ISO 8601 text; times, their day in UTC
====================  ============================================================================

Null stays null, and empty text is null except as String, as it is in ``decode.columns``. A value
that does not become the type makes its row bad. NaN and infinity are no numbers here. A typed
column of a type that is not in the table is an error of the spec. JSON has no times: there a
Timestamp or Date is ISO 8601 text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.api.spec import Column, ColumnType
from landfall.pipeline.decoders import Decoded, Path
from landfall.pipeline.decoders.typed_columns import ARROW, as_timestamps, record_batch, schema_of
from landfall.pipeline.transforms import Context
from landfall.pipeline.transforms.documents import (
    Documents,
    find,
    put,
    python_values,
    raw_of,
    read_documents,
    with_documents,
)
from landfall.pipeline.transforms.names import column_of, columns_by_name, path_of, with_columns
from landfall.pipeline.transforms.payloads import json_texts, time_texts

Castings: TypeAlias = tuple[pa.Array, Mapping[int, str]]
TYPES = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
    ColumnType.FLOAT64,
    ColumnType.BOOLEAN,
    ColumnType.TIMESTAMP,
    ColumnType.DATE,
)
_INTEGERS = {ColumnType.INT32, ColumnType.INT64}
_PYTHON: Mapping[type, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
}


@dataclass(frozen=True)
class Cast:
    """Gives fields or columns another type.

    Attributes:
        types: the types by name.
        writes: the names.
    """

    types: Mapping[Path, ColumnType]
    writes: tuple[Path, ...]
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: Context) -> "Cast":
        """Build the step; ValueError names a wrong option."""
        del context  # a name is a path or a column, whatever there is
        types = {}
        for name, given in options.items():
            if given not in TYPES:
                raise ValueError(f"options: {name}: expected {', '.join(TYPES)}, got {given!r}")
            types[path_of(name)] = ColumnType(str(given))
        if not types:
            raise ValueError("options: name at least one field, as name: Type")
        return cls(types, tuple(types))

    def apply(self, decoded: Decoded) -> Decoded:
        """Return the rows with other types; reject those with values that do not have them."""
        errors: dict[int, str] = {}
        if decoded.columns is not None:
            columns = columns_by_name(decoded.columns)
            for path, type_ in self.types.items():
                name = ".".join(path)
                column = column_of(decoded.columns, path)
                if not can_cast(column.type, type_):
                    raise ValueError(f"options: {name}: {column.type} cannot become {type_}")
                columns[name], wrong = cast(column, type_, name)
                errors = {**wrong, **errors}
            return with_columns(decoded, columns).reject(errors)
        decoded, documents = read_documents(decoded)
        for path, type_ in self.types.items():
            errors = {**_cast_documents(documents, path, type_), **errors}
        return with_documents(decoded, documents, self.writes, errors)


# ------------------------------------------------------------------------------------------ columns


def can_cast(from_: pa.DataType, to: ColumnType) -> bool:
    """Whether the table above has this pair."""
    types = pa.types
    if types.is_string(from_) or types.is_null(from_):
        return True
    if types.is_integer(from_):
        return to not in {ColumnType.BOOLEAN, ColumnType.DATE}
    if types.is_floating(from_):
        return to in {ColumnType.STRING, ColumnType.FLOAT64, *_INTEGERS}
    if types.is_boolean(from_):
        return to in {ColumnType.STRING, ColumnType.BOOLEAN}
    if types.is_timestamp(from_):
        return to in {ColumnType.STRING, ColumnType.INT64, ColumnType.TIMESTAMP, ColumnType.DATE}
    return types.is_date(from_) and to in {
        ColumnType.STRING,
        ColumnType.TIMESTAMP,
        ColumnType.DATE,
    }


def cast(array: pa.Array, to: ColumnType, name: str) -> Castings:
    """Return values of a type that ``can_cast`` allows in another, and errors by row."""
    types = pa.types
    if types.is_null(array.type):
        return pa.nulls(len(array), ARROW[to]), {}
    if types.is_string(array.type):
        return _from_text(array, to, name)
    if types.is_timestamp(array.type) or types.is_date(array.type):
        return _from_time(array, to, name)
    if to is ColumnType.STRING:
        return _text(array), {}
    if to is ColumnType.TIMESTAMP:
        return _from_text(array.cast(pa.string()), to, name)
    return _safely(array, ARROW[to], f"{name}: expected {to}")


def _text(array: pa.Array) -> pa.StringArray:
    return pc.if_else(array.is_null(), pa.scalar(None, pa.string()), json_texts(array))


def _from_text(array: pa.StringArray, to: ColumnType, name: str) -> Castings:
    if to is not ColumnType.STRING:
        array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)
    batch, errors = record_batch(schema_of([Column(name=name, type=to)]), [array])
    column = batch.column(0)
    if to is ColumnType.FLOAT64:
        infinite = np.flatnonzero(pc.fill_null(pc.invert(pc.is_finite(column)), fill_value=False))
        found = {
            row: f"column {name}: expected {to}, got {array[row]}" for row in infinite.tolist()
        }
        errors = {**found, **errors}
    return column, {row: f"cast: {error.removeprefix('column ')}" for row, error in errors.items()}


def _from_time(array: pa.Array, to: ColumnType, name: str) -> Castings:
    if to is ColumnType.STRING:
        return time_texts(array), {}
    if to is ColumnType.DATE:
        return array.cast(pa.date32(), safe=False), {}
    if to is ColumnType.INT64:
        return _millis(array), {}
    times, outside = as_timestamps(array)
    return times, dict.fromkeys(outside, f"cast: {name}: a time out of range")


def _millis(array: pa.Array) -> pa.Array:
    if array.type.unit in {"us", "ns"}:
        array = pc.floor_temporal(array, unit="millisecond")
    return array.cast(pa.timestamp("ms", array.type.tz)).cast(pa.int64())


def _safely(array: pa.Array, to: pa.DataType, expected: str) -> Castings:
    try:
        return array.cast(to), {}
    except pa.ArrowInvalid:
        # Arrow does not say which rows it could not cast, so each is cast by itself.
        values: list[object] = []
        errors: dict[int, str] = {}
        for row in range(len(array)):
            one = array.slice(row, 1)
            try:
                values.append(one.cast(to)[0].as_py())
            except pa.ArrowInvalid:
                values.append(None)
                errors[row] = f"cast: {expected}, got {one[0].as_py()!r:.80}"
        return pa.array(values, to), errors


# --------------------------------------------------------------------------------------------- JSON


def _cast_documents(documents: Documents, path: Path, to: ColumnType) -> dict[int, str]:
    """Cast the values at a path in place; return errors by row."""
    found = [None if document is None else find(document, path) for document in documents]
    if to is ColumnType.STRING:
        # Numbers keep their digits: their own text is taken, not what a double makes of it.
        texts, errors = _json_strings(found, path)
    else:
        values, errors = python_values(found, path)
        texts, wrong = _cast_values(values, to, ".".join(path))
        errors = {**wrong, **errors}
    for document, raw, text in zip(documents, found, texts, strict=True):
        if document is not None and raw is not None and text is not None:
            put(document, path, text)
    return errors


def _json_strings(
    found: Sequence[msgspec.Raw | None], path: Path
) -> tuple[list[msgspec.Raw | None], dict[int, str]]:
    texts: list[msgspec.Raw | None] = []
    errors = {}
    for row, raw in enumerate(found):
        first = b"n" if raw is None else bytes(raw)[:1]
        if first in b"{[":
            errors[row] = f"cast: {'.'.join(path)}: expected String, got an object or an array"
        is_same = raw is None or first in b'n"{['
        texts.append(raw if is_same else raw_of(bytes(raw or b"").decode()))
    return texts, errors


def _cast_values(
    values: Sequence[object], to: ColumnType, name: str
) -> tuple[list[msgspec.Raw | None], dict[int, str]]:
    texts: list[msgspec.Raw | None] = [None] * len(values)
    errors: dict[int, str] = {}
    for type_ in set(map(type, values)) - {NoneType}:
        rows = [row for row, value in enumerate(values) if type(value) is type_]
        same = [values[row] for row in rows]
        for row, text, error in zip(rows, *_cast_same(same, type_, to, name), strict=True):
            texts[row] = text
            if error:
                errors[row] = error
    return texts, errors


def _cast_same(
    values: list[object], type_: type, to: ColumnType, name: str
) -> tuple[list[msgspec.Raw | None], list[str | None]]:
    """Cast values of one type of Python's."""
    try:
        array = pa.array(values, _PYTHON.get(type_, pa.null()))
        castable = can_cast(array.type, to)
    except (OverflowError, pa.ArrowInvalid, UnicodeEncodeError):
        castable = False
    if not castable:
        return [None] * len(values), [
            f"cast: {name}: expected {to}, got {value!r:.80}" for value in values
        ]
    made, errors = cast(array, to, name)
    texts = [msgspec.Raw(text.encode()) for text in json_texts(made).to_pylist()]
    return [*texts], [errors.get(row) for row in range(len(values))]
