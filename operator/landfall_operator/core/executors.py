"""Which executors of a group are missing, and why. Pure.

Spark creates the executors' pods, and the operator does not watch them: with a thousand groups they
would be most of what it holds. It looks at the pods of one group while some of them do not run.
Pods that do not exist, because they were refused or were killed and deleted, only Spark knows of:
the driver reports what Spark says (``landfall.api.contract.ExecutorProblem``).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from landfall.api.contract import ExecutorProblem, Workers
from landfall_operator.api.reasons import Reason
from landfall_operator.core.parsing import Json, pod_failure_of
from landfall_operator.core.snapshot import ExecutorPods, GroupObservation, PodFailure

STARTUP = timedelta(minutes=2)
"""How long an executor may take to start."""

_WORST_FIRST = (
    Reason.OUT_OF_MEMORY,
    Reason.IMAGE_PULL,
    Reason.CONFIG_ERROR,
    Reason.POD_REFUSED,
    Reason.UNSCHEDULABLE,
)
"""Reasons in the order in which one of them is shown; all others come later."""


def executor_pods_of(pods: Iterable[Json]) -> ExecutorPods:
    """What matters of the executors' pods."""
    alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    failures = [found for pod in alive if (found := pod_failure_of(pod, "executor"))]
    return ExecutorPods(len(alive), min(failures, key=_severity, default=None))


def _severity(failure: PodFailure) -> int:
    known = failure.reason in _WORST_FIRST
    return _WORST_FIRST.index(failure.reason) if known else len(_WORST_FIRST)


def missing_since(observed: GroupObservation, workers: Workers | None) -> datetime | None:
    """Since when fewer executors run than are wanted; None while all do.

    Without an answer of the driver, what was known before stays.
    """
    before = observed.status.executors.missing_since if observed.status.executors else None
    if workers is None:
        return before
    return (before or observed.now) if workers.registered < workers.wanted else None


def executor_failure(observed: GroupObservation, workers: Workers) -> PodFailure | None:
    """Why executors are missing, or keep being killed; None if that is not so, or may pass."""
    problem = _reported(workers.problem)
    if problem and problem.reason is Reason.OUT_OF_MEMORY:
        return problem
    since = missing_since(observed, workers)
    if since is None or observed.now - since < STARTUP:
        return None
    pods = observed.executor_pods
    found = (pods.failure if pods else None) or problem
    text = f"{workers.registered} of {workers.wanted} executors run"
    if found:
        return PodFailure(found.reason, f"{text}: {found.message}")
    if pods and pods.count < workers.wanted:
        text = f"{text}, and Spark has not created the pods of all: the driver's log says why"
    return PodFailure(Reason.EXECUTORS_MISSING, text)


def _reported(problem: ExecutorProblem | None) -> PodFailure | None:
    """The driver's problem; a newer driver may have words that this release does not know."""
    if problem is None:
        return None
    known = problem.reason in {reason.value for reason in _WORST_FIRST}
    reason = Reason(problem.reason) if known else Reason.EXECUTORS_MISSING
    return PodFailure(reason, problem.message)
