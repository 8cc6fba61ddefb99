"""What users read of a group with ``spec.schedule``."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.run_status import RunStatus as ReportedRun
from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import Condition, PublisherState, RunResult
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.schedules import run_status
from landfall_operator.reporting.event_texts import condition_events
from landfall_operator.reporting.group_status import report
from landfall_operator.reporting.schedules import run_events
from landfall_operator.reporting.status_writes import AT_ONCE, write_interval
from landfall_operator.runtime.group_metrics import (
    GROUP_FAMILIES,
    SampleCollector,
    group_samples,
    group_snapshot,
)
from tests.support.operator.cluster_model import World, group
from tests.unit.landfall_operator.test_schedules import MINUTE, at, replicas, scheduled, until

DRIVERS_OWN = [
    ConditionType.READY,
    ConditionType.COMMITS_HEALTHY,
    ConditionType.WITHIN_LAG_TARGET,
    ConditionType.SOURCE_REACHABLE,
    ConditionType.STORE_SAFE,
    ConditionType.EXECUTORS_READY,
]


def condition(world: World, kind: ConditionType) -> Condition:
    return next(each for each in world.status.conditions if each.type is kind)


def metrics(world: World) -> dict[str, float]:
    observed = world.observe()
    desired = desired_state(observed)
    snapshot = group_snapshot(None, observed, desired, report(observed, desired))
    families = SampleCollector(
        GROUP_FAMILIES, lambda: group_samples({("logs", "clicks"): snapshot})
    ).collect()
    return {family.name: family.samples[0].value for family in families}


@pytest.fixture
def asleep() -> World:
    """A group that has landed two hours and sleeps."""
    world = World(scheduled())
    until(world, "12:30")
    return world


def test_a_sleeping_group_is_ready_and_says_what_it_waits_for(asleep: World) -> None:
    ready = condition(asleep, ConditionType.READY)

    assert (ready.status, ready.reason) == ("True", ConditionReason.SLEEPING)
    assert ready.message == (
        "waits for the next run at 13:05 UTC; the last one, until 12:00 UTC, landed 100 records in "
        "3 objects"
    )
    assert [condition(asleep, kind).status for kind in DRIVERS_OWN] == ["True"] * 6
    assert condition(asleep, ConditionType.RECONCILING).status == "False"
    assert condition(asleep, ConditionType.ON_SCHEDULE).status == "True"
    assert (asleep.status.phase, asleep.status.reason) == ("Sleeping", None)


def test_its_runs_and_its_schedule_are_in_the_status(asleep: World) -> None:
    status = asleep.status.model_dump(mode="json", by_alias=True, exclude_none=True)

    assert status["schedule"] == {
        "sleeping": True,
        "next": "2026-11-21T13:05:00Z",
        "last": "2026-11-21T12:00:00Z",
    }
    assert [run["until"] for run in status["runs"]] == [
        "2026-11-21T12:00:00Z",
        "2026-11-21T11:00:00Z",
    ]
    assert {key: status["runs"][0][key] for key in ("records", "objects", "result", "left")} == {
        "records": 100,
        "objects": 3,
        "result": "Landed",
        "left": [],
    }


def test_its_numbers_do_not_age(asleep: World) -> None:
    asleep.run(20 * MINUTE)

    assert asleep.status.lag
    assert asleep.status.lag.seconds_text == "0s"
    assert asleep.status.executors
    assert asleep.status.executors.wanted == 0


def test_a_range_that_is_being_landed_is_named(asleep: World) -> None:
    until(asleep, "13:06")

    assert asleep.status.schedule
    assert asleep.status.schedule.until == at("13:00")
    assert asleep.status.schedule.due_since == at("13:05")
    assert asleep.status.schedule.next == at("14:05")


def test_a_range_that_is_not_landed_in_time_is_late(asleep: World) -> None:
    asleep.away.add("store")
    until(asleep, "14:05")
    in_time = condition(asleep, ConditionType.ON_SCHEDULE).status
    until(asleep, "14:06")
    late = condition(asleep, ConditionType.ON_SCHEDULE)

    assert (in_time, late.status, late.reason) == ("True", "False", ConditionReason.RUN_LATE)
    assert late.message == (
        "the range until 13:00 UTC has been due since 13:05 UTC and is not landed: no answer"
    )
    assert asleep.status.phase == "Degraded"
    asleep.away.clear()
    asleep.run(20 * MINUTE)
    assert condition(asleep, ConditionType.ON_SCHEDULE).status == "True"


def test_the_first_range_is_late_a_deadline_after_the_group_was_made() -> None:
    world = World(scheduled("slow"))
    until(world, "12:59")
    before = condition(world, ConditionType.ON_SCHEDULE).status
    until(world, "13:02")

    assert (before, condition(world, ConditionType.ON_SCHEDULE).reason) == ("True", "RunLate")


def test_a_run_that_left_something_is_incomplete_until_it_is_landed(asleep: World) -> None:
    asleep.ledger.broken.add(at("13:00"))
    until(asleep, "13:30")
    left = condition(asleep, ConditionType.ON_SCHEDULE)
    asleep.ledger.broken.clear()
    until(asleep, "14:30")

    assert (left.status, left.reason) == ("False", ConditionReason.RUN_INCOMPLETE)
    assert "left out records of clicks; the next run tries them again" in left.message
    assert "kubectl -n logs landfall retry clicks" in left.message
    assert condition(asleep, ConditionType.ON_SCHEDULE).status == "True"
    assert [(run.until, run.result) for run in (asleep.status.runs or ())[:3]] == [
        (at("14:00"), RunResult.LANDED),
        (at("13:00"), RunResult.LANDED),
        (at("13:00"), RunResult.LEFT),
    ]


def test_an_incomplete_group_sleeps_all_the_same(asleep: World) -> None:
    asleep.ledger.broken.add(at("13:00"))
    until(asleep, "13:30")

    assert replicas(asleep) == [0]
    assert (asleep.status.phase, asleep.status.reason) == (
        "Degraded",
        ConditionReason.RUN_INCOMPLETE,
    )


def test_what_a_driver_said_of_blocked_topic_partitions_stays_while_it_sleeps(
    asleep: World,
) -> None:
    asleep.ledger.broken.add(at("13:00"))
    until(asleep, "13:30")
    stopped = condition(asleep, ConditionType.STALLED).model_copy(
        update={"status": "True", "reason": ConditionReason.DATA_LOSS, "message": "clicks/0: gone"}
    )
    others = [each for each in asleep.status.conditions if each.type is not ConditionType.STALLED]
    asleep.status = asleep.status.model_copy(update={"conditions": (*others, stopped)})

    asleep.run(20 * MINUTE)

    assert condition(asleep, ConditionType.STALLED).message == "clicks/0: gone"


def test_a_suspended_group_is_not_late(asleep: World) -> None:
    asleep.edit(scheduled(state="Suspended"))
    until(asleep, "18:00")

    assert condition(asleep, ConditionType.ON_SCHEDULE).status == "Unknown"
    assert asleep.status.schedule
    assert asleep.status.schedule.next is None


def test_each_run_is_announced_once(asleep: World) -> None:
    before = asleep.status
    until(asleep, "13:30")

    (event,) = run_events(before, asleep.status, asleep.now)

    assert (event.kind, event.reason) == ("Normal", "RunLanded")
    assert event.message == "the run until 13:00 UTC, landed 100 records in 3 objects"
    assert list(run_events(asleep.status, asleep.status, asleep.now)) == []


def test_only_the_last_run_is_announced_to_a_status_without_runs(asleep: World) -> None:
    before = asleep.status.model_copy(update={"runs": None})

    assert len(list(run_events(before, asleep.status, asleep.now))) == 1


def test_falling_asleep_is_no_news(asleep: World) -> None:
    awake = World(scheduled())
    until(awake, "12:01")
    assert awake.status.phase == "Running"

    assert list(condition_events(awake.status, asleep.status)) == []


def test_a_late_and_an_incomplete_run_are_announced(asleep: World) -> None:
    before = asleep.status
    asleep.ledger.broken.add(at("13:00"))
    until(asleep, "13:30")

    (event,) = condition_events(before, asleep.status)

    assert (event.kind, event.reason) == ("Warning", "RunIncomplete")


def test_a_run_is_written_at_once(asleep: World) -> None:
    before = asleep.status.model_copy(update={"runs": (asleep.status.runs or ())[1:]})

    assert write_interval(before, asleep.status) == AT_ONCE


def test_a_publisher_of_a_sleeping_group_keeps_up(asleep: World) -> None:
    spec = scheduled(publish=[{"name": "lake", "type": "Success"}])
    world = World(spec)
    world.ledger.unpublished = 0
    until(world, "13:04")

    published = condition(world, ConditionType.PUBLISHED)

    assert (replicas(world), published.status, world.status.published) == ([0], "True", "1/1")
    assert world.status.publishers
    assert world.status.publishers[0].state is PublisherState.CURRENT


def test_metrics_of_a_group_that_sleeps_and_of_one_that_is_late(asleep: World) -> None:
    sleeping = metrics(asleep)
    asleep.away.add("store")
    until(asleep, "14:15")
    late = metrics(asleep)

    assert sleeping["landfall_group_sleeping"] == 1
    assert sleeping["landfall_group_run_late_seconds"] == 0
    assert sleeping["landfall_group_next_run_timestamp_seconds"] == at("13:05").timestamp()
    assert sleeping["landfall_group_last_run_until_timestamp_seconds"] == at("12:00").timestamp()
    assert late["landfall_group_sleeping"] == 0
    assert late["landfall_group_run_late_seconds"] == 600


def test_a_group_without_a_schedule_has_none_of_these_metrics() -> None:
    world = World(group("good"))
    world.run(5 * MINUTE)

    assert [name for name in metrics(world) if "run" in name or "sleeping" in name] == []


def test_a_run_has_its_share_of_bad_records_and_names_twenty_topics() -> None:
    topics = tuple(f"t{n}" for n in range(30))
    reported = ReportedRun(
        until=at("12:00").isoformat(),
        began=at("12:05").isoformat(),
        ended=at("12:08").isoformat(),
        records=9988,
        bad_records=12,
        objects=4,
        bytes=77,
        left=topics,
        slot=3,
    )

    run = run_status(reported)

    assert (run.bad_ratio, run.seconds, run.left_topics, len(run.left)) == ("0.0012", 180, 30, 20)
    assert run_status(replace(reported, bad_records=0)).bad_ratio == "0"
    assert run_status(replace(reported, records=10**7, bad_records=20)).bad_ratio == "0.000002"


def test_lag_within_the_deadline_of_a_range_is_no_lag() -> None:
    world = World(scheduled())
    until(world, "12:01")
    observed = world.observe()
    (driver,) = observed.drivers.values()
    assert driver.report
    late = replace(driver.report.status, overdue_seconds=timedelta(minutes=50).total_seconds())
    answer = replace(driver, report=replace(driver.report, status=late))
    observed = replace(observed, drivers={driver.revision: answer})

    status = report(observed, desired_state(observed))

    found = {each.type: each.status for each in status.conditions}
    assert found[ConditionType.WITHIN_LAG_TARGET] == "True"
