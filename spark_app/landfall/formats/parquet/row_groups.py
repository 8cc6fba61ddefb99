"""Parquet files merged by row groups: large ones are copied as they are, other rows encoded again.

A file is copied as a whole, or all of its rows are encoded again. It is copied if its footer is one
that this version would write for these columns (``footers.likeness``), with the codec of the
options, if no row is left out, and if its row groups have on average at least ``1/LEAST_SHARE`` of
``rowGroupBytes``. So the row groups of the new file are of a good size, and small
files become row groups of full size, as before.

Rows that are encoded between copied ones are a run: Parquet's writer makes a file of each run, and
its row groups are appended as if it were one more file to copy. If nothing is copied there is only
one run, which is the new file.

The same files give the same bytes, like all of ``Parquet``.
"""

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from types import MappingProxyType
from typing import BinaryIO, Protocol

import pyarrow as pa

from landfall.api.spec import Codec
from landfall.formats.column_reading import copied, damage
from landfall.formats.merged_columns import ColumnFile, ColumnsMerger, ReadsColumns, WritesTables
from landfall.formats.merging import Mask
from landfall.formats.parquet.float_bounds import FloatBounds
from landfall.formats.parquet.footers import (
    MAGIC,
    MergedFile,
    NotCopiedError,
    WholeFile,
    footer_in,
    likeness,
    whole_file,
)
from landfall.memory_limit import bounded
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.decoders.thrift.trees import Tree

LEAST_SHARE = 4
"""A file is copied if its row groups have on average one of so many parts of ``rowGroupBytes``.

Row groups of a quarter make files 0.3 to 2 % larger than full ones, or 17 % where each has a
dictionary of many values; row groups of an eighth 1 to 4 %, or 34 % (ADR 103). Rows of 32 MiB of
JSON have often less than half as many bytes as columns, so full row groups may be that small.
"""
_SMALL_BYTES = 8 * 2**20
_CODECS: Mapping[Codec, int] = MappingProxyType(
    {Codec.NONE: 0, Codec.SNAPPY: 1, Codec.GZIP: 2, Codec.ZSTD: 6}
)
"""CompressionCodec of parquet.thrift."""


@contextmanager
def _held(source: BinaryIO) -> Iterator[tuple[BinaryIO, bytes | mmap]]:
    """A file that can be read at any place, and its bytes; only small ones are in memory."""
    first = source.read(_SMALL_BYTES)
    if len(first) < _SMALL_BYTES:
        yield io.BytesIO(first), first
        return
    with copied(source, begun=first) as file:
        del first
        file.flush()
        with mmap(file.fileno(), 0, access=ACCESS_READ) as data:
            yield file, data


class ReadsRowGroups(ReadsColumns, Protocol):
    """The format ``Parquet``."""

    @property
    def codec(self) -> Codec:
        """The codec of columns."""
        ...

    @property
    def packs_small_columns(self) -> bool:
        """Return whether small columns are compressed by Snappy."""
        ...

    def columns_in(self, file: BinaryIO) -> ColumnFile:
        """Read a file that can be read at any place. Raises ValueError if it is damaged."""
        ...

    def has_bounds(self, column: str) -> bool:
        """Return whether the footer has the bounds of a column of floating point numbers."""
        ...


class WritesRowGroups(WritesTables, Protocol):
    """Writes one Parquet file."""

    @property
    def floats(self) -> Mapping[str, FloatBounds]:
        """The bounds of what was written."""
        ...

    def empty(self, columns: pa.Schema, schema: RowSchema | None) -> bytes:
        """Return a file without rows."""
        ...


class RowGroupsMerger(ColumnsMerger):
    """Merges Parquet files.

    Attributes:
        copied_rows: how many rows were copied without being decoded.
    """

    def __init__(self, format_: ReadsRowGroups, encoder: Callable[[], WritesRowGroups]) -> None:
        """``encoder`` makes a writer of a file."""
        self._run = encoder()
        super().__init__(format_, self._run)
        self._parquet = format_
        self._new_encoder = encoder
        self._run_start = 0
        self._run_bytes = 0
        self._merged: MergedFile | None = None
        self._like: object = None
        self._floats: dict[str, FloatBounds] = {}
        self.copied_rows = 0

    def add(self, source: BinaryIO, kept: Mask | None = None) -> Iterator[bytes]:
        """See ``Merger``."""
        with _held(source) as (file, data):
            columns = self._parquet.columns_in(file)
            self._check_schema(columns)
            whole = self._whole(data, columns) if kept is None else None
            if whole is None:
                yield from self._add_rows(columns, kept)
            else:
                yield self._flush()
                yield from self._copy(whole)

    def finish(self) -> bytes:
        """See ``Merger``."""
        last = self._flush()
        if self._merged is None:
            return last + self._run.finish()
        return last + self._end_run(self._merged) + self._merged.finish(self._floats)

    def _whole(self, data: bytes | mmap, columns: ColumnFile) -> WholeFile | None:
        """Return the file if it can be copied; raises ValueError if it is damaged."""
        names = {
            field.name
            for field in columns.schema
            if pa.types.is_floating(field.type) and self._parquet.has_bounds(field.name)
        }
        small = {_CODECS[Codec.SNAPPY]} if self._parquet.packs_small_columns else set()
        codecs = frozenset({_CODECS[self._parquet.codec], *small})
        least = self._parquet.block_bytes // LEAST_SHARE
        try:
            with damage("Parquet file"), bounded():
                if self._like is None:
                    self._like = likeness(self._empty(columns))
                found = whole_file(data, self._like, codecs, least)
        except NotCopiedError:
            return None
        return found if found.floats.keys() == names else None

    def _empty(self, columns: ColumnFile) -> Tree:
        footer, _ = footer_in(self._new_encoder().empty(columns.schema, columns.own))
        return footer

    def _copy(self, whole: WholeFile) -> Iterator[bytes]:
        if self._merged is None:
            self._merged = MergedFile(whole.footer)
            self._merged.size = self._run_bytes
        yield self._end_run(self._merged)
        yield from self._merged.copy(whole)
        self._add_floats(whole.floats)
        self.copied_rows += whole.rows
        self.rows += whole.rows

    def _write(self, table: pa.Table) -> bytes:
        data = self._run.write(table, self._own)
        if self._merged is not None:
            if not self._run_bytes:
                # The file of the run begins with the magic bytes, which only a whole file needs.
                self._run_start = self._merged.size - len(MAGIC)
                data = data[len(MAGIC) :]
                self._run_bytes = len(MAGIC)
            self._merged.passed(data)
        self._run_bytes += len(data)
        return data

    def _end_run(self, merged: MergedFile) -> bytes:
        """Append the row groups of the run, if it has any; returns their Bloom filters."""
        if not self._run_bytes:
            return b""
        run, start = self._run, self._run_bytes
        tail = run.finish()
        footer, _ = footer_in(tail)
        self._add_floats(run.floats)
        shift, self._run_bytes = self._run_start, 0
        self._run = self._new_encoder()
        return merged.append(footer, shift, lambda at, size: tail[at - start : at - start + size])

    def _add_floats(self, floats: Mapping[str, FloatBounds]) -> None:
        for name, bounds in floats.items():
            self._floats[name] = self._floats.get(name, FloatBounds()) + bounds
