"""Inside a Spark task: what a Python worker keeps from one task to the next.

A consumer, a store's client and a pipeline cost more to make than a small slice costs to land, so
the worker keeps them for as long as the group's spec stays the same. Spark runs one task at a time
in a worker process, which is ours alone: how it allocates memory and when it looks for garbage is
set here, for the whole process.
"""

import gc
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from landfall.api.spec import ConsumerGroup
from landfall.errors import LandfallError
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import FailedSlice, SliceResult
from landfall.source.properties import kafka_properties
from landfall.source.reader import KafkaReader
from landfall.store import Store
from landfall.store.urls import open_store
from landfall.task import Batch
from landfall.task.landing import land_sorted
from landfall.task.partitioning import Sorter


@dataclass(frozen=True)
class _TaskResources:
    group: ConsumerGroup
    reader: KafkaReader
    store: Store
    sorter: Sorter

    @classmethod
    def of(cls, group: ConsumerGroup) -> "_TaskResources":
        reader = KafkaReader(kafka_properties(group), group.spec.tuning.read_timeout)
        return cls(group, reader, open_store(group.spec.output), Sorter.of(group.spec))


_kept: list[_TaskResources] = []

GARBAGE_THRESHOLD = 200_000
"""Objects made and not freed before Python looks for cycles among them. A chunk is 10,000 messages,
all freed by reference counts; by default Python walks through them dozens of times while they are
read, a quarter of the cost of reading.
"""


def land_bin(batch: Batch, pieces: Sequence[Slice]) -> tuple[SliceResult, ...]:
    """Land some slices of the group's Kafka topics in its store; a result for each."""
    try:
        tools = _tools(batch.group)
    except LandfallError as error:
        return tuple(FailedSlice(piece, error) for piece in pieces)
    return land_sorted(batch, pieces, tools.reader, tools.store, tools.sorter)


def _tools(group: ConsumerGroup) -> _TaskResources:
    if not _kept or _kept[0].group != group:
        while _kept:
            _kept.pop().reader.close()
        _kept.append(_TaskResources.of(group))
        _settle()
    return _kept[0]


def _settle() -> None:
    gc.set_threshold(GARBAGE_THRESHOLD)
    # the default pool keeps freed buffers, a hundred MB and more; malloc gives them back and is as
    # fast
    pa.set_memory_pool(pa.system_memory_pool())
