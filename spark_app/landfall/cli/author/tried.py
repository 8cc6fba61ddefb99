"""Records with the outcome that the stages of a group give them, and how many have which."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from landfall.api.spec import ConsumerGroup, GroupSpec, TopicSpecs
from landfall.cli.text import console
from landfall.ledger.names import folders
from landfall.pipeline.records import Records
from landfall.task.partitioning import Partitioner
from landfall.task.trial import Fate, Trial, trials


@dataclass(frozen=True)
class TriedRecord:
    """A record with its outcome.

    Attributes:
        records: the chunk that it is in.
        trial: its outcome, and its row in the chunk.
        object: where it would land, with ``*`` for the offset; empty if it would not.
    """

    records: Records
    trial: Trial
    object: str

    @property
    def offset(self) -> int:
        """Its offset."""
        return int(self.records.offsets[self.trial.row])

    @property
    def place(self) -> str:
        """Its coordinates, for people."""
        return f"{self.records.topic_partition} offset {self.offset}"

    @property
    def timestamp_ms(self) -> int:
        """Its Kafka timestamp; negative if it has none."""
        return int(self.records.timestamps[self.trial.row])

    @property
    def timestamp(self) -> str | None:
        """Its Kafka timestamp as text; None if it has none."""
        millis = self.timestamp_ms
        if millis < 0:
            return None
        try:
            when = datetime.fromtimestamp(millis / 1000, UTC)
        except (ValueError, OverflowError):  # of a year that the calendar does not have
            return f"{millis} ms"
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    @property
    def payload(self) -> bytes | None:
        """Its payload, before any stage."""
        found: bytes | None = self.records.values[self.trial.row].as_py()
        return found

    @property
    def key(self) -> bytes | None:
        """Its key."""
        found: bytes | None = self.records.keys[self.trial.row].as_py()
        return found


@dataclass
class TrialOutcomes:
    """How many records have which outcome.

    Attributes:
        fates: the number of records of each outcome.
        partitions: the output partitions they would land in.
        first_reason: where the first dead letter is from, and why it is one; empty if none is.
    """

    fates: Counter[Fate] = field(default_factory=Counter)
    partitions: set[str] = field(default_factory=set)
    first_reason: str = ""

    @classmethod
    def of(cls, tried: Iterable[TriedRecord]) -> "TrialOutcomes":
        """Count the outcomes of records."""
        made = cls()
        for record in tried:
            made.add(record)
        return made

    def add(self, tried: TriedRecord) -> None:
        """Count one more."""
        trial = tried.trial
        self.fates[trial.fate] += 1
        self.partitions |= {tried.object} if tried.object else set()
        if trial.fate is Fate.DEAD_LETTER and not self.first_reason:
            self.first_reason = f"{tried.place}: {trial.stage}: {trial.detail}"

    @property
    def total(self) -> int:
        """How many there are."""
        return self.fates.total()

    def __str__(self) -> str:
        if not self.total:
            return "no records"
        return (
            f"{console.counted(self.total, 'record')}: "
            f"{console.count(self.fates[Fate.LANDS])} would land "
            f"in {console.counted(len(self.partitions), 'output partition')}, "
            f"{console.count(self.fates[Fate.LEFT_OUT])} left out, "
            f"{console.counted(self.fates[Fate.DEAD_LETTER], 'dead letter')}"
        )


def tried_records(
    group: ConsumerGroup, topic: str, chunks: Iterable[Records]
) -> Iterator[TriedRecord]:
    """Try records with the stages that the group has for their topic.

    Raises:
        Stalled: SPEC_INVALID, a stage cannot be built.
        Retry: a server that a stage needs does not answer.
    """
    specs = TopicSpecs.of(group.spec)
    entry, spec = specs.entry_of(topic), specs.for_topic(topic)
    partitioner = Partitioner.of(spec, "spec" if entry is None else f"spec.topics[{entry}]")
    for records in chunks:
        yield from _of_chunk(partitioner, spec, records)


def _of_chunk(partitioner: Partitioner, spec: GroupSpec, records: Records) -> Iterator[TriedRecord]:
    tp, extension = records.topic_partition, partitioner.stages.format.extension
    for trial in trials(partitioner, spec, records):
        # The offset in the name is the start of the batch, which was not planned.
        name = f"{spec.generation}_{tp.partition}_*{extension}"
        lands = trial.fate is Fate.LANDS
        folder = folders.folder(tp.topic, trial.detail)
        yield TriedRecord(records, trial, f"{folder}/{name}" if lands else "")
