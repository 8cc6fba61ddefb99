"""How far a slice has been read, and whether a fetched message ends it. No I/O.

A slice is finished once a record at or after its last offset was received, or once the partition's
end is at or after the end of the range. See ``landfall.source.reader``.
"""

import re
from dataclasses import dataclass, field

import numpy as np
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as KafkaPosition

from landfall.errors import LogTruncated, Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.source import LastRead
from landfall.source.kafka_errors import translate_error
from landfall.source.messages import NO_MESSAGES, Fetch, FetchError, Messages, Place

CHUNK_ROWS = 10_000
CHUNK_BYTES = 8 * 2**20

_LOST = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001  # librdkafka's local errors are spelled so
_DIVERGES = re.compile(r"truncation detected .*broker end offset is (\d+)")


class ExpiredBeforeSlice(Exception):  # noqa: N818  # states a fact
    """The record before the slice is not in the log any more, so its epoch cannot be compared."""


@dataclass
class ReadProgress:
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

    @property
    def place(self) -> Place:
        """Where messages of the slice are from."""
        return self.slice_.topic_partition.topic, self.slice_.topic_partition.partition

    def admit(self, fetch: Fetch) -> Messages:
        """The messages of a fetch that belong to the slice; ``position`` advances past them.

        Messages of other topic partitions are left over from a previous assignment.

        Raises:
            Stalled, Retry: the fetch contains an error, or an offset that does not increase.
        """
        for failed in fetch.errors:
            self._end_or_raise(failed)
        return self._within_range(fetch.messages.get(self.place, NO_MESSAGES))

    def is_lost(self, fetch: Fetch) -> bool:
        """Return whether a fetch reports that offsets of the topic partition are not there."""
        return any(
            failed.place == self.place and failed.error.code() in _LOST for failed in fetch.errors
        )

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

    def _end_or_raise(self, failed: FetchError) -> None:
        error, offsets = failed.error, self.slice_.offsets
        if failed.place not in {self.place, (None, -1)}:
            return  # left over from a previous assignment
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # librdkafka's local errors are spelled so
            self.log_end = failed.offset or 0
            self.finished |= self.log_end >= offsets.end
        elif error.code() in _LOST:
            raise self._loss(error)
        elif not error.retriable():
            raise translate_error(error, str(self.slice_))

    def _loss(self, error: KafkaError) -> Exception:
        """Return the exception for a requested offset that the log does not have."""
        tp, offsets = self.slice_.topic_partition, self.slice_.offsets
        if truncated := _DIVERGES.search(error.str()):
            diverges_at = int(truncated[1])
            if self.before is None or diverges_at > self.before.offset:
                # All that is landed is still in the log: what was read of the slice is not landed.
                return Retry(f"{self.slice_}: the log was truncated at {diverges_at} meanwhile")
            return LogTruncated(
                f"{tp}: the log was truncated at offset {diverges_at} and written again: what it "
                f"holds in {OffsetRange(diverges_at, offsets.start)} is not what was landed",
                diverges_at,
            )
        if self.before is not None and self.position == offsets.start:
            self.before = None
            return ExpiredBeforeSlice()
        lost = OffsetRange(self.position, offsets.end)
        return Stalled(Reason.DATA_LOSS, f"{tp}: offsets {lost} are not all there: {error.str()}")
