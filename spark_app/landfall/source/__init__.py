"""The protocols of an ordered log, the source of records: Kafka today, possibly others later.

A ``Log`` is the driver's side: which topic partitions exist, and where they end. A ``Reader`` is a
task's side: it reads exactly one range. Kafka's are ``source.kafka.KafkaLog`` and
``source.reader.KafkaReader``.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from landfall.ledger.offsets import Slice, TopicPartition
from landfall.pipeline.records import Records


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The offsets ``log_start <= o < end`` that the log holds of a topic partition.

    ``end`` is the last stable offset, so records of open transactions are at or after it.
    """

    log_start: int
    end: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic in the log.

    ``topic_id`` distinguishes it from a topic that was deleted and recreated under the same name.
    ``partitions`` is the number of its Kafka partitions.
    """

    name: str
    topic_id: str
    partitions: int


class Log(Protocol):
    """The driver's side of a log.

    Every method raises ``Retry`` if the log does not respond, and ``Stalled`` if access is denied.
    """

    def topics(self) -> tuple[Topic, ...]:
        """The topics this group lands: listed or matched, not excluded, sorted by name."""
        ...

    def topic_ids(self, names: Collection[str]) -> Mapping[str, str]:
        """The current id of each of these topics; a topic that does not exist is left out."""
        ...

    def watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, Watermarks]:
        """The watermarks of each topic partition; one that does not exist is left out."""
        ...

    def offsets_at(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, int]:
        """The first offset whose record's timestamp is at or after ``time``, else the end."""
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


class Reader(Protocol):
    """A task's side of a log. A worker process has one and reuses it."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        """Every visible record of the slice, in order, in chunks that depend only on the data.

        If the iterator ends without an error, the range was read to its end.

        Raises:
            Stalled: DATA_LOSS, an offset does not exist any more; TOPIC_MISSING, the topic or the
                Kafka partition does not exist.
            Retry: no progress within the reader's timeout, or the broker does not respond.
        """
        ...
