"""What ``make chaos`` asks Kafka's log, on a real broker whose segments it can read."""

import random
from collections.abc import Callable

import pytest

from dev.servers.kafka import KAFKA
from dev.servers.server import Server, ServerKind
from tests.chaos.kafka_log import ask
from tests.chaos.records import TOPICS, Identity, record
from tests.support.kafka.broker import SECONDS, Broker

pytestmark = pytest.mark.timeout(600)
NOW = 1_795_219_200_000


def write(broker: Broker, topic: str, numbers: range, *, commit: bool) -> None:
    """Write numbers in a transaction, always of the same producer."""
    producer, rng = broker.transaction("writer"), random.Random(1)
    for number in numbers:
        made = record(Identity(topic, number), TOPICS[0], rng, NOW)
        producer.produce(topic, **made.arguments())
    producer.flush(SECONDS)
    if commit:
        producer.commit_transaction(SECONDS)
    else:
        producer.abort_transaction(SECONDS)


def test_only_what_a_marker_commits_is_committed(
    own_server: Callable[[ServerKind], Server],
) -> None:
    server = own_server(KAFKA)
    broker = Broker(server.up().address or "", {"log_level": 2})
    topic = broker.create_topic(partitions=16)
    write(broker, topic, range(5), commit=True)
    write(broker, topic, range(5, 8), commit=False)
    write(broker, topic, range(8, 10), commit=True)

    found = ask(broker, server.home / "data", {topic: [(3, 9)]})[topic]

    assert (found.committed, found.unexplained) == (3, 3)
    assert all("by the marker of epoch" in batch for batch in found.batches)
