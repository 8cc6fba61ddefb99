"""A Kafka broker for tests: they create topics, produce records and read offsets."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import uuid4

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.support.waiting import eventually

SECONDS = 120
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Message:
    """A record to produce.

    Attributes:
        timestamp: In milliseconds; None means the broker's clock.
        partition: None means the partitioner's choice by key.
    """

    value: bytes | None
    key: bytes | None = None
    partition: int | None = 0
    timestamp: int | None = None
    headers: Headers = ()


@dataclass(frozen=True)
class Broker:
    """A running broker; ``str()`` and ``bootstrap`` give its address."""

    bootstrap: str
    client: Mapping[str, str | int] = field(default_factory=lambda: {"log_level": 3})

    def __str__(self) -> str:
        return self.bootstrap

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, **self.client})

    def create_topic(
        self, name: str | None = None, partitions: int = 1, **config: str | int
    ) -> str:
        """Create a topic without retention, unless ``config`` (``cleanup_policy=…``) differs."""
        name = name or f"topic-{uuid4().hex[:8]}"
        settings = {"retention.ms": "-1"} | {
            key.replace("_", "."): str(value) for key, value in config.items()
        }
        self._done(self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)]))
        # The controller answers first; the broker lists the topic a little later.
        eventually(lambda: self.admin.list_topics(timeout=30).topics, lambda known: name in known)
        return name

    def delete_topic(self, name: str) -> None:
        self._done(self.admin.delete_topics([name]))

    def add_partitions(self, topic: str, total: int) -> None:
        self._done(self.admin.create_partitions([NewPartitions(topic, total)]))

    def expire_before(self, topic: str, partition: int, offset: int) -> None:
        """Move the log start offset, as retention does."""
        self._done(self.admin.delete_records([TopicPartition(topic, partition, offset)]))

    def end_offset(self, topic: str, partition: int = 0) -> int:
        """The next offset the broker assigns, control records included."""
        return self._offset(topic, partition, OffsetSpec.latest())

    def log_start(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, OffsetSpec.earliest())

    def producer(self, **config: str | int) -> Producer:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        # Idempotent: a retry after a late response must not append records twice or out of order.
        defaults = {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "enable.idempotence": True}
        return Producer({**defaults, **self.client, **settings})

    def produce(
        self, topic: str, messages: Iterable[Message | bytes | None], **config: str | int
    ) -> None:
        """Produce in order, plain values to Kafka partition 0; returns when the broker has them."""
        producer = self.producer(**config)
        self.send(producer, topic, messages)
        self.flush(producer)

    def produce_transaction(
        self,
        topic: str,
        messages: Iterable[Message | bytes | None],
        *,
        commit: bool = True,
        transactional_id: str = "",
    ) -> None:
        """Produce in one transaction, and commit or abort it.

        Aborted records and the transaction marker take offsets, too. Returns when readers of
        committed records can read past the marker, which the broker writes after its response.
        """
        producer, all_of_it = self.transaction(transactional_id), list(messages)
        self.send(producer, topic, all_of_it)
        self.flush(producer)
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
        for partition in {
            (message.partition or 0) if isinstance(message, Message) else 0 for message in all_of_it
        }:
            self.wait_for_markers(topic, partition)

    def transaction(self, transactional_id: str = "") -> Producer:
        """A producer in an open transaction, which holds back the last stable offset."""
        # Long, because the broker aborts a transaction that exceeds its timeout.
        long = SECONDS * 1000
        producer = self.producer(
            transactional_id=transactional_id or f"tx-{uuid4().hex[:8]}",
            transaction_timeout_ms=5 * long,
        )
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        return producer

    @staticmethod
    def send(producer: Producer, topic: str, messages: Iterable[Message | bytes | None]) -> None:
        """Pass messages to a producer; waits while its queue is full."""
        for given in messages:
            message = given if isinstance(given, Message) else Message(given)
            optional = {
                "partition": message.partition,
                "timestamp": message.timestamp,
                "headers": list(message.headers),
            }
            arguments: dict[str, Any] = {
                name: value for name, value in optional.items() if value not in (None, [])
            }
            while True:
                try:
                    producer.produce(
                        topic, message.value, message.key, on_delivery=_must_arrive, **arguments
                    )
                    break
                except BufferError:
                    producer.poll(0.1)

    @staticmethod
    def flush(producer: Producer) -> None:
        left = producer.flush(SECONDS)
        if left:
            raise TimeoutError(f"{left} messages not produced within {SECONDS} s")

    def wait_for_markers(self, topic: str, partition: int = 0) -> None:
        """Return when readers of committed records can read all that is there now.

        After its coordinator was killed, the broker may take a minute to end a transaction.
        """
        end, committed = self.end_offset(topic, partition), IsolationLevel.READ_COMMITTED
        eventually(
            lambda: self._offset(topic, partition, OffsetSpec.latest(), isolation_level=committed),
            end.__le__,
            SECONDS,
        )

    def _offset(self, topic: str, partition: int, spec: OffsetSpec, **options: Any) -> int:
        tp = TopicPartition(topic, partition)
        return int(self.admin.list_offsets({tp: spec}, **options)[tp].result(SECONDS).offset)

    @staticmethod
    def _done(futures: Mapping[Any, Any]) -> None:
        for future in futures.values():
            future.result(SECONDS)


def _must_arrive(error: object, _message: object) -> None:
    if error is not None:
        raise RuntimeError(f"not produced: {error}")
