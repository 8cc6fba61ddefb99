"""Records that could not be landed, kept whole: where they were, what they held, at which stage they failed and why.

They make ordinary objects of the slice, Parquet under ``layout.dead_letter_key``, written within the same budget. The
columns are those of the Parquet envelope (``topic, partition, offset, timestamp, key, value, headers``, the value being
the original bytes), then ``stage`` and ``error``.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from landfall.formats import Block, Encoder
from landfall.formats.parquet import ENVELOPE, Parquet, envelope
from landfall.records import Records
from landfall.sink.rows import Layout
from landfall.sink.sorting import BadRecord

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
            [*envelope(block.records), *block.columns.columns], schema=pa.schema([*ENVELOPE, *block.columns.schema])
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
    """The bad records of a chunk, as rows of ``LAYOUT``."""
    fallen = records.take(np.array([record.row for record in bad], np.int64))
    said = {"stage": [record.stage for record in bad], "error": [record.error for record in bad]}
    return LAYOUT.rows(fallen, pa.RecordBatch.from_pydict(said))
