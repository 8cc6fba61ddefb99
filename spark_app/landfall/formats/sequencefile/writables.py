"""Hadoop Writables and MessagePack, encoded a column at a time.

All encodings here write numbers of varying width in the same way: a lead byte implies the width,
and that many bytes of the number follow, big-endian. ``with_leads`` writes a column of such
numbers; the encodings differ in the lead byte and in what comes before it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats.codecs import Bytes
from landfall.formats.slices import native_columns, payload_bytes
from landfall.native import hot_path
from landfall.pipeline.records import Int64s, Records

UInt8s = npt.NDArray[np.uint8]

NO_TIMESTAMP = -1
OFFSET = 1
KEY = 2
TIMESTAMP = 3
"""The fields of a MessagePack key, numbered as in Secor."""
FIXMAP = 0x80
"""MessagePack's type fixmap; the number of entries is added to it."""


def of_width(rows: bytes | memoryview, width: int) -> pa.BinaryArray:
    """Return a binary column whose values are all ``width`` bytes long."""
    count = len(rows) // width
    bounds = np.arange(0, width * count + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(rows)]
    )


def int32s(numbers: Int64s) -> pa.BinaryArray:
    """Return each number in four bytes, big-endian, as Java's ``writeInt`` writes it."""
    return of_width(numbers.astype(">i4").tobytes(), 4)


def with_leads(numbers: Int64s, widths: UInt8s, *leads: UInt8s | int) -> pa.BinaryArray:
    """Return the lead bytes of each row, followed by the low bytes of its number, big-endian.

    Args:
        numbers: shape (rows,).
        widths: how many bytes of each number to write, 0 to 8, shape (rows,).
        leads: the lead bytes, each an array of shape (rows,) or the same byte for every row.
    """
    rows, lead_count = len(numbers), len(leads)
    # A table of all lead bytes and all eight bytes of each number; some are then selected.
    octets = np.empty((rows, lead_count + 8), np.uint8)
    for place, lead in enumerate(leads):
        octets[:, place] = lead
    octets[:, lead_count:] = numbers.astype(">i8").view(np.uint8).reshape(rows, 8)
    places = np.arange(lead_count + 8)
    kept = places < lead_count
    if rows and (widths == widths[0]).all():
        kept[lead_count + 8 - widths[0] :] = True
        return of_width(octets[:, kept].tobytes(), lead_count + int(widths[0]))
    bounds = np.zeros(rows + 1, np.int32)
    np.cumsum(widths.astype(np.int32) + lead_count, out=bounds[1:])
    written = octets[kept | (places >= lead_count + 8 - widths[:, None].astype(np.int64))]
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(bounds), pa.py_buffer(written)]
    )


def _widths(numbers: Int64s, limits: tuple[int, ...], widths: tuple[int, ...]) -> UInt8s:
    """Return ``widths[i]`` for a number that has reached ``i`` of the increasing limits."""
    places = np.searchsorted(np.array(limits, np.int64), numbers, side="right")
    return np.array(widths, np.uint8)[places]


def vints(numbers: Int64s) -> pa.BinaryArray:
    """Return each number, none negative, as Hadoop's ``WritableUtils.writeVInt`` writes it."""
    widths = _widths(numbers, (128, 2**8, 2**16, 2**24), (0, 1, 2, 3, 4))
    leads = np.where(widths == 0, numbers, -112 - widths.astype(np.int64)).astype(np.uint8)
    return with_leads(numbers, widths, leads)


def vint(number: int) -> bytes:
    """Return one number that is not negative, as ``writeVInt`` writes it."""
    width = 0 if number < 128 else (number.bit_length() + 7) // 8
    return (
        bytes((number,))
        if width == 0
        else bytes((256 - 112 - width,)) + number.to_bytes(width, "big")
    )


def text(string: str) -> bytes:
    """Return a string as Hadoop's ``Text.writeString`` writes it."""
    return vint(len(string.encode())) + string.encode()


def bytes_writables(values: pa.BinaryArray) -> pa.BinaryArray:
    """Return each value as a BytesWritable: its length in four bytes, then its bytes."""
    return pc.binary_join_element_wise(
        int32s(pc.binary_length(values).to_numpy().astype(np.int64)), values, b""
    )


@dataclass(frozen=True, slots=True)
class Written:
    """A column of Writables as a block of a SequenceFile has it.

    Attributes:
        lengths: the length of each, as ``writeVInt`` writes it.
        contents: the Writables, back to back.
    """

    lengths: Bytes
    contents: Bytes


def offsets_written(records: Records) -> Written:
    """Return the offsets as LongWritables."""
    return Written(bytes((8,)) * len(records), records.offsets.astype(">i8").tobytes())


def messagepack_keys_written(records: Records) -> Written:
    """Return ``messagepack_keys`` as BytesWritables."""
    if module := hot_path().module:
        (keys,) = native_columns([(records.keys, None)])
        lengths, contents = module.messagepack_keys(records.offsets, records.timestamps, keys)
        return Written(memoryview(lengths), memoryview(contents))
    return _written(bytes_writables(messagepack_keys(records)))


def values_written(records: Records) -> Written:
    """Return the payloads as BytesWritables; a tombstone is like an empty payload."""
    if module := hot_path().module:
        lengths, contents = module.bytes_writables(native_columns(records.selected))
        return Written(memoryview(lengths), memoryview(contents))
    return _written(values_as_writables(records))


def values_as_writables(records: Records) -> pa.BinaryArray:
    """Return the payloads as a column of BytesWritables; a tombstone is like an empty payload."""
    values = records.values
    return bytes_writables(values.fill_null(b"") if values.null_count else values)


def _written(column: pa.BinaryArray) -> Written:
    lengths = vints(pc.binary_length(column).to_numpy().astype(np.int64))
    return Written(payload_bytes(lengths), payload_bytes(column))


def messagepack_ints(numbers: Int64s, *before: UInt8s | int) -> pa.BinaryArray:
    """Return the bytes ``before`` and each number as the smallest MessagePack integer for it."""
    limits = (-(2**31), -(2**15), -(2**7), -(2**5), 2**7, 2**8, 2**16, 2**32)
    places = np.searchsorted(np.array(limits, np.int64), numbers, side="right")
    widths = np.array((8, 4, 2, 1, 0, 1, 2, 4, 8), np.uint8)[places]
    leads = np.array((0xD3, 0xD2, 0xD1, 0xD0, 0, 0xCC, 0xCD, 0xCE, 0xCF), np.uint8)[places]
    # Width 0: the number is its own lead byte (MessagePack's positive and negative fixint).
    leads = np.where(widths == 0, numbers, leads).astype(np.uint8)
    return with_leads(numbers, widths, *before, leads)


def messagepack_bin_headers(lengths: Int64s, *before: UInt8s | int) -> pa.BinaryArray:
    """Return the bytes ``before`` and the MessagePack header of a bin value of each length."""
    widths = _widths(lengths, (2**8, 2**16), (1, 2, 4))
    leads = np.array((0, 0xC4, 0xC5, 0, 0xC6), np.uint8)[widths]
    return with_leads(lengths, widths, *before, leads)


def messagepack_keys(records: Records) -> pa.BinaryArray:
    """Return Secor's MessagePack key of each record.

    It is a map of 1: the offset; 3: the Kafka timestamp, if the record has one; and 2: the Kafka
    key, if it is not empty.
    """
    lengths = pc.binary_length(records.keys).fill_null(0).to_numpy().astype(np.int64)
    keyed, timed = lengths > 0, records.timestamps != NO_TIMESTAMP
    heads = FIXMAP + 1 + keyed.astype(np.uint8) + timed.astype(np.uint8)
    parts = [messagepack_ints(records.offsets, heads, OFFSET)]
    if timed.any():
        parts.append(_where(timed, messagepack_ints(records.timestamps, TIMESTAMP)))
    if keyed.any():
        keys = records.keys.fill_null(b"") if records.keys.null_count else records.keys
        parts += [_where(keyed, messagepack_bin_headers(lengths, KEY)), keys]
    return pc.binary_join_element_wise(*parts, b"")


def _where(rows: npt.NDArray[np.bool_], values: pa.BinaryArray) -> pa.BinaryArray:
    """Return the values in these rows, and empty values elsewhere."""
    return values if rows.all() else pc.if_else(pa.array(rows), values, b"")
