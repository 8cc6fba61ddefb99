"""The state that a Python worker of Spark keeps from one task to the next.

Creating a consumer, a store client and a pipeline costs more than landing a small slice, so the
worker process keeps them while the group's spec and its Kafka properties stay the same: a Secret
that was rotated is in force from the next bin, once the kubelet has mounted it. Spark runs one
task at a time in a worker process, and only Landfall's code runs in it, so this module also tunes
the memory allocation and the garbage collection of the whole process.
"""

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.errors import LandfallError, Reason, Stalled
from landfall.landed.opening import open_lost_reader, open_reader
from landfall.landed.reader import LandedReader
from landfall.lane.stores import open_stores
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import FailedSlice, LandingRules, SliceResult
from landfall.native import hot_path
from landfall.schemas.stored import StoredSchemas
from landfall.source import Reader
from landfall.source.files import reader_of_feed
from landfall.source.properties import kafka_properties
from landfall.source.reader import KafkaReader
from landfall.store import Slots, Store
from landfall.store.urls import open_files
from landfall.task import Batch
from landfall.task.counting import Miscounted, ObjectsOfSpec, miscounted
from landfall.task.dead_letter_reader import DeadLetterReader
from landfall.task.destinations import Destinations
from landfall.task.feed_reader import FeedReader, ReadableFeed
from landfall.task.landing import LandingDeps, land_with
from landfall.task.lost_ranges import LostRangeReader
from landfall.task.merging import MergeResult, MergeShare, merge_share
from landfall.task.partitioning import Partitioners


@dataclass(frozen=True)
class _TaskResources:
    """The resources of one group's tasks, and the group and Kafka properties it was made for."""

    group: ConsumerGroup
    properties: Mapping[str, str] = field(repr=False)  # they contain secrets
    reader: KafkaReader | FeedReader | LandedReader
    store: Store
    deps: LandingDeps

    @cached_property
    def backup(self) -> LandedReader:
        """The reader of offsets that Kafka has lost.

        Raises:
            Stalled: OBJECT_LOST, the spec names no group that has them.
            Retry: that group's store does not answer.
        """
        return open_lost_reader(self.group)

    def backup_by(self, rules: LandingRules) -> LandedReader:
        """``backup``, whose chunks end by these rules. Raises alike."""
        self.backup.rules = rules
        return self.backup

    @classmethod
    def of(cls, group: ConsumerGroup, properties: Mapping[str, str]) -> "_TaskResources":
        _check_hot_path()
        store = open_stores(group.spec)
        reader = _reader(group, properties, store)
        stored = StoredSchemas(store, group.metadata.name, LANE)
        destinations = Destinations(store, group.full_name)
        deps = LandingDeps(Partitioners(group.spec, stored), store, destinations)
        return cls(group=group, properties=properties, reader=reader, store=store, deps=deps)


def _check_hot_path() -> None:
    # An executor's environment need not be the driver's, which checks its own at the start.
    try:
        hot_path()
    except ValueError as error:
        raise Stalled(Reason.SPEC_INVALID, f"spec.executor: {error}") from None


_cached: list[_TaskResources] = []
"""The resources of the group that this process landed last, if any."""

GARBAGE_THRESHOLD = 200_000
"""How many more objects are created than freed before Python's garbage collector looks for cycles.

A chunk is 10,000 messages, all freed by reference counting. With the default
threshold the collector scans them dozens of times while they are read, which takes a
quarter of the time of reading.
"""


def land_bin(batch: Batch, slices: Sequence[Slice]) -> tuple[SliceResult, ...]:
    """Land slices of the group's topics in its store; returns one result per slice."""
    try:
        resources = _resources(batch.group)
    except LandfallError as error:
        return tuple(FailedSlice(slice_, error) for slice_ in slices)
    reader: Reader = resources.reader
    lost = dict(batch.from_backup)
    if isinstance(resources.reader, FeedReader):
        resources.reader.expect(batch.lists)
    else:
        resources.reader.rules = batch.rules
    if isinstance(resources.reader, LandedReader):
        resources.reader.begin()
    if isinstance(resources.reader, KafkaReader):
        resources.reader.last_read = dict(batch.last_read)
        resources.reader.expect([slice_ for slice_ in slices if slice_ not in lost])
    if lost:
        reader = LostRangeReader(reader, lambda: resources.backup_by(batch.rules), lost)
    if batch.dead_letters:
        reader = DeadLetterReader(resources.store, dict(batch.dead_letters))
    return land_with(resources.deps, batch, slices, reader)


def read_back(landed: ObjectsOfSpec) -> tuple[Miscounted, ...]:
    """Read objects of the group's store back; returns those that do not hold their rows.

    Raises:
        Retry: the store does not answer.
    """
    return tuple(miscounted(_resources(landed.group).store, landed))


def merge(share: MergeShare) -> tuple[MergeResult, ...]:
    """Merge objects of the group's store; returns the outcome of each merge.

    Raises:
        Retry: the store cannot be opened.
    """
    # By the group that lands: the resources of its tasks stay in this process.
    return tuple(merge_share(_resources(share.group).store, share))


def _resources(group: ConsumerGroup) -> _TaskResources:
    properties = kafka_properties(group) if group.spec.source.kafka else {}
    if not _cached or (_cached[0].group, _cached[0].properties) != (group, properties):
        while _cached:
            _cached.pop().reader.close()
        _cached.append(_TaskResources.of(group, properties))
        _tune_process()
    return _cached[0]


def _reader(
    group: ConsumerGroup, properties: Mapping[str, str], slots: Slots
) -> KafkaReader | FeedReader | LandedReader:
    if group.spec.source.landed:
        return open_reader(group.spec.source.landed)
    if group.spec.source.kafka:
        return KafkaReader(dict(properties), group.spec.tuning.read_timeout)
    feeds = {
        feed.topic: ReadableFeed(open_files(feed), reader_of_feed(feed))
        for feed in group.spec.source.files
    }
    return FeedReader(slots, group.metadata.name, LANE, feeds)


def _tune_process() -> None:
    gc.set_threshold(GARBAGE_THRESHOLD)
    # Arrow's default pool keeps a hundred MB and more of freed buffers. malloc returns them to the
    # system and is as fast.
    pa.set_memory_pool(pa.system_memory_pool())
