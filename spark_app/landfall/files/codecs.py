"""Decompresses blocks of Avro and SequenceFile, with a limit on what a few bytes may grow to."""

import bz2
import lzma
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa
from isal import isal_zlib

Decompress = Callable[[bytes, int], bytes]
"""Makes the contents of complete compressed data of at most so many bytes.

Raises:
    ValueError: the data is damaged, ends early, is followed by other bytes, or holds more.
"""

_RAW, _ZLIB, _GZIP = -15, 15, 31
"""zlib's parameter ``wbits`` for a raw deflate stream, a zlib stream and a gzip member."""
_DAMAGED: tuple[type[Exception], ...] = (isal_zlib.error, OSError, EOFError, lzma.LZMAError)  # type: ignore[assignment]  # isal's stubs call the class an instance  # fmt: skip
_MAX_SHIFT = 28


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _of_stream(
    new: Callable[[], _Decompressor], data: bytes, limit: int, *, spare: int = 0
) -> bytes:
    """Return the contents of one stream, behind which there are at most ``spare`` bytes."""
    decompressor = new()
    try:
        contents = bytes(decompressor.decompress(data, limit + 1))
    except _DAMAGED as error:
        raise ValueError(f"damaged compressed data: {error}") from error
    _check_size(len(contents), limit)
    if not decompressor.eof:
        raise ValueError("compressed data ends early")
    if len(decompressor.unused_data) > spare:
        raise ValueError(f"{len(decompressor.unused_data)} bytes behind compressed data")
    return contents


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise ValueError(f"compressed data of more than {limit} bytes")


def _unzstd(data: bytes, limit: int) -> bytes:
    try:
        contents = bytes(pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(limit + 1))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"damaged compressed data: {error}") from error
    _check_size(len(contents), limit)
    return contents


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
    for place, byte in enumerate(data[: _MAX_SHIFT // 7 + 1]):
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
    at, total, missing = 0, 0, 0
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
        # fastavro leaves three of the four bytes of zlib's checksum behind the stream.
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
