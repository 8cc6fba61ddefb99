"""Bytes of Hadoop Writables and of MessagePack, whole columns at a time.

Numbers of varying width are one idea in all the encodings here: a lead byte that tells the width,
then so many bytes of the number, big-endian. ``framed`` writes a column of them; what differs is
the lead, and what stands before it.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.pipeline.records import Int64s, Records

UInt8s = npt.NDArray[np.uint8]

NO_TIMESTAMP = -1
_OFFSET, _KEY, _TIMESTAMP = 1, 2, 3
"""The fields of a MessagePack key, by number: Secor's."""
_MAP = 0x80


def of_width(rows: bytes | memoryview, width: int) -> pa.BinaryArray:
    """A binary column of values that are all ``width`` bytes."""
    count = len(rows) // width
    bounds = np.arange(0, width * count + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(rows)]
    )


def int32s(numbers: Int64s) -> pa.BinaryArray:
    """Each number in four bytes, big-endian: Java's ``writeInt``."""
    return of_width(numbers.astype(">i4").tobytes(), 4)


def framed(numbers: Int64s, widths: UInt8s, *leads: UInt8s | int) -> pa.BinaryArray:
    """The lead bytes of each row, followed by the low ``widths`` (0 to 8) bytes of its number, big-endian.

    Numbers and widths have shape (rows,), and so has each lead unless it is the same byte in every
    row.
    """
    rows, led = len(numbers), len(leads)
    octets = np.empty((rows, led + 8), np.uint8)
    for place, lead in enumerate(leads):
        octets[:, place] = lead
    octets[:, led:] = numbers.astype(">i8").view(np.uint8).reshape(rows, 8)
    kept = np.arange(led + 8) < led
    if rows and (widths == widths[0]).all():
        kept[led + 8 - widths[0] :] = True
        return of_width(octets[:, kept].tobytes(), led + int(widths[0]))
    bounds = np.zeros(rows + 1, np.int32)
    np.cumsum(widths.astype(np.int32) + led, out=bounds[1:])
    written = octets[kept | (np.arange(led + 8) >= led + 8 - widths[:, None].astype(np.int64))]
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(bounds), pa.py_buffer(written)]
    )


def _widths(numbers: Int64s, limits: tuple[int, ...], widths: tuple[int, ...]) -> UInt8s:
    """``widths[i]`` for a number that is at least ``i`` of the limits."""
    places = np.searchsorted(np.array(limits, np.int64), numbers, side="right")
    return np.array(widths, np.uint8)[places]


def vints(numbers: Int64s) -> pa.BinaryArray:
    """Each number, none negative, as Hadoop's ``WritableUtils.writeVInt`` writes it."""
    widths = _widths(numbers, (128, 2**8, 2**16, 2**24), (0, 1, 2, 3, 4))
    leads = np.where(widths == 0, numbers, -112 - widths.astype(np.int64)).astype(np.uint8)
    return framed(numbers, widths, leads)


def vint(number: int) -> bytes:
    """One number that is not negative, as ``writeVInt`` writes it."""
    width = 0 if number < 128 else (number.bit_length() + 7) // 8
    return (
        bytes((number,))
        if width == 0
        else bytes((256 - 112 - width,)) + number.to_bytes(width, "big")
    )


def text(string: str) -> bytes:
    """Hadoop's ``Text.writeString``."""
    return vint(len(string.encode())) + string.encode()


def bytes_writables(values: pa.BinaryArray) -> pa.BinaryArray:
    """Each value as a BytesWritable: its length in four bytes, then itself. None may be null."""
    return pc.binary_join_element_wise(
        int32s(pc.binary_length(values).to_numpy().astype(np.int64)), values, b""
    )


def messagepack_ints(numbers: Int64s, *before: UInt8s | int) -> pa.BinaryArray:
    """Each number as the smallest MessagePack integer that holds it, after some other bytes."""
    limits = (-(2**31), -(2**15), -(2**7), -(2**5), 2**7, 2**8, 2**16, 2**32)
    places = np.searchsorted(np.array(limits, np.int64), numbers, side="right")
    widths = np.array((8, 4, 2, 1, 0, 1, 2, 4, 8), np.uint8)[places]
    leads = np.array((0xD3, 0xD2, 0xD1, 0xD0, 0, 0xCC, 0xCD, 0xCE, 0xCF), np.uint8)[places]
    return framed(numbers, widths, *before, np.where(widths == 0, numbers, leads).astype(np.uint8))


def messagepack_bin_heads(lengths: Int64s, *before: UInt8s | int) -> pa.BinaryArray:
    """What MessagePack puts before so many bytes of type bin, after some other bytes."""
    widths = _widths(lengths, (2**8, 2**16), (1, 2, 4))
    leads = np.array((0, 0xC4, 0xC5, 0, 0xC6), np.uint8)[widths]
    return framed(lengths, widths, *before, leads)


def messagepack_keys(records: Records) -> pa.BinaryArray:
    """Secor's key of each record: a map of 1 the offset, 3 the Kafka timestamp if any, 2 the Kafka key if not empty."""
    lengths = pc.binary_length(records.keys).fill_null(0).to_numpy().astype(np.int64)
    keyed, timed = lengths > 0, records.timestamps != NO_TIMESTAMP
    heads = _MAP + 1 + keyed.astype(np.uint8) + timed.astype(np.uint8)
    parts = [messagepack_ints(records.offsets, heads, _OFFSET)]
    if timed.any():
        parts.append(_where(timed, messagepack_ints(records.timestamps, _TIMESTAMP)))
    if keyed.any():
        keys = records.keys.fill_null(b"") if records.keys.null_count else records.keys
        parts += [_where(keyed, messagepack_bin_heads(lengths, _KEY)), keys]
    return pc.binary_join_element_wise(*parts, b"")


def _where(rows: npt.NDArray[np.bool_], values: pa.BinaryArray) -> pa.BinaryArray:
    """The values in these rows, nothing in the others."""
    return values if rows.all() else pc.if_else(pa.array(rows), values, b"")
