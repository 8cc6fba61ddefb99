"""All codecs: compression that keeps no compressor between blocks, and decompression with limits.

A task keeps thousands of objects open, and a deflate compressor takes hundreds of kilobytes. So
every block gets a fresh compressor, and an open object keeps only a checksum and a length. The
files are ordinary nevertheless:

``Gzip``
    A single gzip member, because some readers stop after the first. It consists of a header without
    name and time; each block as raw deflate that ends with a sync flush, which aligns it to a byte
    without marking it final; and at the end an empty final deflate block, the CRC-32 and the
    length. A block never refers back to the one before. ISA-L at level 2 is ten times as fast as
    zlib, and its files are 7 % larger.
``Zstd``
    A frame per block, with its content size and checksum, at level 3. A zstd file may consist of
    any number of frames.
``None``
    The bytes as they are.

The same blocks give the same bytes on the same kind of CPU, whose instruction set decides how ISA-L
looks for matches. On one machine an object of a hundred runs was two bytes longer, with the same
rows; on another 400,000 blocks were equal each time. Nothing relies on equal compressed bytes.

Reading is strict: data that ends early or does not match its checksum is an error, never a shorter
result. Files with any number of gzip members or zstd frames can be read, from any writer. What
a few bytes grow to is bounded: objects are decompressed some at a time (``decompress``), blocks of
Avro and SequenceFile up to a limit (``AVRO``, ``HADOOP``). ``streams`` decompresses whole files.
"""

import bz2
import lzma
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import BinaryIO, Protocol

import pyarrow as pa
import zstandard
from isal import isal_zlib

from landfall.api.spec import Codec

Bytes = bytes | memoryview

LEVELS: Mapping[Codec, range] = MappingProxyType(
    {Codec.GZIP: range(1, 4), Codec.DEFLATE: range(1, 4), Codec.ZSTD: range(1, 20)}
)
"""The levels that each codec has, of ISA-L and of zstd."""
_ISAL_LEVEL = 2
_ZSTD_LEVEL = 3
_RAW = -15
_ZLIB = 15
_GZIP = 31
"""zlib's parameter ``wbits`` for a raw deflate stream, a zlib stream and a gzip member."""
_READ_BYTES = 64 * 1024
"""How much of an object is read at once: of gzip it becomes 66 MB at most."""
_UNZSTD_BYTES = 256 * 1024
"""What is decompressed of zstd at once."""
_FRAME_BYTES = 1024
"""How much of a zstd frame is decompressed at once: it becomes 32 MiB at most."""
_SIZE_BYTES = 5
"""The most bytes that the size of snappy's contents has."""
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_EMPTY_FINAL_BLOCK = b"\x03\x00"
_DAMAGED: tuple[type[Exception], ...] = (
    isal_zlib.error,  # type: ignore[assignment]  # isal's stubs call the class an instance
    zstandard.ZstdError,
    lzma.LZMAError,
    OSError,
    EOFError,
)
_OTHER_GZIP = "Gzip data that is not one member, as Landfall writes it"


class Compressor(Protocol):
    """Compresses one object, a block at a time."""

    def compress(self, block: Bytes) -> bytes:
        """Return all of this block, compressed."""
        ...

    def finish(self) -> bytes:
        """Return the last bytes of the object. The compressor is not used again."""
        ...


class CopyingCompressor(Compressor, Protocol):
    """Takes blocks of other objects as they are, too."""

    def copied(self, compressed: bytes, contents: Bytes) -> bytes:
        """Return what ``compress`` returned for these contents, taken from another object."""
        ...


class Decompressor(Protocol):
    """Reads one gzip member or one zstd frame."""

    @property
    def eof(self) -> bool:
        """Return whether the end of the member or frame has been read."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The bytes after its end."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """Return the decompressed bytes."""
        ...


class LimitedDecompressor(Protocol):
    """Reads one stream, and makes no more of it than is asked for."""

    @property
    def eof(self) -> bool:
        """Return whether the end of the stream has been read."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The bytes after its end."""
        ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes:
        """Return the decompressed bytes, at most so many."""
        ...


class PlainCompressor:
    """Does not compress."""

    def __init__(self, level: int | None = None) -> None:
        """``level`` is None, as there are no levels."""

    def compress(self, block: Bytes) -> bytes:
        """Return the block itself."""
        return bytes(block)

    def copied(self, compressed: bytes, contents: Bytes) -> bytes:  # noqa: ARG002  # of the protocol
        """Return the bytes as they are."""
        return compressed

    def finish(self) -> bytes:
        """Return nothing."""
        return b""


class GzipCompressor:
    """Writes one gzip member whose blocks are compressed independently of each other."""

    def __init__(self, level: int | None = None) -> None:
        self._level = level or _ISAL_LEVEL
        self._crc32 = 0
        self._length = 0
        self._header = _GZIP_HEADER

    def compress(self, block: Bytes) -> bytes:
        """Return the block as raw deflate, aligned to a byte and not final; first the header."""
        fresh = isal_zlib.compressobj(self._level, isal_zlib.DEFLATED, _RAW)
        compressed = fresh.compress(block) + fresh.flush(isal_zlib.Z_SYNC_FLUSH)
        return self.copied(compressed, block)

    def copied(self, compressed: bytes, contents: Bytes) -> bytes:
        """Return raw deflate that is not final as it is; before the first the header.

        Whole blocks come together, but any bytes of them may come in one call, and any of their
        contents.
        """
        self._crc32 = isal_zlib.crc32(contents, self._crc32)
        self._length += len(contents)
        header = self._header
        self._header = b""
        return header + compressed

    def finish(self) -> bytes:
        """Return the final block and the trailer."""
        return (
            self._header
            + _EMPTY_FINAL_BLOCK
            + struct.pack("<II", self._crc32, self._length & 0xFFFFFFFF)
        )


class _Zstd(threading.local):
    """A context per level and thread: creating one costs a tenth of compressing a block."""

    def __init__(self) -> None:
        self._contexts: dict[int, zstandard.ZstdCompressor] = {}

    def compress(self, block: Bytes, level: int | None) -> bytes:
        level = level or _ZSTD_LEVEL
        if level not in self._contexts:
            self._contexts[level] = zstandard.ZstdCompressor(level=level, write_checksum=True)
        return self._contexts[level].compress(block)


_zstd = _Zstd()


class ZstdCompressor:
    """Writes a frame per block."""

    def __init__(self, level: int | None = None) -> None:
        self._level = level
        self._empty = True

    def compress(self, block: Bytes) -> bytes:
        """Return the block as a frame."""
        return self.copied(_zstd.compress(block, self._level), block)

    def copied(self, compressed: bytes, contents: Bytes) -> bytes:  # noqa: ARG002  # of the protocol
        """Return frames as they are."""
        self._empty = False
        return compressed

    def finish(self) -> bytes:
        """Return an empty frame if there was no block, because 0 bytes are not a zstd file."""
        return _zstd.compress(b"", self._level) if self._empty else b""


@dataclass(frozen=True, slots=True)
class StreamCodec:
    """How whole objects are compressed.

    Attributes:
        extension: what the file name ends with, such as ``.gz``.
        compressor: makes a compressor for a new object, with a level or None for the default.
        decompressor: makes a decompressor for one member or frame; None if nothing is compressed.
        read_bytes: how many bytes of an object are decompressed at once.
    """

    extension: str
    compressor: Callable[[int | None], CopyingCompressor]
    decompressor: Callable[[], Decompressor] | None = None
    read_bytes: int = _READ_BYTES


def _zstandard_frame() -> Decompressor:
    return zstandard.ZstdDecompressor().decompressobj()


STREAMS: Mapping[Codec, StreamCodec] = MappingProxyType(
    {
        Codec.NONE: StreamCodec("", PlainCompressor),
        Codec.GZIP: StreamCodec(".gz", GzipCompressor, lambda: isal_zlib.decompressobj(_GZIP)),
        Codec.ZSTD: StreamCodec(".zst", ZstdCompressor, _zstandard_frame, _FRAME_BYTES),
    }
)


def deflate(block: Bytes, level: int | None = None) -> bytes:
    """Return the block as a complete zlib stream."""
    return _compress(block, _ZLIB, level)


def gzip(block: Bytes, level: int | None = None) -> bytes:
    """Return the block as a complete gzip member."""
    return _compress(block, _GZIP, level)


def _compress(block: Bytes, window_bits: int, level: int | None) -> bytes:
    fresh = isal_zlib.compressobj(level or _ISAL_LEVEL, isal_zlib.DEFLATED, window_bits)
    return bytes(fresh.compress(block) + fresh.flush())


def raw_deflate(block: Bytes, level: int | None = None) -> bytes:
    """Return the block as a complete raw deflate stream, without header and checksum."""
    return _compress(block, _RAW, level)


def zstd(block: Bytes, level: int | None = None) -> bytes:
    """Return the block as a complete zstd frame."""
    return _zstd.compress(block, level)


def decompress(codec: Codec, stream: BinaryIO) -> Iterator[bytes]:
    """Return the contents of an object in chunks; an object of 0 bytes has none.

    Raises:
        ValueError: the compressed data is damaged or ends early; the message names
            the byte before which it is.
    """
    chunks = iter(lambda: stream.read(_READ_BYTES), b"")
    return chunks if STREAMS[codec].decompressor is None else _decompress_chunks(codec, chunks)


def copied_gzip(compressor: GzipCompressor, stream: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Copy an object of ``GzipCompressor`` into another one; nothing is compressed again.

    Since blocks end at a byte and refer to none before, the blocks of several objects make one
    member: without the header of each, its empty final block and its trailer.

    Yields:
        The next bytes of the other object, and the next contents of the one that is copied.

    Raises:
        ValueError: the object is damaged, ends early, or another writer made it.
    """
    member = isal_zlib.decompressobj(_GZIP)
    held = b""
    end = len(_EMPTY_FINAL_BLOCK) + 8
    unread = len(_GZIP_HEADER)
    for chunk in iter(lambda: stream.read(_READ_BYTES), b""):
        if member.eof:
            raise ValueError(_OTHER_GZIP)
        try:
            contents = bytes(member.decompress(chunk))
        except _DAMAGED as error:
            raise ValueError(f"damaged Gzip data: {error}") from error
        held += chunk
        if unread and len(held) >= unread:
            if not held.startswith(_GZIP_HEADER):
                raise ValueError(_OTHER_GZIP)
            held, unread = held[unread:], 0
        ready, held = (b"", held) if unread else (held[:-end], held[-end:])
        yield compressor.copied(ready, contents) if ready or contents else b"", contents
    if not member.eof:
        raise ValueError("Gzip data ends early")
    if len(held) != end or not held.startswith(_EMPTY_FINAL_BLOCK) or member.unused_data:
        raise ValueError(_OTHER_GZIP)


def _decompress_chunks(codec: Codec, chunks: Iterator[bytes]) -> Iterator[bytes]:
    new_decompressor, size = STREAMS[codec].decompressor, STREAMS[codec].read_bytes
    assert new_decompressor is not None, "only of compressed objects"
    position = 0
    current: Decompressor | None = None
    for chunk in chunks:
        position += len(chunk)
        for start in range(0, len(chunk), size):
            unread = chunk[start : start + size]
            # It may hold the end of one member or frame, whole ones, and the start of another.
            while unread:
                current = current or new_decompressor()
                try:
                    contents = current.decompress(unread)
                except _DAMAGED as error:
                    raise ValueError(
                        f"damaged {codec} data before byte {position}: {error}"
                    ) from error
                yield contents
                unread, current = (current.unused_data, None) if current.eof else (b"", current)
    if current is not None:
        raise ValueError(f"{codec} data ends early, at byte {position}")


Decompress = Callable[[bytes, int], bytes]
"""Makes the contents of complete compressed data of at most so many bytes.

Raises:
    ValueError: the data is damaged, ends early, is followed by other bytes, or holds more.
"""


def _of_stream(
    new: Callable[[], LimitedDecompressor], data: bytes, limit: int, *, spare: int = 0
) -> bytes:
    """Return the contents of one stream, after which there are at most ``spare`` bytes."""
    decompressor = new()
    try:
        contents = bytes(decompressor.decompress(data, limit + 1))
    except _DAMAGED as error:
        raise ValueError(f"damaged compressed data: {error}") from error
    _check_size(len(contents), limit)
    if not decompressor.eof:
        raise ValueError("compressed data ends early")
    if len(decompressor.unused_data) > spare:
        raise ValueError(f"{len(decompressor.unused_data)} bytes after compressed data")
    return contents


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise ValueError(f"compressed data of more than {limit} bytes")


def _unzstd(data: bytes, limit: int) -> bytes:
    stream = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
    parts: list[bytes] = []
    size = 0
    try:
        # Arrow allocates what it is asked for: never the limit, as little of it may be needed.
        while part := bytes(stream.read(_UNZSTD_BYTES)):
            parts.append(part)
            size += len(part)
            _check_size(size, limit)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"damaged compressed data: {error}") from error
    return b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    """Snappy's raw format (format_description.txt), which begins with the size of the contents."""
    size = _snappy_size(data)
    _check_size(size, limit)
    try:
        return bytes(pa.decompress(data, size, "snappy", asbytes=True))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"damaged snappy data: {error}") from error


def _snappy_size(data: bytes) -> int:
    size = 0
    for place, byte in enumerate(data[:_SIZE_BYTES]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return size
    raise ValueError("damaged snappy data: no size")


def _unsnappy_of_avro(data: bytes, limit: int) -> bytes:
    """Raw snappy, followed by the CRC-32 of the contents (Avro 1.12, "snappy")."""
    contents = _unsnappy(data[:-4], limit)
    if isal_zlib.crc32(contents) != int.from_bytes(data[-4:], "big"):
        raise ValueError("damaged snappy data: another checksum")
    return contents


def _unsnappy_of_hadoop(data: bytes, limit: int) -> bytes:
    """Blocks, each of one or several chunks of raw snappy (Hadoop's ``BlockDecompressorStream``).

    A block begins with the size of its contents, a chunk with its own size; both have four bytes.
    """
    return b"".join(_chunks_of_hadoop(data, limit))


def _chunks_of_hadoop(data: bytes, limit: int) -> Iterator[bytes]:
    at = 0
    total = 0
    missing = 0
    while at < len(data) or missing:
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if at > len(data):
            raise ValueError("compressed data ends early")
        if not missing:
            missing, total = size, total + size
            _check_size(total, limit)
            continue
        chunk = _unsnappy(data[at : at + size], missing)
        at += size
        missing -= len(chunk)
        yield chunk


def _deflate(window_bits: int) -> Decompress:
    return partial(_of_stream, partial(isal_zlib.decompressobj, window_bits))


def _as_it_is(data: bytes, limit: int) -> bytes:
    _check_size(len(data), limit)
    return data


AVRO: Mapping[str, Decompress] = MappingProxyType(
    {
        "null": _as_it_is,
        # fastavro leaves three of the four bytes of zlib's checksum after the stream.
        "deflate": partial(_of_stream, partial(isal_zlib.decompressobj, _RAW), spare=3),
        "bzip2": partial(_of_stream, bz2.BZ2Decompressor),
        "xz": partial(_of_stream, lzma.LZMADecompressor),
        "snappy": _unsnappy_of_avro,
        "zstandard": _unzstd,
    }
)
"""By the codecs of Avro's specification."""
_HADOOP = "org.apache.hadoop.io.compress."
HADOOP: Mapping[str, Decompress] = MappingProxyType(
    {
        f"{_HADOOP}DefaultCodec": _deflate(_ZLIB),
        f"{_HADOOP}DeflateCodec": _deflate(_ZLIB),
        f"{_HADOOP}GzipCodec": _deflate(_GZIP),
        f"{_HADOOP}BZip2Codec": partial(_of_stream, bz2.BZ2Decompressor),
        f"{_HADOOP}ZStandardCodec": _unzstd,
        f"{_HADOOP}SnappyCodec": _unsnappy_of_hadoop,
    }
)
"""By the classes of Hadoop's codecs."""
