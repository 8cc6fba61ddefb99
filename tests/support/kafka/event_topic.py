"""Events in topics of a real Kafka: what a reader gets, and publishers that are killed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from landfall.publish.cursor import PublisherCursor
from landfall.publish.events import kafka_transactions
from tests.support.kafka.broker import Broker
from tests.support.ledger.event_ledger import EventLedger
from tests.support.publishers.lake import Killed


def event_ledger(kafka: Broker, topic: str) -> EventLedger:
    """A ledger whose events go to a topic, with a position that no other test has."""
    spec = {
        "source__kafka__bootstrapServers": kafka.bootstrap,
        "output__url": f"s3://logs/{uuid4().hex}",
    }
    return EventLedger("Kafka", {"topic": topic}, spec, {"name": f"p{uuid4().hex[:8]}"})


def messages(kafka: Broker, topic: str) -> list[Message]:
    """What a reader of committed records gets."""
    return list(_messages(kafka, topic))


def ids(kafka: Broker, topic: str) -> list[str]:
    """The ids of the events that a reader of committed records gets."""
    return [json.loads(m.value() or b"")["id"] for m in messages(kafka, topic)]


def _messages(kafka: Broker, topic: str) -> Iterator[Message]:
    reader = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "unused",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    left = set(kafka.admin.list_topics(topic, 30).topics[topic].partitions)
    reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
    try:
        while left:
            found = reader.poll(30)
            assert found is not None
            if found.error() is None:
                yield found
            else:
                left.discard(found.partition())
    finally:
        reader.close()


class Kill:
    """Ends a publisher at one of its calls, before (even numbers) or after it had its effect."""

    def __init__(self, number: int) -> None:
        self.number, self.made = number, 0

    @property
    def is_done(self) -> bool:
        return self.made > self.number

    def call(self, effect: Any) -> Any:
        if self.is_done:
            raise Killed  # a dead process does nothing more, such as to abort its transaction
        self.made += 2
        if self.made - 2 == self.number:
            raise Killed
        result = effect()
        if self.made - 1 == self.number:
            raise Killed
        return result


@contextmanager
def killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kill]:
    """Publishers that are made inside are ended at this call; what they began is left as it is."""
    kill = Kill(number)

    class Ending(Producer):
        """Not closed: what was produced may still be sent, as of a process that was killed."""

        kept: list[Producer] = []  # noqa: RUF012  # until the test ends

        def __init__(self, settings: dict[str, Any]) -> None:
            super().__init__(settings)
            self.kept.append(self)

    def wrapped(name: str) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return kill.call(lambda: getattr(Producer, name)(self, *args, **kwargs))

        return call

    for name in (
        "init_transactions",
        "begin_transaction",
        "produce",
        "send_offsets_to_transaction",
        "commit_transaction",
        "abort_transaction",
        "purge",
    ):
        setattr(Ending, name, wrapped(name))
    write = PublisherCursor.write
    with monkeypatch.context() as patch:
        patch.setattr(kafka_transactions, "Producer", Ending)
        patch.setattr(PublisherCursor, "write", lambda *args: kill.call(lambda: write(*args)))
        yield kill
