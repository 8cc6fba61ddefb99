"""The rows of a landed object as Arrow batches, with all that its format stores of a record."""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from landfall.formats.column_reading import copied, damage, parquet
from landfall.formats.sequencefile import landed
from landfall.memory_limit import bounded
from landfall.pipeline.records import HEADERS

ROWS = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
"""Columns of a batch: the Kafka timestamp is in milliseconds, -1 for none; headers are never null.
"""
BATCH_ROWS = 4096
"""How many rows of a Parquet file are in memory at once, but for those of a sorted row group."""
_NO_HEADERS = pa.nulls(0, HEADERS).values


def of_sequence_file(stream: BinaryIO, start: int = 0) -> Iterator[pa.RecordBatch]:
    """The rows of a SequenceFile, a batch for each of its blocks.

    Args:
        stream: the object.
        start: values of rows with smaller offsets may be null.

    Raises:
        ValueError: it is damaged, or its keys have no offsets.
    """
    for rows in landed.columns(stream, start):
        no_headers = pa.ListArray.from_arrays(
            np.zeros(len(rows.offsets) + 1, np.int32), _NO_HEADERS
        )
        columns = [
            pa.array(rows.offsets),
            pa.array(rows.timestamps),
            rows.keys,
            rows.values,
            no_headers.cast(HEADERS),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=ROWS)


def of_parquet(stream: BinaryIO, *, is_sorted: bool) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file with the columns of the whole record, as of dead letters.

    Args:
        stream: the object; it is copied to a temporary file, for its footer comes last.
        is_sorted: whether each row group is sorted by something else than the offset.

    Raises:
        ValueError: it is damaged, or has other columns.
    """
    with copied(stream) as file, damage("Parquet file"):
        found = parquet(file)
        if missing := {*ROWS.names} - {*found.schema.names}:
            raise ValueError(f"it has no column {min(missing)}")
        for group in found.by_group(BATCH_ROWS, ROWS.names):
            yield from map(_of_envelope, _in_order(group) if is_sorted else group)


def _in_order(group: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if batches := [*group]:
        with bounded():
            table = pa.Table.from_batches(batches).sort_by("offset")
        yield from table.to_batches(BATCH_ROWS)


def _of_envelope(batch: pa.RecordBatch) -> pa.RecordBatch:
    times = batch["timestamp"].cast(pa.timestamp("ms")).cast(pa.int64()).fill_null(-1)
    columns = [
        batch["offset"],
        times,
        batch["key"],
        batch["value"],
        batch["headers"].cast(HEADERS),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)
