"""The rows of landed Avro files: as columns, or as the JSON that the decoder ``Avro`` makes.

``file`` reads what a file consists of. A damaged file gives a ValueError with the place, never
fewer rows.
"""

from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from landfall.formats import Row
from landfall.formats.avro.file import (
    AvroBlock,
    AvroHeader,
    DamagedBlock,
    decompressed,
    read_header,
    read_schema,
    record_bounds,
    stored_blocks,
)
from landfall.formats.columns import COORDINATES
from landfall.formats.parts import LANDED_LIMITS
from landfall.formats.streams import ENDLESS, WindowReader, damage_located, source_of
from landfall.memory_limit import steps
from landfall.pipeline.decoders.avro.nested import RecordNode, objects
from landfall.pipeline.decoders.avro.node import Node
from landfall.pipeline.decoders.avro.reading import payload_data, read

KIND = "Avro file"
_ENVELOPE = tuple(f"_{name}" for name in COORDINATES)


def rows(stream: BinaryIO) -> Iterator[Row]:
    """Read a file.

    Raises:
        ValueError: it is damaged, or no Avro file.
    """
    for node, column, is_wrapped in steps(_columns(stream)):
        yield from _rows(node, column, is_wrapped)


def batches(stream: BinaryIO) -> Iterator[pa.RecordBatch]:
    """Read a file as columns, a block at a time; values that are no records are in ``value``.

    The first batch is empty, so that there is one in any case.

    Raises:
        ValueError: it is damaged, or no Avro file.
    """
    for _, column, _ in steps(_columns(stream)):
        yield as_batch(column)


def as_batch(column: pa.Array) -> pa.RecordBatch:
    """The values of a block as columns."""
    if pa.types.is_struct(column.type):
        return pa.RecordBatch.from_struct_array(column)
    return pa.RecordBatch.from_arrays([column], ["value"])


def bodies_of(source: WindowReader, header: AvroHeader, block: AvroBlock) -> pa.BinaryArray:
    """The values of a block as they are encoded.

    Raises:
        UnreadableFileError: they are damaged.
    """
    try:
        bounds = record_bounds(header.node, [block])
    except DamagedBlock as error:
        raise source.error(str(error), error.position) from error
    buffers = [None, pa.py_buffer(bounds.astype("int32")), pa.py_buffer(block.content)]
    return pa.Array.from_buffers(pa.binary(), block.count, buffers)


def column_of(
    source: WindowReader, header: AvroHeader, block: AvroBlock, bodies: pa.BinaryArray
) -> pa.Array:
    """The values of a block, decoded.

    Raises:
        UnreadableFileError: one is damaged.
    """
    column, errors = read(header.node, *payload_data(bodies))
    if errors:
        raise source.error(next(iter(errors.values())), block.position)
    return column


def _columns(stream: BinaryIO) -> Iterator[tuple[Node, pa.Array, bool]]:
    """The values of each block, with their schema, and whether they are wrapped.

    Before the first block comes one without values, which the file does not have.
    """
    source = source_of(stream)
    with damage_located(KIND):
        header = read_header(source)
        node = read_schema(source, header)
        none = AvroBlock(source.position, 0, b"")
        is_wrapped = header.is_wrapped
        yield node, column_of(source, header, none, bodies_of(source, header, none)), is_wrapped
        for stored in stored_blocks(source, header, LANDED_LIMITS, ENDLESS):
            block = decompressed(source, header, stored, LANDED_LIMITS)
            bodies = bodies_of(source, header, block)
            yield node, column_of(source, header, block, bodies), is_wrapped


def _rows(node: Node, column: pa.Array, is_wrapped: bool) -> Iterator[Row]:  # noqa: FBT001  # of the file
    offsets: list[int | None] = [None] * len(column)
    times: list[int | None] = offsets
    texts = node.text(column)
    if isinstance(node, RecordNode) and node.names[-len(_ENVELOPE) :] == _ENVELOPE:
        offsets = column.field("_offset").to_pylist()
        times = column.field("_timestamp").cast(pa.int64()).to_pylist()
        names, nodes = node.names[: -len(_ENVELOPE)], node.nodes[: -len(_ENVELOPE)]
        parts = [child.text(column.field(name)) for name, child in zip(names, nodes, strict=True)]
        texts = parts[0] if is_wrapped else objects(names, parts, column)
    values = pc.cast(texts, pa.binary()).to_pylist()
    for offset, value, time in zip(offsets, values, times, strict=True):
        yield Row(offset, value, None, time)
