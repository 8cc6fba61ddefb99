"""Reads Avro object container files back, strictly: counts, sizes and sync markers must agree.

A damaged file gives a ValueError with the position, never fewer rows. Values are given as JSON, as
the decoder ``Avro`` makes it (``landfall.pipeline.decoders.avro``).

Source: Apache Avro 1.12 specification, "Object Container Files".
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from isal import isal_zlib

from landfall.formats import Row, codecs
from landfall.formats.avro.envelopes import WRAPPER
from landfall.formats.columns import COORDINATES
from landfall.pipeline.decoders.avro.nested import Record, objects
from landfall.pipeline.decoders.avro.node import Malformed, Node, OneRecord
from landfall.pipeline.decoders.avro.plan import compile_schema
from landfall.pipeline.decoders.avro.reading import payload_data, read
from landfall.pipeline.decoders.avro.schema import kind_of, parse_schema

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_READ_BYTES = 1 << 20
_ENVELOPE = tuple(f"_{name}" for name in COORDINATES)


def _unsnappy(data: bytes) -> bytes:
    size, shift, at = 0, 0, 0
    while True:
        if at >= len(data) - 4 or shift > 28:
            raise ValueError("damaged snappy data: no length")
        byte = data[at]
        size, shift, at = size | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            break
    try:
        contents = bytes(pa.decompress(data[:-4], size, "snappy", asbytes=True))
    except (pa.ArrowException, OSError) as error:  # pyarrow's of a codec is an OSError
        raise ValueError(f"damaged snappy data: {error}") from error
    if isal_zlib.crc32(contents) != int.from_bytes(data[-4:]):
        raise ValueError("damaged snappy data: another checksum")
    return contents


_DECOMPRESSORS: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType(
    {
        "null": bytes,
        "deflate": codecs.raw_inflate,
        "zstandard": codecs.unzstd,
        "snappy": _unsnappy,
    }
)


class Source:
    """The bytes of the file in order, and the position after those read so far."""

    def __init__(self, stream: BinaryIO) -> None:
        """Read nothing yet."""
        self._stream = stream
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return exactly this many bytes."""
        if count < 0:
            raise ValueError(f"a length of {count} before byte {self.position}")
        chunks, left = [], count
        # In pieces, so that memory is never allocated for a damaged length.
        while left and (chunk := self._stream.read(min(left, _READ_BYTES))):
            chunks.append(chunk)
            left -= len(chunk)
        self.position += count - left
        if left:
            raise ValueError(f"the file ends early, at byte {self.position}")
        return b"".join(chunks)

    def number(self) -> int:
        """Return the next long."""
        return self._number(self.take(1)[0])

    def number_or_end(self) -> int | None:
        """Return the next long; None at the end of the file."""
        first = self._stream.read(1)
        self.position += len(first)
        return self._number(first[0]) if first else None

    def _number(self, byte: int) -> int:
        value, shift = byte & 0x7F, 7
        while byte >= 0x80:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 70:
                raise ValueError(f"a number of more than 64 bits before byte {self.position}")
        return (value >> 1) ^ -(value & 1)


@dataclass(frozen=True)
class Header:
    """What a file begins with.

    Attributes:
        metadata: a map of bytes by name.
        sync: the sync marker.
    """

    metadata: Mapping[str, bytes]
    sync: bytes

    @property
    def codec(self) -> str:
        """How blocks are compressed."""
        return self.metadata.get("avro.codec", b"null").decode("utf-8", "replace")

    @cached_property
    def root(self) -> tuple[Node, bool]:
        """The schema of the values, and whether they are wrapped; ValueError if it is none."""
        schema = parse_schema(self.metadata.get("avro.schema", b""))
        return compile_schema(schema), kind_of(schema.root).rstrip("_") == WRAPPER

    def contents(self, block: "RawBlock") -> bytes:
        """The values of a block, back to back; ValueError if they are damaged."""
        return _DECOMPRESSORS[self.codec](block.compressed)

    def bounds(self, block: "RawBlock", contents: bytes) -> list[int]:
        """Where each value of a block begins, and where the last ends; ValueError if damaged."""
        return _bounds(self.root[0], block.count, contents, block.end)


@dataclass(frozen=True)
class RawBlock:
    """A block of a file: how many values it has, its bytes, and the position behind it."""

    count: int
    compressed: bytes
    end: int


def read_header(source: Source) -> Header:
    """Read what a file begins with; ValueError if it is no Avro file, or has an unknown codec."""
    if source.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("not an Avro object container file")
    metadata = _metadata(source)
    header = Header(metadata, source.take(_SYNC_BYTES))
    if header.codec not in _DECOMPRESSORS:
        raise ValueError(f"unknown codec {header.codec!r}")
    return header


def raw_blocks(source: Source, header: Header) -> Iterator[RawBlock]:
    """The blocks of a file, as they are in it; ValueError if it is damaged."""
    while (count := source.number_or_end()) is not None:
        compressed = source.take(source.number())
        if source.take(_SYNC_BYTES) != header.sync:
            raise ValueError(f"another sync marker before byte {source.position}")
        yield RawBlock(count, compressed, source.position)


def rows(stream: BinaryIO) -> Iterator[Row]:
    """Read a file.

    Raises:
        ValueError: it is damaged, or no Avro file.
    """
    for node, column, is_wrapped in _blocks(stream):
        yield from _rows(node, column, is_wrapped)


def batches(stream: BinaryIO) -> Iterator[pa.RecordBatch]:
    """Read a file as columns, a block at a time; values that are no records are in ``value``.

    The first batch is empty, so that there is one in any case.

    Raises:
        ValueError: it is damaged, or no Avro file.
    """
    for _, column, _ in _blocks(stream):
        yield _as_batch(column)


def block_batch(header: Header, block: RawBlock, contents: bytes) -> pa.RecordBatch:
    """The values of a block as columns, as ``batches`` has them; ValueError if damaged."""
    return _as_batch(_column(header.root[0], block.count, contents, block.end))


def _as_batch(column: pa.Array) -> pa.RecordBatch:
    if pa.types.is_struct(column.type):
        return pa.RecordBatch.from_struct_array(column)
    return pa.RecordBatch.from_arrays([column], ["value"])


def _blocks(stream: BinaryIO) -> Iterator[tuple[Node, pa.Array, bool]]:
    """The values of each block, with their schema, and whether they are wrapped.

    Before the first block comes one without values, which the file does not have.
    """
    source = Source(stream)
    header = read_header(source)
    node, is_wrapped = header.root
    yield node, _column(node, 0, b"", source.position), is_wrapped
    for block in raw_blocks(source, header):
        yield node, _column(node, block.count, header.contents(block), block.end), is_wrapped


def _metadata(source: Source) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    while count := source.number():
        if count < 0:
            source.number()
        for _ in range(abs(count)):
            name = source.take(source.number()).decode("utf-8", "replace")
            found[name] = source.take(source.number())
    return found


def _bounds(node: Node, count: int, content: bytes, position: int) -> list[int]:
    """Where the values of a block begin, and where the last ends."""
    record, ends, at = OneRecord(memoryview(content), len(content)), [0], 0
    try:
        for _ in range(count):
            at = node.walk(record, at)
            ends.append(at)
    except (Malformed, RecursionError) as error:
        raise ValueError(f"a damaged record before byte {position}: {error}") from error
    if at != len(content):
        raise ValueError(f"bytes left over in the block before byte {position}")
    return ends


def _column(node: Node, count: int, content: bytes, position: int) -> pa.Array:
    """The values of a block."""
    bounds = pa.py_buffer(np.array(_bounds(node, count, content, position), np.int32))
    payloads = pa.Array.from_buffers(pa.binary(), count, [None, bounds, pa.py_buffer(content)])
    column, errors = read(node, *payload_data(payloads))
    if errors:
        raise ValueError(f"before byte {position}: {next(iter(errors.values()))}")
    return column


def _rows(node: Node, column: pa.Array, is_wrapped: bool) -> Iterator[Row]:  # noqa: FBT001  # of the file
    offsets: list[int | None] = [None] * len(column)
    times: list[int | None] = offsets
    texts = node.text(column)
    if isinstance(node, Record) and node.names[-len(_ENVELOPE) :] == _ENVELOPE:
        offsets = column.field("_offset").to_pylist()
        times = column.field("_timestamp").cast(pa.int64()).to_pylist()
        names, nodes = node.names[: -len(_ENVELOPE)], node.nodes[: -len(_ENVELOPE)]
        parts = [each.text(column.field(name)) for name, each in zip(names, nodes, strict=True)]
        texts = parts[0] if is_wrapped else objects(names, parts, column)
    values = pc.cast(texts, pa.binary()).to_pylist()
    for offset, value, time in zip(offsets, values, times, strict=True):
        yield Row(offset, value, None, time)
