"""What the operator does about a Backfill: a status, and actions in order. Pure.

    Pending → Planning → Landing → Comparing → Compared → Promoting → Promoted
                  any of the first five → Failed, and with the annotation back again

``decide`` is a function of what is observed, so it may be called at any time, by an operator that
knows nothing of what the last one did. The status is stored before the actions are carried out.
Only a Backfill's own objects are touched: whatever is wrong with it, its group goes on.

Deleting it discards the side lane, except while the group's driver promotes it. That never holds
up a deletion for long: what cannot be discarded in time is left, and an Event says where it is.
"""

from datetime import datetime, timedelta

from landfall.api.backfill_report import LandingPhase
from landfall_operator.api.backfill_status import (
    BackfillPhase,
    BackfillStatus,
    Promotion,
)
from landfall_operator.api.revisions import revision_of
from landfall_operator.api.status_values import whole_seconds
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.backfill_actions import (
    AddFinalizer,
    BackfillAction,
    BackfillDecision,
    DeletePod,
    RemoveFinalizer,
    RemoveRetry,
    StartDiscarding,
    StartLanding,
)
from landfall_operator.core.backfill_snapshot import (
    BackfillObservation,
    BackfillPod,
    Missing,
    PromotionAnswer,
)
from landfall_operator.core.backfill_states import (
    base,
    changed,
    compared,
    counted,
    failed,
    finished,
    progress,
)
from landfall_operator.objects.backfill_pods import Lander, cores_text, side_lane_name

DISCARD_TIME = timedelta(minutes=10)
"""How long a deletion waits until the side lane is discarded."""


def decide(observed: BackfillObservation) -> BackfillDecision:
    """What to store and to do now."""
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
    """Whether the group's driver is to be asked to promote it, in this pass."""
    status = observed.status
    return status.phase is BackfillPhase.PROMOTING and status.promotion is not None


# ------------------------------------------------------------------------------------- landing


def _landing(observed: BackfillObservation) -> BackfillDecision:
    status, pod = base(observed), observed.pod
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
    """Deletes a pod that was evicted, or shall have other cores: the next one goes on."""
    assert observed.spec
    is_outdated = pod.is_over or pod.cores != cores_text(observed.spec)
    return (DeletePod(pod.uid),) if is_outdated and not pod.terminating else ()


def _start(observed: BackfillObservation, status: BackfillStatus) -> BackfillDecision:
    match observed.landing:
        case Missing(reason, message):
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
    """Of what is compared: waits, begins, or takes in the answer."""
    status, spec, answer = base(observed), observed.spec, observed.answer
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
    if observed.spec.promote != "Automatic":  # changed back, and nobody carries the request out
        return _compared_again(status)
    return changed(status, reason="PromotionWaits", message=answer.message)


def _compared_again(status: BackfillStatus) -> BackfillStatus:
    compared = BackfillPhase.COMPARED
    return changed(status, phase=compared, promotion=None, reason=None, message="")


def _asking(observed: BackfillObservation, status: BackfillStatus) -> BackfillStatus:
    # The same id until it is answered: the driver carries a request out once. After a refusal and
    # a retry it is another request.
    request = Promotion(id=f"{observed.uid}/{observed.now:%Y%m%dT%H%M%S}", since=observed.now)
    return changed(
        status,
        phase=BackfillPhase.PROMOTING,
        promotion=request,
        reason=None,
        message="the group's driver is asked to promote it",
    )


def _retried(observed: BackfillObservation) -> BackfillDecision:
    """Of what failed: waits for the annotation, then goes back to where it failed."""
    status, pod = base(observed), observed.pod
    if not observed.wants_retry:
        return BackfillDecision(status)
    if status.comparison:
        return BackfillDecision(_compared_again(status), (RemoveRetry(),))
    if pod and pod.owner == observed.uid:
        stop = () if pod.terminating else (DeletePod(pod.uid),)
        return BackfillDecision(status, stop)  # the annotation stays until it is gone
    again = changed(status, phase=BackfillPhase.PENDING, ended=None, reason=None, message="")
    return BackfillDecision(again, (RemoveRetry(),))


# ------------------------------------------------------------------------------------ deletion


def _deletion(observed: BackfillObservation, since: datetime) -> BackfillDecision:
    answer, pod = observed.answer, observed.pod
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
    """Of what has a side lane, in which nobody lands any more."""
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
