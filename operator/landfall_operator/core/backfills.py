"""Decides about a Backfill: a status, and actions in order. Pure.

    Pending → Planning → Landing → Comparing → Compared → Promoting → Promoted
                  any of the first five → Failed, and with the annotation back again

``decide`` is a function of what is observed, so it may be called at any time, by an operator that
knows nothing of its predecessor. The status is stored before the actions are carried out. Only a
Backfill's own objects are touched: its group continues regardless of its problems.

Deleting it discards the side lane, except while the group's driver promotes it. That never holds up
a deletion for long: what cannot be discarded in time is left, and an Event names its location.
"""

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal, get_args

from landfall.api.backfill_report import BackfillReport, LandingPhase, OldAndNew, RowCounts
from landfall.api.values import time_text
from landfall_operator.api.backfill_status import (
    RUNNING,
    BackfillCondition,
    BackfillConditionType,
    BackfillPhase,
    BackfillStatus,
    ComparisonStatus,
    PromotionStatus,
)
from landfall_operator.api.revisions import revision_of
from landfall_operator.api.status_values import whole_seconds
from landfall_operator.core.actions import (
    AddFinalizer,
    BackfillAction,
    DeletePod,
    EmitEvent,
    RemoveAnnotation,
    RemoveFinalizer,
    StartDiscarding,
    StartLanding,
)
from landfall_operator.core.backfill_snapshot import (
    RETRY,
    BackfillObservation,
    BackfillPod,
    MissingSpec,
    PromotionAnswer,
)
from landfall_operator.humanize import rough, shortened
from landfall_operator.objects.backfill_pods import Lander, cores_text, side_lane_name

MAX_MESSAGE = 1000
MAX_SAMPLE = 20
"""Rows of a comparison that the status keeps; a driver reports fewer."""
_CONDITIONS: tuple[BackfillConditionType, ...] = get_args(BackfillConditionType)


@dataclass(frozen=True, slots=True)
class BackfillDecision:
    """The status to store, and the actions to execute then, in order."""

    status: BackfillStatus
    actions: tuple[BackfillAction, ...] = ()


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
    """The status of a backfill that would fail again."""
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
    """Return whether nothing is under way that the operator would have to look at."""
    return _is_done(status, promote) or status.phase is BackfillPhase.FAILED


def _is_done(status: BackfillStatus, promote: str) -> bool:
    """Return whether it is where its spec asks it to be."""
    waits = status.phase is BackfillPhase.COMPARED and promote != "Automatic"
    return waits or status.phase is BackfillPhase.PROMOTED


def changed(status: BackfillStatus, **fields: object) -> BackfillStatus:
    """The status with these fields replaced."""
    return status.model_copy(update=fields)


def finished(observed: BackfillObservation, decision: BackfillDecision) -> BackfillDecision:
    """The decision with the conditions of its status, and the Event of a new phase."""
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
        # An operation under way has a new message at each step; other conditions keep their
        # message.
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
    """Update the counters of landed offsets from a report."""
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
    """The status of a landed and compared backfill, as its driver reports it."""
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


def _comparison(report: BackfillReport) -> ComparisonStatus:
    return ComparisonStatus(
        rows=report.rows or _NO_ROWS,
        dead_letters=report.dead_letters or _NOTHING,
        bytes=report.bytes or _NOTHING,
        output_partitions=report.output_partitions or 0,
        differing=report.differing or 0,
        sample=tuple(shortened(line, MAX_MESSAGE) for line in report.sample[:MAX_SAMPLE]),
        records_per_second=report.records_per_second,
    )


_NOTHING = OldAndNew(old=0, new=0)
_NO_ROWS = RowCounts(old=0, new=0, only_old=0, only_new=0)


DISCARD_TIME = timedelta(minutes=10)
"""How long a deletion waits until the side lane is discarded."""


def decide(observed: BackfillObservation) -> BackfillDecision:
    """Return the status to store and the actions to execute now."""
    if observed.deleted:
        return finished(observed, _deletion(observed, observed.deleted))
    if not observed.has_finalizer:
        return BackfillDecision(base(observed), (AddFinalizer(),))
    if observed.spec is None:
        wrong = failed(observed, base(observed), "SpecInvalid", observed.spec_error)
        return finished(observed, BackfillDecision(wrong))
    phase = observed.status.phase
    if phase is BackfillPhase.FAILED:
        decision = _retried(observed)
    elif phase in {BackfillPhase.COMPARED, BackfillPhase.PROMOTING}:
        decision = _promotion(observed)
    elif phase in {BackfillPhase.PROMOTED, BackfillPhase.DISCARDED}:
        decision = BackfillDecision(base(observed))
    else:
        decision = _landing(observed)
    return finished(observed, decision)


def wants_answer(observed: BackfillObservation) -> bool:
    """Return whether the group's driver is to be asked to promote it, in this pass."""
    status = observed.status
    return status.phase is BackfillPhase.PROMOTING and status.promotion is not None


# ------------------------------------------------------------------------------------- landing


def _landing(observed: BackfillObservation) -> BackfillDecision:
    status = base(observed)
    pod = observed.pod
    if pod is None:
        return _start(observed, status)
    if pod.owner != observed.uid:
        waits = "a pod of this name belongs to something else; it waits until that is gone"
        return BackfillDecision(changed(status, reason="NameTaken", message=waits))
    if pod.has_failed_for_good:
        return BackfillDecision(_ended_badly(observed, status, pod))
    if pod.is_over and pod.report and pod.report.phase == LandingPhase.COMPARED:
        # A completed pod stays, for its logs; one with a sidecar would run for ever.
        end = (DeletePod(pod.uid),) if pod.has_others else ()
        return BackfillDecision(compared(observed, status, pod.report), end)
    return BackfillDecision(progress(observed, status, pod), _renewed(observed, pod))


def _renewed(observed: BackfillObservation, pod: BackfillPod) -> tuple[BackfillAction, ...]:
    """Delete a pod that was evicted, or needs other cores: the next one continues."""
    assert observed.spec
    is_outdated = pod.is_over or pod.cores != cores_text(observed.spec)
    return (DeletePod(pod.uid),) if is_outdated and not pod.terminating else ()


def _start(observed: BackfillObservation, status: BackfillStatus) -> BackfillDecision:
    match observed.landing:
        case MissingSpec(reason, message):
            return BackfillDecision(changed(status, reason=reason, message=message))
        case Lander(group=group):
            is_first = status.started is None
            started = changed(
                status,
                phase=BackfillPhase.PLANNING if is_first else status.phase,
                revision=revision_of(group) if is_first else status.revision,
                started=status.started or whole_seconds(observed.now),
                reason=None,
                message="its driver starts",
            )
            return BackfillDecision(started, (StartLanding(observed.landing),))


def _ended_badly(
    observed: BackfillObservation, status: BackfillStatus, pod: BackfillPod
) -> BackfillStatus:
    report = pod.report
    if report is None:
        return failed(
            observed,
            status,
            "UnknownCommand",
            "its image does not know `landfall backfill land` with these options: give the group a "
            f"newer spec.image. {pod.problem}",
        )
    return failed(observed, counted(status, report), report.reason or "Failed", report.message)


# ----------------------------------------------------------------------------------- promotion


def _promotion(observed: BackfillObservation) -> BackfillDecision:
    """Decide about a compared backfill: wait, begin, or take in the answer."""
    status = base(observed)
    spec = observed.spec
    answer = observed.answer
    assert spec
    asked = status.promotion
    if asked is None or status.phase is BackfillPhase.COMPARED:
        if spec.promote != "Automatic":
            return BackfillDecision(status)
        return BackfillDecision(_asking(observed, status))
    if answer is None:
        return BackfillDecision(status)
    return BackfillDecision(_answered(observed, status, answer))


def _answered(
    observed: BackfillObservation, status: BackfillStatus, answer: PromotionAnswer
) -> BackfillStatus:
    assert observed.spec
    match answer.outcome:
        case "done":
            done = BackfillPhase.PROMOTED
            return changed(
                status, phase=done, ledger_slot=answer.slot, reason=None, message=answer.message
            )
        case "refused":
            return failed(observed, status, "PromotionRefused", answer.message)
        case "waiting":
            return changed(status, reason=None, message=answer.message)
    if observed.spec.promote != "Automatic":  # changed back, and no driver carries the request out
        return _compared_again(status)
    return changed(status, reason="PromotionWaits", message=answer.message)


def _compared_again(status: BackfillStatus) -> BackfillStatus:
    compared = BackfillPhase.COMPARED
    return changed(status, phase=compared, promotion=None, reason=None, message="")


def _asking(observed: BackfillObservation, status: BackfillStatus) -> BackfillStatus:
    # The same id until it is answered: the driver carries a request out once. After a refusal and
    # a retry it is another request.
    request = PromotionStatus(id=f"{observed.uid}/{observed.now:%Y%m%dT%H%M%S}", since=observed.now)
    return changed(
        status,
        phase=BackfillPhase.PROMOTING,
        promotion=request,
        reason=None,
        message="the group's driver is asked to promote it",
    )


def _retried(observed: BackfillObservation) -> BackfillDecision:
    """Decide about a failed backfill: wait for the annotation, then go back to where it failed."""
    status = base(observed)
    pod = observed.pod
    if not observed.wants_retry:
        return BackfillDecision(status)
    if status.comparison:
        return BackfillDecision(_compared_again(status), (RemoveAnnotation(RETRY),))
    if pod and pod.owner == observed.uid:
        stop = () if pod.terminating else (DeletePod(pod.uid),)
        return BackfillDecision(status, stop)  # the annotation stays until it is gone
    again = changed(status, phase=BackfillPhase.PENDING, ended=None, reason=None, message="")
    return BackfillDecision(again, (RemoveAnnotation(RETRY),))


# ------------------------------------------------------------------------------------ deletion


def _deletion(observed: BackfillObservation, since: datetime) -> BackfillDecision:
    answer = observed.answer
    pod = observed.pod
    if not observed.has_finalizer:
        return BackfillDecision(observed.status)
    if answer and answer.outcome == "waiting":
        waits = "it is being promoted; it is deleted when that is done"
        return BackfillDecision(changed(base(observed), message=waits))
    status = changed(
        base(observed),
        phase=BackfillPhase.DISCARDED,
        reason=None,
        message="what it landed in the side lane is being deleted",
    )
    if pod and pod.owner == observed.uid:
        return BackfillDecision(status, () if pod.terminating else (DeletePod(pod.uid),))
    if observed.spec is None or observed.status.started is None:
        return BackfillDecision(status, (RemoveFinalizer(),))
    return _discarding(observed, status, since)


def _discarding(
    observed: BackfillObservation, status: BackfillStatus, since: datetime
) -> BackfillDecision:
    """Discard a side lane, in which no pod lands any more."""
    discarding = observed.discarding
    if observed.now - since > DISCARD_TIME:
        return BackfillDecision(status, (_left(observed), RemoveFinalizer()))
    if discarding is None:
        return BackfillDecision(status, (StartDiscarding(),))
    if discarding.is_over and discarding.exit_code == 0:
        return BackfillDecision(status, (RemoveFinalizer(),))
    problem = discarding.problem
    return BackfillDecision(changed(status, reason=problem and "NotDiscarded", message=problem))


def _left(observed: BackfillObservation) -> EmitEvent:
    lane = side_lane_name(observed.name, observed.uid)
    why = observed.discarding.problem if observed.discarding else ""
    return EmitEvent(
        "Warning",
        "SideLaneLeft",
        f"the objects of side lane {lane} are left in the store: `landfall backfill discard` "
        f"deletes them. {why}".strip(),
    )
