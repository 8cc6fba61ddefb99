"""Step ``Cast``: gives fields or columns another type; its options are the types by name.

====================  ============================================================================
to                    from
====================  ============================================================================
String                text; numbers and booleans as JSON writes them; times in ISO 8601
Int32, Int64          text of decimal digits; whole numbers in range; times, in milliseconds (Int64)
Float64               text of a decimal number; numbers that a double holds exactly
Boolean               the text ``true`` or ``false``; booleans
Timestamp             ISO 8601 text; numbers, and text of one, in ``unit``; dates, times
Date                  text such as ``2026-11-21``; times, their day in UTC; whole numbers, unit Days
Decimal               text of digits, numbers, decimals, if no digit is lost
====================  =====================================================================
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from landfall.api.spec import Column, ColumnType, ColumnUnit, ValueType, with_event_time
from landfall.pipeline.decimal_texts import decimal_texts
from landfall.pipeline.decoders import Decoded, Path, decimal_columns
from landfall.pipeline.decoders.typed_columns import (
    ARROW,
    arrow_type,
    as_timestamps,
    record_batch,
    schema_of,
)
from landfall.pipeline.odd_rows import halves
from landfall.pipeline.transforms import TransformContext
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
    ColumnType.DECIMAL,
)
_EXACT_IN_DOUBLES = 2**53
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

    types: Mapping[Path, ValueType]
    writes: tuple[Path, ...]
    fields: tuple[Path, ...] = ()
    rewrites: bool = True

    @classmethod
    def of(cls, options: Mapping[str, object], context: TransformContext) -> "Cast":
        """Build the step; ValueError names a wrong option."""
        types = {}
        for name, given in options.items():
            to, path = _type_of(name, given), path_of(name)
            if context.timestamp is not None and context.is_event_time(path):
                to = with_event_time(to, f"options: {name}", context.timestamp)
            types[path] = to
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
                    raise ValueError(f"options: {name}: {column.type} cannot become {type_.type}")
                columns[name], wrong = cast(column, type_, name)
                errors = {**wrong, **errors}
            return with_columns(decoded, columns).reject(errors)
        decoded, documents = read_documents(decoded)
        for path, type_ in self.types.items():
            errors = {**_cast_documents(documents, path, type_), **errors}
        return with_documents(decoded, documents, self.writes, errors)


def _type_of(name: str, given: object) -> ValueType:
    """Return the type that an option names; raises ValueError."""
    declared = given if isinstance(given, Mapping) else {"type": given}
    if declared.get("type") not in TYPES:
        raise ValueError(f"options: {name}: expected {', '.join(TYPES)}, got {given!r}")
    try:
        return ValueType.model_validate(declared)
    except ValidationError as error:
        first = error.errors()[0]
        where = "".join(f"{step}: " for step in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise ValueError(f"options: {name}: {where}{reason}") from None


# ------------------------------------------------------------------------------------------ columns

_NUMBERS = {ColumnType.STRING, ColumnType.FLOAT64, ColumnType.DECIMAL, *_INTEGERS}
_READ_AS_COLUMNS = {ColumnType.TIMESTAMP, ColumnType.DATE, ColumnType.DECIMAL}
_CASTS: Sequence[tuple[Callable[[pa.DataType], bool], set[ColumnType]]] = (
    (pa.types.is_string, set(TYPES)),
    (pa.types.is_null, set(TYPES)),
    (pa.types.is_integer, {*_NUMBERS, ColumnType.TIMESTAMP}),
    (pa.types.is_floating, {*_NUMBERS, ColumnType.TIMESTAMP}),
    (pa.types.is_decimal, _NUMBERS),
    (pa.types.is_boolean, {ColumnType.STRING, ColumnType.BOOLEAN}),
    (
        pa.types.is_timestamp,
        {ColumnType.STRING, ColumnType.INT64, ColumnType.TIMESTAMP, ColumnType.DATE},
    ),
    (pa.types.is_date, {ColumnType.STRING, ColumnType.TIMESTAMP, ColumnType.DATE}),
)
"""What the types of columns can become."""


def can_cast(from_: pa.DataType, to: ValueType) -> bool:
    """Return whether the table above has this pair."""
    if to.unit is ColumnUnit.DAYS and pa.types.is_integer(from_):
        return True
    return any(of(from_) and to.type in targets for of, targets in _CASTS)


def cast(array: pa.Array, to: ValueType, name: str) -> Castings:
    """Return values of a type that ``can_cast`` allows in another, and errors by row."""
    types = pa.types
    if types.is_null(array.type):
        return pa.nulls(len(array), arrow_type(to)), {}
    if types.is_timestamp(array.type) or types.is_date(array.type):
        return _from_time(array, to.type, name)
    if to.type is ColumnType.STRING and not types.is_string(array.type):
        return _text(array), {}
    if to.type in _READ_AS_COLUMNS or types.is_string(array.type):
        return _from_values(array, to, name)
    return _safely(array, ARROW[to.type], f"{name}: expected {to.type}")


def _text(array: pa.Array) -> pa.StringArray:
    if pa.types.is_decimal(array.type):
        return decimal_texts(array)
    return pc.if_else(array.is_null(), pa.scalar(None, pa.string()), json_texts(array))


def _from_values(array: pa.Array, to: ValueType, name: str) -> Castings:
    if not pa.types.is_string(array.type):
        values: pa.Array | list[object] = array.to_pylist()
    elif to.type is ColumnType.STRING:
        values = array
    else:
        values = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)
    declared = Column.model_validate({"name": name, **to.model_dump()})
    batch, errors = record_batch(schema_of([declared]), [values])
    column = batch.column(0)
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
        fits = _fitting(array, to)
        values = pc.if_else(fits, array, pa.scalar(None, array.type)).cast(to)
        bad = np.flatnonzero(pc.invert(fits).fill_null(False))  # noqa: FBT003  # Arrow's signature
        errors = {
            row: f"cast: {expected}, got {value!r:.80}"
            for row, value in zip(bad.tolist(), array.take(pa.array(bad)).to_pylist(), strict=True)
        }
        return values, errors


def _fitting(array: pa.Array, to: pa.DataType) -> pa.BooleanArray:
    """Return which numbers another type of numbers holds exactly."""
    if pa.types.is_floating(to):
        # Up to here every integer is a double; Arrow refuses all those beyond it.
        lowest, highest = -_EXACT_IN_DOUBLES, _EXACT_IN_DOUBLES
    else:
        lowest, highest = -(2 ** (to.bit_width - 1)), 2 ** (to.bit_width - 1) - 1
    if pa.types.is_floating(array.type):
        # 2**63 - 1 is no double, 2**63 is: so the bound is above, and not in, the range.
        is_in_range = pc.and_(pc.greater_equal(array, float(lowest)), pc.less(array, highest + 1.0))
        return pc.and_(is_in_range, pc.equal(pc.floor(array), array))
    own = np.iinfo(array.type.to_pandas_dtype())
    bounds = [
        pa.scalar(max(lowest, own.min), array.type),
        pa.scalar(min(highest, own.max), array.type),
    ]
    return pc.and_(pc.greater_equal(array, bounds[0]), pc.less_equal(array, bounds[1]))


# --------------------------------------------------------------------------------------------- JSON


def _cast_documents(documents: Documents, path: Path, to: ValueType) -> dict[int, str]:
    """Cast the values at a path in place; return errors by row."""
    found = [None if document is None else find(document, path) for document in documents]
    if to.type is ColumnType.STRING:
        # Numbers keep their digits: their own text is taken, not what a double makes of it.
        texts, errors = _json_strings(found, path)
    elif to.type is ColumnType.DECIMAL:
        texts, errors = _json_decimals(found, path, to)
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


def _json_decimals(
    found: Sequence[msgspec.Raw | None], path: Path, to: ValueType
) -> tuple[list[msgspec.Raw | None], dict[int, str]]:
    made, errors = decimal_columns.convert(".".join(path), to, found)
    texts = [msgspec.Raw(text.encode()) for text in json_texts(made).to_pylist()]
    return [*texts], {
        row: f"cast: {error.removeprefix('column ')}" for row, error in errors.items()
    }


def _cast_values(
    values: Sequence[object], to: ValueType, name: str
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
    values: list[object], type_: type, to: ValueType, name: str
) -> tuple[list[msgspec.Raw | None], list[str | None]]:
    """Cast values of one type of Python's."""
    castable = type_ in _PYTHON and can_cast(_PYTHON[type_], to)
    try:
        array = pa.array(values, _PYTHON[type_]) if castable else None
    except (OverflowError, pa.ArrowInvalid, UnicodeEncodeError):
        # One of them is beyond 64 bits, or has half a surrogate pair; the rest is cast.
        array = None
    if array is None and castable and len(values) > 1:
        first, second = (_cast_same(values[h], type_, to, name) for h in halves(len(values)))
        return [*first[0], *second[0]], [*first[1], *second[1]]
    if array is None:
        return [None] * len(values), [
            f"cast: {name}: expected {to.type}, got {value!r:.80}" for value in values
        ]
    made, errors = cast(array, to, name)
    texts = [msgspec.Raw(text.encode()) for text in json_texts(made).to_pylist()]
    return [*texts], [errors.get(row) for row in range(len(values))]
