"""The rollout state machine as one table: the next stage, by stage and event. Pure.

A stage defines which drivers should exist and which commands they get
(``landfall_operator.core.decide``). An event is a fact about the observed state
(``landfall_operator.core.desired_state`` derives them). Within a row, the order is the priority:
deletion comes before suspension, and both come before everything else. An event that a row does not
name has no effect in that stage.

The operator writes a stage into the status before it acts on it, so an operator that restarts at
any point continues from the stage that it reads and from what it observes.

    HandOver    Settled → Warming → Yielding → Opening → Watching → Settled
    Shadow      Settled → Trying → Warming → … as HandOver; Canary, too
    Recreate    Settled → Draining → Opening → Watching → Settled
    rollback    Opening or Watching → Warming or Draining, with the previous revision as the target
    given up    Trying, Warming or Yielding → Watching, with the same active revision as before
    suspend     any → Suspending → Suspended → Opening
    delete      any → Deleting → Deleted

The outgoing driver need not be healthy for the next one to start: a driver that does not land is
stopped instead of being asked to hand over. Two drivers that run at the same time do no harm,
because the ledger accepts commits only from the driver that opened it last.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from landfall_operator.api.reasons import is_environment
from landfall_operator.api.status import Rejected, RetryStatus, RolloutStatus, Stage
from landfall_operator.api.status_values import whole_seconds

FIRST_PAUSE = timedelta(minutes=10)
"""The pause after the first failed attempt of what is tried again; each further one is doubled."""
LONGEST_PAUSE = timedelta(hours=1)


class RolloutEvent(StrEnum):
    """A fact about the observed state that may move a rollout to its next stage."""

    DELETE = "Delete"
    """The resource is being deleted."""
    SUSPEND = "Suspend"
    """The spec asks for state Suspended."""
    RESUME = "Resume"
    """The spec asks for state Running."""
    FIRST = "First"
    """No revision has run yet."""
    CHANGE_WARM = "ChangeWarm"
    """The spec asks for another revision, which can warm up while the active one lands."""
    CHANGE_DRAIN = "ChangeDrain"
    """The spec asks for another revision, and the active one must stop first: it does not land, or
    the upgrade strategy is Recreate.
    """
    CHANGE_TRY = "ChangeTry"
    """The spec asks for another revision, which is tried before it takes over: the upgrade strategy
    is Shadow or Canary.
    """
    TRIAL_FAILED = "TrialFailed"
    """The comparison speaks against the revision that is tried, or its trial did not end in time.
    """
    WITHDRAWN = "Withdrawn"
    """The spec asks for the active revision again."""
    TARGET_WARM = "TargetWarm"
    """The target's driver is ready to take over."""
    TARGET_BROKEN = "TargetBroken"
    """The target's driver crashes, is stalled, or did not become ready in time."""
    NO_ROOM = "NoRoom"
    """The cluster has had no room for ``readyIn`` for the revision that is rolled back to: the
    failed one must stop first.
    """
    YIELDED = "Yielded"
    """The active driver has handed the lane over, or does not hold it."""
    DRAINED = "Drained"
    """No pod of the drivers that should stop is left."""
    TIMED_OUT = "TimedOut"
    """The stage has lasted longer than ``drainTimeout``."""
    LANDING = "Landing"
    """The active driver holds the lane and lands records."""
    REVERT_WARM = "RevertWarm"
    """The active revision fails but still lands, and the previous one can warm up meanwhile."""
    REVERT_DRAIN = "RevertDrain"
    """The active revision fails and must stop before the previous one starts."""
    PROVEN = "Proven"
    """The active revision has committed and the rollback window is over, or there is no previous
    revision.
    """


_ALWAYS = {RolloutEvent.DELETE: Stage.DELETING, RolloutEvent.SUSPEND: Stage.SUSPENDING}
_CHANGED = {RolloutEvent.CHANGE_WARM: Stage.WARMING, RolloutEvent.CHANGE_DRAIN: Stage.DRAINING}
_TRIED = {**_CHANGED, RolloutEvent.CHANGE_TRY: Stage.TRYING}
_REVERTED = {RolloutEvent.REVERT_WARM: Stage.WARMING, RolloutEvent.REVERT_DRAIN: Stage.DRAINING}

TABLE: Mapping[Stage, Mapping[RolloutEvent, Stage]] = {
    Stage.SETTLED: {**_ALWAYS, RolloutEvent.FIRST: Stage.OPENING, **_TRIED},
    Stage.TRYING: {
        **_ALWAYS,
        **_TRIED,
        RolloutEvent.WITHDRAWN: Stage.WATCHING,
        RolloutEvent.TRIAL_FAILED: Stage.WATCHING,
        **_REVERTED,
    },
    Stage.WARMING: {
        **_ALWAYS,
        **_TRIED,
        RolloutEvent.WITHDRAWN: Stage.WATCHING,
        RolloutEvent.TARGET_BROKEN: Stage.WATCHING,
        RolloutEvent.TARGET_WARM: Stage.YIELDING,
        RolloutEvent.NO_ROOM: Stage.DRAINING,
    },
    Stage.YIELDING: {
        **_ALWAYS,
        RolloutEvent.TARGET_BROKEN: Stage.WATCHING,
        RolloutEvent.YIELDED: Stage.OPENING,
        RolloutEvent.TIMED_OUT: Stage.OPENING,
    },
    Stage.DRAINING: {
        **_ALWAYS,
        **_CHANGED,
        RolloutEvent.WITHDRAWN: Stage.OPENING,
        RolloutEvent.DRAINED: Stage.OPENING,
        RolloutEvent.TIMED_OUT: Stage.OPENING,
    },
    Stage.OPENING: {**_ALWAYS, **_TRIED, **_REVERTED, RolloutEvent.LANDING: Stage.WATCHING},
    Stage.WATCHING: {**_ALWAYS, **_TRIED, **_REVERTED, RolloutEvent.PROVEN: Stage.SETTLED},
    Stage.SUSPENDING: {
        RolloutEvent.DELETE: Stage.DELETING,
        RolloutEvent.RESUME: Stage.OPENING,
        RolloutEvent.DRAINED: Stage.SUSPENDED,
        RolloutEvent.TIMED_OUT: Stage.SUSPENDED,
    },
    Stage.SUSPENDED: {RolloutEvent.DELETE: Stage.DELETING, RolloutEvent.RESUME: Stage.OPENING},
    Stage.DELETING: {RolloutEvent.DRAINED: Stage.DELETED, RolloutEvent.TIMED_OUT: Stage.DELETED},
    Stage.DELETED: {},
}
"""The next stage, by stage and event; the order of a row is the priority of its events."""


def next_event(stage: Stage, events: frozenset[RolloutEvent]) -> RolloutEvent | None:
    """The event with the highest priority in this stage; None if none of them has an effect."""
    return next((event for event in TABLE[stage] if event in events), None)


def transition(
    rollout: RolloutStatus,
    event: RolloutEvent,
    wanted: str | None,
    now: datetime,
    rejected: Rejected | None,
) -> RolloutStatus:
    """The rollout after an event: its next stage, which starts now, and the new roles of revisions.

    Args:
        rollout: the rollout before the event.
        event: an event in the row of the rollout's stage.
        wanted: the revision that the effective spec asks for.
        now: the start of the next stage.
        rejected: the failed spec, for events that roll a revision back or give it up.

    Raises:
        KeyError: the stage's row does not name the event.
    """
    stage = TABLE[rollout.stage][event]
    return rollout.model_copy(
        update={
            "stage": stage,
            "since": whole_seconds(now),
            "resumed": None,
            "retry": _retry(rollout, event, rejected, now),
            **_roles(rollout, event, wanted, rejected),
        }
    )


def is_changing(rollout: RolloutStatus) -> bool:
    """Return whether another revision is on its way, so that the group needs room for two.

    A revision that is watched has taken over. The first one of a group replaces none.
    """
    takes_over = rollout.stage is Stage.OPENING and rollout.previous is not None
    return takes_over or rollout.stage in {
        Stage.TRYING,
        Stage.WARMING,
        Stage.YIELDING,
        Stage.DRAINING,
    }


def is_rollback(rollout: RolloutStatus) -> bool:
    """Return whether the previous revision is on its way back."""
    return rollout.previous is not None and rollout.previous in {rollout.target, rollout.active}


def forgive(rollout: RolloutStatus) -> RolloutStatus:
    """The rollout without rejection, retry and crash count: the requested spec is tried at once."""
    crashes = rollout.crashes and rollout.crashes.model_copy(update={"count": 0})
    return rollout.model_copy(update={"rejected": None, "retry": None, "crashes": crashes})


def _retry(
    rollout: RolloutStatus, event: RolloutEvent, rejected: Rejected | None, now: datetime
) -> RetryStatus | None:
    """The next attempt after the event; an attempt that the event does not concern stays."""
    failed = event in {
        RolloutEvent.REVERT_WARM,
        RolloutEvent.REVERT_DRAIN,
        RolloutEvent.TRIAL_FAILED,
    }
    later = failed and rejected is not None and is_environment(rejected.reason)
    if later or (event is RolloutEvent.TARGET_BROKEN and is_rollback(rollout) and rollout.rejected):
        attempts = rollout.retry.attempts + 1 if rollout.retry else 1
        pause = min(FIRST_PAUSE * 2 ** min(attempts - 1, 8), LONGEST_PAUSE)
        message = rejected.message if rejected else ""
        return RetryStatus(attempts=attempts, time=now + pause, message=message)
    if event is RolloutEvent.TRIAL_FAILED:
        return None
    returned = rollout.rejected is not None and is_environment(rollout.rejected.reason)
    return None if event is RolloutEvent.LANDING and not returned else rollout.retry


def _roles(
    rollout: RolloutStatus, event: RolloutEvent, wanted: str | None, rejected: Rejected | None
) -> Mapping[str, str | Rejected | None]:
    """The roles that the event changes; all other roles stay."""
    roles: Mapping[str, str | Rejected | None] = {}
    match event:
        case RolloutEvent.CHANGE_WARM | RolloutEvent.CHANGE_DRAIN:
            roles = {"target": wanted}
        case RolloutEvent.FIRST | RolloutEvent.RESUME:
            # The spec may have changed while the group was suspended: then the revision that ran
            # before may be the one to roll back to.
            moved = wanted != rollout.active
            roles = {
                "active": wanted,
                "previous": _fallback(rollout) if moved else rollout.previous,
            }
        case RolloutEvent.REVERT_WARM | RolloutEvent.REVERT_DRAIN:
            # The spec that the user still asks for stays the rejected one.
            roles = {"target": rollout.previous, "rejected": rollout.rejected or rejected}
        case RolloutEvent.TARGET_BROKEN | RolloutEvent.TRIAL_FAILED:
            # During a rollback the target is the previous revision, which stays the previous one.
            roles = {"target": None, "rejected": rollout.rejected or rejected}
        case (
            RolloutEvent.CHANGE_TRY
            | RolloutEvent.WITHDRAWN
            | RolloutEvent.DELETE
            | RolloutEvent.SUSPEND
        ):
            roles = {"target": None}
        case RolloutEvent.LANDING | RolloutEvent.PROVEN:
            done = event is RolloutEvent.PROVEN or is_rollback(rollout)
            roles = {"previous": None if done else rollout.previous}
        case RolloutEvent.YIELDED | RolloutEvent.DRAINED | RolloutEvent.TIMED_OUT if rollout.target:
            roles = {"active": rollout.target, "target": None, "previous": _fallback(rollout)}
    return roles


def _fallback(rollout: RolloutStatus) -> str | None:
    """The revision to roll back to once another one is active: the last one that was proven.

    One that never committed is none. During a rollback it is the target itself, until that lands.
    """
    if rollout.target == rollout.active:
        return rollout.previous  # the revision restarts
    proven = rollout.active if rollout.active == rollout.committed else None
    return rollout.previous or proven
