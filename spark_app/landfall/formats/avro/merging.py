"""Avro files, merged: blocks are copied with another sync marker."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from landfall.formats.avro import landed as avroreader
from landfall.formats.external_sort import Keyed, RowSorter
from landfall.formats.merged_columns import column_keys
from landfall.formats.merging import Keys, Mask, NotMergeableError, ReadRange, Tee
from landfall.formats.sort_keys import column_sort_keys

_HEAD_BYTES = 64 * 1024


class AvroMerger:
    """Merges object container files of one schema; the header is that of the first."""

    keeps_order = True

    def __init__(self, compress: Callable[[bytes], bytes], number: Callable[[int], bytes]) -> None:
        """``compress`` compresses a block, and ``number`` encodes a long."""
        self._compress, self._number = compress, number
        self._header: avroreader.Header | None = None
        self._head = b""
        self.rows = 0

    def schema_of(self, read: ReadRange, size: int) -> str:
        """See ``Merger``."""
        head = _Head(read, size)
        header = avroreader.read_header(avroreader.Source(head))  # type: ignore[arg-type]  # it reads only
        return str(sorted(header.metadata.items()))

    def keys(self, source: BinaryIO, path: tuple[str, ...]) -> Iterator[Keys]:
        """See ``Merger``."""
        return (column_keys(batch, path) for batch in avroreader.batches(source))

    def add(self, source: BinaryIO, kept: Mask | None = None) -> Iterator[bytes]:
        """See ``Merger``."""
        tee = Tee(source)
        file = avroreader.Source(tee)  # type: ignore[arg-type]  # it reads only
        is_first = self._header is None
        header = self._take_header(file, tee)
        if is_first:
            yield self._head
        row = 0
        for block in avroreader.raw_blocks(file, header):
            tee.take()
            if kept is None:
                yield self._block(block.count, block.compressed)
            elif count := int(kept[row : row + block.count].sum()):
                yield self._block(count, self._compress(_kept(header, block, kept[row:])))
            row += block.count
        self.rows += row

    def finish(self) -> bytes:
        """See ``Merger``."""
        return b""

    def _take_header(self, file: avroreader.Source, tee: Tee) -> avroreader.Header:
        """Read what a file begins with; that of the first one is the new object's."""
        header = avroreader.read_header(file)
        if self._header is None:
            self._header, self._head = header, tee.take()
        elif header.metadata != self._header.metadata:
            raise NotMergeableError("its schema is not that of the objects before it")
        return header

    def sorter(self, path: tuple[str, ...], memory: int) -> RowSorter:
        """See ``Sorter``; the merger is used for nothing else then."""
        return RowSorter(partial(self._keyed, path), self._sorted, memory)

    def _keyed(self, path: tuple[str, ...], source: BinaryIO) -> Iterator[Keyed]:
        tee = Tee(source)
        file = avroreader.Source(tee)  # type: ignore[arg-type]  # it reads only
        header = self._take_header(file, tee)
        for block in avroreader.raw_blocks(file, header):
            tee.take()
            contents = header.contents(block)
            columns = avroreader.block_batch(header, block, contents)
            ends = pa.py_buffer(np.array(header.bounds(block, contents), np.int32))
            buffers = [None, ends, pa.py_buffer(contents)]
            rows = pa.Array.from_buffers(pa.binary(), block.count, buffers)
            yield column_sort_keys(columns, path), pa.RecordBatch.from_arrays([rows], ["row"])

    def _sorted(self, tables: Iterator[pa.Table]) -> Iterator[bytes]:
        yield self._head
        for table in tables:
            rows = table["row"].to_pylist()
            yield self._block(len(rows), self._compress(b"".join(rows)))

    def _block(self, count: int, compressed: bytes) -> bytes:
        assert self._header is not None, "a block comes after a header"
        size = self._number(count) + self._number(len(compressed))
        return size + compressed + self._header.sync


def _kept(header: avroreader.Header, block: avroreader.RawBlock, kept: Mask) -> bytes:
    contents = header.contents(block)
    bounds = header.bounds(block, contents)
    chosen = kept[: block.count].nonzero()[0]
    return b"".join(contents[bounds[row] : bounds[row + 1]] for row in chosen)


class _Head:
    """The start of an object as a stream, read piece by piece."""

    def __init__(self, read: ReadRange, size: int) -> None:
        self._read, self._size = read, size
        self._at, self._piece = 0, b""

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        if not self._piece and self._at < self._size:
            self._piece = self._read(self._at, _HEAD_BYTES)
            self._at += len(self._piece)
        taken, self._piece = self._piece[:size], self._piece[size:]
        return taken
