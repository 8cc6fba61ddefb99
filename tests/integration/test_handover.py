"""Two driver processes hand the lane over on real Kafka and S3, also when one of them crashes."""

import signal
from typing import Any

import pytest
from pyspark import SparkContext

from landfall.api.contract import EXECUTORS_PATH, OPEN_PATH, YIELD_PATH, ExitCode
from landfall.ledger import Open, decode
from tests.support.audit.independent_audit import EXACT, events
from tests.support.landing.group import Scene, land
from tests.support.landing.processes import Pod, Processes
from tests.support.waiting import wait_for

pytestmark = pytest.mark.xdist_group("drivers")


@pytest.fixture
def topic(scene: Scene) -> str:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(topic, [*events(range(1000), 0), *events(range(1000, 1700), 1)])
    return topic


def landed(records: int) -> Any:
    """Whether this many records are landed by the whole ledger, and visible."""
    return lambda status: (
        sum(p["checkpoint"] for p in status["partitions"]) == records
        and not status["commits"]["unapplied"]
    )


def document(scene: Scene, generation: int = 1) -> dict[str, Any]:
    return scene.document(generation=generation)


def opened_by(scene: Scene) -> list[str]:
    records = (decode(seq, body) for seq, body in scene.lane().bodies())
    return [record.revision for record in records if isinstance(record, Open)]


def both(
    scene: Scene, processes: Processes, old_strike: str = "", new_strike: str = ""
) -> tuple[Pod, Pod]:
    """A driver that has landed everything, and one that stands by."""
    old = processes.pod(document(scene), "old", old_strike)
    old.until(landed(1700), "old has landed")
    new = processes.pod(document(scene, 2), "new", new_strike)
    new.until_phase("Standby")
    return old, new


@pytest.mark.full
def test_a_hand_over_and_back_lands_all_once(
    scene: Scene, topic: str, processes: Processes
) -> None:
    old, new = both(scene, processes)
    assert old.tell(EXECUTORS_PATH, wanted=3) == 202
    assert new.get("/healthcheck")[0] == 200
    scene.kafka.produce(topic, events(range(2000, 2300)))

    assert old.tell(YIELD_PATH, to="new") == 202
    old.until_phase("Yielded")
    new.until(landed(2000), "new has landed")
    assert new.tell(YIELD_PATH, to="old") == 202
    new.until_phase("Yielded")
    scene.kafka.produce(topic, events(range(3000, 3500), 1))
    assert old.tell(OPEN_PATH) == 202
    status = old.until(landed(2500), "old has landed again")

    assert (status["revision"], status["epoch"], status["phase"]) == ("old", 3, "Running")
    assert status["rates"]["task_seconds"] > 0
    assert opened_by(scene) == ["old", "new", "old"]
    for pod in (old, new):
        assert pod.get("/healthcheck")[0] == 200
        pod.send(signal.SIGTERM)
        assert pod.end() == ExitCode.OK, pod.said
        assert pod.termination.read_text() == ""
    assert scene.audit() == EXACT
    assert scene.faults() == []


@pytest.mark.full
def test_a_kill_of_the_driver_that_hands_over_loses_and_repeats_nothing(
    scene: Scene, topic: str, processes: Processes
) -> None:
    old, new = both(scene, processes, old_strike="KILL before create YIELD")
    scene.kafka.produce(topic, events(range(2000, 2300)))

    old.tell_its_last(YIELD_PATH, to="new")
    assert old.end() == -signal.SIGKILL, old.said
    assert new.get("/status")[1]["phase"] == "Standby"
    assert new.tell(OPEN_PATH) == 202
    new.until(landed(2000), "new has landed")

    new.send(signal.SIGTERM)
    assert new.end() == ExitCode.OK, new.said
    assert opened_by(scene) == ["old", "new"]
    assert scene.audit() == EXACT
    assert scene.faults() == []


@pytest.mark.full
def test_a_kill_of_the_driver_that_takes_over_loses_and_repeats_nothing(
    scene: Scene, topic: str, processes: Processes
) -> None:
    old, new = both(scene, processes, new_strike="KILL after create COMMIT")
    old.tell(YIELD_PATH, to="new")
    old.until_phase("Yielded")
    scene.kafka.produce(topic, events(range(2000, 2300)))

    assert new.end() == -signal.SIGKILL, new.said
    again = processes.pod(document(scene, 2), "new")
    again.until(landed(2000), "the same revision continues at once")

    for pod in (old, again):
        pod.send(signal.SIGTERM)
        assert pod.end() == ExitCode.OK, pod.said
    assert opened_by(scene) == ["old", "new", "new"]
    assert scene.audit() == EXACT
    assert scene.faults() == []


@pytest.mark.full
def test_a_frozen_driver_that_is_fenced_changes_nothing_and_says_so(
    scene: Scene, topic: str, processes: Processes, context: SparkContext
) -> None:
    old, new = both(scene, processes)
    old.send(signal.SIGSTOP)
    old.wait_until_stopped()
    scene.kafka.produce(topic, events(range(2000, 2300)))

    assert new.tell(OPEN_PATH) == 202
    new.until(landed(2000), "new has landed")
    before = scene.bucket.stamps()
    scene.kafka.produce(topic, events(range(3000, 3500), 1))
    old.send(signal.SIGCONT)

    assert old.end() == ExitCode.FENCED, old.said
    assert old.termination.read_text().startswith("FENCED: ledger slot ")
    new.until(landed(2500), "new lands more")
    assert before.items() <= scene.bucket.stamps().items()
    new.send(signal.SIGTERM)
    assert new.end() == ExitCode.OK, new.said
    wait_for(lambda: not old.left(), "the fenced driver's children end")
    assert land(scene.group(generation=2), context).code is ExitCode.OK
    assert scene.audit() == EXACT
    assert scene.faults() == []
