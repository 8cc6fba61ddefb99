"""In-memory fakes around the driver's loop: a log, and a runner that lands offsets as text.

Together with ``MemoryStore`` they let tests run the real driver thousands of times and check every
offset afterwards.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from landfall.api.contract import LANE, Workers
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.core.runner import Bin, BinRunner
from landfall.driver.landing.goals import Endless, GoalType
from landfall.driver.process.loop import Driver
from landfall.errors import LandfallError, Reason, Stalled
from landfall.lane import Lane, LaneWriter, OpenRequest
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import (
    FailedSlice,
    LandedObject,
    LandedSlice,
    ObjectKind,
    SliceResult,
)
from landfall.objects import Upload
from landfall.source import Bound, DatedOffset, FoundOffsets, FoundTopics, Topic, Watermarks
from landfall.store import Store
from landfall.task import Batch
from landfall.task.counting import Miscounted, ObjectsOfSpec
from landfall.task.merging import MergeResult, MergeShare
from tests.support.driver.fake_merging import merged

NOW = datetime(2126, 11, 21, 12, tzinfo=UTC)
"""The fakes' time. Stores date uploads by the machine's clock, so this must be in its future for an
upload ever to be old enough to be an orphan.
"""


def group(**spec: object) -> ConsumerGroup:
    """A group whose records are due at once."""
    document = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "fake"},
        "spec": {
            "source": {"kafka": {"bootstrapServers": "fake:9092", "topicPattern": ".*"}},
            "output": {"url": "s3://bucket/root"},
            "uploadPolicy": {"maxBytes": "8k", "maxAge": "1ms"},
            "tuning": {"pollInterval": "5ms", "keepReplaced": "0s"},
            "upgrade": {"drainTimeout": "1000d"},  # the fakes' clock runs fast
            **spec,
        },
    }
    return parse_group(document)


@dataclass
class FakeLog:
    """A log that tests write into: per topic its id, and per Kafka partition (log start, end)."""

    partitions: dict[str, list[Watermarks]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    mirrored: dict[TopicPartition, int] = field(default_factory=dict)
    error: LandfallError | None = None
    times: dict[TopicPartition, list[tuple[datetime, int]]] = field(default_factory=dict)
    """Of some topic partitions, times and the first offset of each, in order."""
    unavailable: dict[TopicPartition, LandfallError] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    """Where they are not the end offsets."""
    named: tuple[str, ...] = ()
    """Topics that the spec names."""
    denied: set[str] = field(default_factory=set)
    """Topics that may not be described: the log does not list them, as Kafka does not."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each bound was asked for, counting topic partitions."""

    def write(self, topic: str, *ends: int, log_start: int = 0) -> "FakeLog":
        """Set the end offsets of the topic's Kafka partitions."""
        self.partitions[topic] = [Watermarks(log_start, end) for end in ends]
        self.ids.setdefault(topic, f"id-{topic}")
        return self

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        found = self._found({*self.partitions.keys() - self.denied, *known, *self.named})
        if found.denied and not found.topics:
            raise next(iter(found.denied.values()))
        return found

    def describe(self, names: Collection[str]) -> FoundTopics:
        return self._found(names)

    def _found(self, names: Collection[str]) -> FoundTopics:
        if self.error:
            raise self.error
        found = tuple(
            Topic(name, self.ids[name], len(marks))
            for name, marks in sorted(self.partitions.items())
            if name in names and name not in self.denied
        )
        denied = {
            name: Stalled(Reason.SOURCE_DENIED, f"{name}: denied")
            for name in sorted(self.denied.intersection(names))
        }
        return FoundTopics(found, denied)

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        if self.error:
            raise self.error
        self.asked[bound.name] += len(tps)
        seen = {name: marks for name, marks in self.partitions.items() if name not in self.denied}
        present = [tp for tp in tps if tp.partition < len(seen.get(tp.topic, ()))]
        unavailable = {tp: self.unavailable[tp] for tp in present if tp in self.unavailable}
        found = {tp: self._offset(tp, bound) for tp in present if tp not in unavailable}
        return FoundOffsets(found, unavailable)

    def _offset(self, tp: TopicPartition, bound: Bound) -> int:
        marks = self.partitions[tp.topic][tp.partition]
        if bound is Bound.LOG_START:
            return marks.log_start
        return (
            self.high_watermarks.get(tp, marks.end) if bound is Bound.HIGH_WATERMARK else marks.end
        )

    def offsets_at(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, int]:
        later = {tp: [o for at, o in self.times.get(tp, ()) if at >= time] for tp in tps}
        ends = self.offsets(tps, Bound.END).offsets
        return {tp: min([*later[tp], end]) for tp, end in ends.items()}

    def first_from(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, DatedOffset | None]:
        ends = self.offsets(tps, Bound.END).offsets
        return {tp: self._first_from(tp, time, end) for tp, end in ends.items()}

    def _first_from(self, tp: TopicPartition, time: datetime, end: int) -> DatedOffset | None:
        for at, offset in self.times.get(tp, ()):
            if at >= time and offset < end:
                return DatedOffset(offset, int(at.timestamp() * 1000))
        return None

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        return dict.fromkeys(positions, NOW - timedelta(hours=1))

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        self.mirrored.update(next_offsets)


@dataclass
class FakeRunner:
    """Lands each slice as one object that holds its offsets, a line each.

    Attributes:
        store: where objects are uploaded to.
        failures: per topic partition, errors to return instead of landing, one per slice.
        bad: per topic partition, how many records of each slice count as dead-lettered.
        output_partition: of each object.
    """

    store: Store
    failures: dict[TopicPartition, list[LandfallError]] = field(default_factory=dict)
    bad: dict[TopicPartition, int] = field(default_factory=dict)
    output_partition: str = "all"
    slots: int = 2
    rounds: list[tuple[Bin, ...]] = field(default_factory=list)
    wanted: int = 1
    cold: LandfallError | None = None
    """Error that ``warm_up`` raises, if any."""

    def warm_up(self) -> None:
        if self.cold:
            raise self.cold

    def want(self, executors: int) -> None:
        self.wanted = executors

    def settle(self) -> Workers:
        return Workers(self.wanted, 1, self.slots)

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        self.rounds.append(tuple(bins))
        return [self._land(batch, slice_) for slices in bins for slice_ in slices]

    def read_back(self, shares: Sequence[ObjectsOfSpec]) -> list[Miscounted]:
        objects = [each for share in shares for each in share.objects]
        return list(filter(None, map(self._miscounted, objects)))

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:
        return [
            result
            for share in shares
            for merge in share.merges
            for result in merged(self.store, share, merge)
        ]

    def _miscounted(self, landed: LandedObject) -> Miscounted | None:
        key = landed.upload.key
        rows = (self.store.read(key) or b"").count(b"\n")
        topic = object_names.parse_key(key).topic
        error = Stalled(Reason.OBJECT_LOST, f"{key}: {rows} rows")
        return None if rows == landed.rows else Miscounted(topic, error)

    def _land(self, batch: Batch, slice_: Slice) -> SliceResult:
        tp, bad = slice_.topic_partition, self.bad.get(slice_.topic_partition, 0)
        try:
            if self.failures.get(tp):
                raise self.failures[tp].pop(0)
            return self._landed(batch, slice_, bad)
        except LandfallError as error:
            return FailedSlice(slice_, error)

    def _landed(self, batch: Batch, slice_: Slice, bad: int) -> LandedSlice:
        tp, kept = slice_.topic_partition, self._kept(slice_, bad)
        generation = batch.group.spec.generation
        key = object_names.ObjectName(
            tp.topic,
            self.output_partition,
            generation,
            tp.partition,
            slice_.offsets.start,
            ".txt",
        ).key
        upload_id = self.store.begin(key, batch.token)
        body = "".join(f"{offset}\n" for offset in kept).encode()
        part = self.store.put_part(key, upload_id, 1, body)
        upload = Upload(key, upload_id, (part,), batch.token)
        landed = LandedObject(upload, ObjectKind.DATA, len(kept), kept[0], kept[-1], 0)
        unused = len(slice_.offsets) - len(kept) - bad
        why = ("bad",) * bool(bad)
        return LandedSlice(slice_, (landed,), len(kept), 0, bad, unused, len(body), why)

    def _kept(self, slice_: Slice, bad: int) -> Sequence[int]:
        """The offsets that have a row which is landed."""
        return range(slice_.offsets.start + bad, slice_.offsets.end)


def driver(
    of: ConsumerGroup,
    store: Store,
    log: FakeLog,
    runner: BinRunner,
    *,
    until_caught_up: bool = True,
    goal: GoalType = Endless,
    writer: str = "w",
    spec: str = "",
    start: datetime = NOW,
) -> Driver:
    """The real driver between fakes, with its lane opened; ``spec`` is what the OPEN says."""
    names, clock = count(), ticking(start)
    lane = LaneWriter.open(
        Lane(store, of.metadata.name, LANE),
        OpenRequest(writer, of.spec.generation, "test", spec=spec),
        clock,
    )
    observer = Observer(log, timedelta(0))
    counters = DriverCounters(clock())
    deps = DriverDeps(store, observer, runner, clock, lambda: f"{writer}-{next(names)}", counters)
    return Driver(of, lane, deps, lambda _: None, until_caught_up and goal is Endless, goal)


def ticking(start: datetime = NOW) -> Callable[[], datetime]:
    """A clock that advances a second at every call, so that no wait takes long."""
    ticks = count()
    return lambda: start + timedelta(seconds=next(ticks))


def landed_offsets(store: Store) -> Counter[tuple[str, int, int]]:
    """How often each (topic, partition, offset) is in a visible data object."""
    found: Counter[tuple[str, int, int]] = Counter()
    for stat in store.list_after(""):
        try:
            name = object_names.parse_key(stat.key)
        except ValueError:
            continue
        with store.open(stat.key) as stream:
            found.update((name.topic, name.partition, int(line)) for line in stream.read().split())
    return found


def written_offsets(log: FakeLog) -> Counter[tuple[str, int, int]]:
    """Each (topic, partition, offset) of the log, once."""
    return Counter(
        (topic, partition, offset)
        for topic, marks in log.partitions.items()
        for partition, mark in enumerate(marks)
        for offset in range(mark.log_start, mark.end)
    )
