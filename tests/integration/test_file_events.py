"""Notifications of new files, by a real Kafka or as SQS sends them, make a driver look at once."""

import json
from collections.abc import Callable

import pytest

from dev.servers.server import Server, ServerKind
from landfall.api.spec import EventTopic
from landfall.errors import Reason, Retry, Stalled
from landfall.source import event_topic
from landfall.source.event_topic import TopicEvents
from tests.integration.conftest import keys
from tests.support.files.feed_scene import TP, FeedScene, once, rows
from tests.support.kafka.broker import Broker
from tests.support.landing.processes import Processes
from tests.support.stores.aws_server import REGION
from tests.support.stores.s3 import Bucket, S3Server
from tests.support.stores.s3_events import s3_with_events
from tests.support.stores.sqs_server import sqs_queue
from tests.support.waiting import eventually, wait_for

pytestmark = pytest.mark.xdist_group("drivers")


@pytest.fixture
def events(kafka: Broker) -> str:
    """A topic for notifications."""
    return kafka.create_topic()


@pytest.fixture
def files(
    kafka: Broker,
    events: str,
    own_server: Callable[[ServerKind], Server],
    monkeypatch: pytest.MonkeyPatch,
) -> FeedScene:
    """A bucket whose server tells of what is written."""
    status = own_server(s3_with_events(kafka.bootstrap, events)).up()
    assert status.address
    bucket = S3Server(status.address, status.env).create_bucket()
    for name, value in keys(bucket.server).items():
        monkeypatch.setenv(name, value)
    return FeedScene(bucket)


def test_a_late_name_is_landed_long_before_anybody_lists(
    files: FeedScene, kafka: Broker, events: str, processes: Processes
) -> None:
    files.put("m.json", rows(range(10)))
    topic = {"bootstrapServers": kafka.bootstrap, "topic": events}
    rarely = {"discoveryInterval": "1h", "relist": "1h", "events": {"kafka": topic}}
    driver = processes.run(files.document(**rarely))
    wait_for(lambda: files.landed() == once(range(10)), "the first file is landed")

    hostile = {"s3": {"bucket": {"name": files.bucket.name}, "object": {"key": "in/gone.json"}}}
    other = {"s3": {"bucket": {"name": "other"}, "object": {"key": "in/a.json"}}}
    bodies = [b"garbage", b"x" * 900_000, json.dumps({"Records": [hostile, other]}).encode()]

    def writes_late_names() -> bool:
        """Write until an event comes after the driver began to read the topic."""
        kafka.produce(events, bodies)
        files.put("a b+c%2F é.json", rows(range(10, 20)))
        return files.feed.end > 1

    wait_for(writes_late_names, "a late name has a number")
    files.put("0.json", rows(range(20, 30)))
    wait_for(lambda: files.landed() == once(range(30)), "both late files are landed")

    assert "event left out" in driver.said
    assert files.state().checkpoint[TP] == 3_000_000_000
    assert files.faults() == []


@pytest.mark.full
def test_a_notification_in_a_queue_is_enough(
    bucket: Bucket, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in keys(bucket.server).items():
        monkeypatch.setenv(name, value)
    files = FeedScene(bucket)

    def notified(name: str, at: str = bucket.name) -> str:
        where = {"bucket": {"name": at}, "object": {"key": f"in/{name}"}}
        return json.dumps({"Records": [{"eventName": "ObjectCreated:Put", "s3": where}]})

    with sqs_queue() as queue:
        sqs = {"queueUrl": queue.url, "endpoint": queue.server, "region": REGION}
        rarely = {"discoveryInterval": "1h", "relist": "1h", "events": {"sqs": sqs}}
        files.put("m.json", rows(range(10)))
        driver = processes.run(files.document(**rarely))
        wait_for(lambda: files.landed() == once(range(10)), "the first file is landed")
        files.put("0.json", rows(range(10, 20)))
        files.put("00.json", rows(range(20, 30)))

        of_sns = json.dumps({"Message": notified("00.json")})
        queue.send("garbage", notified("gone.json"), notified("m.json", at="other"))
        queue.send(*[notified("m.json")] * 2, *[notified("0.json")] * 3, of_sns, of_sns)

        wait_for(lambda: files.landed() == once(range(30)), "both late files are landed")
        wait_for(lambda: not queue.left(), "all messages are deleted")

    assert "event left out" in driver.said
    assert files.state().checkpoint[TP] == 3_000_000_000
    assert files.faults() == []


def test_a_topic_is_read_from_its_end_on_and_opened_anew_if_it_has_other_partitions(
    kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [b"before"])
    events = TopicEvents(EventTopic(bootstrap_servers=kafka.bootstrap, topic=topic))
    received = list[bytes]()

    def receives() -> list[bytes]:
        received.extend(events.receive())
        return received

    receives()  # where the end is, is asked once the client reads
    kafka.produce(topic, [b"one", None])
    eventually(receives, [b"one", b""].__eq__)
    kafka.add_partitions(topic, 2)
    monkeypatch.setattr(event_topic, "REFRESH_SECONDS", 0.0)
    with pytest.raises(Retry, match="its partitions have changed"):
        eventually(receives, lambda _: False)
    events.forget()
    events.close()


def test_a_topic_that_is_not_there_and_brokers_that_are_away_are_named(kafka: Broker) -> None:
    with pytest.raises(Stalled, match="no-such-topic") as missing:
        TopicEvents(EventTopic(bootstrap_servers=kafka.bootstrap, topic="no-such-topic"))
    with pytest.raises(Retry, match="events in topic t"):
        TopicEvents(EventTopic(bootstrap_servers="127.0.0.1:9", topic="t"))

    assert missing.value.reason is Reason.TOPIC_MISSING
