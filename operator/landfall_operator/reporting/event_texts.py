"""The Kubernetes Events of a group, worded for the users who read them. Pure.

There is one Event per transition of the rollout, and one per change of a condition that deserves
attention.
"""

from collections.abc import Iterator, Mapping

from landfall_operator.api.reasons import GOOD_NEWS, ConditionReason, ConditionType
from landfall_operator.api.status import Condition, GroupStatus, RolloutStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.rollout import RolloutEvent
from landfall_operator.core.snapshot import GroupObservation


def rollout_event(observed: GroupObservation, desired: DesiredState) -> EmitEvent | None:
    """The Event for the rollout's transition; None when the rollout stays in its stage."""
    if desired.event is None:
        return None
    before = observed.status.rollout
    after = desired.rollout
    failed = after.retry if desired.event is RolloutEvent.TARGET_BROKEN else None
    rejected = (failed and failed.message) or (after.rejected.message if after.rejected else "")
    is_first = desired.event is RolloutEvent.PROVEN and before.previous is None
    message = (_FIRST_PROVEN if is_first else _MESSAGES[desired.event]).format(
        active=before.active or "no revision",
        target=before.target or "no revision",
        next=after.target or after.active or "no revision",
        why=rejected or "it does not work",
        trial=after.trial.revision if after.trial else "no revision",
        terms=after.trial.terms if after.trial else "",
    ) + _of_trial(desired.event, after)
    # A driver that exceeds its time is fenced only if another one follows.
    timed_out = desired.event is RolloutEvent.TIMED_OUT and before.target is not None
    is_warning = desired.event in _WARNINGS or timed_out
    return EmitEvent("Warning" if is_warning else "Normal", str(after.stage), message)


def _of_trial(event: RolloutEvent, after: RolloutStatus) -> str:
    """Return the trial's part of a transition's message, as its end."""
    trial = after.trial
    if trial is None:
        return ""
    if event is RolloutEvent.TRIAL_FAILED and trial.comparison:
        return "".join(f"\n{line}" for line in trial.comparison.sample)
    changes = event in {RolloutEvent.CHANGE_WARM, RolloutEvent.CHANGE_DRAIN}
    return f"; {trial.message}" if changes and trial.revision == after.target else ""


def condition_events(before: GroupStatus, after: GroupStatus) -> Iterator[EmitEvent]:
    """The Events for conditions that became bad, changed their reason while bad, or recovered.

    Conditions that merely follow the rollout are left out: ``rollout_event`` announces its steps.
    So is the one about publishers; each has Events of its own (``publisher_events``).
    """
    known = {condition.type: condition for condition in before.conditions}
    for condition in after.conditions:
        old = known.get(condition.type)
        if condition.type in _NOT_ANNOUNCED or (old and _state(old) == _state(condition)):
            continue
        if _is_bad(condition):
            yield EmitEvent(
                "Warning",
                str(condition.reason),
                condition.message or f"condition {condition.type} is {condition.status}",
            )
        elif (
            condition.status == _GOOD[condition.type]
            and old
            and (_is_bad(old) or _becomes_ready(old, condition))
        ):
            message = f"condition {condition.type} is now {condition.status}"
            yield EmitEvent("Normal", f"{condition.type}", message)


_GOOD = {kind: "False" if kind is ConditionType.STALLED else "True" for kind in ConditionType}
"""The status of each condition while nothing is wrong."""
_NOT_ANNOUNCED = frozenset(
    {
        ConditionType.DEPLOYED,
        ConditionType.UPGRADING,
        ConditionType.RECONCILING,
        ConditionType.PUBLISHED,
    }
)


def _state(condition: Condition) -> tuple[str, ConditionReason]:
    return condition.status, condition.reason


def _becomes_ready(old: Condition, condition: Condition) -> bool:
    """Return whether the group lands again; one that falls asleep was ready before.

    One that is suspended is ready and does not land.
    """
    is_ready = condition.type is ConditionType.READY and old.status != condition.status
    return is_ready and condition.reason is not ConditionReason.SUSPENDED


def _is_bad(condition: Condition) -> bool:
    """Return whether the condition reports a problem, and not just an operation that takes time."""
    wrong = condition.status not in {_GOOD[condition.type], "Unknown"}
    return wrong and condition.reason not in GOOD_NEWS


_WARNINGS = frozenset(
    {
        RolloutEvent.TRIAL_FAILED,
        RolloutEvent.TARGET_BROKEN,
        RolloutEvent.REVERT_WARM,
        RolloutEvent.REVERT_DRAIN,
    }
)

_MESSAGES: Mapping[RolloutEvent, str] = {
    RolloutEvent.DELETE: (
        "draining {active} before the group is deleted; landed objects stay in the store"
    ),
    RolloutEvent.SUSPEND: "suspending the group: {active} drains and hands its lane over",
    RolloutEvent.RESUME: "resuming the group with {next}",
    RolloutEvent.FIRST: "starting {next}",
    RolloutEvent.CHANGE_WARM: "warming up {next} while {active} continues to land",
    RolloutEvent.CHANGE_DRAIN: "stopping {active} before {next} starts",
    RolloutEvent.CHANGE_TRY: "trying {trial} while {active} continues to land: {terms}",
    RolloutEvent.TRIAL_FAILED: "giving up {trial}, which landed nothing; {active} continues: {why}",
    RolloutEvent.WITHDRAWN: "the change was withdrawn; {active} continues",
    RolloutEvent.TARGET_WARM: "{target} is ready; asking {active} to hand over",
    RolloutEvent.TARGET_BROKEN: "giving up {target}; {active} continues: {why}",
    RolloutEvent.NO_ROOM: "stopping {active} to make room for {target}, which comes back",
    RolloutEvent.YIELDED: "{active} has handed over to {target}",
    RolloutEvent.DRAINED: "{active} has stopped",
    RolloutEvent.TIMED_OUT: (
        "{active} did not stop in time; the next driver that takes the lane fences it"
    ),
    RolloutEvent.LANDING: "{active} holds the lane and lands records",
    RolloutEvent.REVERT_WARM: "rolling back {active}; {next} warms up: {why}",
    RolloutEvent.REVERT_DRAIN: "rolling back {active}; {next} starts when it has stopped: {why}",
    RolloutEvent.PROVEN: "{active} is settled; it can no longer be rolled back automatically",
}
"""``active`` and ``target`` are the roles before the transition, ``next`` the revision after it."""
_FIRST_PROVEN = "{active} is settled"
"""Of a revision that followed no other one: there is nothing to roll back to."""
