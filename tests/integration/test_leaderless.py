"""Kafka partitions without a leader, on two real brokers of which one is killed."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.errors import Reason, Retry, SourceAway
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, FoundOffsets
from landfall.source.kafka import KafkaLog
from tests.support.kafka import Message
from tests.support.landing import Landing, Scene
from tests.support.second_broker import BrokerPair, broker_pair
from tests.support.waiting import eventually

pytestmark = pytest.mark.xdist_group("leaderless")

TIMEOUT = timedelta(seconds=3)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerPair]:
    folder = tmp_path_factory.mktemp("pair")
    with broker_pair(folder) as running:
        yield running
    shutil.rmtree(folder)


@pytest.fixture
def pair(brokers: BrokerPair) -> BrokerPair:
    """Two running brokers; a test may leave the second one killed."""
    brokers.start_second()
    return brokers


def no_leader(*tps: TopicPartition) -> dict[TopicPartition, str]:
    return {tp: f"{tp}: the Kafka partition has no leader" for tp in tps}


def test_a_kafka_partition_without_a_leader_hides_no_other(pair: BrokerPair, scene: Scene) -> None:
    scene = replace(scene, kafka=pair.first)
    topic = pair.create_topic(1, 2, 1, name=f"{scene.prefix}.a")
    first, second, third = tps = [TopicPartition(topic, n) for n in range(3)]
    pair.first.produce(topic, [b"{}"] * 5)
    log = KafkaLog(scene.group(), TIMEOUT)
    assert log.offsets(tps, Bound.END) == FoundOffsets({first: 5, second: 0, third: 0}, {})

    pair.kill_second()

    for log_now in (
        log,
        KafkaLog(scene.group(), TIMEOUT),
    ):  # one that knew the leader, one that did not
        found = eventually(
            lambda log=log_now: log.offsets(tps, Bound.END),
            lambda found: "no leader" in str(found.unavailable.get(second)),
        )
        assert found.offsets == {first: 5, third: 0}
        assert {tp: str(error) for tp, error in found.unavailable.items()} == no_leader(second)
        assert isinstance(found.unavailable[second], SourceAway)
    pair.start_second()
    eventually(
        lambda: log.offsets(tps, Bound.END),
        FoundOffsets({first: 5, second: 0, third: 0}, {}).__eq__,
    )


def test_a_restarted_driver_lands_all_but_the_kafka_partition_without_a_leader(
    pair: BrokerPair, scene: Scene
) -> None:
    scene = replace(scene, kafka=pair.first)
    topic = pair.create_topic(1, 2, name=f"{scene.prefix}.a")
    group = scene.group()
    produce(pair, topic, 0, 1)
    assert landed(group) is ExitCode.OK
    produce(pair, topic, 1)
    pair.kill_second()
    produce(pair, topic, 0)

    landing = Landing(group, None).start()

    assert landing.end() is ExitCode.STALLED
    assert [(p.partition, p.checkpoint, p.blocked) for p in landing.now.partitions] == [
        (0, 20, None),
        (1, 10, Reason.SOURCE_UNAVAILABLE),
    ]
    assert "the Kafka partition has no leader" in landing.now.partitions[1].message
    with pytest.raises(Retry, match=f"^{topic}/1: the Kafka partition has no leader; audit again"):
        scene.audited()
    pair.start_second()
    eventually(lambda: landed(group), ExitCode.OK.__eq__)
    assert scene.state().checkpoint.next_offsets == {
        TopicPartition(topic, 0): 20,
        TopicPartition(topic, 1): 20,
    }
    assert scene.faults() == []


def landed(group: ConsumerGroup) -> ExitCode:
    return Landing(group, None).start().end()


def produce(pair: BrokerPair, topic: str, *partitions: int) -> None:
    value = b'{"ts": 1763683200000}'
    pair.first.produce(topic, [Message(value, partition=n) for n in partitions for _ in range(10)])
