"""A task's side of Kafka: reads exact ranges with librdkafka.

A slice is read by assigning its topic partition at the start of the range; no group is joined, and
no offset is committed. Short slices are assigned several at once (``landfall.source.ahead``). A
slice is finished once a record at or after its last offset was received, or once the partition's
end is at or after the end of the range: the last offsets may be control records, aborted records,
or removed by compaction. Nothing else finishes it without an error, so every visible record of a
finished range has been yielded.

If the last record that was landed before the slice is known, reading begins after that record and
names its leader epoch. The client then asks the broker where the log of that epoch ends, and so
notices a log that was truncated below the slice (KIP-320), even if it has grown past it again.

How many messages one fetch returns depends on timing. The boundaries of ``Records`` therefore
depend on the data alone: a chunk ends at ``CHUNK_ROWS`` records or at the record that reaches
``CHUNK_BYTES`` of payloads, keys and headers, counted from the start of the slice. By the first
landing rules, payloads alone count.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from confluent_kafka import KafkaError, KafkaException

from landfall.errors import LandfallError, Reason, SourceAway, Stalled
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.task_results import CURRENT_RULES
from landfall.native import HotPath
from landfall.pipeline.records import Records
from landfall.source import LastRead
from landfall.source.ahead import PATIENCE_SECONDS, FetchedAhead, fetch_together
from landfall.source.clients import Client, open_client
from landfall.source.kafka_errors import ErrorTracker, fetch_metadata, translate_error
from landfall.source.messages import Messages, chunks
from landfall.source.progress import CHUNK_BYTES, CHUNK_ROWS, ExpiredBeforeSlice, ReadProgress
from landfall.source.properties import EXACTNESS_PROPERTIES, with_fetch_properties

MAX_OFFSETS_BEFORE = 1_000
"""How far before a slice its reading begins at most, to compare leader epochs. Between the last
visible record and the slice are only invisible offsets, mostly the markers of transactions.
"""
_NOT_YET = {KafkaError._STATE, KafkaError._PREV_IN_PROGRESS, KafkaError._IN_PROGRESS}  # noqa: SLF001  # librdkafka's local errors are spelled so
_SEEK_SECONDS = 0.005
_SEEK_PATIENCE_SECONDS = 0.25
"""After so long, what the client has met at the position may be why it cannot seek."""
_METADATA_SECONDS = 10.0


class KafkaReader:
    """Reads slices with a single consumer, as a ``source.Reader``.

    A worker process has one. Not thread-safe.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        read_timeout: timedelta,
        path: HotPath | None = None,
    ) -> None:
        """Connect at the first read, not here.

        Args:
            properties: librdkafka properties, see ``source.properties``.
            read_timeout: how long to wait for a message or the partition's end, before the slice
                fails with ``Retry``.
            path: whose client is used; None for the process's.
        """
        self._path = path
        self._properties = {**with_fetch_properties(properties), **EXACTNESS_PROPERTIES}
        self._timeout = read_timeout.total_seconds()
        self._consumer: Client | None = None
        self._known_topics: set[str] = set()
        self._errors = ErrorTracker()
        self._busy = False
        self._last: tuple[Slice, ...] = ()
        self._ahead = FetchedAhead()
        self.last_read: Mapping[TopicPartition, LastRead] = {}
        """Of topic partitions that were read before, the last record that was landed."""
        self.rules = CURRENT_RULES
        """By which chunks end."""

    def expect(self, slices: Sequence[Slice]) -> None:
        """These slices will be read next, in this order: short ones are fetched several at once."""
        self._ahead.expect(slices)

    def read(self, slice_: Slice) -> Iterator[Records]:
        """Every visible record of the slice; see ``source.Reader``."""
        if not len(slice_.offsets):
            return
        if together := self._ahead.company(slice_):
            self._fetch_ahead(together)
        found = self._ahead.take(slice_)
        fetches = iter([found]) if found is not None else self._fetch(slice_)
        for messages in chunks(fetches, CHUNK_ROWS, CHUNK_BYTES, self.rules):
            yield messages.records(slice_.topic_partition)

    def _fetch(self, slice_: Slice) -> Iterator[Messages]:
        """The messages of a slice as they are fetched."""
        consumer = self._begin(slice_)
        try:
            progress = self._assign(consumer, slice_)[0]
            yield from self._messages(consumer, progress)
            self._end(consumer, slice_)
        except KafkaException as error:
            self._close_if_current(consumer)
            raise translate_error(error, str(slice_)) from error
        except BaseException:
            # Also when the iterator is closed half-way: its assignment must not leak into the next
            # slice.
            self._close_if_current(consumer)
            raise

    def _fetch_ahead(self, slices: Sequence[Slice]) -> None:
        """Fetch slices at once; those that cannot be fetched so are left to be read alone."""
        consumer = self._begin(*slices)
        try:
            self._ahead.keep(fetch_together(consumer, self._assign(consumer, *slices)))
            # An error that lasts is met again by the slice that is read alone.
            self._errors.clear()
            self._end(consumer, *slices)
        except (KafkaException, LandfallError):
            self.close()

    def _begin(self, *slices: Slice) -> Client:
        """The consumer for reading these slices, which gets no message of any before."""
        # A previous caller may have read half a slice and dropped the iterator without closing it.
        if self._busy or any(map(self._may_see_stale_messages, slices)):
            self.close()
        consumer = self._open()
        self._busy = True
        return consumer

    def _end(self, consumer: Client, *slices: Slice) -> None:
        consumer.unassign()
        self._busy = False
        self._last = slices

    def _assign(self, consumer: Client, *slices: Slice) -> list[ReadProgress]:
        """Begin to fetch slices of different topic partitions."""
        for topic in {slice_.topic_partition.topic for slice_ in slices}:
            self._ensure_known(consumer, topic)
        progresses = [ReadProgress(slice_, self._comparable(slice_)) for slice_ in slices]
        consumer.assign([progress.first_position() for progress in progresses])
        for progress in progresses:
            self._compare_epochs(consumer, progress, is_alone=len(progresses) == 1)
        return progresses

    def _compare_epochs(self, consumer: Client, progress: ReadProgress, *, is_alone: bool) -> None:
        """Let the leader epoch be compared before anything is read, if the position has one."""
        position = progress.first_position()
        began = waited_since = time.monotonic()
        pause = _SEEK_SECONDS
        while progress.before is not None:
            try:
                # assign() compares epochs only if the client does not know the leader yet.
                consumer.seek(position)
            except KafkaException as error:
                # The client has not begun to fetch yet, or is about to stop what it fetched before.
                now = time.monotonic()
                if error.args[0].code() not in _NOT_YET or now - began > self._timeout:
                    raise
                if not is_alone and now - began > PATIENCE_SECONDS:
                    raise  # other slices' messages must not be dropped: each slice is read alone
                if is_alone and now - waited_since > _SEEK_PATIENCE_SECONDS:
                    pause = 0.0 if self._assigned_again(consumer, progress) else _SEEK_SECONDS
                    waited_since = time.monotonic()
                time.sleep(pause)
            else:
                return

    @staticmethod
    def _assigned_again(consumer: Client, progress: ReadProgress) -> bool:
        """Begin again if the client found its position missing from the log; returns whether.

        It has stopped then, and cannot be sought before it begins again. Whether that record has
        expired or was truncated is what it finds out once it is sought: so that must come before
        the answer of the broker. Messages that are met here are dropped, and fetched again.
        """
        is_lost = progress.is_lost(consumer.fetch(1))
        if is_lost:
            consumer.assign([progress.first_position()])
        return is_lost

    def _comparable(self, slice_: Slice) -> LastRead | None:
        """The last record read before the slice, if it is close enough to begin after it."""
        before = self.last_read.get(slice_.topic_partition)
        if before is None or not 0 < slice_.offsets.start - before.offset <= 1 + MAX_OFFSETS_BEFORE:
            return None
        return before

    def close(self) -> None:
        """Close the connection; the next read connects again."""
        consumer = self._consumer
        self._consumer = None
        self._busy = False
        self._last = ()
        if consumer is not None:
            consumer.close()

    def _may_see_stale_messages(self, slice_: Slice) -> bool:
        """Return whether messages fetched for the last slice could look like the end of this one.

        librdkafka discards what it fetched for a previous assignment. If it ever kept a message
        after the end of this slice, the slice would seem finished, with all its offsets invisible.
        A new connection for slices that go back makes that impossible.
        """
        return any(
            last.topic_partition == slice_.topic_partition
            and slice_.offsets.start < last.offsets.end
            for last in self._last
        )

    def _close_if_current(self, consumer: Client) -> None:
        # An abandoned iterator may be closed late, when another slice uses a new consumer.
        if self._consumer is consumer:
            self.close()

    def _open(self) -> Client:
        if self._consumer is None:
            self._known_topics, self._errors = set(), ErrorTracker()
            self._consumer = open_client(self._properties, self._errors, self._path)
        return self._consumer

    def _ensure_known(self, consumer: Client, topic: str) -> None:
        # A client that does not know a topic may wait a second before it looks up its leaders.
        if topic not in self._known_topics:
            fetch_metadata(consumer, self._errors, min(self._timeout, _METADATA_SECONDS), topic)
            self._known_topics.add(topic)

    def _messages(self, consumer: Client, progress: ReadProgress) -> Iterator[Messages]:
        """The messages of the slice as they are fetched, checked, until its end is reached."""
        deadline = time.monotonic() + self._timeout
        while not progress.finished:
            fetch = consumer.fetch(progress.max_messages())
            if fetch:
                self._errors.clear()
                deadline = time.monotonic() + self._timeout
                try:
                    yield progress.admit(fetch)
                except ExpiredBeforeSlice:
                    consumer.assign([progress.first_position()])
            elif self._errors.denial is not None:
                raise translate_error(self._errors.denial, str(progress.slice_))
            elif time.monotonic() > deadline:
                raise self._timeout_error(consumer, progress)

    def _timeout_error(self, consumer: Client, progress: ReadProgress) -> LandfallError:
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
