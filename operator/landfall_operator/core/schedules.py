"""Decides when a driver with ``spec.schedule`` sleeps, and which range is due. Pure.

Between two runs a settled group needs no driver: its Deployment has no replicas. It is scaled down
only once the driver reports that it waits for the next range, its publishers have nothing left, and
the resource's status has the last run. What is due follows from that run and the clock alone, so an
operator that was away catches up, and one that restarts continues. If the status is lost, a range
seems to be due: the driver starts, reports the runs of its ledger, and sleeps again.

A Deployment without replicas itself records that the driver has reported this; one with a replica
stays until its driver does. A request of a user keeps the driver awake for ``AWAKE``, since most
commands run in its pod.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from landfall.api.contract import DriverPhase, Status
from landfall.api.run_status import RunStatus as ReportedRun
from landfall.api.spec import ConsumerGroup, ScheduledRange
from landfall_operator.api.status import GroupRunStatus, RolloutStatus, RunResult, Stage
from landfall_operator.core.snapshot import GroupObservation

AWAKE = timedelta(minutes=5)
"""How long the driver runs at least after a request."""
MAX_LEFT = 20
"""Topics that a run in the status names."""
_ENDING = frozenset({Stage.SUSPENDING, Stage.SUSPENDED, Stage.DELETING, Stage.DELETED})


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """Where a group with ``spec.schedule`` is.

    Attributes:
        runs: the runs that ended last, newest first.
        due: the oldest range that is due; None while none is.
        since: since when it has been due.
        late_from: when it is late.
        following: the first range that is not due yet; None while the group is suspended.
        sleeps: whether the group needs no driver now.
    """

    runs: tuple[GroupRunStatus, ...]
    due: ScheduledRange | None = None
    since: datetime | None = None
    late_from: datetime | None = None
    following: ScheduledRange | None = None
    sleeps: bool = False

    def late_by(self, now: datetime) -> timedelta:
        """For how long the oldest range that is due has been late; zero if it is not."""
        return max(timedelta(0), now - self.late_from) if self.late_from else timedelta(0)


def schedule_state(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup | None
) -> ScheduleState | None:
    """The schedule's state, by the rollout and the spec in force; None without a schedule."""
    schedule = group.spec.schedule if group else None
    if schedule is None:
        return None
    reported = _reported(observed, rollout)
    saved = observed.status.runs or ()
    runs = saved if reported is None else reported
    if rollout.stage in _ENDING:
        return ScheduleState(runs)
    after = max((run.until for run in (*runs[:1], *saved[:1])), default=None)
    first = next(schedule.ranges(after, observed.now))
    if first.due > observed.now:
        sleeps = _sleeps(observed, rollout, runs)
        return ScheduleState(runs, following=first, sleeps=sleeps)
    # From the last one that is due on, for there may be thousands.
    latest = schedule.ranges(None, observed.now)
    upcoming = next(run for run in latest if run.due > observed.now)
    since = first.due if after else _made(observed, rollout) or first.due
    return ScheduleState(
        runs=runs, due=first, since=since, late_from=since + schedule.deadline, following=upcoming
    )


def run_status(run: ReportedRun) -> GroupRunStatus:
    """A run as the status has it."""
    began = datetime.fromisoformat(run.began)
    ended = datetime.fromisoformat(run.ended)
    share = run.bad_records / max(1, run.records + run.bad_records)
    return GroupRunStatus(
        until=datetime.fromisoformat(run.until),
        began=began,
        ended=ended,
        seconds=max(0, round((ended - began).total_seconds())),
        records=run.records,
        bad_records=run.bad_records,
        bad_ratio=f"{share:.2g}" if share >= 0.0001 else f"{share:.6f}".rstrip("0").rstrip("."),
        objects=run.objects,
        bytes=run.bytes,
        batches=run.batches,
        slices=run.slices or None,
        task_seconds=round(run.task_seconds) if run.slices else None,
        longest_slice=round(run.longest_seconds) if run.slices else None,
        result=RunResult.LEFT if run.left else RunResult.LANDED,
        left=run.left[:MAX_LEFT],
        left_topics=run.left_topics or len(run.left),
    )


def _reported(
    observed: GroupObservation, rollout: RolloutStatus
) -> tuple[GroupRunStatus, ...] | None:
    """The runs that the active driver reports; None if it does not know the ledger's."""
    driver = observed.driver(rollout.active)
    status = driver.fresh_status(observed.now) if driver else None
    if status is None or status.schedule is None:
        return None
    return tuple(map(run_status, status.schedule.runs))


def _made(observed: GroupObservation, rollout: RolloutStatus) -> datetime | None:
    """Since when a group without runs has had its active revision: something is due from then on.

    The stage began later than that if the status was lost, and with it what the runs were.
    """
    record = observed.record(rollout.active)
    times = (record.created if record else None, rollout.since)
    return max((time for time in times if time), default=None)


def _sleeps(
    observed: GroupObservation, rollout: RolloutStatus, runs: tuple[GroupRunStatus, ...]
) -> bool:
    """Return whether the group needs no driver, given that no range is due."""
    driver = observed.driver(rollout.active)
    if driver is None or driver.terminating or is_needed(observed, rollout):
        return False
    if driver.replicas == 0:
        return True
    # A paused group stays as it is, so it only sleeps if it did before.
    status = None if observed.paused else driver.fresh_status(observed.now)
    # What is not saved would seem to be due once the driver is gone.
    is_saved = (observed.status.runs or ())[:1] == runs[:1]
    return status is not None and is_saved and _has_nothing_left(status)


def is_needed(observed: GroupObservation, rollout: RolloutStatus) -> bool:
    """Return whether something other than records needs the driver.

    That is a rollout, a request, or a Backfill that it is to promote.
    """
    request = observed.status.last_request
    is_asked = request is not None and request.accepted and observed.now - request.time < AWAKE
    return (
        rollout.stage is not Stage.SETTLED
        or rollout.target is not None
        or observed.request is not None
        or is_asked
        or (observed.promotes and not observed.paused)
        or observed.deleting
    )


def _has_nothing_left(status: Status) -> bool:
    """Return whether a driver waits for the next range, with nothing else to do."""
    return (
        status.phase is DriverPhase.RUNNING
        and status.schedule is not None
        and status.schedule.waits
        and not has_more_to_do(status)
    )


def has_more_to_do(status: Status) -> bool:
    """Return whether a driver that has landed what is due publishes, replaces, or has a request.

    What the store refuses is tried again by the next driver.
    """
    is_replacing = status.replacing.waiting > status.replacing.refused
    is_publishing = any(publisher.lag_slots for publisher in status.publishers)
    return is_replacing or is_publishing or status.requests > 0
