"""The protocols of an ordered log, the source of records: Kafka today, possibly other logs later.

A ``Log`` is the driver's side: which topic partitions exist, and where they end. A ``Reader`` is a
task's side: it reads exactly one range. Kafka's are ``source.kafka.KafkaLog`` and
``source.reader.KafkaReader``.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from landfall.errors import LandfallError, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition

if TYPE_CHECKING:  # commands that only ask the driver's side must not wait for NumPy and Arrow
    from landfall.pipeline.records import Records


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The offsets ``log_start <= o < end`` that the log holds of a topic partition.

    ``end`` is the last stable offset, so records of open transactions are at or after it.
    """

    log_start: int
    end: int

    @classmethod
    def of(cls, log_start: int, end: int) -> "Watermarks":
        """Return the results of two requests; expiry may move the log start past the end."""
        return cls(min(log_start, end), end)


class Bound(Enum):
    """An offset that the log knows of each topic partition."""

    LOG_START = "log start offset"
    END = "last stable offset"
    HIGH_WATERMARK = "high watermark"
    """From ``END`` up to here are the records that open transactions hold back."""


@dataclass(frozen=True, slots=True)
class FoundOffsets:
    """The log's answer for some topic partitions; one in neither does not exist.

    Attributes:
        offsets: by topic partition.
        unavailable: topic partitions that the log cannot answer for now, and why.
    """

    offsets: Mapping[TopicPartition, int]
    unavailable: Mapping[TopicPartition, LandfallError]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the log.

    ``topic_id`` distinguishes it from a topic that was deleted and recreated under the same name;
    it is empty if the brokers give none.
    ``partitions`` is the number of its Kafka partitions.
    """

    name: str
    topic_id: str
    partitions: int

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """Its topic partitions, in order."""
        return tuple(TopicPartition(self.name, n) for n in range(self.partitions))


@dataclass(frozen=True, slots=True)
class FoundTopics:
    """The log's answer for some topics; one in neither does not exist.

    Attributes:
        topics: sorted by name.
        denied: by name, topics that may not be described, and why. The log does not
            report whether they exist.
    """

    topics: tuple[Topic, ...]
    denied: Mapping[str, Stalled]

    @property
    def ids(self) -> Mapping[str, str]:
        """The topic id of each topic that was described."""
        return {topic.name: topic.topic_id for topic in self.topics}


@dataclass(frozen=True, slots=True)
class LastRead:
    """The last record that was read of a topic partition: its offset and leader epoch.

    The leader of a Kafka partition writes its epoch, which each election raises, into every record.
    If the log had to give up records, the log of that epoch ends at or before their offsets now.
    """

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class DatedOffset:
    """An offset, and the Kafka timestamp (ms) of what is there: a record or a control record."""

    offset: int
    timestamp: int


class Log(Protocol):
    """The driver's side of a log.

    Every method raises ``Retry`` if the log does not respond at all, and ``Stalled`` if access is
    denied. What goes wrong for single topic partitions is in the results.
    """

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        """The topics this group lands: listed or matched, not excluded.

        A log lists no topic that it denies, so those that the spec matches by a pattern are found
        to be denied only if ``known`` names them.

        Raises:
            Stalled: SOURCE_DENIED, also if every topic is denied.
        """
        ...

    def describe(self, names: Collection[str]) -> FoundTopics:
        """These topics as they are now."""
        ...

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        """This offset of each topic partition."""
        ...

    def offsets_at(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, int]:
        """The first offset whose record's timestamp is at or after ``time``, else the end.

        A topic partition that does not exist or is unavailable is left out.
        """
        ...

    def first_from(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, DatedOffset | None]:
        """The first offset dated at or after ``time`` and below the last stable offset, else None.

        A topic partition that does not exist or is unavailable is left out.
        """
        ...

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        """The timestamp of the first record at or after each offset.

        A topic partition whose record is not found within a few seconds is left out.
        """
        ...

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the checkpoint to the Kafka group, for other tools. Landfall never reads it."""
        ...


class EndsEarly(Exception):  # noqa: N818  # the name is the state
    """A reader gave all of a slice that can be read now, which is the records below an offset.

    Attributes:
        offset: above the start of the slice.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(f"ends early, at offset {offset}")
        self.offset = offset


class Reader(Protocol):
    """A task's side of a log. A worker process has one and reuses it."""

    def read(self, slice_: Slice) -> "Iterator[Records]":
        """Every visible record of the slice, in order, in chunks that depend only on the data.

        If the iterator ends without an error, the range was read to its end.

        Raises:
            EndsEarly: only a shorter slice can be read; what came before are its records.
            Stalled: DATA_LOSS, an offset does not exist any more; TOPIC_MISSING, the topic or the
                Kafka partition does not exist.
            Retry: no progress within the reader's timeout, or the broker does not respond.
        """
        ...


@dataclass(frozen=True, slots=True)
class CoveredPrefix:
    """The first part of a range: what another group has all of, or what it has nothing of.

    Attributes:
        offsets: the part; never empty.
        why: why it cannot be read; None if it can be.
        is_final: whether it never can be, as far as that group's ledger shows.
        is_committed: whether that group has committed it, though its objects are not visible yet.
            It is not lost then, however long that takes.
    """

    offsets: OffsetRange
    why: Stalled | None = None
    is_final: bool = False
    is_committed: bool = False


class Backup(Protocol):
    """Records that another group has landed of a log that has lost them."""

    @property
    def group(self) -> str:
        """The name of that group."""
        ...

    def first_stretch(
        self, tp: TopicPartition, topic_id: str, offsets: OffsetRange
    ) -> CoveredPrefix:
        """Return the stretch of these offsets that it has, beginning at the first.

        Args:
            tp: the topic partition.
            topic_id: of its topic; records of another one do not count.
            offsets: the lost ones; not empty.

        Raises:
            Retry: the other group's store does not answer.
            Stalled: its ledger or the spec is wrong.
        """
        ...
