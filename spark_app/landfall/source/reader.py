"""A task's side of Kafka: exact ranges, read with librdkafka.

A slice is read by assigning its topic partition at the range's start; no group is joined, no offset
is committed. It is finished when a record at or beyond its last offset was seen, or the partition's
end at or beyond the range's end: the tail may be control records, aborted records or compacted
away. Nothing else ends it normally, so a range read to its end is a range of which every visible
record was yielded.

How many messages one answer of the client holds depends on timing. Each ``Records`` therefore ends
by the data alone: at ``CHUNK_ROWS`` records or at the record that reaches ``CHUNK_BYTES``, counted
from the start of the slice.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPosition

from landfall.errors import LandfallError, Reason, Retry, SourceAway, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.pipeline.records import Records
from landfall.source.kafka_errors import Trouble, meaning, metadata
from landfall.source.messages import Messages, chunks
from landfall.source.properties import PACE, READING, connected

CHUNK_ROWS = 10_000
CHUNK_BYTES = 8 * 2**20

_WAIT_SECONDS = 0.1
_METADATA_SECONDS = 10.0


class KafkaReader:
    """Reads slices one after the other with a single consumer; one per worker process, not thread-safe."""

    def __init__(self, properties: Mapping[str, str], read_timeout: timedelta) -> None:
        """Nothing is connected before the first read.

        Args:
            properties: librdkafka's, see ``source.properties``.
            read_timeout: without a message or an end for this long, a slice is given up with
                ``Retry``.
        """
        self._properties = {**PACE, **properties, **READING}
        self._timeout = read_timeout.total_seconds()
        self._consumer: Consumer | None = None
        self._known: set[str] = set()
        self._trouble = Trouble()
        self._busy = False
        self._last: Slice | None = None

    def read(self, piece: Slice) -> Iterator[Records]:
        """Every visible record of the slice; see ``source.Reader``."""
        if not len(piece.offsets):
            return
        # half-read by whoever came before, perhaps without closing the iterator, or ahead of what
        # is asked for now
        if self._busy or self._behind(piece):
            self.close()
        consumer = self._open()
        self._busy = True
        try:
            self._know(consumer, piece.topic_partition.topic)
            consumer.assign([_position(piece.topic_partition, piece.offsets.start)])
            for messages in chunks(self._messages(consumer, piece), CHUNK_ROWS, CHUNK_BYTES):
                yield messages.records(piece.topic_partition)
            consumer.unassign()
            self._busy, self._last = False, piece
        except KafkaException as error:
            self._drop(consumer)
            raise meaning(error, str(piece)) from error
        except BaseException:
            self._drop(consumer)  # a half-read assignment must not leak into the next slice
            raise

    def close(self) -> None:
        """Leave the broker; the next read connects anew."""
        consumer, self._consumer, self._busy, self._last = self._consumer, None, False, None
        if consumer is not None:
            consumer.close()

    def _behind(self, piece: Slice) -> bool:
        """Whether messages fetched ahead for the slice before could pass for the end of this one.

        librdkafka drops what an assignment before has fetched. Were it ever to keep a message
        beyond this slice's end, the slice would seem finished, all of it invisible; so nothing
        hangs on it.
        """
        last = self._last
        return (
            last is not None
            and last.topic_partition == piece.topic_partition
            and piece.offsets.start < last.offsets.end
        )

    def _drop(self, consumer: Consumer) -> None:
        if self._consumer is consumer:
            self.close()

    def _open(self) -> Consumer:
        if self._consumer is None:
            self._known, self._trouble = set(), Trouble()
            self._consumer = connected(
                Consumer, {**self._properties, "error_cb": self._trouble.note}
            )
        return self._consumer

    def _know(self, consumer: Consumer, topic: str) -> None:
        # a client that does not know a topic yet may take a second to ask for its leaders by itself
        if topic not in self._known:
            metadata(consumer, self._trouble, min(self._timeout, _METADATA_SECONDS), topic)
            self._known.add(topic)

    def _messages(self, consumer: Consumer, piece: Slice) -> Iterator[Messages]:
        """The slice's messages as the client hands them out, checked, until the range is read to its end."""
        seen = _Seen(piece)
        deadline = time.monotonic() + self._timeout
        while not seen.finished:
            answer = _consume(consumer, seen.most())
            if answer:
                self._trouble.clear()
                deadline = time.monotonic() + self._timeout
                yield seen.admit(answer)
            elif self._trouble.refusal is not None:
                raise meaning(self._trouble.refusal, str(piece))
            elif time.monotonic() > deadline:
                raise self._standstill(consumer, seen)

    def _standstill(self, consumer: Consumer, seen: "_Seen") -> LandfallError:
        tp, trouble = seen.piece.topic_partition, self._trouble.last
        seconds = min(self._timeout, _METADATA_SECONDS)
        found = metadata(consumer, self._trouble, seconds, tp.topic).topics[tp.topic]
        if found.error is not None:
            return meaning(found.error, str(seen.piece))
        if tp.partition not in found.partitions:
            return Stalled(
                Reason.TOPIC_MISSING,
                f"{tp}: the topic has {len(found.partitions)} Kafka partitions",
            )
        end = f", where its log ends at {seen.log_end}" if seen.log_end is not None else ""
        hint = f": {trouble.str()}" if trouble is not None else ""
        return SourceAway(
            f"{seen.piece}: no progress for {self._timeout:g} s at offset {seen.position}{end}{hint}"
        )


def _position(tp: TopicPartition, offset: int) -> KafkaPosition:
    return KafkaPosition(tp.topic, tp.partition, offset)


def _consume(consumer: Consumer, most: int) -> list[Message]:
    # consume(n, t) waits for all n: wait for the first only, then take what has come with it
    first: list[Message] = consumer.consume(1, _WAIT_SECONDS)
    return first + consumer.consume(most - 1, 0) if first and most > 1 else first


@dataclass
class _Seen:
    """How far a slice is read.

    Attributes:
        piece: the slice.
        position: every visible record below it was admitted.
        finished: whether the range is read to its end.
        log_end: where the topic partition ended when last told, or None.
    """

    piece: Slice
    position: int = field(init=False)
    finished: bool = False
    log_end: int | None = None
    _mean_bytes: float = CHUNK_BYTES / 100

    def __post_init__(self) -> None:
        self.position = self.piece.offsets.start

    def most(self) -> int:
        """Messages to ask for: no more than the range still holds, about a chunk of bytes at most."""
        return max(
            1,
            min(
                CHUNK_ROWS,
                self.piece.offsets.end - self.position,
                int(CHUNK_BYTES / (self._mean_bytes + 1)),
            ),
        )

    def admit(self, answer: list[Message]) -> Messages:
        """Those of the answer's messages that belong to the slice, after noting how far they reach.

        Raises:
            Stalled, Retry: the answer holds an error, or an offset that does not increase.
        """
        if any(map(Message.error, answer)):
            for message in answer:
                if (error := message.error()) is not None:
                    self._end_or_raise(message, error)
            answer = [message for message in answer if message.error() is None]
        return self._within(Messages.of(self._ours(answer)))

    def _ours(self, answer: list[Message]) -> list[Message]:
        tp = self.piece.topic_partition
        if set(map(Message.partition, answer)) == {tp.partition} and set(
            map(Message.topic, answer)
        ) == {tp.topic}:
            return answer
        # left over from an assignment before
        return [
            message
            for message in answer
            if (message.topic(), message.partition()) == (tp.topic, tp.partition)
        ]

    def _within(self, messages: Messages) -> Messages:
        numbers, wanted = messages.offsets, self.piece.offsets
        low, high = np.searchsorted(numbers, [wanted.start, wanted.end])
        if not (np.diff(numbers) > 0).all() or (high > low and numbers[low] < self.position):
            raise Retry(
                f"{self.piece}: offsets do not increase after {self.position}: {numbers[:3]}..{numbers[-3:]}"
            )
        if len(numbers):
            self.finished |= bool(numbers[-1] >= wanted.end - 1)
            self._mean_bytes = float(messages.sizes.mean())
        if high > low:
            self.position = int(numbers[high - 1]) + 1
        return messages[low:high]

    def _end_or_raise(self, message: Message, error: KafkaError) -> None:
        tp, offsets = self.piece.topic_partition, self.piece.offsets
        if (message.topic(), message.partition()) not in {(tp.topic, tp.partition), (None, -1)}:
            return  # left over from an assignment before
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # librdkafka's local errors are spelled so
            self.log_end = message.offset() or 0
            self.finished |= self.log_end >= offsets.end
        elif error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            lost = OffsetRange(self.position, offsets.end)
            raise Stalled(
                Reason.DATA_LOSS, f"{tp}: offsets {lost} are not all there: {error.str()}"
            )
        elif not error.retriable():
            raise meaning(error, str(self.piece))
