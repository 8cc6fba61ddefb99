"""Format ``Orc``: the envelope of each record as columns, or typed columns, as in ``Parquet``.

| option | default | meaning |
|---|---|---|
| ``stripeBytes`` | ``32Mi`` | payload, key and header bytes in a stripe, about, kept in memory |
| ``envelope`` | true | whether typed columns are followed by ``_topic`` to ``_timestamp`` |
| ``sortBy`` | none | columns that sort the rows of each stripe; ``-name``: descending |
| ``dictionary`` | true | whether texts that repeat are encoded by a dictionary |
| ``timestamps`` | ``Instant`` | or ``Utc``: without a zone, for Hive before version 4, see below |
| ``extension`` | ``.orc`` | |
| codec | ``Zstd`` | or ``Snappy``, ``Deflate`` (ORC's ZLIB), ``None`` |

Columns and their names are as in ``Parquet``. What ORC has no type for is stored otherwise:

===========================  =====================================================
Arrow type                   stored as
===========================  =====================================================
time                         string, such as ``04:05:06.007``
unsigned integer             the next wider integer; of 64 bits a decimal(20, 0)
===========================  =====================================================

Timestamps in UTC are ORC's ``timestamp with local time zone``, all other timestamps its
``timestamp``. Readers with ORC before 1.6, such as Hive 2 and 3, refuse files with the
former; with ``Utc`` they are ``timestamp``, too, and hold the time in UTC, which a reader takes for
its own time. Rows with values that not every reader can hold are refused: ``unreadable`` lists
them. ORC's writer decides when a stripe is full, and holds it until then; where memory is short the
object is sealed. The same blocks give the same bytes as long as the version of Arrow is the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import BinaryIO, ClassVar

import pyarrow as pa
from pyarrow import orc

from landfall.api.spec import Codec
from landfall.formats import Block, Encoder, column_reading, unreadable
from landfall.formats.column_files import Buffer, ColumnFiles
from landfall.formats.column_reading import ColumnsReader, copied
from landfall.formats.columns import (
    ENVELOPE,
    Convert,
    as_leaf,
    storable,
)
from landfall.formats.merged_columns import READ_ROWS, ColumnFile, ColumnsMerger, described
from landfall.formats.merging import ReadRange
from landfall.formats.options import FormatOptions, SortKey
from landfall.pipeline.decoders.row_schemas import RowSchema

CODECS: Mapping[Codec, str] = MappingProxyType(
    {
        Codec.ZSTD: "zstd",
        Codec.SNAPPY: "snappy",
        Codec.DEFLATE: "zlib",
        Codec.NONE: "uncompressed",
    }
)
_WRITER_HELD_BYTES = 1 << 20
"""The memory of an open writer with its empty compression buffers, about."""
_DICTIONARY_RATIO = 0.8
"""Distinct texts per text up to which ORC writes a dictionary, as in Hive."""


class Timestamps(StrEnum):
    """How timestamps in UTC are stored."""

    INSTANT = "Instant"
    UTC = "Utc"


@dataclass(frozen=True)
class OrcFormat(ColumnFiles):
    """The format ``Orc``."""

    block_bytes: int
    envelope: bool
    codec: Codec
    extension: str
    sort_by: tuple[SortKey, ...] = ()
    dictionary: bool = True
    timestamps: Timestamps = Timestamps.INSTANT
    is_typed: bool = False
    wrong: ClassVar[unreadable.Wrong] = unreadable.wrong_in_orc
    error: ClassVar[str] = unreadable.ORC_ERROR
    open: ClassVar[Callable[[BinaryIO], ColumnsReader]] = column_reading.orc

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "OrcFormat":
        """Build the format from ``spec.output``; ValueError names a wrong option."""
        unread = FormatOptions(options)
        made = cls(
            block_bytes=unread.quantity("stripeBytes", 32 * 2**20),
            envelope=unread.flag("envelope", default=True),
            codec=unread.choice("codec", Codec.ZSTD, CODECS),
            extension=unread.extension(".orc"),
            sort_by=unread.sort_keys("sortBy"),
            dictionary=unread.flag("dictionary", default=True),
            timestamps=unread.choice("timestamps", Timestamps.INSTANT),
        )
        unread.close()
        return made

    @property
    def named_columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns that options name, by option."""
        return {"sortBy": tuple(key.column for key in self.sort_by)}

    def typed(self) -> "OrcFormat":
        """Return the format for typed columns, which needs neither keys nor headers."""
        return replace(self, is_typed=True)

    def encoder(self) -> Encoder:
        """Return an encoder for a new object."""
        return OrcEncoder(self)

    def sorted_by(self, column: str) -> "OrcFormat":
        """Return the format whose rows are sorted by a column."""
        return replace(self, sort_by=(SortKey(column, descending=False),))

    def merger(self) -> ColumnsMerger:
        """Return what merges objects; stripes are written again."""
        return ColumnsMerger(self, OrcEncoder(self))

    @contextmanager
    def opened(
        self, source: BinaryIO, columns: Sequence[str] | None = None
    ) -> Iterator[ColumnFile]:
        """Read an object, or some of its columns; raises ValueError if it is damaged."""
        with copied(source) as file:
            found = column_reading.orc(file)
            yield ColumnFile(found.schema, None, found.batches(READ_ROWS, columns))

    def schema_of(self, read: ReadRange, size: int) -> str:
        """Return a text that identifies an object's columns."""
        return described(column_reading.orc(pa.BufferReader(read(0, size))).schema, None)


class OrcEncoder:
    """Writes one ORC file."""

    def __init__(self, format_: OrcFormat) -> None:
        self._format = format_
        self._buffer = Buffer()
        self._writer: orc.ORCWriter | None = None
        self._unwritten = 0

    def encode(self, block: Block) -> bytes:
        """Return what the writer has finished, which may be nothing."""
        if len(block.records):
            return self.write(self._table(block), block.schema)
        return self._written()

    def write(self, table: pa.Table, schema: RowSchema | None) -> bytes:  # noqa: ARG002  # no file names it
        """Write rows as they are stored; returns what is finished."""
        self._writer = self._writer or self._open()
        self._writer.write(table)
        self._unwritten += table.nbytes
        return self._written()

    def _written(self) -> bytes:
        written = self._buffer.take()
        if written[len(_MAGIC) :]:
            self._unwritten = 0
        return written

    def finish(self) -> bytes:
        """Return the last stripe and the footer."""
        if self._writer is None:
            self._writer = self._open()
            self._writer.write(ENVELOPE.empty_table())
        self._writer.close()
        return self._buffer.take()

    @property
    def held_bytes(self) -> int:
        """The memory of the writer, and of rows that are in no stripe yet, which it compresses."""
        return _WRITER_HELD_BYTES + min(self._unwritten, 2 * self._format.block_bytes)

    def _open(self) -> orc.ORCWriter:
        format_ = self._format
        return orc.ORCWriter(
            pa.PythonFile(self._buffer, mode="w"),
            compression=CODECS[format_.codec],
            stripe_size=format_.block_bytes,
            dictionary_key_size_threshold=_DICTIONARY_RATIO if format_.dictionary else 0.0,
        )

    def _table(self, block: Block) -> pa.Table:
        made = self._format.table(block).combine_chunks()
        convert = _LEAVES[self._format.timestamps]
        columns = [storable(column.chunk(0), convert) for column in made.columns]
        return pa.Table.from_arrays(columns, made.schema.names)


_MAGIC = b"ORC"


def _as_orc(column: pa.Array) -> pa.Array:
    """Return a column of a type without inner types as ORC has it."""
    column, type_ = as_leaf(column), column.type
    if pa.types.is_time(type_):
        return column.cast(pa.string())
    if pa.types.is_unsigned_integer(type_):
        wider = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.decimal128(20, 0)}
        return column.cast(wider[type_.bit_width])
    return column


def _without_zone(column: pa.Array) -> pa.Array:
    """Return the same with times in UTC and no zone."""
    column = _as_orc(column)
    is_zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp(column.type.unit)) if is_zoned else column


_LEAVES: Mapping[Timestamps, Convert] = MappingProxyType(
    {Timestamps.INSTANT: _as_orc, Timestamps.UTC: _without_zone}
)
