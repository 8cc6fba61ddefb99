"""The codecs inside of Avro files and SequenceFiles: the auditor reads what the writer reads."""

import bz2
import gzip
import lzma
import struct
import zlib
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
import zstandard

from landfall.formats.readers import reader_of
from landfall_audit.readers import FileRow
from tests.support.audited_files import audited
from tests.support.file_records import PACKAGE, SYNC, MemoryFile, read_all, text

Compress = Callable[[bytes], bytes]
VALUES = [b'{"id":%d,"note":"%s"}' % (n, b"x" * n) for n in range(40)]


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


def number(value: int) -> bytes:
    """A zigzag varint of a number that is not negative."""
    value, digits = value << 1, []
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])


def sized(content: bytes) -> bytes:
    return number(len(content)) + content


def check(reader: str, content: bytes, values: list[bytes]) -> None:
    """Both readers find these payloads."""
    made, file = reader_of(reader, {}), MemoryFile("a", content)

    found = audited(reader, file, made.parts("a", len(content), 2**40))

    assert found == [FileRow(value) for value in values]
    assert [value for _, value, _, _ in read_all(made, file)] == values


@pytest.mark.parametrize("codec", HADOOP)
def test_values_of_a_sequence_file(codec: str) -> None:
    classes = text(f"{PACKAGE}NullWritable") + text(f"{PACKAGE}Text")
    codec_class = text(f"{PACKAGE}compress.{codec}")
    head = [b"SEQ\x06", classes, b"\x01\x00", codec_class, struct.pack(">i", 0), SYNC]
    packed = [HADOOP[codec](text(value)) for value in VALUES]

    content = b"".join([*head, *(struct.pack(">ii", len(each), 0) + each for each in packed)])

    check("SequenceFile", content, VALUES)


@pytest.mark.parametrize("codec", AVRO)
def test_blocks_of_an_avro_file(codec: str) -> None:
    about = {b"avro.codec": codec.encode(), b"avro.schema": b'"string"'}
    metadata = number(len(about)) + b"".join(sized(k) + sized(v) for k, v in about.items())
    blocks = [AVRO[codec](sized(b"x" * n) * 2) for n in range(9)]

    content = b"".join(
        [b"Obj\x01", metadata, b"\x00", SYNC, *(number(2) + sized(each) + SYNC for each in blocks)]
    )

    check("Avro", content, [b'{"value":"%s"}' % (b"x" * n) for n in range(9) for _ in "ab"])
