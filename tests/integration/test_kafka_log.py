"""``KafkaLog`` on a real Kafka: topics, watermarks, offsets by time, and the offset mirror."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from landfall.api.spec import ConsumerGroup, parse_group
from landfall.errors import Retry
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, FoundOffsets
from landfall.source.kafka import CHUNK, KafkaLog
from tests.support.kafka.broker import SECONDS, Broker, Message
from tests.support.waiting import eventually

START = 1_763_683_200_000  # 2025-11-21 00:00 UTC


def group(bootstrap: str, **kafka: object) -> ConsumerGroup:
    return parse_group(
        {
            "apiVersion": "landfall.dev/v1alpha1",
            "kind": "ConsumerGroup",
            "metadata": {"name": f"log-{uuid4().hex[:8]}", "namespace": "tests"},
            "spec": {
                "source": {"kafka": {"bootstrapServers": bootstrap, **kafka}},
                "output": {"url": "file:///nowhere"},
            },
        }
    )


@contextmanager
def log_of(landing: ConsumerGroup) -> Iterator[KafkaLog]:
    log = KafkaLog(landing, timedelta(seconds=SECONDS))
    yield log
    log.close()


@pytest.fixture
def log(kafka: Broker) -> Iterator[KafkaLog]:
    with log_of(group(kafka.bootstrap, topicPattern=".*")) as opened:
        yield opened


def test_a_pattern_matches_whole_names(kafka: Broker) -> None:
    tag = f"t{uuid4().hex[:6]}"
    for name in (f"{tag}.web", f"{tag}.app", f"{tag}.app.old", f"pre.{tag}.web"):
        kafka.create_topic(name, partitions=2)

    with log_of(group(kafka.bootstrap, topicPattern=rf"{tag}\..*", exclude=r".*\.old")) as log:
        found = [(topic.name, topic.partitions) for topic in log.topics().topics]

    assert found == [(f"{tag}.app", 2), (f"{tag}.web", 2)]


def test_listed_topics_that_do_not_exist_are_left_out(kafka: Broker) -> None:
    topic = kafka.create_topic()

    with log_of(group(kafka.bootstrap, topics=[topic, "never-made"])) as log:
        assert [found.name for found in log.topics().topics] == [topic]


def test_internal_topics_are_never_landed(kafka: Broker, log: KafkaLog) -> None:
    topic = kafka.create_topic()
    kafka.produce_transaction(topic, [b"x"])  # which creates __transaction_state

    names = {found.name for found in log.topics().topics}

    assert topic in names
    assert not [name for name in names if name.startswith("__")]


def test_listed_topics_with_two_underscores_are_landed_but_kafkas_own_are_not(
    kafka: Broker,
) -> None:
    topic = kafka.create_topic()
    kafka.produce_transaction(topic, [b"x"])  # which creates __transaction_state
    listed = kafka.create_topic(name=f"__{topic}")
    names = [topic, listed, "__transaction_state"]

    with log_of(group(kafka.bootstrap, topics=names)) as log:
        found = log.topics()

    assert {each.name for each in found.topics} == {topic, listed}
    assert "Kafka keeps its own records in it" in str(found.denied["__transaction_state"])


def test_a_recreated_topic_has_another_id(kafka: Broker) -> None:
    topic = kafka.create_topic()
    with log_of(group(kafka.bootstrap, topics=[topic])) as log:
        (before,) = log.topics().topics
        kafka.delete_topic(topic)
        kafka.create_topic(topic)

        after = eventually(lambda: log.topics().topics, lambda found: found and found != (before,))

    assert [(found.name, found.topic_id != before.topic_id) for found in after] == [(topic, True)]


def test_ends_are_last_stable_offsets(kafka: Broker, log: KafkaLog) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [b"x"] * 10)
    kafka.expire_before(topic, 0, 4)
    producer = kafka.transaction()
    kafka.send(producer, topic, [b"open"] * 3)
    kafka.flush(producer)
    here, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)

    tps = [here, empty, TopicPartition(topic, 9), TopicPartition("never-made", 0)]
    found = [log.offsets(tps, bound) for bound in Bound]

    assert found == [
        FoundOffsets(offsets, {})
        for offsets in ({here: 4, empty: 0}, {here: 10, empty: 0}, {here: 13, empty: 0})
    ]
    producer.abort_transaction(SECONDS)
    # The marker is written after the response.
    eventually(lambda: log.offsets([here], Bound.END).offsets, {here: 14}.__eq__)


def test_offsets_of_more_topic_partitions_than_fit_a_request(kafka: Broker, log: KafkaLog) -> None:
    topic = kafka.create_topic(partitions=CHUNK + 3)
    kafka.produce(topic, [Message(b"x", partition=n % (CHUNK + 3)) for n in range(3 * CHUNK)])
    tps = [TopicPartition(topic, n) for n in range(CHUNK + 3)]

    found = eventually(
        lambda: log.offsets(tps, Bound.END), lambda seen: len(seen.offsets) == len(tps)
    )

    assert [found.offsets[tp] for tp in tps] == [3] * (CHUNK - 6) + [2] * 9


def test_an_offset_by_time_is_the_end_if_no_record_is_late_enough(
    kafka: Broker, log: KafkaLog
) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [Message(b"x", timestamp=START + 1000 * n) for n in range(10)])
    tp = TopicPartition(topic, 0)

    assert log.offsets_at([tp], datetime.fromtimestamp(START / 1000 + 3.5, UTC)) == {tp: 4}
    assert log.offsets_at([tp], datetime.fromtimestamp(START / 1000 + 60, UTC)) == {tp: 10}


def test_record_times_are_those_of_the_first_visible_record(kafka: Broker, log: KafkaLog) -> None:
    topic = kafka.create_topic(partitions=3)
    kafka.produce_transaction(topic, [Message(b"aborted", timestamp=START)], commit=False)
    kafka.produce(topic, [Message(b"x", timestamp=START + 1000 * n) for n in range(1, 6)])
    kafka.produce(topic, [Message(b"x", partition=1, timestamp=START)] * 1000)
    first, second, empty = (TopicPartition(topic, partition) for partition in range(3))

    times = {
        first: datetime.fromtimestamp(START / 1000 + 1, UTC),
        second: datetime.fromtimestamp(START / 1000, UTC),
    }
    for _ in range(3):  # repeated, as a busy broker may respond too late
        eventually(lambda: log.record_times({first: 0, second: 999, empty: 0}), times.__eq__)


def test_mirrored_offsets_are_the_committed_offsets_of_the_kafka_group(kafka: Broker) -> None:
    topic = kafka.create_topic(partitions=2)
    landing = group(kafka.bootstrap, topics=[topic])
    with log_of(landing) as log:
        log.mirror({TopicPartition(topic, 0): 5, TopicPartition(topic, 1): 7})
        log.mirror({})

    other_tool = Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": landing.kafka_group_id}
    )
    committed = other_tool.committed([Position(topic, 0), Position(topic, 1)], SECONDS)
    other_tool.close()

    assert landing.kafka_group_id == f"tests.{landing.metadata.name}"
    assert [position.offset for position in committed] == [5, 7]


def test_no_broker_is_a_retry() -> None:
    log = KafkaLog(group("127.0.0.1:1", topicPattern=".*"), answer_timeout=timedelta(seconds=1))

    with pytest.raises(Retry, match="topics"):
        log.topics()
