"""The verbs of a group, carried out on a model of a cluster."""

from datetime import timedelta

import pytest

from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import RequestStatus, Stage
from landfall_operator.api.verbs import PAUSE, Verb, annotation
from landfall_operator.core.requests import answer
from tests.support.operator.cluster_model import World, group

MINUTE = timedelta(minutes=1)


@pytest.fixture
def world() -> World:
    """A group that has been landing for five minutes."""
    new = World(group("good", replicas=2))
    new.run(5 * MINUTE)
    new.stages.clear()
    new.events.clear()
    return new


@pytest.fixture
def upgraded(world: World) -> World:
    """That group, after an upgrade that is still watched."""
    world.edit(group("better"))
    world.run(5 * MINUTE)
    assert (world.landing, world.status.rollout.stage) == (["better"], Stage.WATCHING)
    world.stages.clear()
    return world


def answered(world: World) -> RequestStatus:
    """The answer to the last request; its annotation is gone unless it has a value."""
    assert "" not in world.annotations.values()
    assert world.status.last_request
    return world.status.last_request


def test_rollback_goes_back_to_the_previous_revision_and_stays_there(upgraded: World) -> None:
    upgraded.request(Verb.ROLLBACK)
    upgraded.run(3 * 60 * MINUTE)

    assert (upgraded.landing, upgraded.images) == (["good"], ["good"])
    assert (answered(upgraded).verb, answered(upgraded).accepted) == ("rollback", True)
    assert upgraded.status.phase == "Stalled"  # the spec asks for another one
    assert upgraded.status.reason is ConditionReason.ROLLED_BACK


def test_rollback_of_a_settled_group_takes_the_newest_other_revision(upgraded: World) -> None:
    upgraded.run(3 * 60 * MINUTE)
    assert upgraded.status.rollout.stage is Stage.SETTLED

    upgraded.request(Verb.ROLLBACK)
    upgraded.run(10 * MINUTE)

    assert upgraded.landing == ["good"]


def test_rollback_takes_the_named_revision(upgraded: World) -> None:
    first = next(r.revision for r in upgraded.records if r.image == "good")
    upgraded.edit(group("best"))
    upgraded.run(3 * 60 * MINUTE)
    assert upgraded.landing == ["best"]

    upgraded.request(Verb.ROLLBACK, first)
    upgraded.run(10 * MINUTE)

    assert upgraded.landing == ["good"]


def requests(world: World) -> list[str]:
    return [event for event in world.events if event.startswith("Request")]


@pytest.mark.parametrize("verb", list(Verb))
def test_a_value_is_answered_once_however_often_git_applies_it(world: World, verb: Verb) -> None:
    for _ in range(5):  # the tool sets what its file has; the operator does not remove it
        world.request(verb, "2026-11-26")
        world.run(10 * MINUTE)

    assert len(requests(world)) == 1
    assert world.annotations == {annotation(verb): "2026-11-26"}
    assert world.status.answered_requests == {verb: "2026-11-26"}


def test_one_value_restarts_the_driver_once_and_another_one_once_more(world: World) -> None:
    def drained() -> int:
        return world.stages.count(Stage.DRAINING)

    world.request(Verb.RESTART, "one")
    world.run(30 * MINUTE)
    once = drained()
    world.request(Verb.RESTART, "two")
    world.run(30 * MINUTE)

    assert (once, drained()) == (1, 2)
    assert world.landing == ["good"]


def test_a_value_that_was_removed_may_be_given_again(world: World) -> None:
    world.request(Verb.RESTART, "one")
    world.run(10 * MINUTE)
    world.annotations.clear()
    world.run(MINUTE)
    forgotten = world.status.answered_requests
    world.request(Verb.RESTART, "one")
    world.run(10 * MINUTE)

    assert forgotten is None
    assert len(requests(world)) == 2


def test_a_line_in_git_does_not_roll_back_what_comes_after_it(upgraded: World) -> None:
    first = next(r.revision for r in upgraded.records if r.image == "good")
    upgraded.request(Verb.ROLLBACK, f"{first} because of INC-12")
    upgraded.run(10 * MINUTE)
    back = upgraded.landing
    upgraded.edit(group("best"))
    upgraded.run(10 * MINUTE)

    assert (back, upgraded.landing) == (["good"], ["best"])


def test_a_bare_request_and_one_with_a_value_do_not_disturb_each_other(world: World) -> None:
    world.request(Verb.RESTART, "one")
    world.run(10 * MINUTE)
    world.request(Verb.RETRY)
    world.run(10 * MINUTE)

    assert [event.partition(" ")[2].partition(":")[0] for event in requests(world)] == [
        "restart",
        "retry",
    ]
    assert world.annotations == {annotation(Verb.RESTART): "one"}


def test_rollback_to_a_revision_that_nobody_kept_is_refused_with_those_that_are(
    upgraded: World,
) -> None:
    kept = next(r.revision for r in upgraded.records if r.image == "good")
    upgraded.request(Verb.ROLLBACK, "g9-00000000")
    upgraded.run(10 * MINUTE)

    assert upgraded.landing == ["better"]
    assert not answered(upgraded).accepted
    assert f"no other revision g9-00000000; kept are: {kept}" in answered(upgraded).message


def test_what_an_annotation_says_forges_no_line_and_commands_no_terminal(upgraded: World) -> None:
    upgraded.request(Verb.ROLLBACK, "g9\x1b[2J\u202e\nall-landed" + "x" * 10_000)
    upgraded.run(10 * MINUTE)

    message = answered(upgraded).message
    assert not answered(upgraded).accepted
    assert message.isprintable()
    assert r"'g9\x1b[2J\u202e\nall-landed" in message
    assert len(message) < 1_000


def test_another_spec_after_a_rollback_by_request_is_tried(upgraded: World) -> None:
    upgraded.request(Verb.ROLLBACK)
    upgraded.run(10 * MINUTE)

    upgraded.edit(group("best"))
    upgraded.run(10 * MINUTE)

    assert upgraded.landing == ["best"]


def test_retry_tries_a_spec_again_that_was_rolled_back(world: World) -> None:
    world.edit(group("bad"))
    world.run(20 * MINUTE)
    assert (world.landing, world.status.reason) == (["good"], ConditionReason.ROLLED_BACK)
    world.stages.clear()

    world.request(Verb.RETRY)
    world.run(4 * MINUTE)

    assert answered(world).accepted
    assert Stage.WARMING in world.stages


def test_retry_reaches_the_driver(world: World) -> None:
    world.request(Verb.RETRY)
    world.run(MINUTE)

    assert world.tried_again == [world.status.rollout.active]


def test_promote_starts_a_target_that_finds_no_room_beside_the_active_one(world: World) -> None:
    world.edit(group("slow"))
    world.run(MINUTE)
    assert world.status.rollout.stage is Stage.WARMING

    world.request(Verb.PROMOTE)
    world.run(MINUTE)

    assert Stage.DRAINING in world.stages
    assert answered(world).accepted


def test_promote_ends_the_watch(upgraded: World) -> None:
    upgraded.request(Verb.PROMOTE)
    upgraded.run(MINUTE)

    rollout = upgraded.status.rollout
    assert (rollout.stage, rollout.previous) == (Stage.SETTLED, None)
    assert (upgraded.landing, upgraded.stages) == (["better"], [Stage.SETTLED])


def test_abort_keeps_the_active_revision(world: World) -> None:
    world.edit(group("slow"))
    world.run(MINUTE)

    world.request(Verb.ABORT)
    world.run(20 * MINUTE)

    assert (world.landing, world.images) == (["good"], ["good"])
    assert answered(world).accepted
    assert world.status.rollout.target is None


def test_abort_brings_the_active_revision_back_that_is_stopping(world: World) -> None:
    world.edit(group("better", upgrade={"strategy": "Recreate"}))
    world.settle()
    assert world.status.rollout.stage is Stage.DRAINING

    world.request(Verb.ABORT)
    world.run(10 * MINUTE)

    assert (world.landing, world.images) == (["good"], ["good"])


def test_abort_of_a_revision_that_has_taken_over_rolls_it_back(upgraded: World) -> None:
    upgraded.request(Verb.ABORT)
    upgraded.run(10 * MINUTE)

    assert upgraded.landing == ["good"]


def test_restart_hands_over_to_a_new_pod_of_the_same_revision(world: World) -> None:
    revision, deployed = next(iter(world.drivers.items()))
    before = deployed.pod

    world.request(Verb.RESTART)
    world.run(5 * MINUTE)

    assert list(world.drivers) == [revision]
    after = world.drivers[revision].pod
    assert after is not None
    assert after is not before
    assert (world.landing, world.stages[:2]) == (["good"], [Stage.DRAINING, Stage.OPENING])


def test_restart_keeps_the_revision_to_roll_back_to(upgraded: World) -> None:
    previous = upgraded.status.rollout.previous

    upgraded.request(Verb.RESTART)
    upgraded.run(5 * MINUTE)

    assert upgraded.landing == ["better"]
    assert previous
    assert upgraded.status.rollout.previous == previous


@pytest.mark.parametrize("verb", [Verb.PROMOTE, Verb.ABORT])
def test_without_a_rollout_there_is_nothing_to_promote_or_abort(world: World, verb: Verb) -> None:
    world.request(verb)
    world.run(MINUTE)

    assert (answered(world).accepted, answered(world).message) == (
        False,
        "refused: no rollout is under way",
    )
    assert "RequestRefused" in world.events[-1]


@pytest.mark.parametrize("verb", list(Verb))
def test_a_request_that_is_answered_twice_does_no_more_than_once(
    upgraded: World, verb: Verb
) -> None:
    """An operator that dies between the two writes finds the annotation again."""
    upgraded.request(verb)
    observed = upgraded.observe()
    once = answer(observed, observed.status.rollout)
    assert once
    upgraded.reconcile()
    upgraded.request(verb)
    again = upgraded.observe()

    twice = answer(again, again.status.rollout)

    assert twice
    assert twice.rollout == once.rollout


def test_a_paused_group_is_only_reported_on(world: World) -> None:
    world.annotations[PAUSE] = "true"
    world.edit(group("better"))
    world.request(Verb.RESTART)
    revision = next(iter(world.drivers))

    assert world.reconcile() == ()
    world.run(20 * MINUTE)

    conditions = {c.type: c for c in world.status.conditions}
    assert (world.landing, list(world.drivers)) == (["good"], [revision])
    assert conditions[ConditionType.RECONCILING].reason is ConditionReason.PAUSED
    assert annotation(Verb.RESTART) in world.annotations

    del world.annotations[PAUSE]
    world.run(10 * MINUTE)

    assert world.landing == ["better"]


def test_a_paused_group_can_be_deleted(world: World) -> None:
    world.annotations[PAUSE] = "true"
    world.deleting = True
    world.run(20 * MINUTE)

    assert not world.finalizer
