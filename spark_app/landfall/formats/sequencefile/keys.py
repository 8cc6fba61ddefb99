"""The keys of a SequenceFile as columns: offsets, Kafka timestamps and Kafka keys.

A MessagePack key is taken only as Secor and Landfall write it: a map of the offset, then the
timestamp if there is one, then the Kafka key if there is one. Nothing else has a result here.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from landfall.formats.sequencefile.joined import Joined, numbers_at_each_place, segments
from landfall.formats.sequencefile.writables import (
    FIXMAP,
    KEY,
    NO_TIMESTAMP,
    OFFSET,
    TIMESTAMP,
    UInt8s,
)
from landfall.pipeline.records import Int64s

UInt64s = npt.NDArray[np.uint64]

_LONG_BYTES = 8
_PADDING = bytes(32)
"""More than the fixed parts of a key, so that no look beyond the last key leaves the buffer."""
_IRREGULAR = 255
_UINT64, _FIRST_SIGNED = 0xCF, 0xD0
_TOO_LARGE = 2**63


def _widths() -> UInt8s:
    """How many bytes follow the first byte of a MessagePack integer, by that byte."""
    widths = np.full(256, _IRREGULAR, np.uint8)
    widths[:0x80] = widths[0xE0:] = 0
    widths[0xCC:0xD0] = widths[0xD0:0xD4] = (1, 2, 4, 8)
    return widths


def _length_widths() -> UInt8s:
    """How many bytes have the length of a MessagePack bin value, by its first byte."""
    widths = np.full(256, _IRREGULAR, np.uint8)
    widths[0xC4:0xC7] = (1, 2, 4)
    return widths


_WIDTHS, _LENGTH_WIDTHS = _widths(), _length_widths()


class KeyColumns(NamedTuple):
    """See ``sequencecolumns.RowColumns``."""

    offsets: Int64s
    timestamps: Int64s
    keys: pa.BinaryArray


def long_keys(keys: Joined) -> KeyColumns | None:
    """The columns of LongWritables, which hold offsets; None if any is of another size."""
    rows = len(keys.starts)
    if (keys.ends - keys.starts != _LONG_BYTES).any():
        return None
    offsets = np.frombuffer(keys.octets, ">i8").astype(np.int64)
    return KeyColumns(offsets, np.full(rows, NO_TIMESTAMP), pa.nulls(rows, pa.binary()))


def messagepack_keys(keys: Joined) -> KeyColumns | None:
    """The columns of MessagePack keys; None if any is not regular."""
    if not len(keys.starts) or not keys.are_bytes_writables():
        return None
    try:
        return _messagepack_keys(keys)
    except _IrregularError:
        return None


class _IrregularError(Exception):
    """A key is not as Secor and Landfall write it."""


class _Buffer(NamedTuple):
    """The keys of a block, and zeros.

    Attributes:
        octets: the byte at each place.
        numbers: the unsigned number of eight bytes that begins at each place.
    """

    octets: UInt8s
    numbers: UInt64s


def _messagepack_keys(keys: Joined) -> KeyColumns:
    padded = keys.octets + _PADDING
    buffer = _Buffer(np.frombuffer(padded, np.uint8), numbers_at_each_place(padded, ">u8"))
    octets, at = buffer.octets, keys.starts + 4
    # Up to where each key is read, nothing is known of how long it is: that is checked at the end.
    more = octets[at] - np.uint8(FIXMAP + 1)
    _check((more <= 2) & (octets[at + 1] == OFFSET))
    offsets, at = _integers(buffer, at + 2)
    timed = (more > 0) & (octets[at] == TIMESTAMP)
    keyed = more > timed
    _check(more == timed.astype(np.uint8) + keyed)
    timestamps = np.full(len(at), NO_TIMESTAMP)
    if timed.any():
        timestamps[timed], at[timed] = _integers(buffer, at[timed] + 1)
    starts = at.copy()
    if keyed.any():
        starts[keyed], at[keyed] = _strings(buffer, at[keyed])
    _check(at == keys.ends)
    none = pa.nulls(len(at), pa.binary())
    kafka_keys = segments(keys.octets, starts, at, keyed) if keyed.any() else none
    return KeyColumns(offsets, timestamps, kafka_keys)


def _check(are_regular: npt.NDArray[np.bool_]) -> None:
    if not are_regular.all():
        raise _IrregularError


def _integers(buffer: _Buffer, at: Int64s) -> tuple[Int64s, Int64s]:
    """The MessagePack integers that begin at these places, and where they end."""
    firsts = buffer.octets[at]
    widths = _WIDTHS[firsts]
    _check(widths != _IRREGULAR)
    eight = buffer.numbers[at + 1].astype(np.uint64)
    shifts = (64 - 8 * np.maximum(widths, 1)).astype(np.uint64)
    unsigned = eight >> shifts
    _check((unsigned < _TOO_LARGE) | (firsts != _UINT64))
    signed = eight.view(np.int64) >> shifts.view(np.int64)
    wide = np.where(firsts < _FIRST_SIGNED, unsigned.view(np.int64), signed)
    return np.where(widths == 0, firsts.view(np.int8), wide), at + 1 + widths


def _strings(buffer: _Buffer, at: Int64s) -> tuple[Int64s, Int64s]:
    """Where the MessagePack bin values of Kafka keys begin and end, after the number of a field."""
    widths = _LENGTH_WIDTHS[buffer.octets[at + 1]]
    _check((buffer.octets[at] == KEY) & (widths != _IRREGULAR))
    lengths = buffer.numbers[at + 2].astype(np.uint64) >> (64 - 8 * widths).astype(np.uint64)
    starts = at + 2 + widths
    return starts, starts + lengths.view(np.int64)
