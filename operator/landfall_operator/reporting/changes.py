"""What conditions say about a rollout: its stage, a rollback, what it waits for. Pure."""

from collections.abc import Mapping

from landfall.api.values import plural
from landfall_operator.api.reasons import Reason
from landfall_operator.api.revisions import revision_with
from landfall_operator.api.status import Rejected, RolloutStatus, Stage
from landfall_operator.api.trial_status import TrialStatus
from landfall_operator.core import trials
from landfall_operator.core.driver_health import held_for, judged_driver, obstacle
from landfall_operator.core.rollout import is_rollback
from landfall_operator.reporting.findings import NEEDS_USER, Finding, View

STAGES: Mapping[Stage, Reason] = {
    Stage.TRYING: Reason.TRYING,
    Stage.WARMING: Reason.WARMING,
    Stage.YIELDING: Reason.HANDING_OVER,
    Stage.DRAINING: Reason.DRAINING,
    Stage.OPENING: Reason.HANDING_OVER,
    Stage.WATCHING: Reason.WATCHING,
    Stage.SUSPENDING: Reason.DRAINING,
    Stage.SUSPENDED: Reason.SUSPENDED,
    Stage.DELETING: Reason.DELETING,
    Stage.DELETED: Reason.DELETING,
}
"""The reason of conditions during a stage."""


def upgrading(view: View) -> Finding:
    """Whether one revision takes over from another, or is watched after it did."""
    rollout = view.desired.rollout
    if trial := trials.present_trial(rollout):
        return Finding("True", Reason.TRYING, _trial_text(view, trial))
    between = rollout.target or rollout.previous
    if not between or rollout.stage in {Stage.SETTLED, Stage.SUSPENDING, Stage.SUSPENDED}:
        return Finding("False", Reason.AS_EXPECTED)
    reason = STAGES[rollout.stage]
    if is_rollback(rollout) or _next_rollback(rollout):
        reason = Reason.ROLLING_BACK
    if rollout.held:
        return Finding("True", rollout.held.reason, f"{_roles_text(rollout)}; {_wait_text(view)}")
    return Finding("True", reason, _roles_text(rollout))


def _trial_text(view: View, trial: TrialStatus) -> str:
    """Which revision is tried, and how far that is."""
    found = (view.observed.backfills or {}).get(trial.backfill)
    progress = f"Backfill {trial.backfill} {trials.progress_text(found)}"
    return f"trying {trial.revision} beside {view.desired.rollout.active}: {progress}"


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
    """What the judged driver waits for."""
    rollout = view.desired.rollout
    found = obstacle(view.observed, judged_driver(view.observed, rollout))
    return f"{rollout.target or rollout.active} waits: {found.message if found else 'unknown'}"


def held_up(view: View) -> Finding | None:
    """The obstacle that a rollout waits for, if it does not end by itself or has not for long."""
    rollout = view.desired.rollout
    if rollout.held is None or view.desired.group is None:
        return None
    patience = view.desired.group.spec.upgrade.rollback.ready_in
    long = held_for(view.observed, rollout) > patience
    if not long and rollout.held.reason not in NEEDS_USER:
        return None
    return Finding("True", rollout.held.reason, _wait_text(view))


def rejected_text(rollout: RolloutStatus, rejected: Rejected) -> str:
    """Why the spec that the user asks for does not land, and when it is tried again."""
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
