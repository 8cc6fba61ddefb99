"""Dead letters: records that could not be landed, stored with the stage that failed and why.

They are ordinary objects of the slice, Parquet files under ``object_names.dead_letter_key``, and
count against the same memory budget. The columns are those of the Parquet envelope (``topic,
partition, offset, timestamp, key, value, headers``, where the value is the original payload), then
``stage`` and ``error``.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from landfall.formats import Block, Encoder
from landfall.formats.columns import ENVELOPE, envelope
from landfall.formats.parquet import Parquet
from landfall.pipeline.records import HEADERS, UNREADABLE_HEADERS, Records, of_columns
from landfall.task.partitioning import BadRecord
from landfall.task.rows import ChosenRows, Layout

BLOCK_BYTES = 4 * 2**20
LAYOUT = Layout(timestamps=True, keys=True, headers=True)

_FORMAT = Parquet.of({"envelope": False})


class DeadLetterEncoder:
    """Writes dead letters as Parquet."""

    def __init__(self) -> None:
        self._parquet: Encoder = _FORMAT.encoder()

    def encode(self, block: Block) -> bytes:
        """Return the dead letters as a row group."""
        assert block.columns is not None, "LAYOUT.rows was given the columns stage and error"
        whole = pa.RecordBatch.from_arrays(
            [*envelope(block.records), *block.columns.columns],
            schema=pa.schema([*ENVELOPE, *block.columns.schema]),
        )
        return self._parquet.encode(Block(block.records, whole))

    def finish(self) -> bytes:
        """Return Parquet's footer."""
        return self._parquet.finish()

    @property
    def held_bytes(self) -> int:
        """The memory of the Parquet encoder."""
        return self._parquet.held_bytes


def dead_letter_rows(records: Records, bad: Sequence[BadRecord]) -> ChosenRows:
    """Return the bad records of a chunk as rows of ``LAYOUT``.

    Headers that cannot be read are left out, and the row's error says so.
    """
    rejected = records.take(np.array([record.row for record in bad], np.int64))
    errors = [f"{b.error}: {b.detail}" if b.detail else b.error for b in bad]
    headers = rejected.headers
    if headers.null_count:
        listed = headers.to_pylist()
        errors = [
            _without_headers(error) if of_row is None else error
            for error, of_row in zip(errors, listed, strict=True)
        ]
        headers = pa.array([of_row or [] for of_row in listed], HEADERS)
    columns = {"stage": [record.stage for record in bad], "error": errors}
    whole = of_columns(
        rejected.topic_partition,
        rejected.offsets,
        rejected.values,
        timestamps=rejected.timestamps,
        keys=rejected.keys,
        headers=headers,
    )
    return ChosenRows(LAYOUT.rows(whole, pa.RecordBatch.from_pydict(columns)))


def _without_headers(error: str) -> str:
    return (
        f"{error}; headers are left out"
        if error == UNREADABLE_HEADERS
        else f"{error}; headers are left out: {UNREADABLE_HEADERS}"
    )
