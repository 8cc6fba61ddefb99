"""The conditions of a group: each a function of what is seen and where it goes. Pure.

``Ready`` is not the sum of the others: it says that the active generation lands, as far as is known
now, and stays True while the next one warms up. What a person has to do something about is in
``Stalled``, with the reason to look up.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Literal, NamedTuple

from landfall import errors
from landfall.api.contract import Phase as DriverPhase
from landfall.api.contract import Status
from landfall_operator.api.reasons import ConditionType, Reason
from landfall_operator.api.status import Condition, Stage
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.snapshot import Driver, Observed, PodFailure

FLAPS = 2
"""Failures in a row that are more than a hiccup."""
TARGET = timedelta(minutes=2)
"""How long records may be overdue where no autoscaling says so."""
NEEDS_A_PERSON = frozenset(Reason(reason.value) for reason in errors.Reason)
_OF_THE_STORE = frozenset({Reason.STORE_UNSAFE, Reason.STORE_DENIED})
_OF_THE_SOURCE = frozenset({Reason.SOURCE_DENIED, Reason.TOPIC_MISSING})

_STAGES: Mapping[Stage, Reason] = {
    Stage.WARMING: Reason.WARMING,
    Stage.YIELDING: Reason.HANDING_OVER,
    Stage.DRAINING: Reason.DRAINING,
    Stage.OPENING: Reason.HANDING_OVER,
    Stage.WATCHING: Reason.WATCHING,
    Stage.SUSPENDING: Reason.DRAINING,
    Stage.SUSPENDED: Reason.SUSPENDED,
    Stage.DELETING: Reason.DELETING,
    Stage.DELETED: Reason.DELETING,
}


class View(NamedTuple):
    """What conditions are judged by."""

    observed: Observed
    course: DesiredState
    driver: Driver | None
    status: Status | None


class Judgement(NamedTuple):
    """A condition without its times."""

    status: Literal["True", "False", "Unknown"]
    reason: Reason
    message: str = ""


def conditions(observed: Observed, desired: DesiredState) -> tuple[Condition, ...]:
    """All of them; one whose status is as it was keeps the time it has been so."""
    driver = observed.driver(desired.rollout.active)
    view = View(observed, desired, driver, driver.fresh(observed.now) if driver else None)
    before = {condition.type: condition for condition in observed.status.conditions}
    return tuple(
        _timed(view, before.get(kind), kind, judge(view)) for kind, judge in _JUDGES.items()
    )


def _timed(
    view: View, before: Condition | None, kind: ConditionType, judged: Judgement
) -> Condition:
    same = before is not None and before.status == judged.status
    return Condition(
        type=kind,
        status=judged.status,
        reason=judged.reason,
        message=judged.message,
        observed_generation=view.observed.generation,
        last_transition_time=before.last_transition_time if same and before else view.observed.now,
    )


def _ready(view: View) -> Judgement:
    stage = view.course.rollout.stage
    if stage in {Stage.SUSPENDING, Stage.SUSPENDED, Stage.DELETING, Stage.DELETED, Stage.DRAINING}:
        return Judgement("False", _STAGES[stage])
    if view.status is None:
        return _absent(view)
    if not view.driver or not view.driver.lands(view.observed.now):
        return Judgement("False", Reason.STARTING, f"the driver is {view.status.phase}")
    for judge in (_commits_healthy, _source_reachable):
        if (judged := judge(view)).status == "False":
            return judged
    return Judgement("True", Reason.AS_EXPECTED)


def _absent(view: View) -> Judgement:
    """Why there are no numbers."""
    if view.driver is None:
        return Judgement(
            "False",
            Reason.SPEC_INVALID if view.observed.fault else Reason.STARTING,
            view.observed.fault,
        )
    if view.driver.trouble:
        return Judgement("False", *_told(view.driver.trouble))
    if view.driver.report is None or view.driver.gone:
        return Judgement("False", Reason.STARTING, "waiting for the driver")
    since = view.driver.report.received.isoformat(timespec="seconds")
    return Judgement("False", Reason.UNREACHABLE, f"the driver has not answered since {since}")


def _told(trouble: PodFailure) -> tuple[Reason, str]:
    return trouble.reason, trouble.message


def _commits_healthy(view: View) -> Judgement:
    if view.status is None:
        return Judgement("Unknown", Reason.UNKNOWN)
    commits = view.status.commits
    if commits.consecutive_failures < FLAPS:
        return Judgement("True", Reason.AS_EXPECTED)
    last = commits.last_failure
    store = last is not None and last.reason.startswith("Store")
    told = f"{commits.consecutive_failures} failures in a row; last: {last.message if last else 'unknown'}"
    return Judgement("False", Reason.STORE_UNAVAILABLE if store else Reason.COMMITS_FAILING, told)


def _within_lag_target(view: View) -> Judgement:
    if view.status is None or not view.status.lag_known or view.course.group is None:
        return Judgement("Unknown", Reason.UNKNOWN)
    policy = view.course.group.spec.autoscaling
    target = policy.target_lag if policy else TARGET
    overdue = timedelta(seconds=round(view.status.overdue_seconds))
    if overdue <= target:
        return Judgement("True", Reason.AS_EXPECTED)
    return Judgement("False", Reason.LAG_ABOVE_TARGET, f"records are overdue by more than {target}")


def _source_reachable(view: View) -> Judgement:
    trouble = view.driver.trouble if view.driver else None
    if trouble and trouble.reason in _OF_THE_SOURCE:
        return Judgement("False", *_told(trouble))
    if view.status is None:
        return Judgement("Unknown", Reason.UNKNOWN)
    last = view.status.commits.last_failure
    if (
        last
        and view.status.commits.consecutive_failures >= FLAPS
        and last.reason.startswith("Source")
    ):
        return Judgement("False", Reason.SOURCE_UNAVAILABLE, last.message)
    return Judgement("True", Reason.AS_EXPECTED)


def _store_safe(view: View) -> Judgement:
    trouble = view.driver.trouble if view.driver else None
    if trouble and trouble.reason in _OF_THE_STORE:
        return Judgement("False", *_told(trouble))
    if view.driver and view.driver.lands(view.observed.now):
        return Judgement("True", Reason.AS_EXPECTED)
    return Judgement("Unknown", Reason.UNKNOWN)


def _spec_valid(view: View) -> Judgement:
    if view.observed.fault:
        return Judgement("False", Reason.SPEC_INVALID, view.observed.fault)
    return Judgement("True", Reason.AS_EXPECTED)


def _upgrading(view: View) -> Judgement:
    rollout = view.course.rollout
    between = rollout.target or rollout.previous
    if not between or rollout.stage in {Stage.SETTLED, Stage.SUSPENDING, Stage.SUSPENDED}:
        return Judgement("False", Reason.AS_EXPECTED)
    back = rollout.rejected is not None
    roles = (
        f"from {rollout.active} to {rollout.target}"
        if rollout.target
        else f"{rollout.active} is being watched"
    )
    return Judgement("True", Reason.ROLLING_BACK if back else _STAGES[rollout.stage], roles)


def _stalled(view: View) -> Judgement:
    rejected = view.course.rollout.rejected
    trouble = view.driver.trouble if view.driver else None
    blocked = [p for p in view.status.partitions if p.blocked] if view.status else []
    if view.observed.fault:
        return Judgement("True", Reason.SPEC_INVALID, view.observed.fault)
    if trouble and trouble.reason in NEEDS_A_PERSON:
        return Judgement("True", *_told(trouble))
    if view.status and view.status.phase is DriverPhase.STALLED:
        return Judgement("True", Reason.DRIVER_STALLED, view.status.message)
    if rejected:
        told = f"generation {rejected.generation} was taken back ({rejected.reason}): {rejected.message}"
        return Judgement("True", Reason.ROLLED_BACK, told)
    if blocked:
        first = blocked[0]
        told = f"{len(blocked)} topic partitions wait for a person; {first.topic}/{first.partition}: {first.message}"
        return Judgement("True", _blocked_reason(first.blocked), told)
    return Judgement("False", Reason.AS_EXPECTED)


def _blocked_reason(name: str | None) -> Reason:
    return (
        Reason(name) if name in {reason.value for reason in Reason} else Reason.PARTITIONS_BLOCKED
    )


def _reconciling(view: View) -> Judgement:
    stage = view.course.rollout.stage
    if stage in {Stage.SETTLED, Stage.WATCHING, Stage.SUSPENDED, Stage.DELETED}:
        lands = view.driver is not None and view.driver.lands(view.observed.now)
        starting = (
            stage in {Stage.SETTLED, Stage.WATCHING} and view.driver is not None and not lands
        )
        return (
            Judgement("True", Reason.STARTING)
            if starting
            else Judgement("False", Reason.AS_EXPECTED)
        )
    return Judgement("True", _STAGES[stage])


_JUDGES: Mapping[ConditionType, Callable[[View], Judgement]] = {
    ConditionType.READY: _ready,
    ConditionType.COMMITS_HEALTHY: _commits_healthy,
    ConditionType.WITHIN_LAG_TARGET: _within_lag_target,
    ConditionType.SOURCE_REACHABLE: _source_reachable,
    ConditionType.STORE_SAFE: _store_safe,
    ConditionType.SPEC_VALID: _spec_valid,
    ConditionType.UPGRADING: _upgrading,
    ConditionType.STALLED: _stalled,
    ConditionType.RECONCILING: _reconciling,
}
