"""Format ``Parquet``: the envelope of each record as columns, or declared typed columns.

Without a schema the columns are ``topic, partition, offset, timestamp, key, value, headers``:
everything Kafka stores of a record, including tombstones and null keys. With a schema they are the
declared columns, followed by ``_topic, _partition, _offset, _timestamp`` unless ``envelope`` is
false. A schema is declared, never inferred from data.

| option | default | meaning |
|---|---|---|
| ``rowGroupBytes`` | ``32Mi`` | payload bytes in a row group, which the task buffers in memory |
| ``envelope`` | true | whether typed columns are followed by ``_topic`` to ``_timestamp`` |
| ``extension`` | ``.parquet`` | |
| codec | ``Zstd`` (level 3) | or ``Snappy``, ``Gzip``, ``None`` |

Without ``_offset`` objects cannot be verified against Kafka.

A block becomes a row group and is written at once; between two blocks the writer keeps only what
the footer will say about the row groups. Pages have checksums. The same blocks give the same bytes
as long as the version of Arrow, which the footer names, is the same.
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
"""The codecs, and the compression level of those that have one.

Arrow's default for gzip is level 9, which takes twice as long as 6 and hardly saves anything.
"""

_READ_ROWS = 1024
_WRITER_HELD_BYTES = 16 * 1024
"""The memory of an open writer: growth of the process, measured by tests/bench/bench_formats.py."""
_CHUNK_HELD_BYTES = 1200
"""The memory for each column of each row group that was written, measured in the same way."""


@dataclass(frozen=True)
class Parquet:
    """The format ``Parquet``."""

    block_bytes: int
    envelope: bool
    codec: Codec
    extension: str

    @classmethod
    def of(cls, options: Mapping[str, object]) -> "Parquet":
        """Build the format from ``spec.output``; ValueError names a wrong option."""
        unread = Options(options)
        parquet = cls(
            block_bytes=unread.quantity("rowGroupBytes", 32 * 2**20),
            envelope=unread.flag("envelope", default=True),
            codec=unread.choice("codec", Codec.ZSTD, LEVELS),
            extension=unread.extension(".parquet"),
        )
        unread.close()
        return parquet

    @property
    def wanted(self) -> Wanted:
        """The whole envelope; the registry adds the schema if the group declares one."""
        return Wanted(columns=True, timestamps=True, keys=True, headers=True)

    def refuse(self, records: Records) -> BadRows:
        """Return records whose headers cannot be read; all else fits in the columns."""
        headers = records.headers
        return text.bad_rows(
            (headers.is_null() if headers.null_count else None, UNREADABLE_HEADERS)
        )

    def encoder(self) -> Encoder:
        """Return an encoder for a new object."""
        return ParquetEncoder(self)

    def rows(self, stream: BinaryIO) -> Iterator[Row]:
        """Read an object back; raises ValueError if it is damaged.

        A row of declared columns is given as JSON, with binary values in base64.
        """
        # The footer comes last and a stream from a store cannot seek, hence the temporary file.
        with tempfile.TemporaryFile() as file:
            shutil.copyfileobj(stream, file)
            number = 0
            try:
                parquet = pq.ParquetFile(file, page_checksum_verification=True)
                for batch in parquet.iter_batches(_READ_ROWS):
                    for row in _rows(batch):
                        yield row
                        number += 1
            except (pa.ArrowException, OSError) as error:
                raise ValueError(
                    f"damaged Parquet file, at row {number} or later: {error}"
                ) from error


class _Buffer:
    """The file Arrow writes to; ``take`` returns what was written since the last call."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self._written.append(bytes(data))

    def flush(self) -> None:
        """Does nothing: nothing is buffered elsewhere. Arrow calls it."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        written, self._written = self._written, []
        return b"".join(written)


class ParquetEncoder:
    """Writes one Parquet file."""

    def __init__(self, parquet: Parquet) -> None:
        self._parquet = parquet
        self._buffer = _Buffer()
        self._writer: pq.ParquetWriter | None = None
        self._columns = 0
        self._row_groups = 0

    def encode(self, block: Block) -> bytes:
        """Return the block as a row group."""
        rows = len(block.records)
        if rows:
            table = self._table(block)
            self._writer = self._writer or self._open(table.schema)
            self._writer.write_table(table, row_group_size=rows)
            self._row_groups += 1
        return self._buffer.take()

    def finish(self) -> bytes:
        """Return the footer."""
        (self._writer or self._open(ENVELOPE)).close()
        return self._buffer.take()

    @property
    def held_bytes(self) -> int:
        """The memory of the writer, and of each row group's entry in the footer."""
        return _WRITER_HELD_BYTES + _CHUNK_HELD_BYTES * self._columns * self._row_groups

    def _open(self, schema: pa.Schema) -> pq.ParquetWriter:
        self._columns = len(schema)
        is_envelope = schema.equals(ENVELOPE)
        # Payloads seldom repeat, so a dictionary and minimum and maximum of them
        # would be wasted work.
        return pq.ParquetWriter(
            pa.PythonFile(self._buffer, mode="w"),
            schema,
            compression=self._parquet.codec.lower(),
            compression_level=LEVELS[self._parquet.codec],
            use_dictionary=["topic", "partition", "key"] if is_envelope else True,
            column_encoding={"offset": "DELTA_BINARY_PACKED", "timestamp": "DELTA_BINARY_PACKED"}
            if is_envelope
            else None,
            write_statistics=[*COORDINATES, "key"] if is_envelope else True,
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
                f"{records.topic_partition}: two columns have the same name among"
                f" {', '.join(names)}"
            )
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def envelope(records: Records) -> list[pa.Array]:
    """Return the columns of ``ENVELOPE`` for these records."""
    return [*_coordinates(records), records.keys, records.values, records.headers]


def _coordinates(records: Records) -> list[pa.Array]:
    rows, tp = len(records), records.topic_partition
    times = pa.array(records.timestamps, pa.int64(), mask=records.timestamps == -1).cast(TIMESTAMP)
    return [
        pa.repeat(tp.topic, rows),
        pa.repeat(np.int32(tp.partition), rows),
        pa.array(records.offsets),
        times,
    ]


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    is_envelope = batch.schema.names == ENVELOPE.names
    prefix = "" if is_envelope else "_"
    offsets, times = (_integers(batch, prefix + name) for name in ("offset", "timestamp"))
    if is_envelope:
        values, keys = batch["value"].to_pylist(), batch["key"].to_pylist()
    else:
        coordinates = [f"_{name}" for name in COORDINATES if f"_{name}" in batch.schema.names]
        rows = batch.drop_columns(coordinates).to_pylist()
        values, keys = [msgspec.json.encode(row) for row in rows], [None] * len(batch)
    for offset, value, key, time in zip(offsets, values, keys, times, strict=True):
        yield Row(offset, value, key, time)


def _integers(batch: pa.RecordBatch, name: str) -> list[int | None]:
    stored = name in batch.schema.names
    return batch[name].cast(pa.int64()).to_pylist() if stored else [None] * len(batch)
