"""A text for each row: the same for the same values, in files and in tables of any format.

Numbers are compared by value, so that a wider type is no difference; times in microseconds, which
is what tables keep. A field that is null has no text, as one that a file does not have.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

Hashes = npt.NDArray[np.uint64]
"""The halves of a hash of 128 bits for each row."""
_BYTES = pa.large_binary()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def hashes(columns: Mapping[str, pa.Array], rows: int) -> Hashes:
    """The hash of each row.

    Args:
        columns: by name.
        rows: how many there are.
    """
    parts = [_named(name, columns[name]) for name in sorted(columns)]
    texts = (
        pc.binary_join_element_wise(*parts, pa.scalar(b"", _BYTES)).to_pylist()
        if parts
        else [b""] * rows
    )
    digests = b"".join([blake2b(text, digest_size=16).digest() for text in texts])
    return np.frombuffer(digests, np.uint64).reshape(-1, 2)


def nulls(columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
    """Return which rows have a null in some of the columns."""
    found = [pc.is_null(column).to_numpy(zero_copy_only=False) for column in columns]
    any_: npt.NDArray[np.bool_] = np.logical_or.reduce(found)
    return any_


def flags(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are true."""
    found: npt.NDArray[np.bool_] = (
        _plain(column).cast(pa.bool_()).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    )
    return found


def numbers(column: pa.Array, missing: int) -> npt.NDArray[np.int64]:
    """The numbers of a column, of times in microseconds.

    Args:
        column: of whole numbers or times.
        missing: the number for null.
    """
    column = _plain(column)
    if kinds.is_timestamp(column.type):
        column = _microseconds(column)
    found: npt.NDArray[np.int64] = column.cast(pa.int64()).fill_null(missing).to_numpy()
    return found


def _named(name: str, column: pa.Array) -> pa.Array:
    """The text of each value after its name and its length; nothing for null."""
    values = _bytes(_plain(column)).cast(_BYTES)
    lengths = pc.binary_length(values).cast(pa.string()).cast(_BYTES)
    head, colon, empty = (pa.scalar(text, _BYTES) for text in (f"{name}:".encode(), b":", b""))
    return pc.binary_join_element_wise(head, lengths, colon, values, empty).fill_null(b"")


def _plain(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    return column.dictionary_decode() if kinds.is_dictionary(column.type) else column


def _bytes(column: pa.Array) -> pa.Array:
    for is_kind, text_of in _LEAVES:
        if is_kind(column.type):
            return text_of(column)
    values = column.to_pylist()
    return pa.array([None if v is None else _json(v).encode() for v in values], _BYTES)


def _microseconds(column: pa.Array) -> pa.Array:
    return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())


def _text(column: pa.Array) -> pa.Array:
    return column.cast(pa.string())


def _decimals(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.string())
    return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".") if column.type.scale > 0 else texts


def _times(column: pa.Array) -> pa.Array:
    return column.cast(pa.time64("us"), safe=False).cast(pa.int64()).cast(pa.string())


_LEAVES: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]]] = (
    (kinds.is_integer, _text),
    (kinds.is_boolean, _text),
    (kinds.is_floating, lambda column: _text(column.cast(pa.float64()))),
    (kinds.is_decimal, _decimals),
    (kinds.is_timestamp, lambda column: _text(_microseconds(column))),
    (kinds.is_date32, lambda column: _text(column.cast(pa.int32()))),
    (kinds.is_time, _times),
    (kinds.is_string_view, lambda column: column.cast(pa.large_string())),
    (kinds.is_binary_view, lambda column: column.cast(_BYTES)),
    (kinds.is_string, lambda column: column),
    (kinds.is_large_string, lambda column: column),
    (kinds.is_binary, lambda column: column),
    (kinds.is_large_binary, lambda column: column),
    (kinds.is_fixed_size_binary, lambda column: column.cast(pa.binary())),
    (kinds.is_null, lambda column: column.cast(_BYTES)),
)
"""Makes texts or bytes of the values of a type; lists, maps and structs become JSON."""


def _json(value: Any) -> str:
    return json.dumps(_value(value), separators=(",", ":"), sort_keys=True)


def _value(value: Any) -> Any:
    """A value as JSON has it."""
    match value:
        case dict():
            return {name: _value(inner) for name, inner in value.items() if inner is not None}
        case list() | tuple():
            return [_value(inner) for inner in value]
        case datetime():
            at = value if value.tzinfo else value.replace(tzinfo=UTC)
            return (at - _EPOCH) // _MICROSECOND
    return _leaf(value)


def _leaf(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case date() | time():
            return value.isoformat()
        case Decimal():
            return f"{value.normalize():f}"
    return value
