"""The desired state for single observations, where a whole scenario would hide the point."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.contract import Failure, Status
from landfall_operator.api.reasons import Reason
from landfall_operator.api.status import Crashes, RolloutStatus, Stage
from landfall_operator.core.autoscaler import ScalingReason
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.rollout import Event
from landfall_operator.core.snapshot import Driver, GroupObservation, PodFailure, StatusReport
from tests.support.cluster_model import World, group

MINUTE = timedelta(minutes=1)
OOM = PodFailure(Reason.OUT_OF_MEMORY, "the driver was killed at its memory limit")


@pytest.fixture
def watched() -> GroupObservation:
    """A new generation that lands and is being watched."""
    world = World(group("good", autoscaling={}))
    world.run(5 * MINUTE)
    world.edit(group("better", autoscaling={}))
    world.run(5 * MINUTE)
    observed = world.observe()
    assert observed.status.rollout.stage is Stage.WATCHING
    return observed


def active(observed: GroupObservation) -> Driver:
    driver = observed.driver(observed.status.rollout.active)
    assert driver
    return driver


def with_active(observed: GroupObservation, driver: Driver) -> GroupObservation:
    return replace(observed, drivers={**observed.drivers, driver.revision: driver})


def with_status(observed: GroupObservation, status: Status) -> GroupObservation:
    return with_active(
        observed, replace(active(observed), report=StatusReport(status, observed.now))
    )


def status_of(observed: GroupObservation) -> Status:
    report = active(observed).report
    assert report
    return report.status


def failing(observed: GroupObservation, reason: str) -> GroupObservation:
    status = status_of(observed)
    last = Failure(status.time, reason, "no")
    return with_status(
        observed,
        replace(status, commits=replace(status.commits, consecutive_failures=9, last_failure=last)),
    )


def rollout(observed: GroupObservation, **changes: object) -> GroupObservation:
    moved: RolloutStatus = observed.status.rollout.model_copy(update=changes)
    return replace(observed, status=observed.status.model_copy(update={"rollout": moved}))


def crashed(observed: GroupObservation, restarts: int) -> GroupObservation:
    """So many restarts of the active driver's pod have been counted already."""
    driver = active(observed)
    known = Crashes(revision=driver.revision, pod=driver.pod, restarts=restarts, count=0)
    return rollout(observed, crashes=known)


def test_a_watched_driver_that_is_silent_for_a_while_is_not_rolled_back(
    watched: GroupObservation,
) -> None:
    silent = with_active(watched, replace(active(watched), report=None))

    assert desired_state(replace(silent, now=watched.now + 30 * MINUTE)).event is None


def test_a_watched_driver_that_crashes_is_rolled_back(watched: GroupObservation) -> None:
    crashing = with_active(
        watched, replace(active(watched), report=None, restarts=5, last_exit=OOM)
    )

    chosen = desired_state(crashed(crashing, restarts=2))

    assert (chosen.event, chosen.rollout.target) == (
        Event.REVERT_DRAIN,
        watched.status.rollout.previous,
    )
    assert chosen.rollout.rejected
    assert chosen.rollout.rejected.reason is Reason.OUT_OF_MEMORY


@pytest.mark.parametrize("restarts", [3, 5])
def test_only_crashes_since_the_last_commit_count(watched: GroupObservation, restarts: int) -> None:
    crashing = with_active(
        watched, replace(active(watched), report=None, restarts=5, last_exit=OOM)
    )

    chosen = desired_state(crashed(crashing, restarts=restarts))

    assert chosen.event is None
    assert chosen.rollout.crashes
    assert chosen.rollout.crashes.count == 5 - restarts


def test_crashes_of_the_environment_do_not_count(watched: GroupObservation) -> None:
    away = PodFailure(Reason.DEPENDENCY_UNAVAILABLE, "no answer")
    crashing = with_active(watched, replace(active(watched), report=None, last_exit=away))
    crashing = with_active(crashing, replace(active(crashing), restarts=9))

    chosen = desired_state(crashed(crashing, restarts=0))

    assert chosen.event is None
    assert chosen.rollout.crashes
    assert (chosen.rollout.crashes.restarts, chosen.rollout.crashes.count) == (9, 0)


def test_a_commit_clears_the_crashes(watched: GroupObservation) -> None:
    crashing = with_active(watched, replace(active(watched), restarts=2, last_exit=OOM))

    chosen = desired_state(crashed(crashing, restarts=0))

    assert chosen.rollout.crashes
    assert (chosen.rollout.crashes.restarts, chosen.rollout.crashes.count) == (2, 0)


@pytest.mark.parametrize(
    ("reason", "event"), [("StoreUnavailable", None), ("EncodeFailed", Event.REVERT_WARM)]
)
def test_a_failing_store_is_not_blamed_on_a_generation(
    watched: GroupObservation, reason: str, event: Event | None
) -> None:
    assert desired_state(failing(watched, reason)).event is event


def test_a_generation_that_commits_nothing_is_rolled_back(watched: GroupObservation) -> None:
    status = status_of(watched)
    idle = with_status(
        watched,
        replace(status, overdue_seconds=3600.0, rates=replace(status.rates, landed_records=0)),
    )

    since = watched.now - 20 * MINUTE
    idle = rollout(idle, since=since, resumed=None)

    assert desired_state(idle).event is Event.REVERT_WARM
    resumed = rollout(idle, resumed=watched.now - 10 * MINUTE)
    assert desired_state(resumed).event is None


def test_nothing_scales_during_a_handover(watched: GroupObservation) -> None:
    changed = desired_state(replace(watched, spec=group("next", autoscaling={})))

    assert (changed.event, changed.scaling.reason) == (
        Event.CHANGE_WARM,
        ScalingReason.HOLD_UPGRADING,
    )


def test_nothing_scales_while_commits_fail(watched: GroupObservation) -> None:
    assert (
        desired_state(failing(watched, "StoreUnavailable")).scaling.reason
        is ScalingReason.HOLD_COMMITS_FAILING
    )


def test_without_measurements_the_executor_count_stays(watched: GroupObservation) -> None:
    unmeasured = replace(watched, samples=())

    assert desired_state(unmeasured).scaling.reason is ScalingReason.HOLD_LAG_UNKNOWN
    assert desired_state(unmeasured).scaling.desired == 1
