"""Backfills as the operator observes them, and what it decides about them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from landfall.api.backfill_report import BackfillReport, OldAndNew, RowCounts
from landfall_operator.api.backfill_status import BackfillPhase, BackfillStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.backfill_snapshot import (
    FINALIZER,
    BackfillObservation,
    BackfillPod,
    observation,
)
from landfall_operator.core.backfills import BackfillDecision, decide
from landfall_operator.objects.backfill_pods import Lander
from tests.support.operator.cluster_model import group

NOW = datetime(2026, 11, 26, 10, tzinfo=UTC)
LANDING = Lander(group(), "good")
RUNNING = BackfillPod(
    uid="pod",
    owner="uid-1",
    cores="",
    address="10.0.0.9",
    terminating=False,
    is_over=False,
    has_others=False,
    exit_code=None,
    report=None,
    problem="",
)
COMPARED = BackfillReport(
    phase="Compared",
    offsets=200,
    landed_offsets=200,
    records_per_second=75,
    rows=RowCounts(old=10, new=12, only_old=1, only_new=3),
    dead_letters=OldAndNew(old=2, new=0),
    bytes=OldAndNew(old=100, new=110),
    output_partitions=4,
    differing=1,
    sample=("old  a:1  x", "new  b:1  y"),
    message="1 rows are only in what is live, 3 only in the backfill",
)


def seen(status: BackfillStatus | None = None, **changes: Any) -> BackfillObservation:
    """A Backfill with a finalizer and this status."""
    metadata = {
        "name": "fix",
        "namespace": "logs",
        "uid": "uid-1",
        "generation": 2,
        "finalizers": [FINALIZER],
        **changes.pop("metadata", {}),
    }
    spec = {"group": "clicks", **changes.pop("spec", {})}
    stored = (status or BackfillStatus()).model_dump(mode="json", by_alias=True, exclude_none=True)
    body = {"metadata": metadata, "spec": spec, "status": stored}
    landing = changes.pop("landing", LANDING)
    return replace(observation(body, NOW, landing), **changes)


def at(phase: BackfillPhase, **fields: Any) -> BackfillStatus:
    """A status in a phase, of a backfill that was started."""
    return BackfillStatus(phase=phase, started=NOW - timedelta(hours=1), **fields)


def compared(**fields: Any) -> BackfillStatus:
    done = replace(RUNNING, is_over=True, exit_code=0, report=COMPARED)
    status = decide(seen(at(BackfillPhase.COMPARING), pod=done)).status
    return status.model_copy(update=fields)


def events(decision: BackfillDecision) -> list[tuple[str, str]]:
    return [(a.kind, a.reason) for a in decision.actions if isinstance(a, EmitEvent)]


def deeds(decision: BackfillDecision) -> list[object]:
    return [action for action in decision.actions if not isinstance(action, EmitEvent)]


def condition(status: BackfillStatus, kind: str) -> tuple[str, str, str]:
    (found,) = (each for each in status.conditions if each.type == kind)
    return found.status, found.reason, found.message
