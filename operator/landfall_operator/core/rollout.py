"""How a group gets from one driver to the next, as one table: in this stage, if this holds, that stage is next.

A stage says what should be there (which drivers, asked for what:
``landfall_operator.core.decide``), an event says what is. In a row the order is the priority:
deleting comes before suspending, and both before anything else. What a row does not name does not
matter there. A stage is written into the status before anything of it is done, so an operator that
died anywhere goes on from what it reads and sees.

    HandOver    Settled → Warming → Yielding → Opening → Watching → Settled
    Recreate    Settled → Draining → Opening → Watching → Settled
    rollback    Opening or Watching → Warming or Draining, with the previous revision as the target
    suspend     any → Suspending → Suspended → Opening
    delete      any → Deleting → Deleted

A driver that has to go need not be healthy for the next to come: one that does not land is stopped,
not asked to yield. Whatever happens, two drivers at once do no harm: the ledger lets only the last
to open it commit. Pure.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from landfall_operator.api.status import Rejected, RolloutStatus, Stage, whole_seconds


class Event(StrEnum):
    """What may hold, seen from a stage."""

    DELETE = "Delete"
    """The resource is being deleted."""
    SUSPEND = "Suspend"
    """It is to be suspended."""
    RESUME = "Resume"
    """It is to run."""
    FIRST = "First"
    """It is to run for the first time."""
    CHANGE_WARM = "ChangeWarm"
    """Another revision is wanted, and can warm up while the active one lands."""
    CHANGE_DRAIN = "ChangeDrain"
    """Another revision is wanted, and the active one stops first: it does not land, or strategy
    Recreate says so.
    """
    WITHDRAWN = "Withdrawn"
    """The active revision is wanted after all."""
    TARGET_WARM = "TargetWarm"
    """The target's driver stands by."""
    TARGET_BROKEN = "TargetBroken"
    """The target's driver crashes, stalls, or is not there in time."""
    YIELDED = "Yielded"
    """The active driver has handed the lane over, or does not land and so cannot."""
    DRAINED = "Drained"
    """No pod of the drivers that are to stop is left."""
    TIMED_OUT = "TimedOut"
    """The stage has lasted longer than ``drainTimeout``."""
    LANDING = "Landing"
    """The active driver has the lane."""
    REVERT_WARM = "RevertWarm"
    """The active revision fails, though it lands, and there is one to go back to."""
    REVERT_DRAIN = "RevertDrain"
    """The active revision fails and there is one to go back to, which starts when this one has
    stopped.
    """
    PROVEN = "Proven"
    """The window for taking it back is over, or there is nothing to go back to."""


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


def next_event(stage: Stage, events: frozenset[Event]) -> Event | None:
    """The event that counts in this stage, if any of these does."""
    return next((event for event in TABLE[stage] if event in events), None)


def transition(
    rollout: RolloutStatus,
    event: Event,
    wanted: str | None,
    now: datetime,
    rejected: Rejected | None,
) -> RolloutStatus:
    """The rollout after an event that counts.

    Args:
        rollout: as it was.
        event: what happened.
        wanted: the revision that should land.
        now: for how long a stage lasts.
        rejected: the spec at fault, for events that take one back.
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
    """Which revision is what from now on."""
    roles: Mapping[str, str | Rejected | None] = {}
    match event:
        case Event.CHANGE_WARM | Event.CHANGE_DRAIN:
            roles = {"target": wanted}
        case Event.FIRST | Event.RESUME:
            moved = wanted != rollout.active
            roles = {"active": wanted, "previous": rollout.active if moved else rollout.previous}
        case Event.REVERT_WARM | Event.REVERT_DRAIN:
            roles = {"target": rollout.previous, "previous": None, "rejected": rejected}
        case Event.TARGET_BROKEN:
            roles = {"target": None, "rejected": rollout.rejected or rejected}
        case Event.WITHDRAWN | Event.DELETE | Event.SUSPEND:
            roles = {"target": None}
        case Event.PROVEN:
            roles = {"previous": None}
        case Event.YIELDED | Event.DRAINED | Event.TIMED_OUT if rollout.target:
            roles = {"active": rollout.target, "target": None, "previous": _fallback(rollout)}
    return roles


def _fallback(rollout: RolloutStatus) -> str | None:
    """What the next active revision is taken back to: the last one that was proven, and never while taking one back."""
    candidate = rollout.previous or rollout.active
    return None if rollout.rejected or candidate == rollout.target else candidate
