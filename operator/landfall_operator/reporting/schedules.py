"""Reports closed ranges and sleep in a group's status: runs, Events. Pure.

While the group sleeps, the last report of its driver still holds: a driver that waits for the next
range has read all that was due, has made it visible, and was denied nothing.
"""

from collections.abc import Iterator
from datetime import datetime

from landfall.api.contract import Status
from landfall.api.values import plural
from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import (
    Condition,
    GroupRunStatus,
    GroupScheduleStatus,
    GroupStatus,
    IdleStatus,
    RunResult,
    Stage,
)
from landfall_operator.api.status_values import ConditionStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.desired_state import DesiredState
from landfall_operator.core.schedules import ScheduleState
from landfall_operator.core.snapshot import GroupObservation

RUNS = 10
"""Runs that ``status.runs`` lists."""
SHOWN_TOPICS = 3
"""Topics that a message names."""
OF_A_DRIVER = frozenset(
    {
        ConditionType.READY,
        ConditionType.COMMITS_HEALTHY,
        ConditionType.WITHIN_LAG_TARGET,
        ConditionType.SOURCE_REACHABLE,
        ConditionType.STORE_SAFE,
        ConditionType.EXECUTORS_READY,
    }
)
"""Conditions that a driver reports, and that hold while it sleeps."""
_OF_NO_DRIVER = frozenset({ConditionReason.SPEC_INVALID, ConditionReason.ROLLED_BACK})
_STOPPED = frozenset({Stage.SUSPENDING, Stage.SUSPENDED, Stage.DELETING, Stage.DELETED})


def schedule_status(desired: DesiredState) -> GroupScheduleStatus | None:
    """Where the group is; None without a schedule."""
    state = desired.schedule
    if state is None:
        return None
    return GroupScheduleStatus(
        sleeping=state.sleeps,
        next=state.following.due if state.following else None,
        last=state.runs[0].until if state.runs else None,
        until=state.due.until if state.due else None,
        due_since=state.since,
    )


def run_statuses(
    observed: GroupObservation, desired: DesiredState
) -> tuple[GroupRunStatus, ...] | None:
    """The runs that ended last; a group that has no schedule any more keeps them."""
    state = desired.schedule
    return (state.runs[:RUNS] or None) if state else observed.status.runs


def idle_status(desired: DesiredState) -> IdleStatus | None:
    """Where the group is; None without ``spec.idle``."""
    state = desired.idle
    if state is None:
        return None
    return IdleStatus(sleeping=desired.rests, since=state.since, next_look=state.next_look)


def sleeping_text(desired: DesiredState, now: datetime) -> str:
    """Return what a sleeping group waits for, and what its last run landed."""
    if desired.schedule:
        return _waiting_text(desired.schedule, now)
    since = desired.idle.since if desired.idle else None
    return f"nothing has landed since {_time(since, now)}" if since else ""


def _waiting_text(state: ScheduleState, now: datetime) -> str:
    text = "waits for the next run"
    if state.following:
        text += f" at {_time(state.following.due, now)}"
    return f"{text}; the last one, {_landed_text(state.runs[0], now)}" if state.runs else text


def condition_of(
    observed: GroupObservation, desired: DesiredState, problem: str
) -> tuple[ConditionStatus, ConditionReason, str] | None:
    """Status, reason and message of the condition ``OnSchedule``; None without a schedule.

    Args:
        observed: the group.
        desired: where it should go.
        problem: what keeps its driver from landing, as far as that is known.
    """
    state = desired.schedule
    now = observed.now
    if state is None:
        return None
    if desired.rollout.stage in _STOPPED:
        return "Unknown", ConditionReason.UNKNOWN, "the group does not run"
    if state.late_by(now) and state.due and state.since:
        message = (
            f"the range until {_time(state.due.until, now)} has been due since "
            f"{_time(state.since, now)} and is not landed"
        )
        return "False", ConditionReason.RUN_LATE, f"{message}: {problem}" if problem else message
    last = state.runs[0] if state.runs else None
    if last and last.result is RunResult.LEFT:
        return "False", ConditionReason.RUN_INCOMPLETE, _left_text(observed, last)
    return "True", ConditionReason.AS_EXPECTED, ""


def stop_before(
    observed: GroupObservation, desired: DesiredState, status: Status | None
) -> Condition | None:
    """Return what a user must do by the last driver's report, until a driver reports more.

    Topic partitions that are blocked stay so while the group sleeps and while its driver starts.
    """
    runs = desired.schedule.runs if desired.schedule else ()
    if status is not None or not runs or runs[0].result is not RunResult.LEFT:
        return None
    known = {condition.type: condition for condition in observed.status.conditions}
    before = known.get(ConditionType.STALLED)
    said = before and before.status == "True" and before.reason not in _OF_NO_DRIVER
    return before if said else None


def run_events(before: GroupStatus, after: GroupStatus, now: datetime) -> Iterator[EmitEvent]:
    """The Events for runs that landed; a condition announces late and incomplete ones."""
    last = before.runs[0].ended if before.runs else None
    found = [run for run in after.runs or () if last is None or run.ended > last]
    # An operator that sees a group with runs for the first time announces only the last one.
    for run in reversed(found[:1] if last is None else found):
        if run.result is RunResult.LANDED:
            yield EmitEvent("Normal", "RunLanded", f"the run {_landed_text(run, now)}")


def _landed_text(run: GroupRunStatus, now: datetime) -> str:
    landed = f"{_counted(run.records, 'record')} in {_counted(run.objects, 'object')}"
    return f"until {_time(run.until, now)}, landed {landed}"


def _counted(count: int, noun: str) -> str:
    return plural(count, noun).replace(str(count), f"{count:,}", 1)


def _left_text(observed: GroupObservation, run: GroupRunStatus) -> str:
    more = run.left_topics - SHOWN_TOPICS
    names = ", ".join(run.left[:SHOWN_TOPICS]) + (f" and {more} more" if more > 0 else "")
    retry = f"kubectl -n {observed.namespace} landfall retry {observed.name}"
    return (
        f"the run until {_time(run.until, observed.now)} has left out records of {names}; the next "
        f"run tries them again, and so does a driver that is started now: {retry}"
    )


def _time(time: datetime, now: datetime) -> str:
    """A time of today without its date."""
    if time.date() == now.date():
        return f"{time:%H:%M} UTC"
    return f"{time:%Y-%m-%d %H:%M} UTC"
