"""Reads SequenceFiles back, strictly: counts, lengths and sync markers must agree.

Keys may be LongWritable (an offset) or BytesWritable (Secor's MessagePack map); values are
BytesWritable; every kind of compression is read, with DefaultCodec and GzipCodec. A damaged file
gives a ValueError with the byte position, never fewer rows.

Here each row is a Python object. ``sequencecolumns`` reads whole blocks as columns, and leaves what
is not regular to this module, so that errors are the same.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import BinaryIO

import msgpack

from landfall.formats import Row, codecs

Key = tuple[int | None, bytes | None, int | None]
"""Offset, Kafka key, Kafka timestamp."""

_VERSION = b"SEQ\x06"
LONG_WRITABLE = "org.apache.hadoop.io.LongWritable"
BYTES_WRITABLE = "org.apache.hadoop.io.BytesWritable"
_KEYS = (LONG_WRITABLE, BYTES_WRITABLE)
_SYNC_ESCAPE = -1
_SYNC_BYTES = 16
_READ_BYTES = 1 << 20
_DECOMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {
        "org.apache.hadoop.io.compress.DefaultCodec": codecs.inflate,
        "org.apache.hadoop.io.compress.GzipCodec": codecs.gunzip,
    }
)


class Source:
    """The bytes of the file in order.

    Attributes:
        position: after the bytes read so far.
        start: where the record or block begins that is being read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        """Read nothing yet."""
        self._stream = stream
        self.position = self.start = 0

    def take(self, count: int) -> bytes:
        """Return exactly this many bytes."""
        taken = self._up_to(count)
        self._check_complete(taken, count)
        return taken

    def _check_complete(self, taken: bytes, count: int) -> None:
        missing = count - len(taken)
        if missing:
            plural = "bytes are" if missing > 1 else "byte is"
            raise ValueError(f"the file ends early: {missing} {plural} missing at {self.position}")

    def _up_to(self, count: int) -> bytes:
        if count < 0:
            raise ValueError(f"a length of {count} before byte {self.position}")
        chunks, remaining = [], count
        # Read in chunks, so that memory is never allocated for a damaged length.
        while remaining and (chunk := self._stream.read(min(remaining, _READ_BYTES))):
            chunks.append(chunk)
            remaining -= len(chunk)
        self.position += count - remaining
        return b"".join(chunks)

    def int32(self) -> int:
        """Return a number of four bytes."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def next_length(self) -> int | None:
        """Return the number that a record or block begins with, or None if the file ends here."""
        self.start = self.position
        return self.int32_or_end()

    def int32_or_end(self) -> int | None:
        """Return a number, or None if the file ends here."""
        taken = self._up_to(4)
        if not taken:
            return None
        self._check_complete(taken, 4)
        return int.from_bytes(taken, "big", signed=True)

    def vint(self) -> int:
        """Return a number that is not negative, of as many bytes as its first one says."""
        first = self.take(1)
        return _vints(first + self.take(_vint_width(first[0])))[0]

    def text(self) -> str:
        """Return a text with its length before it."""
        return self.take(self.vint()).decode()


@dataclass(frozen=True, slots=True)
class Header:
    """How the rest of the file must be read.

    Attributes:
        packed: whether keys are MessagePack maps; else they are offsets.
        decompress: decompresses a value, or the parts of a block; does nothing without compression.
        blocks: whether the file consists of blocks, not of records.
        sync: the sync marker.
    """

    packed: bool
    decompress: Callable[[bytes], bytes]
    blocks: bool
    sync: bytes


def rows(stream: BinaryIO) -> Iterator[Row]:
    """Return every record, in order.

    Raises:
        ValueError: this is not a SequenceFile that Landfall or Secor writes, or it is damaged; the
            message says where.
    """
    source = Source(stream)
    with damage_located(source):
        header = read_header(source)
        while (length := source.next_length()) is not None:
            yield from read_rows(source, header, length)


@contextmanager
def damage_located(source: Source) -> Iterator[None]:
    """Errors in here say in which record or block they are, as ValueErrors."""
    try:
        yield
    except (ValueError, struct.error) as error:
        raise ValueError(
            f"damaged SequenceFile, in the record or block that starts at byte {source.start}: "
            f"{error}"
        ) from error


def read_header(source: Source) -> Header:
    """Read what a file begins with; ValueError if it is not as Landfall or Secor write it."""
    if (version := source.take(4)) != _VERSION:
        raise ValueError(f"starts with {version!r}, not {_VERSION!r}")
    key, value = source.text(), source.text()
    if key not in _KEYS or value != BYTES_WRITABLE:
        raise ValueError(
            f"keys of {key} and values of {value}, not {' or '.join(_KEYS)} and BytesWritable"
        )
    compressed, blocks = source.take(2)
    codec = source.text() if compressed else ""
    if compressed and codec not in _DECOMPRESSORS:
        raise ValueError(f"codec {codec}, not {' or '.join(_DECOMPRESSORS)}")
    for _ in range(2 * source.int32()):  # the metadata, pairs of name and value
        source.text()
    decompress = _DECOMPRESSORS[codec] if compressed else bytes
    return Header(key == BYTES_WRITABLE, decompress, bool(blocks), source.take(_SYNC_BYTES))


def check_sync(source: Source, header: Header) -> None:
    """Read a sync marker; ValueError if it is another one."""
    if source.take(_SYNC_BYTES) != header.sync:
        raise ValueError(f"no sync marker before byte {source.position}")


def read_rows(source: Source, header: Header, length: int) -> Iterator[Row]:
    """Read a block, a record or a sync marker that begins with this number; see ``rows``."""
    if not header.blocks:
        yield from _record(source, header, length)
        return
    count = begin_block(source, header, length)
    yield from rows_of_block(header, count, tuple(read_part(source, header) for _ in range(4)))


def begin_block(source: Source, header: Header, escape: int) -> int:
    """Read what a block begins with; the number of its records. Four parts follow."""
    if escape != _SYNC_ESCAPE:
        raise ValueError(f"no sync marker before byte {source.position}")
    check_sync(source, header)
    return source.vint()


def read_part(source: Source, header: Header) -> bytes:
    """Read and decompress a part of a block."""
    return header.decompress(source.take(source.vint()))


def rows_of_block(header: Header, count: int, parts: Sequence[bytes]) -> Iterator[Row]:
    """The rows of a block.

    Args:
        header: of the file.
        count: how many rows the block says it has.
        parts: lengths of the keys, keys, lengths of the values, values.
    """
    keys, values = (_split(lengths, joined, count) for lengths, joined in (parts[:2], parts[2:]))
    for key, value in zip(keys, values, strict=True):
        yield _row(header, key, value)


def _split(lengths: bytes, joined: bytes, count: int) -> list[bytes]:
    """Split ``count`` values that are joined, by their lengths."""
    bounds = list(accumulate(_vints(lengths), initial=0))
    if len(bounds) != count + 1 or bounds[-1] != len(joined):
        raise ValueError(
            f"{len(bounds) - 1} lengths with a sum of {bounds[-1]} bytes,"
            f" for {count} records of {len(joined)} bytes"
        )
    return [joined[start:end] for start, end in pairwise(bounds)]


def _record(source: Source, header: Header, length: int) -> Iterator[Row]:
    """Read a record of ``length`` bytes, or the sync marker if that is the escape."""
    if length == _SYNC_ESCAPE:
        check_sync(source, header)
        return
    key_length = source.int32()
    if not 0 <= key_length <= length:
        raise ValueError(f"a key of {key_length} bytes in a record of {length} bytes")
    yield _row(header, source.take(key_length), header.decompress(source.take(length - key_length)))


def _row(header: Header, key: bytes, value: bytes) -> Row:
    parse = _messagepack_key if header.packed else _long_key
    offset, kafka_key, timestamp = parse(key)
    return Row(offset, _bytes_writable(value), kafka_key, timestamp)


def _bytes_writable(written: bytes) -> bytes:
    """Return the contents of a BytesWritable."""
    if len(written) < 4 or int.from_bytes(written[:4], "big") != len(written) - 4:
        raise ValueError(
            f"a BytesWritable of {len(written)} bytes that starts with {written[:4]!r}"
        )
    return written[4:]


def _long_key(written: bytes) -> Key:
    return struct.unpack(">q", written)[0], None, None


def _messagepack_key(written: bytes) -> Key:
    try:
        fields = msgpack.unpackb(_bytes_writable(written), strict_map_key=False)
    except TypeError as error:  # a field is numbered by what Python cannot hash
        raise ValueError(f"a key that cannot be read: {error}") from error
    if not isinstance(fields, dict) or not isinstance(fields.get(1), int):
        raise ValueError(f"a key without an offset: {fields!r}")  # noqa: TRY004  # damaged data
    return fields[1], fields.get(2), fields.get(3)


def _vint_width(first: int) -> int:
    """Return how many bytes follow the first of a vint that is not negative, as lengths are."""
    if first < 128:
        return 0
    if not 136 <= first <= 143:
        raise ValueError(f"a length that starts with byte {first}")
    return 144 - first


def _vints(written: bytes) -> list[int]:
    numbers, place, end = [], 0, len(written)
    while place < end:
        first = written[place]
        place += 1
        if first < 128:
            numbers.append(first)
            continue
        width = _vint_width(first)
        if place + width > end:
            raise ValueError(f"a length of {width} bytes is cut off")
        numbers.append(int.from_bytes(written[place : place + width], "big"))
        place += width
    return numbers
