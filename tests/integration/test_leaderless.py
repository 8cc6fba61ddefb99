"""A Kafka partition without a leader, on two real brokers of which one is killed."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.errors import Reason, SourceAway
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, FoundOffsets
from landfall.source.kafka import KafkaLog
from landfall_audit import errors as audit_errors
from tests.support.kafka.broker import Message
from tests.support.kafka.second_broker import BrokerPair, broker_pair
from tests.support.landing.group import Landing, Scene
from tests.support.waiting import eventually

pytestmark = pytest.mark.xdist_group("leaderless")

TIMEOUT = timedelta(seconds=3)
NO_LEADER = "the Kafka partition has no leader"


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[BrokerPair]:
    with broker_pair(tmp_path) as running:
        yield running


def test_a_kafka_partition_without_a_leader_holds_up_no_other(
    pair: BrokerPair, scene: Scene
) -> None:
    scene = replace(scene, kafka=pair.first)
    topic = pair.create_topic(1, 2, name=f"{scene.prefix}.a")
    here, there = TopicPartition(topic, 0), TopicPartition(topic, 1)
    group, log = scene.group(), KafkaLog(scene.group(), TIMEOUT)
    produce(pair, topic, 0, 1)
    assert log.offsets([here, there], Bound.END) == FoundOffsets({here: 10, there: 10}, {})
    assert landed(group) is ExitCode.OK
    produce(pair, topic, 1)

    pair.kill_second()

    produce(pair, topic, 0)
    # One that knew the leader, and one that did not.
    for log_now in (log, KafkaLog(scene.group(), TIMEOUT)):
        found = eventually(
            lambda log=log_now: log.offsets([here, there], Bound.END),
            lambda found: NO_LEADER in str(found.unavailable.get(there)),
        )
        assert found.offsets == {here: 20}
        assert {tp: str(error) for tp, error in found.unavailable.items()} == {
            there: f"{there}: {NO_LEADER}"
        }
        assert isinstance(found.unavailable[there], SourceAway)
    restarted = Landing(group, None).start()
    assert restarted.end() is ExitCode.STALLED
    assert [(p.partition, p.checkpoint, p.blocked) for p in restarted.now.partitions] == [
        (0, 20, None),
        (1, 10, Reason.SOURCE_UNAVAILABLE),
    ]
    assert NO_LEADER in restarted.now.partitions[1].message
    with pytest.raises(audit_errors.AuditRetry, match=f"^{there}: {NO_LEADER}; audit again"):
        scene.audited()

    pair.start_second()

    everything = FoundOffsets({here: 20, there: 20}, {})
    eventually(lambda: log.offsets([here, there], Bound.END), everything.__eq__)
    eventually(lambda: landed(group), ExitCode.OK.__eq__)
    assert scene.state().checkpoint.next_offsets == everything.offsets
    assert scene.faults() == []


def landed(group: ConsumerGroup) -> ExitCode:
    return Landing(group, None).start().end()


def produce(pair: BrokerPair, topic: str, *partitions: int) -> None:
    value = b'{"ts": 1763683200000}'
    pair.first.produce(topic, [Message(value, partition=n) for n in partitions for _ in range(10)])
