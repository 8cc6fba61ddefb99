"""The store, the log and the runner that the drivers of a schedule share."""

import io
import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.errors import LandfallError, Reason, Retry, SourceAway, Stalled
from landfall.formats.columns import ENVELOPE
from landfall.ledger import digest
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, PartRows
from landfall.objects import Upload
from landfall.pipeline.decoders import UsedSchema
from landfall.schemas import RegisteredSchema, encode_schema
from landfall.schemas.stored import StoredSchemas
from landfall.source import Bound, DatedOffset, FoundOffsets, FoundTopics
from landfall.store import Created
from landfall.store.memory import MemoryStore, Plan
from landfall.task import Batch
from tests.crashes.luck import Luck
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, group

if TYPE_CHECKING:
    from tests.crashes.machine import Schedule

LOST_ATTEMPTS = 0.1
"""How often a task's first attempt uploads and its result is lost, as under speculation or when an
executor is lost.
"""
ODD_RANGES = 0.02
"""How often a task returns another range than it was given, which must never be committed."""
RECORDS_OF_SCHEMA = 10
"""How many records of a topic partition have one schema, before they have the next."""
SHORT_SLICES = 0.1
"""How often a task ends a slice early, as when its records are larger than the plan assumed."""


DELAY = timedelta(days=5)
"""How long records may be late. None is, and in no schedule so much time passes, by clocks that are
hours apart, that a partition is idle.
"""
FIRST_EVENT = NOW - timedelta(days=3000)


def event_ms(offset: int) -> int:
    """The event time of a record: a day later for each, so that horizons lie between records."""
    return int((FIRST_EVENT + offset * DELAY).timestamp() * 1000)


class WatchedStore(MemoryStore):
    """Records objects that change while they are visible, and what is visible at each RUN."""

    def __init__(
        self, plan: Plan, clock: Callable[[], datetime], luck: Luck, *, keeps_parts: bool = False
    ) -> None:
        super().__init__(
            plan,
            repeat_completes=luck.repeats,
            clock=clock,
            pauses=luck.pauses,
            keeps_parts=keeps_parts,
        )
        self.changed: list[str] = []
        self.at_runs: dict[str, frozenset[str]] = {}
        """What was visible when a RUN was first written, by the digest of its bytes."""
        self.at_deletions: dict[str, frozenset[str]] = {}
        """What was visible when an object was deleted, by its key."""
        self.beside: Sequence[WatchedStore] = ()
        """Other stores of the same group, whose objects are visible, too."""

    @property
    def _visible(self) -> frozenset[str]:
        return frozenset(self._objects).union(*(store._objects for store in self.beside))

    def _create(self, key: str, body: bytes) -> Created:
        answer = super()._create(key, body)
        if answer is Created.WON and b'"type":"RUN"' in body:
            # A slot that was rolled up is created again if a delayed call takes effect after that.
            self.at_runs.setdefault(digest(body), self._visible)
        return answer

    def _remove(self, key: str) -> None:
        if key in self._objects:
            self.at_deletions[key] = self._visible
        super()._remove(key)

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

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        self.gate("topics")
        return super().topics(known)

    def describe(self, names: Collection[str]) -> FoundTopics:
        self.gate("topic ids")
        return super().describe(names)

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        self.gate(bound.value)
        return super().offsets(tps, bound)

    def first_from(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, DatedOffset | None]:
        self.gate("offsets by time")
        return super().first_from(tps, time)

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        self.gate("record times")
        return super().record_times(positions)

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        self.gate("mirror")
        super().mirror(next_offsets)


Version = tuple[str, str]
"""The key and the token of an object."""


@dataclass
class Rows:
    """What tasks have put into objects.

    Attributes:
        of: the id of the topic that was read, and the offsets, by the object's version.
        damaged: keys of dead letters that cannot be read any more.
    """

    of: dict[Version, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)

    def records(self, version: Version, partition: int) -> Counter[tuple[str, int, int]]:
        """The records of an object, by topic id, Kafka partition and offset."""
        topic_id, offsets = self.of.get(version, ("nobody", ()))
        return Counter((topic_id, partition, offset) for offset in offsets)


def is_bad(offset: int, generation: int) -> bool:
    """Whether a generation cannot decode a record; the later ones decode more."""
    return offset % 4 == 3 and generation <= 1 + offset % 3


class ReadingRunner(FakeRunner):
    """A runner that fails when the log has dropped what it should read, or has no leader for it.

    It loses some attempts with everything they did, and some tasks end early or begin late.
    """

    log: FakeLog
    dice: random.Random
    rows: Rows
    letters: bool
    """Whether some records are bad."""
    stored: StoredSchemas | None = None

    def _landed(self, batch: Batch, piece: Slice, _: int) -> LandedSlice:
        topic_id, piece, read = self._read(batch, piece)
        offsets = tuple(offset for offset in read if not self._is_filtered(offset))
        if self.dice.random() < LOST_ATTEMPTS:
            self._write(batch, piece, offsets)
        objects = self._write(batch, piece, offsets)
        for landed, written in objects.items():
            self.rows.of[landed.upload.key, landed.upload.token] = topic_id, written
        schemas = tuple(sorted({self._keep_schema(offset) for offset in offsets}))
        rows = dict.fromkeys(ObjectKind, 0)
        for landed in objects:
            rows[landed.kind] += landed.rows
        data, letters = rows[ObjectKind.DATA], rows[ObjectKind.DEAD_LETTERS]
        unread, filtered = len(piece.offsets) - len(read), len(read) - len(offsets)
        of_slice = LandedSlice(piece, tuple(objects), data, filtered, letters, unread, 100)
        of_slice = replace(of_slice, schemas=schemas, latest_ms=self._latest_ms(offsets))
        return replace(of_slice, parts=self._parts(read, objects))

    def _read(self, batch: Batch, piece: Slice) -> tuple[str, Slice, tuple[int, ...]]:
        """The id of the topic that was read, the slice, which may end early, and its offsets."""
        keys = dict(batch.dead_letters)
        if piece in keys:
            topic_id, offsets = self._read_letters(keys[piece])
            return topic_id, piece, offsets
        topic_id, piece = self._read_log(batch, piece)
        return topic_id, piece, tuple(range(piece.offsets.start, piece.offsets.end))

    @staticmethod
    def _is_filtered(_: int) -> bool:
        return False

    @staticmethod
    def _parts(
        _: tuple[int, ...], objects: Mapping[LandedObject, tuple[int, ...]]
    ) -> tuple[PartRows, ...] | UnsetType:
        """The counters by part of a file; ``objects`` are those with their offsets."""
        del objects
        return UNSET

    @staticmethod
    def _latest_ms(offsets: tuple[int, ...]) -> int:
        return max(map(event_ms, offsets), default=-1)

    def _keep_schema(self, offset: int) -> str:
        """Store the schema of a record, once in a driver's life, and return its name."""
        number = offset // RECORDS_OF_SCHEMA
        text = f'{{"type":"fixed","name":"f","size":{number + 1}}}'
        used = UsedSchema(encode_schema(RegisteredSchema("AVRO", text)), "0" * 16, str(number))
        self.stored = self.stored or StoredSchemas(self.store, "fake", LANE)
        return self.stored.keep(used)

    def _read_letters(self, key: str) -> tuple[str, tuple[int, ...]]:
        visible = self.store.stat(key)
        if visible is None or key in self.rows.damaged:
            raise Stalled(Reason.OBJECT_LOST, f"{key}: damaged")
        return self.rows.of[key, visible.token]

    def _read_log(self, batch: Batch, piece: Slice) -> tuple[str, Slice]:
        """The id of the topic that was read, and the slice, which may end early."""
        topic, partition = piece.topic_partition.topic, piece.topic_partition.partition
        if away := self.log.unavailable.get(piece.topic_partition):
            raise SourceAway(str(away))
        marks, topic_id = self.log.partitions[topic][partition], self.log.ids[topic]
        if piece.offsets.start < marks.log_start:
            raise Stalled(Reason.DATA_LOSS, f"{piece}: the log starts at {marks.log_start}")
        if piece.offsets.end > marks.end:
            raise Retry(f"{piece}: the log ends at {marks.end}")
        if batch.limits and len(piece.offsets) > 1 and self.dice.random() < SHORT_SLICES:
            end = self.dice.randrange(piece.offsets.start + 1, piece.offsets.end)
            piece = Slice(piece.topic_partition, OffsetRange(piece.offsets.start, end))
        if batch.limits and len(piece.offsets) > 1 and self.dice.random() < ODD_RANGES:
            start = self.dice.randrange(piece.offsets.start + 1, piece.offsets.end)
            piece = Slice(piece.topic_partition, OffsetRange(start, piece.offsets.end))
        return topic_id, piece

    def _write(
        self, batch: Batch, piece: Slice, offsets: tuple[int, ...]
    ) -> dict[LandedObject, tuple[int, ...]]:
        """Upload good records as text and bad ones as dead letters; returns their offsets."""
        generation = batch.group.spec.generation
        bad = {o for o in offsets if self.letters and is_bad(o, generation)}
        tp, start = piece.topic_partition, piece.offsets.start
        name = object_names.ObjectName(tp.topic, "all", generation, tp.partition, start, ".txt")
        letters_key = object_names.dead_letter_key(
            batch.group.metadata.name,
            tp.topic,
            generation,
            tp.partition,
            start,
            place=batch.new_letters_place,
        )
        written = {}
        for kind, key, kept in (
            (ObjectKind.DEAD_LETTERS, letters_key, tuple(o for o in offsets if o in bad)),
            (ObjectKind.DATA, name.key, tuple(o for o in offsets if o not in bad)),
        ):
            if kept:
                body = TO_BYTES[kind](kept)
                written[self._upload(key, batch.token, kind, kept, body)] = kept
        return written

    def _upload(
        self, key: str, token: str, kind: ObjectKind, offsets: tuple[int, ...], body: bytes
    ) -> LandedObject:
        upload_id = self.store.begin(key, token)
        upload = Upload(key, upload_id, (self.store.put_part(key, upload_id, 1, body),), token)
        return LandedObject(upload, kind, len(offsets), offsets[0], offsets[-1], 0)


def _as_text(offsets: tuple[int, ...]) -> bytes:
    return "".join(f"{offset}\n" for offset in offsets).encode()


DEAD_LETTERS = pa.schema([*ENVELOPE, pa.field("error", pa.string())])


@cache  # a few rows, and the same ones in many schedules
def _as_parquet(offsets: tuple[int, ...]) -> bytes:
    rows = [
        {"topic": "t", "partition": 0, "offset": offset, "headers": [], "error": ""}
        for offset in offsets
    ]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, DEAD_LETTERS), file)
    return file.getvalue()


TO_BYTES: Mapping[ObjectKind, Callable[[tuple[int, ...]], bytes]] = {
    ObjectKind.DATA: _as_text,
    ObjectKind.DEAD_LETTERS: _as_parquet,
}


def driver_deps(schedule: "Schedule", name: str, runner: ReadingRunner) -> DriverDeps:
    """What a driver works with; its runner gets what all tasks of the schedule share."""
    runner.log, runner.dice, runner.rows = schedule.log, schedule.dice, schedule.rows
    runner.letters = schedule.luck.letters
    batches = count(1)
    return DriverDeps(
        schedule.store,
        Observer(schedule.log, timedelta(0)),
        runner,
        schedule.clock,
        lambda: f"{name}-{next(batches)}",
        DriverCounters(schedule.clock()),
        schedule.background,
    )


@cache
def group_with(  # what schedules choose
    generation: int,
    snapshot_every: int,
    segment_every: int,
    on_data_loss: str,
    *,
    publishes: bool,
    letters_apart: bool,
    keep: int = 0,
) -> ConsumerGroup:
    """The group of a schedule, which keeps replaced objects for so many seconds."""
    kafka = {"bootstrapServers": "fake:9092", "topicPattern": ".*", "onDataLoss": on_data_loss}
    tuning = {
        "pollInterval": "5ms",
        "snapshotEvery": snapshot_every,
        "segmentEvery": segment_every,
        "keepReplaced": f"{keep}s",
    }
    bad = {"maxRatio": "1"} | ({"url": "s3://letters/fake"} if letters_apart else {})
    entry = {"name": "lake", "type": "tests.crashes.publishing:Lake", "minInterval": "10s"}
    return group(
        generation=generation,
        source={"kafka": kafka},
        tuning=tuning,
        badRecords=bad,
        publish=[entry] * publishes,
        completeness={"delay": f"{DELAY.days}d"},
    )
