"""The rollout state machine as one table: the next stage, by stage and event. Pure.

A stage defines which drivers should exist and which commands they get
(``landfall_operator.core.decide``). An event is a fact about the observed state
(``landfall_operator.core.desired_state`` derives them). Within a row, the order is the priority:
deletion comes before suspension, and both come before everything else. An event that a row does not
name has no effect in that stage.

The operator writes a stage into the status before it acts on it, so an operator that restarts at
any point continues from the stage that it reads and from what it observes.

    HandOver    Settled → Warming → Yielding → Opening → Watching → Settled
    Recreate    Settled → Draining → Opening → Watching → Settled
    rollback    Opening or Watching → Warming or Draining, with the previous revision as the target
    suspend     any → Suspending → Suspended → Opening
    delete      any → Deleting → Deleted

The outgoing driver need not be healthy for the next one to start: a driver that does not land is
stopped instead of being asked to hand over. Two drivers that run at the same time do no harm,
because the ledger accepts commits only from the driver that opened it last.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from landfall_operator.api.status import Rejected, RolloutStatus, Stage, whole_seconds


class Event(StrEnum):
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
    WITHDRAWN = "Withdrawn"
    """The spec asks for the active revision again."""
    TARGET_WARM = "TargetWarm"
    """The target's driver is ready to take over."""
    TARGET_BROKEN = "TargetBroken"
    """The target's driver crashes, is stalled, or did not become ready in time."""
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
    """The rollback window is over, or there is no previous revision."""


_ALWAYS = {Event.DELETE: Stage.DELETING, Event.SUSPEND: Stage.SUSPENDING}
_CHANGED = {Event.CHANGE_WARM: Stage.WARMING, Event.CHANGE_DRAIN: Stage.DRAINING}
_REVERTED = {Event.REVERT_WARM: Stage.WARMING, Event.REVERT_DRAIN: Stage.DRAINING}

TABLE: Mapping[Stage, Mapping[Event, Stage]] = {
    Stage.SETTLED: {**_ALWAYS, Event.FIRST: Stage.OPENING, **_CHANGED},
    Stage.WARMING: {
        **_ALWAYS,
        **_CHANGED,
        Event.WITHDRAWN: Stage.SETTLED,
        Event.TARGET_BROKEN: Stage.SETTLED,
        Event.TARGET_WARM: Stage.YIELDING,
    },
    Stage.YIELDING: {
        **_ALWAYS,
        Event.TARGET_BROKEN: Stage.SETTLED,
        Event.YIELDED: Stage.OPENING,
        Event.TIMED_OUT: Stage.OPENING,
    },
    Stage.DRAINING: {
        **_ALWAYS,
        **_CHANGED,
        Event.WITHDRAWN: Stage.SETTLED,
        Event.DRAINED: Stage.OPENING,
        Event.TIMED_OUT: Stage.OPENING,
    },
    Stage.OPENING: {**_ALWAYS, **_CHANGED, **_REVERTED, Event.LANDING: Stage.WATCHING},
    Stage.WATCHING: {**_ALWAYS, **_CHANGED, **_REVERTED, Event.PROVEN: Stage.SETTLED},
    Stage.SUSPENDING: {
        Event.DELETE: Stage.DELETING,
        Event.RESUME: Stage.OPENING,
        Event.DRAINED: Stage.SUSPENDED,
        Event.TIMED_OUT: Stage.SUSPENDED,
    },
    Stage.SUSPENDED: {Event.DELETE: Stage.DELETING, Event.RESUME: Stage.OPENING},
    Stage.DELETING: {Event.DRAINED: Stage.DELETED, Event.TIMED_OUT: Stage.DELETED},
    Stage.DELETED: {},
}
"""The next stage, by stage and event; the order of a row is the priority of its events."""


def next_event(stage: Stage, events: frozenset[Event]) -> Event | None:
    """The event with the highest priority in this stage; None if none of them has an effect."""
    return next((event for event in TABLE[stage] if event in events), None)


def transition(
    rollout: RolloutStatus,
    event: Event,
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
            **_roles(rollout, event, wanted, rejected),
        }
    )


def _roles(
    rollout: RolloutStatus, event: Event, wanted: str | None, rejected: Rejected | None
) -> Mapping[str, str | Rejected | None]:
    """The roles that the event changes; all others stay."""
    roles: Mapping[str, str | Rejected | None] = {}
    match event:
        case Event.CHANGE_WARM | Event.CHANGE_DRAIN:
            roles = {"target": wanted}
        case Event.FIRST | Event.RESUME:
            # The spec may have changed while the group was suspended: then the revision that ran
            # before is the one to roll back to.
            moved = wanted != rollout.active
            roles = {"active": wanted, "previous": rollout.active if moved else rollout.previous}
        case Event.REVERT_WARM | Event.REVERT_DRAIN:
            roles = {"target": rollout.previous, "previous": None, "rejected": rejected}
        case Event.TARGET_BROKEN:
            # During a rollback the target is the previous revision. The spec that failed first
            # stays the rejected one.
            roles = {"target": None, "rejected": rollout.rejected or rejected}
        case Event.WITHDRAWN | Event.DELETE | Event.SUSPEND:
            roles = {"target": None}
        case Event.PROVEN:
            roles = {"previous": None}
        case Event.YIELDED | Event.DRAINED | Event.TIMED_OUT if rollout.target:
            roles = {"active": rollout.target, "target": None, "previous": _fallback(rollout)}
    return roles


def _fallback(rollout: RolloutStatus) -> str | None:
    """The revision to roll back to once the target is active: the last one that was proven.

    There is none during a rollback, so that two failing revisions do not alternate forever.
    """
    candidate = rollout.previous or rollout.active
    return None if rollout.rejected or candidate == rollout.target else candidate
