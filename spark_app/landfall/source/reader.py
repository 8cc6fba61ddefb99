"""A task's side of Kafka: reads exact ranges with librdkafka.

A slice is read by assigning its topic partition at the start of the range; no group is joined, and
no offset is committed. The slice is finished once a record at or after its last offset was
received, or once the partition's end is at or after the end of the range: the last offsets may be
control records, aborted records, or removed by compaction. Nothing else finishes it without an
error, so every visible record of a finished range has been yielded.

If the last record that was landed before the slice is known, reading begins after that record and
names its leader epoch. The client then asks the broker where the log of that epoch ends, and so
notices a log that was truncated below the slice (KIP-320), even if it has grown past it again.

How many messages one fetch returns depends on timing. The boundaries of ``Records`` therefore
depend on the data alone: a chunk ends at ``CHUNK_ROWS`` records or at the record that reaches
``CHUNK_BYTES``, counted from the start of the slice.
"""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaPosition

from landfall.errors import LandfallError, LogTruncated, Reason, Retry, SourceAway, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.pipeline.records import Records
from landfall.source import LastRead
from landfall.source.kafka_errors import ErrorTracker, fetch_metadata, translate_error
from landfall.source.messages import Messages, chunks
from landfall.source.properties import EXACTNESS_PROPERTIES, FETCH_PROPERTIES, create_client

CHUNK_ROWS = 10_000
CHUNK_BYTES = 8 * 2**20

MAX_OFFSETS_BEFORE = 1_000
"""How far before a slice its reading begins at most, to compare leader epochs. Between the last
visible record and the slice are only invisible offsets, mostly the markers of transactions.
"""
_DIVERGES = re.compile(r"truncation detected .*broker end offset is (\d+)")
_NOT_YET = {KafkaError._STATE, KafkaError._PREV_IN_PROGRESS, KafkaError._IN_PROGRESS}  # noqa: SLF001  # librdkafka's local errors are spelled so
_SEEK_SECONDS = 0.005
_POLL_SECONDS = 0.1
_METADATA_SECONDS = 10.0


class KafkaReader:
    """Reads slices one after the other with a single consumer, as a ``source.Reader``.

    A worker process has one. Not thread-safe.
    """

    def __init__(self, properties: Mapping[str, str], read_timeout: timedelta) -> None:
        """Connect at the first read, not here.

        Args:
            properties: librdkafka properties, see ``source.properties``.
            read_timeout: how long to wait for a message or the partition's end, before the slice
                fails with ``Retry``.
        """
        self._properties = {**FETCH_PROPERTIES, **properties, **EXACTNESS_PROPERTIES}
        self._timeout = read_timeout.total_seconds()
        self._consumer: Consumer | None = None
        self._known_topics: set[str] = set()
        self._errors = ErrorTracker()
        self._busy = False
        self._last: Slice | None = None
        self.last_read: Mapping[TopicPartition, LastRead] = {}
        """Of topic partitions that were read before, the last record that was landed."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        """Every visible record of the slice; see ``source.Reader``."""
        if not len(slice_.offsets):
            return
        # A previous caller may have read half a slice and dropped the iterator without closing it.
        if self._busy or self._may_see_stale_messages(slice_):
            self.close()
        consumer = self._open()
        self._busy = True
        try:
            self._ensure_known(consumer, slice_.topic_partition.topic)
            progress = _Progress(slice_, self._comparable(slice_))
            self._assign(consumer, progress)
            for messages in chunks(self._messages(consumer, progress), CHUNK_ROWS, CHUNK_BYTES):
                yield messages.records(slice_.topic_partition)
            consumer.unassign()
            self._busy, self._last = False, slice_
        except KafkaException as error:
            self._close_if_current(consumer)
            raise translate_error(error, str(slice_)) from error
        except BaseException:
            # Also when the iterator is closed half-way: its assignment must not leak into the next
            # slice.
            self._close_if_current(consumer)
            raise

    def _assign(self, consumer: Consumer, progress: "_Progress") -> None:
        """Begin to fetch; the leader epoch is compared first, if the position has one."""
        position = progress.first_position()
        consumer.assign([position])
        deadline = time.monotonic() + self._timeout
        while progress.before is not None:
            try:
                # assign() compares epochs only if the client does not know the leader yet.
                consumer.seek(position)
            except KafkaException as error:
                # The client has not begun to fetch yet, or is about to stop what it fetched before.
                if error.args[0].code() not in _NOT_YET or time.monotonic() > deadline:
                    raise
                time.sleep(_SEEK_SECONDS)
            else:
                return

    def _comparable(self, slice_: Slice) -> LastRead | None:
        """The last record read before the slice, if it is close enough to begin after it."""
        before = self.last_read.get(slice_.topic_partition)
        if before is None or not 0 < slice_.offsets.start - before.offset <= 1 + MAX_OFFSETS_BEFORE:
            return None
        return before

    def close(self) -> None:
        """Close the connection; the next read connects again."""
        consumer, self._consumer, self._busy, self._last = self._consumer, None, False, None
        if consumer is not None:
            consumer.close()

    def _may_see_stale_messages(self, slice_: Slice) -> bool:
        """Whether messages fetched ahead for the last slice could be taken for the end of this one.

        librdkafka discards what it fetched for a previous assignment. If it ever kept a message
        after the end of this slice, the slice would seem finished, with all its offsets invisible.
        A new connection for slices that go back makes that impossible.
        """
        last = self._last
        return (
            last is not None
            and last.topic_partition == slice_.topic_partition
            and slice_.offsets.start < last.offsets.end
        )

    def _close_if_current(self, consumer: Consumer) -> None:
        # An abandoned iterator may be closed late, when another slice uses a new consumer.
        if self._consumer is consumer:
            self.close()

    def _open(self) -> Consumer:
        if self._consumer is None:
            self._known_topics, self._errors = set(), ErrorTracker()
            self._consumer = create_client(
                Consumer, {**self._properties, "error_cb": self._errors.record}
            )
        return self._consumer

    def _ensure_known(self, consumer: Consumer, topic: str) -> None:
        # A client that does not know a topic may wait a second before it looks up its leaders.
        if topic not in self._known_topics:
            fetch_metadata(consumer, self._errors, min(self._timeout, _METADATA_SECONDS), topic)
            self._known_topics.add(topic)

    def _messages(self, consumer: Consumer, progress: "_Progress") -> Iterator[Messages]:
        """The messages of the slice as they are fetched, checked, until its end is reached."""
        deadline = time.monotonic() + self._timeout
        while not progress.finished:
            fetch = _consume(consumer, progress.max_messages())
            if fetch:
                self._errors.clear()
                deadline = time.monotonic() + self._timeout
                try:
                    yield progress.admit(fetch)
                except _ExpiredBeforeSlice:
                    self._assign(consumer, progress)
            elif self._errors.denial is not None:
                raise translate_error(self._errors.denial, str(progress.slice_))
            elif time.monotonic() > deadline:
                raise self._timeout_error(consumer, progress)

    def _timeout_error(self, consumer: Consumer, progress: "_Progress") -> LandfallError:
        """The error for no progress, which depends on whether the topic partition exists."""
        # Read before the metadata, which clears it.
        last_error = self._errors.last
        tp = progress.slice_.topic_partition
        seconds = min(self._timeout, _METADATA_SECONDS)
        found = fetch_metadata(consumer, self._errors, seconds, tp.topic).topics[tp.topic]
        if found.error is not None:
            return translate_error(found.error, str(progress.slice_))
        if tp.partition not in found.partitions:
            count = len(found.partitions)
            plural = "" if count == 1 else "s"
            return Stalled(
                Reason.TOPIC_MISSING, f"{tp}: the topic has {count} Kafka partition{plural}"
            )
        end = f", its log ends at {progress.log_end}" if progress.log_end is not None else ""
        hint = f": {last_error.str()}" if last_error is not None else ""
        return SourceAway(
            f"{progress.slice_}: no progress for {self._timeout:g} s "
            f"at offset {progress.position}{end}{hint}"
        )


def _consume(consumer: Consumer, max_messages: int) -> list[Message]:
    # consume(n, t) waits until it has n. So wait only for the first, then take what came with it.
    first: list[Message] = consumer.consume(1, _POLL_SECONDS)
    return first + consumer.consume(max_messages - 1, 0) if first and max_messages > 1 else first


class _ExpiredBeforeSlice(Exception):  # noqa: N818  # states a fact
    """The record before the slice is not in the log any more, so its epoch cannot be compared."""


@dataclass
class _Progress:
    """How far a slice has been read.

    Attributes:
        slice_: the slice.
        before: the last record read before it, if its leader epoch is to be compared.
        position: every visible record before it has been admitted.
        finished: whether the range has been read to its end.
        log_end: the topic partition's end when the client last reported it; None before.
    """

    slice_: Slice
    before: LastRead | None = None
    position: int = field(init=False)
    finished: bool = False
    log_end: int | None = None
    _mean_bytes: float = CHUNK_BYTES / 100

    def __post_init__(self) -> None:
        self.position = self.slice_.offsets.start

    def first_position(self) -> KafkaPosition:
        """Where to begin: at the slice, or after the record whose epoch is to be compared."""
        tp = self.slice_.topic_partition
        if self.before is None:
            return KafkaPosition(tp.topic, tp.partition, self.slice_.offsets.start)
        return KafkaPosition(
            tp.topic, tp.partition, self.before.offset + 1, leader_epoch=self.before.leader_epoch
        )

    def max_messages(self) -> int:
        """Messages to fetch: at most what is left of the range, and about a chunk of bytes."""
        return max(
            1,
            min(
                CHUNK_ROWS,
                self.slice_.offsets.end - self.position,
                int(CHUNK_BYTES / (self._mean_bytes + 1)),
            ),
        )

    def admit(self, fetch: list[Message]) -> Messages:
        """The messages of a fetch that belong to the slice; ``position`` advances past them.

        Raises:
            Stalled, Retry: the fetch contains an error, or an offset that does not increase.
        """
        if any(map(Message.error, fetch)):
            for message in fetch:
                if (error := message.error()) is not None:
                    self._end_or_raise(message, error)
            fetch = [message for message in fetch if message.error() is None]
        return self._within_range(Messages.of(self._of_topic_partition(fetch)))

    def _of_topic_partition(self, fetch: list[Message]) -> list[Message]:
        tp = self.slice_.topic_partition
        if set(map(Message.partition, fetch)) == {tp.partition} and set(
            map(Message.topic, fetch)
        ) == {tp.topic}:
            return fetch
        # The others are left over from a previous assignment.
        return [
            message
            for message in fetch
            if (message.topic(), message.partition()) == (tp.topic, tp.partition)
        ]

    def _within_range(self, messages: Messages) -> Messages:
        found, expected = messages.offsets, self.slice_.offsets
        low, high = np.searchsorted(found, [expected.start, expected.end])
        if not (np.diff(found) > 0).all() or (high > low and found[low] < self.position):
            raise Retry(
                f"{self.slice_}: offsets do not increase after {self.position}: "
                f"{found[:3]}..{found[-3:]}"
            )
        if len(found):
            self.finished |= bool(found[-1] >= expected.end - 1)
            self._mean_bytes = float(messages.sizes.mean())
        if high > low:
            self.position = int(found[high - 1]) + 1
        return messages[low:high]

    def _end_or_raise(self, message: Message, error: KafkaError) -> None:
        tp, offsets = self.slice_.topic_partition, self.slice_.offsets
        if (message.topic(), message.partition()) not in {(tp.topic, tp.partition), (None, -1)}:
            return  # left over from a previous assignment
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # librdkafka's local errors are spelled so
            self.log_end = message.offset() or 0
            self.finished |= self.log_end >= offsets.end
        elif error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            raise self._loss(error)
        elif not error.retriable():
            raise translate_error(error, str(self.slice_))

    def _loss(self, error: KafkaError) -> Exception:
        """What it means that the log does not have an offset that was asked for."""
        tp, offsets = self.slice_.topic_partition, self.slice_.offsets
        if truncated := _DIVERGES.search(error.str()):
            diverges_at = int(truncated[1])
            if self.before is None or diverges_at > self.before.offset:
                # All that is landed is still in the log: what was read of the slice is not landed.
                return Retry(f"{self.slice_}: the log was truncated at {diverges_at} meanwhile")
            return LogTruncated(
                f"{tp}: the log was truncated at offset {diverges_at} and written anew: what it "
                f"holds in {OffsetRange(diverges_at, offsets.start)} is not what was landed",
                diverges_at,
            )
        if self.before is not None and self.position == offsets.start:
            self.before = None
            return _ExpiredBeforeSlice()
        lost = OffsetRange(self.position, offsets.end)
        return Stalled(Reason.DATA_LOSS, f"{tp}: offsets {lost} are not all there: {error.str()}")
