"""The store, the log and the runner that the drivers of a schedule share."""

import random
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from landfall.api.spec import ConsumerGroup
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.objects import Upload
from landfall.source import Bound, FoundOffsets, Topic
from landfall.store.fault_injection import Plan
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from tests.support.fakes import FakeLog, FakeRunner, group

LOST_ATTEMPTS = 0.1
"""How often a task's first attempt uploads and its result is lost, as under speculation or when an
executor is lost.
"""
SHORT_SLICES = 0.1
"""How often a task ends a slice early, as when its records are larger than the plan assumed."""


class WatchedStore(MemoryStore):
    """Records objects that change while they are visible."""

    def __init__(
        self, plan: Plan, clock: Callable[[], datetime], *, repeat_completes: bool
    ) -> None:
        super().__init__(plan, repeat_completes=repeat_completes, clock=clock)
        self.changed: list[str] = []

    def _finish_once(self, upload: Upload) -> None:
        before = self._objects.get(upload.key)
        super()._finish_once(upload)
        if before and self._objects[upload.key].token != before.token:
            self.changed.append(
                f"{upload.key}: {before.token} became {self._objects[upload.key].token}"
            )

    def deliver_one(self, dice: random.Random) -> None:
        """Let one delayed call take effect."""
        if self._late:
            effect = self._late.pop(dice.randrange(len(self._late)))
            with suppress(LandfallError):  # its caller has given up on the answer
                effect()


@dataclass
class GatedLog(FakeLog):
    """A log that calls ``gate`` before each answer."""

    gate: Callable[[str], None] = lambda _: None

    def topics(self) -> tuple[Topic, ...]:
        self.gate("topics")
        return super().topics()

    def topic_ids(self, names: Collection[str]) -> Mapping[str, str]:
        self.gate("topic ids")
        return {name: self.ids[name] for name in names}

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        self.gate(bound.value)
        return super().offsets(tps, bound)

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        self.gate("record times")
        return super().record_times(positions)

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        self.gate("mirror")
        super().mirror(next_offsets)


class ReadingRunner(FakeRunner):
    """A runner that fails when the log has dropped what it should read.

    It loses some attempts with everything they did.
    """

    log: FakeLog
    dice: random.Random
    read_from: dict[tuple[str, str], str]
    """The id of the topic that was read, by the object's key and token."""

    def _landed(self, batch: Batch, piece: Slice, bad: int) -> LandedSlice:
        topic, partition = piece.topic_partition.topic, piece.topic_partition.partition
        marks, topic_id = self.log.partitions[topic][partition], self.log.ids[topic]
        if piece.offsets.start < marks.log_start:
            raise Stalled(Reason.DATA_LOSS, f"{piece}: the log starts at {marks.log_start}")
        if piece.offsets.end > marks.end:
            raise Retry(f"{piece}: the log ends at {marks.end}")
        if batch.limits and len(piece.offsets) > 1 and self.dice.random() < SHORT_SLICES:
            end = self.dice.randrange(piece.offsets.start + 1, piece.offsets.end)
            piece = Slice(piece.topic_partition, OffsetRange(piece.offsets.start, end))
        if self.dice.random() < LOST_ATTEMPTS:
            super()._landed(batch, piece, bad)
        landed = super()._landed(batch, piece, bad)
        self.read_from |= {(o.upload.key, o.upload.token): topic_id for o in landed.objects}
        return landed


@cache
def group_with(
    generation: int, snapshot_every: int, segment_every: int, on_data_loss: str
) -> ConsumerGroup:
    """The group of a schedule."""
    kafka = {"bootstrapServers": "fake:9092", "topicPattern": ".*", "onDataLoss": on_data_loss}
    tuning = {"pollInterval": "5ms", "snapshotEvery": snapshot_every, "segmentEvery": segment_every}
    return group(generation=generation, source={"kafka": kafka}, tuning=tuning)
