"""The table leaves no stage without a way out, and deletion always comes first."""

import pytest

from landfall_operator.api.status import RolloutStatus, Stage
from landfall_operator.core.rollout import TABLE, Event, next_event, transition
from tests.support.cluster_model import START


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
    assert next(iter(TABLE[stage])) is Event.DELETE
    assert {Stage.SETTLED, Stage.DELETED} <= reachable(stage)


@pytest.mark.parametrize(
    "stage", [Stage.YIELDING, Stage.DRAINING, Stage.SUSPENDING, Stage.DELETING]
)
def test_no_stage_waits_forever_for_a_driver(stage: Stage) -> None:
    assert Event.TIMED_OUT in TABLE[stage]


def test_every_event_has_an_effect_in_some_stage() -> None:
    assert {event for _, event in ROWS} == set(Event)


def test_the_order_of_a_row_is_the_priority() -> None:
    everything = frozenset(Event)

    assert next_event(Stage.WARMING, everything) is Event.DELETE
    assert (
        next_event(Stage.WARMING, everything - {Event.DELETE, Event.SUSPEND}) is Event.CHANGE_WARM
    )
    assert next_event(Stage.DELETED, everything) is None


@pytest.mark.parametrize(("stage", "event"), ROWS)
def test_every_transition_restarts_the_stages_clock(stage: Stage, event: Event) -> None:
    before = RolloutStatus(stage=stage, active="g1-a", target="g2-b")

    after = transition(before, event, "g2-b", START, None)

    assert (after.stage, after.since) == (TABLE[stage][event], START)


def test_a_handover_records_the_revision_to_roll_back_to() -> None:
    before = RolloutStatus(stage=Stage.YIELDING, active="g1-a", target="g2-b")

    after = transition(before, Event.YIELDED, "g2-b", START, None)

    assert (after.active, after.target, after.previous) == ("g2-b", None, "g1-a")


def test_an_unproven_revision_is_never_rolled_back_to() -> None:
    before = RolloutStatus(stage=Stage.YIELDING, active="g2-b", target="g3-c", previous="g1-a")

    assert transition(before, Event.YIELDED, "g3-c", START, None).previous == "g1-a"


def test_a_rollback_has_no_revision_to_roll_back_to() -> None:
    before = RolloutStatus(stage=Stage.YIELDING, active="g2-b", target="g1-a", previous="g1-a")

    assert transition(before, Event.YIELDED, "g1-a", START, None).previous is None
