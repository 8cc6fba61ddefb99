"""The codecs inside of Avro files and SequenceFiles: the auditor reads what the writer reads."""

import struct

import pytest

from landfall.formats.readers import reader_of
from landfall_audit.readers import FileRow
from tests.support.audit.audited_files import audited
from tests.support.payloads.file_codecs import AVRO, HADOOP
from tests.support.payloads.file_records import PACKAGE, SYNC, MemoryFile, read_all, text

VALUES = [b'{"id":%d,"note":"%s"}' % (n, b"x" * n) for n in range(40)]


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
