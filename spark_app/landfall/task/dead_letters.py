"""Records that could not be landed, kept whole: where they were, what they held, at which stage they failed and why.

They make ordinary objects of the slice, Parquet under ``layout.dead_letter_key``, written within
the same budget. The columns are those of the Parquet envelope (``topic, partition, offset,
timestamp, key, value, headers``, the value being the original bytes), then ``stage`` and ``error``.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from landfall.formats import Block, Encoder
from landfall.formats.parquet import ENVELOPE, Parquet, envelope
from landfall.pipeline.records import HEADERS, UNREADABLE_HEADERS, Records, of_columns
from landfall.task.partitioning import BadRecord
from landfall.task.rows import Layout

BLOCK_BYTES = 4 * 2**20
LAYOUT = Layout(timestamps=True, keys=True, headers=True)

_FORMAT = Parquet.of({"envelope": False})


class DeadLetterEncoder:
    """Writes dead letters as Parquet."""

    def __init__(self) -> None:
        self._parquet: Encoder = _FORMAT.encoder()

    def encode(self, block: Block) -> bytes:
        """The letters, a row group."""
        assert block.columns is not None
        whole = pa.RecordBatch.from_arrays(
            [*envelope(block.records), *block.columns.columns],
            schema=pa.schema([*ENVELOPE, *block.columns.schema]),
        )
        return self._parquet.encode(Block(block.records, whole))

    def finish(self) -> bytes:
        """Parquet's footer."""
        return self._parquet.finish()

    @property
    def held_bytes(self) -> int:
        """What the Parquet writer holds."""
        return self._parquet.held_bytes


def letters(records: Records, bad: Sequence[BadRecord]) -> pa.RecordBatch:
    """The bad records of a chunk, as rows of ``LAYOUT``; headers that cannot be read are left out, and that is said."""
    fallen = records.take(np.array([record.row for record in bad], np.int64))
    errors = [record.error for record in bad]
    headers = fallen.headers
    if headers.null_count:
        told = headers.to_pylist()
        errors = [
            _told(error) if found is None else error
            for error, found in zip(errors, told, strict=True)
        ]
        headers = pa.array([found or [] for found in told], HEADERS)
    said = {"stage": [record.stage for record in bad], "error": errors}
    whole = of_columns(
        fallen.topic_partition,
        fallen.offsets,
        fallen.values,
        timestamps=fallen.timestamps,
        keys=fallen.keys,
        headers=headers,
    )
    return LAYOUT.rows(whole, pa.RecordBatch.from_pydict(said))


def _told(error: str) -> str:
    return (
        f"{error}; headers are left out"
        if error == UNREADABLE_HEADERS
        else f"{error}; headers are left out: {UNREADABLE_HEADERS}"
    )
