"""Executors that do not run are seen, and said."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall.api.contract import ExecutorProblem, Workers
from landfall_operator.api.reasons import ConditionReason, ConditionType, Phase
from landfall_operator.api.status import Condition, ExecutorsStatus, GroupStatus
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.parsing import STARTUP, executor_pods_of
from landfall_operator.core.snapshot import ExecutorPods, GroupObservation, PodFailure
from landfall_operator.reporting.group_status import report
from tests.support.operator.cluster_model import World, group

LOG_SAYS_WHY = "see the driver's log"
NO_ROOM = PodFailure(
    ConditionReason.UNSCHEDULABLE, "0/4 nodes are available: 4 Insufficient memory"
)


@pytest.fixture
def running() -> GroupObservation:
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    return world.observe()


def with_workers(
    observed: GroupObservation,
    workers: Workers,
    *,
    missing: timedelta | None = timedelta(hours=2),
    overdue: float = 7200.0,
    pods: ExecutorPods | None = None,
) -> GroupObservation:
    """The same group with these executors, of which some may have been missing for a while."""
    (driver,) = observed.drivers.values()
    assert driver.report
    answer = driver.report.status
    status = replace(answer, workers=workers, overdue_seconds=overdue)
    since = observed.now - missing if missing is not None else None
    written = observed.status.model_copy(
        update={"executors": ExecutorsStatus(wanted=3, ready=3, missing_since=since)}
    )
    return replace(
        observed,
        status=written,
        executor_pods=pods,
        drivers={driver.revision: replace(driver, report=replace(driver.report, status=status))},
    )


def status_of(observed: GroupObservation) -> GroupStatus:
    return report(observed, desired_state(observed))


def condition(observed: GroupObservation, kind: ConditionType) -> Condition:
    return next(c for c in status_of(observed).conditions if c.type is kind)


def ready(observed: GroupObservation) -> tuple[str, ConditionReason, str]:
    found = condition(observed, ConditionType.EXECUTORS_READY)
    return found.status, found.reason, found.message


def test_no_executor_for_two_hours_and_records_overdue(running: GroupObservation) -> None:
    seen = with_workers(running, Workers(3, 0, 0), pods=ExecutorPods(3, NO_ROOM))

    message = f"0 of 3 executors run: {NO_ROOM.message}"
    assert ready(seen) == ("False", ConditionReason.UNSCHEDULABLE, message)
    for kind, status in ((ConditionType.READY, "False"), (ConditionType.STALLED, "True")):
        found = condition(seen, kind)
        assert (found.status, found.reason, found.message) == (
            status,
            ConditionReason.UNSCHEDULABLE,
            message,
        )
    assert (status_of(seen).phase, status_of(seen).reason) == (
        Phase.STALLED,
        ConditionReason.UNSCHEDULABLE,
    )


def test_some_executors_land_although_others_are_missing(running: GroupObservation) -> None:
    seen = with_workers(running, Workers(3, 1, 1), pods=ExecutorPods(3, NO_ROOM))

    assert ready(seen)[:2] == ("False", ConditionReason.UNSCHEDULABLE)
    assert condition(seen, ConditionType.READY).status == "True"
    assert condition(seen, ConditionType.STALLED).status == "False"


def test_without_overdue_records_no_executor_is_no_trouble_yet(running: GroupObservation) -> None:
    seen = with_workers(running, Workers(3, 0, 0), overdue=0.0)

    assert ready(seen)[0] == "False"
    assert condition(seen, ConditionType.READY).status == "True"


def test_executors_may_take_a_while_to_start(running: GroupObservation) -> None:
    none = with_workers(running, Workers(3, 0, 0), missing=None)
    one = with_workers(running, Workers(3, 1, 1), missing=STARTUP - timedelta(seconds=1))

    assert ready(none)[:2] == ("Unknown", ConditionReason.STARTING)
    assert ready(one)[0] == "True"
    assert condition(none, ConditionType.READY).status == "True"


def test_since_when_executors_are_missing_is_kept(running: GroupObservation) -> None:
    def since(observed: GroupObservation) -> object:
        executors = status_of(observed).executors
        return executors and executors.missing_since

    first = with_workers(running, Workers(3, 2, 2), missing=None)
    later = with_workers(running, Workers(3, 2, 2))
    silent = replace(later, now=later.now + timedelta(minutes=5))

    assert since(first) == first.now.replace(microsecond=0)
    hours_ago = (later.now - timedelta(hours=2)).replace(microsecond=0)
    assert (since(later), since(silent)) == (hours_ago, hours_ago)
    assert since(with_workers(running, Workers(3, 3, 3))) is None


def test_a_group_that_wants_no_executor_has_all_of_them(running: GroupObservation) -> None:
    assert ready(with_workers(running, Workers(0, 0, 0)))[0] == "True"


@pytest.mark.parametrize(
    ("problem", "pods", "reason", "message"),
    [
        (
            ExecutorProblem("PodRefused", "pods is forbidden: exceeded quota: small"),
            ExecutorPods(0),
            ConditionReason.POD_REFUSED,
            "1 of 3 executors run: pods is forbidden: exceeded quota: small",
        ),
        (
            ExecutorProblem("PodRefused", "pods is forbidden: exceeded quota: small"),
            ExecutorPods(3, NO_ROOM),
            ConditionReason.UNSCHEDULABLE,
            f"1 of 3 executors run: {NO_ROOM.message}",
        ),
        (
            ExecutorProblem("FromTheFuture", "new words"),
            None,
            ConditionReason.EXECUTORS_MISSING,
            "1 of 3 executors run: new words",
        ),
        (None, ExecutorPods(3), ConditionReason.EXECUTORS_MISSING, "1 of 3 executors run"),
        (
            None,
            ExecutorPods(1),
            ConditionReason.EXECUTORS_MISSING,
            "1 of 3 executors run, and Spark has not created the pods of all: " + LOG_SAYS_WHY,
        ),
    ],
)
def test_the_condition_says_why(
    running: GroupObservation,
    problem: ExecutorProblem | None,
    pods: ExecutorPods | None,
    reason: ConditionReason,
    message: str,
) -> None:
    seen = with_workers(running, Workers(3, 1, 1, problem), pods=pods)

    assert ready(seen) == ("False", reason, message)


def test_executors_that_keep_being_killed_are_seen_between_their_starts(
    running: GroupObservation,
) -> None:
    killed = ExecutorProblem("OutOfMemory", "an executor was killed at its memory limit")
    seen = with_workers(running, Workers(3, 3, 3, killed), missing=None)

    assert ready(seen) == ("False", ConditionReason.OUT_OF_MEMORY, killed.message)


def pod(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "exec"}, "status": status}


def waiting(reason: str) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": reason}}
    return pod(phase="Pending", containerStatuses=[{"name": "executor", "state": state}])


UNSCHEDULABLE = pod(
    phase="Pending",
    conditions=[
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}
    ],
)
RUNNING = pod(containerStatuses=[{"name": "executor", "state": {"running": {}}}])


def test_the_worst_pod_is_shown() -> None:
    pods = [RUNNING, UNSCHEDULABLE, waiting("ErrImagePull"), waiting("ContainerCreating")]

    assert executor_pods_of(pods) == ExecutorPods(
        4, PodFailure(ConditionReason.IMAGE_PULL, "ErrImagePull")
    )
    assert executor_pods_of([RUNNING, UNSCHEDULABLE]) == ExecutorPods(
        2, PodFailure(ConditionReason.UNSCHEDULABLE, "full")
    )
    assert executor_pods_of([RUNNING]) == ExecutorPods(1)


def test_pods_that_are_being_deleted_do_not_count() -> None:
    going = {**UNSCHEDULABLE, "metadata": {"name": "exec", "deletionTimestamp": "now"}}

    assert executor_pods_of([going, RUNNING]) == ExecutorPods(1)


def test_an_executor_killed_at_its_limit_is_named_as_one() -> None:
    state = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    killed = pod(containerStatuses=[{"name": "executor", "state": state}])

    assert executor_pods_of([killed]).failure == PodFailure(
        ConditionReason.OUT_OF_MEMORY, "the executor was killed at its memory limit"
    )
