"""The nodes of a compiled schema, which read one type for all records at once.

A node also skips its type without making a column, and walks over one value of one record in plain
Python, which is cheaper where few records have many values. All three agree on where a value ends.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.decoders.avro.cursor import ENDS, AvroCursor
from landfall.pipeline.records import Int64s

MAX_LEVELS = 200
"""How deep types may be inside each other, and values of recursive types: records, unions, arrays
and maps all count. Each takes up to three of Python's 1,000 stack frames."""
MAX_EMPTY_ITEMS = 256
"""Items of an array or a map whose type takes no bytes, such as null: their count is all there is
of them, so that a few bytes could ask for any amount of memory."""


class Malformed(Exception):  # noqa: N818  # what the record is
    """A record cannot be read; the message is the reason."""


class Node(Protocol):
    """Reads, skips and walks over the values of one type."""

    @property
    def arrow(self) -> pa.DataType:
        """The type of the column that ``read`` makes."""
        ...

    @property
    def least(self) -> int:
        """The fewest bytes that a value takes."""
        ...

    def read(self, cursor: AvroCursor) -> pa.Array:
        """Return a value for each row; values of bad rows mean nothing."""
        ...

    def skip(self, cursor: AvroCursor) -> None:
        """Move each row past its value."""
        ...

    def walk(self, record: "OneRecord", at: int) -> int:
        """Return the position after the value at ``at`` of one record.

        Raises:
            Malformed: it has no end inside the record.
        """
        ...

    def text(self, column: pa.Array) -> pa.StringArray:
        """Return each value that ``read`` gave as JSON; null is the text ``null``."""
        ...


@dataclass
class OneRecord:
    """The bytes of one record, for ``Node.walk``.

    Attributes:
        data: the bytes of all records.
        end: the position after the last byte of this one.
        depth: how many levels deep in recursive types the walk is.
    """

    data: memoryview
    end: int
    depth: int = 0

    def number(self, at: int, where: str) -> tuple[int, int]:
        """Return the zigzag varint at ``at``, and the position after it."""
        data = self.data
        value = 0
        shift = 0
        while True:
            if at >= self.end:
                raise Malformed(f"{where}: {ENDS}")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise Malformed(f"{where}: a number of more than 64 bits")
        if value >= 1 << 64:
            raise Malformed(f"{where}: a number of more than 64 bits")
        return (value >> 1) ^ -(value & 1), at

    def jump(self, at: int, size: int, where: str) -> int:
        """Return the position ``size`` bytes on."""
        if size < 0:
            raise Malformed(f"{where}: negative length")
        if size > self.end - at:
            raise Malformed(f"{where}: {ENDS}")
        return at + size


def spread(column: pa.Array, rows: Int64s, length: int) -> pa.Array:
    """Return a column of ``length`` rows that has these values at ``rows`` and null elsewhere."""
    if len(rows) == length:
        return column
    positions = np.zeros(length, np.int64)
    missing = np.ones(length, np.bool_)
    positions[rows] = np.arange(len(rows))
    missing[rows] = False
    return column.take(pa.array(positions, mask=missing))


def quoted(texts: pa.StringArray) -> pa.StringArray:
    """Return each text as JSON; null is ``null``."""
    characters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    if len(characters) and (
        characters.min() < 0x20 or ((characters == 0x22) | (characters == 0x5C)).any()
    ):
        return pa.array([orjson.dumps(text).decode() for text in texts.to_pylist()], pa.string())
    return pc.binary_join_element_wise('"', texts, '"', "").fill_null("null")
