"""The desired state for single observations, where a whole scenario would hide the point."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.contract import Failure, Status
from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.status import Crashes, Rejected, RetryStatus, RolloutStatus, Stage
from landfall_operator.core.autoscaler import ScalingReason
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.rollout import RolloutEvent
from landfall_operator.core.snapshot import (
    GroupObservation,
    PodFailure,
    ReceivedStatus,
    RevisionDriver,
)
from tests.support.operator.cluster_model import World, group

MINUTE = timedelta(minutes=1)
OOM = PodFailure(ConditionReason.OUT_OF_MEMORY, "the driver was killed at its memory limit")


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


def active(observed: GroupObservation) -> RevisionDriver:
    driver = observed.driver(observed.status.rollout.active)
    assert driver
    return driver


def with_active(observed: GroupObservation, driver: RevisionDriver) -> GroupObservation:
    return replace(observed, drivers={**observed.drivers, driver.revision: driver})


def with_status(observed: GroupObservation, status: Status) -> GroupObservation:
    return with_active(
        observed, replace(active(observed), report=ReceivedStatus(status, observed.now))
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


def limited(observed: GroupObservation, **rollback: object) -> GroupObservation:
    """The same group with other limits."""
    return replace(observed, spec=group("better", autoscaling={}, upgrade={"rollback": rollback}))


def long_ago(observed: GroupObservation) -> GroupObservation:
    """The active driver has been watched for three hours."""
    return rollout(observed, since=observed.now - 180 * MINUTE, resumed=None)


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
        RolloutEvent.REVERT_DRAIN,
        watched.status.rollout.previous,
    )
    assert chosen.rollout.rejected
    assert chosen.rollout.rejected.reason is ConditionReason.OUT_OF_MEMORY


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
    away = PodFailure(ConditionReason.DEPENDENCY_UNAVAILABLE, "no answer")
    crashing = with_active(watched, replace(active(watched), report=None, last_exit=away))
    crashing = with_active(crashing, replace(active(crashing), restarts=9))

    chosen = desired_state(crashed(crashing, restarts=0))

    assert chosen.event is None
    assert chosen.rollout.crashes
    assert (chosen.rollout.crashes.restarts, chosen.rollout.crashes.count) == (9, 0)


@pytest.mark.parametrize(
    "reason",
    [
        ConditionReason.IMAGE_PULL,
        ConditionReason.UNSCHEDULABLE,
        ConditionReason.POD_REFUSED,
        ConditionReason.CONFIG_ERROR,
        ConditionReason.FENCED,
        ConditionReason.DEPENDENCY_UNAVAILABLE,
        ConditionReason.STORE_DENIED,
        ConditionReason.SOURCE_DENIED,
    ],
)
def test_no_limit_of_time_runs_while_the_environment_keeps_a_driver_from_starting(
    watched: GroupObservation, reason: ConditionReason
) -> None:
    opening = rollout(long_ago(watched), stage=Stage.OPENING)
    kept = replace(active(opening), report=None, pod_failure=PodFailure(reason, "no"))

    chosen = desired_state(with_active(opening, kept))

    assert chosen.event is None
    assert chosen.rollout.held
    assert chosen.rollout.held.reason is reason


@pytest.mark.parametrize(("minutes", "is_held"), [(5, True), (11, False)])
def test_what_ended_a_driver_last_holds_while_it_starts_again(
    watched: GroupObservation, minutes: int, *, is_held: bool
) -> None:
    away = PodFailure(ConditionReason.DEPENDENCY_UNAVAILABLE, "no answer")
    opening = rollout(long_ago(watched), stage=Stage.OPENING)
    started = watched.now - minutes * MINUTE
    again = replace(active(opening), report=None, last_exit=away, started=started, restarts=4)

    chosen = desired_state(crashed(with_active(opening, again), restarts=4))

    assert (chosen.rollout.held is not None, chosen.event is None) == (is_held, is_held)


def test_a_commit_clears_the_crashes(watched: GroupObservation) -> None:
    crashing = with_active(watched, replace(active(watched), restarts=2, last_exit=OOM))

    chosen = desired_state(crashed(crashing, restarts=0))

    assert chosen.rollout.crashes
    assert (chosen.rollout.crashes.restarts, chosen.rollout.crashes.count) == (2, 0)


@pytest.mark.parametrize(
    ("reason", "event"), [("StoreUnavailable", None), ("EncodeFailed", RolloutEvent.REVERT_WARM)]
)
def test_a_failing_store_is_not_blamed_on_a_generation(
    watched: GroupObservation, reason: str, event: RolloutEvent | None
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

    assert desired_state(idle).event is RolloutEvent.REVERT_WARM
    resumed = rollout(idle, resumed=watched.now - 10 * MINUTE)
    assert desired_state(resumed).event is None


def test_the_limits_of_a_driver_that_lands_are_fields(watched: GroupObservation) -> None:
    status = status_of(watched)
    rates = replace(status.rates, landed_records=0)
    idle = with_status(watched, replace(status, overdue_seconds=3600.0, rates=rates))
    idle = rollout(idle, since=watched.now - 10 * MINUTE, resumed=None)

    assert desired_state(idle).event is None
    assert desired_state(limited(idle, noCommit="5m")).event is RolloutEvent.REVERT_WARM
    nine = failing(watched, "EncodeFailed")
    assert desired_state(limited(nine, maxCommitFailures=9)).event is RolloutEvent.REVERT_WARM
    assert desired_state(limited(nine, maxCommitFailures=10)).event is None


@pytest.mark.parametrize("has_committed", [False, True])
def test_a_generation_is_settled_only_after_it_has_committed(
    watched: GroupObservation, *, has_committed: bool
) -> None:
    status = status_of(watched)
    waiting = with_status(watched, replace(status, rates=replace(status.rates, landed_records=0)))
    committed = watched.status.rollout.active if has_committed else watched.status.rollout.previous

    chosen = desired_state(rollout(long_ago(waiting), committed=committed))

    assert chosen.event is (RolloutEvent.PROVEN if has_committed else None)


@pytest.mark.parametrize(
    ("retry_in", "event"),
    [(-MINUTE, RolloutEvent.REVERT_WARM), (5 * MINUTE, None)],
    ids=["due", "later"],
)
def test_a_generation_whose_rollback_failed_is_never_settled(
    watched: GroupObservation, retry_in: timedelta, event: RolloutEvent | None
) -> None:
    rejected = Rejected(
        digest=active(watched).digest,
        reason=ConditionReason.BAD_RECORDS,
        message="bad",
        generation=1,
    )
    retry = RetryStatus(attempts=1, time=watched.now + retry_in)

    chosen = desired_state(rollout(long_ago(watched), rejected=rejected, retry=retry))

    assert chosen.event is event
    assert chosen.rollout.previous == watched.status.rollout.previous


def test_nothing_scales_during_a_handover(watched: GroupObservation) -> None:
    changed = desired_state(replace(watched, spec=group("next", autoscaling={})))

    assert (changed.event, changed.scaling.reason) == (
        RolloutEvent.CHANGE_WARM,
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
