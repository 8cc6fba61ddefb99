"""The table leaves no stage without a way out, and deletion always comes first."""

from datetime import timedelta

import pytest

from landfall_operator.api.reasons import ConditionReason
from landfall_operator.api.status import Crashes, Rejected, RetryStatus, RolloutStatus, Stage
from landfall_operator.core.rollout import TABLE, RolloutEvent, forgive, next_event, transition
from tests.support.operator.cluster_model import START


def reachable(stage: Stage) -> set[Stage]:
    found, pending = set(), [stage]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending.extend(TABLE[at].values())
    return found


ROWS = [(stage, event) for stage, row in TABLE.items() for event in row]


def test_every_stage_has_a_row() -> None:
    assert set(TABLE) == set(Stage)


def test_every_stage_is_reached_from_the_first() -> None:
    assert reachable(Stage.SETTLED) == set(Stage)


@pytest.mark.parametrize("stage", sorted(set(Stage) - {Stage.DELETING, Stage.DELETED}))
def test_every_stage_can_settle_or_be_deleted_and_deletion_comes_first(stage: Stage) -> None:
    assert next(iter(TABLE[stage])) is RolloutEvent.DELETE
    assert {Stage.SETTLED, Stage.DELETED} <= reachable(stage)


@pytest.mark.parametrize(
    "stage", [Stage.YIELDING, Stage.DRAINING, Stage.SUSPENDING, Stage.DELETING]
)
def test_no_stage_waits_forever_for_a_driver(stage: Stage) -> None:
    assert RolloutEvent.TIMED_OUT in TABLE[stage]


def test_every_event_has_an_effect_in_some_stage() -> None:
    assert {event for _, event in ROWS} == set(RolloutEvent)


def test_the_order_of_a_row_is_the_priority() -> None:
    everything = frozenset(RolloutEvent)

    assert next_event(Stage.WARMING, everything) is RolloutEvent.DELETE
    assert (
        next_event(Stage.WARMING, everything - {RolloutEvent.DELETE, RolloutEvent.SUSPEND})
        is RolloutEvent.CHANGE_WARM
    )
    assert next_event(Stage.DELETED, everything) is None


@pytest.mark.parametrize(("stage", "event"), ROWS)
def test_every_transition_restarts_the_stages_clock(stage: Stage, event: RolloutEvent) -> None:
    before = RolloutStatus(stage=stage, active="g1-a", target="g2-b")

    after = transition(before, event, "g2-b", START, None)

    assert (after.stage, after.since) == (TABLE[stage][event], START)


def test_a_handover_records_the_revision_to_roll_back_to() -> None:
    before = RolloutStatus(stage=Stage.YIELDING, active="g1-a", target="g2-b", committed="g1-a")

    after = transition(before, RolloutEvent.YIELDED, "g2-b", START, None)

    assert (after.active, after.target, after.previous) == ("g2-b", None, "g1-a")


@pytest.mark.parametrize("event", [RolloutEvent.YIELDED, RolloutEvent.TIMED_OUT])
def test_a_revision_that_never_committed_is_not_recorded(event: RolloutEvent) -> None:
    before = RolloutStatus(stage=Stage.YIELDING, active="g1-a", target="g2-b")

    assert transition(before, event, "g2-b", START, None).previous is None


def test_an_unproven_revision_is_never_rolled_back_to() -> None:
    before = RolloutStatus(
        stage=Stage.YIELDING, active="g2-b", target="g3-c", previous="g1-a", committed="g2-b"
    )

    assert transition(before, RolloutEvent.YIELDED, "g3-c", START, None).previous == "g1-a"


def test_a_rollback_keeps_its_target_until_it_lands() -> None:
    rollout = RolloutStatus(stage=Stage.WATCHING, active="g2-b", previous="g1-a")

    for event in (RolloutEvent.REVERT_WARM, RolloutEvent.TARGET_WARM, RolloutEvent.YIELDED):
        rollout = transition(rollout, event, "g2-b", START, rejected())
        assert rollout.previous == "g1-a"
    rollout = transition(rollout, RolloutEvent.LANDING, "g1-a", START, None)

    assert (rollout.active, rollout.previous, rollout.rejected) == ("g1-a", None, rejected())


def test_the_pauses_between_rollbacks_grow_up_to_an_hour() -> None:
    rollout = RolloutStatus(stage=Stage.WATCHING, active="g2-b", previous="g1-a")
    pauses = []

    for _ in range(5):
        rollout = transition(rollout, RolloutEvent.REVERT_WARM, "g2-b", START, rejected())
        rollout = transition(rollout, RolloutEvent.TARGET_BROKEN, "g2-b", START, rejected())
        assert rollout.retry
        pauses.append((rollout.retry.time - START) / timedelta(minutes=1))

    assert pauses == [10, 20, 40, 60, 60]
    assert (rollout.previous, rollout.retry.message) == ("g1-a", "why")


def test_what_the_environment_caused_is_tried_again() -> None:
    rollout = RolloutStatus(stage=Stage.OPENING, active="g2-b", previous="g1-a")

    rollout = transition(
        rollout, RolloutEvent.REVERT_DRAIN, "g2-b", START, rejected(ConditionReason.IMAGE_PULL)
    )
    rollout = transition(rollout, RolloutEvent.DRAINED, "g1-a", START, None)
    rollout = transition(rollout, RolloutEvent.LANDING, "g1-a", START, None)

    assert rollout.retry == RetryStatus(
        attempts=1, time=START + timedelta(minutes=10), message="why"
    )


def test_forgiving_clears_all_that_speaks_against_a_spec() -> None:
    crashes = Crashes(revision="g2-b", pod="p", restarts=4, count=3)
    retry = RetryStatus(attempts=2, time=START)
    before = RolloutStatus(rejected=rejected(), retry=retry, crashes=crashes)

    after = forgive(before)

    assert (after.rejected, after.retry) == (None, None)
    assert after.crashes == Crashes(revision="g2-b", pod="p", restarts=4, count=0)
    assert forgive(RolloutStatus()) == RolloutStatus()


def rejected(reason: ConditionReason = ConditionReason.CRASH_LOOP) -> Rejected:
    return Rejected(digest="d", reason=reason, message="why", generation=2)
