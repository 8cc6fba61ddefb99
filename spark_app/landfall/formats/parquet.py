"""Parquet: the envelope of each record as columns, or typed columns when the group declares a schema.

Without a schema the columns are ``topic, partition, offset, timestamp, key, value, headers``:
everything Kafka knows of a record, tombstones and null keys included. With one they are the
declared columns, and, unless ``envelope`` is off, ``_topic, _partition, _offset, _timestamp`` after
them. A schema is declared, never guessed from data.

| option | default | |
|---|---|---|
| ``rowGroupBytes`` | ``32Mi`` | payload bytes in a row group, which are in memory while they gather |
| ``envelope`` | true | whether typed columns get their coordinates too; without ``_offset`` objects cannot be verified |
| ``extension`` | ``.parquet`` | |
| codec | ``Zstd`` | (level 3) or ``Snappy``, ``Gzip``, ``None`` |

A block is a row group, written when it comes; between two blocks the writer keeps their places for
the footer only. Pages carry checksums. The same blocks give the same bytes as long as Arrow's
version is the same, which the footer names.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import BinaryIO

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.api.spec import Codec
from landfall.formats import Block, Encoder, Row, text
from landfall.formats.options import Options
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.records import HEADERS, UNREADABLE_HEADERS, BadRows, Records

TIMESTAMP = pa.timestamp("ms", tz="UTC")
COORDINATES = ("topic", "partition", "offset", "timestamp")
ENVELOPE = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
    ]
)
LEVELS: Mapping[Codec, int | None] = MappingProxyType(
    {Codec.ZSTD: 3, Codec.SNAPPY: None, Codec.GZIP: 6, Codec.NONE: None}
)
"""Codecs, with the level where there is one. Arrow's own default for gzip is 9, half as fast as 6
for nothing.
"""

_READ_ROWS = 1024
_WRITER_HELD_BYTES = 16 * 1024
_CHUNK_HELD_BYTES = 1200
"""Of a writer, and of each column of each row group it wrote: growth of the process, measured by
tests/bench/bench_formats.py.
"""


@dataclass(frozen=True)
class Parquet:
    """The format ``Parquet``."""

    block_bytes: int
    envelope: bool
    codec: Codec
    extension: str

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "Parquet":
        """Build it from ``spec.output``'s codec and options; ValueError names a wrong one."""
        left = Options(options)
        parquet = cls(
            block_bytes=left.quantity("rowGroupBytes", 32 * 2**20),
            envelope=left.flag("envelope", default=True),
            codec=left.choice("codec", Codec.ZSTD, LEVELS),
            extension=left.extension(".parquet"),
        )
        left.close()
        return parquet

    @property
    def wanted(self) -> Wanted:
        """The whole envelope; the schema, if there is one, is the decoder's."""
        return Wanted(timestamps=True, keys=True, headers=True)

    def refuse(self, records: Records) -> BadRows:
        """Records whose headers cannot be read: the envelope holds everything else, and typed columns what was decoded."""
        headers = records.headers
        return text.refused((headers.is_null() if headers.null_count else None, UNREADABLE_HEADERS))

    def encoder(self) -> Encoder:
        """An encoder for a new object."""
        return ParquetEncoder(self)

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back; ValueError if it is damaged. Copied to a temporary file first: the footer comes last.

        A row of declared columns comes as JSON, binary ones in it as base64.
        """
        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(stream, file)
            row = 0
            try:
                for batch in pq.ParquetFile(file, page_checksum_verification=True).iter_batches(
                    _READ_ROWS
                ):
                    for found in _rows(batch):
                        yield found
                        row += 1
            except (pa.ArrowException, OSError) as error:
                raise ValueError(f"damaged Parquet file, at row {row} or later: {error}") from error


class _Sink:
    """Where Arrow writes, and from where the bytes are taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.closed = False

    def write(self, piece: bytes) -> None:
        self._pieces.append(bytes(piece))

    def flush(self) -> None:
        """Nothing waits elsewhere."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class ParquetEncoder:
    """Writes one Parquet file."""

    def __init__(self, parquet: Parquet) -> None:
        self._parquet = parquet
        self._sink = _Sink()
        self._writer: pq.ParquetWriter | None = None
        self._columns = 0
        self._row_groups = 0

    def encode(self, block: Block) -> bytes:
        """The block as a row group."""
        rows = len(block.records)
        if rows:
            table = self._table(block)
            self._writer = self._writer or self._open(table.schema)
            self._writer.write_table(table, row_group_size=rows)
            self._row_groups += 1
        return self._sink.take()

    def finish(self) -> bytes:
        """The footer."""
        (self._writer or self._open(ENVELOPE)).close()
        return self._sink.take()

    @property
    def held_bytes(self) -> int:
        """The writer, and each row group's part of the footer to come."""
        return _WRITER_HELD_BYTES + _CHUNK_HELD_BYTES * self._columns * self._row_groups

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        self._columns = len(schema)
        enveloped = schema.equals(ENVELOPE)
        # payloads seldom repeat: a dictionary and least and greatest values of them would be work
        # for nothing
        return pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            schema,
            compression=self._parquet.codec.lower(),
            compression_level=LEVELS[self._parquet.codec],
            use_dictionary=["topic", "partition", "key"] if enveloped else True,
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
            if enveloped
            else None,
            write_statistics=[*COORDINATES, "key"] if enveloped else True,
            write_page_checksum=True,
            store_schema=False,
        )

    def _table(self, block: Block) -> pa.Table:
        records, typed = block.records, block.columns
        if typed is None:
            return pa.Table.from_arrays(envelope(records), schema=ENVELOPE)
        fields, columns = list(typed.schema.remove_metadata()), list(typed.columns)
        if self._parquet.envelope:
            fields += [ENVELOPE.field(name).with_name(f"_{name}") for name in COORDINATES]
            columns += _coordinates(records)
        names = [field.name for field in fields]
        if len(set(names)) < len(names):
            raise ValueError(
                f"{records.topic_partition}: two columns of one name among {', '.join(names)}"
            )
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def envelope(records: Records) -> list[pa.Array]:
    """The columns of ``ENVELOPE``."""
    return [*_coordinates(records), records.keys, records.values, records.headers]


def _coordinates(records: Records) -> list[pa.Array]:
    rows, where = len(records), records.topic_partition
    times = pa.array(records.timestamps, pa.int64(), mask=records.timestamps == -1).cast(TIMESTAMP)
    return [
        pa.repeat(where.topic, rows),
        pa.repeat(np.int32(where.partition), rows),
        pa.array(records.offsets),
        times,
    ]


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    enveloped = batch.schema.names == ENVELOPE.names
    mark = "" if enveloped else "_"
    offsets, times = (_integers(batch, mark + name) for name in ("offset", "timestamp"))
    if enveloped:
        values, keys = batch["value"].to_pylist(), batch["key"].to_pylist()
    else:
        coordinates = [f"_{name}" for name in COORDINATES if f"_{name}" in batch.schema.names]
        rows = batch.drop_columns(coordinates).to_pylist()
        values, keys = [msgspec.json.encode(row) for row in rows], [None] * len(batch)
    for offset, value, key, time in zip(offsets, values, keys, times, strict=True):
        yield Row(offset, value, key, time)


def _integers(batch: pa.RecordBatch, name: str) -> list[int | None]:
    there = name in batch.schema.names
    return batch[name].cast(pa.int64()).to_pylist() if there else [None] * len(batch)
