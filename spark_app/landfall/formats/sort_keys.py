"""Bytes by which rows are sorted: of two rows, the one with the smaller bytes comes first.

Numbers come first, as numbers, then texts, by their UTF-8 bytes, then every other value of JSON, as
it is written. Rows without the field, or with null in it, come last. Only the first ``PREFIX``
bytes of a text count, so that a key stays small.

By which bytes rows are duplicates: a field of JSON as it is written (``json_key``). ``1`` and
``1.0`` differ, and so do numbers with more digits than a computer counts with. So no two rows are
taken for duplicates that are none. Texts are the same with and without escapes.
"""

import struct
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats.merging import NotMergeableError

PREFIX = 1024
"""How many bytes of a text are compared."""
_NUMBER = b"\0"
_TEXT = b"\1"
_OTHER = b"\2"
_MISSING = b"\3"
_SIGN = 1 << 63
_MOST = (1 << 63) - 1
_MAX_DIGITS = 1000

Words = npt.NDArray[np.uint64]


def json_sort_key(path: tuple[str, ...]) -> Callable[[bytes], bytes]:
    """Return a function that makes a document's key from the field at a path."""
    value_of = json_key(path)

    def key_of(document: bytes) -> bytes:
        value = value_of(document)
        if value is None:
            return _MISSING
        if value[:1] == b'"':
            return _TEXT + value[1:-1][:PREFIX]
        if value[:1] in b"-0123456789":
            return _NUMBER + _number(value)
        return _OTHER + value[:PREFIX]

    return key_of


def column_sort_keys(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """The keys of rows by a column of the whole name, or by the field at the path.

    Raises:
        NotMergeableError: rows cannot be sorted by it.
    """
    column = field_at(batch, path)
    if column is None or pa.types.is_null(column.type):
        return pa.repeat(pa.scalar(_MISSING, pa.binary()), len(batch))
    keys = _ordered(".".join(path), column)
    prefix = pa.scalar(_NUMBER, pa.binary())
    found = pc.binary_join_element_wise(prefix, keys, pa.scalar(b"", pa.binary()))
    return found.fill_null(pa.scalar(_MISSING, pa.binary()))


def field_at(batch: pa.RecordBatch, path: tuple[str, ...]) -> Any:
    """A column of the whole name, or the field at the path; None if rows have none.

    Raises:
        NotMergeableError: a step of the path is in what has no fields.
    """
    name = ".".join(path)
    if name in batch.schema.names:
        return batch[name]
    if path[0] not in batch.schema.names:
        return None
    column = batch[path[0]]
    for step in path[1:]:
        if not pa.types.is_struct(column.type):
            raise NotMergeableError(f"rows have no field {name}: {step} is in none")
        if column.type.get_field_index(step) < 0:
            return None
        column = pc.struct_field(column, step)  # null where the struct is
    return column


def _number(value: bytes) -> bytes:
    """A number of JSON: the nearest double, then what an integer differs from it."""
    is_integer = value.lstrip(b"-").isdigit() and len(value) <= _MAX_DIGITS
    rest = 0
    try:
        exact: float = int(value) if is_integer else float(value)
        nearest = float(exact)
        if isinstance(exact, int):
            rest = max(-_MOST, min(_MOST, exact - int(nearest)))
    except OverflowError:  # as what has as many digits after the point
        nearest = float("-inf" if value[:1] == b"-" else "inf")
    (bits,) = struct.unpack(">Q", struct.pack(">d", nearest + 0.0))
    ordered = bits ^ (2 * _SIGN - 1 if bits & _SIGN else _SIGN)
    return struct.pack(">QQ", ordered, rest + _SIGN)


def _ordered(name: str, column: Any) -> pa.Array:
    """The values as bytes in their order; null where there is none."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_nested(kind):
        raise NotMergeableError(f"rows cannot be sorted by {name}, which is a {kind}")
    if pa.types.is_floating(kind):
        return _with_nulls(_words_of_floats(column), column)
    if pa.types.is_decimal(kind):
        return _decimals(column)
    if pa.types.is_uint64(kind):
        return _with_nulls(column.fill_null(0).to_numpy(zero_copy_only=False), column)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        if pa.types.is_temporal(kind) and kind.bit_width == 32:
            column = column.cast(pa.int32())
        signed = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return _with_nulls(signed.view(np.uint64) ^ np.uint64(_SIGN), column)
    return pc.binary_slice(column.cast(pa.binary()), 0, PREFIX)


def _words_of_floats(column: Any) -> Words:
    values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
    bits: Words = values.view(np.uint64)
    ordered = np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(_SIGN))
    ordered[np.isnan(values)] = np.uint64(2 * _SIGN - 1)  # after all numbers, as Arrow sorts it
    return ordered


def _with_nulls(words: Words, column: Any) -> pa.Array:
    """Big-endian words as bytes."""
    return _fixed(words.astype(">u8").tobytes(), 8, column)


def _decimals(column: Any) -> pa.Array:
    width = column.type.bit_width // 8
    whole = pa.concat_arrays([column])  # without an offset
    body = np.frombuffer(whole.buffers()[1], np.uint8, len(whole) * width, whole.offset * width)
    ordered = body.reshape(-1, width)[:, ::-1].copy()
    ordered[:, 0] ^= 0x80
    return _fixed(ordered.tobytes(), width, column)


def _fixed(body: bytes, width: int, column: Any) -> pa.Array:
    kind = pa.binary(width)
    made = pa.Array.from_buffers(kind, len(column), [None, pa.py_buffer(body)]).cast(pa.binary())
    return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.binary()))


_NOTHING = msgspec.Raw(b"")
_NULL = b"null"


def json_key(path: tuple[str, ...]) -> Callable[[bytes], bytes | None]:
    """Return a function that reads the field at a path; None if it is absent or null."""
    decode = msgspec.json.Decoder(_nested(path)).decode

    def key_of(document: bytes) -> bytes | None:
        try:
            at: Any = decode(document)
            for _ in path[1:]:
                at = msgspec.UNSET if at is msgspec.UNSET else at.step
            found = bytes(_NOTHING if at is msgspec.UNSET else at.step)
            return _plain(found)
        except msgspec.DecodeError:
            return None  # not an object, or not one at a step of the path

    return key_of


def _nested(path: tuple[str, ...]) -> type[msgspec.Struct]:
    """A struct with the one field of each step, which leaves out everything else."""
    inner: type = msgspec.Raw
    default: object = _NOTHING
    made: type[msgspec.Struct] | None = None
    for name in reversed(path):
        field = msgspec.field(default=default, name=name)
        made = msgspec.defstruct("Step", [("step", inner, field)])
        inner, default = made | msgspec.UnsetType, msgspec.UNSET  # type: ignore[assignment]  # a type of msgspec's
    assert made is not None, "a path has a step"
    return made


def _plain(value: bytes) -> bytes | None:
    if not value or value == _NULL:
        return None
    if value.startswith(b'"') and b"\\" in value:
        return b'"' + msgspec.json.decode(value, type=str).encode("utf-8", "surrogatepass") + b'"'
    return value
