"""Nodes of types that hold no other type: numbers, text, bytes, decimals, symbols.

A node has the type that the writer used (``wire``) and the column it makes (``arrow``), which
differ where the reader's schema promotes one to the other (specification, "Schema Resolution").
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline import common_values
from landfall.pipeline.decoders.avro.cursor import AvroCursor
from landfall.pipeline.decoders.avro.node import Malformed, OneRecord, quoted, spread
from landfall.pipeline.records import Int64s

_NULL = pa.null()
_BOOL = pa.bool_()
_STRING = pa.string()
_INT32 = (-(2**31), 2**31 - 1)
_DAY: Mapping[pa.DataType, int] = {pa.time32("ms"): 86_400_000, pa.time64("us"): 86_400_000_000}


@dataclass(frozen=True)
class NullNode:
    """Type ``null``."""

    path: str
    arrow: pa.DataType = _NULL
    least: int = 0

    def read(self, cursor: AvroCursor) -> pa.Array:
        return pa.nulls(len(cursor))

    def skip(self, cursor: AvroCursor) -> None:
        pass

    def walk(self, record: OneRecord, at: int) -> int:  # noqa: ARG002  # nothing is read
        return at

    def text(self, column: pa.Array) -> pa.StringArray:
        return pa.array(["null"], pa.string()).take(pa.array(np.zeros(len(column), np.int64)))


@dataclass(frozen=True)
class BooleanNode:
    """Type ``boolean``: a byte that is 0 or 1."""

    path: str
    arrow: pa.DataType = _BOOL
    least: int = 1

    def read(self, cursor: AvroCursor) -> pa.Array:
        bytes_ = cursor.data.bytes[cursor.jump(1, self.path)]
        cursor.fail(bytes_ > 1, f"{self.path}: a boolean that is neither 0 nor 1")
        return pa.array(bytes_ == 1)

    def skip(self, cursor: AvroCursor) -> None:
        bytes_ = cursor.data.bytes[cursor.jump(1, self.path)]
        cursor.fail(bytes_ > 1, f"{self.path}: a boolean that is neither 0 nor 1")

    def walk(self, record: OneRecord, at: int) -> int:
        after = record.jump(at, 1, self.path)
        if record.data[at] > 1:
            raise Malformed(f"{self.path}: a boolean that is neither 0 nor 1")
        return after

    def text(self, column: pa.Array) -> pa.StringArray:
        return column.cast(pa.string()).fill_null("null")


@dataclass(frozen=True)
class NumberNode:
    """Types ``int`` and ``long``, also as dates and times, or promoted to another number."""

    path: str
    is_int: bool
    arrow: pa.DataType
    least: int = 1
    common: bool = False

    def read(self, cursor: AvroCursor) -> pa.Array:
        return self._checked(self.numbers(cursor), cursor)

    def skip(self, cursor: AvroCursor) -> None:
        numbers = self.numbers(cursor)
        if cursor.data.is_strict and self.arrow in _DAY:
            self._checked(numbers, cursor)

    @property
    def takes_any(self) -> bool:
        """Return whether every number of its size is a value."""
        return self.arrow not in _DAY and not self._has_calendar

    def walk(self, record: OneRecord, at: int) -> int:
        number, after = record.number(at, self.path)
        if self.is_int and not _INT32[0] <= number <= _INT32[1]:
            raise Malformed(f"{self.path}: an int of more than 32 bits")
        return after

    def text(self, column: pa.Array) -> pa.StringArray:
        if pa.types.is_floating(self.arrow):
            return float_texts(column)
        if self.common and pa.types.is_temporal(self.arrow):
            return quoted(common_values.texts(column))
        storage = pa.int32() if self.arrow.bit_width == 32 else pa.int64()
        return column.view(storage).cast(pa.string()).fill_null("null")

    def numbers(self, cursor: AvroCursor) -> Int64s:
        """Read numbers of its size."""
        numbers = cursor.numbers(self.path)
        if self.is_int:
            wrong = (numbers < _INT32[0]) | (numbers > _INT32[1])
            cursor.fail(wrong, f"{self.path}: an int of more than 32 bits")
        return numbers

    def column(self, numbers: Int64s) -> pa.Array:
        """Return the column of numbers that are values."""
        if pa.types.is_floating(self.arrow):
            return pa.array(numbers.astype(self.arrow.to_pandas_dtype()))
        if self.arrow.bit_width == 32:
            return pa.array(numbers.astype(np.int32)).view(self.arrow)
        return pa.array(numbers).view(self.arrow)

    @property
    def _has_calendar(self) -> bool:
        is_dated = pa.types.is_date(self.arrow) or pa.types.is_timestamp(self.arrow)
        return bool(self.common and is_dated)

    def _checked(self, numbers: Int64s, cursor: AvroCursor) -> pa.Array:
        if self.arrow in _DAY:
            wrong = (numbers < 0) | (numbers >= _DAY[self.arrow])
            cursor.fail(wrong, f"{self.path}: not a time of day")
            numbers = np.where(wrong, 0, numbers)
        column = self.column(numbers)
        return self._of_calendar(column, cursor) if self._has_calendar else column

    def _of_calendar(self, column: pa.Array, cursor: AvroCursor) -> pa.Array:
        outside = common_values.out_of_calendar(column)
        if not len(outside):
            return column
        wrong = np.zeros(len(column), np.bool_)
        wrong[outside] = True
        cursor.fail(wrong, f"{self.path}: {common_values.OUT_OF_CALENDAR}")
        return pc.if_else(pa.array(wrong), pa.scalar(None, column.type), column)


@dataclass(frozen=True)
class RealNode:
    """Types ``float`` and ``double``, or a float promoted to double."""

    path: str
    is_float: bool
    arrow: pa.DataType

    @property
    def least(self) -> int:
        return 4 if self.is_float else 8

    def read(self, cursor: AvroCursor) -> pa.Array:
        data = cursor.data.floats if self.is_float else cursor.data.doubles
        column = data[cursor.jump(self.least, self.path)]
        with np.errstate(invalid="ignore"):  # of a NaN that signals, a quiet one is made
            return pa.array(column.astype(self.arrow.to_pandas_dtype(), copy=False))

    def skip(self, cursor: AvroCursor) -> None:
        cursor.jump(self.least, self.path)

    def walk(self, record: OneRecord, at: int) -> int:
        return record.jump(at, self.least, self.path)

    def text(self, column: pa.Array) -> pa.StringArray:
        return float_texts(column)


@dataclass(frozen=True)
class TextNode:
    """Types ``string`` and ``bytes``, each read as either. Text must be UTF-8 where it is read.

    With ``is_uuid`` text that is copied into files must be a UUID: libraries that make values of
    UUIDs fail for the whole file otherwise. As a column or JSON it stays the text that it is.
    """

    path: str
    arrow: pa.DataType
    least: int = 1
    is_uuid: bool = False
    common: bool = False

    def read(self, cursor: AvroCursor) -> pa.Array:
        lengths = cursor.lengths(self.path)
        start = cursor.at
        cursor.at = start + lengths
        column = slices(cursor, start, cursor.at)
        if self.arrow == pa.binary():
            return column
        column = self._utf8(column, cursor)
        if self.is_uuid and cursor.data.is_strict:
            is_one = np.asarray(pc.match_substring_regex(column, _UUID))
            cursor.fail(~is_one, f"{self.path}: not a UUID")
        return column

    def skip(self, cursor: AvroCursor) -> None:
        if self.is_uuid and cursor.data.is_strict:
            self.read(cursor)
            return
        lengths = cursor.lengths(self.path)
        start = cursor.at
        cursor.at = start + lengths
        if cursor.data.is_strict and self.arrow != pa.binary():
            try:
                # The gaps between the texts are null, so that only the texts are looked at.
                segments(cursor, start, cursor.at, are_gaps_null=True).cast(pa.string())
            except pa.ArrowInvalid:
                self._utf8(slices(cursor, start, cursor.at), cursor)

    def walk(self, record: OneRecord, at: int) -> int:
        length, after = record.number(at, self.path)
        return record.jump(after, length, self.path)

    def text(self, column: pa.Array) -> pa.StringArray:
        return quoted(column) if self.arrow == pa.string() else _bytes_texts(column, self.common)

    def _utf8(self, column: pa.BinaryArray, cursor: AvroCursor) -> pa.StringArray:
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            texts = [_decoded(value) for value in column.to_pylist()]
            wrong = np.array([text is None for text in texts], np.bool_)
            cursor.fail(wrong, f"{self.path}: not UTF-8")
            return pa.array([text or "" for text in texts], pa.string())


@dataclass(frozen=True)
class FixedNode:
    """Type ``fixed``; with ``arrow`` of type string a UUID of 16 bytes."""

    path: str
    least: int
    arrow: pa.DataType
    common: bool = False

    def read(self, cursor: AvroCursor) -> pa.Array:
        start = cursor.jump(self.least, self.path)
        good = np.flatnonzero(cursor.good)
        # Only rows that have the bytes: the size is the schema's, and may be anything.
        ends = start[good] + self.least
        column = slices(cursor, start[good], ends)
        if self.arrow == pa.string():
            column = _uuids(column)
        return spread(column, good, len(cursor))

    def skip(self, cursor: AvroCursor) -> None:
        cursor.jump(self.least, self.path)

    def walk(self, record: OneRecord, at: int) -> int:
        return record.jump(at, self.least, self.path)

    def text(self, column: pa.Array) -> pa.StringArray:
        return quoted(column) if self.arrow == pa.string() else _bytes_texts(column, self.common)


@dataclass(frozen=True)
class SymbolNode:
    """Type ``enum``: the index of a symbol.

    Attributes:
        symbols: for each of the writer's symbols the reader's; None if the reader knows none.
    """

    path: str
    symbols: tuple[str | None, ...]
    arrow: pa.DataType = _STRING
    least: int = 1

    def read(self, cursor: AvroCursor) -> pa.Array:
        numbers = self._numbers(cursor)
        column = pa.array(self.symbols, pa.string()).take(pa.array(numbers))
        if None in self.symbols:
            wrong = np.asarray(column.is_null()) & cursor.good
            cursor.fail(wrong, f"{self.path}: a symbol that the reader's schema does not have")
        return column

    def skip(self, cursor: AvroCursor) -> None:
        self._numbers(cursor)

    def walk(self, record: OneRecord, at: int) -> int:
        number, after = record.number(at, self.path)
        if not 0 <= number < len(self.symbols):
            raise Malformed(f"{self.path}: unknown symbol of an enum")
        return after

    def text(self, column: pa.Array) -> pa.StringArray:
        return quoted(column)

    def _numbers(self, cursor: AvroCursor) -> Int64s:
        numbers = cursor.numbers(self.path)
        wrong = (numbers < 0) | (numbers >= len(self.symbols))
        cursor.fail(wrong, f"{self.path}: unknown symbol of an enum")
        return np.where(wrong, 0, numbers)


def slices(cursor: AvroCursor, start: Int64s, end: Int64s) -> pa.BinaryArray:
    """Return the bytes ``[start, end)`` of each row; the ranges follow each other in the data."""
    # Taking every second value copies the ranges in C++.
    return segments(cursor, start, end).take(pa.array(np.arange(0, 2 * len(start), 2)))


def segments(
    cursor: AvroCursor, start: Int64s, end: Int64s, *, are_gaps_null: bool = False
) -> pa.BinaryArray:
    """Return the ranges ``[start, end)`` and the gaps after them as one array, without a copy."""
    rows = len(start)
    offsets = np.empty(2 * rows + 1, np.int32)
    offsets[0:-1:2], offsets[1::2] = start, end
    offsets[-1] = end[-1] if rows else 0
    validity = pa.py_buffer(b"\x55" * (rows // 4 + 1)) if are_gaps_null else None
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(cursor.data.bytes)]
    return pa.Array.from_buffers(pa.binary(), 2 * rows, buffers)


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\z"
"""A UUID as text (RFC 9562). Python and Java each accept more, but not the same."""
_HEX = np.frombuffer(bytes(range(256)).hex().encode(), np.uint8).reshape(256, 2)
_DASHES = (8, 13, 18, 23)


def _uuids(column: pa.BinaryArray) -> pa.StringArray:
    """Return 16 bytes each as the text of a UUID (RFC 9562)."""
    rows = len(column)
    texts = np.full((rows, 36), ord("-"), np.uint8)
    content = np.frombuffer(column.buffers()[2] or b"", np.uint8)[: 16 * rows].reshape(rows, 16)
    texts[:, [i for i in range(36) if i not in _DASHES]] = _HEX[content].reshape(rows, 32)
    offsets = np.arange(0, 36 * rows + 1, 36, dtype=np.int32)
    return pa.StringArray.from_buffers(
        rows, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(texts))
    )


def _bytes_texts(column: pa.BinaryArray, common: bool) -> pa.StringArray:  # noqa: FBT001
    """Return bytes as JSON text of code points 0 to 255 (specification, "JSON Encoding").

    With ``common`` it is the text of ``common_values``.
    """
    if common:
        return quoted(common_values.texts(column))
    return pa.array(
        [
            "null" if value is None else orjson.dumps(value.decode("latin-1")).decode()
            for value in column.to_pylist()
        ],
        pa.string(),
    )


def float_texts(column: pa.Array) -> pa.StringArray:
    """Return numbers as JSON; what is no number in JSON is text, ``"NaN"`` or ``"-Infinity"``."""
    if not len(column):
        return pa.array([], pa.string())
    # A float as the double that it is: the shortest text of a float is another double.
    with np.errstate(invalid="ignore"):  # of a NaN that signals, a quiet one is made
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
    numbers_text = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    texts: list[str] = numbers_text[1:-1].split(",")
    for row in np.flatnonzero(~np.isfinite(numbers)).tolist():
        number = numbers[row]
        texts[row] = '"NaN"' if np.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'
    made = pa.array(texts, pa.string())
    return pc.if_else(column.is_valid(), made, "null") if column.null_count else made
