"""What the auditor reads, without a broker: messages, and a log of any length that stores none."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import HEADERS, Records, of_columns


@dataclass(frozen=True)
class Message:
    """A record with the methods of ``confluent_kafka.Message``."""

    position: int
    payload: bytes | None
    record_key: bytes | None = None
    timestamp_ms: int = -1
    header_pairs: Sequence[tuple[str, bytes | None]] = field(default=())

    def offset(self) -> int:
        return self.position

    def value(self) -> bytes | None:
        return self.payload

    def key(self) -> bytes | None:
        return self.record_key

    def timestamp(self) -> tuple[int, int]:
        return 1, self.timestamp_ms

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return list(self.header_pairs) or None


def of_messages(tp: TopicPartition, messages: Sequence[Message]) -> Records:
    """The same messages as columns, which is how the writer handles them."""
    return of_columns(
        tp,
        np.array([m.position for m in messages], np.int64),
        pa.array([m.payload for m in messages], pa.binary()),
        timestamps=np.array([m.timestamp_ms for m in messages], np.int64),
        keys=pa.array([m.record_key for m in messages], pa.binary()),
        headers=pa.array([list(m.header_pairs) for m in messages], HEADERS),
    )


@dataclass(frozen=True)
class GeneratedLog:
    """A log that generates records on demand; all topic partitions are alike."""

    end: int
    message: Callable[[int], Message]
    start: int = 0
    topic: str = "id"
    compacted: bool = False

    def bounds(self, topic: str, partition: int) -> tuple[int, int] | None:  # noqa: ARG002  # all are alike
        return self.start, self.end

    def topic_id(self, topic: str) -> str | None:  # noqa: ARG002
        return self.topic

    def is_compacted(self, topic: str) -> bool:  # noqa: ARG002
        return self.compacted

    def records(self, topic: str, partition: int, start: int) -> Iterator[Message]:  # noqa: ARG002
        return map(self.message, range(start, self.end))
