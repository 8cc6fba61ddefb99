"""What the operator reads of a ``Backfill`` that it made to try a revision. Pure.

A trial is a Backfill with the label ``app.kubernetes.io/component: trial``, owned by its group. All
others are the users' own, and of no concern to a rollout.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from landfall_operator.api.status import MAX_SAMPLE, MAX_SAMPLE_TEXT, TrialComparison
from landfall_operator.humanize import shortened
from landfall_operator.objects.names import COMPONENT, TRIAL

COMPARED = "Compared"
FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Backfill:
    """A Backfill as far as a trial depends on it.

    Attributes:
        name: its metadata.name.
        phase: its phase; empty before anything has worked on it.
        reason: what it waits for, or why it failed, in one word; empty if it does not say.
        message: what it says.
        percent: how much of its offsets is landed; None while that is not known.
        offsets: how many offsets it lands; None while that is not known.
        comparison: what it landed against what is live; None before it has compared.
        terminating: whether it is being deleted.
    """

    name: str
    phase: str = ""
    reason: str = ""
    message: str = ""
    percent: int | None = None
    offsets: int | None = None
    comparison: TrialComparison | None = None
    terminating: bool = False


def trial_backfill_of(body: Mapping[str, Any]) -> Backfill | None:
    """The Backfill in an API object; None if it is not one that the operator made for a trial."""
    metadata = body["metadata"]
    status = body.get("status", {})
    if metadata.get("labels", {}).get(COMPONENT) != TRIAL:
        return None
    return Backfill(
        name=metadata["name"],
        phase=str(status.get("phase", "")),
        reason=str(status.get("reason", "")),
        message=str(status.get("message", "")),
        percent=_number(status.get("percent")),
        offsets=_number(status.get("offsets")),
        comparison=_comparison(status.get("comparison")),
        terminating="deletionTimestamp" in metadata,
    )


def _comparison(found: object) -> TrialComparison | None:
    """The part of a comparison that a trial is judged by; None if that is not all there."""
    if not isinstance(found, Mapping):
        return None
    lines = found.get("sample") or ()
    kept = {
        "rows": _only(found.get("rows"), "old", "new", "onlyOld", "onlyNew"),
        "deadLetters": _only(found.get("deadLetters"), "old", "new"),
        "recordsPerSecond": int(found.get("recordsPerSecond") or 0),
        "sample": [shortened(str(line), MAX_SAMPLE_TEXT) for line in lines][:MAX_SAMPLE],
    }
    try:
        return TrialComparison.model_validate(kept)
    except ValidationError:
        return None


def _only(found: object, *names: str) -> object:
    if not isinstance(found, Mapping):
        return found
    return {name: found[name] for name in names if name in found}


def _number(found: object) -> int | None:
    return int(found) if isinstance(found, int | float) else None
