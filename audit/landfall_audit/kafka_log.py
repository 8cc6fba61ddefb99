"""Reading Kafka with a plain consumer: committed records of a topic partition, in order."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, cast

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from landfall_audit.errors import AuditReason, AuditRetry, AuditStalled
from landfall_audit.login.kafka import kafka_properties
from landfall_audit.objects.rows import MessageLike
from landfall_audit.spec import AuditedGroup

_CONSUMER_PROPERTIES: Mapping[str, object] = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "queued.max.messages.kbytes": 32 * 1024,
    "fetch.wait.max.ms": 10,
    "receive.message.max.bytes": 256 * 2**20,
    "log_level": 2,
}
_MAX_MESSAGES = 5000
"""How many messages are taken from the client at once."""
_TRANSIENT = {
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_TIMED_OUT",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
}
"""Errors after which the client recovers by itself; ``readTimeout`` limits how long it may take."""
_LEADERLESS = {"_UNKNOWN_PARTITION", "LEADER_NOT_AVAILABLE"}
"""Errors of a request for the offsets of an existing partition that has no leader."""


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    """Raise the client's errors as Retry."""
    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        if cause.name() in _LEADERLESS:
            message = "the Kafka partition has no leader; audit again when its broker is back"
            raise AuditRetry(f"{what}: {message}") from error
        raise AuditRetry(f"{what}: {cause.str()}") from error


class RecordLog(Protocol):
    """An ordered log of records per topic partition."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The log start offset and the end offset; None if there is no such topic partition."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """The id that distinguishes a recreated topic from its predecessor; None if unknown."""
        ...

    def is_compacted(self, topic: str) -> bool:
        """Return whether the topic's cleanup policy removes single records."""
        ...

    def records(self, topic: str, partition: int, start: int) -> Iterator[MessageLike]:
        """Every committed record from an offset to the end of the log."""
        ...


class ClusterLog:
    """The Kafka cluster of a group, for many threads at once."""

    def __init__(self, group: AuditedGroup) -> None:
        """Create the clients; nothing is requested yet."""
        self._seconds = group.spec.tuning.read_timeout.total_seconds()
        properties = kafka_properties(group)
        self._properties = {**properties, **_CONSUMER_PROPERTIES}
        self._admin = AdminClient({**properties, "log_level": 2})
        self._idle: list[Consumer] = []
        self._lock = threading.Lock()
        self._partitions: dict[str, frozenset[int]] = {}
        self._topic_ids: dict[str, str | None] = {}
        self._compacted: dict[str, bool] = {}

    def close(self) -> None:
        """Close the consumers; none may be in use."""
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        """A consumer that no other thread uses meanwhile; it keeps its connections afterwards."""
        try:
            consumer = self._idle.pop()
        except IndexError:
            consumer = Consumer(self._properties)
        try:
            yield consumer
        finally:
            self._idle.append(consumer)

    def bounds(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The log start offset and the end offset; None if there is no such topic partition.

        Raises:
            AuditRetry: the brokers do not answer.
        """
        with _translate_errors(f"{topic}/{partition}"), self._consumer() as consumer:
            with self._lock:  # once per topic: the answer has all its Kafka partitions
                if topic not in self._partitions:
                    found = consumer.list_topics(topic, self._seconds).topics[topic]
                    present = frozenset(() if found.error is not None else found.partitions)
                    self._partitions[topic] = present
            if partition not in self._partitions[topic]:
                return None
            low, high = consumer.get_watermark_offsets(
                TopicPartition(topic, partition), self._seconds
            )
            return low, high

    def topic_id(self, topic: str) -> str | None:
        """The topic's id; None if the brokers do not reveal it."""
        with self._lock:
            if topic not in self._topic_ids:
                described: Any = self._or_none(lambda: self._described(topic))
                self._topic_ids[topic] = str(described.topic_id) if described else None
            return self._topic_ids[topic]

    def is_compacted(self, topic: str) -> bool:
        """Return whether the cleanup policy includes compaction; False if the brokers hide it."""
        with self._lock:
            if topic not in self._compacted:
                self._compacted[topic] = self._has_compaction(topic)
            return self._compacted[topic]

    def _has_compaction(self, topic: str) -> bool:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        policy = self._or_none(
            lambda: (
                self._admin.describe_configs([resource], request_timeout=self._seconds)[resource]
                .result()["cleanup.policy"]
                .value
            )
        )
        return "compact" in str(policy)

    def _described(self, topic: str) -> Any:
        return self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._seconds)[
            topic
        ].result()

    @staticmethod
    def _or_none(request: Callable[[], Any]) -> Any:
        try:
            return request()
        except KafkaException:  # the topic is gone, or the user lacks the DESCRIBE permission
            return None

    def records(self, topic: str, partition: int, start: int) -> Iterator[MessageLike]:
        """Every committed record from an offset to the end of the log.

        Raises:
            AuditRetry: no record arrives within the group's ``readTimeout``.
            AuditStalled: DATA_LOSS, Kafka no longer has the offset.
        """
        with self._consumer() as consumer:
            try:
                yield from self._read(consumer, TopicPartition(topic, partition, start))
            finally:
                consumer.unassign()

    def _read(self, consumer: Consumer, position: TopicPartition) -> Iterator[MessageLike]:
        name = f"{position.topic}/{position.partition}"
        with _translate_errors(name):
            consumer.assign([position])
        while True:
            with _translate_errors(name):
                # consume() waits until it has as many messages as it was asked for. So wait for a
                # single one, then take what else has arrived without waiting.
                batch = consumer.consume(1, self._seconds)
                batch += consumer.consume(_MAX_MESSAGES, 0)
            if not batch:
                raise AuditRetry(f"{name}: no answer from Kafka within {self._seconds:g} s")
            for message in batch:
                error = message.error()
                if error is None:
                    yield cast("MessageLike", message)
                elif error.name() == "_PARTITION_EOF":
                    return
                elif error.name() in {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}:
                    raise AuditStalled(AuditReason.DATA_LOSS, f"{name}: {error.str()}")
                elif error.name() not in _TRANSIENT:
                    raise AuditRetry(f"{name}: {error.str()}")


class LogCursor:
    """Reads one topic partition range by range; contiguous ranges share one consumer position."""

    def __init__(self, log: RecordLog, topic: str, partition: int) -> None:
        """Create a cursor; nothing is read yet."""
        self._log, self._topic, self._partition = log, topic, partition
        self._records: Iterator[MessageLike] = iter(())
        self._lookahead: MessageLike | None = None
        self._position: int | None = None

    def take(self, start: int, end: int) -> Iterator[MessageLike]:
        """Every record with ``start <= offset < end``; the caller must exhaust the iterator."""
        if self._position != start:
            self._records = self._log.records(self._topic, self._partition, start)
            self._lookahead = None
        self._position = end
        while True:
            # `is not None` and not truth: a message with an empty payload is falsy.
            pending = self._lookahead
            message = pending if pending is not None else next(self._records, None)
            self._lookahead = message
            if message is None or message.offset() >= end:
                return
            self._lookahead = None
            yield message

    def again(self, start: int, end: int) -> Iterator[MessageLike]:
        """The records of a range once more; where the cursor is stays as it is."""
        for record in self._log.records(self._topic, self._partition, start):
            if record.offset() >= end:
                return
            yield record
