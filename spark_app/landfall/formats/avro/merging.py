"""Avro files, merged: blocks are copied with another sync marker."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from landfall.formats.avro.file import (
    AvroHeader,
    StoredBlock,
    decompressed,
    read_header,
    read_schema,
    stored_blocks,
    varint,
)
from landfall.formats.avro.landed import KIND, as_batch, batches, bodies_of, column_of
from landfall.formats.external_sort import Keyed, RowSorter
from landfall.formats.merged_columns import column_keys
from landfall.formats.merging import Keys, Mask, NotMergeableError, ReadRange
from landfall.formats.parts import LANDED_LIMITS
from landfall.formats.sort_keys import column_sort_keys
from landfall.formats.streams import ENDLESS, WindowReader, damage_located, source_of

_HEAD_BYTES = 64 * 1024


class AvroMerger:
    """Merges object container files of one schema, with the header of the first."""

    keeps_order = True

    def __init__(self, compress: Callable[[bytes], bytes]) -> None:
        """``compress`` compresses a block."""
        self._compress = compress
        self._header: AvroHeader | None = None
        self.rows = 0

    def schema_of(self, read: ReadRange, size: int) -> str:
        """See ``Merger``."""
        pieces = (read(start, _HEAD_BYTES) for start in range(0, size, _HEAD_BYTES))
        with damage_located(KIND):
            return str(sorted(read_header(WindowReader("", pieces, 0)).metadata.items()))

    def keys(self, source: BinaryIO, path: tuple[str, ...]) -> Iterator[Keys]:
        """See ``Merger``."""
        return (column_keys(batch, path) for batch in batches(source))

    def add(self, source: BinaryIO, kept: Mask | None = None) -> Iterator[bytes]:
        """See ``Merger``."""
        file, row = source_of(source), 0
        is_first = self._header is None
        with damage_located(KIND):
            header = self._take_header(file)
            if is_first:
                yield header.written()
            for block in stored_blocks(file, header, LANDED_LIMITS, ENDLESS):
                end = row + block.count
                if kept is None:
                    yield self._block(block.count, block.compressed)
                elif count := int(kept[row:end].sum()):
                    contents = _kept(file, header, block, kept[row:end])
                    yield self._block(count, self._compress(contents))
                row = end
        self.rows += row

    def finish(self) -> bytes:
        """See ``Merger``."""
        return b""

    def _take_header(self, file: WindowReader) -> AvroHeader:
        """Read the header of a file; the first one becomes the new object's."""
        header = read_header(file)
        if self._header is None:
            self._header = header
        elif header.metadata != self._header.metadata:
            raise NotMergeableError("its schema differs from the objects before it")
        return header

    def sorter(self, path: tuple[str, ...], memory: int) -> RowSorter:
        """See ``Sorter``; the merger is used for nothing else then."""
        return RowSorter(partial(self._keyed, path), self._sorted, memory)

    def _keyed(self, path: tuple[str, ...], source: BinaryIO) -> Iterator[Keyed]:
        file = source_of(source)
        with damage_located(KIND):
            header = self._take_header(file)
            read_schema(file, header)
            for stored in stored_blocks(file, header, LANDED_LIMITS, ENDLESS):
                block = decompressed(file, header, stored, LANDED_LIMITS)
                bodies = bodies_of(file, header, block)
                columns = as_batch(column_of(file, header, block, bodies))
                keys = column_sort_keys(columns, path)
                yield keys, pa.RecordBatch.from_arrays([bodies], ["row"])

    def _sorted(self, tables: Iterator[pa.Table]) -> Iterator[bytes]:
        assert self._header is not None, "rows come after a header"
        yield self._header.written()
        for table in tables:
            rows = table["row"].to_pylist()
            yield self._block(len(rows), self._compress(b"".join(rows)))

    def _block(self, count: int, compressed: bytes) -> bytes:
        assert self._header is not None, "a block comes after a header"
        return varint(count) + varint(len(compressed)) + compressed + self._header.sync


def _kept(file: WindowReader, header: AvroHeader, stored: StoredBlock, kept: Mask) -> bytes:
    block = decompressed(file, header, stored, LANDED_LIMITS)
    bodies = bodies_of(file, header, block).to_pylist()
    return b"".join(bodies[row] for row in np.flatnonzero(kept).tolist())
