"""Compression that keeps nothing between two blocks.

A task holds thousands of objects open, and a deflate compressor weighs hundreds of kilobytes: so
every block gets a fresh one, and what an open object keeps is a checksum and a length. The files
are ordinary all the same:

``Gzip``  one single gzip member (some readers stop after the first): header; each block as raw deflate ended by a sync
          flush, which aligns it to a byte without marking it final; at the end an empty final deflate block, CRC-32 and
          length. A block never refers back into the one before. ISA-L at level 2: ten times zlib's speed, files 7 % larger.
          Header without name and time.
``Zstd``  a frame per block with its content size and checksum, level 3. A zstd file is any number of frames.
``None``  the bytes as they are.

The same blocks always give the same bytes, on the same kind of CPU: ISA-L picks its match finder by
instruction set.

Reading is strict: data that ends early or does not match its checksum is an error, never a shorter
result. Gzip of any number of members and zstd of any number of frames are read, by whoever they
were written.
"""

import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import BinaryIO, Protocol

import zstandard
from isal import isal_zlib

from landfall.api.spec import Codec

Bytes = bytes | memoryview

_ISAL_LEVEL = 2
_ZSTD_LEVEL = 3
_RAW, _ZLIB, _GZIP = -15, 15, 31
"""zlib's window bits: bare deflate, with zlib's wrapping, with gzip's."""
_READ_BYTES = 64 * 1024
_GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_EMPTY_FINAL_BLOCK = b"\x03\x00"
_DAMAGED: tuple[type[Exception], ...] = (isal_zlib.error, zstandard.ZstdError)  # type: ignore[assignment]  # isal's stubs call the class an instance


class Compressor(Protocol):
    """Compresses one object, a block at a time."""

    def compress(self, block: Bytes) -> bytes:
        """All of this block, compressed."""
        ...

    def finish(self) -> bytes:
        """What the object ends with. The compressor is not used again."""
        ...


class Decompressor(Protocol):
    """Reads one gzip member or one zstd frame."""

    @property
    def eof(self) -> bool:
        """Whether its end was seen."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What came after its end."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """What these bytes hold."""
        ...


class PlainCompressor:
    """No compression."""

    def compress(self, block: Bytes) -> bytes:
        """The block itself."""
        return bytes(block)

    def finish(self) -> bytes:
        """Nothing."""
        return b""


class GzipCompressor:
    """One gzip member, whose blocks know nothing of each other."""

    def __init__(self) -> None:
        self._crc32 = 0
        self._length = 0
        self._header = _GZIP_HEADER

    def compress(self, block: Bytes) -> bytes:
        """The block as raw deflate, aligned to a byte and not final; the header before the first."""
        self._crc32 = isal_zlib.crc32(block, self._crc32)
        self._length += len(block)
        header, self._header = self._header, b""
        fresh = isal_zlib.compressobj(_ISAL_LEVEL, isal_zlib.DEFLATED, _RAW)
        return b"".join((header, fresh.compress(block), fresh.flush(isal_zlib.Z_SYNC_FLUSH)))

    def finish(self) -> bytes:
        """The final block and the trailer."""
        return (
            self._header
            + _EMPTY_FINAL_BLOCK
            + struct.pack("<II", self._crc32, self._length & 0xFFFFFFFF)
        )


class _Zstd(threading.local):
    """One compression context for each thread: making one costs a tenth of compressing a block."""

    def __init__(self) -> None:
        self.context = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_checksum=True)


_zstd = _Zstd()


class ZstdCompressor:
    """A frame per block."""

    def __init__(self) -> None:
        self._empty = True

    def compress(self, block: Bytes) -> bytes:
        """The block as a frame."""
        self._empty = False
        return _zstd.context.compress(block)

    def finish(self) -> bytes:
        """An empty frame if there was no block, so that the object is a zstd file at all."""
        return _zstd.context.compress(b"") if self._empty else b""


@dataclass(frozen=True, slots=True)
class StreamCodec:
    """How a whole object is compressed: its name's ending, and how to begin either way."""

    ending: str
    compressor: Callable[[], Compressor]
    decompressor: Callable[[], Decompressor] | None


STREAMS: Mapping[Codec, StreamCodec] = MappingProxyType(
    {
        Codec.NONE: StreamCodec("", PlainCompressor, None),
        Codec.GZIP: StreamCodec(".gz", GzipCompressor, lambda: isal_zlib.decompressobj(_GZIP)),
        Codec.ZSTD: StreamCodec(
            ".zst", ZstdCompressor, lambda: zstandard.ZstdDecompressor().decompressobj()
        ),
    }
)


def deflated(block: Bytes) -> bytes:
    """The block as a complete zlib stream."""
    return _whole(block, _ZLIB)


def gzipped(block: Bytes) -> bytes:
    """The block as a complete gzip member."""
    return _whole(block, _GZIP)


def _whole(block: Bytes, window_bits: int) -> bytes:
    fresh = isal_zlib.compressobj(_ISAL_LEVEL, isal_zlib.DEFLATED, window_bits)
    return bytes(fresh.compress(block) + fresh.flush())


def inflated(data: Bytes) -> bytes:
    """What one complete zlib stream holds.

    Raises:
        ValueError: it is damaged, ends early, or something follows it.
    """
    return _opened(data, _ZLIB)


def gunzipped(data: Bytes) -> bytes:
    """What one complete gzip member holds.

    Raises:
        ValueError: it is damaged, ends early, or something follows it.
    """
    return _opened(data, _GZIP)


def _opened(data: Bytes, window_bits: int) -> bytes:
    reader = isal_zlib.decompressobj(window_bits)
    try:
        opened = bytes(reader.decompress(data))
    except _DAMAGED as error:
        raise ValueError(f"damaged compressed data: {error}") from error
    if not reader.eof or reader.unused_data:
        raise ValueError(
            f"{len(data)} bytes of compressed data {'hold too much' if reader.eof else 'end early'}"
        )
    return opened


def decompressed(codec: Codec, stream: BinaryIO) -> Iterator[bytes]:
    """The object's bytes, in pieces; an object of no bytes gives none.

    Raises:
        ValueError: the compressed data is damaged or ends early; the message says near which of its
            bytes.
    """
    pieces = iter(lambda: stream.read(_READ_BYTES), b"")
    begin = STREAMS[codec].decompressor
    return pieces if begin is None else _expanded(codec, begin, pieces)


def _expanded(
    codec: Codec, begin: Callable[[], Decompressor], pieces: Iterator[bytes]
) -> Iterator[bytes]:
    position = 0
    reader: Decompressor | None = None
    for piece in pieces:
        position += len(piece)
        left = piece
        while left:
            reader = reader or begin()
            try:
                opened = reader.decompress(left)
            except _DAMAGED as error:
                raise ValueError(f"damaged {codec} data before byte {position}: {error}") from error
            yield opened
            left, reader = (reader.unused_data, None) if reader.eof else (b"", reader)
    if reader is not None:
        raise ValueError(f"{codec} data ends early, at byte {position}")
