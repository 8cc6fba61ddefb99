"""Reads dead letters back as the records they were, so that they can be landed again.

It replaces Kafka's reader in a task: each slice is one dead-letter object, whose offsets
are the offsets of the records in it. Chunks depend on the object alone, so that the same object
gives the same new objects.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.errors import Reason, Stalled
from landfall.formats.column_reading import check_dead_letters, damage
from landfall.ledger.names.object_names import Origin
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.memory_limit import bounded, steps
from landfall.pipeline.records import HEADERS, Records, of_columns
from landfall.store import Objects
from landfall.task.dead_letters import kafka_timestamp

CHUNK_ROWS = 10_000
_MAX_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A dead-letter object.

    Attributes:
        key: of the object.
        piece: from the offset in its name to the last record inside.
        rows: the number of records inside.
    """

    key: str
    piece: Slice
    rows: int


@dataclass(frozen=True)
class DeadLetterReader:
    """A ``source.Reader`` of the slices of dead-letter objects.

    Attributes:
        objects: where the objects are.
        keys: the object's key by its slice.
    """

    objects: Objects
    keys: Mapping[Slice, str]

    def read(self, slice_: Slice) -> Iterator[Records]:
        """All records of the object, in chunks.

        Raises:
            Stalled: OBJECT_LOST, the object is gone or damaged.
            Retry: the store does not answer.
        """
        with _parquet(self.objects, self.keys[slice_]) as file:
            for batch in steps(file.iter_batches(CHUNK_ROWS)):
                yield _records(slice_.topic_partition, batch)


def measure(objects: Objects, key: str, origin: Origin) -> DeadLetters:
    """Return the contents of a dead-letter object.

    Raises:
        Stalled: OBJECT_LOST, the object is gone or damaged.
        Retry: the store does not answer.
    """
    with _parquet(objects, key) as file:
        batches = steps(file.iter_batches(CHUNK_ROWS, columns=["offset"]))
        offsets = [batch.column(0) for batch in batches]
    rows = sum(map(len, offsets))
    last = offsets[-1][-1].as_py() if rows else None
    if last is None or not origin.start <= last < _MAX_OFFSET:
        raise _damaged(key, f"its last offset is {last}")
    tp = TopicPartition(origin.topic, origin.partition)
    return DeadLetters(key, Slice(tp, OffsetRange(origin.start, last + 1)), rows)


@contextmanager
def _parquet(objects: Objects, key: str) -> Iterator[pq.ParquetFile]:
    """A dead-letter object as an open file: the footer of Parquet comes last, so it is copied."""
    with tempfile.TemporaryFile() as file:
        try:
            with objects.open(key) as stream:
                shutil.copyfileobj(stream, file)
        except FileNotFoundError as error:
            raise Stalled(Reason.OBJECT_LOST, f"{key}: there is no such object") from error
        try:
            with damage("dead letters"):
                with bounded():
                    opened = pq.ParquetFile(file, page_checksum_verification=True)
                check_dead_letters(opened.schema_arrow)
                yield opened
        except ValueError as error:
            raise _damaged(key, str(error)) from error


def _damaged(key: str, why: str) -> Stalled:
    return Stalled(Reason.OBJECT_LOST, f"{key}: damaged: {why}")


def _records(tp: TopicPartition, batch: pa.RecordBatch) -> Records:
    column = batch.column("timestamp").cast(pa.timestamp("ms")).cast(pa.int64())
    timestamps = column.fill_null(-1).to_numpy().copy()
    for row in np.flatnonzero(column.is_null()):
        timestamps[row] = kafka_timestamp(batch.column("error")[row].as_py() or "")
    return of_columns(
        tp,
        batch.column("offset").to_numpy(),
        batch.column("value"),
        timestamps=timestamps,
        keys=batch.column("key"),
        headers=batch.column("headers").cast(HEADERS),
    )
