"""A group with ``spec.schedule`` has a driver only while one of its ranges is due."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from landfall.api.contract import DriverPhase
from landfall_operator.api.status import AutoscalingStatus, GroupStatus, RunResult, Stage
from landfall_operator.api.verbs import PAUSE, Verb
from landfall_operator.core.autoscaler import ScalingReason
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import FRESH
from tests.support.operator.cluster_model import World, group

MINUTE = timedelta(minutes=1)
HOURLY = {"cron": "5 * * * *", "boundary": "Hour"}


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-21T{text}").replace(tzinfo=UTC)


def scheduled(image: str = "good", **spec: Any) -> Any:
    return group(image, **{"schedule": HOURLY, **spec})


def replicas(world: World) -> list[int]:
    return [driver.replicas for driver in world.drivers.values()]


def until(world: World, text: str) -> None:
    world.run(at(text) - world.now, MINUTE / 2)


@pytest.fixture
def asleep() -> World:
    """A group that has landed the hour until 11:00 and sleeps at 12:04."""
    world = World(scheduled())
    until(world, "12:04")
    assert (replicas(world), world.status.phase) == ([0], "Sleeping")
    world.events.clear()
    return world


def test_a_group_that_never_ran_has_a_range_due_at_once(asleep: World) -> None:
    assert asleep.ledger.ends == [at("11:00")]
    assert asleep.status.runs
    assert asleep.status.runs[0].result is RunResult.LANDED
    assert [d.pod for d in asleep.drivers.values()] == [None]


def test_a_sleeping_group_wakes_for_its_next_range_and_sleeps_again(asleep: World) -> None:
    until(asleep, "12:05")
    woken = replicas(asleep)
    until(asleep, "12:12")

    assert woken == [1]
    assert asleep.ledger.ends == [at("11:00"), at("12:00")]
    assert replicas(asleep) == [0]


def test_it_stays_asleep_until_then(asleep: World) -> None:
    asleep.run(timedelta(seconds=45))

    assert replicas(asleep) == [0]


def waiting() -> World:
    """A driver that has landed its range, before the operator has seen it."""
    world = World(scheduled())
    while not world.ledger.ended:
        world.settle()
        world.now += MINUTE / 2
        world.advance()
    return world


def test_the_driver_runs_until_the_last_run_is_in_the_status() -> None:
    world = waiting()
    before = desired_state(world.observe()).sleeps

    world.reconcile()

    assert (before, desired_state(world.observe()).sleeps) == (False, True)


@pytest.mark.parametrize(
    "phase", [DriverPhase.RECOVERING, DriverPhase.DRAINING, DriverPhase.STALLED]
)
def test_only_a_driver_that_runs_may_say_that_it_waits(phase: DriverPhase) -> None:
    world = waiting()
    world.reconcile()
    observed = world.observe()
    (driver,) = observed.drivers.values()
    assert driver.report
    answer = replace(driver.report, status=replace(driver.report.status, phase=phase))
    drivers = {driver.revision: replace(driver, report=answer)}

    assert not desired_state(replace(observed, drivers=drivers)).sleeps


def test_an_answer_that_is_old_stops_no_driver() -> None:
    world = waiting()
    world.reconcile()
    observed = world.observe()

    assert desired_state(observed).sleeps
    assert not desired_state(replace(observed, now=observed.now + 2 * FRESH)).sleeps


def test_a_publisher_that_is_behind_keeps_the_driver_awake() -> None:
    world = World(scheduled())
    world.ledger.unpublished = 2
    until(world, "12:20")
    awake = replicas(world)

    world.ledger.unpublished = 0
    until(world, "12:21")

    assert (awake, replicas(world)) == ([1], [0])


@pytest.mark.parametrize("verb", [Verb.RETRY, Verb.PROMOTE])
def test_a_request_wakes_the_driver(asleep: World, verb: Verb) -> None:
    asleep.request(verb)
    asleep.settle()

    assert replicas(asleep) == [1]


def test_after_a_request_that_was_carried_out_the_driver_runs_for_five_minutes() -> None:
    world = World(scheduled(schedule={"cron": "0 0 * * *"}))
    until(world, "12:10")
    world.request(Verb.RETRY)
    until(world, "12:14")
    awake = replicas(world)

    until(world, "12:17")

    assert (awake, replicas(world)) == ([1], [0])


def test_a_change_of_the_spec_is_rolled_out_at_once(asleep: World) -> None:
    asleep.stages.clear()

    asleep.edit(scheduled("better"))
    until(asleep, "12:10")

    assert asleep.images == ["better"]
    assert asleep.stages == [Stage.DRAINING, Stage.OPENING, Stage.WATCHING]
    assert replicas(asleep) == [1]


def test_the_new_revision_sleeps_when_it_is_settled(asleep: World) -> None:
    asleep.edit(scheduled("better"))
    until(asleep, "15:30")

    assert (asleep.images, replicas(asleep)) == (["better"], [0])
    assert asleep.ledger.ends == [at(f"{hour}:00") for hour in (11, 12, 13, 14, 15)]


def test_a_change_of_the_executors_wakes_nobody(asleep: World) -> None:
    asleep.edit(scheduled(replicas=7))
    asleep.settle()

    assert replicas(asleep) == [0]


def test_without_its_schedule_the_group_lands_all_the_time(asleep: World) -> None:
    asleep.edit(group("good"))
    until(asleep, "12:30")

    assert asleep.landing == ["good"]
    assert asleep.status.schedule is None
    assert asleep.status.runs


def test_a_status_that_was_lost_comes_back(asleep: World) -> None:
    until(asleep, "12:20")
    asleep.status = GroupStatus(rollout=asleep.status.rollout)
    asleep.settle()
    woken = replicas(asleep)
    asleep.run(2 * MINUTE)

    assert (woken, replicas(asleep)) == ([1], [0])
    assert [run.until for run in asleep.status.runs or ()] == [at("12:00"), at("11:00")]


def test_an_operator_that_restarts_reads_what_it_knew(asleep: World) -> None:
    stored = asleep.status.model_dump_json(by_alias=True, exclude_none=True)
    asleep.status = GroupStatus.model_validate_json(stored)

    assert asleep.reconcile() == ()
    assert asleep.status.phase == "Sleeping"


def test_the_hours_that_an_operator_was_away_are_caught_up(asleep: World) -> None:
    asleep.now = at("15:40")
    asleep.run(20 * MINUTE)

    assert asleep.ledger.ends == [at(f"{hour}:00") for hour in (11, 12, 13, 14, 15)]
    assert replicas(asleep) == [0]


def test_a_suspended_group_lands_what_was_missed_once_it_runs_again(asleep: World) -> None:
    asleep.edit(scheduled(state="Suspended"))
    until(asleep, "14:30")
    during = (replicas(asleep), asleep.status.phase, list(asleep.ledger.ends))
    asleep.edit(scheduled())
    asleep.run(15 * MINUTE)

    assert during == ([0], "Suspended", [at("11:00")])
    assert asleep.ledger.ends == [at(f"{hour}:00") for hour in (11, 12, 13, 14)]


def test_a_group_that_sleeps_is_deleted_at_once(asleep: World) -> None:
    asleep.deleting = True
    asleep.settle()

    assert not asleep.finalizer


def test_a_paused_group_neither_wakes_nor_sleeps(asleep: World) -> None:
    asleep.annotations[PAUSE] = "true"
    until(asleep, "12:30")
    paused = replicas(asleep)
    del asleep.annotations[PAUSE]
    until(asleep, "12:40")

    assert paused == [0]
    assert asleep.ledger.ends == [at("11:00"), at("12:00")]


def test_a_driver_that_was_deleted_is_made_again(asleep: World) -> None:
    until(asleep, "12:20")
    asleep.drivers.clear()
    asleep.run(2 * MINUTE)

    assert replicas(asleep) == [0]


def test_the_executors_of_the_last_run_start_with_the_next_one() -> None:
    world = World(scheduled(autoscaling={"minReplicas": 1, "maxReplicas": 9}))
    until(world, "12:04")
    last = AutoscalingStatus(desired=6, reason="Backlog", message="")
    world.status = world.status.model_copy(update={"autoscaling": last})
    world.settle()
    scaling = desired_state(replace(world.observe(), samples=())).scaling

    assert (scaling.reason, scaling.desired) == (ScalingReason.HOLD_SLEEPING, 6)
    assert world.status.executors
    assert (world.status.executors.wanted, world.status.executors.missing_since) == (0, None)
