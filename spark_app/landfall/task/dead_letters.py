"""Dead letters: records that could not be landed, stored with the stage that failed and why.

They are ordinary objects of the slice, Parquet files under ``object_names.dead_letter_key``, and
count against the same memory budget. The columns are as in the Parquet envelope (``topic,
partition, offset, timestamp, key, value, headers``, where the value is the original payload), then
``stage`` and ``error``.

They keep the rules of landed objects: what a reader cannot hold, and would fail for the whole file,
is left out of its column. The error names it then, so that nothing is lost: headers that cannot be
read, and a Kafka timestamp over 290,000 years from 1970, whose column is null.
"""

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from landfall.formats import Block, Encoder, unreadable
from landfall.formats.columns import ENVELOPE, envelope, wrong_timestamps
from landfall.formats.parquet import ParquetFormat
from landfall.pipeline.records import HEADERS, UNREADABLE_HEADERS, Records, of_columns
from landfall.task.partitioning import BadRecord
from landfall.task.rows import ChosenRows, RowLayout

BLOCK_BYTES = 4 * 2**20
LAYOUT = RowLayout(timestamps=True, keys=True, headers=True)

_FORMAT = ParquetFormat.of({"envelope": False})
_LEFT_OUT = "; Kafka timestamp {} is left out"
_TIMESTAMP = re.compile(r"; Kafka timestamp (-?[0-9]{1,19}) is left out\Z")
_LAST = 2**63 - 1
"""The last time that Kafka's records can have."""


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


def dead_letter_rows(
    records: Records, bad: Sequence[BadRecord], layout: RowLayout = LAYOUT
) -> ChosenRows:
    """Return the bad records of a chunk as rows of ``LAYOUT``, or of it by older landing rules.

    Headers and Kafka timestamps that cannot be read are left out, and the row's error names them.
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
    wrong = wrong_timestamps(rejected, unreadable.wrong_in_parquet)
    if wrong is not None:
        for row in np.flatnonzero(wrong):
            errors[row] += _LEFT_OUT.format(rejected.timestamps[row])
    columns = {"stage": [record.stage for record in bad], "error": errors}
    whole = of_columns(
        rejected.topic_partition,
        rejected.offsets,
        rejected.values,
        timestamps=rejected.timestamps,
        keys=rejected.keys,
        headers=headers,
    )
    return ChosenRows(layout.rows(whole, pa.RecordBatch.from_pydict(columns)))


def kafka_timestamp(error: str) -> int:
    """Return the Kafka timestamp of a dead letter that has none in its column; -1 for none."""
    found = _TIMESTAMP.search(error)
    return max(min(int(found[1]), _LAST), -_LAST - 1) if found else -1


def _without_headers(error: str) -> str:
    return (
        f"{error}; headers are left out"
        if error == UNREADABLE_HEADERS
        else f"{error}; headers are left out: {UNREADABLE_HEADERS}"
    )
