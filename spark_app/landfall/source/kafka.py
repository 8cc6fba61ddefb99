"""The driver's side of Kafka: topics, offsets by bound or by time, and the offset mirror.

End offsets are last stable offsets. Whether an offset below one is visible never changes, so a
planned range always has the same records. Offsets are committed to the Kafka group for other tools;
nothing here reads them.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    Uuid,
)
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from landfall.api.spec import ConsumerGroup
from landfall.errors import LandfallError, Reason, Retry, SourceAway, Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, DatedOffset, FoundOffsets, FoundTopics, Topic
from landfall.source.kafka_errors import (
    ErrorTracker,
    fetch_metadata,
    is_denied_topic,
    translate_error,
)
from landfall.source.properties import (
    EXACTNESS_PROPERTIES,
    create_client,
    kafka_properties,
    with_fetch_properties,
)

# Looks up one offset of each of many Kafka partitions, so that a broken one affects no other.
#
# A client asks the broker that it believes to be a partition's leader. If that broker is gone, its
# request waits for the timeout, and with it every partition that was asked about in the same call.
# So everything that is not answered at once is asked again by leader, after a look at the cluster's
# metadata: a partition without a leader is not asked, and a broker that does not respond costs one
# timeout.

BOUND_QUERIES = {Bound.LOG_START: -2, Bound.END: -1, Bound.HIGH_WATERMARK: -1}
"""The code of each bound in ListOffsets; the isolation level separates END and HIGH_WATERMARK."""
CHUNK = 250
"""Kafka partitions in one call. librdkafka's time for a call grows with the square of this."""
SILENT_SECONDS = 2.0
"""The timeout for a broker that did not respond the last time."""


class OffsetLookup:
    """Offsets as one consumer sees them, which has an isolation level. Not thread-safe."""

    def __init__(self, client: Consumer, errors: ErrorTracker, timeout_seconds: float) -> None:
        """``timeout_seconds`` is for each request; ``errors`` is the client's ``error_cb``."""
        self._client = client
        self._errors = errors
        self._timeout_seconds = timeout_seconds
        self._unavailable: set[TopicPartition] = set()
        self._silent: set[int] = set()

    def find(self, tps: Collection[TopicPartition], query: int) -> FoundOffsets:
        """The offset of each Kafka partition for ``query``: a timestamp in ms, -1 end, -2 start.

        Raises:
            KafkaException: the cluster's metadata cannot be read.
        """
        offsets: dict[TopicPartition, int] = {}
        try:
            steady = [tp for tp in tps if tp not in self._unavailable] if self._unavailable else tps
            for chunk in _chunks(steady):
                self._ask(chunk, query, offsets, self._timeout_seconds)
        except KafkaException:
            pass  # what this left out is asked again, one leader at a time
        rest = [tp for tp in tps if tp not in offsets] if len(offsets) < len(tps) else []
        unavailable = self._ask_leaders(rest, query, offsets) if rest else {}
        self._unavailable.difference_update(offsets)
        self._unavailable.update(unavailable)
        return FoundOffsets(offsets, unavailable)

    def _ask(
        self,
        tps: Sequence[TopicPartition],
        query: int,
        offsets: dict[TopicPartition, int],
        seconds: float,
    ) -> dict[TopicPartition, LandfallError]:
        """Add what is found to ``offsets``; return the errors of the rest."""
        errors = {}
        asked = [Position(tp.topic, tp.partition, query) for tp in tps]
        for tp, answer in zip(tps, self._client.offsets_for_times(asked, seconds), strict=True):
            if answer.partition != tp.partition or answer.topic != tp.topic:
                raise AssertionError(f"asked for {tp}, got {answer.topic}/{answer.partition}")
            if answer.error is None:
                offsets[tp] = answer.offset
            else:
                errors[tp] = translate_error(answer.error, str(tp))
        return errors

    def _ask_leaders(
        self, tps: Sequence[TopicPartition], query: int, offsets: dict[TopicPartition, int]
    ) -> dict[TopicPartition, LandfallError]:
        """Like ``_ask``, with requests that concern one broker each; missing ones are left out."""
        unavailable: dict[TopicPartition, LandfallError] = {}
        silent: set[int] = set()
        for leader, led in self._by_leader(tps).items():
            if leader < 0:
                unavailable |= {
                    tp: SourceAway(f"{tp}: the Kafka partition has no leader") for tp in led
                }
                continue
            seconds = SILENT_SECONDS if leader in self._silent else self._timeout_seconds
            try:
                for chunk in _chunks(led):
                    unavailable |= self._ask(chunk, query, offsets, seconds)
            except KafkaException as error:
                silent.add(leader)
                unavailable |= {
                    tp: translate_error(error, f"{tp}: broker {leader} leads it")
                    for tp in led
                    if tp not in offsets
                }
        self._silent = silent
        return {tp: error for tp, error in unavailable.items() if not is_missing(error)}

    def _by_leader(self, tps: Sequence[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The Kafka partitions that exist, by the id of their leader; -1 for none."""
        topics = fetch_metadata(self._client, self._errors, self._timeout_seconds).topics
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in tps:
            topic = topics.get(tp.topic)
            found = topic.partitions.get(tp.partition) if topic else None
            if found is not None:
                by_leader.setdefault(found.leader, []).append(tp)
        return by_leader


def is_missing(error: LandfallError) -> bool:
    """Return whether the error means that there is no such topic or Kafka partition."""
    return isinstance(error, Stalled) and error.reason is Reason.TOPIC_MISSING


def _chunks(tps: Collection[TopicPartition]) -> Iterator[list[TopicPartition]]:
    remaining = iter(tps)
    while chunk := list(islice(remaining, CHUNK)):
        yield chunk


_RECORD_TIME_SECONDS = 2.0
_NO_ID = str(Uuid(0, 0))
_MAX_TIMESTAMP_MS = 253_402_300_799_000
"""The last second of the year 9999, where ``datetime`` ends."""


class KafkaLog:
    """The topics of a group, as a ``source.Log``. Connects at the first call. Thread-safe."""

    def __init__(
        self, group: ConsumerGroup, answer_timeout: timedelta = timedelta(seconds=10)
    ) -> None:
        """Create the clients; ``answer_timeout`` is the timeout of a request.

        Raises:
            Stalled: SPEC_INVALID, librdkafka does not accept the properties.
        """
        self._timeout_seconds = answer_timeout.total_seconds()
        self._kafka = group.spec.source.require_kafka()
        self._errors = ErrorTracker()
        properties: dict[str, Any] = {
            **with_fetch_properties(kafka_properties(group)),
            "error_cb": self._errors.record,
        }
        self._admin = create_client(AdminClient, properties)
        # Also reads high watermarks, which Kafka gives only to readers of uncommitted records.
        self._mirror = create_client(
            Consumer,
            {**properties, **EXACTNESS_PROPERTIES, "isolation.level": "read_uncommitted"},
        )
        self._time_reader_lock = Lock()
        self._known_topics: set[str] = set()
        # "earliest": if a record has expired, the first that is left is as good for its age.
        self._time_reader = create_client(
            Consumer, {**properties, **EXACTNESS_PROPERTIES, "auto.offset.reset": "earliest"}
        )
        self._committed_offsets = OffsetLookup(
            self._time_reader, self._errors, self._timeout_seconds
        )
        self._high_watermarks = OffsetLookup(self._mirror, self._errors, self._timeout_seconds)

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        """The topics the group lands; brokers list no topic that they deny, so it must be named."""
        try:
            listed = fetch_metadata(self._admin, self._errors, self._timeout_seconds).topics
        except KafkaException as error:
            raise self._translate(error, "topics") from error
        names = {*listed, *known, *self._kafka.topics}
        found = self.describe({name for name in names if self._kafka.selects(name)})
        if found.denied and not found.topics:
            raise Stalled(Reason.SOURCE_DENIED, "\n".join(map(str, found.denied.values())))
        return found

    def describe(self, names: Collection[str]) -> FoundTopics:
        """These topics as they are now; what Kafka keeps for itself is denied if it is listed."""
        if not names:
            return FoundTopics((), {})
        try:
            futures = self._admin.describe_topics(
                TopicCollection(sorted(names)), request_timeout=self._timeout_seconds
            )
        except KafkaException as error:
            raise self._translate(error, "topics") from error
        topics: list[Topic] = []
        denied: dict[str, Stalled] = {}
        for name, future in sorted(futures.items()):
            found = self._described(name, future)
            if isinstance(found, Stalled):
                denied[name] = found
            elif found and found.is_internal and name in self._kafka.topics:
                why = "Kafka keeps its own records in it, which are not landed: leave it out"
                denied[name] = Stalled(
                    Reason.SOURCE_DENIED, f"{name}: {why} of source.kafka.topics"
                )
            elif found and not found.is_internal:
                topics.append(Topic(name, _topic_id(found), len(found.partitions)))
        return FoundTopics(tuple(topics), denied)

    def unreadable(self, names: Collection[str]) -> list[str]:
        """Return the topics that the group's login may describe, but not read.

        Brokers without authorization, and brokers before Kafka 2.3, do not report it.
        """
        if not names:
            return []
        futures = self._admin.describe_topics(
            TopicCollection(sorted(names)),
            include_authorized_operations=True,
            request_timeout=self._timeout_seconds,
        )
        allowed = {name: self._described(name, future) for name, future in futures.items()}
        enough = {AclOperation.READ, AclOperation.ALL}
        return [
            name
            for name, description in sorted(allowed.items())
            if description
            and description.authorized_operations
            and not enough & {*description.authorized_operations}
        ]

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        """This offset of each topic partition; ends are last stable offsets."""
        is_high = bound is Bound.HIGH_WATERMARK
        lookup = self._high_watermarks if is_high else self._committed_offsets
        return self._find(lookup, tps, BOUND_QUERIES[bound])

    def offsets_at(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, int]:
        """The first offset whose record has a timestamp at or after ``time``; the end if none has.

        Timestamps need not be in order. A topic partition that does not exist or is unavailable is
        left out.
        """
        milliseconds = max(int(time.timestamp() * 1000), 0)  # negative numbers are other queries
        found = self._find(self._committed_offsets, tps, milliseconds).offsets
        beyond = [tp for tp, offset in found.items() if offset < 0]
        ends = self.offsets(beyond, Bound.END).offsets
        return {tp: offset for tp, offset in {**found, **ends}.items() if offset >= 0}

    def first_from(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, DatedOffset | None]:
        """See ``Log``."""
        milliseconds = max(int(time.timestamp() * 1000), 0)
        asked = {
            Position(tp.topic, tp.partition): OffsetSpec.for_timestamp(milliseconds) for tp in tps
        }
        try:
            futures = self._admin.list_offsets(
                asked,
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=self._timeout_seconds,
            )
        except KafkaException as error:
            raise self._translate(error, "offsets by time") from error
        found = dict[TopicPartition, DatedOffset | None]()
        for position, future in futures.items():
            try:
                answer = future.result()
            except KafkaException:
                continue  # the next look asks again
            is_there = answer.offset >= 0
            dated = DatedOffset(answer.offset, answer.timestamp) if is_there else None
            found[TopicPartition(position.topic, position.partition)] = dated
        return found

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        """The timestamp of the first record at or after each offset.

        A topic partition whose record is not found within two seconds is left out.
        """
        with self._time_reader_lock:
            try:
                self._ensure_known({tp.topic for tp in positions})
                self._time_reader.assign(
                    [Position(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
                )
                return self._read_times(positions)
            except KafkaException as error:
                raise self._translate(error, "record times") from error
            finally:
                self._time_reader.unassign()

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Commit these offsets to the Kafka group, without joining it.

        Raises:
            Retry: also while the group has members, since the broker then accepts only theirs.
        """
        if not next_offsets:
            return
        positions = [
            Position(tp.topic, tp.partition, offset) for tp, offset in next_offsets.items()
        ]
        try:
            committed = self._mirror.commit(offsets=positions, asynchronous=False) or ()
        except KafkaException as error:
            raise self._mirror_error(error) from error
        for position in committed:
            if position.error is not None:
                raise self._mirror_error(position.error)

    def close(self) -> None:
        """Close the connections."""
        self._mirror.close()
        self._time_reader.close()

    def _described(self, name: str, future: Future[Any]) -> Any:
        """A description, the error of a topic that is denied, or None if it does not exist."""
        try:
            return future.result()
        except KafkaException as error:
            translated = self._translate(error, name)
            if is_denied_topic(error):
                return _denied(translated)
            if is_missing(translated):
                return None
            raise translated from error

    def _find(
        self, lookup: OffsetLookup, tps: Collection[TopicPartition], query: int
    ) -> FoundOffsets:
        try:
            return lookup.find(tps, query)
        except KafkaException as error:
            raise self._translate(error, "offsets") from error

    def _ensure_known(self, topics: set[str]) -> None:
        # A client that does not know a topic may wait a second before it looks up its leaders.
        if not topics <= self._known_topics:
            fetch_metadata(self._time_reader, self._errors, self._timeout_seconds)
            self._known_topics = topics

    def _read_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime]:
        times: dict[TopicPartition, datetime] = {}
        missing = set(positions)
        deadline = time.monotonic() + _RECORD_TIME_SECONDS
        while missing and time.monotonic() < deadline:
            first: dict[TopicPartition, Message] = {}
            for message in self._time_reader.consume(len(missing), 0.02):
                tp = _topic_partition(message)
                if tp in missing:
                    first.setdefault(tp, message)
            if first:
                # One record of each is enough: do not fetch the rest of its topic partition.
                self._time_reader.incremental_unassign(
                    [Position(tp.topic, tp.partition) for tp in first]
                )
            missing -= first.keys()
            times.update({tp: when for tp, message in first.items() if (when := _time(message))})
        return times

    def _translate(self, error: KafkaException, operation: str) -> LandfallError:
        """The Landfall error for ``error``, or for the denial that a timeout hides."""
        translated = translate_error(error, operation)
        self._admin.poll(0)  # runs the error callback
        denial = self._errors.denial
        if denial is not None and isinstance(translated, Retry):
            return translate_error(denial, operation)
        if self._errors.cause and isinstance(translated, Retry):
            return SourceAway(f"{operation}: {self._errors.cause}")
        return translated

    def _mirror_error(self, error: KafkaError | KafkaException) -> LandfallError:
        # Only a denial stops anything: the mirror is for other tools, and landing does not need it.
        # A denied topic stops no other: readers of the topic are denied, too, and report it.
        translated = translate_error(error, "offset mirror")
        is_denied = isinstance(translated, Stalled) and translated.reason is Reason.SOURCE_DENIED
        return (
            translated if is_denied and not is_denied_topic(error) else SourceAway(str(translated))
        )


def _denied(error: LandfallError) -> Stalled:
    return Stalled(
        Reason.SOURCE_DENIED,
        f"{error}: grant DESCRIBE and READ on the topic to the user that the group logs in as; "
        "it lands again by itself then, at once with `landfall retry`",
    )


def _topic_id(found: Any) -> str:
    """The id of a topic; empty if the broker gave none, as before Kafka 2.8."""
    found_id = str(found.topic_id)
    return "" if found_id == _NO_ID else found_id


def _topic_partition(message: Message) -> TopicPartition | None:
    topic, partition = message.topic(), message.partition()
    return (
        TopicPartition(topic, partition)
        if topic and partition is not None and partition >= 0
        else None
    )


def _time(message: Message) -> datetime | None:
    _, milliseconds = message.timestamp()
    # A producer can set any timestamp, also one beyond the range of datetime.
    is_known = message.error() is None and 0 <= milliseconds <= _MAX_TIMESTAMP_MS
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if is_known else None
