"""The desired state of one group: next stage of the rollout, effective spec, executor count. Pure.

The effective spec is the one that the user asks for, with two exceptions. If that spec is not
valid, the last valid one stays in force. If it was rolled back, the recorded spec that it was
rolled back to is in force, with the user's present live settings.

``decide`` and ``report`` both take the desired state as an argument, so each pass computes it once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from landfall.api.contract import Phase, Status
from landfall.api.spec import ConsumerGroup
from landfall.api.values import plural
from landfall_operator.api.change_impact import Difference, difference
from landfall_operator.api.reasons import Reason
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import PlanStatus, Rejected, RolloutStatus, Stage
from landfall_operator.core.autoscaler import Scaling, ScalingReason, Standing, bounded, scale
from landfall_operator.core.ineffective import IneffectiveUp
from landfall_operator.core.rollout import Event, next_event, transition
from landfall_operator.core.snapshot import OWNS_LANE, Driver, GroupObservation

CRASH_LOOP_RESTARTS = 3
"""Container restarts that count as a crash loop, if the driver is neither landing nor ready."""
READY_TIMEOUT = timedelta(minutes=10)
"""The longest time from the Deployment until its driver stands by or lands."""
COMMIT_TIMEOUT = timedelta(minutes=15)
"""The longest time that records of a watched driver may be overdue without any commit."""
IN_TRANSITION = frozenset(
    {Stage.WARMING, Stage.YIELDING, Stage.DRAINING, Stage.OPENING, Stage.SUSPENDING}
)
"""Stages in which drivers start, stop or hand over."""
STARTING = frozenset({Stage.WARMING, Stage.OPENING})
"""Stages in which ``READY_TIMEOUT`` applies."""

_ENVIRONMENT = ("Store", "Source")
"""Prefixes of failure reasons that any other generation would meet, too."""


@dataclass(frozen=True, slots=True)
class DriverFailure:
    """Why a revision's driver counts as failed."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class DesiredState:
    """Where a group should go.

    Attributes:
        group: the effective spec; None if there has never been a valid one.
        rollout: the stage and the roles of revisions from now on.
        event: the event that caused the transition to that stage, if there was one.
        plan: the impact of the last change of the spec.
        scaling: the desired executor count.
    """

    group: ConsumerGroup | None
    rollout: RolloutStatus
    event: Event | None
    plan: PlanStatus | None
    scaling: Scaling


def desired_state(observed: GroupObservation) -> DesiredState:
    """The desired state for an observation, at most one transition of the rollout away."""
    before = _clear_outdated_rejection(observed, observed.status.rollout)
    group = _effective_spec(observed, before)
    event = next_event(before.stage, frozenset(_events(observed, before, group)))
    after = before
    if event:
        rejected = _rejected_spec(observed, before, event)
        after = transition(before, event, _revision(group), observed.now, rejected)
    return DesiredState(group, after, event, _plan(observed), _scaling(observed, after, group))


def driver_failure(
    observed: GroupObservation,
    driver: Driver | None,
    rollout: RolloutStatus,
    group: ConsumerGroup,
) -> DriverFailure | None:
    """Why a driver counts as failed; None while it may still work."""
    if driver is None:
        return None
    status = driver.fresh_status(observed.now)
    works = driver.lands(observed.now) or driver.phase(observed.now) is Phase.STANDBY
    # The pod's own failure says more than the number of its restarts.
    reason = driver.pod_failure.reason if driver.pod_failure else None
    message = driver.pod_failure.message if driver.pod_failure else _restarts_text(driver.restarts)
    if status and status.phase is Phase.STALLED:
        return DriverFailure(Reason.DRIVER_STALLED, status.message or "the driver is stalled")
    if not works and driver.restarts >= CRASH_LOOP_RESTARTS:
        return DriverFailure(reason or Reason.CRASH_LOOP, message)
    duration = stage_duration(observed, rollout)
    if not works and rollout.stage in STARTING and duration > READY_TIMEOUT:
        return DriverFailure(reason or Reason.NOT_READY_IN_TIME, message)
    return _landing_failure(status, duration, group) if status else None


def _restarts_text(restarts: int) -> str:
    if not restarts:
        return "the driver is not ready"
    return f"the driver is not ready after {plural(restarts, 'restart')}"


def _landing_failure(
    status: Status, duration: timedelta, group: ConsumerGroup
) -> DriverFailure | None:
    """Why a driver that answers counts as failed; failures of store and Kafka are not its fault."""
    failures, last = status.commits.consecutive_failures, status.commits.last_failure
    own_fault = last is None or not last.reason.startswith(_ENVIRONMENT)
    if failures >= group.spec.upgrade.rollback.max_commit_failures and own_fault:
        return DriverFailure(
            Reason.COMMITS_FAILING,
            f"{plural(failures, 'consecutive commit failure')}; the last one: "
            f"{last.message if last else 'unknown'}",
        )
    # Another generation may decode these records, so a rollback can help.
    bad_records = [p.message for p in status.partitions if p.blocked == Reason.BAD_RECORDS]
    if bad_records:
        return DriverFailure(Reason.BAD_RECORDS, bad_records[0])
    overdue = timedelta(seconds=status.overdue_seconds)
    if own_fault and min(duration, overdue) > COMMIT_TIMEOUT and not status.rates.landed_records:
        return DriverFailure(
            Reason.NO_COMMIT, f"records are overdue by {overdue} and the driver has committed none"
        )
    return None


def _clear_outdated_rejection(observed: GroupObservation, rollout: RolloutStatus) -> RolloutStatus:
    """Drops the rejection once the user asks for another spec, which then gets its own attempt."""
    requested = _requested_digest(observed)
    if rollout.rejected and requested and requested != rollout.rejected.digest:
        return rollout.model_copy(update={"rejected": None})
    return rollout


def _requested_digest(observed: GroupObservation) -> str | None:
    return digest_of(observed.spec) if observed.spec else None


def _revision(group: ConsumerGroup | None) -> str | None:
    return revision_of(group) if group else None


def _effective_spec(observed: GroupObservation, rollout: RolloutStatus) -> ConsumerGroup | None:
    """The spec in force; see the module's docstring."""
    rejected = (
        rollout.rejected is not None and _requested_digest(observed) == rollout.rejected.digest
    )
    if observed.spec is not None and not rejected:
        return observed.spec
    revision = rollout.target or rollout.active
    record = observed.record(revision)
    if observed.spec and record:
        return _with_live_settings(record.group, observed.spec)
    last_valid = observed.driver_specs.get(revision) if revision else None
    return observed.spec or last_valid or (record.group if record else None)


def _with_live_settings(group: ConsumerGroup, requested: ConsumerGroup) -> ConsumerGroup:
    """A recorded spec, with the fields that need no other driver taken from the requested spec."""
    # drainTimeout is also the pod's grace period, so a change of it restarts the driver.
    upgrade = requested.spec.upgrade.model_copy(
        update={"drain_timeout": group.spec.upgrade.drain_timeout}
    )
    live = {
        "state": requested.spec.state,
        "replicas": requested.spec.replicas,
        "autoscaling": requested.spec.autoscaling,
        "upgrade": upgrade,
    }
    return group.model_copy(update={"spec": group.spec.model_copy(update=live)})


# ------------------------------------------------------------------------------------------- events


def _events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup | None
) -> Iterator[Event]:
    """Every event that holds now; ``rollout.TABLE`` selects the one that matters in this stage."""
    if observed.deleting:
        yield Event.DELETE
    yield from _stop_events(observed, rollout, group)
    if group is None:
        return
    yield Event.SUSPEND if group.spec.state == "Suspended" else Event.RESUME
    yield from _spec_events(observed, rollout, group)
    yield from _driver_events(observed, rollout, group)


def _spec_events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup
) -> Iterator[Event]:
    """Events from comparing the revision that the spec asks for with those that have a role."""
    wanted, active = _revision(group), observed.driver(rollout.active)
    if rollout.active is None:
        yield Event.FIRST
    elif wanted == rollout.active and rollout.target:
        yield Event.WITHDRAWN
    elif wanted not in {rollout.active, rollout.target}:
        yield Event.CHANGE_WARM if _can_warm(observed, active, group) else Event.CHANGE_DRAIN


def _can_warm(observed: GroupObservation, active: Driver | None, group: ConsumerGroup) -> bool:
    """Whether the next driver may start while the active one lands."""
    return (
        group.spec.upgrade.strategy == "HandOver"
        and active is not None
        and active.lands(observed.now)
    )


def _driver_events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup
) -> Iterator[Event]:
    """Events from the state of the active driver and of the target's driver."""
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
        # A driver that drains still holds the lane: it hands over when it is done.
        if active is None or active.phase(observed.now) not in {*OWNS_LANE, Phase.DRAINING}:
            yield Event.YIELDED
    if active and active.lands(observed.now):
        yield Event.LANDING
    # Without its recorded spec, the previous revision cannot be started again.
    if (
        rollout.previous
        and observed.record(rollout.previous)
        and driver_failure(observed, active, rollout, group)
    ):
        yield Event.REVERT_WARM if _can_warm(observed, active, group) else Event.REVERT_DRAIN
    window = group.spec.upgrade.rollback.window
    if not rollout.previous or stage_duration(observed, rollout) > window:
        yield Event.PROVEN


def _stop_events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup | None
) -> Iterator[Event]:
    """Events from the remaining pods: of all drivers during deletion, else of the active one."""
    every = rollout.stage is Stage.DELETING
    if not any(
        driver.pods
        for driver in observed.drivers.values()
        if every or driver.revision == rollout.active
    ):
        yield Event.DRAINED
    timeout = group.spec.upgrade.drain_timeout if group else READY_TIMEOUT
    if stage_duration(observed, rollout) > timeout:
        yield Event.TIMED_OUT


def stage_duration(observed: GroupObservation, rollout: RolloutStatus) -> timedelta:
    """How long the rollout has been in its stage; zero before its first transition."""
    return observed.now - rollout.since if rollout.since else timedelta(0)


def _rejected_spec(
    observed: GroupObservation, rollout: RolloutStatus, event: Event
) -> Rejected | None:
    """The failed spec, if the event rolls back the active revision or gives up the target."""
    if event not in {Event.REVERT_WARM, Event.REVERT_DRAIN, Event.TARGET_BROKEN}:
        return None
    record = observed.record(rollout.target if event is Event.TARGET_BROKEN else rollout.active)
    if record is None:
        return None
    driver = observed.driver(record.revision)
    failure = driver_failure(observed, driver, rollout, record.group)
    return Rejected(
        digest=record.digest,
        reason=failure.reason if failure else Reason.UNKNOWN,
        message=failure.message if failure else "",
        generation=record.group.spec.generation,
    )


# ------------------------------------------------------------------------------------ plan, scaling


def _plan(observed: GroupObservation) -> PlanStatus | None:
    """The impact of the latest edit, compared with the newest recorded spec."""
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


def _scaling(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup | None
) -> Scaling:
    if group is None or group.spec.state == "Suspended" or observed.deleting:
        return Scaling(0, ScalingReason.BY_HAND)
    policy = group.spec.autoscaling
    if policy is None:
        return Scaling(group.spec.replicas, ScalingReason.BY_HAND)
    last = observed.status.autoscaling
    known = IneffectiveUp(**dict(last.ineffective)) if last and last.ineffective else None
    if not observed.samples:
        # An operator that has just started has no measurements. It keeps the last decision.
        return Scaling(
            bounded(last.desired if last else group.spec.replicas, policy),
            ScalingReason.HOLD_LAG_UNKNOWN,
            ineffective=known,
        )
    standing = Standing(_scaling_hold(observed, rollout), known)
    return scale(observed.samples, policy, group.spec.executor.cores, observed.now, standing)


def _scaling_hold(observed: GroupObservation, rollout: RolloutStatus) -> ScalingReason | None:
    """Why the executor count must not change now, as far as the samples do not show it."""
    driver = observed.driver(rollout.active)
    status = driver.fresh_status(observed.now) if driver else None
    if rollout.stage in IN_TRANSITION:
        return ScalingReason.HOLD_UPGRADING
    if status is None:
        return ScalingReason.HOLD_LAG_UNKNOWN
    return ScalingReason.HOLD_COMMITS_FAILING if status.commits.consecutive_failures else None
