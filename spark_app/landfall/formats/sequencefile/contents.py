"""What Hadoop's Writables hold, for whole columns: ranges of bytes become ranges inside these.

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


class MalformedWritable(ValueError):  # noqa: N818  # what the value is
    """A value is not of its class; ``row`` says which."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


@dataclass(frozen=True)
class Spans:
    """Ranges ``[start, end)`` of a buffer, which follow each other; shapes (rows,)."""

    content: bytes
    starts: Int64s
    ends: Int64s

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
    if first < 128:
        return 1
    if not 140 <= first <= 143:
        raise ValueError(f"a length that starts with byte {first}")
    return 145 - first


def vints(written: bytes) -> Int64s:
    """Return lengths that follow each other.

    Raises:
        ValueError: one is negative, cut off, or has more than 32 bits.
    """
    if not written:
        return np.zeros(0, np.int64)
    width = vint_width(written[0])
    octets = np.frombuffer(written, np.uint8)
    if not len(octets) % width:
        rows = octets.reshape(-1, width)
        # If all firsts ask for the same width, each number is where this takes it to be.
        if (rows[:, 0] == octets[0]).all() if width > 1 else (octets < 128).all():
            return _numbers(rows[:, 1:] if width > 1 else rows)
    return np.array(list(_each_vint(written)), np.int64)


def _numbers(rows: npt.NDArray[np.uint8]) -> Int64s:
    """Return unsigned big-endian numbers, one for each row of their bytes."""
    numbers = np.zeros(len(rows), np.int64)
    for place in range(rows.shape[1]):
        numbers = (numbers << 8) | rows[:, place]
    return numbers


def _each_vint(written: bytes) -> Iterator[int]:
    at, end = 0, len(written)
    while at < end:
        first = written[at]
        if first < 128:
            yield first
            at += 1
            continue
        after = at + vint_width(first)
        if after > end:
            raise ValueError("a length is cut off")
        yield int.from_bytes(written[at + 1 : after], "big")
        at = after


def _as_serialized(spans: Spans) -> pa.BinaryArray:
    return binary_slices(spans.content, spans.starts, spans.ends)


def _nothing(spans: Spans) -> pa.BinaryArray:
    _check(spans.ends == spans.starts, "a NullWritable with bytes")
    return pa.nulls(len(spans.starts), pa.binary())


def _bytes(spans: Spans) -> pa.BinaryArray:
    """Four bytes with the number of those that follow."""
    sizes = spans.ends - spans.starts
    _check(sizes >= 4, "a BytesWritable of less than 4 bytes")
    octets = np.frombuffer(spans.content, np.uint8)
    numbers = _numbers(octets[spans.starts[:, np.newaxis] + np.arange(4)])
    _check(numbers == sizes - 4, "a BytesWritable of another length than it says")
    return binary_slices(spans.content, spans.starts + 4, spans.ends)


def _text(spans: Spans) -> pa.BinaryArray:
    """A vint with the number of the bytes that follow."""
    sizes = spans.ends - spans.starts
    _check(sizes >= 1, "a Text without a length")
    octets = np.frombuffer(spans.content, np.uint8)
    firsts = octets[spans.starts].astype(np.int64)
    is_known = (firsts < 128) | ((firsts >= 140) & (firsts <= 143))  # as in vint_width
    widths = np.where(firsts < 128, 1, 145 - firsts)
    _check(is_known & (widths <= sizes), "a Text without a length")
    numbers = firsts.copy()
    for width in range(2, _MAX_VINT_BYTES + 1):
        rows = np.flatnonzero(widths == width)
        numbers[rows] = _numbers(octets[spans.starts[rows, np.newaxis] + np.arange(1, width)])
    _check(numbers == sizes - widths, "a Text of another length than it says")
    return binary_slices(spans.content, spans.starts + widths, spans.ends)


def _check(is_right: npt.NDArray[np.bool_], reason: str) -> None:
    if not is_right.all():
        raise MalformedWritable(int(np.flatnonzero(~is_right)[0]), reason)


_PACKAGE = "org.apache.hadoop.io."
_HELD: Mapping[str, Held] = MappingProxyType(
    {
        f"{_PACKAGE}BytesWritable": _bytes,
        f"{_PACKAGE}Text": _text,
        f"{_PACKAGE}NullWritable": _nothing,
    }
)
