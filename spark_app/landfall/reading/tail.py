"""The tail of a topic: Kafka's records that have not landed, as the rows that they will be.

Each range is landed by the stages that land it (``landfall.task.landing``) into memory, a bounded
part at a time, and the objects are read back as landed ones are. So types, filters, transforms,
routes and dead letters are the same by construction. Nothing is written anywhere: no object, no
schema next to the ledger, no offset of a Kafka group.

What was read stays in memory if it is small. A larger tail is read from Kafka again each time.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from typing import Protocol
from uuid import uuid4

from landfall.api.spec import Codec, ConsumerGroup, GroupSpec, Output, TopicSpecs
from landfall.errors import Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.records import Records
from landfall.reading.files import Choice, File, PartitionTimes, chooser
from landfall.reading.in_memory import land_in_memory
from landfall.reading.objects import Bytes
from landfall.reading.tail_plan import TailPlan
from landfall.source import LastRead, Log, Reader
from landfall.task import Batch
from landfall.task.partitioning import Partitioners
from landfall.task.rows import payload_bytes

PART_BYTES = 32 * 2**20
"""Payload bytes of the records that are landed into memory at once."""
KEPT_BYTES = 64 * 2**20
"""A tail with at most so many bytes of objects is kept, and read from Kafka once."""
_LINES = ("Json", "Text")


@dataclass(frozen=True, slots=True)
class TailCounts:
    """The records of a tail by outcome; all counts together are its offsets.

    Attributes:
        rows: records that land as rows, in any output partition.
        filtered: records that a transform leaves out.
        dead_lettered: records that cannot be landed.
        invisible: offsets without a visible record: control records, aborted or compacted ones.
    """

    rows: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    invisible: int = 0

    def plus(self, landed: LandedSlice) -> "TailCounts":
        """These and the ones of a slice."""
        return TailCounts(
            self.rows + landed.landed,
            self.filtered + landed.filtered,
            self.dead_lettered + landed.dead_lettered,
            self.invisible + landed.invisible,
        )


class TailSource(Protocol):
    """Where a tail is read; it can be sent to other processes."""

    def log(self) -> Log:
        """The driver's side of Kafka."""
        ...

    def reader(
        self, slices: Sequence[Slice], last_read: Mapping[TopicPartition, LastRead]
    ) -> AbstractContextManager[Reader]:
        """A context manager with a ``Reader`` for these slices, read in this order."""
        ...


class KafkaSource:
    """The Kafka of a group, as a ``TailSource``; properties and secrets are read as for landing."""

    def __init__(self, group: ConsumerGroup) -> None:
        """Connect to nothing yet."""
        self._group = group
        self._log: tuple[Mapping[str, str], Log] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Other processes get no connection."""
        return {**self.__dict__, "_log": None}

    def log(self) -> Log:
        """The driver's side; it stays connected while properties and secrets are the same.

        Raises:
            Stalled: SPEC_INVALID, librdkafka does not accept the properties, or the client of Kafka
                is not installed.
        """
        with _kafka_client():
            from landfall.source.kafka import KafkaLog  # noqa: PLC0415  # an extra of readers
            from landfall.source.properties import kafka_properties  # noqa: PLC0415
        properties = kafka_properties(self._group)
        if self._log is None or self._log[0] != properties:
            self._log = properties, KafkaLog(self._group)
        return self._log[1]

    @contextmanager
    def reader(
        self, slices: Sequence[Slice], last_read: Mapping[TopicPartition, LastRead]
    ) -> Iterator[Reader]:
        """A reader that is closed at the end.

        Raises:
            Stalled: as ``log``.
        """
        with _kafka_client():
            from landfall.source.properties import kafka_properties  # noqa: PLC0415
            from landfall.source.reader import KafkaReader  # noqa: PLC0415
        timeout = self._group.spec.tuning.read_timeout
        reader = KafkaReader(kafka_properties(self._group), timeout)
        reader.last_read = last_read
        reader.expect(slices)
        try:
            yield reader
        finally:
            reader.close()


@contextmanager
def _kafka_client() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise Stalled(
            Reason.SPEC_INVALID,
            f"tail: it needs a package that is not installed: {error.name}; "
            "pip install 'landfall-kafka[reader,tail]'",
        ) from error


@dataclass
class Tail:
    """The tail of a topic at the time of a scan.

    Attributes:
        plan: which offsets it has, and which it cannot have.
        group: the group, by its present spec.
        source: where it is read.
        choice: the output partitions that are read.
    """

    plan: TailPlan
    group: ConsumerGroup
    source: TailSource
    choice: Choice = field(default_factory=Choice)
    _kept: tuple[Bytes, ...] | None = field(default=None, init=False)
    _counts: TailCounts | None = field(default=None, init=False)
    _begun: tuple[tuple[Bytes, ...], Iterator[Bytes]] | None = field(default=None, init=False)
    """The objects that were read of a pass for the columns, and the rest of it."""

    def __getstate__(self) -> dict[str, object]:
        """Other processes get neither rows nor stages."""
        own = {field_.name: getattr(self, field_.name) for field_ in fields(self)}
        return {**own, "_kept": None, "_counts": None, "_begun": None}

    @cached_property
    def _spec(self) -> GroupSpec:
        """The spec of the topic; lines are not compressed, since nothing stores them."""
        spec = TopicSpecs.of(self.group.spec).for_topic(self.plan.topic)
        if spec.output.format not in _LINES:
            return spec
        plain = spec.output.model_copy(update={"codec": Codec.NONE, "level": None})
        return spec.model_copy(update={"output": plain})

    @cached_property
    def _partitioners(self) -> Partitioners:
        return Partitioners(self._spec)

    @property
    def output(self) -> Output:
        """How its objects are made."""
        return self._spec.output

    def divided(self, offsets: int) -> "list[Tail]":
        """The same tail in parts of at most so many offsets, for several readers."""
        slices = self.plan.ranges
        pieces = (Slice(s.topic_partition, part) for s in slices for part in s.offsets.cut(offsets))
        return [replace(self, plan=replace(self.plan, ranges=(piece,))) for piece in pieces]

    def counts(self) -> TailCounts:
        """Count its records by outcome; reads it, if it was not read yet.

        Raises:
            Stalled, Retry: as ``objects``.
        """
        if self._counts is None:
            for _ in self.objects():
                pass
        assert self._counts is not None, "it was read to its end"
        return self._counts

    def objects(self) -> Iterator[Bytes]:
        """The objects that its records make, in the chosen output partitions.

        Raises:
            Stalled: DATA_LOSS, Kafka has deleted offsets since the scan was made, or its log was
                truncated; BAD_RECORDS, the spec's policy is ``Fail`` and there is a bad record;
                SPEC_INVALID, a stage cannot be built here.
            Retry: Kafka or a schema registry does not answer, or the topic was deleted or created
                again since the scan was made.
        """
        if self._kept is not None:
            yield from self._kept
            return
        begun, self._begun = self._begun, None
        first, rest = begun or ((), self._read())
        yield from first
        yield from rest

    def samples(self) -> Iterator[Bytes]:
        """Objects that have all columns of the tail; what is read for it is not read again.

        That is the first one if neither columns nor names of folders depend on records.

        Raises:
            Stalled, Retry: as ``objects``.
        """
        if self._kept is not None or not self._has_same_columns:
            yield from self.objects()
            return
        first, rest = self._begun or ((), self._read())
        self._begun = (first or tuple(islice(rest, 1)), rest)
        yield from self._begun[0]

    @property
    def _has_same_columns(self) -> bool:
        route, partitioner = self._spec.route, self._partitioners.for_topic(self.plan.topic)
        folders = f"{route.topic_path or ''}/{route.pattern}".split("/")
        names = (name for name, equals, _ in (f.partition("=") for f in folders) if equals)
        return partitioner.columns is not None and not any("{" in name for name in names)

    def _read(self) -> Iterator[Bytes]:
        """The objects, from Kafka; a small tail is kept once it was read to its end."""
        kept, size, counts = list[Bytes](), 0, TailCounts()
        for landed, objects in self._landed():
            counts = counts.plus(landed)
            for body in objects:
                size += body.file.size
                if size <= KEPT_BYTES:
                    kept.append(body)
                else:
                    kept.clear()
                yield body
        self._counts = counts
        self._kept = tuple(kept) if size <= KEPT_BYTES else None

    def _landed(self) -> Iterator[tuple[LandedSlice, list[Bytes]]]:
        """Each part of the tail, and the chosen objects that it makes."""
        plan = self.plan
        if not plan.ranges:
            return
        is_chosen, group = self._chooser(), self.group.model_copy(update={"spec": self._spec})
        with self.source.reader(plan.ranges, plan.last_read) as reader:
            for part, chunks in self._parts(reader):
                batch = Batch(group, uuid4().hex, permitted=plan.permitted)
                result, bodies = land_in_memory(self._partitioners, batch, part, chunks, plan.slot)
                yield result, [body for body in bodies if is_chosen(body.file)]
        self._check_topic()

    def _parts(self, reader: Reader) -> Iterator[tuple[Slice, list[Records]]]:
        """The ranges in parts of bounded size, with their records."""
        for slice_ in self.plan.ranges:
            tp, start = slice_.topic_partition, slice_.offsets.start
            chunks, size = list[Records](), 0
            for chunk in reader.read(slice_):
                chunks.append(chunk)
                size += payload_bytes(chunk.values)
                if size >= PART_BYTES:
                    end = int(chunk.offsets[-1]) + 1
                    yield Slice(tp, OffsetRange(start, end)), chunks
                    start, chunks, size = end, [], 0
            if start < slice_.offsets.end:
                yield Slice(tp, OffsetRange(start, slice_.offsets.end)), chunks

    def _chooser(self) -> Callable[[File], bool]:
        times = PartitionTimes(self._spec.route)
        return chooser(self.choice, lambda _: times)

    def _check_topic(self) -> None:
        """Return if what was read is of the topic that was planned with.

        Kafka never uses a topic id twice, so if the topic has it now, it had it before.

        Raises:
            Retry: it is not.
        """
        topic = self.plan.topic
        now = self.source.log().describe([topic]).ids.get(topic)
        if now != self.plan.topic_id:
            raise Retry(f"{topic}: the topic was deleted or created again since the scan was made")
