"""The contents of Hadoop's Writables, for whole columns: byte ranges become inner ranges.

Source: Hadoop 3.4, ``BytesWritable``, ``Text``, ``NullWritable``, ``WritableUtils.readVInt``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.formats.slices import binary_slices
from landfall.pipeline.records import Int64s

_MAX_VINT_BYTES = 5
_SHORT = 128
"""Numbers below are a byte of their own."""
_LENGTH_BYTES = 4
"""Of what a BytesWritable begins with."""
_PADDING = bytes(8)
_CUT_OFF = 2**40
"""A step beyond the end of all that is read."""
_STEPS = tuple(
    1 if first < _SHORT else 145 - first if 140 <= first <= 143 else _CUT_OFF
    for first in range(256)
)
"""How many bytes a vint has that is not negative, as lengths are, by its first byte."""


class MalformedWritable(ValueError):  # noqa: N818  # what the value is
    """A value is not of its class; ``row`` is its row."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


@dataclass(frozen=True)
class Spans:
    """Ranges ``[start, end)`` of a buffer of less than 2 GiB, which follow each other.

    Attributes:
        content: the buffer.
        starts: where each begins, int64, shape (rows,).
        ends: where each ends.
    """

    content: bytes
    starts: Int64s
    ends: Int64s

    @classmethod
    def joined(cls, count: int, lengths: bytes, content: bytes) -> "Spans":
        """Return ``count`` values that are joined, by their lengths as vints.

        Raises:
            ValueError: the lengths do not add up to the content.
        """
        sizes = vints(lengths)
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        if len(sizes) != count or total != len(content):
            raise ValueError(
                f"{len(sizes)} lengths with a sum of {total} bytes,"
                f" for {count} records of {len(content)} bytes"
            )
        return cls(content, ends - sizes, ends)

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: slice) -> "Spans":
        """Return some of the ranges."""
        return Spans(self.content, self.starts[rows], self.ends[rows])

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Return each range as a pair."""
        return zip(self.starts.tolist(), self.ends.tolist(), strict=True)


Held = Callable[[Spans], pa.BinaryArray]
"""Returns what serialized values hold, shape (rows,).

Raises:
    MalformedWritable: one is not of the class.
"""


def content_of(class_: str) -> Held:
    """Return what makes the contents of values of a class."""
    return _HELD.get(class_, _as_serialized)


def vint_width(first: int) -> int:
    """Return how many bytes a vint has that is not negative, as lengths are, by its first byte.

    Raises:
        ValueError: it is negative, or has more than 32 bits.
    """
    if _STEPS[first] == _CUT_OFF:
        raise ValueError(f"a length that starts with byte {first}")
    return _STEPS[first]


def vints(written: bytes) -> Int64s:
    """Return lengths that follow each other.

    Raises:
        ValueError: one is negative, cut off, or has more than 32 bits.
    """
    octets = np.frombuffer(written, np.uint8)
    if not len(octets) or octets.max() < _SHORT:
        return octets.astype(np.int64)
    step = vint_width(written[0])
    # Mostly all are of the same width: then each has the first byte of the first number.
    is_even = len(octets) % step == 0 and step > 1 and (octets[::step] == octets[0]).all()
    starts = np.arange(0, len(octets), step) if is_even else _starts(written)
    firsts = octets[starts].astype(np.int64)
    # How many of the four bytes after each first one are not of its number.
    excess = np.where(firsts < _SHORT, 4, firsts - 140)
    numbers = numbers_at_each_place(written, ">u4")[starts + 1].astype(np.int64) >> (8 * excess)
    return np.where(firsts < _SHORT, firsts, numbers)


def _starts(written: bytes) -> Int64s:
    place = 0
    end = len(written)
    starts = list[int]()
    while place < end:
        starts.append(place)
        place += _STEPS[written[place]]
    if place != end:
        vint_width(written[starts[-1]])
        raise ValueError("a length is cut off")
    return np.array(starts, np.int64)


def numbers_at_each_place(octets: bytes, kind: str) -> npt.NDArray[np.unsignedinteger]:
    """Return the number that begins at each place of a buffer and at its end, where zeros follow.

    Args:
        octets: the buffer.
        kind: of the numbers, as of NumPy: ``>u4`` or ``>u8``.
    """
    return np.ndarray(len(octets) + 1, kind, octets + _PADDING, strides=(1,))


def _as_serialized(spans: Spans) -> pa.BinaryArray:
    return binary_slices(spans.content, spans.starts, spans.ends)


def _nothing(spans: Spans) -> pa.BinaryArray:
    _check(spans.ends == spans.starts, "a NullWritable with bytes")
    return pa.nulls(len(spans), pa.binary())


def _bytes(spans: Spans) -> pa.BinaryArray:
    check_bytes_writables(spans)
    return binary_slices(spans.content, spans.starts + _LENGTH_BYTES, spans.ends)


def check_bytes_writables(spans: Spans) -> None:
    """Check that each value is four bytes with the number of those that follow, and these.

    Raises:
        MalformedWritable: one is not.
    """
    sizes = spans.ends - spans.starts - _LENGTH_BYTES
    _check(sizes >= 0, "a BytesWritable of less than 4 bytes")
    if len(spans):
        # As ``numbers_at_each_place``, but without a copy: each value is long enough.
        places = len(spans.content) - _LENGTH_BYTES + 1
        numbers = np.ndarray(places, ">u4", spans.content, strides=(1,))
        _check(numbers[spans.starts] == sizes, "a BytesWritable whose length field is wrong")


def _text(spans: Spans) -> pa.BinaryArray:
    """A vint with the number of the bytes that follow."""
    sizes = spans.ends - spans.starts
    _check(sizes >= 1, "a Text without a length")
    octets = np.frombuffer(spans.content, np.uint8)
    widths = np.array(_STEPS, np.int64)[octets[spans.starts]]
    _check(widths <= sizes, "a Text without a length")
    numbers = octets[spans.starts].astype(np.int64)
    for width in range(2, _MAX_VINT_BYTES + 1):
        rows = np.flatnonzero(widths == width)
        numbers[rows] = 0
        for place in range(1, width):
            numbers[rows] = (numbers[rows] << 8) | octets[spans.starts[rows] + place]
    _check(numbers == sizes - widths, "a Text whose length field is wrong")
    return binary_slices(spans.content, spans.starts + widths, spans.ends)


def _check(is_right: npt.NDArray[np.bool_], reason: str) -> None:
    if not is_right.all():
        raise MalformedWritable(int(np.flatnonzero(~is_right)[0]), reason)


_PACKAGE = "org.apache.hadoop.io."
LONG_WRITABLE = f"{_PACKAGE}LongWritable"
BYTES_WRITABLE = f"{_PACKAGE}BytesWritable"
_HELD: Mapping[str, Held] = MappingProxyType(
    {BYTES_WRITABLE: _bytes, f"{_PACKAGE}Text": _text, f"{_PACKAGE}NullWritable": _nothing}
)
