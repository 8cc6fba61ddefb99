"""Events as messages of a real Kafka."""

import pytest

from landfall.errors import Stalled
from tests.support.kafka.broker import Broker
from tests.support.kafka.event_topic import event_ledger, ids, messages
from tests.support.ledger.event_ledger import CLICKS, ORDERS


def test_each_event_is_a_message_once(kafka: Broker) -> None:
    topic = kafka.create_topic()
    scene = event_ledger(kafka, topic).land(CLICKS, ORDERS).settle()

    scene.publish()
    scene.publish()
    scene.land(CLICKS).settle().publish()

    expected = ["shop/0/3/landed/clicks", "shop/0/3/landed/orders", "shop/0/5/landed/clicks"]
    assert ids(kafka, topic) == expected
    first = messages(kafka, topic)[0]
    headers = dict(first.headers())
    assert first.key() == b"clicks"
    assert headers["content-type"] == b"application/cloudevents+json; charset=UTF-8"
    assert (headers["ce_id"], headers["ce_type"]) == (
        expected[0].encode(),
        b"dev.landfall.landed.v1",
    )


def test_a_topic_that_does_not_exist_is_not_created(kafka: Broker) -> None:
    scene = event_ledger(kafka, "nowhere").land(CLICKS).settle()

    with pytest.raises(Stalled, match="topic nowhere: does not exist: create it"):
        scene.publish()

    assert "nowhere" not in kafka.admin.list_topics(timeout=30).topics


def test_everything_is_sent_anew_after_a_reset(kafka: Broker) -> None:
    topic = kafka.create_topic()
    scene = event_ledger(kafka, topic).land(CLICKS).settle()
    scene.publish()

    scene.publisher().reset(scene.follower())
    scene.publish()

    assert ids(kafka, topic) == ["shop/0/3/landed/clicks"] * 2


def test_one_that_is_new_may_leave_out_what_landed_before(kafka: Broker) -> None:
    topic = kafka.create_topic()
    scene = event_ledger(kafka, topic).land(CLICKS).settle()
    scene.options["start"] = "Now"
    scene.publish()

    scene.land(ORDERS).settle().publish()

    assert ids(kafka, topic) == ["shop/0/5/landed/orders"]
