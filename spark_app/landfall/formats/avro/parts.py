"""Reader ``Avro``: object container files, whose records are typed rows and JSON objects.

Columns have the types that ``pipeline.decoders.avro`` gives them, and payloads are the JSON that
the decoder ``Avro`` makes. A schema that is no record has one field, ``value``.

A block belongs to the part with the first byte of the sync marker before it; the first
block's marker ends the header. So a part begins after the first marker that begins in it. ``file``
reads what a file consists of.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats.avro.file import (
    SYNC_BYTES,
    AvroBlock,
    AvroHeader,
    DamagedBlock,
    decompressed,
    read_header,
    read_schema,
    record_bounds,
    stored_blocks,
)
from landfall.formats.parts import (
    FileBytes,
    FilePart,
    FileRecords,
    ReadLimits,
    UnreadableFileError,
)
from landfall.formats.slices import row_ranges
from landfall.formats.streams import Opened, StreamReader, WindowReader, opened
from landfall.pipeline.decoders.avro.nested import RecordNode
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.decoders.avro.own_columns import VALUE
from landfall.pipeline.decoders.avro.reading import payload_data, read
from landfall.pipeline.records import Int64s

_WINDOWS_TOGETHER = 4
"""How many windows of decompressed blocks are read together."""


@dataclass(frozen=True)
class AvroReader(StreamReader):
    """Reads object container files."""

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The records of the part's blocks; see ``parts.FileReader``."""
        stream = opened(file, part, self.compression, self.limits)
        header = read_header(stream.head)
        read_schema(stream.head, header)
        source = _first_block(stream, header)
        if source is None:
            return
        blocks = (
            decompressed(source, header, block, self.limits)
            for block in stored_blocks(source, header, self.limits, stream.end)
        )
        for together in _together(blocks, self.limits):
            yield from _records(source, header, together, self.limits)


def _first_block(stream: Opened, header: AvroHeader) -> WindowReader | None:
    """Return a source at the first block of the part; None if it has none."""
    marker = stream.head.position - SYNC_BYTES
    if marker >= stream.end:
        return None
    if stream.start <= marker:
        return stream.source(stream.head.position)
    source = stream.source(stream.start)
    if source.skip_to(header.sync, stream.end):
        source.take(SYNC_BYTES)
        return source
    if stream.end == stream.size and stream.start <= stream.size - SYNC_BYTES:
        raise source.error("the file does not end with its sync marker", stream.size)
    return None


def _together(blocks: Iterator[AvroBlock], limits: ReadLimits) -> Iterator[Sequence[AvroBlock]]:
    """Return blocks in groups, for the more there are in one the faster it is read."""
    group: list[AvroBlock] = []
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


def _records(
    source: WindowReader, header: AvroHeader, blocks: Sequence[AvroBlock], limits: ReadLimits
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


def _before(blocks: Sequence[AvroBlock], position: int) -> list[AvroBlock]:
    """Return the blocks before a damaged one."""
    return [block for block in blocks if block.position < position]


def _chunk(node: Node, positions: Int64s, bodies: pa.BinaryArray) -> FileRecords:
    column, errors = read(node, *payload_data(bodies))
    if isinstance(node, RecordNode) and column.type.num_fields:
        columns = pa.RecordBatch.from_arrays(column.flatten(), schema=pa.schema(list(column.type)))
    else:
        columns = pa.RecordBatch.from_arrays([column], [VALUE])
    values = partial(_values, node, column, bodies, errors)
    return FileRecords(positions, values, columns=columns, errors=errors)


def _values(
    node: Node, column: pa.Array, bodies: pa.BinaryArray, errors: Mapping[int, str]
) -> pa.BinaryArray:
    texts = node.text(column)
    if not isinstance(node, RecordNode):
        texts = pc.binary_join_element_wise(f'{{"{VALUE}":', texts, "}", "")
    values = texts.cast(pa.binary())
    if not errors:
        return values
    is_wrong = np.zeros(len(bodies), np.bool_)
    is_wrong[list(errors)] = True
    return pc.if_else(pa.array(is_wrong), bodies, values)
