"""What the loop asks of an ordered log: Kafka today, files in a bucket later.

The driver's side is a ``Log`` (which topic partitions are there, where do they end), a task's side
is a ``Reader`` (read exactly this range). Kafka's are ``source.kafka.KafkaLog`` and
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
    """What the log holds of a topic partition: offsets ``log_start <= o < end``, ``end`` being the last stable offset."""

    log_start: int
    end: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the log knows it: the id tells a deleted-and-recreated topic from its namesake."""

    name: str
    topic_id: str
    partitions: int


class Log(Protocol):
    """The driver's view. Every method raises ``Retry`` when the log cannot answer now, ``Stalled`` on bad credentials."""

    def topics(self) -> tuple[Topic, ...]:
        """The topics this group lands, by list or pattern less the excluded ones, sorted by name."""
        ...

    def topic_ids(self, names: Collection[str]) -> Mapping[str, str]:
        """The id that each of these topics has now; a topic that is gone is left out."""
        ...

    def watermarks(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, Watermarks]:
        """Log start and end of each; a topic partition that is gone is left out."""
        ...

    def offsets_at(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, int]:
        """The first offset whose record timestamp is at or after ``time``; the end if there is none."""
        ...

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        """The timestamp of the first record at or after each offset; left out where unknown within a short while."""
        ...

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the outside how far the ledger is, as committed offsets of the Kafka group. Never read back."""
        ...


class Reader(Protocol):
    """A task's view: one per worker, reused."""

    def read(self, piece: Slice) -> Iterator[Records]:
        """Every visible record of the slice, in order, cut at places that depend on the data alone.

        Returning normally is the proof that the range was read to its end.

        Raises:
            Stalled: an offset is not there any more (DATA_LOSS) or the topic is gone
                (TOPIC_MISSING).
            Retry: no progress for the reader's time limit, or the broker is away.
        """
        ...
