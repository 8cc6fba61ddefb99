"""Reader ``Avro``: object container files, whose records are typed rows and JSON objects.

Columns have the types that ``pipeline.decoders.avro`` gives them, and payloads are the JSON that
the decoder ``Avro`` makes. A schema that is no record has one field, ``value``. All codecs of the
specification are read.

A block belongs to the part with the first byte of the sync marker before it; that of the first
block ends the header. So a part begins behind the first marker that begins in it. Within a block
records have no boundaries: ``avro_records`` finds them.

Source: Apache Avro 1.12 specification, "Object Container Files".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats.avro.bounds import Block, DamagedBlock, record_bounds
from landfall.formats.codecs import AVRO, Decompress
from landfall.formats.parts import (
    DEFAULT_LIMITS,
    PART_BYTES,
    FileBytes,
    FilePart,
    FileRecords,
    Limits,
    UnreadableFileError,
)
from landfall.formats.slices import row_ranges
from landfall.formats.streams import Compression, Opened, Source, cut_if_plain, opened
from landfall.pipeline.decoders.avro.nested import Record
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.decoders.avro.own_columns import VALUE
from landfall.pipeline.decoders.avro.plan import compile_schema
from landfall.pipeline.decoders.avro.reading import payload_data, read
from landfall.pipeline.decoders.avro.schema import parse_schema
from landfall.pipeline.records import Int64s

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_MAX_SHIFT = 63
_MAX_METADATA_BYTES = 16 * 2**20
_WINDOWS_TOGETHER = 4
"""How many windows of decompressed blocks are read together."""
_MAX_EMPTY_RECORDS = 1_000_000
"""Records of no bytes in a block, such as of null: their count is all there is of them."""


@dataclass(frozen=True)
class Avro:
    """Reads object container files.

    Attributes:
        compression: how files are compressed as a whole, beside their own codec.
        limits: how large blocks and records may be.
    """

    compression: Compression = Compression.AUTO
    limits: Limits = DEFAULT_LIMITS

    def parts(self, name: str, size: int, part_bytes: int = PART_BYTES) -> tuple[FilePart, ...]:
        """The parts of a file; see ``parts.FileReader``."""
        return cut_if_plain(name, size, part_bytes, self.compression)

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The records of the part's blocks; see ``parts.FileReader``."""
        stream = opened(file, part, self.compression, self.limits)
        header = _header(stream.head)
        source = _first_block(stream, header)
        if source is None:
            return
        for blocks in _together(_blocks(source, header, stream, self.limits), self.limits):
            yield from _records(source, header, blocks, self.limits)


@dataclass(frozen=True)
class _Header:
    """What the start of the file says about the rest, and where its sync marker is."""

    node: Node
    decompress: Decompress
    sync: bytes
    marker: int


def _header(source: Source) -> _Header:
    if not source.has(len(_MAGIC)) or source.take(len(_MAGIC)) != _MAGIC:
        raise source.error("not an Avro object container file: it starts otherwise", 0)
    metadata = _metadata(source)
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in AVRO:
        raise source.error(f"codec {codec!r}, not {' or '.join(AVRO)}", 0)
    try:
        node = compile_schema(parse_schema(metadata.get("avro.schema", b"")))
    except ValueError as error:
        raise source.error(str(error), 0) from error
    marker = source.position
    return _Header(node, AVRO[codec], source.take(_SYNC_BYTES), marker)


def _metadata(source: Source) -> Mapping[str, bytes]:
    found: dict[str, bytes] = {}
    while count := _long(source):
        if count < 0:
            _long(source)  # the size of what follows, for those who skip it
        for _ in range(abs(count)):
            name = _bytes(source).decode("utf-8", "replace")
            found[name] = _bytes(source)
    return found


def _bytes(source: Source) -> bytes:
    size = _long(source)
    if size > _MAX_METADATA_BYTES or source.position > _MAX_METADATA_BYTES:
        raise source.error(f"metadata of more than {_MAX_METADATA_BYTES} bytes")
    return source.take(size)


def _long(source: Source) -> int:
    value, shift = 0, 0
    while True:
        byte = source.take(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > _MAX_SHIFT:
            raise source.error("a number of more than 64 bits")


def _first_block(stream: Opened, header: _Header) -> Source | None:
    """Return a source at the first block of the part; None if it has none."""
    if header.marker >= stream.end:
        return None
    if stream.start <= header.marker:
        return stream.source(header.marker + _SYNC_BYTES)
    source = stream.source(stream.start)
    if source.skip_to(header.sync, stream.end):
        source.take(_SYNC_BYTES)
        return source
    if stream.end == stream.size and stream.start <= stream.size - _SYNC_BYTES:
        raise source.error("the file does not end with its sync marker", stream.size)
    return None


def _blocks(source: Source, header: _Header, stream: Opened, limits: Limits) -> Iterator[Block]:
    """Return the blocks from here to the first marker behind the part."""
    while not source.at_end():
        yield _block(source, header, limits)
        if source.position - _SYNC_BYTES >= stream.end:
            return


def _together(blocks: Iterator[Block], limits: Limits) -> Iterator[Sequence[Block]]:
    """Return blocks in groups, for the more there are in one the faster it is read."""
    group: list[Block] = []
    held = 0
    try:
        for block in blocks:
            if group and held + len(block.content) > _WINDOWS_TOGETHER * limits.window_bytes:
                yield group
                group, held = [], 0
            group.append(block)
            held += len(block.content)
    except UnreadableFileError:
        if group:
            yield group  # what is before the damage is whole
        raise
    if group:
        yield group


def _block(source: Source, header: _Header, limits: Limits) -> Block:
    position = source.position
    count, size = _long(source), _long(source)
    if count < 0 or size > limits.block_bytes:
        raise source.error(f"a block of {count} records and {size} bytes", position)
    data = source.take(size)
    if source.take(_SYNC_BYTES) != header.sync:
        raise source.error("no sync marker behind the block", position)
    try:
        content = header.decompress(data, limits.block_bytes)
    except ValueError as error:
        raise source.error(str(error), position) from error
    if not header.node.least and count > max(len(content), _MAX_EMPTY_RECORDS):
        raise source.error(f"a block of {count} records without bytes", position)
    return Block(position, count, content)


def _records(
    source: Source, header: _Header, blocks: Sequence[Block], limits: Limits
) -> Iterator[FileRecords]:
    """Return the records of consecutive blocks; those before a damaged one before the error."""
    if not blocks:
        return
    try:
        bounds = record_bounds(header.node, blocks)
    except DamagedBlock as error:
        yield from _records(source, header, _before(blocks, error.position), limits)
        raise source.error(str(error), error.position) from error
    counts = [block.count for block in blocks]
    positions = np.repeat([block.position for block in blocks], counts)
    long = np.flatnonzero(np.diff(bounds) > limits.record_bytes)
    if len(long):
        reason = f"a record of more than {limits.record_bytes} bytes in the block"
        position = int(positions[long[0]])
        yield from _records(source, header, _before(blocks, position), limits)
        raise source.error(reason, position)
    content = pa.py_buffer(b"".join(block.content for block in blocks))
    for rows in row_ranges(len(positions), limits.chunk_rows):
        offsets = pa.py_buffer(bounds[rows.start : rows.stop + 1].astype(np.int32))
        buffers = [None, offsets, content]
        bodies = pa.Array.from_buffers(pa.binary(), rows.stop - rows.start, buffers)
        yield _chunk(header.node, positions[rows], bodies)


def _before(blocks: Sequence[Block], position: int) -> list[Block]:
    """Return the blocks before a damaged one."""
    return [block for block in blocks if block.position < position]


def _chunk(node: Node, positions: Int64s, bodies: pa.BinaryArray) -> FileRecords:
    column, errors = read(node, *payload_data(bodies))
    if isinstance(node, Record) and column.type.num_fields:
        columns = pa.RecordBatch.from_arrays(column.flatten(), schema=pa.schema(list(column.type)))
    else:
        columns = pa.RecordBatch.from_arrays([column], [VALUE])
    values = partial(_values, node, column, bodies, errors)
    return FileRecords(positions, values, columns=columns, errors=errors)


def _values(
    node: Node, column: pa.Array, bodies: pa.BinaryArray, errors: Mapping[int, str]
) -> pa.BinaryArray:
    texts = node.text(column)
    if not isinstance(node, Record):
        texts = pc.binary_join_element_wise(f'{{"{VALUE}":', texts, "}", "")
    values = texts.cast(pa.binary())
    if not errors:
        return values
    is_wrong = np.zeros(len(bodies), np.bool_)
    is_wrong[list(errors)] = True
    return pc.if_else(pa.array(is_wrong), bodies, values)
