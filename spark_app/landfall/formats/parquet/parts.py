"""Reader ``Parquet``: rows as typed columns, and as JSON objects (``json_text``).

A row group belongs to the part with its middle byte, as in parquet-mr
(``ParquetMetadataConverter.filterFileMetaDataByMidpoint``), so that a part needs the footer only to
find its own. The position of a row is its number in the file.

A row group of up to ``block_bytes`` bytes is read at once, in windows; a larger one column by
column, a window of each at a time. Pages whose checksum is wrong are damage, and so are a footer
and pages that unpack to more than ``memory_limit`` allows. Of a few kinds of
damage in a footer Arrow ends the process instead of raising: the reader of parts gives up on one
that has ended several processes.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.formats.json_text import json_objects
from landfall.formats.parts import (
    DEFAULT_LIMITS,
    PART_BYTES,
    FileBytes,
    FilePart,
    FileRecords,
    ReadLimits,
    UnreadableFileError,
    cut,
)
from landfall.formats.streams import Compression, RangedStream, check_part, compression_of
from landfall.memory_limit import bounded, steps

_TAIL_BYTES = 64 * 2**10
"""How many bytes are read for the footer, which is seldom larger."""
_DAMAGED = (pa.ArrowException, OSError, ValueError)


@dataclass(frozen=True)
class ParquetReader:
    """Reads Parquet files.

    Attributes:
        limits: how large a row group may be to be read at once (``block_bytes``), and how many rows
            a chunk has at most.
    """

    limits: ReadLimits = DEFAULT_LIMITS

    def parts(self, name: str, size: int, part_bytes: int = PART_BYTES) -> tuple[FilePart, ...]:
        """The parts of a file; see ``parts.FileReader``.

        Raises:
            ValueError: the file is compressed as a whole, so its footer cannot be reached.
        """
        if compression_of(name) is not Compression.NONE:
            raise ValueError(f"{name}: a Parquet file that is compressed as a whole")
        return cut(size, part_bytes)

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        """The rows of the part's row groups; see ``parts.FileReader``."""
        check_part(file, part)
        stream = _CachedStream(file, self.limits.window_bytes)
        row = 0
        try:
            stream.hold(max(file.size - _TAIL_BYTES, 0), file.size)
            with bounded():
                metadata = pq.read_metadata(pa.PythonFile(stream, mode="r"))
            for group in _groups(metadata, file.size):
                if group.middle in part:
                    for columns in self._batches(stream, metadata, group):
                        yield _chunk(columns, row)
                        row += len(columns)
                    _check_rows(row, group)
                row = group.first_row + group.rows
        except UnreadableFileError:
            raise
        except _DAMAGED as error:
            stream.raise_failure()
            raise UnreadableFileError(file.name, row, f"damaged Parquet file: {error}") from error

    def _batches(
        self, stream: "_CachedStream", metadata: pq.FileMetaData, group: "_RowGroup"
    ) -> Iterator[pa.RecordBatch]:
        is_small = group.end - group.start <= self.limits.block_bytes
        if is_small:
            stream.hold(group.start, group.end)
        with bounded():
            opened = pq.ParquetFile(
                pa.PythonFile(stream, mode="r"),
                metadata=metadata,
                buffer_size=0 if is_small else self.limits.window_bytes,
                pre_buffer=False,
                page_checksum_verification=True,
            )
        batches: Iterator[pa.RecordBatch] = opened.iter_batches(
            batch_size=self.limits.chunk_rows, row_groups=[group.number], use_threads=False
        )
        return (batch for batch in steps(batches) if len(batch))


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """A row group: its number, its rows, and the bytes ``[start, end)`` of its columns."""

    number: int
    first_row: int
    rows: int
    start: int
    end: int
    middle: int


def _groups(metadata: pq.FileMetaData, size: int) -> Iterator[_RowGroup]:
    """Return the row groups of a file, in order.

    Raises:
        ValueError: one is not inside the file.
    """
    row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(i) for i in range(group.num_columns)]
        starts = [_first_byte(column) for column in columns] or [0]
        ends = [
            start + column.total_compressed_size
            for start, column in zip(starts, columns, strict=bool(columns))
        ] or [0]
        start, end = min(starts), max(ends)
        if not 0 <= start <= end <= size:
            raise ValueError(f"row group {number} is [{start}, {end}) of {size} bytes")
        yield _RowGroup(
            number=number,
            first_row=row,
            rows=group.num_rows,
            start=start,
            end=end,
            middle=min((start + end) // 2, size - 1),
        )
        row += group.num_rows


def _first_byte(column: pq.ColumnChunkMetaData) -> int:
    # Some writers give 0 as the place of a dictionary that is not there.
    dictionary, data = column.dictionary_page_offset, column.data_page_offset
    return int(dictionary) if dictionary and 0 < dictionary < data else int(data)


def _check_rows(row: int, group: _RowGroup) -> None:
    if row != group.first_row + group.rows:
        found = row - group.first_row
        raise ValueError(f"row group {group.number} has {found} rows, not {group.rows}")


def _chunk(columns: pa.RecordBatch, row: int) -> FileRecords:
    positions = np.arange(row, row + len(columns))
    return FileRecords(positions, partial(json_objects, columns), columns=columns)


class _CachedStream(RangedStream):
    """A Python file with some of its bytes held in memory."""

    def __init__(self, file: FileBytes, window_bytes: int) -> None:
        super().__init__(file)
        self._window_bytes = window_bytes
        self._held = b""
        self._held_from = 0

    def hold(self, start: int, end: int) -> None:
        """Read these bytes, and hold them instead of the previous ones."""
        self._held = b""
        windows: Sequence[bytes] = [
            self.read_range(offset, min(offset + self._window_bytes, end))
            for offset in range(start, end, self._window_bytes)
        ]
        self._held = b"".join(windows)
        self._held_from = start

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, from memory if all of them are there."""
        at = self.tell() - self._held_from
        if size is not None and at >= 0 and 0 <= size <= len(self._held) - at:
            self.seek(size, io.SEEK_CUR)
            return self._held[at : at + size]
        return super().read(size)
