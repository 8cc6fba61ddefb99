"""What is concluded from the comparison of a trial."""

from typing import Any

import pytest

from landfall.api.spec import ConsumerGroup
from landfall_operator.api.backfill_status import BackfillPhase
from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.status import TrialResult, TrialStatus
from landfall_operator.core import trials
from landfall_operator.core.trial_backfills import TrialBackfill, trial_backfill_of
from tests.support.operator.cluster_model import START, group

TRIAL = TrialStatus(revision="g2-b", terms="", since=START, backfill="clicks-g2-b")


def shadow(**tolerate: str) -> ConsumerGroup:
    return group(upgrade={"strategy": "Shadow", "shadow": {"tolerate": tolerate}})


def canary(**settings: str) -> ConsumerGroup:
    return group(upgrade={"strategy": "Canary", "canary": settings})


def backfill(
    rows: tuple[int, int, int, int], letters: tuple[int, int] = (0, 0), speed: int = 500
) -> TrialBackfill:
    """A Backfill that has compared so many rows: old, new, only old, only new."""
    comparison = {
        "rows": dict(zip(("old", "new", "onlyOld", "onlyNew"), rows, strict=True)),
        "deadLetters": dict(zip(("old", "new"), letters, strict=True)),
        "recordsPerSecond": speed,
        "sample": ["old  a:1  {}"] * 20,
        "bytes": {"old": 9, "new": 9},
        "outputPartitions": 1,
        "differing": 1,
    }
    labels = {"app.kubernetes.io/component": "trial"}
    status: dict[str, Any] = {"phase": "Compared", "offsets": 60_000, "comparison": comparison}
    found = trial_backfill_of({"metadata": {"name": "b", "labels": labels}, "status": status})
    assert found
    return found


def judged(found: TrialBackfill, asked: ConsumerGroup) -> TrialStatus:
    assert found.comparison
    return trials.of_comparison(TRIAL, found.comparison, found, asked)


@pytest.mark.parametrize(
    ("rows", "tolerated", "result"),
    [
        ((1000, 1000, 0, 0), "0%", TrialResult.PASSED),
        ((1000, 1000, 1, 1), "0%", TrialResult.REFUSED),
        ((1000, 1001, 0, 1), "0%", TrialResult.REFUSED),
        ((1000, 999, 1, 0), "0%", TrialResult.REFUSED),
        ((1000, 1000, 10, 10), "1%", TrialResult.PASSED),
        ((1000, 1000, 11, 11), "1%", TrialResult.REFUSED),
        ((1000, 1000, 1000, 1000), "100%", TrialResult.PASSED),
        ((0, 1000, 0, 1000), "99.9%", TrialResult.REFUSED),
    ],
)
def test_shadow_counts_rows_that_only_one_of_the_two_has(
    rows: tuple[int, int, int, int], tolerated: str, result: TrialResult
) -> None:
    assert judged(backfill(rows), shadow(rows=tolerated)).result is result


@pytest.mark.parametrize(
    ("letters", "tolerated", "result"),
    [
        ((0, 0), "0%", TrialResult.PASSED),
        ((5, 0), "0%", TrialResult.PASSED),
        ((5, 5), "0%", TrialResult.PASSED),
        ((0, 1), "0%", TrialResult.REFUSED),
        ((0, 10), "1%", TrialResult.PASSED),
        ((0, 11), "1%", TrialResult.REFUSED),
    ],
)
def test_shadow_counts_records_that_became_dead_letters_and_were_none(
    letters: tuple[int, int], tolerated: str, result: TrialResult
) -> None:
    found = backfill((1000 - letters[0], 1000 - letters[1], 0, 0), letters)

    assert judged(found, shadow(rows="100%", deadLetters=tolerated)).result is result


def test_a_refusal_names_the_counts_and_keeps_some_rows() -> None:
    refused = judged(backfill((1000, 900, 150, 50), (0, 100)), shadow())

    assert refused.reason is ConditionReason.TRIAL_REFUSED
    assert refused.message == (
        "150 of 1000 old and 50 of 900 new rows differ; none may; "
        "100 records became dead letters, 0 before; none may"
    )
    assert refused.comparison
    assert len(refused.comparison.sample) == 6


@pytest.mark.parametrize(
    ("rows", "letters", "result"),
    [
        pytest.param((9900, 9900, 9, 9), (100, 100), TrialResult.PASSED, id="as before"),
        pytest.param((10_000, 9900, 100, 0), (0, 100), TrialResult.PASSED, id="as many as may"),
        pytest.param((10_000, 9899, 101, 0), (0, 101), TrialResult.REFUSED, id="more than may"),
        pytest.param(
            (5000, 6000, 0, 1000), (5000, 4000), TrialResult.PASSED, id="fewer than before"
        ),
        pytest.param((5000, 4999, 1, 0), (5000, 5001), TrialResult.REFUSED, id="more than before"),
        pytest.param((10_000, 0, 10_000, 0), (0, 0), TrialResult.REFUSED, id="nothing"),
    ],
)
def test_canary_judges_bad_records_and_not_rows(
    rows: tuple[int, int, int, int], letters: tuple[int, int], result: TrialResult
) -> None:
    assert judged(backfill(rows, letters), canary()).result is result


@pytest.mark.parametrize(
    ("speed", "wanted", "result"),
    [
        (50, "50%", TrialResult.PASSED),
        (49, "50%", TrialResult.REFUSED),
        (1, "0%", TrialResult.PASSED),
        (99, "100%", TrialResult.REFUSED),
    ],
)
def test_canary_compares_its_speed_with_that_at_which_the_records_were_landed(
    speed: int, wanted: str, result: TrialResult
) -> None:
    """60,000 offsets in a window of ten minutes are a hundred per second."""
    found = backfill((60_000, 60_000, 0, 0), speed=speed)

    assert judged(found, canary(minThroughput=wanted)).result is result


def test_the_speed_of_a_group_that_lands_next_to_nothing_does_not_count() -> None:
    found = backfill((60_000, 60_000, 0, 0), speed=0)

    assert judged(found, canary(window="1d")).result is TrialResult.PASSED


@pytest.mark.parametrize("asked", [shadow(), canary()], ids=["shadow", "canary"])
def test_without_rows_there_is_no_result(asked: ConsumerGroup) -> None:
    assert judged(backfill((0, 0, 0, 0)), asked).result is TrialResult.SKIPPED


@pytest.mark.parametrize(
    ("reason", "result", "said"),
    [
        ("NothingChosen", TrialResult.SKIPPED, None),
        ("DataLoss", TrialResult.SKIPPED, None),
        ("BadRecordsOverLimit", TrialResult.REFUSED, ConditionReason.TRIAL_REFUSED),
        ("StoreUnavailable", TrialResult.FAILED, ConditionReason.STORE_UNAVAILABLE),
        ("SpecInvalid", TrialResult.FAILED, ConditionReason.TRIAL_FAILED),
        ("", TrialResult.FAILED, ConditionReason.TRIAL_FAILED),
    ],
)
def test_why_a_backfill_failed_decides_what_becomes_of_the_revision(
    reason: str, result: TrialResult, said: ConditionReason | None
) -> None:
    found = TrialBackfill("b", BackfillPhase.FAILED, reason, "why")

    judged = trials.of_failure(TRIAL, found, shadow())

    assert (judged.result, judged.reason) == (result, said)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        pytest.param(None, ConditionReason.DEPENDENCY_UNAVAILABLE, id="not created"),
        pytest.param(TrialBackfill("b"), ConditionReason.DEPENDENCY_UNAVAILABLE, id="not begun"),
        pytest.param(
            TrialBackfill("b", BackfillPhase.LANDING, "Unschedulable"),
            ConditionReason.UNSCHEDULABLE,
            id="no room",
        ),
        pytest.param(
            TrialBackfill("b", BackfillPhase.LANDING), ConditionReason.TRIAL_TIMED_OUT, id="slow"
        ),
    ],
)
def test_what_kept_a_trial_from_ending(
    found: TrialBackfill | None, reason: ConditionReason
) -> None:
    assert trials.cause_of_delay(found) is reason


@pytest.mark.parametrize(
    "comparison",
    [None, {}, "text", {"rows": 5}, {"rows": {"old": 1}, "deadLetters": {"old": 0, "new": 0}}],
)
def test_a_comparison_of_another_release_is_none(comparison: object) -> None:
    labels = {"app.kubernetes.io/component": "trial"}
    body = {"metadata": {"name": "b", "labels": labels}, "status": {"comparison": comparison}}

    found = trial_backfill_of(body)

    assert found
    assert found.comparison is None


def test_a_backfill_of_a_user_is_no_trial() -> None:
    assert trial_backfill_of({"metadata": {"name": "fix-ts"}}) is None
