"""The blocks of Avro object container files, and the numbers in them, in plain Python.

Source: Apache Avro 1.12 specification, "Binary Encoding", "Object Container Files".
"""

import bz2
import lzma
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
import zstandard

from landfall_audit.memory_limit import bounded

SYNC_BYTES = 16


@dataclass(frozen=True)
class AvroFileHeader:
    """The header of a file, without the sync marker after it."""

    metadata: Mapping[str, bytes]

    @property
    def schema(self) -> bytes:
        """The schema of the records, as JSON."""
        return self.metadata["avro.schema"]

    def contents(self, data: bytes) -> bytes:
        """The contents of a block, decompressed."""
        return _plain(self.metadata.get("avro.codec", b"null"), data)


def read_header(stream: BinaryIO) -> AvroFileHeader:
    """Read up to the sync marker that ends the header.

    Raises:
        ValueError: the file is no object container file.
    """
    if stream.read(4) != b"Obj\x01":
        raise ValueError("not an Avro object container file")
    return AvroFileHeader(_metadata(stream))


def read_block(stream: BinaryIO, header: AvroFileHeader, sync: bytes) -> tuple[int, bytes] | None:
    """Read a block and the sync marker after it: number of records, and bytes; None at the end.

    Raises:
        ValueError: the file is damaged.
    """
    count = _long(stream, at_end=True)
    if count is None:
        return None
    packed = exactly(stream, _length(stream))
    with bounded():
        content = header.contents(packed)
    if exactly(stream, SYNC_BYTES) != sync:
        raise ValueError("another sync marker")
    return count, content


def _metadata(stream: BinaryIO) -> Mapping[str, bytes]:
    found = {}
    while count := _long(stream):
        if count < 0:
            _length(stream)  # the size of the block, for readers that skip it
        for _ in range(abs(count)):
            name = exactly(stream, _length(stream)).decode()
            found[name] = exactly(stream, _length(stream))
    return found


def exactly(stream: BinaryIO, size: int) -> bytes:
    """So many bytes; ValueError if the file has fewer."""
    taken = stream.read(size)
    while len(taken) < size:
        more = stream.read(size - len(taken))
        if not more:
            raise ValueError("the file ends early")
        taken += more
    return taken


def _length(stream: BinaryIO) -> int:
    number = _long(stream)
    if number is None or number < 0:
        raise ValueError(f"a length of {number}")
    return number


def _long(stream: BinaryIO, *, at_end: bool = False) -> int | None:
    value = shift = 0
    while True:
        byte = stream.read(1)
        if not byte:
            if at_end and not shift:
                return None
            raise ValueError("the file ends early")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def unzstd(data: bytes) -> bytes:
    """The contents of any number of frames of zstd."""
    stream = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    return stream.readall()


def _plain(codec: bytes, data: bytes) -> bytes:
    match codec:
        case b"deflate":
            return zlib.decompress(data, -15)
        case b"zstandard":
            return unzstd(data)
        case b"bzip2":
            return bz2.decompress(data)
        case b"xz":
            return lzma.decompress(data)
        case b"snappy":
            plain = pa.decompress(
                data[:-4], number(data, 0, signed=False)[0], "snappy"
            ).to_pybytes()
            if struct.pack(">I", zlib.crc32(plain)) != data[-4:]:
                raise ValueError("another checksum")
            return bytes(plain)
        case b"null":
            return data
    raise ValueError(f"codec {codec!r}")


def number(data: bytes, at: int, *, signed: bool = True) -> tuple[int, int]:
    """The variable-length number at a position, and the position after it."""
    value = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("a record ends inside a number")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return ((value >> 1) ^ -(value & 1) if signed else value), at
        shift += 7
