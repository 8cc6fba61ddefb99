"""``landfall run`` as a process on real Kafka and S3, killed or frozen at each step of its loop.

The process lands six objects by one COMMIT. Then a successor runs. It finds more records than the
first process saw, so it cuts the ranges differently that it lands again.
"""

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from landfall.store.probe import PREFIX as PROBES
from tests.support.audit.independent_audit import EXACT, data_keys, events
from tests.support.kafka.broker import Broker
from tests.support.landing.crashing_store import waiting_at
from tests.support.landing.group import Scene, land
from tests.support.landing.processes import Processes
from tests.support.places.kinds import KINDS
from tests.support.stores.s3 import Bucket
from tests.support.waiting import wait_for

pytestmark = pytest.mark.xdist_group("drivers")

OBJECTS = 6

STEPS = [
    ("before create COMMIT", (0, 0)),
    ("after create COMMIT", (1, 0)),
    ("after complete 1", (1, 1)),
    ("after complete 4", (1, 4)),
    (f"after complete {OBJECTS}", (1, OBJECTS)),
    ("after create YIELD", (1, OBJECTS)),
]
"""Where a driver is killed or frozen; how many COMMITs and visible objects exist then."""


KILLED_FIRST = STEPS[:1]
"""Where `make test` kills, and rolls forward after two kills; `make store-suite` kills at each."""
FROZEN_FIRST = STEPS[:2]
"""Where `make test` freezes: before the COMMIT, and with all objects to complete."""

Steps = Sequence[tuple[str, tuple[int, int]]]


def steps(chosen: Steps, first: Steps) -> list[object]:
    """Parameters of a test; only `make store-suite` runs those that are not among the first."""
    return [pytest.param(*each, marks=() if each in first else pytest.mark.full) for each in chosen]


ELSEWHERE = "s3, the ledger elsewhere"


@pytest.fixture(
    params=["s3", *(pytest.param(kind, marks=pytest.mark.full) for kind in (*KINDS, ELSEWHERE))]
)
def scene(
    request: pytest.FixtureRequest,
    kafka: Broker,
    secrets: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Scene:
    """An output root in each kind of store, and the topics of one group."""
    if request.param in {"s3", ELSEWHERE}:
        made: Scene = request.getfixturevalue("s3_scene")
        ledger = {"url": f"file://{tmp_path}/ledger"} if request.param == ELSEWHERE else None
        return replace(made, ledger=ledger)
    monkeypatch.setenv("LANDFALL_SECRETS", str(secrets))
    place = KINDS[request.param](request.getfixturevalue(request.param))
    return Scene(kafka, cast("Bucket", place))  # it has what these tests use of a bucket


@pytest.fixture
def topic(scene: Scene) -> str:
    """A topic whose records are landed as ``OBJECTS`` objects."""
    topic = scene.topic(partitions=2)
    scene.kafka.produce(topic, [*events(range(1000), 0), *events(range(1000, 1700), 1)])
    return topic


def commits_and_objects(scene: Scene) -> tuple[int, int]:
    return scene.state().totals.commits, len(data_keys(scene.bucket))


def successor_lands_more(scene: Scene, context: SparkContext, topic: str) -> None:
    scene.kafka.produce(topic, [*events(range(2000, 2300), 0), *events(range(3000, 3500), 1)])
    assert (
        land(scene.group(uploadPolicy={"maxBytes": "100k", "maxAge": "1s"}), context).code
        is ExitCode.OK
    )
    assert scene.audit() == EXACT
    assert scene.faults() == []


def next_run_lands_nothing(scene: Scene, context: SparkContext) -> None:
    """It only aborts what a fenced driver's tasks have begun to upload since."""
    assert land(scene.group(), context).code is ExitCode.OK
    assert scene.audit() == EXACT
    assert scene.faults() == []


@pytest.mark.parametrize(("step", "done"), steps(STEPS, KILLED_FIRST))
def test_a_kill_loses_and_repeats_nothing(
    scene: Scene,
    topic: str,
    processes: Processes,
    context: SparkContext,
    step: str,
    done: tuple[int, int],
) -> None:
    killed = processes.struck(scene.document(), f"KILL {step}")

    assert killed.end() == -signal.SIGKILL, killed.said
    assert commits_and_objects(scene) == done
    successor_lands_more(scene, context, topic)


def stamps(scene: Scene) -> dict[str, tuple[str, str]]:
    """What every object is, without those by which each driver tests its store once."""
    found = scene.bucket.stamps().items()
    return {key: stamp for key, stamp in found if not key.startswith(PROBES)}


@pytest.mark.parametrize(("step", "done"), steps(STEPS[:-1], FROZEN_FIRST))
def test_a_frozen_driver_that_wakes_up_after_its_successor_changes_nothing(
    scene: Scene,
    topic: str,
    processes: Processes,
    context: SparkContext,
    step: str,
    done: tuple[int, int],
) -> None:
    frozen = processes.struck(scene.document(), f"STOP {step}")
    frozen.wait_until_stopped()
    assert commits_and_objects(scene) == done
    successor_lands_more(scene, context, topic)
    before = stamps(scene)

    frozen.send(signal.SIGCONT)

    assert frozen.end() == ExitCode.FENCED, frozen.said
    assert stamps(scene) == before
    next_run_lands_nothing(scene, context)


def test_a_kill_while_rolling_forward_is_rolled_forward(
    scene: Scene, topic: str, processes: Processes, context: SparkContext
) -> None:
    for step, done in (("after create COMMIT", (1, 0)), ("after complete 2", (1, 2))):
        killed = processes.struck(scene.document(), f"KILL {step}")
        assert killed.end() == -signal.SIGKILL, killed.said
        assert commits_and_objects(scene) == done

    successor_lands_more(scene, context, topic)


def test_a_kill_while_tasks_upload_leaves_nothing(
    scene: Scene, topic: str, processes: Processes, context: SparkContext, tmp_path: Path
) -> None:
    killed = processes.struck(scene.document(), gate=tmp_path / "never")
    wait_for(waiting_at(tmp_path / "never").exists, "tasks upload")

    os.killpg(killed.popen.pid, signal.SIGKILL)

    assert killed.end() == -signal.SIGKILL
    # A worker may outlive them for a moment and begin one more upload, which a later driver aborts.
    wait_for(lambda: not killed.left(), "its workers end")
    assert commits_and_objects(scene) == (0, 0)
    successor_lands_more(scene, context, topic)


@pytest.mark.rest
def test_what_tasks_read_of_a_topic_recreated_meanwhile_is_not_landed(
    scene: Scene, topic: str, processes: Processes, context: SparkContext, tmp_path: Path
) -> None:
    """The driver has just discovered topics, so only the topic's id at COMMIT shows the change."""
    driver = processes.struck(
        scene.document(kafka={"discoveryInterval": "1h"}), gate=tmp_path / "gate"
    )
    wait_for(waiting_at(tmp_path / "gate").exists, "tasks upload")
    scene.kafka.delete_topic(topic)
    wait_for(lambda: topic not in scene.topics, "the topic is deleted")
    assert scene.topic(partitions=2) == topic
    scene.kafka.produce(topic, events(range(2000)))

    (tmp_path / "gate").touch()

    assert driver.end() == ExitCode.STALLED, driver.said
    assert "TopicRecreated" in driver.said
    assert data_keys(scene.bucket) == []
    assert land(scene.group(generation=2), context).code is ExitCode.OK
    assert scene.audit() == EXACT


@pytest.mark.parametrize(
    "late", [pytest.param("driver", marks=pytest.mark.rest), "driver and tasks"]
)
def test_a_driver_frozen_while_its_tasks_upload_changes_nothing(
    scene: Scene, topic: str, processes: Processes, context: SparkContext, tmp_path: Path, late: str
) -> None:
    """Its tasks end while it is frozen, or upload parts after a successor aborted their uploads."""
    gate = tmp_path / "gate"
    frozen = processes.struck(scene.document(), gate=gate)
    wait_for(waiting_at(gate).exists, "tasks upload")
    frozen.send(signal.SIGSTOP)
    frozen.wait_until_stopped()
    if late == "driver":
        gate.touch()
    successor_lands_more(scene, context, topic)
    before = scene.bucket.stamps()

    gate.touch()
    frozen.send(signal.SIGCONT)

    assert frozen.end() == ExitCode.FENCED, frozen.said
    assert scene.bucket.stamps() == before
    next_run_lands_nothing(scene, context)


def test_a_task_whose_worker_is_killed_is_run_again(
    scene: Scene, topic: str, processes: Processes, context: SparkContext, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    driver = processes.struck(scene.document(), gate=gate)
    wait_for(waiting_at(gate).exists, "tasks upload")

    for worker in driver.workers():
        worker.kill()
    gate.touch()

    assert driver.end() == ExitCode.OK, driver.said
    assert scene.audit() == EXACT
    next_run_lands_nothing(scene, context)


@pytest.mark.rest
def test_a_driver_whose_jvm_dies_ends_and_says_so(
    scene: Scene, topic: str, processes: Processes, context: SparkContext, tmp_path: Path
) -> None:
    driver = processes.struck(scene.document(), gate=tmp_path / "never")
    wait_for(waiting_at(tmp_path / "never").exists, "tasks upload")

    driver.jvm().kill()

    assert driver.end() == ExitCode.UNAVAILABLE, driver.said
    assert "dependency unavailable  why=spark is gone: " in driver.said
    assert "py4j" not in driver.said
    successor_lands_more(scene, context, topic)


def test_a_kill_takes_spark_with_it(scene: Scene, topic: str, processes: Processes) -> None:
    killed = processes.struck(scene.document(), "KILL after create COMMIT")

    assert killed.end() == -signal.SIGKILL

    wait_for(lambda: not killed.left(), "its JVM and Python workers end")
