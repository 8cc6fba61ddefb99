"""Where a group is to go, from what is seen of it: the next stage, the spec that counts, the number of executors.

The spec that counts is what the user asks for, unless that is not valid (then the last valid one
stays in force) or was taken back (then the one it was taken back to, with the user's live
settings). Pure: ``course(observed)`` is the same whenever it is asked, and ``decide`` and
``report`` both start from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from landfall.api.contract import Phase, Status
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.change_impact import Difference, difference
from landfall_operator.api.reasons import Reason
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import PlanStatus, Rejected, RolloutStatus, Stage
from landfall_operator.core.autoscaler import Scaling, ScalingReason, bounded, scale
from landfall_operator.core.rollout import Event, next_event, transition
from landfall_operator.core.snapshot import HOLDING, Driver, Observed

CRASHES = 3
"""Restarts of a container that make a crash loop, if it does not land in between."""
READY_IN = timedelta(minutes=10)
"""How long a driver may take from its Deployment to standing by or landing."""
NO_COMMIT = timedelta(minutes=15)
"""How long records may be overdue without a commit of a driver that is being watched."""
MOVING = frozenset({Stage.WARMING, Stage.YIELDING, Stage.DRAINING, Stage.OPENING, Stage.SUSPENDING})
"""Stages in which something is on its way."""
STARTING = frozenset({Stage.WARMING, Stage.OPENING})
"""Stages in which a driver has only so long to get going."""

_ENVIRONMENT = ("Store", "Source")
"""How reasons of failures begin that another generation would meet, too."""


@dataclass(frozen=True, slots=True)
class DriverFailure:
    """Why a driver is no good."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class DesiredState:
    """Where a group is to go.

    Attributes:
        group: the spec that counts; None when there never was a valid one.
        rollout: stage and roles from now on.
        event: what brought it there, if anything did.
        plan: what the last change of the spec amounts to.
        scaling: how many executors.
    """

    group: ConsumerGroup | None
    rollout: RolloutStatus
    event: Event | None
    plan: PlanStatus | None
    scaling: Scaling


def desired_state(observed: Observed) -> DesiredState:
    """Decide where to go; one step of the table at a time."""
    before = _still_rejected(observed, observed.status.rollout)
    group = _counts(observed, before)
    event = next_event(before.stage, frozenset(_events(observed, before, group)))
    after = before
    if event:
        wanted = _revision(group)
        after = transition(before, event, wanted, observed.now, _rejected(observed, before, event))
    return DesiredState(group, after, event, _plan(observed), _scaling(observed, after, group))


def driver_failure(
    observed: Observed, driver: Driver | None, rollout: RolloutStatus, group: ConsumerGroup
) -> DriverFailure | None:
    """Why a driver is no good; None while it may be."""
    if driver is None:
        return None
    status = driver.fresh(observed.now)
    works = driver.lands(observed.now) or driver.phase(observed.now) is Phase.STANDBY
    why = driver.trouble.reason if driver.trouble else None
    said = driver.trouble.message if driver.trouble else f"{driver.restarts} restarts"
    if status and status.phase is Phase.STALLED:
        return DriverFailure(Reason.DRIVER_STALLED, status.message or "the driver is stalled")
    if not works and driver.restarts >= CRASHES:
        return DriverFailure(why or Reason.CRASH_LOOP, said)
    if not works and rollout.stage in STARTING and lasted(observed, rollout) > READY_IN:
        return DriverFailure(why or Reason.NOT_READY_IN_TIME, said)
    return _working_badly(status, lasted(observed, rollout), group) if status else None


def _working_badly(status: Status, since: timedelta, group: ConsumerGroup) -> DriverFailure | None:
    failures, last = status.commits.consecutive_failures, status.commits.last_failure
    ours = last is None or not last.reason.startswith(_ENVIRONMENT)
    if failures >= group.spec.upgrade.rollback.max_commit_failures and ours:
        return DriverFailure(
            Reason.COMMITS_FAILING,
            f"{failures} failures in a row; last: {last.message if last else ''}",
        )
    bad = [p.message for p in status.partitions if p.blocked == Reason.BAD_RECORDS]
    if bad:
        return DriverFailure(Reason.BAD_RECORDS, bad[0])
    overdue = timedelta(seconds=status.overdue_seconds)
    if ours and min(since, overdue) > NO_COMMIT and not status.rates.landed_records:
        return DriverFailure(
            Reason.NO_COMMIT, f"records are overdue by {overdue} and nothing was committed"
        )
    return None


def _still_rejected(observed: Observed, rollout: RolloutStatus) -> RolloutStatus:
    """Another spec than the one that was taken back deserves its own try."""
    asked = _asked(observed)
    if rollout.rejected and asked and asked != rollout.rejected.digest:
        return rollout.model_copy(update={"rejected": None})
    return rollout


def _asked(observed: Observed) -> str | None:
    return digest_of(observed.spec) if observed.spec else None


def _revision(group: ConsumerGroup | None) -> str | None:
    return revision_of(group) if group else None


def _counts(observed: Observed, rollout: RolloutStatus) -> ConsumerGroup | None:
    """The spec that counts."""
    refused = observed.spec is None or (
        rollout.rejected is not None and _asked(observed) == rollout.rejected.digest
    )
    if not refused:
        return observed.spec
    revision = rollout.target or rollout.active
    record = observed.record(revision)
    if observed.spec and record:
        return _with_live(record.group, observed.spec)
    last_valid = observed.contracts.get(revision) if revision else None
    return observed.spec or last_valid or (record.group if record else None)


def _with_live(group: ConsumerGroup, asked: ConsumerGroup) -> ConsumerGroup:
    """A recorded spec with the settings that need no other driver as they are asked for now."""
    live = {
        "state": asked.spec.state,
        "replicas": asked.spec.replicas,
        "autoscaling": asked.spec.autoscaling,
        "upgrade": asked.spec.upgrade.model_copy(
            update={"drain_timeout": group.spec.upgrade.drain_timeout}
        ),
    }
    return group.model_copy(update={"spec": group.spec.model_copy(update=live)})


# ------------------------------------------------------------------------------------------- events


def _events(
    observed: Observed, rollout: RolloutStatus, group: ConsumerGroup | None
) -> Iterator[Event]:
    """Everything that holds; the table knows what matters where."""
    if observed.deleting:
        yield Event.DELETE
    yield from _ends(observed, rollout, group)
    if group is None:
        return
    yield Event.SUSPEND if group.spec.state == "Suspended" else Event.RESUME
    yield from _wishes(observed, rollout, group)
    yield from _progress(observed, rollout, group)


def _wishes(observed: Observed, rollout: RolloutStatus, group: ConsumerGroup) -> Iterator[Event]:
    wanted, active = _revision(group), observed.driver(rollout.active)
    if rollout.active is None:
        yield Event.FIRST
    elif wanted == rollout.active and rollout.target:
        yield Event.WITHDRAWN
    elif wanted not in {rollout.active, rollout.target}:
        yield Event.CHANGE_WARM if _may_warm(observed, active, group) else Event.CHANGE_DRAIN


def _may_warm(observed: Observed, active: Driver | None, group: ConsumerGroup) -> bool:
    return (
        group.spec.upgrade.strategy == "HandOver"
        and active is not None
        and active.lands(observed.now)
    )


def _progress(observed: Observed, rollout: RolloutStatus, group: ConsumerGroup) -> Iterator[Event]:
    active, target = observed.driver(rollout.active), observed.driver(rollout.target)
    if rollout.target:
        if driver_failure(observed, target, rollout, group):
            yield Event.TARGET_BROKEN
        elif target and target.phase(observed.now) in {
            Phase.STANDBY,
            Phase.RECOVERING,
            Phase.RUNNING,
        }:
            yield Event.TARGET_WARM
        if active is None or active.phase(observed.now) not in {*HOLDING, Phase.DRAINING}:
            yield Event.YIELDED
    if active and active.lands(observed.now):
        yield Event.LANDING
    if (
        rollout.previous
        and observed.record(rollout.previous)
        and driver_failure(observed, active, rollout, group)
    ):
        yield Event.REVERT_WARM if _may_warm(observed, active, group) else Event.REVERT_DRAIN
    if not rollout.previous or lasted(observed, rollout) > group.spec.upgrade.rollback.window:
        yield Event.PROVEN


def _ends(
    observed: Observed, rollout: RolloutStatus, group: ConsumerGroup | None
) -> Iterator[Event]:
    every = rollout.stage is Stage.DELETING
    if not any(
        driver.pods
        for driver in observed.drivers.values()
        if every or driver.revision == rollout.active
    ):
        yield Event.DRAINED
    timeout = group.spec.upgrade.drain_timeout if group else READY_IN
    if lasted(observed, rollout) > timeout:
        yield Event.TIMED_OUT


def lasted(observed: Observed, rollout: RolloutStatus) -> timedelta:
    """How long the stage has lasted."""
    return observed.now - rollout.since if rollout.since else timedelta(0)


def _rejected(observed: Observed, rollout: RolloutStatus, event: Event) -> Rejected | None:
    """The spec at fault when a revision is taken back or given up."""
    if event not in {Event.REVERT_WARM, Event.REVERT_DRAIN, Event.TARGET_BROKEN}:
        return None
    record = observed.record(rollout.target if event is Event.TARGET_BROKEN else rollout.active)
    if record is None:
        return None
    driver = observed.driver(record.revision)
    why = driver_failure(observed, driver, rollout, record.group)
    return Rejected(
        digest=record.digest,
        reason=why.reason if why else Reason.UNKNOWN,
        message=why.message if why else "",
        generation=record.group.spec.generation,
    )


# ------------------------------------------------------------------------------------ plan, scaling


def _plan(observed: Observed) -> PlanStatus | None:
    """What the latest edit amounts to, against the newest recorded spec."""
    old = observed.status.plan
    if (
        observed.spec is None
        or not observed.records
        or (old and old.observed_generation == observed.generation)
    ):
        return old
    newest = max(observed.records, key=lambda record: record.number)
    found: Difference = difference(newest.group.spec, observed.spec.spec)
    if not found.fields:
        return old
    return PlanStatus.model_validate(
        {
            "change": str(found.change),
            "fields": found.fields[:20],
            "observed_generation": observed.generation,
        }
    )


def _scaling(observed: Observed, rollout: RolloutStatus, group: ConsumerGroup | None) -> Scaling:
    if group is None or group.spec.state == "Suspended" or observed.deleting:
        return Scaling(0, ScalingReason.BY_HAND)
    policy = group.spec.autoscaling
    if policy is None:
        return Scaling(group.spec.replicas, ScalingReason.BY_HAND)
    if not observed.samples:
        last = observed.status.autoscaling
        return Scaling(
            bounded(last.desired if last else group.spec.replicas, policy),
            ScalingReason.HOLD_LAG_UNKNOWN,
        )
    return scale(
        observed.samples, policy, group.spec.executor.cores, observed.now, _hold(observed, rollout)
    )


def _hold(observed: Observed, rollout: RolloutStatus) -> ScalingReason | None:
    driver = observed.driver(rollout.active)
    status = driver.fresh(observed.now) if driver else None
    if rollout.stage in MOVING:
        return ScalingReason.HOLD_UPGRADING
    if status is None:
        return ScalingReason.HOLD_LAG_UNKNOWN
    return ScalingReason.HOLD_COMMITS_FAILING if status.commits.consecutive_failures else None
