"""Publishers to a real Kafka that are killed, frozen and raced: each event is there once."""

import random
import time
from contextlib import suppress
from threading import Thread

import pytest
from confluent_kafka import Producer

from landfall.errors import DestinationAway, Retry, Stalled
from landfall.publish import Publisher
from landfall.publish.events import kafka_transactions
from landfall.publish.events.kafka import KafkaPublisher
from tests.support.kafka.broker import Broker
from tests.support.kafka.event_topic import event_ledger, ids, killed_at
from tests.support.ledger.event_ledger import CLICKS, ORDERS, EventLedger
from tests.support.publishers.lake import Killed

pytestmark = pytest.mark.full


def expected(scene: EventLedger) -> list[str]:
    """The events of the whole ledger, by the reader of it."""
    publisher = scene.publisher()
    assert isinstance(publisher, KafkaPublisher)
    return [e.id for s in scene.follower().stretches(-1) for e in publisher.events.of(s)]


def finish(scene: EventLedger) -> None:
    """Publish until it succeeds, as a driver does."""
    for _ in range(60):
        try:
            scene.publish()
        except Retry:
            time.sleep(0.2)
        else:
            return
    raise AssertionError("60 passes failed")


def test_a_kill_at_any_call_repeats_and_loses_nothing(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic(partitions=2)
    scene = event_ledger(kafka, topic)
    kills, number = 0, 0
    while True:
        scene.land(CLICKS, ORDERS).settle().land(CLICKS).settle()
        with killed_at(number, monkeypatch) as kill, suppress(Killed):
            scene.publish()
        if not kill.is_done:
            break
        kills, number = kills + 1, number + 1
        if number % 3:  # the next one is killed as well, and further on
            finish(scene)

    finish(scene)

    assert kills >= 25
    assert sorted(ids(kafka, topic)) == sorted(expected(scene))


@pytest.mark.parametrize("call", ["begin_transaction", "produce", "commit_transaction"])
def test_one_that_was_frozen_changes_nothing_when_it_wakes(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    topic = kafka.create_topic()
    scene = event_ledger(kafka, topic).land(CLICKS).settle()
    finish(scene)
    scene.land(CLICKS, ORDERS).settle()
    frozen = scene.publisher()

    class Frozen(Producer):
        def init_transactions(self, *args: float) -> None:
            super().init_transactions(*args)
            self.is_ready = True

    def asleep(self: Frozen, *args: object, **kwargs: object) -> object:
        if woken.pop("asleep", False):
            finish(scene)  # another one send everything meanwhile
            scene.land(CLICKS).settle()
        return getattr(Producer, call)(self, *args, **kwargs)

    woken: dict[str, bool] = {}
    setattr(Frozen, call, asleep)
    with monkeypatch.context() as patch:
        patch.setattr(kafka_transactions, "Producer", Frozen)
        frozen.publish(scene.follower())
        scene.land(ORDERS).settle()
        woken["asleep"] = True
        patch.setattr(kafka_transactions, "Producer", Producer)
        with pytest.raises(DestinationAway):
            frozen.publish(scene.follower())

    for publisher in (frozen, scene.publisher()):
        publisher.publish(scene.follower())
    assert ids(kafka, topic) == expected(scene)


def test_two_at_once_send_each_event_once(kafka: Broker) -> None:
    topic = kafka.create_topic()
    scene = event_ledger(kafka, topic)
    failed: list[BaseException] = []

    def publish() -> None:
        try:
            keep_trying(scene.publisher(), scene)
        except BaseException as error:  # noqa: BLE001  # reported by the test's own thread
            failed.append(error)

    for _ in range(25):
        scene.land(CLICKS, ORDERS).settle()
        threads = [Thread(target=publish) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive()

    assert failed == []
    assert ids(kafka, topic) == expected(scene)


def keep_trying(publisher: Publisher, scene: EventLedger) -> None:
    """Publish as often as somebody else ends the session."""
    while True:
        try:
            publisher.publish(scene.follower())
        except Retry:
            time.sleep(random.uniform(0.05, 0.6))
        else:
            return


def test_a_position_that_kafka_has_forgotten_is_that_of_the_cursor(kafka: Broker) -> None:
    topic = kafka.create_topic()
    scene = event_ledger(kafka, topic).land(CLICKS).settle()
    finish(scene)
    forget(kafka, scene)

    scene.land(ORDERS).settle()
    finish(scene)

    assert ids(kafka, topic) == expected(scene)


def test_if_nobody_knows_whether_events_are_there_somebody_decides(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic()
    scene = event_ledger(kafka, topic).land(CLICKS).settle()
    finish(scene)
    scene.land(ORDERS).settle()
    for number in range(100):
        with killed_at(number, monkeypatch) as kill, suppress(Killed):
            scene.publish()
        if not kill.is_done or len(ids(kafka, topic)) == 2:
            break
    assert kill.is_done, "killed after the transaction, before the cursor"
    forget(kafka, scene)

    with pytest.raises(Stalled, match="set the group's offset of partition 0 to"):
        scene.publish()


def forget(kafka: Broker, scene: EventLedger) -> None:
    """Delete the offsets of the publisher, as Kafka does after a week."""
    name = f"landfall.default.shop.0.{scene.entry['name']}"
    (done,) = kafka.admin.delete_consumer_groups([name]).values()
    done.result(30)
