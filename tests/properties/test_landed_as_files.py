"""A landed object is read alike as what it is and as a file of a feed, with every codec."""

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from landfall.formats import codecs
from landfall.formats.avro import landed as avro
from landfall.formats.avro.file import AvroHeader, varint
from landfall.formats.readers import reader_of
from landfall.formats.sequencefile import landed as sequencefile
from landfall_audit.objects import sequence_file as audited
from tests.support.examples import share
from tests.support.payloads.avro import encoded
from tests.support.payloads.file_codecs import AVRO, HADOOP
from tests.support.payloads.file_records import (
    PACKAGE,
    SYNC,
    MemoryFile,
    bytes_writable,
    text,
    vint,
)

ESCAPE = b"\xff\xff\xff\xff"
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}],
}
HADOOP_CODECS = [None, *HADOOP]
AVRO_CODECS = ["null", *AVRO]
Read = tuple[list[bytes | None], bool]
"""Payloads, and whether there was an error."""


def _kept(content: bytes) -> bytes:
    return content


def sequence_file(
    values: Sequence[bytes], codec: str | None, cut: int, *, is_blocks: bool
) -> bytes:
    """A file as Hadoop writes it, with offsets as keys."""
    compress = HADOOP[codec] if codec else _kept
    classes = text(f"{PACKAGE}LongWritable") + text(f"{PACKAGE}BytesWritable")
    named = text(f"{PACKAGE}compress.{codec}") if codec else b""
    out = [b"SEQ\x06", classes, bytes((codec is not None, is_blocks)), named, bytes(4), SYNC]
    rows = [(n.to_bytes(8, "big"), bytes_writable(value)) for n, value in enumerate(values)]
    for at in range(0, len(rows), cut):
        out += [ESCAPE, SYNC]
        some = rows[at : at + cut]
        if is_blocks:
            out.append(vint(len(some)))
            for column in zip(*some, strict=True):
                for part in (b"".join(vint(len(each)) for each in column), b"".join(column)):
                    packed = compress(part)
                    out += [vint(len(packed)), packed]
        else:
            for key, value in some:
                packed = compress(value)
                out += [struct.pack(">ii", len(key) + len(packed), len(key)), key, packed]
    return b"".join(out)


def avro_file(values: Sequence[tuple[int, str]], codec: str, cut: int) -> bytes:
    """A file as Avro's library writes it."""
    metadata = {"avro.schema": json.dumps(SCHEMA).encode(), "avro.codec": codec.encode()}
    out = [AvroHeader(metadata, SYNC).written()]
    for at in range(0, len(values), cut):
        some = [encoded(SCHEMA, {"n": n, "s": s}) for n, s in values[at : at + cut]]
        packed = AVRO.get(codec, _kept)(b"".join(some))
        out += [varint(len(some)), varint(len(packed)), packed, SYNC]
    return b"".join(out)


def as_file(reader: str, data: bytes) -> Read:
    """What the reader of a feed finds."""

    def found() -> Iterator[bytes | None]:
        made, file = reader_of(reader, {}), MemoryFile("x", data)
        for part in made.parts("x", len(data)):
            for chunk in made.read(file, part):
                yield from chunk.values.to_pylist()
                if chunk.errors:
                    raise ValueError("a record is damaged")

    return _read(found)


def _read(found: Callable[[], Iterator[bytes | None]]) -> Read:
    values = list[bytes | None]()
    try:
        values.extend(found())
    except ValueError:
        return values, True
    return values, False


def as_landed(rows: Callable[..., Iterator[object]], data: bytes) -> Read:
    """What ``cat``, ``verify`` and readers find."""
    return _read(lambda: (row.value for row in rows(io.BytesIO(data))))  # type: ignore[attr-defined]  # of a Row


@given(
    values=st.lists(st.binary(max_size=40), max_size=9),
    codec=st.sampled_from(HADOOP_CODECS),
    cut=st.integers(1, 4),
    is_blocks=st.booleans(),
)
@settings(max_examples=share(150), deadline=None)
def test_a_sequence_file_is_read_alike(
    values: list[bytes], codec: str | None, cut: int, is_blocks: bool
) -> None:
    data = sequence_file(values, codec, cut, is_blocks=is_blocks)

    assert as_landed(sequencefile.rows, data) == (values, False)
    assert as_file("SequenceFile", data) == (values, False)
    assert [value for *_, value in audited.records(io.BytesIO(data))] == values


@given(
    values=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=30)), max_size=9),
    codec=st.sampled_from(AVRO_CODECS),
    cut=st.integers(1, 4),
)
@settings(max_examples=share(150), deadline=None)
def test_an_avro_file_is_read_alike(values: list[tuple[int, str]], codec: str, cut: int) -> None:
    data = avro_file(values, codec, cut)

    rows, is_damaged = as_landed(avro.rows, data)

    assert not is_damaged
    assert [json.loads(row or b"") for row in rows] == [{"n": n, "s": s} for n, s in values]
    assert as_file("Avro", data) == (rows, False)


@given(draw=st.data(), kind=st.sampled_from(["SequenceFile", "Avro"]))
@settings(max_examples=share(150), deadline=None)
def test_damage_is_found_by_both_or_by_none(draw: st.DataObject, kind: str) -> None:
    if kind == "Avro":
        data = avro_file(
            [(n, "x" * n) for n in range(8)], draw.draw(st.sampled_from(AVRO_CODECS)), 3
        )
    else:
        codec = draw.draw(st.sampled_from(HADOOP_CODECS))
        values = [b"x" * n for n in range(8)]
        data = sequence_file(values, codec, 3, is_blocks=draw.draw(st.booleans()))
    place = draw.draw(st.integers(0, len(data) - 1))
    changed = bytes((data[place] ^ draw.draw(st.integers(1, 255)),))
    damaged = data[:place] + changed + data[place + 1 :]

    rows, is_damaged = as_landed(avro.rows if kind == "Avro" else sequencefile.rows, damaged)

    # A key of another class than those of landed objects is none of a feed's business.
    if not is_damaged:
        assert as_file(kind, damaged) == (rows, False)


@pytest.mark.parametrize(
    ("table", "compressed", "prefix"),
    [(codecs.HADOOP, HADOOP, f"{PACKAGE}compress."), (codecs.AVRO, AVRO, "")],
    ids=["Hadoop", "Avro"],
)
def test_no_block_becomes_larger_than_its_limit(
    table: Mapping[str, codecs.Decompress],
    compressed: Mapping[str, Callable[[bytes], bytes]],
    prefix: str,
) -> None:
    assert {name.removeprefix(prefix) for name in table} - {"null"} == set(compressed)
    content = bytes(2**20)
    for name, compress in compressed.items():
        decompress, packed = table[prefix + name], compress(content)

        assert decompress(packed, len(content)) == content
        with pytest.raises(ValueError, match="more than 65536 bytes"):
            decompress(packed, 65_536)
        for wrong in (packed[:-5], packed[: len(packed) // 2], packed + b"more than four"):
            with pytest.raises(ValueError, match=r"compressed data|snappy"):
                decompress(wrong, len(content))
