"""The conditions of a group: each is a function of its observation and its desired state. Pure.

``Ready`` is not the sum of the other conditions. It means that the active generation lands, as far
as is known now, and stays True while the next generation warms up. ``Stalled`` means that a user
must act; its reason names the section of the troubleshooting guide to read.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

from landfall import errors
from landfall.api.contract import DriverPhase, Status
from landfall.api.next_steps import FILE_PLACEHOLDER, NEXT_STEPS
from landfall.api.status_summary import totals_of
from landfall.api.values import plural
from landfall_operator.api.reasons import BY_WORD, TRIAL_REASONS, ConditionReason, ConditionType
from landfall_operator.api.revisions import revision_with
from landfall_operator.api.status import (
    Condition,
    Rejected,
    RolloutStatus,
    Stage,
    TrialStatus,
)
from landfall_operator.api.status_values import ConditionStatus
from landfall_operator.api.validation import secrets_over_plain_http
from landfall_operator.api.verbs import PAUSE
from landfall_operator.core import trials
from landfall_operator.core.desired_state import DesiredState, is_queued
from landfall_operator.core.driver_health import (
    driver_failure,
    held_for,
    judged_driver,
    obstacle,
    start_failure,
)
from landfall_operator.core.parsing import executor_failure
from landfall_operator.core.rollout import is_rollback
from landfall_operator.core.snapshot import GroupObservation, PodFailure, RevisionDriver
from landfall_operator.objects.names import revision_name
from landfall_operator.reporting import schedules
from landfall_operator.reporting.publishers import condition_of, publisher_statuses

NEEDS_USER = frozenset(
    {*(ConditionReason(reason.value) for reason in errors.Reason), ConditionReason.SECRET_MISSING}
)
"""Reasons that do not go away before a user acts."""


class View(NamedTuple):
    """The inputs of conditions; ``status`` is None unless the active driver's is fresh."""

    observed: GroupObservation
    desired: DesiredState
    driver: RevisionDriver | None
    status: Status | None


class ConditionState(NamedTuple):
    """A condition without its type and times."""

    status: ConditionStatus
    reason: ConditionReason
    message: str = ""


def next_command(view: View, step: str) -> str:
    """Return the command to type, as the end of a message; ``step`` is a driver's, or empty.

    A driver names the command as it is typed next to a file of the group. In the driver's pod, the
    command knows the group and asks the driver.
    """
    if not step or view.driver is None:
        return ""
    deployment = revision_name(view.observed.name, view.driver.revision)
    command = step.replace(f" {FILE_PLACEHOLDER}", "")
    return f"; next: kubectl -n {view.observed.namespace} exec deploy/{deployment} -- {command}"


def parked_files(view: View) -> ConditionState | None:
    """The files that stay parked until a user decides, if there are any."""
    feeds = view.status.feeds if view.status else ()
    waiting = [feed for feed in feeds if feed.undecided_parts]
    if not waiting:
        return None
    first = waiting[0]
    count = sum(feed.undecided_parts for feed in waiting)
    message = (
        f"{plural(count, 'part')} of files could not be read, however often "
        f"{'it was' if count == 1 else 'they were'} tried; {first.topic}: {first.error}"
        f"{next_command(view, first.next_step)}"
    )
    return ConditionState("True", ConditionReason.FILE_UNREADABLE, message)


STAGES: Mapping[Stage, ConditionReason] = {
    Stage.TRYING: ConditionReason.TRYING,
    Stage.WARMING: ConditionReason.WARMING,
    Stage.YIELDING: ConditionReason.HANDING_OVER,
    Stage.DRAINING: ConditionReason.DRAINING,
    Stage.OPENING: ConditionReason.HANDING_OVER,
    Stage.WATCHING: ConditionReason.WATCHING,
    Stage.SUSPENDING: ConditionReason.DRAINING,
    Stage.SUSPENDED: ConditionReason.SUSPENDED,
    Stage.DELETING: ConditionReason.DELETING,
    Stage.DELETED: ConditionReason.DELETING,
}
"""The reason of conditions during a stage."""


def upgrading(view: View) -> ConditionState:
    """Return whether one revision takes over from another, or is watched after it did."""
    rollout = view.desired.rollout
    if trial := trials.present_trial(rollout):
        return ConditionState("True", ConditionReason.TRYING, _trial_text(view, trial))
    between = rollout.target or rollout.previous
    if not between or rollout.stage in {Stage.SETTLED, Stage.SUSPENDING, Stage.SUSPENDED}:
        return ConditionState("False", ConditionReason.AS_EXPECTED)
    reason = STAGES[rollout.stage]
    if is_rollback(rollout) or _next_rollback(rollout):
        reason = ConditionReason.ROLLING_BACK
    if rollout.held:
        return ConditionState(
            "True", rollout.held.reason, f"{_roles_text(rollout)}; {_wait_text(view)}"
        )
    return ConditionState("True", reason, _roles_text(rollout))


def _trial_text(view: View, trial: TrialStatus) -> str:
    """Return which revision is tried, and its progress."""
    found = (view.observed.backfills or {}).get(trial.backfill)
    progress = f"Backfill {trial.backfill} {trials.progress_text(found)}"
    return f"trying {trial.revision} next to {view.desired.rollout.active}: {progress}"


def _roles_text(rollout: RolloutStatus) -> str:
    if rollout.target:
        return f"changing from {rollout.active} to {rollout.target}"
    return _next_rollback(rollout) or f"watching {rollout.active} before it is settled"


def _next_rollback(rollout: RolloutStatus) -> str:
    """When a rollback that failed is tried again; empty if none is to be."""
    if not rollout.retry or not rollout.rejected or not rollout.previous or rollout.target:
        return ""
    times = plural(rollout.retry.attempts, "time")
    return (
        f"the rollback from {rollout.active} to {rollout.previous} has failed {times} and is tried "
        f"again at {rollout.retry.time:%H:%M:%S} UTC: {rollout.retry.message}"
    )


def _wait_text(view: View) -> str:
    """Return what the judged driver waits for."""
    rollout = view.desired.rollout
    found = obstacle(view.observed, judged_driver(view.observed, rollout))
    return f"{rollout.target or rollout.active} waits: {found.message if found else 'unknown'}"


def held_up(view: View) -> ConditionState | None:
    """The obstacle that a rollout waits for, if it does not end by itself or has not for long."""
    rollout = view.desired.rollout
    if rollout.held is None or view.desired.group is None:
        return None
    patience = view.desired.group.spec.upgrade.rollback.ready_in
    long = held_for(view.observed, rollout) > patience
    if not long and rollout.held.reason not in NEEDS_USER:
        return None
    return ConditionState("True", rollout.held.reason, _wait_text(view))


def rejected_text(rollout: RolloutStatus, rejected: Rejected) -> str:
    """Return why the spec that the user asks for does not land, and when it is tried again."""
    revision = revision_with(rejected.generation, rejected.digest)
    if trials.is_rejected(rollout):
        why = (
            f"{revision} was tried, and has landed nothing ({rejected.reason}): {rejected.message}"
        )
    else:
        why = f"{revision} was rolled back ({rejected.reason}): {rejected.message}"
    if pending := _next_rollback(rollout):
        return f"{why}; {pending}"
    if rollout.retry:
        return f"{why}; it is tried again at {rollout.retry.time:%H:%M:%S} UTC"
    return why


FAILURE_THRESHOLD = 2
"""Consecutive commit failures that a condition reports: a single one may be transient."""
DEFAULT_LAG_TARGET = timedelta(minutes=2)
"""How long records may be overdue in a group without ``autoscaling.targetLag``."""
RECOVERY_TIME = timedelta(seconds=45)
"""A driver that takes over is in phase Recovering for so long at most without being reported."""
_OF_THE_STORE = frozenset({ConditionReason.STORE_UNSAFE, ConditionReason.STORE_DENIED})
_OF_THE_SOURCE = frozenset({ConditionReason.SOURCE_DENIED, ConditionReason.TOPIC_MISSING})
_OF_THE_SCHEMAS = frozenset(
    {
        ConditionReason.SCHEMAS_UNAVAILABLE,
        ConditionReason.SCHEMAS_DENIED,
        ConditionReason.SCHEMAS_CHANGED,
    }
)


def conditions(observed: GroupObservation, desired: DesiredState) -> tuple[Condition, ...]:
    """All conditions; one whose status is unchanged keeps its ``lastTransitionTime``."""
    driver = observed.driver(desired.rollout.active)
    status = driver.fresh_status(observed.now) if driver else None
    view = View(observed, desired, driver, status)
    before = {condition.type: condition for condition in observed.status.conditions}
    return tuple(
        _condition(view, before.get(kind), kind, finding)
        for kind, find in _FINDERS.items()
        if (finding := _asleep(view, kind) or find(view))
    )


def _condition(
    view: View, before: Condition | None, kind: ConditionType, finding: ConditionState
) -> Condition:
    same = before is not None and before.status == finding.status
    found = Condition(
        type=kind,
        status=finding.status,
        reason=finding.reason,
        message=finding.message,
        observed_generation=acted_on(view.observed),
        last_transition_time=before.last_transition_time if same and before else view.observed.now,
    )
    # Conditions are most of the memory that a group takes: equal ones are there once.
    return before if before == found else found


def acted_on(observed: GroupObservation) -> int:
    """The metadata.generation that was acted on last: while the group is paused, no later one."""
    held = observed.paused and not observed.deleting
    return observed.status.observed_generation if held else observed.generation


def _asleep(view: View, kind: ConditionType) -> ConditionState | None:
    """Return the finding for a group that needs no driver now."""
    is_ready = kind is ConditionType.READY
    is_suspended = view.desired.rollout.stage is Stage.SUSPENDED and not view.observed.spec_error
    if is_ready and is_suspended:
        return ConditionState("True", ConditionReason.SUSPENDED, "no driver runs, as the spec asks")
    if not view.desired.rests or kind not in schedules.OF_A_DRIVER:
        return None
    message = schedules.sleeping_text(view.desired, view.observed.now) if is_ready else ""
    return ConditionState("True", ConditionReason.SLEEPING, message)


def _ready(view: View) -> ConditionState:
    stage = view.desired.rollout.stage
    if stage in {Stage.SUSPENDING, Stage.SUSPENDED, Stage.DELETING, Stage.DELETED, Stage.DRAINING}:
        return ConditionState("False", STAGES[stage])
    if view.status is None:
        return _no_status(view)
    if not view.driver or not view.driver.lands(view.observed.now):
        text = f"the driver is in phase {view.status.phase}"
        failure = _pod_failure(view) or PodFailure(ConditionReason.STARTING, text)
        return _of_pod_failure(failure)
    if recovering := _recovering(view):
        return recovering
    for find in (_commits_healthy, _source_reachable, _some_executor):
        if (finding := find(view)).status == "False":
            return finding
    return ConditionState("True", ConditionReason.AS_EXPECTED)


def _deployed(view: View) -> ConditionState:
    """Return whether the requested spec is in force, and not only some revision of the group."""
    observed = view.observed
    rollout = view.desired.rollout
    if observed.spec_error:
        return ConditionState("False", ConditionReason.SPEC_INVALID, observed.spec_error)
    if rejected := _rejected(view):
        return rejected._replace(status="False")
    if observed.spec is None or observed.revision_of(observed.spec) != rollout.active:
        return _not_yet(view)
    if (observed.spec.spec.state == "Suspended") != (rollout.stage is Stage.SUSPENDED):
        return _not_yet(view)
    ready = _asleep(view, ConditionType.READY) or _ready(view)
    if ready.status == "True" and rollout.target:
        return _not_yet(view)
    return ready


def _not_yet(view: View) -> ConditionState:
    """Return why a revision other than the requested one is in force, though nothing is wrong."""
    if view.observed.paused and not view.observed.deleting:
        return ConditionState("False", ConditionReason.PAUSED, f"the annotation {PAUSE} is true")
    if queued := _queued(view):
        return queued._replace(status="False")
    rollout = view.desired.rollout
    change = upgrading(view)
    if change.status == "True":
        return change._replace(status="False")
    return ConditionState("False", STAGES.get(rollout.stage, ConditionReason.STARTING))


def _queued(view: View) -> ConditionState | None:
    """Return that the requested revision waits for other groups, if it does."""
    if view.desired.rollout.rejected or not is_queued(view.observed, view.desired.rollout):
        return None
    limit = plural(view.observed.rollout_limit, "other group")
    change = "changes its revision" if view.observed.rollout_limit == 1 else "change their revision"
    return ConditionState(
        "True", ConditionReason.QUEUED, f"waiting while {limit} {change}, as many as may at once"
    )


def _starts_first(rollout: RolloutStatus) -> bool:
    """Return whether the group's first revision takes the lane, which has no owner."""
    return rollout.stage is Stage.OPENING and not (rollout.previous or rollout.committed)


def _recovering(view: View) -> ConditionState | None:
    """Return what the driver does before it reads new records, if that takes long."""
    report = view.driver.report if view.driver else None
    if report is None or report.status.phase is not DriverPhase.RECOVERING:
        return None
    if report.phase_lasts < RECOVERY_TIME:
        return None
    since = report.received - report.phase_lasts
    message = f"the driver has been completing what a former one left since {since:%H:%M} UTC"
    return ConditionState(
        "False", ConditionReason.RECOVERING, f"{message}; nothing new lands meanwhile"
    )


def _no_status(view: View) -> ConditionState:
    """Return why there is no fresh status of the active driver."""
    if view.driver is None:
        error = view.observed.spec_error
        if view.observed.name_taken and not error:
            return ConditionState("False", ConditionReason.NAME_TAKEN, view.observed.name_taken)
        return ConditionState(
            "False", ConditionReason.SPEC_INVALID if error else ConditionReason.STARTING, error
        )
    if failure := _pod_failure(view):
        return _of_pod_failure(failure)
    if view.driver.report is None or view.driver.process_gone:
        return ConditionState("False", ConditionReason.STARTING, "waiting for the driver to start")
    since = view.driver.report.received.isoformat(timespec="seconds")
    return ConditionState(
        "False", ConditionReason.UNREACHABLE, f"the driver has not answered since {since}"
    )


def _pod_failure(view: View) -> PodFailure | None:
    """Return why the active driver's pod does not run.

    A reason that only a user can end holds while the container starts again, too: the conditions of
    a driver that ends at each start would otherwise change at each start.
    """
    driver = view.driver
    if driver is None or driver.pod_failure:
        return driver.pod_failure if driver else None
    if view.status is None:
        starts = driver.report is None or driver.process_gone
    else:
        starts = view.status.phase is DriverPhase.STARTING
    failure = start_failure(view.observed, driver) if starts else None
    return failure if failure and failure.reason in NEEDS_USER else None


def _of_pod_failure(failure: PodFailure) -> ConditionState:
    return ConditionState("False", failure.reason, failure.message)


def _commits_healthy(view: View) -> ConditionState:
    if view.status is None:
        return ConditionState("Unknown", ConditionReason.UNKNOWN)
    commits = view.status.commits
    if commits.consecutive_failures < FAILURE_THRESHOLD:
        return ConditionState("True", ConditionReason.AS_EXPECTED)
    last = commits.last_failure
    if _denial(view.status):
        reason = ConditionReason.STORE_DENIED
    elif last is not None and last.reason.startswith("Store"):
        reason = ConditionReason.STORE_UNAVAILABLE
    elif last is not None and last.reason in _OF_THE_SCHEMAS:
        reason = ConditionReason(last.reason)
    else:
        reason = ConditionReason.COMMITS_FAILING
    message = (
        f"{plural(commits.consecutive_failures, 'consecutive commit failure')}; the last one: "
        f"{last.message if last else 'unknown'}"
    )
    return ConditionState("False", reason, message)


def _denial(status: Status) -> str:
    """The store's refusal that a running driver keeps retrying; empty if there is none."""
    last = status.commits.last_failure
    if last is None or status.commits.consecutive_failures < FAILURE_THRESHOLD:
        return ""
    return last.message if last.reason == ConditionReason.STORE_DENIED else ""


def _within_lag_target(view: View) -> ConditionState:
    if view.status is None or not view.status.lag_known or view.desired.group is None:
        return ConditionState("Unknown", ConditionReason.UNKNOWN)
    spec = view.desired.group.spec
    target = spec.autoscaling.target_lag if spec.autoscaling else DEFAULT_LAG_TARGET
    target = spec.schedule.deadline if spec.schedule else target
    overdue = timedelta(seconds=round(view.status.overdue_seconds))
    if overdue <= target:
        return ConditionState("True", ConditionReason.AS_EXPECTED)
    # The message names the target and not the present value: a message that changes in every pass
    # would cause a write in every pass.
    return ConditionState(
        "False", ConditionReason.LAG_ABOVE_TARGET, f"records are overdue by more than {target}"
    )


def _source_reachable(view: View) -> ConditionState:
    failure = _pod_failure(view)
    if failure and failure.reason in _OF_THE_SOURCE:
        return _of_pod_failure(failure)
    if view.status is None:
        return ConditionState("Unknown", ConditionReason.UNKNOWN)
    commits = view.status.commits
    last = view.status.commits.last_failure
    failing = commits.consecutive_failures >= FAILURE_THRESHOLD
    if last and failing and last.reason.startswith("Source"):
        return ConditionState("False", ConditionReason.SOURCE_UNAVAILABLE, last.message)
    return ConditionState("True", ConditionReason.AS_EXPECTED, _read_elsewhere(view.status))


def _read_elsewhere(status: Status) -> str:
    """Return what is read from another group because Kafka has lost it; empty if nothing is."""
    found = next((p for p in status.partitions if p.read_from), None)
    if found is None:
        return ""
    return (
        f"Kafka has lost offsets of {found.topic}/{found.partition}: they are read from what "
        f"{found.read_from} has landed"
    )


def _store_safe(view: View) -> ConditionState:
    failure = _pod_failure(view)
    if failure and failure.reason in _OF_THE_STORE:
        return _of_pod_failure(failure)
    if view.status and (denial := _denial(view.status)):
        return ConditionState("False", ConditionReason.STORE_DENIED, denial)
    # A driver lands only after its probe of the store has passed.
    if view.driver and view.driver.lands(view.observed.now):
        return ConditionState("True", ConditionReason.AS_EXPECTED)
    return ConditionState("Unknown", ConditionReason.UNKNOWN)


def _executors_ready(view: View) -> ConditionState:
    workers = view.status.workers if view.status else None
    if workers is None:
        return ConditionState("Unknown", ConditionReason.UNKNOWN)
    if failure := executor_failure(view.observed, workers):
        return _of_pod_failure(failure)
    if workers.wanted and not workers.registered:
        return ConditionState("Unknown", ConditionReason.STARTING, "no executor has started yet")
    return ConditionState("True", ConditionReason.AS_EXPECTED)


def _some_executor(view: View) -> ConditionState:
    """False if records are overdue because no executor runs."""
    workers = view.status.workers if view.status else None
    if workers is None or workers.registered or _within_lag_target(view).status != "False":
        return ConditionState("True", ConditionReason.AS_EXPECTED)
    return _executors_ready(view)


def _published(view: View) -> ConditionState | None:
    observed = view.observed
    desired = view.desired
    found = condition_of(publisher_statuses(observed, desired), desired, observed.now)
    return ConditionState(*found) if found else None


def _replaced(view: View) -> ConditionState | None:
    """Return what the store refuses of REPLACEs; None while it has refused nothing."""
    known = view.observed.status.conditions
    before = next(
        (condition for condition in known if condition.type is ConditionType.REPLACED), None
    )
    if view.status is None:  # a refusal stays until the store is asked again
        return ConditionState(before.status, before.reason, before.message) if before else None
    left = view.status.replacing
    # No count of objects: a message that changes in every pass would cause a write in every pass.
    if left.refused:
        message = (
            f"the store refuses new objects of {plural(left.refused, 'REPLACE')}; what they are "
            f"to replace counts as before: {left.problem}{next_command(view, left.next_step)}"
        )
        return ConditionState("False", ConditionReason.REPLACEMENT_REFUSED, message)
    if left.undeletable_objects:
        message = (
            "the store refuses to delete replaced objects, so who lists the bucket finds their "
            f"rows twice; allow it: {left.problem}"
        )
        return ConditionState("False", ConditionReason.REPLACED_NOT_DELETED, message)
    return ConditionState("True", ConditionReason.AS_EXPECTED) if before else None


def _on_schedule(view: View) -> ConditionState | None:
    found = schedules.condition_of(view.observed, view.desired, _problem(view))
    return ConditionState(*found) if found else None


def _problem(view: View) -> str:
    """Return what keeps the group from landing, as far as that is known."""
    ready = _ready(view)
    stalled = _stalled(view)
    ended = view.driver.last_exit if view.driver else None
    if stalled.status == "True":
        return stalled.message
    # A driver that starts again and again reports why only when it ends.
    return ended.message if ended and ready.reason is ConditionReason.STARTING else ready.message


def _spec_valid(view: View) -> ConditionState:
    if view.observed.spec_error:
        return ConditionState("False", ConditionReason.SPEC_INVALID, view.observed.spec_error)
    group = view.observed.spec
    return ConditionState(
        "True", ConditionReason.AS_EXPECTED, secrets_over_plain_http(group) if group else ""
    )


def _stalled(view: View) -> ConditionState:
    failure = _pod_failure(view)
    # The order is the priority: what prevents everything else from working comes first.
    if view.observed.spec_error:
        return ConditionState("True", ConditionReason.SPEC_INVALID, view.observed.spec_error)
    if view.observed.name_taken:
        return ConditionState("True", ConditionReason.NAME_TAKEN, view.observed.name_taken)
    if failure and failure.reason in NEEDS_USER:
        return ConditionState("True", failure.reason, failure.message)
    if view.status and (stop := _stop_of_driver(view, view.status)):
        return stop
    if rejected := _rejected(view):
        return rejected
    found = (
        held_up(view)
        or _not_started(view)
        or _blocked(view)
        or parked_files(view)
        or _blocked_before(view)
    )
    return found or ConditionState("False", ConditionReason.AS_EXPECTED)


def _not_started(view: View) -> ConditionState | None:
    """Return why the driver counts as failed before it landed, with none to roll back to."""
    rollout = view.desired.rollout
    group = view.desired.group
    if group is None or rollout.stage is not Stage.OPENING:
        return None
    failure = driver_failure(view.observed, view.driver, rollout, group.spec.upgrade.rollback)
    if failure is None:
        return None
    return ConditionState(
        "True",
        failure.reason,
        f"{failure.message}; there is no earlier revision to roll back to, so it is tried again"
        " and again",
    )


def _rejected(view: View) -> ConditionState | None:
    """Return why the requested spec was rolled back or given up, if it was."""
    rejected = view.desired.rollout.rejected
    if rejected is None:
        return None
    reason = rejected.reason if rejected.reason in TRIAL_REASONS else ConditionReason.ROLLED_BACK
    return ConditionState("True", reason, rejected_text(view.desired.rollout, rejected))


def _blocked_before(view: View) -> ConditionState | None:
    """Return the last report of a driver with a schedule, while none reports more."""
    before = schedules.stop_before(view.observed, view.desired, view.status)
    return ConditionState("True", before.reason, before.message) if before else None


def _blocked(view: View) -> ConditionState | None:
    """The topic partitions that are blocked, if any are."""
    blocked = [p for p in view.status.partitions if p.blocked] if view.status else []
    if not view.status or not blocked:
        return None
    count = totals_of(view.status).blocked
    first = blocked[0]
    verb = "is" if count == 1 else "are"
    message = (
        f"{plural(count, 'topic partition')} {verb} blocked and "
        f"{'needs' if count == 1 else 'need'} operator action; "
        f"{first.topic}/{first.partition}: {first.message}{next_command(view, first.next_step)}"
    )
    return ConditionState("True", _blocked_reason(first.blocked), message)


def _stop_of_driver(view: View, status: Status) -> ConditionState | None:
    """Return what keeps a running driver from landing anything, if a user must act."""
    if status.phase is DriverPhase.STALLED:
        return ConditionState("True", ConditionReason.DRIVER_STALLED, status.message)
    if denial := _denial(status):
        step = NEXT_STEPS[errors.Reason.STORE_DENIED].format(group=FILE_PLACEHOLDER)
        retry = next_command(view, step)
        return ConditionState(
            "True", ConditionReason.STORE_DENIED, f"{denial}; grant access{retry}"
        )
    found = _some_executor(view)
    return found._replace(status="True") if found.status == "False" else None


def _blocked_reason(name: str | None) -> ConditionReason:
    """The driver's reason; the general one if this release does not know the driver's reason."""
    return BY_WORD.get(name or "", ConditionReason.PARTITIONS_BLOCKED)


def _reconciling(view: View) -> ConditionState:
    stage = view.desired.rollout.stage
    if view.observed.paused and not view.observed.deleting:
        return ConditionState("False", ConditionReason.PAUSED, f"the annotation {PAUSE} is true")
    if stage not in {Stage.SETTLED, Stage.WATCHING, Stage.SUSPENDED, Stage.DELETED}:
        first = _starts_first(view.desired.rollout)
        return ConditionState("True", ConditionReason.STARTING if first else STAGES[stage])
    if queued := _queued(view):
        return queued
    lands = view.driver is not None and view.driver.lands(view.observed.now)
    lands = lands or view.desired.rests
    starting = stage in {Stage.SETTLED, Stage.WATCHING} and view.driver is not None and not lands
    if starting:
        return ConditionState("True", ConditionReason.STARTING)
    return ConditionState("False", ConditionReason.AS_EXPECTED)


_FINDERS: Mapping[ConditionType, Callable[[View], ConditionState | None]] = {
    ConditionType.READY: _ready,
    ConditionType.DEPLOYED: _deployed,
    ConditionType.COMMITS_HEALTHY: _commits_healthy,
    ConditionType.WITHIN_LAG_TARGET: _within_lag_target,
    ConditionType.SOURCE_REACHABLE: _source_reachable,
    ConditionType.STORE_SAFE: _store_safe,
    ConditionType.EXECUTORS_READY: _executors_ready,
    ConditionType.PUBLISHED: _published,
    ConditionType.ON_SCHEDULE: _on_schedule,
    ConditionType.REPLACED: _replaced,
    ConditionType.SPEC_VALID: _spec_valid,
    ConditionType.UPGRADING: upgrading,
    ConditionType.STALLED: _stalled,
    ConditionType.RECONCILING: _reconciling,
}
