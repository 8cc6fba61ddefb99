"""Decides when a driver with ``spec.idle`` sleeps, because its topics are quiet. Pure.

A driver that has landed all there is, and nothing for ``scaleToZero``, is stopped: its Deployment
has no replicas. After ``lookEvery`` it is started to look. One that finds nothing is stopped as
soon as it has reported so, since the ledger still records when something landed last; one that
finds records stays. A driver that looks and has not answered yet counts as asleep to users, for a
while: otherwise each look would announce that the group starts, and that it is ready.

When the next look is due is in the resource's status. If that is lost, the driver is started.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from landfall.api.contract import DriverPhase, Status
from landfall.api.spec import ConsumerGroup, Idle
from landfall.api.status_summary import totals_of
from landfall_operator.api.status import RolloutStatus, Stage
from landfall_operator.core.schedules import has_more_to_do, is_needed
from landfall_operator.core.snapshot import GroupObservation, RevisionDriver

LOOK_PATIENCE = timedelta(minutes=3)
"""How long a driver that was started to look may take until it is one that does not start."""
_ENDING = frozenset({Stage.SUSPENDING, Stage.SUSPENDED, Stage.DELETING, Stage.DELETED})


@dataclass(frozen=True, slots=True)
class IdleState:
    """Where a group with ``spec.idle`` is.

    Attributes:
        sleeps: whether the group needs no driver now.
        looks: whether a driver was started to look, and has not answered yet.
        since: since when a group that sleeps or looks has landed nothing.
        next_look: when a driver is to look, or was to.
    """

    sleeps: bool = False
    looks: bool = False
    since: datetime | None = None
    next_look: datetime | None = None


AWAKE = IdleState()
"""There is a driver, and it stays."""


def idle_state(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup | None
) -> IdleState | None:
    """The idle state of a group, by rollout and spec in force; None without ``spec.idle``."""
    idle = group.spec.idle if group else None
    if idle is None:
        return None
    driver = observed.driver(rollout.active)
    if (
        driver is None
        or driver.terminating
        or rollout.stage in _ENDING
        or is_needed(observed, rollout)
    ):
        return AWAKE
    status = driver.fresh_status(observed.now) if driver.replicas else None
    if status is not None and status.phase is DriverPhase.RUNNING and status.lag_known:
        return _after_look(observed, rollout, idle, status)
    return _remembered(observed, idle, driver)


def _after_look(
    observed: GroupObservation, rollout: RolloutStatus, idle: Idle, status: Status
) -> IdleState:
    """Return the state that follows from a driver's report."""
    since = _quiet_since(rollout, status)
    if observed.paused or since is None or observed.now - since < idle.scale_to_zero:
        return AWAKE
    return IdleState(sleeps=True, since=since, next_look=observed.now + idle.look_every)


def _remembered(observed: GroupObservation, idle: Idle, driver: RevisionDriver) -> IdleState:
    """Return the state that follows from the status, while no driver reports more."""
    saved = observed.status.idle
    if saved is None or saved.next_look is None:
        return AWAKE
    # The user may have asked for looks more often meanwhile.
    next_look = min(saved.next_look, observed.now + idle.look_every)
    sleeps = driver.replicas == 0 and (observed.paused or observed.now < next_look)
    looks = not sleeps and observed.now - next_look < LOOK_PATIENCE
    return IdleState(sleeps, looks, saved.since, next_look) if sleeps or looks else AWAKE


def _quiet_since(rollout: RolloutStatus, status: Status) -> datetime | None:
    """Return since when nothing has landed; None if something is left to do.

    The ledger records when something landed last, by any driver. A group that has never landed
    anything is quiet since it was settled.
    """
    totals = totals_of(status)
    commits = status.commits
    is_busy = (
        totals.lag_records
        or totals.blocked
        or status.rounds
        or status.repairing
        or commits.unapplied
        or commits.consecutive_failures
        or (status.compaction and status.compaction.awaited_topics)
        or has_more_to_do(status)
    )
    if is_busy or rollout.since is None:
        return None
    landed = datetime.fromisoformat(commits.last_time) if commits.last_time else rollout.since
    return max(landed, rollout.since)
