"""What is concluded from a trial: whether a revision may take over. Pure.

    Shadow    refused if more rows differ, or more records become dead letters, than is tolerated
    Canary    refused if more records become dead letters than is tolerated, and than before, or if
              the records were landed too slowly

Shares are of what was landed again: of the records for dead letters, and for rows of those of the
revision that landed more. A row that differs is one that only the old and one that only the new
revision landed: these are one difference.
"""

from collections.abc import Iterator

from landfall.api.spec import ConsumerGroup
from landfall.api.values import duration_text, percent_text, plural
from landfall_operator.api.reasons import BY_WORD, Reason, is_environment
from landfall_operator.api.trial_status import TrialComparison, TrialResult, TrialStatus
from landfall_operator.api.trial_terms import window_of
from landfall_operator.core.trial_backfills import Backfill
from landfall_operator.humanize import shortened

MAX_MESSAGE = 500
"""Characters of what is concluded."""

NOTHING_CHOSEN = ("NothingChosen", "NothingToCheck")
"""Reasons of a Backfill for which nothing was landed in its time (``landfall backfill land``)."""
IN_WORK = ("Landing", "Comparing")
"""Phases of a Backfill that does something."""


def failed(trial: TrialStatus, reason: Reason, message: str) -> TrialStatus:
    """The trial without an answer."""
    return _with(trial, TrialResult.FAILED, message, reason)


def of_failure(trial: TrialStatus, found: Backfill, group: ConsumerGroup) -> TrialStatus:
    """What follows from a Backfill that failed: whether that is the revision's fault."""
    if found.reason in NOTHING_CHOSEN:
        message = f"not tried: nothing was landed within {duration_text(window_of(group))}"
        return _with(trial, TrialResult.SKIPPED, message)
    if found.reason == Reason.DATA_LOSS:
        message = f"not tried: Kafka does not have the records any more: {found.message}"
        return _with(trial, TrialResult.SKIPPED, message)
    reason = BY_WORD.get(found.reason, Reason.TRIAL_FAILED)
    message = f"Backfill {found.name} failed: {found.message or found.reason or 'unknown'}"
    if reason is Reason.BAD_RECORDS:
        return _with(trial, TrialResult.REFUSED, message, Reason.TRIAL_REFUSED)
    return failed(trial, reason if is_environment(reason) else Reason.TRIAL_FAILED, message)


def cause_of_delay(found: Backfill | None) -> Reason:
    """Why a trial has not ended in time; what is not the revision's fault is tried again."""
    if found is None or found.phase not in IN_WORK or found.reason:
        known = BY_WORD.get(found.reason, Reason.UNKNOWN) if found else Reason.UNKNOWN
        return known if is_environment(known) else Reason.DEPENDENCY_UNAVAILABLE
    return Reason.TRIAL_TIMED_OUT


def of_comparison(
    trial: TrialStatus, compared: TrialComparison, found: Backfill, group: ConsumerGroup
) -> TrialStatus:
    """What follows from what a Backfill has compared; ``group`` says what is tolerated."""
    trial = trial.model_copy(update={"comparison": compared})
    rows, letters = compared.rows, compared.dead_letters
    if not (rows.old or rows.new or letters.old or letters.new):
        return _with(trial, TrialResult.SKIPPED, "not tried: there were no rows to compare")
    if group.spec.upgrade.strategy == "Canary":
        objections = list(_of_canary(compared, found, group))
    else:
        objections = list(_of_shadow(compared, group))
    if objections:
        return _with(trial, TrialResult.REFUSED, "; ".join(objections), Reason.TRIAL_REFUSED)
    both = f"{_amounts(rows.new, letters.new)}, and {_amounts(rows.old, letters.old)} before"
    return _with(trial, TrialResult.PASSED, f"tried: {both}")


def _of_shadow(compared: TrialComparison, group: ConsumerGroup) -> Iterator[str]:
    tolerated = group.spec.upgrade.shadow.tolerate
    rows, letters = compared.rows, compared.dead_letters
    differing, most = max(rows.only_old, rows.only_new), max(rows.old, rows.new)
    if differing > tolerated.rows * most:
        counts = f"{rows.only_old} of {rows.old} old and {rows.only_new} of {rows.new} new rows"
        yield f"{counts} differ{_tolerated(tolerated.rows)}"
    more = letters.new - letters.old
    if more > tolerated.dead_letters * max(_records(compared)):
        counts = f"{letters.new} records became dead letters, {letters.old} before"
        yield f"{counts}{_tolerated(tolerated.dead_letters)}"


def _of_canary(compared: TrialComparison, found: Backfill, group: ConsumerGroup) -> Iterator[str]:
    canary, letters = group.spec.upgrade.canary, compared.dead_letters
    old, new = _records(compared)
    if old and not new:
        yield f"it landed nothing of {old} records"
    elif letters.new > canary.bad_records * new and letters.new * old > letters.old * new:
        share = _share_text(letters.new / new)
        before = f"{_share_text(letters.old / old)} before" if old else "none before"
        counts = f"{share} of the records are bad ({letters.new} of {new}), {before}"
        yield f"{counts}{_tolerated(canary.bad_records)}"
    speed = (found.offsets or 0) / window_of(group).total_seconds()
    # A group that lands less than a record per second says nothing about speed.
    if compared.records_per_second < canary.min_throughput * speed and speed >= 1:
        yield (
            f"it landed {compared.records_per_second} records per second, of which the running "
            f"revision landed {speed:.0f}; {percent_text(canary.min_throughput)} of that are needed"
        )


def _records(compared: TrialComparison) -> tuple[int, int]:
    """The records that became rows or dead letters, by the running and by the new revision."""
    rows, letters = compared.rows, compared.dead_letters
    return rows.old + letters.old, rows.new + letters.new


def _amounts(rows: int, dead_letters: int) -> str:
    return f"{plural(rows, 'row')} and {plural(dead_letters, 'dead letter')}"


def _tolerated(share: float) -> str:
    return f"; {percent_text(share)} may" if share else "; none may"


def _share_text(share: float) -> str:
    return "less than 0.01%" if 0 < share < 0.0001 else f"{share:.2%}"


def _with(
    trial: TrialStatus, result: TrialResult, message: str, reason: Reason | None = None
) -> TrialStatus:
    update = {"result": result, "reason": reason, "message": shortened(message, MAX_MESSAGE)}
    return trial.model_copy(update=update)
