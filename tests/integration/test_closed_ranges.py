"""Ranges that end at a time, on a real broker and a real store."""

import gzip
import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from landfall.api.contract import ExitCode
from landfall.driver.landing import closed_ranges
from landfall.driver.landing.closed_ranges import until
from landfall.ledger.offsets import TopicPartition
from tests.support.kafka.broker import SECONDS, Message
from tests.support.landing.group import Landing, Scene
from tests.support.landing.processes import Processes

HOUR = datetime(2026, 11, 21, 5, tzinfo=UTC)
DELAY = timedelta(minutes=5)
HOURLY = {
    "decode": {"format": "Json", "timestamp": {"field": "ts", "unit": "Milliseconds"}},
    "route": {"pattern": "dt={date}/hr={hour}"},
    "completeness": {"delay": "5m"},
}


def dated(time: datetime, count: int) -> Iterator[Message]:
    """So many events of this time, which Kafka dates alike."""
    ms = int(time.timestamp() * 1000)
    return (Message(json.dumps({"ts": ms, "n": n}).encode(), timestamp=ms) for n in range(count))


def run(scene: Scene, end: datetime) -> Landing:
    landing = Landing(scene.group(**HOURLY), None, goal=until(end + DELAY)).start()
    landing.end()
    return landing


def hours(scene: Scene) -> dict[str, int]:
    """Rows in the folders of hours."""
    found: dict[str, int] = {}
    for key in scene.bucket.keys(""):
        if "/hr=" in key and key.endswith(".json.gz"):
            folder = key.rpartition("/")[0].partition("/")[2]
            found[folder] = found.get(folder, 0) + len(
                gzip.decompress(scene.bucket.read(key)).splitlines()
            )
    return found


def test_hours_are_landed_one_after_the_other(scene: Scene) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, dated(HOUR - timedelta(minutes=30), 50))
    scene.kafka.produce(topic, dated(HOUR + timedelta(minutes=30), 30))
    scene.kafka.produce(topic, dated(HOUR + timedelta(minutes=90), 20))

    ended = [run(scene, HOUR + timedelta(hours=n)) for n in range(2)]

    assert [one.code for one in ended] == [ExitCode.OK] * 2
    state = scene.state()
    assert state.checkpoint[TopicPartition(topic, 0)] == 80
    assert [each.totals.landed for each in state.runs] == [50, 30]
    assert state.horizons == {topic: int((HOUR + timedelta(hours=1)).timestamp() * 1000)}
    assert hours(scene) == {"dt=2026-11-21/hr=04": 50, "dt=2026-11-21/hr=05": 30}
    assert scene.faults(**HOURLY) == []


@pytest.mark.xdist_group("drivers")
@pytest.mark.parametrize(
    ("step", "ended"),
    [
        ("before create RUN", 0),
        pytest.param("after create RUN", 1, marks=pytest.mark.full),
    ],
)
def test_a_command_that_is_killed_is_run_again_and_ends_the_range_once(
    scene: Scene, processes: Processes, step: str, ended: int
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, dated(HOUR - timedelta(minutes=30), 50))
    scene.kafka.produce(topic, dated(HOUR + timedelta(minutes=30), 30))
    hour = ("--until", (HOUR + DELAY).isoformat())

    killed = processes.struck(scene.document(**HOURLY), f"KILL {step}", until=hour)

    assert killed.end() == -signal.SIGKILL, killed.said
    assert len(scene.state().runs) == ended
    assert (topic in scene.state().horizons) == bool(ended)
    again = processes.run(scene.document(**HOURLY), "--http-port", "0", *hour)
    assert again.end() == ExitCode.OK, again.said
    state = scene.state()
    assert state.checkpoint[TopicPartition(topic, 0)] == 50
    assert [(each.until, each.totals.landed) for each in state.runs] == [
        (int((HOUR + DELAY).timestamp() * 1000), 50)
    ]
    assert state.horizons == {topic: int(HOUR.timestamp() * 1000)}
    assert hours(scene) == {"dt=2026-11-21/hr=04": 50}
    assert scene.faults(**HOURLY) == []


def test_a_range_waits_for_the_transaction_that_is_open_at_its_end(scene: Scene) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, dated(HOUR - timedelta(minutes=30), 5))
    producer = scene.kafka.transaction()
    scene.kafka.send(producer, topic, dated(HOUR - timedelta(minutes=20), 3))
    scene.kafka.flush(producer)
    landing = Landing(scene.group(**HOURLY), None, goal=until(HOUR + DELAY)).start()

    landing.wait_until(
        lambda s: s.partitions and s.partitions[0].held_back_seconds > 1, "it is held back"
    )
    assert scene.state().runs == ()
    producer.commit_transaction(SECONDS)

    assert landing.end() is ExitCode.OK
    assert [each.totals.landed for each in scene.state().runs] == [8]
    assert scene.faults(**HOURLY) == []


def test_damage_to_an_object_keeps_its_topic_from_being_complete(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, other = scene.topic("a"), scene.topic("b")
    for each in (topic, other):
        scene.kafka.produce(each, dated(HOUR - timedelta(minutes=30), 5))
    begin = closed_ranges.ReadingBack.begin

    def after_damage(self: closed_ranges.ReadingBack, after: int) -> object:
        (key,) = (key for key in scene.bucket.keys(topic) if "/hr=" in key)
        scene.bucket.write(key, b"no gzip")
        return begin(self, after)

    monkeypatch.setattr(closed_ranges.ReadingBack, "begin", after_damage)

    landing = run(scene, HOUR)

    assert landing.code is ExitCode.STALLED
    horizons = scene.state().horizons
    assert horizons[other] == int(HOUR.timestamp() * 1000)
    assert horizons.get(topic, -1) < horizons[other]
    assert scene.state().runs[-1].left == (topic,)
    assert f"ObjectLost: {topic}/" in landing.now.message
