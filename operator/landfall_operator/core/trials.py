"""Decides whether a revision is tried before it takes over, and when that has ended. Pure.

With strategy Shadow or Canary, a Backfill lands again, by the spec that the user asks for, what the
active revision has landed last. It does so in a side lane: no reader sees what it lands, and
nothing of it stays (docs/adr/0030). Its comparison is judged here.

A trial never holds a change up for ever. Where there is nothing to try a revision by, it takes over
without one, and ``status.rollout.trial`` records why. One that has not ended within
``trialTimeout`` is given up, and so is the revision.
"""

from collections.abc import Iterator
from datetime import datetime

from landfall.api.spec import ConsumerGroup
from landfall.api.values import duration_text, percent_text, plural
from landfall_operator.api.backfill_status import BackfillPhase
from landfall_operator.api.change_impact import ChangeImpact, difference, weight
from landfall_operator.api.reasons import BY_WORD, ConditionReason, is_environment
from landfall_operator.api.revisions import revision_with
from landfall_operator.api.status import (
    RolloutStatus,
    Stage,
    TrialComparison,
    TrialResult,
    TrialStatus,
)
from landfall_operator.api.status_values import whole_seconds
from landfall_operator.core.rollout import RolloutEvent, is_rollback
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.core.trial_backfills import TrialBackfill
from landfall_operator.humanize import shortened
from landfall_operator.objects.trials import STRATEGIES, backfill_name, terms_of, window_of

MAX_MESSAGE = 500
"""Characters of what is concluded."""

NOTHING_CHOSEN = ("NothingChosen", "NothingToCheck")
"""Reasons of a Backfill for which nothing was landed in its time (``landfall backfill land``)."""
IN_WORK = frozenset({BackfillPhase.LANDING, BackfillPhase.COMPARING})
"""Phases of a Backfill that does something."""

_GOES_ON = frozenset({TrialResult.PASSED, TrialResult.SKIPPED, TrialResult.OVERRULED})
_CHANGES = frozenset({RolloutEvent.CHANGE_TRY, RolloutEvent.CHANGE_WARM, RolloutEvent.CHANGE_DRAIN})
_SPEAKS_AGAINST = frozenset({TrialResult.REFUSED, TrialResult.FAILED})
_ROWS_STAY = (
    "generation",
    "uploadPolicy",
    "publish",
    "completeness",
    "compact",
    "badRecords",
    "upgrade",
    "ledger",
    "driver",
    "executor",
    "tuning",
)
"""Fields whose change changes no row, so that Shadow would find nothing."""
_ONLY_SPEED = ("badRecords", "driver", "executor", "tuning")
"""Sections that may change bad records or throughput, which Canary judges."""


def present_trial(rollout: RolloutStatus) -> TrialStatus | None:
    """The trial that is under way; None if none is."""
    return rollout.trial if rollout.stage is Stage.TRYING else None


def next_revision(rollout: RolloutStatus) -> str | None:
    """The revision that is about to land: the target, the one that is tried, or the active one."""
    trial = present_trial(rollout)
    return rollout.target or (trial.revision if trial else rollout.active)


# --------------------------------------------------------------------------------- before a change


def is_due(observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup) -> bool:
    """Return whether the requested revision has to be tried before it takes over.

    While its trial is under way, it still has to be.
    """
    if group.spec.upgrade.strategy not in STRATEGIES:
        return False
    wanted = observed.revision_of(group)
    trial = rollout.trial
    if trial and trial.revision == wanted:
        # What passed once is tried again for another change: other records come by then.
        under_way = rollout.stage is Stage.TRYING and trial.terms == terms_of(group)
        if trial.result is TrialResult.OVERRULED or (under_way and trial.result in _GOES_ON):
            return False
        if under_way:
            return True
    return not needless(observed, rollout, group)


def trial_events(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup
) -> Iterator[RolloutEvent]:
    """Yield the events of a revision that has to be tried before it takes over (``is_due``)."""
    trial = present_trial(rollout)
    if trial and (trial.revision, trial.terms) == (observed.revision_of(group), terms_of(group)):
        if trial.result in _SPEAKS_AGAINST:
            yield RolloutEvent.TRIAL_FAILED
        return
    # First a revision that fails is rolled back: it must not land while another one is tried.
    may_revert = rollout.stage is Stage.OPENING and rollout.previous is not None
    if not may_revert and not (rollout.target and is_rollback(rollout)):
        yield RolloutEvent.CHANGE_TRY


def needless(observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup) -> str:
    """Return why there is nothing to try the revision of a spec by; empty if there is something."""
    active = observed.record(rollout.active)
    if active is None or rollout.committed is None:
        return "no revision has landed anything yet"
    if why := _not_tried_anyhow(active.group, group):
        return why
    if observed.revision_of(group) == rollout.previous:
        return "it is the revision that landed before"
    window = window_of(group)
    last = _last_commit(observed, rollout)
    if last is None or observed.now - last > window:
        return f"nothing was landed within {duration_text(window)}"
    return ""


def _not_tried_anyhow(before: ConsumerGroup, after: ConsumerGroup) -> str:
    """Return why a trial is pointless for such a group or such a change; empty if it is not."""
    specs = (before.spec, after.spec)
    if any(spec.source.kafka is None for spec in specs):
        return "only what comes from Kafka can be landed again"
    if any(spec.schedule for spec in specs):
        return "the group lands by a schedule"
    if not _may_differ(before, after):
        return "the change concerns nothing that a trial could see"
    return ""


def _may_differ(before: ConsumerGroup, after: ConsumerGroup) -> bool:
    """Return whether the change may affect what is landed, or how fast."""
    fields = [f for f in difference(before.spec, after.spec).fields if _needs_driver(f)]
    strategy = after.spec.upgrade.strategy
    seen = _ONLY_SPEED if strategy == "Canary" else ()
    stays = tuple(field for field in _ROWS_STAY if field not in seen)
    return any(field.partition(".")[0] not in stays for field in fields)


def _needs_driver(field: str) -> bool:
    return weight(field) is ChangeImpact.NEW_REVISION


def _last_commit(observed: GroupObservation, rollout: RolloutStatus) -> datetime | None:
    """When the group landed something last, as far as is known."""
    driver = observed.driver(rollout.active)
    reported = driver.report.status.commits.last_time if driver and driver.report else None
    known = observed.status.commits.last_time if observed.status.commits else None
    times = [
        time for time in (datetime.fromisoformat(reported) if reported else None, known) if time
    ]
    return max(times, default=None)


def _trial_of(
    observed: GroupObservation, rollout: RolloutStatus, group: ConsumerGroup
) -> TrialStatus:
    """Return the status of the trial with which a change begins."""
    wanted = observed.revision_of(group)
    since = whole_seconds(observed.now)
    made = TrialStatus(revision=wanted, terms=terms_of(group), since=since)
    if why := needless(observed, rollout, group):
        return made.model_copy(
            update={"result": TrialResult.SKIPPED, "message": f"not tried: {why}"}
        )
    name = backfill_name(observed.name, wanted, since)
    return made.model_copy(update={"backfill": name})


# ------------------------------------------------------------------------------ during and after it


def with_result(observed: GroupObservation, rollout: RolloutStatus) -> RolloutStatus:
    """The rollout with the result of its trial, if there is one by now."""
    trial = present_trial(rollout)
    if trial is None or trial.result is not TrialResult.PENDING:
        return rollout
    record = observed.record(trial.revision)
    group = observed.spec or (record.group if record else None)
    judged = _judged(observed, trial, group) if group else trial
    return rollout.model_copy(update={"trial": judged})


def _judged(observed: GroupObservation, trial: TrialStatus, group: ConsumerGroup) -> TrialStatus:
    if observed.backfills is None:
        return trial
    found = observed.backfills.get(trial.backfill)
    if found and found.terminating:
        return failed(trial, ConditionReason.TRIAL_FAILED, f"Backfill {found.name} was deleted")
    if found and found.phase is BackfillPhase.FAILED:
        return of_failure(trial, found, group)
    if found and found.comparison:
        return of_comparison(trial, found.comparison, found, group)
    limit = group.spec.upgrade.trial_timeout
    if observed.now - trial.since <= limit:
        return trial
    state = progress_text(found) if found else "was not created"
    message = f"not judged within {duration_text(limit)}: Backfill {trial.backfill} {state}"
    return failed(trial, cause_of_delay(found), message)


def progress_text(found: TrialBackfill | None) -> str:
    """How far a Backfill is, as the end of a sentence about it."""
    if found is None:
        return "is being created"
    landed = f", {found.percent}% landed" if found.percent is not None else ""
    waits = f": {found.message}" if found.message else ""
    return f"is {found.phase}{landed}{waits}"


def after(
    observed: GroupObservation,
    before: RolloutStatus,
    event: RolloutEvent,
    changed: RolloutStatus,
    group: ConsumerGroup | None,
) -> RolloutStatus:
    """The rollout after an event, with its effect on the trial."""
    trial = changed.trial
    if event in _CHANGES and group and group.spec.upgrade.strategy in STRATEGIES:
        wanted = observed.revision_of(group)
        if event is RolloutEvent.CHANGE_TRY or not _is_judged(before, trial, wanted):
            trial = _trial_of(observed, before, group)
    elif trial and trial.result is TrialResult.PENDING and changed.stage is not Stage.TRYING:
        trial = given_up(trial)
    return changed.model_copy(update={"trial": trial})


def _is_judged(before: RolloutStatus, trial: TrialStatus | None, wanted: str) -> bool:
    """Return whether a revision takes over because of its trial's result, or of the user's verb."""
    if trial is None or trial.revision != wanted:
        return False
    return before.stage is Stage.TRYING or trial.result is TrialResult.OVERRULED


def given_up(trial: TrialStatus, result: TrialResult = TrialResult.ABORTED) -> TrialStatus:
    """The trial without a result of its own: the user decides otherwise."""
    message = (
        "the trial was given up" if result is TrialResult.ABORTED else "not judged, by request"
    )
    return trial.model_copy(update={"result": result, "message": message})


def is_rejected(rollout: RolloutStatus) -> bool:
    """Return whether the requested spec was rejected because of its trial."""
    trial = rollout.trial
    rejected = rollout.rejected
    if trial is None or rejected is None or trial.result not in _SPEAKS_AGAINST:
        return False
    return revision_with(rejected.generation, rejected.digest) == trial.revision


def is_outdated(rollout: RolloutStatus, group: ConsumerGroup) -> bool:
    """Return whether a trial's rejection is void: the user wants no trial, or another one."""
    trial = rollout.trial
    asked = group.spec.upgrade.strategy in STRATEGIES
    return is_rejected(rollout) and not (asked and trial and trial.terms == terms_of(group))


def kept_backfill(rollout: RolloutStatus) -> str:
    """The Backfill that is still needed: of a trial under way, or of a rejected one."""
    trial = rollout.trial
    if trial is None:
        return ""
    return trial.backfill if rollout.stage is Stage.TRYING or is_rejected(rollout) else ""


# --------------------------------------------------------------------------- the judgment


def failed(trial: TrialStatus, reason: ConditionReason, message: str) -> TrialStatus:
    """The trial without an answer."""
    return _with(trial, TrialResult.FAILED, message, reason)


def of_failure(trial: TrialStatus, found: TrialBackfill, group: ConsumerGroup) -> TrialStatus:
    """Return the status after a Backfill failed: whether that is the revision's fault."""
    if found.reason in NOTHING_CHOSEN:
        message = f"not tried: nothing was landed within {duration_text(window_of(group))}"
        return _with(trial, TrialResult.SKIPPED, message)
    if found.reason == ConditionReason.DATA_LOSS:
        message = f"not tried: Kafka does not have the records any more: {found.message}"
        return _with(trial, TrialResult.SKIPPED, message)
    reason = BY_WORD.get(found.reason, ConditionReason.TRIAL_FAILED)
    message = f"Backfill {found.name} failed: {found.message or found.reason or 'unknown'}"
    if reason is ConditionReason.BAD_RECORDS:
        return _with(trial, TrialResult.REFUSED, message, ConditionReason.TRIAL_REFUSED)
    return failed(
        trial, reason if is_environment(reason) else ConditionReason.TRIAL_FAILED, message
    )


def cause_of_delay(found: TrialBackfill | None) -> ConditionReason:
    """Return why a trial has not ended in time; what is not the revision's fault is tried again."""
    if found is None or found.phase not in IN_WORK or found.reason:
        known = (
            BY_WORD.get(found.reason, ConditionReason.UNKNOWN) if found else ConditionReason.UNKNOWN
        )
        return known if is_environment(known) else ConditionReason.DEPENDENCY_UNAVAILABLE
    return ConditionReason.TRIAL_TIMED_OUT


def of_comparison(
    trial: TrialStatus, compared: TrialComparison, found: TrialBackfill, group: ConsumerGroup
) -> TrialStatus:
    """Return the status after a Backfill's comparison; ``group`` defines what is tolerated."""
    trial = trial.model_copy(update={"comparison": compared})
    rows = compared.rows
    letters = compared.dead_letters
    if not (rows.old or rows.new or letters.old or letters.new):
        return _with(trial, TrialResult.SKIPPED, "not tried: there were no rows to compare")
    if group.spec.upgrade.strategy == "Canary":
        objections = list(_of_canary(compared, found, group))
    else:
        objections = list(_of_shadow(compared, group))
    if objections:
        return _with(
            trial, TrialResult.REFUSED, "; ".join(objections), ConditionReason.TRIAL_REFUSED
        )
    both = f"{_amounts(rows.new, letters.new)}, and {_amounts(rows.old, letters.old)} before"
    return _with(trial, TrialResult.PASSED, f"tried: {both}")


def _of_shadow(compared: TrialComparison, group: ConsumerGroup) -> Iterator[str]:
    tolerated = group.spec.upgrade.shadow.tolerate
    rows = compared.rows
    letters = compared.dead_letters
    differing = max(rows.only_old, rows.only_new)
    if differing > tolerated.rows * max(rows.old, rows.new):
        counts = f"{rows.only_old} of {rows.old} old and {rows.only_new} of {rows.new} new rows"
        yield f"{counts} differ{_tolerated(tolerated.rows)}"
    more = letters.new - letters.old
    if more > tolerated.dead_letters * max(_records(compared)):
        counts = f"{letters.new} records became dead letters, {letters.old} before"
        yield f"{counts}{_tolerated(tolerated.dead_letters)}"


def _of_canary(
    compared: TrialComparison, found: TrialBackfill, group: ConsumerGroup
) -> Iterator[str]:
    canary = group.spec.upgrade.canary
    letters = compared.dead_letters
    old, new = _records(compared)
    if old and not new:
        yield f"it landed nothing of {old} records"
    elif letters.new > canary.bad_records * new and letters.new * old > letters.old * new:
        share = _share_text(letters.new / new)
        before = f"{_share_text(letters.old / old)} before" if old else "none before"
        counts = f"{share} of the records are bad ({letters.new} of {new}), {before}"
        yield f"{counts}{_tolerated(canary.bad_records)}"
    speed = (found.offsets or 0) / window_of(group).total_seconds()
    # A group that lands less than a record per second gives no measure of speed.
    if compared.records_per_second < canary.min_throughput * speed and speed >= 1:
        yield (
            f"it landed {compared.records_per_second} records per second, the running revision "
            f"{speed:.0f}; {percent_text(canary.min_throughput)} of that are needed"
        )


def _records(compared: TrialComparison) -> tuple[int, int]:
    """The records that became rows or dead letters, by the running and by the new revision."""
    rows = compared.rows
    letters = compared.dead_letters
    return rows.old + letters.old, rows.new + letters.new


def _amounts(rows: int, dead_letters: int) -> str:
    return f"{plural(rows, 'row')} and {plural(dead_letters, 'dead letter')}"


def _tolerated(share: float) -> str:
    return f"; {percent_text(share)} may" if share else "; none may"


def _share_text(share: float) -> str:
    return "less than 0.01%" if 0 < share < 0.0001 else f"{share:.2%}"


def _with(
    trial: TrialStatus, result: TrialResult, message: str, reason: ConditionReason | None = None
) -> TrialStatus:
    update = {"result": result, "reason": reason, "message": shortened(message, MAX_MESSAGE)}
    return trial.model_copy(update=update)
