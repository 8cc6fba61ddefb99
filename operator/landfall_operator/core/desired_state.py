"""The desired state of one group: next stage of the rollout, effective spec, executor count. Pure.

The effective spec is the one that the user asks for, with two exceptions. If that spec is not
valid, the last valid one stays in force. If it was rolled back, the recorded spec that it was
rolled back to is in force, with the user's present live settings.

``decide`` and ``report`` both take the desired state as an argument, so each pass computes it once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from landfall.api.contract import DriverPhase, LedgerAnchor, LedgerPosition, is_sha256
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.change_impact import SpecDifference, difference
from landfall_operator.api.reasons import ConditionReason, is_environment
from landfall_operator.api.revisions import digest_of, generation_of
from landfall_operator.api.status import (
    Crashes,
    LedgerStatus,
    PlanStatus,
    Rejected,
    RolloutHold,
    RolloutStatus,
    Stage,
)
from landfall_operator.api.status_values import whole_seconds
from landfall_operator.core import trials
from landfall_operator.core.autoscaler import Scaling, ScalingContext, ScalingReason, bounded, scale
from landfall_operator.core.driver_health import (
    STARTING,
    driver_failure,
    has_committed,
    held_for,
    judged_driver,
    obstacle,
    time_in_stage,
)
from landfall_operator.core.idling import LOOK_PATIENCE, IdleState, idle_state
from landfall_operator.core.requests import RequestResult, answer
from landfall_operator.core.rollout import (
    RolloutEvent,
    forgive,
    is_rollback,
    next_event,
    transition,
)
from landfall_operator.core.schedules import ScheduleState, schedule_state
from landfall_operator.core.snapshot import OWNS_LANE, GroupObservation, RevisionDriver
from landfall_operator.core.trials import is_outdated, with_result
from landfall_operator.objects.names import ACCEPT_LEDGER


def with_progress(observed: GroupObservation, rollout: RolloutStatus) -> RolloutStatus:
    """The rollout with the progress of this observation; its stage and its roles stay the same."""
    rollout = _with_present_names(observed, _without_outdated_rejection(observed, rollout))
    driver = judged_driver(observed, rollout)
    held = _held(observed, rollout, driver)
    ended = rollout.held is not None and held is None
    committed = _committed(observed, rollout)
    first_commit = rollout.stage is Stage.WATCHING and committed != rollout.committed
    updates = {
        "held": held,
        "committed": committed,
        "crashes": _crashes(observed, rollout, driver),
        "resumed": whole_seconds(observed.now) if ended or first_commit else rollout.resumed,
    }
    return with_result(observed, rollout.model_copy(update=updates))


def _without_outdated_rejection(
    observed: GroupObservation, rollout: RolloutStatus
) -> RolloutStatus:
    """Drops the rejection once the user asks for another spec, which then gets its own attempt.

    A spec that the environment kept from starting gets another attempt when it is due.
    """
    if rollout.rejected is None or observed.spec is None:
        return rollout
    if digest_of(observed.spec) != rollout.rejected.digest or is_outdated(rollout, observed.spec):
        return forgive(rollout)
    active = observed.record(rollout.active)
    went_back = active is not None and active.digest != rollout.rejected.digest
    due = rollout.retry is not None and observed.now >= rollout.retry.time
    if went_back and due and not rollout.target and is_environment(rollout.rejected.reason):
        return rollout.model_copy(update={"rejected": None})
    return rollout


def _with_present_names(observed: GroupObservation, rollout: RolloutStatus) -> RolloutStatus:
    """The roles, under the names that revisions of the former scheme get when they start again."""

    def present(revision: str | None) -> str | None:
        record = None if observed.driver(revision) else observed.record(revision)
        return record.revision if record else revision

    roles = ("active", "target", "previous", "committed")
    return rollout.model_copy(update={role: present(getattr(rollout, role)) for role in roles})


def _held(
    observed: GroupObservation, rollout: RolloutStatus, driver: RevisionDriver | None
) -> RolloutHold | None:
    found = obstacle(observed, driver)
    if found is None:
        return None
    since = rollout.held.since if rollout.held else whole_seconds(observed.now)
    return RolloutHold(reason=found.reason, since=since)


def _committed(observed: GroupObservation, rollout: RolloutStatus) -> str | None:
    active = observed.driver(rollout.active)
    return rollout.active if active and has_committed(observed, active) else rollout.committed


def _crashes(
    observed: GroupObservation, rollout: RolloutStatus, driver: RevisionDriver | None
) -> Crashes | None:
    """The crashes of the judged driver since its last commit; None while there are none."""
    if driver is None:
        return None
    known = rollout.crashes
    if known is None or known.revision != driver.revision:
        # A driver that is watched may have crashed before it was: these are not counted.
        seen = 0 if rollout.stage in STARTING else driver.restarts
        known = Crashes(revision=driver.revision, pod=driver.pod, restarts=seen, count=0)
    if not driver.pod:
        return known if known.count else None
    seen = known.restarts if known.pod == driver.pod else 0
    cause = driver.pod_failure or driver.last_exit
    own = cause is None or not is_environment(cause.reason)
    count = known.count + (max(0, driver.restarts - seen) if own else 0)
    if has_committed(observed, driver):
        count = 0
    if not driver.restarts and not count:
        return None
    return Crashes(revision=driver.revision, pod=driver.pod, restarts=driver.restarts, count=count)


_WORTH_A_WRITE = 10
"""The slot is stored again when it has grown by one in so many: a write per commit costs too much.
"""


def known_ledger(observed: GroupObservation, active: str | None) -> LedgerStatus | None:
    """Return the position that the ledger has reached at least; None if no driver reported one."""
    known = observed.status.ledger
    driver = observed.driver(active)
    status = driver.fresh_status(observed.now) if driver else None
    if not driver or not status or not driver.lands(observed.now) or status.slot < 0:
        return known
    sha256 = status.tip if is_sha256(status.tip) else None
    if known and known.epoch == status.epoch and (known.sha256 or not sha256):
        growth = status.slot - known.slot
        if growth == 0 or 0 < _WORTH_A_WRITE * growth < known.slot:
            return known
    return LedgerStatus(epoch=status.epoch, slot=status.slot, sha256=sha256)


def position_for_drivers(observed: GroupObservation, ledger: LedgerStatus | None) -> str:
    """The position that is given to drivers which start now; empty for none."""
    return "" if ACCEPT_LEDGER in observed.annotations else position(ledger)


def is_accepted(observed: GroupObservation, ledger: LedgerStatus | None) -> bool:
    """Return whether the annotation has done its work: a driver lands that was given no position.

    Its ledger is shorter than the one that was known, or as long and has another history. The
    latter shows by the driver's OPEN, which raises the epoch.
    """
    before = observed.status.ledger
    return (
        ACCEPT_LEDGER in observed.annotations
        and ledger is not None
        and before is not None
        and (ledger.epoch > before.epoch or not _position(ledger).reaches(_position(before)))
    )


def position(ledger: LedgerStatus | None) -> str:
    """The position as text; empty for None."""
    return str(_position(ledger)) if ledger else ""


def anchor_for_drivers(observed: GroupObservation, ledger: LedgerStatus | None) -> str:
    """The anchor that is given to drivers which start now; empty for none."""
    if ledger is None or not ledger.sha256 or ACCEPT_LEDGER in observed.annotations:
        return ""
    return str(LedgerAnchor(_position(ledger), ledger.sha256))


def _position(ledger: LedgerStatus) -> LedgerPosition:
    return LedgerPosition(ledger.epoch, ledger.slot)


IN_TRANSITION = frozenset(
    {Stage.WARMING, Stage.YIELDING, Stage.DRAINING, Stage.OPENING, Stage.SUSPENDING}
)
"""Stages in which drivers start, stop or hand over."""
DRAIN_TIMEOUT = timedelta(minutes=10)
"""How long drivers of a group that never had a valid spec may take to stop."""
_WITHOUT_ROOM = frozenset({ConditionReason.UNSCHEDULABLE, ConditionReason.POD_REFUSED})


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The state that a group should reach.

    Attributes:
        group: the effective spec; None if there has never been a valid one.
        rollout: the stage and the roles of revisions from now on.
        event: the event that caused the transition to that stage, if there was one.
        plan: the impact of the last change of the spec.
        scaling: the desired executor count.
        ledger: what the ledger has reached at least, as far as the active driver has reported.
        answer: the outcome of the user's request, if there was one.
        schedule: where a group with ``spec.schedule`` is; None without one.
        idle: where a group with ``spec.idle`` is; None without it.
    """

    group: ConsumerGroup | None
    rollout: RolloutStatus
    event: RolloutEvent | None
    plan: PlanStatus | None
    scaling: Scaling
    ledger: LedgerStatus | None = None
    answer: RequestResult | None = None
    schedule: ScheduleState | None = None
    idle: IdleState | None = None

    @property
    def rests(self) -> bool:
        """Return whether the group sleeps, or a driver looks whether there is anything to do."""
        return self.sleeps or (self.idle is not None and self.idle.looks)

    @property
    def sleeps(self) -> bool:
        """Return whether the group needs no driver until its next range or look is due."""
        return any(state is not None and state.sleeps for state in (self.schedule, self.idle))


def desired_state(observed: GroupObservation) -> DesiredState:
    """The desired state for an observation, at most one transition of the rollout away."""
    if observed.paused and not observed.deleting:
        return _paused(observed)
    before = with_progress(observed, observed.status.rollout)
    request = answer(observed, before)
    after = request.rollout if request else before
    group = _effective_spec(observed, after)
    # A request is answered in a pass of its own.
    events = frozenset() if request else frozenset(_events(observed, before, group))
    event = next_event(before.stage, events)
    if event:
        rejected = _rejected_spec(observed, before, event, group)
        wanted = observed.revision_of(group) if group else None
        if event is RolloutEvent.RESUME and group and trials.is_due(observed, before, group):
            wanted = before.active  # it lands again while the other one is tried
        after = transition(
            rollout=before, event=event, wanted=wanted, now=observed.now, rejected=rejected
        )
        after = trials.after(
            observed=observed, before=before, event=event, changed=after, group=group
        )
    schedule = schedule_state(observed, after, group)
    idle = idle_state(observed, after, group)
    scaling = Scaling(0, ScalingReason.BY_HAND)
    ledger = known_ledger(observed, after.active)
    plan = _plan(observed)
    desired = DesiredState(
        group=group,
        rollout=after,
        event=event,
        plan=plan,
        scaling=scaling,
        ledger=ledger,
        answer=request,
        schedule=schedule,
        idle=idle,
    )
    hold = _scaling_hold(observed, after, sleeps=desired.sleeps)
    return replace(desired, scaling=_scaling(observed, group, hold))


def _paused(observed: GroupObservation) -> DesiredState:
    """Return what is wanted already, while the user has paused the group."""
    status = observed.status
    group = _effective_spec(observed, status.rollout)
    present = status.executors.wanted if status.executors else 0
    scaling = Scaling(present, ScalingReason.BY_HAND, "the group is paused")
    ledger = known_ledger(observed, status.rollout.active)
    return DesiredState(
        group=group,
        rollout=status.rollout,
        event=None,
        plan=status.plan,
        scaling=scaling,
        ledger=ledger,
        schedule=schedule_state(observed, status.rollout, group),
        idle=idle_state(observed, status.rollout, group),
    )


def _effective_spec(observed: GroupObservation, rollout: RolloutStatus) -> ConsumerGroup | None:
    """The spec in force; see the module's docstring."""
    # A rejection of another spec than the requested one has been dropped by now.
    if observed.spec is not None and not rollout.rejected:
        return observed.spec
    revision = trials.next_revision(rollout)
    record = observed.record(revision)
    if observed.spec and record:
        return _with_live_settings(record.group, observed.spec)
    last_valid = _last_spec(observed, revision)
    return observed.spec or last_valid


def _last_spec(observed: GroupObservation, revision: str | None) -> ConsumerGroup | None:
    """The last valid spec of a revision with its live settings, or at least the recorded one."""
    record = observed.record(revision)
    # The ConfigMap with live settings has the spec's own name, also for a driver of the former
    # naming scheme.
    named = (record.revision if record else None, revision)
    found = (observed.driver_specs.get(name) for name in named if name)
    return next(filter(None, found), record.group if record else None)


def _with_live_settings(group: ConsumerGroup, requested: ConsumerGroup) -> ConsumerGroup:
    """A recorded spec, with its live settings taken from the requested spec."""
    # drainTimeout is also the pod's grace period, so it belongs to the recorded driver.
    upgrade = requested.spec.upgrade.model_copy(
        update={"drain_timeout": group.spec.upgrade.drain_timeout}
    )
    live = {
        "state": requested.spec.state,
        "replicas": requested.spec.replicas,
        "autoscaling": requested.spec.autoscaling,
        "idle": requested.spec.idle,
        "upgrade": upgrade,
    }
    return group.model_copy(update={"spec": group.spec.model_copy(update=live)})


# ------------------------------------------------------------------------------------------- events


def _events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup | None
) -> Iterator[RolloutEvent]:
    """Every event that holds now; ``rollout.TABLE`` selects the one that matters in this stage."""
    if observed.deleting:
        yield RolloutEvent.DELETE
    yield from _stop_events(observed, rollout, group)
    if group is None:
        return
    yield RolloutEvent.SUSPEND if group.spec.state == "Suspended" else RolloutEvent.RESUME
    yield from _spec_events(observed, rollout, group)
    yield from _driver_events(observed, rollout, group)


def _spec_events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup
) -> Iterator[RolloutEvent]:
    """Events from comparing the requested revision with the revisions that have a role."""
    wanted = observed.revision_of(group)
    active = observed.driver(rollout.active)
    if rollout.active is None:
        yield RolloutEvent.FIRST
    elif wanted == rollout.active:
        if rollout.stage is Stage.TRYING or rollout.target not in {None, rollout.active}:
            yield RolloutEvent.WITHDRAWN
    elif wanted == rollout.target or is_queued(observed, rollout):
        return
    elif trials.is_due(observed, rollout, group):
        yield from trials.trial_events(observed, rollout, group)
    else:
        yield (
            RolloutEvent.CHANGE_WARM
            if _can_warm(observed, active, group)
            else RolloutEvent.CHANGE_DRAIN
        )


def is_queued(observed: GroupObservation, rollout: RolloutStatus) -> bool:
    """Return whether the requested revision waits until fewer other groups change theirs.

    A group that should land and does not never waits: its change may be what lets it land again.
    """
    active = observed.driver(rollout.active)
    return (
        observed.rollout_limit > 0
        and observed.spec is not None
        and observed.revision_of(observed.spec) != rollout.active
        and rollout.stage in {Stage.SETTLED, Stage.WATCHING}
        and active is not None
        and (active.lands(observed.now) or _sleeps_or_wakes(observed, active))
    )


def _sleeps_or_wakes(observed: GroupObservation, active: RevisionDriver) -> bool:
    """Return whether the group has no driver as it needs none, or one that starts and is well."""
    spec = observed.spec.spec if observed.spec else None
    if spec is None or (spec.schedule is None and spec.idle is None):
        return False
    if not active.replicas:
        return True
    starts = active.started is None or observed.now - active.started < LOOK_PATIENCE
    return starts and active.pod_failure is None and active.last_exit is None


def _can_warm(
    observed: GroupObservation, active: RevisionDriver | None, group: ConsumerGroup
) -> bool:
    """Return whether the next driver may start while the active one lands."""
    return (
        group.spec.upgrade.strategy != "Recreate"
        and active is not None
        and active.lands(observed.now)
    )


def _driver_events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup
) -> Iterator[RolloutEvent]:
    """Events from the state of the active driver and of the target's driver."""
    active = observed.driver(rollout.active)
    limit = group.spec.upgrade.rollback
    if rollout.target:
        yield from _target_events(observed, rollout, group)
        # A driver that drains still holds the lane: it hands over when it is done.
        if active is None or active.phase(observed.now) not in {*OWNS_LANE, DriverPhase.DRAINING}:
            yield RolloutEvent.YIELDED
    if active and active.lands(observed.now):
        yield RolloutEvent.LANDING
    # A rollback that failed is tried again, even if the failed revision seems to work meanwhile.
    rejected = _is_rejected(observed, rollout)
    if _can_revert(observed, rollout) and (
        rejected or driver_failure(observed, active, rollout, limit)
    ):
        yield (
            RolloutEvent.REVERT_WARM
            if _can_warm(observed, active, group)
            else RolloutEvent.REVERT_DRAIN
        )
    proven = (
        rollout.committed == rollout.active
        and not rejected
        and time_in_stage(observed, rollout) > limit.window
    )
    if not rollout.previous or proven:
        yield RolloutEvent.PROVEN


def _target_events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup
) -> Iterator[RolloutEvent]:
    """Events from the state of the target's driver."""
    target = observed.driver(rollout.target)
    limit = group.spec.upgrade.rollback
    if driver_failure(observed, target, rollout, limit):
        yield RolloutEvent.TARGET_BROKEN
    elif target and target.phase(observed.now) in {DriverPhase.STANDBY, *OWNS_LANE}:
        yield RolloutEvent.TARGET_WARM
    crowded = rollout.held is not None and rollout.held.reason in _WITHOUT_ROOM
    if is_rollback(rollout) and crowded and held_for(observed, rollout) > limit.ready_in:
        yield RolloutEvent.NO_ROOM


def _can_revert(observed: GroupObservation, rollout: RolloutStatus) -> bool:
    """Return whether there is a revision to roll back to, and no pause before the next attempt."""
    previous = observed.record(rollout.previous)
    if previous is None or rollout.previous == rollout.active:
        return False
    excluded = {_digest(observed, rollout.active), rollout.rejected and rollout.rejected.digest}
    paused = rollout.retry is not None and observed.now < rollout.retry.time
    return previous.digest not in excluded and not paused


def _is_rejected(observed: GroupObservation, rollout: RolloutStatus) -> bool:
    """Return whether the active revision is one that should be rolled back."""
    rejected = rollout.rejected
    return rejected is not None and rejected.digest == _digest(observed, rollout.active)


def _digest(observed: GroupObservation, revision: str | None) -> str | None:
    """The digest of a revision's spec, from its Deployment or its record."""
    driver = observed.driver(revision)
    record = observed.record(revision)
    return driver.digest if driver else record.digest if record else None


def _stop_events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup | None
) -> Iterator[RolloutEvent]:
    """Events from the remaining pods: of all drivers during deletion, else of the active one."""
    every = rollout.stage is Stage.DELETING
    if not any(
        driver.pods
        for driver in observed.drivers.values()
        if every or driver.revision == rollout.active
    ):
        yield RolloutEvent.DRAINED
    timeout = group.spec.upgrade.drain_timeout if group else DRAIN_TIMEOUT
    if rollout.since and observed.now - rollout.since > timeout:
        yield RolloutEvent.TIMED_OUT


def _rejected_spec(
    observed: GroupObservation,
    rollout: RolloutStatus,
    event: RolloutEvent,
    group: ConsumerGroup | None,
) -> Rejected | None:
    """The failed spec, if the event rolls back the active revision or gives up the next one."""
    trial = rollout.trial
    if event is RolloutEvent.TRIAL_FAILED and group and trial:
        return Rejected(
            digest=digest_of(group),
            reason=trial.reason or ConditionReason.TRIAL_FAILED,
            message=trial.message,
            generation=generation_of(trial.revision),
        )
    if (
        event
        not in {RolloutEvent.REVERT_WARM, RolloutEvent.REVERT_DRAIN, RolloutEvent.TARGET_BROKEN}
        or not group
    ):
        return None
    failed = rollout.target if event is RolloutEvent.TARGET_BROKEN else rollout.active
    digest = _digest(observed, failed)
    driver = observed.driver(failed)
    if not failed or not digest:
        return None
    failure = driver_failure(observed, driver, rollout, group.spec.upgrade.rollback)
    return Rejected(
        digest=digest,
        reason=failure.reason if failure else ConditionReason.UNKNOWN,
        message=failure.message if failure else "",
        generation=generation_of(failed),
    )


# ------------------------------------------------------------------------------------ plan, scaling


def _plan(observed: GroupObservation) -> PlanStatus | None:
    """The impact of the latest edit, compared with the spec that was in force before it."""
    old = observed.status.plan
    rollout = observed.status.rollout
    before = _last_spec(observed, trials.next_revision(rollout))
    if (
        observed.spec is None
        or before is None
        or (old and old.observed_generation == observed.generation)
    ):
        return old
    found: SpecDifference = difference(before.spec, observed.spec.spec)
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
    observed: GroupObservation, group: ConsumerGroup | None, hold: ScalingReason | None
) -> Scaling:
    if group is None or group.spec.state == "Suspended" or observed.deleting:
        return Scaling(0, ScalingReason.BY_HAND)
    policy = group.spec.autoscaling
    if policy is None:
        return Scaling(group.spec.replicas, ScalingReason.BY_HAND)
    last = observed.status.autoscaling
    known = last.ineffective if last else None
    if not observed.samples:
        # An operator that has just started has no measurements. It keeps the last decision.
        return Scaling(
            bounded(last.desired if last else group.spec.replicas, policy),
            hold or ScalingReason.HOLD_LAG_UNKNOWN,
            ineffective=known,
        )
    context = ScalingContext(hold, known)
    return scale(
        samples=observed.samples,
        policy=policy,
        cores=group.spec.executor.cores,
        now=observed.now,
        context=context,
    )


def _scaling_hold(
    observed: GroupObservation, rollout: RolloutStatus, *, sleeps: bool
) -> ScalingReason | None:
    """Return why the executor count must not change now, as far as the samples do not show it."""
    driver = observed.driver(rollout.active)
    status = driver.fresh_status(observed.now) if driver else None
    if rollout.stage in IN_TRANSITION:
        return ScalingReason.HOLD_UPGRADING
    if sleeps:
        return ScalingReason.HOLD_SLEEPING
    if status is None:
        return ScalingReason.HOLD_LAG_UNKNOWN
    return ScalingReason.HOLD_COMMITS_FAILING if status.commits.consecutive_failures else None
