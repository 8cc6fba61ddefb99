"""What is said about a group as Kubernetes Events, in the words of who looks on.

There is one per step of its rollout, and one per change of a condition that is worth a person's
attention. Pure.
"""

from collections.abc import Iterator
from typing import Literal

from landfall_operator.api.reasons import GOOD_NEWS, ConditionType, Reason
from landfall_operator.api.status import Condition, GroupStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.rollout import Event
from landfall_operator.core.snapshot import Observed

Announcement = tuple[Literal["Normal", "Warning"], str, str]


def announcement(observed: Observed, desired: DesiredState) -> Announcement:
    """Kind, reason and message for the step that the course takes."""
    before, after = observed.status.rollout, desired.rollout
    said = _REPORTS[desired.event] if desired.event else ""
    rejected = after.rejected.message if after.rejected else ""
    message = said.format(
        active=before.active or "nothing",
        target=before.target or "nothing",
        next=after.target or after.active or "nothing",
        why=rejected or "it does not work",
    )
    bad = desired.event in _BAD or (desired.event is Event.TIMED_OUT and before.target is not None)
    return ("Warning" if bad else "Normal", str(after.stage), message)


def changes(before: GroupStatus, after: GroupStatus) -> Iterator[EmitEvent]:
    """What became bad, or bad in another way, and what became good again; steps of a rollout are told by themselves."""
    known = {condition.type: condition for condition in before.conditions}
    for condition in after.conditions:
        old = known.get(condition.type)
        if condition.type in _QUIET or (old and _gist(old) == _gist(condition)):
            continue
        if _is_bad(condition):
            yield EmitEvent(
                "Warning",
                str(condition.reason),
                condition.message or f"{condition.type} is {condition.status}",
            )
        elif (
            condition.status == _GOOD[condition.type]
            and old
            and (_is_bad(old) or condition.type is ConditionType.READY)
        ):
            yield EmitEvent(
                "Normal", f"{condition.type}", f"{condition.type} is {condition.status} now"
            )


_GOOD = {kind: "False" if kind is ConditionType.STALLED else "True" for kind in ConditionType}
_QUIET = frozenset({ConditionType.UPGRADING, ConditionType.RECONCILING})


def _gist(condition: Condition) -> tuple[str, Reason]:
    return condition.status, condition.reason


def _is_bad(condition: Condition) -> bool:
    """Whether it is as it should not be, and not just because something takes its time."""
    wrong = condition.status not in {_GOOD[condition.type], "Unknown"}
    return wrong and condition.reason not in GOOD_NEWS


_BAD = frozenset({Event.TARGET_BROKEN, Event.REVERT_WARM, Event.REVERT_DRAIN})

_REPORTS: dict[Event, str] = {
    Event.DELETE: "draining {active} before the group is deleted; what is landed stays",
    Event.SUSPEND: "suspending: {active} drains and hands over",
    Event.RESUME: "resuming with {next}",
    Event.FIRST: "starting {next}",
    Event.CHANGE_WARM: "warming {next} up while {active} goes on landing",
    Event.CHANGE_DRAIN: "stopping {active} before {next} starts",
    Event.WITHDRAWN: "going on with {active}",
    Event.TARGET_WARM: "{target} stands by; asking {active} to hand over",
    Event.TARGET_BROKEN: "giving {target} up, {active} goes on: {why}",
    Event.YIELDED: "{active} has handed over to {target}",
    Event.DRAINED: "{active} has stopped",
    Event.TIMED_OUT: "{active} did not stop in time; whoever is next fences it",
    Event.LANDING: "{active} lands",
    Event.REVERT_WARM: "taking {active} back, {next} warms up: {why}",
    Event.REVERT_DRAIN: "taking {active} back, {next} is next: {why}",
    Event.PROVEN: "{active} has proven itself",
}
