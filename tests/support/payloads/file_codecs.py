"""Codecs of Avro files and SequenceFiles, by libraries that Landfall does not read them with."""

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping

import pyarrow as pa
import zstandard

Compress = Callable[[bytes], bytes]


def snappy(content: bytes) -> bytes:
    return bytes(pa.compress(content, "snappy", asbytes=True))


def snappy_of_hadoop(content: bytes) -> bytes:
    """Blocks of up to nine bytes, each of up to two chunks."""
    out = []
    for at in range(0, len(content), 9):
        block = content[at : at + 9]
        out.append(struct.pack(">i", len(block)))
        for part in filter(None, (block[:4], block[4:])):
            chunk = snappy(part)
            out.append(struct.pack(">i", len(chunk)) + chunk)
    return b"".join(out)


HADOOP: Mapping[str, Compress] = {
    "DefaultCodec": zlib.compress,
    "DeflateCodec": zlib.compress,
    "GzipCodec": gzip.compress,
    "BZip2Codec": bz2.compress,
    "ZStandardCodec": zstandard.ZstdCompressor().compress,
    "SnappyCodec": snappy_of_hadoop,
}
AVRO: Mapping[str, Compress] = {
    "deflate": lambda content: zlib.compress(content, wbits=-15),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "snappy": lambda content: snappy(content) + struct.pack(">I", zlib.crc32(content)),
    "zstandard": zstandard.ZstdCompressor().compress,
}
