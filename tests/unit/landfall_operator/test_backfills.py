"""What the operator decides about a Backfill: every phase, its deletion, and its retries."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall.api.backfill_report import BackfillReport
from landfall.api.verbs import Outcome
from landfall_operator.api.backfill_status import BackfillPhase, PromotionStatus
from landfall_operator.api.revisions import revision_of
from landfall_operator.core import backfills
from landfall_operator.core.actions import (
    AddFinalizer,
    DeletePod,
    EmitEvent,
    RemoveAnnotation,
    StartLanding,
)
from landfall_operator.core.backfill_snapshot import (
    FINALIZER,
    RETRY,
    MissingSpec,
    PromotionAnswer,
    PromotionOutcome,
    observation,
)
from landfall_operator.core.backfills import decide, is_settled
from tests.support.operator.seen_backfills import (
    COMPARED,
    LANDING,
    NOW,
    RUNNING,
    at,
    compared,
    condition,
    deeds,
    events,
    seen,
)

# ------------------------------------------------------------------------------------- landing


def test_a_new_one_gets_its_finalizer_before_anything_else() -> None:
    decision = decide(seen(metadata={"finalizers": []}))

    assert decision.actions == (AddFinalizer(),)
    assert decision.status.phase is BackfillPhase.PENDING


def test_it_is_started_by_the_groups_spec() -> None:
    decision = decide(seen())

    assert deeds(decision) == [StartLanding(LANDING)]
    assert events(decision) == [("Normal", "Started")]
    status = decision.status
    assert (status.phase, status.revision, status.started) == (
        BackfillPhase.PLANNING,
        revision_of(LANDING.group),
        NOW,
    )
    assert (status.side_lane, status.observed_generation) == ("fix-uid1", 2)


def test_without_a_group_it_waits_and_says_so() -> None:
    decision = decide(
        seen(landing=MissingSpec("GroupNotFound", "there is no ConsumerGroup clicks"))
    )

    assert decision.actions == ()
    assert (decision.status.phase, decision.status.reason) == (
        BackfillPhase.PENDING,
        "GroupNotFound",
    )


def test_a_spec_that_is_wrong_fails() -> None:
    decision = decide(seen(spec={"share": "many"}))

    assert (decision.status.phase, decision.status.reason) == (BackfillPhase.FAILED, "SpecInvalid")
    assert "spec.share" in condition(decision.status, "Failed")[2]
    assert deeds(decision) == []


def test_the_status_shows_what_its_driver_reports() -> None:
    report = BackfillReport(
        phase="Landing", offsets=200, landed_offsets=90, records_per_second=2, message="slow"
    )

    status = decide(seen(at(BackfillPhase.PLANNING), pod=RUNNING, report=report)).status

    assert (status.phase, status.progress, status.percent) == (BackfillPhase.LANDING, "45%", 45)
    assert (status.eta, status.records_per_second, status.message) == ("55s", 2, "slow")
    assert (status.offsets, status.landed_offsets) == (200, 90)


def test_a_hundred_percent_are_shown_only_when_all_is_landed() -> None:
    report = BackfillReport(phase="Landing", offsets=1000, landed_offsets=999)

    assert decide(seen(at(BackfillPhase.LANDING), pod=RUNNING, report=report)).status.percent == 99


def test_a_pod_that_does_not_run_is_explained_and_left_to_the_kubelet() -> None:
    pod = replace(RUNNING, address="", exit_code=5, problem="Retry: kafka does not answer")

    decision = decide(seen(at(BackfillPhase.LANDING), pod=pod))

    assert decision.actions == ()
    assert decision.status.phase is BackfillPhase.LANDING
    assert "kafka does not answer" in decision.status.message


@pytest.mark.parametrize("change", [{"is_over": True, "exit_code": 137}, {"cores": "2"}])
def test_a_pod_that_was_evicted_or_has_other_cores_is_replaced(change: dict[str, Any]) -> None:
    pod = replace(RUNNING, **change)

    assert deeds(decide(seen(at(BackfillPhase.LANDING), pod=pod))) == [DeletePod("pod")]
    ending = replace(pod, terminating=True)
    assert deeds(decide(seen(at(BackfillPhase.LANDING), pod=ending))) == []
    assert deeds(decide(seen(at(BackfillPhase.LANDING)))) == [StartLanding(LANDING)]


def test_started_again_it_stays_in_its_phase() -> None:
    status = decide(seen(at(BackfillPhase.LANDING, revision="g1-old"))).status

    assert (status.phase, status.revision) == (BackfillPhase.LANDING, "g1-old")


def test_a_pod_of_somebody_else_is_left_alone() -> None:
    pod = replace(RUNNING, owner="another")

    decision = decide(seen(pod=pod))

    assert decision.actions == ()
    assert decision.status.reason == "NameTaken"


def test_what_would_fail_again_has_failed() -> None:
    report = BackfillReport(phase="Failed", reason="NothingChosen", message="no slice is chosen")
    pod = replace(RUNNING, exit_code=2, report=report)

    decision = decide(seen(at(BackfillPhase.PLANNING), pod=pod))

    assert (decision.status.phase, decision.status.reason) == (
        BackfillPhase.FAILED,
        "NothingChosen",
    )
    assert condition(decision.status, "Failed") == ("True", "NothingChosen", "no slice is chosen")
    assert events(decision) == [("Warning", "Failed")]


def test_an_image_without_the_command_has_failed() -> None:
    pod = replace(RUNNING, exit_code=2)

    assert decide(seen(at(BackfillPhase.PLANNING), pod=pod)).status.reason == "UnknownCommand"


# ------------------------------------------------------------------------- compared, promoted


def test_a_comparison_is_kept_with_its_sample() -> None:
    done = replace(RUNNING, is_over=True, exit_code=0, report=COMPARED)

    decision = decide(seen(at(BackfillPhase.COMPARING), pod=done))

    status = decision.status
    assert status.phase is BackfillPhase.COMPARED
    assert status.comparison
    assert status.comparison.model_dump(by_alias=True) == {
        "rows": {"old": 10, "new": 12, "onlyOld": 1, "onlyNew": 3},
        "deadLetters": {"old": 2, "new": 0},
        "bytes": {"old": 100, "new": 110},
        "outputPartitions": 4,
        "differing": 1,
        "sample": ("old  a:1  x", "new  b:1  y"),
        "recordsPerSecond": 75,
    }
    assert condition(status, "Compared")[:2] == ("True", "Compared")
    (event,) = decision.actions
    assert isinstance(event, EmitEvent)
    assert "new  b:1  y" in event.message
    with_sidecar = replace(done, has_others=True)
    assert deeds(decide(seen(at(BackfillPhase.COMPARING), pod=with_sidecar))) == [DeletePod("pod")]


@pytest.mark.parametrize("promote", ["Manual", "Never"])
def test_only_an_automatic_one_is_promoted(promote: str) -> None:
    decision = decide(seen(compared(), spec={"promote": promote}))

    assert decision.actions == ()
    assert decision.status.phase is BackfillPhase.COMPARED
    assert is_settled(decision.status, promote)


def test_the_request_is_stored_before_it_is_sent() -> None:
    observed = seen(compared(), spec={"promote": "Automatic"})
    assert not backfills.wants_answer(observed)

    decision = decide(observed)

    assert decision.status.promotion == PromotionStatus(id="uid-1/20261126T100000", since=NOW)
    assert not is_settled(decision.status, "Automatic")
    asking = seen(decision.status, spec={"promote": "Automatic"})
    assert backfills.wants_answer(asking)
    assert decide(asking).status.promotion == decision.status.promotion


def promoting(outcome: PromotionOutcome, message: str, promote: str = "Automatic") -> Any:
    asked = compared(
        phase=BackfillPhase.PROMOTING, promotion=PromotionStatus(id="uid-1/x", since=NOW)
    )
    slot = 77 if outcome == "done" else None
    answer = PromotionAnswer(outcome, message, slot)
    return decide(seen(asked, answer=answer, spec={"promote": promote}))


def test_a_promotion_that_is_done_names_its_slot() -> None:
    decision = promoting("done", "recorded in slot 77")

    status = decision.status
    assert (status.phase, status.ledger_slot) == (BackfillPhase.PROMOTED, 77)
    assert condition(status, "Promoted") == ("True", "Promoted", "recorded in slot 77")
    assert condition(status, "Compared")[2] == COMPARED.message
    assert events(decision) == [("Normal", "Promoted")]


def test_a_promotion_that_is_refused_fails_until_somebody_says_retry() -> None:
    failed = promoting("refused", "the live group runs generation 2 by another spec").status

    assert (failed.phase, failed.reason) == (BackfillPhase.FAILED, "PromotionRefused")
    again = decide(
        seen(failed, spec={"promote": "Automatic"}, metadata={"annotations": {RETRY: ""}})
    )
    assert deeds(again) == [RemoveAnnotation(RETRY)]
    assert (again.status.phase, again.status.promotion) == (BackfillPhase.COMPARED, None)


@pytest.mark.parametrize("outcome", ["waiting", "failed"])
def test_a_promotion_without_an_answer_goes_on(outcome: PromotionOutcome) -> None:
    status = promoting(outcome, "wait").status

    assert (status.phase, status.message) == (BackfillPhase.PROMOTING, "wait")


def test_a_promotion_that_nobody_carries_out_is_taken_back() -> None:
    assert promoting("waiting", "", "Manual").status.phase is BackfillPhase.PROMOTING
    assert promoting("failed", "", "Manual").status.phase is BackfillPhase.COMPARED


def test_the_outcomes_are_those_of_the_driver() -> None:
    assert {"done", "refused", "waiting", "failed"} == {*Outcome} - {Outcome.DRY_RUN}


# --------------------------------------------------------------------------------------- retry


def test_what_failed_waits_for_the_annotation() -> None:
    failed = at(BackfillPhase.FAILED, reason="DataLoss", message="it is gone")

    decision = decide(seen(failed, pod=RUNNING))

    assert decision.actions == ()
    assert is_settled(decision.status, "Automatic")


def test_a_retry_removes_the_pod_first_and_the_annotation_last() -> None:
    failed = at(BackfillPhase.FAILED, reason="DataLoss")
    asks = {"annotations": {RETRY: ""}}

    first = decide(seen(failed, pod=RUNNING, metadata=asks))
    last = decide(seen(failed, metadata=asks))

    assert deeds(first) == [DeletePod("pod")]
    assert deeds(last) == [RemoveAnnotation(RETRY)]
    assert last.status.phase is BackfillPhase.PENDING


def test_a_condition_keeps_the_time_of_its_change() -> None:
    first = decide(seen()).status
    later = decide(replace(seen(first, pod=RUNNING), now=NOW + timedelta(minutes=5))).status

    assert {each.last_transition_time for each in later.conditions} == {NOW}


def test_a_status_that_another_release_wrote_is_read_as_far_as_it_can_be() -> None:
    body = {
        "metadata": {"name": "fix", "namespace": "logs", "uid": "u", "finalizers": [FINALIZER]},
        "spec": {"group": "clicks"},
        "status": {"phase": "Elsewhere", "later": 1, "offsets": 5},
    }

    observed = observation(body, NOW, LANDING)

    assert (observed.status.phase, observed.status.offsets) == (BackfillPhase.PENDING, 5)
