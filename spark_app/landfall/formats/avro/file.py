"""Reads Avro object container files: a header, then blocks, each with a sync marker.

Counts, sizes and sync markers must agree, and nothing is larger than the limits: a damaged file
gives an error, never fewer records. Everything that reads Avro files reads them here: parts of
files of other programs (``parts``), landed objects (``landed``), and those that are merged. All
codecs of the specification are read.

Within a block records have no boundaries. Several blocks are walked through side by side: the first
records of all, then the second ones, so that NumPy sees a row for each block
(``decoders.avro.cursor``). When few blocks have records left, these are walked one by one in plain
Python, which is cheaper then.

Source: Apache Avro 1.12 specification, "Object Container Files".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from landfall.formats.avro.envelopes import WRAPPER
from landfall.formats.codecs import AVRO
from landfall.formats.parts import ReadLimits
from landfall.formats.streams import WindowReader
from landfall.pipeline.decoders.avro.cursor import AvroCursor, Data, ErrorTexts
from landfall.pipeline.decoders.avro.node import Malformed, Node, OneRecord
from landfall.pipeline.decoders.avro.plan import compile_schema
from landfall.pipeline.decoders.avro.schema import kind_of, parse_schema
from landfall.pipeline.records import Int64s

SYNC_BYTES = 16
_MAGIC = b"Obj\x01"
_MAX_SHIFT = 63
_MAX_METADATA_BYTES = 16 * 2**20
_MAX_EMPTY_RECORDS = 1_000_000
"""Records of no bytes in a block, such as of null: their count is all there is of them."""
_LEAST_SIDE_BY_SIDE = 12
"""Blocks with records left, below which walking one by one is cheaper: measured."""


@dataclass(frozen=True)
class AvroHeader:
    """The header of a file.

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
    def node(self) -> Node:
        """The schema of the values; ValueError if it is none."""
        return compile_schema(parse_schema(self.metadata.get("avro.schema", b"")))

    @property
    def is_wrapped(self) -> bool:
        """Return whether values have an envelope of their own; ValueError if this is no schema."""
        schema = parse_schema(self.metadata.get("avro.schema", b""))
        return kind_of(schema.root).rstrip("_") == WRAPPER

    def written(self) -> bytes:
        """Return the header as it begins a file."""
        out = [_MAGIC, varint(len(self.metadata))]
        for name, value in self.metadata.items():
            out += [varint(len(part)) + part for part in (name.encode(), value)]
        return b"".join((*out, varint(0), self.sync))


@dataclass(frozen=True)
class StoredBlock:
    """A block as it is in the file; ``position`` is where it begins."""

    position: int
    count: int
    compressed: bytes


@dataclass(frozen=True)
class AvroBlock:
    """A block of records, decompressed; ``position`` is where it begins in the file."""

    position: int
    count: int
    content: bytes


def read_header(source: WindowReader) -> AvroHeader:
    """Read what a file begins with.

    Raises:
        UnreadableFileError: it is no Avro file, or has an unknown codec.
    """
    if not source.has(len(_MAGIC)) or source.take(len(_MAGIC)) != _MAGIC:
        raise source.error("not an Avro object container file: it starts otherwise", 0)
    metadata = _metadata(source)
    header = AvroHeader(metadata, source.take(SYNC_BYTES))
    if header.codec not in AVRO:
        raise source.error(f"codec {header.codec!r}, not {' or '.join(AVRO)}", 0)
    return header


def read_schema(source: WindowReader, header: AvroHeader) -> Node:
    """Return the schema of the values.

    Raises:
        UnreadableFileError: the file has none.
    """
    try:
        return header.node
    except ValueError as error:
        raise source.error(str(error), 0) from error


def stored_blocks(
    source: WindowReader, header: AvroHeader, limits: ReadLimits, end: int
) -> Iterator[StoredBlock]:
    """Return the blocks from here to the first marker at or after the position ``end``.

    Raises:
        UnreadableFileError: the file is damaged, or larger than the limits.
    """
    while not source.at_end():
        position = source.position
        count, size = _long(source), _long(source)
        if count < 0 or size > limits.block_bytes:
            raise source.error(f"a block of {count} records and {size} bytes", position)
        data = source.take(size)
        if source.take(SYNC_BYTES) != header.sync:
            raise source.error("no sync marker after the block", position)
        yield StoredBlock(position, count, data)
        if source.position - SYNC_BYTES >= end:
            return


def decompressed(
    source: WindowReader, header: AvroHeader, block: StoredBlock, limits: ReadLimits
) -> AvroBlock:
    """Return a block with its contents.

    Raises:
        UnreadableFileError: they are damaged, or larger than the limits.
    """
    try:
        content = AVRO[header.codec](block.compressed, limits.block_bytes)
    except ValueError as error:
        raise source.error(str(error), block.position) from error
    node = read_schema(source, header)
    if not node.least and block.count > max(len(content), _MAX_EMPTY_RECORDS):
        raise source.error(f"a block of {block.count} records without bytes", block.position)
    return AvroBlock(block.position, block.count, content)


def varint(number: int) -> bytes:
    """Return one number as Avro's long (specification, "Primitive Types")."""
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _metadata(source: WindowReader) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    while count := _long(source):
        if count < 0:
            _long(source)  # the size of what follows, for those who skip it
        for _ in range(abs(count)):
            name = _bytes(source).decode("utf-8", "replace")
            found[name] = _bytes(source)
    return found


def _bytes(source: WindowReader) -> bytes:
    size = _long(source)
    if size > _MAX_METADATA_BYTES or source.position > _MAX_METADATA_BYTES:
        raise source.error(f"metadata of more than {_MAX_METADATA_BYTES} bytes")
    return source.take(size)


def _long(source: WindowReader) -> int:
    value, shift = 0, 0
    while True:
        byte = source.take(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > _MAX_SHIFT:
            raise source.error("a number of more than 64 bits")


class DamagedBlock(Exception):  # noqa: N818  # what the block is
    """A block does not hold as many records as it declares; ``position`` identifies the block."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


def record_bounds(node: Node, blocks: Sequence[AvroBlock]) -> Int64s:
    """Return where each record begins in the joined contents, and at last where these end.

    Raises:
        DamagedBlock: the records of a block do not end where it ends.
    """
    counts = np.array([block.count for block in blocks], np.int64)
    ends = np.cumsum([len(block.content) for block in blocks])
    starts = ends - [len(block.content) for block in blocks]
    content = b"".join(block.content for block in blocks)
    bounds = np.empty(int(counts.sum()) + 1, np.int64)
    bounds[-1] = len(content)
    walk = _Walk(
        node=node, blocks=blocks, bounds=bounds, first=np.cumsum(counts) - counts, counts=counts
    )
    rows, done, at = walk.side_by_side(content, starts, ends)
    for row, begin in zip(rows.tolist(), at.tolist(), strict=True):
        walk.one_by_one(row, done, OneRecord(memoryview(content), int(ends[row])), begin)
    return bounds


@dataclass(frozen=True)
class _Walk:
    """Fills ``bounds``, in which the records of block i begin at ``first[i]``."""

    node: Node
    blocks: Sequence[AvroBlock]
    bounds: Int64s
    first: Int64s
    counts: Int64s

    def side_by_side(
        self, content: bytes, starts: Int64s, ends: Int64s
    ) -> tuple[Int64s, int, Int64s]:
        """Walk until few blocks have records left.

        Returns:
            These blocks, how many of their records are found, and where the next ones begin.
        """
        rows, done = np.arange(len(self.counts)), 0
        if len(rows) < _LEAST_SIDE_BY_SIDE:
            return rows, done, starts
        cursor = AvroCursor(Data.of(np.frombuffer(content, np.uint8)), starts, ends, ErrorTexts())
        while True:
            is_finished = self.counts[rows] == done
            if is_finished.any():
                self._check(rows[is_finished], cursor.select(np.flatnonzero(is_finished)))
                left = np.flatnonzero(~is_finished)
                rows, cursor = rows[left], cursor.select(left)
            if len(rows) < _LEAST_SIDE_BY_SIDE:
                return rows, done, cursor.at
            self.bounds[self.first[rows] + done] = cursor.at
            self.node.skip(cursor)
            wrong = np.flatnonzero(cursor.errors >= 0)
            if len(wrong):
                text = cursor.texts.texts[cursor.errors[wrong[0]]]
                raise self._damaged(int(rows[wrong[0]]), done, text)
            done += 1

    def one_by_one(self, row: int, done: int, record: OneRecord, at: int) -> None:
        """Walk over the records that a block has left."""
        found = []
        try:
            for _ in range(done, int(self.counts[row])):
                found.append(at)
                at = self.node.walk(record, at)
        except (Malformed, RecursionError) as error:
            raise self._damaged(row, done + len(found) - 1, str(error)) from error
        begin = int(self.first[row]) + done
        self.bounds[begin : begin + len(found)] = found
        self._check_end(row, record.end - at)

    def _check(self, rows: Int64s, cursor: AvroCursor) -> None:
        for row, left in zip(rows.tolist(), (cursor.end - cursor.at).tolist(), strict=True):
            self._check_end(row, left)

    def _check_end(self, row: int, left: int) -> None:
        if left:
            reason = f"{left} bytes left over in the block"
            raise DamagedBlock(self.blocks[row].position, reason)

    def _damaged(self, row: int, record: int, reason: str) -> DamagedBlock:
        return DamagedBlock(
            self.blocks[row].position, f"damaged record {record} of the block: {reason}"
        )
