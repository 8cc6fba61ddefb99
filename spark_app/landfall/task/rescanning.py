"""Routes landed rows by today's spec, to find those that belong elsewhere, or nowhere.

Only rows that are payloads can be decoded once more. Other rows are made of payloads, such as typed
columns, and need the payloads themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from landfall.api.spec import GroupSpec, MissingTimestamp
from landfall.api.spec.decode import TimestampSource
from landfall.formats import Row
from landfall.landed.specs import why_not_kept
from landfall.ledger.names import folders
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Records, of_columns
from landfall.task.partitioning import PartitionedChunk

CHUNK_ROWS = 4096
Partition = Callable[[Records], PartitionedChunk]
"""Assigns records to output partitions."""


@dataclass(frozen=True, slots=True)
class ScannedObject:
    """An object whose rows are looked at.

    Attributes:
        topic_partition: of its name.
        folder: where it is.
        first_offset: of its first row.
        is_dense: whether it has a row for each offset up to its last.
    """

    topic_partition: TopicPartition
    folder: str
    first_offset: int
    is_dense: bool


@dataclass(frozen=True, slots=True)
class Wrong:
    """Rows of an object that are wrong.

    Attributes:
        rows: how many.
        row: the first of them, counted from 0; -1 if it is the object as a whole.
        offset: its Kafka offset; -1 if the object does not contain it.
        why: what is wrong with it.
    """

    rows: int
    row: int
    offset: int
    why: str


def are_payloads(spec: GroupSpec) -> bool:
    """Return whether rows landed by this spec are the payloads."""
    if spec.transforms:
        return False
    match spec.output.format:
        case "Text":
            return True
        case "Json":
            return spec.decode.format == "Json"
    return not why_not_kept(spec)


def can_be_decoded(today: GroupSpec, made_by: GroupSpec) -> bool:
    """Return whether objects hold all that today's spec reads of a record.

    Args:
        today: today's spec.
        made_by: the spec by which they were landed.
    """
    timestamp = today.decode.timestamp
    source = timestamp.source if timestamp else TimestampSource.VALUE
    if not are_payloads(made_by) or today.decode.header_columns:
        return False
    if source is TimestampSource.HEADER:
        return False
    if made_by.output.format == "Parquet" or made_by.output.options.get("keyMode") == "MessagePack":
        return True
    if timestamp is None or timestamp.is_yearless:
        return False
    if timestamp.missing is MissingTimestamp.KAFKA_TIMESTAMP:
        return False
    return not today.decode.key and source is TimestampSource.VALUE


def wrong_rows(partition: Partition, landed: ScannedObject, rows: Iterable[Row]) -> Wrong | None:
    """The rows that today's spec would put into another folder, or would not land.

    Args:
        partition: as of a partitioner of today's spec.
        landed: the object.
        rows: of it.
    """
    found: Wrong | None = None
    for first, some in _chunks(rows):
        records = _records(landed, first, some)
        wrong = dict(_judged(partition(records), landed, records))
        if wrong:
            row = min(wrong)
            offset = some[row].offset
            if offset is None:
                offset = landed.first_offset + first + row if landed.is_dense else -1
            before = found.rows if found else 0
            one = found or Wrong(0, first + row, offset, wrong[row])
            found = Wrong(before + len(wrong), one.row, one.offset, one.why)
    return found


def _chunks(rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
    first, some = 0, list[Row]()
    for row in rows:
        some.append(row)
        if len(some) >= CHUNK_ROWS:
            yield first, some
            first, some = first + len(some), []
    if some:
        yield first, some


def _records(landed: ScannedObject, first: int, some: Sequence[Row]) -> Records:
    """Rows as records with offsets that count them, regardless of their own order."""
    return of_columns(
        landed.topic_partition,
        np.arange(first, first + len(some), dtype=np.int64),
        pa.array([row.value for row in some], pa.binary()),
        timestamps=np.array(
            [-1 if row.timestamp is None else row.timestamp for row in some], np.int64
        ),
        keys=pa.array([row.key for row in some], pa.binary()),
    )


def _judged(
    chunk: PartitionedChunk, landed: ScannedObject, records: Records
) -> Iterator[tuple[int, str]]:
    """The rows that are wrong, and why; positions in the chunk."""
    start, topic = int(records.offsets[0]), landed.topic_partition.topic
    kept = {bad.row for bad in chunk.bad}
    for bad in chunk.bad:
        yield bad.row, f"is a dead letter today: {bad.stage}: {bad.error}"
    for routed, rows, _ in chunk.objects():
        numbers = (rows.offsets - start).tolist()
        kept.update(numbers)
        if (folder := folders.folder(topic, routed)) != landed.folder:
            yield from ((number, f"lands in {folder} today") for number in numbers)
    if chunk.filtered:
        left_out = (row for row in range(len(records)) if row not in kept)
        yield from ((row, "is left out by a transform today") for row in left_out)
