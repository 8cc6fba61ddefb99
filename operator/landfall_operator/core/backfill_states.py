"""The status of a Backfill in each state: progress, comparison, conditions, Events. Pure."""

import math
from dataclasses import replace
from typing import Literal, get_args

from landfall.api.backfill_report import BackfillReport
from landfall.api.values import time_text
from landfall_operator.api.backfill_status import (
    RUNNING,
    BackfillCondition,
    BackfillConditionType,
    BackfillPhase,
    BackfillStatus,
    Comparison,
    OldAndNew,
    RowCounts,
)
from landfall_operator.api.status_values import whole_seconds
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.backfill_actions import BackfillDecision
from landfall_operator.core.backfill_snapshot import BackfillObservation, BackfillPod
from landfall_operator.humanize import rough, shortened
from landfall_operator.objects.backfill_pods import side_lane_name

MAX_MESSAGE = 1000
MAX_SAMPLE = 20
"""Rows of a comparison that the status keeps; a driver reports fewer."""
_CONDITIONS: tuple[BackfillConditionType, ...] = get_args(BackfillConditionType)


def base(observed: BackfillObservation) -> BackfillStatus:
    """The stored status, of the present generation."""
    return changed(
        observed.status,
        observed_generation=observed.generation,
        side_lane=side_lane_name(observed.name, observed.uid),
    )


def failed(
    observed: BackfillObservation, status: BackfillStatus, reason: str, message: str
) -> BackfillStatus:
    """The status of what would fail again."""
    return changed(
        status,
        phase=BackfillPhase.FAILED,
        eta=None,
        records_per_second=None,
        ended=status.ended or whole_seconds(observed.now),
        reason=reason,
        message=message,
    )


def is_settled(status: BackfillStatus, promote: str) -> bool:
    """Whether nothing is under way that the operator would have to look at."""
    return _is_done(status, promote) or status.phase is BackfillPhase.FAILED


def _is_done(status: BackfillStatus, promote: str) -> bool:
    """Whether it is where its spec asks it to be."""
    waits = status.phase is BackfillPhase.COMPARED and promote != "Automatic"
    return waits or status.phase is BackfillPhase.PROMOTED


def changed(status: BackfillStatus, **fields: object) -> BackfillStatus:
    """The status with other values of these fields."""
    return status.model_copy(update=fields)


def finished(observed: BackfillObservation, decision: BackfillDecision) -> BackfillDecision:
    """The decision with the conditions of its status, and the Event of another phase."""
    status = decision.status
    status = changed(status, message=shortened(status.message, MAX_MESSAGE))
    status = changed(status, conditions=tuple(_conditions(observed, status)))
    event = _event(observed.status, status)
    return replace(
        decision, status=status, actions=(*((event,) if event else ()), *decision.actions)
    )


def _conditions(
    observed: BackfillObservation, status: BackfillStatus
) -> tuple[BackfillCondition, ...]:
    promote = observed.spec.promote if observed.spec else ""
    has_failed = status.phase is BackfillPhase.FAILED
    holds: dict[BackfillConditionType, bool] = {
        "Compared": status.comparison is not None,
        "Promoted": status.phase is BackfillPhase.PROMOTED,
        "Failed": has_failed,
        "Ready": _is_done(status, promote),
        "Stalled": has_failed,
        "Reconciling": not is_settled(status, promote),
    }
    before = {condition.type: condition for condition in observed.status.conditions}
    made = []
    for kind in _CONDITIONS:
        state: Literal["True", "False"] = "True" if holds[kind] else "False"
        known = before.get(kind)
        same = known if known and known.status == state else None
        # What is under way has another message at each step; the others keep that of their change.
        kept = same if kind != "Reconciling" else None
        made.append(
            BackfillCondition(
                type=kind,
                status=state,
                reason=(status.reason if holds[kind] else None) or str(status.phase),
                message=(kept.message if kept else status.message) if holds[kind] else "",
                observed_generation=observed.generation,
                last_transition_time=same.last_transition_time if same else observed.now,
            )
        )
    return tuple(made)


_EVENTS: dict[BackfillPhase, tuple[Literal["Normal", "Warning"], str]] = {
    BackfillPhase.PLANNING: ("Normal", "Started"),
    BackfillPhase.COMPARED: ("Normal", "Compared"),
    BackfillPhase.PROMOTING: ("Normal", "Promoting"),
    BackfillPhase.PROMOTED: ("Normal", "Promoted"),
    BackfillPhase.FAILED: ("Warning", "Failed"),
}
"""The Events that are posted when a phase begins."""


def _event(before: BackfillStatus, now: BackfillStatus) -> EmitEvent | None:
    if now.phase is before.phase or now.phase not in _EVENTS:
        return None
    kind, reason = _EVENTS[now.phase]
    text = now.message or str(now.phase)
    if now.phase is BackfillPhase.FAILED:
        text = f"{now.reason}: {text}"
    elif now.phase is BackfillPhase.COMPARED and now.comparison:
        text = "\n".join([text, *now.comparison.sample[:3]])
    return EmitEvent(kind, reason, text)


def progress(
    observed: BackfillObservation, status: BackfillStatus, pod: BackfillPod
) -> BackfillStatus:
    """The status while the pod starts or runs."""
    report = observed.report
    if report is None:
        said = pod.problem and f"its driver does not run: {pod.problem}; it is started again"
        return changed(status, reason=None, message=said or "its driver starts", eta=None)
    phase = BackfillPhase(report.phase) if report.phase in {*RUNNING} else status.phase
    left = (report.offsets or 0) - report.landed_offsets
    speed = report.records_per_second
    eta = time_text(rough(left / speed)) if phase is BackfillPhase.LANDING and speed else None
    return changed(
        counted(status, report),
        phase=phase,
        eta=eta,
        records_per_second=rough(speed),
        reason=report.reason or None,
        message=report.message,
    )


def counted(status: BackfillStatus, report: BackfillReport) -> BackfillStatus:
    """With how much is landed, as a report says it."""
    if report.offsets is None:
        return status
    landed = min(report.landed_offsets, report.offsets)
    percent = math.floor(100 * landed / report.offsets) if report.offsets else 100
    return changed(
        status,
        offsets=report.offsets,
        landed_offsets=landed,
        percent=percent,
        progress=f"{percent}%",
    )


def compared(
    observed: BackfillObservation, status: BackfillStatus, report: BackfillReport
) -> BackfillStatus:
    """The status of what is landed and compared, as its driver reports it."""
    return changed(
        counted(status, report),
        phase=BackfillPhase.COMPARED,
        eta=None,
        records_per_second=None,
        ended=whole_seconds(observed.now),
        reason=None,
        message=report.message,
        comparison=_comparison(report),
    )


def _comparison(report: BackfillReport) -> Comparison:
    rows, letters, sizes = report.rows, report.dead_letters, report.bytes
    return Comparison(
        rows=RowCounts(**rows.model_dump()) if rows else _NO_ROWS,
        dead_letters=OldAndNew(**letters.model_dump()) if letters else _NOTHING,
        bytes=OldAndNew(**sizes.model_dump()) if sizes else _NOTHING,
        output_partitions=report.output_partitions or 0,
        differing=report.differing or 0,
        sample=tuple(shortened(line, MAX_MESSAGE) for line in report.sample[:MAX_SAMPLE]),
        records_per_second=report.records_per_second,
    )


_NOTHING = OldAndNew(old=0, new=0)
_NO_ROWS = RowCounts(old=0, new=0, only_old=0, only_new=0)
