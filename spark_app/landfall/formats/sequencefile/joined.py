"""Byte strings as a block of a SequenceFile holds them: their lengths, and all of them joined.

Read a column at a time. Where something is not regular there is no result, never an error: who asks
reads it string by string, and finds out what is wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.pipeline.records import Int64s

_MAX_BYTES = 2**31 - 1
"""What Arrow's 32-bit offsets can address."""
_SHORT = 128
"""Numbers below are a byte of their own."""
_LENGTH_BYTES = 4
"""Of what a BytesWritable begins with."""
_PADDING = bytes(8)
_WIDTHS: Mapping[int, int] = MappingProxyType({0x8F: 1, 0x8E: 2, 0x8D: 3, 0x8C: 4})
"""Bytes after the first of a vint, by the first. More have never been needed for a length."""
_CUT_OFF = 2**40
"""A step beyond the end of all that is read."""
_STEPS = tuple(1 if first < _SHORT else 1 + _WIDTHS.get(first, _CUT_OFF) for first in range(256))


@dataclass(frozen=True, slots=True)
class Joined:
    """Byte strings, one per row.

    Attributes:
        octets: all of them, one after the other; less than 2 GiB.
        starts: where each begins, shape (rows,).
        ends: where each ends, shape (rows,).
    """

    octets: bytes
    starts: Int64s
    ends: Int64s

    @classmethod
    def of(cls, rows: int, lengths: bytes, octets: bytes) -> "Joined | None":
        """What a block holds; None if it is not regular.

        Args:
            rows: how many strings there are.
            lengths: their lengths as vints.
            octets: the strings.
        """
        sizes = read_vints(lengths)
        if sizes is None or len(sizes) != rows or len(octets) > _MAX_BYTES:
            return None
        ends = np.cumsum(sizes)
        if (int(ends[-1]) if rows else 0) != len(octets):
            return None
        return cls(octets, ends - sizes, ends)

    def are_bytes_writables(self) -> bool:
        """Whether each is a BytesWritable: four bytes with the length of the rest, and the rest."""
        contents = self.ends - self.starts - _LENGTH_BYTES
        if not len(contents):
            return True
        if contents.min() < 0:
            return False
        # As ``numbers_at_each_place``, but without a copy: the last string is long enough.
        numbers = np.ndarray(len(self.octets) - _LENGTH_BYTES + 1, ">u4", self.octets, strides=(1,))
        return bool((numbers[self.starts] == contents).all())

    def contents(self) -> pa.BinaryArray:
        """What is in each BytesWritable."""
        return segments(self.octets, self.starts + _LENGTH_BYTES, self.ends)


def segments(
    octets: bytes, starts: Int64s, ends: Int64s, are_there: npt.NDArray[np.bool_] | None = None
) -> pa.BinaryArray:
    """A binary column of segments of a buffer, copied.

    Args:
        octets: the buffer, of less than 2 GiB.
        starts: where the segments begin. They do not overlap and are in order.
        ends: where they end.
        are_there: which rows are not null; None for all.
    """
    rows = len(starts)
    if not rows:
        return pa.nulls(0, pa.binary())
    # Segments and what lies between them, in turns.
    bounds = np.empty(2 * rows, np.int32)
    bounds[::2], bounds[1::2] = starts, ends
    both = pa.Array.from_buffers(
        pa.binary(), 2 * rows - 1, [None, pa.py_buffer(bounds), pa.py_buffer(octets)]
    )
    every_other = np.arange(0, 2 * rows, 2)
    return both.take(pa.array(every_other, mask=None if are_there is None else ~are_there))


def read_vints(written: bytes) -> Int64s | None:
    """Numbers as Hadoop writes lengths; None if there are others, or the last is cut off."""
    octets = np.frombuffer(written, np.uint8)
    if not len(octets) or octets.max() < _SHORT:
        return octets.astype(np.int64)
    step = _STEPS[written[0]]
    # Mostly all are of the same width: then each has the first byte of the first number.
    if len(octets) % step == 0 and step > 1 and (octets[::step] == octets[0]).all():
        starts = np.arange(0, len(octets), step)
    elif (found := _starts(written)) is not None:
        starts = found
    else:
        return None
    firsts = octets[starts]
    # How many of the four bytes after each first one are not of its number.
    excess = np.where(firsts < _SHORT, 4, firsts.astype(np.int64) - 0x8C)
    numbers = numbers_at_each_place(written, ">u4")[starts + 1].astype(np.int64) >> (8 * excess)
    return np.where(firsts < _SHORT, firsts, numbers)


def _starts(written: bytes) -> Int64s | None:
    place, end, starts = 0, len(written), list[int]()
    while place < end:
        starts.append(place)
        place += _STEPS[written[place]]
    return np.array(starts, np.int64) if place == end else None


def numbers_at_each_place(octets: bytes, kind: str) -> npt.NDArray[np.unsignedinteger]:
    """The number that begins at each place of a buffer and at its end, where zeros follow.

    Args:
        octets: the buffer.
        kind: of the numbers, as of NumPy: ``>u4`` or ``>u8``.
    """
    return np.ndarray(len(octets) + 1, kind, octets + _PADDING, strides=(1,))
