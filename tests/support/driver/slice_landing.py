"""Lands slices of a log in memory into a store in memory, as a task does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice, SliceResult
from landfall.pipeline.records import HEADERS, Records, of_columns
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land

TP = TopicPartition("clicks", 3)
SLICE = Slice(TP, OffsetRange(100, 200))
MIDNIGHT = 1_763_683_200_000  # 2025-11-21 00:00 UTC
HOUR = 3_600_000
Rows = Sequence[tuple[int, bytes | None]]


@dataclass
class FakeReader:
    """Reads a log in memory, ``rows`` records a chunk; raises ``error_at_end`` after a slice."""

    log: dict[TopicPartition, Rows]
    rows: int = 1000
    error_at_end: Exception | None = None

    def read(self, slice_: Slice) -> Iterator[Records]:
        visible = [
            (o, value) for o, value in self.log[slice_.topic_partition] if o in slice_.offsets
        ]
        for at in range(0, len(visible), self.rows):
            offsets, values = zip(*visible[at : at + self.rows], strict=True)
            yield records_of(slice_.topic_partition, offsets, values)
        if self.error_at_end:
            raise self.error_at_end


def records_of(
    tp: TopicPartition, offsets: Sequence[int], values: Sequence[bytes | None]
) -> Records:
    numbers = np.array(offsets, np.int64)
    keys = pa.array([b"key-%d" % o for o in offsets], pa.binary())
    headers = pa.array([[("n", b"%d" % o)] for o in offsets], HEADERS)
    return of_columns(
        tp,
        numbers,
        pa.array(values, pa.binary()),
        timestamps=MIDNIGHT + numbers,
        keys=keys,
        headers=headers,
    )


def group(**spec: object) -> ConsumerGroup:
    document = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "events"},
        "spec": {
            "generation": 4,
            "source": {"kafka": {"bootstrapServers": "kafka:1", "topicPattern": ".*"}},
            "decode": {"format": "Json", "timestamp": {"field": "ts"}},
            "route": {"pattern": "dt={date}/hr={hour}"},
            "output": {"url": "s3://bucket/root", "format": "Json"},
            **spec,
        },
    }
    return parse_group(document)


def land_rows(
    rows: Rows, store: MemoryStore, chunk: int = 1000, slice_: Slice = SLICE, **spec: object
) -> LandedSlice | FailedSlice:
    (result,) = land(Batch(group(**spec), "token"), [slice_], FakeReader({TP: rows}, chunk), store)
    return result


def click(offset: int, hour: int = 0) -> tuple[int, bytes]:
    return offset, b'{"ts":%d,"n":%d}' % (MIDNIGHT + hour * HOUR + offset, offset)


def content(result: SliceResult, store: MemoryStore) -> dict[str, bytes]:
    """Complete the uploads of a landed slice, and return the objects by key."""
    assert isinstance(result, LandedSlice)
    for landed in result.objects:
        store.complete(landed.upload)
    return {landed.upload.key: read(store, landed.upload.key) for landed in result.objects}


def read(store: MemoryStore, key: str) -> bytes:
    with store.open(key) as stream:
        return stream.read()


def is_empty(store: MemoryStore) -> bool:
    return not list(store.open_uploads("")) and not list(store.list_after(""))
