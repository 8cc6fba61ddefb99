"""What becomes of a Backfill that is deleted: its side lane is discarded, or left and named."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from landfall_operator.api.backfill_status import BackfillPhase, BackfillStatus, PromotionStatus
from landfall_operator.core.actions import DeletePod, EmitEvent, RemoveFinalizer, StartDiscarding
from landfall_operator.core.backfill_snapshot import PromotionAnswer
from landfall_operator.core.backfills import BackfillDecision, decide
from tests.support.operator.seen_backfills import NOW, RUNNING, at, compared, deeds, seen


def deleted(status: BackfillStatus, minutes: int = 1, **changes: Any) -> BackfillDecision:
    since = (NOW - timedelta(minutes=minutes)).isoformat()
    return decide(seen(status, metadata={"deletionTimestamp": since}, **changes))


def test_what_was_never_started_goes_at_once() -> None:
    assert deeds(deleted(BackfillStatus())) == [RemoveFinalizer()]


def test_its_driver_ends_before_the_side_lane_is_discarded() -> None:
    landing = at(BackfillPhase.LANDING)

    assert deeds(deleted(landing, pod=RUNNING)) == [DeletePod("pod")]
    decision = deleted(landing)
    assert deeds(decision) == [StartDiscarding()]
    assert decision.status.phase is BackfillPhase.DISCARDED


def test_it_goes_once_the_side_lane_is_discarded() -> None:
    runs = replace(RUNNING, uid="discard")
    done = replace(runs, is_over=True, exit_code=0)

    assert deeds(deleted(compared(), discarding=runs)) == []
    assert deeds(deleted(compared(), discarding=done)) == [RemoveFinalizer()]


def test_what_cannot_be_discarded_is_left_and_named() -> None:
    fails = replace(RUNNING, exit_code=4, problem="StoreDenied: no rights")

    assert deeds(deleted(compared(), 9, discarding=fails)) == []
    decision = deleted(compared(), 11, discarding=fails)
    assert deeds(decision) == [RemoveFinalizer()]
    (event,) = (each for each in decision.actions if isinstance(each, EmitEvent))
    assert "fix-uid1" in event.message
    assert "no rights" in event.message


def test_a_promotion_that_is_carried_out_ends_first() -> None:
    asked = compared(
        phase=BackfillPhase.PROMOTING, promotion=PromotionStatus(id="uid-1/x", since=NOW)
    )

    waits = deleted(asked, answer=PromotionAnswer("waiting", "copies"))
    assert deeds(waits) == []
    assert waits.status.phase is BackfillPhase.PROMOTING
    for outcome in ("done", "refused", "failed"):
        answer = PromotionAnswer(outcome, "")  # type: ignore[arg-type]  # one of these
        assert deeds(deleted(asked, answer=answer)) == [StartDiscarding()]


def test_without_the_finalizer_nothing_is_done() -> None:
    metadata = {"deletionTimestamp": NOW.isoformat(), "finalizers": ["other"]}

    assert decide(seen(compared(), metadata=metadata)).actions == ()
