"""Files of columns, ``Parquet`` and ``Orc``, merged: rows of several in row groups of full size.

Parquet's large row groups are copied instead (``parquet.row_groups``).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, Protocol

import pyarrow as pa

from landfall.formats.external_sort import Keyed, RowSorter
from landfall.formats.merging import Keys, Mask, NotMergeableError, ReadRange
from landfall.formats.sort_keys import column_sort_keys, field_at
from landfall.pipeline.decoders.row_schemas import RowSchema

READ_ROWS = 16_384
"""Rows that are read at once, of one row group."""


@dataclass(frozen=True)
class ColumnFile:
    """A file that is being read.

    Attributes:
        schema: its columns.
        own: the payloads' schema that it names; None if it names none.
        batches: its rows, or some of their columns.
    """

    schema: pa.Schema
    own: RowSchema | None
    batches: Iterator[pa.RecordBatch]


class ReadsColumns(Protocol):
    """A format of columns."""

    @property
    def block_bytes(self) -> int:
        """How many bytes of columns make a good row group."""
        ...

    @property
    def keeps_order(self) -> bool:
        """Return whether rows are in the order in which they are written."""
        ...

    def opened(
        self, source: BinaryIO, columns: Sequence[str] | None = None
    ) -> AbstractContextManager[ColumnFile]:
        """Read a file; only these columns if any are named. Raises ValueError if it is damaged."""
        ...

    def sorted_by(self, column: str) -> "ReadsColumns":
        """The same format with another ``sortBy``."""
        ...

    def merger(self) -> "ColumnsMerger":
        """See ``Merger``."""
        ...

    def in_order(self, table: pa.Table) -> pa.Table:
        """The rows of a row group as the options sort them."""
        ...

    def schema_of(self, read: ReadRange, size: int) -> str:
        """See ``Merger``."""
        ...


class WritesTables(Protocol):
    """Writes one file of columns."""

    def write(self, table: pa.Table, schema: RowSchema | None) -> bytes:
        """Write rows as one row group; returns the next bytes of the file."""
        ...

    def finish(self) -> bytes:
        """The last bytes of the file."""
        ...


class ColumnsMerger:
    """Merges files of columns."""

    def __init__(self, format_: ReadsColumns, encoder: WritesTables) -> None:
        """``encoder`` has written nothing yet."""
        self._format = format_
        self._encoder = encoder
        self._schema: pa.Schema | None = None
        self._own: RowSchema | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._gathered_bytes = 0
        self.rows = 0

    @property
    def keeps_order(self) -> bool:
        """See ``Merger``."""
        return self._format.keeps_order

    def schema_of(self, read: ReadRange, size: int) -> str:
        """See ``Merger``."""
        return self._format.schema_of(read, size)

    def keys(self, source: BinaryIO, path: tuple[str, ...]) -> Iterator[Keys]:
        """See ``Merger``."""
        for batch in self._batches(source, path):
            yield column_keys(batch, path)

    def add(self, source: BinaryIO, kept: Mask | None = None) -> Iterator[bytes]:
        """See ``Merger``."""
        with self._format.opened(source) as file:
            self._check_schema(file)
            yield from self._add_rows(file, kept)

    def _add_rows(self, file: ColumnFile, kept: Mask | None) -> Iterator[bytes]:
        row = 0
        for batch in file.batches:
            chosen = batch
            if kept is not None:
                chosen = batch.filter(pa.array(kept[row : row + len(batch)]))
            row += len(batch)
            yield from self._gather(chosen)
        self.rows += row

    def finish(self) -> bytes:
        """See ``Merger``."""
        return self._flush() + self._encoder.finish()

    def sorter(self, path: tuple[str, ...], memory: int) -> RowSorter:
        """See ``Sorter``; rows are sorted by this field instead of by the options."""
        own = self._format.sorted_by(".".join(path)).merger()
        return own._sorter(path, memory)  # noqa: SLF001  # of the same class

    def _sorter(self, path: tuple[str, ...], memory: int) -> RowSorter:
        return RowSorter(partial(self._keyed, path), self._sorted, memory)

    def _sorted(self, tables: Iterator[pa.Table]) -> Iterator[bytes]:
        for table in tables:
            for batch in table.to_batches():
                yield from self._gather(batch)
        yield self.finish()

    def _keyed(self, path: tuple[str, ...], source: BinaryIO) -> Iterator[Keyed]:
        with self._format.opened(source) as file:
            self._check_schema(file)
            for batch in file.batches:
                yield column_sort_keys(batch, path), batch

    def _batches(self, source: BinaryIO, path: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        with self._format.opened(source, (path[0], ".".join(path))) as file:
            yield from file.batches

    def _check_schema(self, file: ColumnFile) -> None:
        if self._schema is None:
            self._schema = file.schema
            self._own = file.own
        elif not (file.schema.equals(self._schema) and file.own == self._own):
            raise NotMergeableError("its columns differ from the objects before it")

    def _gather(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        if not len(batch):
            return
        if self._gathered and self._gathered_bytes + batch.nbytes > self._format.block_bytes:
            yield self._flush()
        self._gathered.append(batch)
        self._gathered_bytes += batch.nbytes

    def _flush(self) -> bytes:
        if not self._gathered:
            return b""
        table = pa.Table.from_batches(self._gathered, self._schema)
        self._gathered = []
        self._gathered_bytes = 0
        return self._write(self._format.in_order(table))

    def _write(self, table: pa.Table) -> bytes:
        return self._encoder.write(table, self._own)


def described(schema: pa.Schema, metadata: Mapping[bytes, bytes] | None) -> str:
    """Return a text that identifies a schema."""
    return f"{schema.remove_metadata()}\n{sorted((metadata or {}).items())}"


def column_keys(batch: pa.RecordBatch, path: tuple[str, ...]) -> Keys:
    """The keys of rows: a column of the whole name, or the field at the path.

    Raises:
        NotMergeableError: rows cannot be compared by it.
    """
    column = field_at(batch, path)
    return [None] * len(batch) if column is None else _comparable(".".join(path), column)


def _is_bytes(type_: pa.DataType) -> bool:
    types = pa.types
    is_plain: bool = types.is_binary(type_) or types.is_large_binary(type_)
    return is_plain or bool(types.is_fixed_size_binary(type_) or types.is_binary_view(type_))


def _comparable(name: str, column: pa.Array) -> Keys:
    """The values as bytes, which are equal if and only if they are."""
    type_ = column.type
    if pa.types.is_nested(type_):
        raise NotMergeableError(f"rows cannot be compared by {name}, which is a {type_}")
    try:
        if pa.types.is_temporal(type_):
            column = column.cast(pa.int32() if type_.bit_width == 32 else pa.int64())
        if not _is_bytes(column.type):
            column = column.cast(pa.string())
        column = column.cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        # What Arrow cannot cast is no sign that the object is damaged.
        raise NotMergeableError(
            f"rows cannot be compared by {name}, which is a {type_}: {error}"
        ) from error
    found: list[bytes | None] = column.to_pylist()
    return found
