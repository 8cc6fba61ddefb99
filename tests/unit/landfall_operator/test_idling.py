"""A group with ``spec.idle`` has no driver while its topics are quiet, but for looks at them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall.api.compaction_status import CompactionStatus, ReplacingStatus
from landfall.api.contract import DriverPhase
from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import Stage
from landfall_operator.api.verbs import PAUSE, Verb
from landfall_operator.core.autoscaler import ScalingReason
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import FRESH
from landfall_operator.reporting.group_status import report
from landfall_operator.runtime.group_metrics import (
    GROUP_FAMILIES,
    SampleCollector,
    group_samples,
    group_snapshot,
)
from tests.support.operator.cluster_model import World, group
from tests.unit.landfall_operator.test_schedules import MINUTE, at, replicas, until

IDLE = {"scaleToZero": "30m", "lookEvery": "5m"}


def quiet(image: str = "good", **spec: Any) -> Any:
    return group(image, **{"idle": IDLE, **spec})


def settled(**spec: Any) -> World:
    """A group that has landed until 12:10, of which no record has come since."""
    world = World(quiet(**spec))
    until(world, "12:10")
    world.quiet = at("12:10")
    return world


def sleeping(**spec: Any) -> World:
    world = settled(**spec)
    until(world, "12:43")
    assert (replicas(world), world.status.phase) == ([0], "Sleeping")
    world.events.clear()
    return world


@pytest.fixture
def asleep() -> World:
    return sleeping()


def looks(world: World, text: str) -> list[str]:
    """When a driver is started until a time, by the minute."""
    found = []
    while world.now < at(text):
        before = replicas(world)
        world.run(MINUTE / 4, MINUTE / 4)
        if (before, replicas(world)) == ([0], [1]):
            found.append(f"{world.now:%H:%M}")
    return found


def test_a_quiet_group_has_a_driver_until_nothing_has_landed_for_a_while() -> None:
    world = settled()
    until(world, "12:39")
    before = replicas(world)
    until(world, "12:42")

    assert (before, replicas(world)) == ([1], [0])


def test_a_driver_looks_now_and_then_and_is_stopped_if_there_is_nothing(asleep: World) -> None:
    found = looks(asleep, "13:10")

    assert found == ["12:45", "12:50", "12:56", "13:01", "13:07"]
    assert replicas(asleep) == [0]
    assert [d.pod for d in asleep.drivers.values()] == [None]


def test_looks_change_nothing_that_users_see(asleep: World) -> None:
    phases, executors, changes = set(), set(), []
    before = asleep.status.conditions
    for _ in range(120):
        asleep.run(MINUTE / 4, MINUTE / 4)
        phases.add(asleep.status.phase)
        executors.add(asleep.status.executors.wanted if asleep.status.executors else None)
        changes.append([(c.type, c.status, c.reason) for c in asleep.status.conditions])

    assert phases == {"Sleeping"}
    assert executors == {0}
    assert all(each == [(c.type, c.status, c.reason) for c in before] for each in changes)
    assert not asleep.events


def test_a_backfill_that_is_to_be_promoted_wakes_the_group(asleep: World) -> None:
    asleep.promotes = True
    until(asleep, "13:30")
    awake = replicas(asleep)
    asleep.promotes = False
    until(asleep, "13:32")

    assert (awake, replicas(asleep)) == ([1], [0])


def test_a_paused_group_is_woken_by_no_backfill(asleep: World) -> None:
    asleep.annotations[PAUSE] = "true"
    asleep.promotes = True
    until(asleep, "13:30")

    assert (replicas(asleep), asleep.status.phase) == ([0], "Sleeping")


def test_a_look_that_finds_records_keeps_the_driver(asleep: World) -> None:
    asleep.quiet = None
    until(asleep, "13:30")

    assert replicas(asleep) == [1]
    assert asleep.status.phase == "Running"
    assert asleep.status.idle
    assert asleep.status.idle.model_dump(exclude_none=True) == {"sleeping": False}


def test_what_a_sleeping_group_says(asleep: World) -> None:
    ready = next(c for c in asleep.status.conditions if c.type is ConditionType.READY)
    idle = asleep.status.idle

    assert (ready.status, ready.reason) == ("True", ConditionReason.SLEEPING)
    assert ready.message == "nothing has landed since 12:10 UTC"
    assert idle
    assert (idle.sleeping, idle.since) == (True, at("12:10"))
    assert idle.next_look
    assert asleep.now < idle.next_look <= asleep.now + 5 * MINUTE
    assert asleep.status.lag
    assert asleep.status.lag.seconds_text == "0s"


def test_its_metrics_say_that_it_sleeps(asleep: World) -> None:
    observed = asleep.observe()
    desired = desired_state(observed)
    snapshot = group_snapshot(None, observed, desired, report(observed, desired))
    families = {
        f.name: f
        for f in SampleCollector(
            GROUP_FAMILIES, lambda: group_samples({("logs", "clicks"): snapshot})
        ).collect()
    }

    assert families["landfall_group_sleeping"].samples[0].value == 1.0


def test_the_executor_count_is_kept_while_it_sleeps() -> None:
    policy = {"minReplicas": 1, "maxReplicas": 4}
    world = sleeping(autoscaling=policy)

    assert desired_state(world.observe()).scaling.reason is ScalingReason.HOLD_SLEEPING


def test_a_group_whose_status_is_lost_gets_a_driver(asleep: World) -> None:
    asleep.status = asleep.status.model_copy(update={"idle": None})
    asleep.settle()

    assert replicas(asleep) == [1]


def test_a_driver_that_cannot_look_is_shown_to_start(asleep: World) -> None:
    asleep.away.add("kafka")
    until(asleep, "12:59")

    assert replicas(asleep) == [1]
    assert asleep.status.phase in {"Starting", "Degraded"}

    asleep.away.clear()
    until(asleep, "13:02")

    assert replicas(asleep) == [0]


@pytest.mark.parametrize("verb", [Verb.RETRY, Verb.PROMOTE])
def test_a_request_wakes_the_driver(asleep: World, verb: Verb) -> None:
    asleep.request(verb)
    asleep.settle()

    assert replicas(asleep) == [1]


def test_another_spec_is_rolled_out_and_watched(asleep: World) -> None:
    asleep.edit(quiet("better"))
    until(asleep, "12:55")

    assert asleep.images == ["better"]
    assert asleep.status.rollout.stage is Stage.WATCHING

    asleep.request(Verb.PROMOTE)
    until(asleep, "13:40")

    assert asleep.status.phase == "Sleeping"


def test_looks_come_as_often_as_the_last_edit_says() -> None:
    world = sleeping(idle={"scaleToZero": "30m", "lookEvery": "4h"})

    world.edit(quiet(idle=IDLE))
    world.run(6 * MINUTE, MINUTE / 2)

    assert world.status.idle
    assert world.status.idle.next_look
    assert world.status.idle.next_look <= world.now + 5 * MINUTE


def test_without_idle_the_driver_is_started_again(asleep: World) -> None:
    asleep.edit(group("good"))
    asleep.settle()

    assert replicas(asleep) == [1]
    assert asleep.status.idle is None


def test_suspended_groups_look_at_nothing(asleep: World) -> None:
    asleep.edit(quiet(state="Suspended"))
    asleep.settle()

    assert not looks(asleep, "13:30")
    assert asleep.status.phase == "Suspended"

    asleep.edit(quiet())
    asleep.settle()

    assert replicas(asleep) == [1]


def test_a_paused_group_stays_as_it_is(asleep: World) -> None:
    asleep.annotations[PAUSE] = "true"

    assert not looks(asleep, "13:10")

    awake = settled()
    awake.annotations[PAUSE] = "true"
    until(awake, "13:10")

    assert replicas(awake) == [1]


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": DriverPhase.RECOVERING},
        {"lag_known": False},
        {"rounds": 1},
        {"repairing": 1},
        {"compaction": CompactionStatus(awaited_topics=1)},
        {"requests": 1},
        {"replacing": ReplacingStatus(waiting=2, refused=1)},
    ],
)
def test_a_driver_with_something_to_do_is_not_stopped(changes: dict[str, Any]) -> None:
    world = settled()
    until(world, "12:39")
    world.now = at("12:45")
    observed = world.observe()
    (driver,) = observed.drivers.values()
    assert driver.report
    assert desired_state(observed).sleeps

    answer = replace(driver.report, status=replace(driver.report.status, **changes))
    drivers = {driver.revision: replace(driver, report=answer)}

    assert not desired_state(replace(observed, drivers=drivers)).sleeps


def test_an_answer_that_is_old_stops_no_driver() -> None:
    world = settled()
    until(world, "12:39")
    world.now = at("12:45")
    observed = world.observe()

    assert desired_state(observed).sleeps
    assert not desired_state(replace(observed, now=observed.now + 2 * FRESH)).sleeps


def test_a_publisher_that_is_behind_keeps_the_driver_awake() -> None:
    world = settled()
    world.ledger.unpublished = 2
    until(world, "13:00")
    awake = replicas(world)

    world.ledger.unpublished = 0
    until(world, "13:01")

    assert (awake, replicas(world)) == ([1], [0])


def test_a_blocked_topic_partition_keeps_the_driver_awake() -> None:
    world = World(quiet("bad"))
    world.quiet = at("12:10")
    world.run(timedelta(hours=2), MINUTE)

    assert replicas(world) == [1]
