"""What is said about a step of a group, as a Kubernetes Event: one per step, in the words of who looks on. Pure."""

from typing import Literal

from landfall_operator.course import Course
from landfall_operator.observe import Observed
from landfall_operator.rollout import Event

Announcement = tuple[Literal["Normal", "Warning"], str, str]


def announcement(observed: Observed, chosen: Course) -> Announcement:
    """Kind, reason and message for the step that the course takes."""
    before, after = observed.status.rollout, chosen.rollout
    said = _REPORTS[chosen.event] if chosen.event else ""
    rejected = after.rejected.message if after.rejected else ""
    message = said.format(
        active=before.active or "nothing",
        target=before.target or "nothing",
        next=after.target or after.active or "nothing",
        why=rejected or "it does not work",
    )
    bad = chosen.event in _BAD or (chosen.event is Event.TIMED_OUT and before.target is not None)
    return ("Warning" if bad else "Normal", str(after.stage), message)


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
