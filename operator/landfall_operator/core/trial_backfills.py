"""The parts of a ``Backfill`` that the operator reads when it tries a revision. Pure.

A trial is a Backfill with the label ``app.kubernetes.io/component: trial``, owned by its group. All
other Backfills are the users' own, and do not concern a rollout.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from landfall_operator.api.backfill_status import BackfillPhase, BackfillStatus, ComparisonStatus
from landfall_operator.api.status import (
    MAX_SAMPLE,
    MAX_SAMPLE_TEXT,
    TrialComparison,
)
from landfall_operator.api.status_values import readable
from landfall_operator.humanize import shortened
from landfall_operator.objects.names import COMPONENT, TRIAL


@dataclass(frozen=True, slots=True)
class TrialBackfill:
    """A Backfill as far as a trial depends on it.

    Attributes:
        name: its metadata.name.
        phase: its phase.
        reason: what it waits for, or why it failed, in one word; empty if it gives none.
        message: its message.
        percent: how much of its offsets is landed; None while that is not known.
        offsets: how many offsets it lands; None while that is not known.
        comparison: what it landed against what is live; None before it has compared.
        terminating: whether it is being deleted.
    """

    name: str
    phase: BackfillPhase = BackfillPhase.PENDING
    reason: str = ""
    message: str = ""
    percent: int | None = None
    offsets: int | None = None
    comparison: TrialComparison | None = None
    terminating: bool = False


def trial_backfill_of(body: Mapping[str, Any]) -> TrialBackfill | None:
    """The Backfill in an API object; None if it is not one that the operator made for a trial."""
    metadata = body["metadata"]
    if metadata.get("labels", {}).get(COMPONENT) != TRIAL:
        return None
    status = readable(BackfillStatus, body.get("status", {}))
    return TrialBackfill(
        name=metadata["name"],
        phase=status.phase,
        reason=status.reason or "",
        message=status.message,
        percent=status.percent,
        offsets=status.offsets,
        comparison=_comparison(status.comparison) if status.comparison else None,
        terminating="deletionTimestamp" in metadata,
    )


def _comparison(found: ComparisonStatus) -> TrialComparison:
    """The part of a comparison that a trial is judged by."""
    return TrialComparison(
        rows=found.rows,
        dead_letters=found.dead_letters,
        records_per_second=found.records_per_second,
        sample=tuple(shortened(line, MAX_SAMPLE_TEXT) for line in found.sample[:MAX_SAMPLE]),
    )
