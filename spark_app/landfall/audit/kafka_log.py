"""Reading Kafka as any reader of committed records does: one topic partition at a time, from an offset on, in order."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, cast

from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from landfall.api.spec import ConsumerGroup
from landfall.audit.rows import Record
from landfall.errors import Reason, Retry, Stalled
from landfall.source.properties import kafka_properties

_READING: Mapping[str, object] = {
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
_AT_ONCE = 5000
_PASSING = {
    "_TRANSPORT",
    "_ALL_BROKERS_DOWN",
    "_TIMED_OUT",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
}
"""Errors after which the client goes on by itself; how long is bounded by ``readTimeout``."""


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn the client's errors into one of ours."""
    try:
        yield
    except KafkaException as error:
        raise Retry(f"{what}: {error.args[0].str()}") from error


class Log(Protocol):
    """An ordered log of records per topic partition."""

    def bounds(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The oldest offset it keeps and the next it gives out; None if there is no such topic partition."""
        ...

    def topic_id(self, topic: str) -> str | None:
        """What tells a recreated topic from its namesake; None if that is not known."""
        ...

    def is_compacted(self, topic: str) -> bool:
        """Whether single records may go."""
        ...

    def records(self, topic: str, partition: int, start: int) -> Iterator[Record]:
        """Every committed record from an offset on, to the end."""
        ...


class KafkaLog:
    """A group's Kafka."""

    def __init__(self, group: ConsumerGroup) -> None:
        """Nothing is asked of it yet."""
        self._seconds = group.spec.tuning.read_timeout.total_seconds()
        properties = kafka_properties(group)
        self._admin = AdminClient({**properties, "log_level": 2})
        self._consumer = Consumer({**properties, **_READING})

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def bounds(self, topic: str, partition: int) -> tuple[int, int] | None:
        """The oldest offset it keeps and the next it gives out; None if there is no such topic partition.

        Raises:
            Retry: no answer.
        """
        with _told(f"{topic}/{partition}"):
            found = self._consumer.list_topics(topic, self._seconds).topics[topic]
            if found.error is not None or partition not in found.partitions:
                return None
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(topic, partition), self._seconds
            )
            return low, high

    def topic_id(self, topic: str) -> str | None:
        """What tells a recreated topic from its namesake; None if the broker does not tell."""
        described: Any = self._asked(lambda: self._described(topic))
        return str(described.topic_id) if described else None

    def is_compacted(self, topic: str) -> bool:
        """Whether single records may go; no, if the broker does not tell."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        policy = self._asked(
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
    def _asked(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except KafkaException:  # not allowed to ask, or the topic is gone: then it is not known
            return None

    def records(self, topic: str, partition: int, start: int) -> Iterator[Record]:
        """Every committed record from an offset on, to the end of the log.

        Raises:
            Retry: no progress within the group's ``readTimeout``.
            Stalled: DATA_LOSS, the offset is not there any more.
        """
        name = f"{topic}/{partition}"
        with _told(name):
            self._consumer.assign([TopicPartition(topic, partition, start)])
        while True:
            with _told(name):
                # waits until it has as many as were asked for: so one, and then whatever else is
                # there
                batch = self._consumer.consume(1, self._seconds)
                batch += self._consumer.consume(_AT_ONCE, 0)
            if not batch:
                raise Retry(f"{name}: no answer from Kafka within {self._seconds:g} s")
            for message in batch:
                error = message.error()
                if error is None:
                    yield cast("Record", message)
                elif error.name() == "_PARTITION_EOF":
                    return
                elif error.name() in {"_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"}:
                    raise Stalled(Reason.DATA_LOSS, f"{name}: {error.str()}")
                elif error.name() not in _PASSING:
                    raise Retry(f"{name}: {error.str()}")


class Cursor:
    """One topic partition's records, range after range, without asking for any twice."""

    def __init__(self, log: Log, topic: str, partition: int) -> None:
        """Nothing is read yet."""
        self._log, self._topic, self._partition = log, topic, partition
        self._left: Iterator[Record] = iter(())
        self._ahead: Record | None = None
        self._at: int | None = None

    def take(self, start: int, end: int) -> Iterator[Record]:
        """Every record with ``start <= offset < end``; must be gone through to its end."""
        if self._at != start:
            self._left, self._ahead = self._log.records(self._topic, self._partition, start), None
        self._at = end
        while True:
            # a message without a payload is false
            message = self._ahead if self._ahead is not None else next(self._left, None)
            self._ahead = message
            if message is None or message.offset() >= end:
                return
            self._ahead = None
            yield message
