"""The image of groups that name none, and how many groups change their revision at once."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import Stage
from landfall_operator.core.images import followed
from tests.support.operator.cluster_model import SITE, World, group

MINUTE = timedelta(minutes=1)
FOLLOW = {"image": "Follow"}


def landing(**upgrade: str) -> World:
    world = World(group(None, upgrade=upgrade), context=replace(SITE, image="first"))
    world.run(10 * MINUTE)
    assert world.landing == ["first"]
    return world


def release(world: World, image: str) -> None:
    """An operator with another default image continues."""
    world.context = replace(world.context, image=image)


def condition(world: World, kind: ConditionType) -> tuple[str, ConditionReason, str]:
    (found,) = (each for each in world.status.conditions if each.type is kind)
    return found.status, found.reason, found.message


def test_a_pinned_group_keeps_its_image_and_shows_that_there_is_a_newer_one() -> None:
    world = landing()
    before = world.status.newer_image
    release(world, "second")
    world.run(10 * MINUTE)

    assert world.landing == ["first"]
    assert (before, world.status.newer_image) == (None, "second")
    assert condition(world, ConditionType.DEPLOYED)[0] == "True"


def test_a_group_that_follows_hands_over_to_the_new_image_of_each_release() -> None:
    world = landing(**FOLLOW)
    for image in ("second", "third"):
        release(world, image)
        world.run(10 * MINUTE)

        assert world.landing == [image]
        assert world.status.newer_image is None
    world.run(180 * MINUTE)
    assert world.images == ["third"]


def test_the_image_of_the_operator_before_comes_back_with_its_revision() -> None:
    world = landing(**FOLLOW)
    first = world.status.rollout.active
    release(world, "second")
    world.run(180 * MINUTE)
    release(world, "first")
    world.run(180 * MINUTE)

    assert (world.landing, world.status.rollout.active) == (["first"], first)


def test_a_new_image_that_fails_is_rolled_back_and_not_tried_again() -> None:
    world = landing(**FOLLOW)
    release(world, "broken")
    world.run(60 * MINUTE)

    assert world.landing == ["first"]
    assert (world.status.reason, world.status.newer_image) == (
        ConditionReason.ROLLED_BACK,
        "broken",
    )


def test_starting_to_follow_the_image_that_runs_changes_no_driver() -> None:
    world = landing()
    world.edit(group(None, upgrade=FOLLOW))
    world.run(10 * MINUTE)

    assert world.stages[-1] is Stage.SETTLED
    assert len(world.records) == 1


def test_an_image_in_the_spec_is_followed_by_nobody() -> None:
    world = World(group("mine", upgrade=FOLLOW), context=replace(SITE, image="first"))
    world.run(10 * MINUTE)
    release(world, "second")
    world.run(10 * MINUTE)

    assert (world.landing, world.status.newer_image) == (["mine"], None)


def test_an_edit_under_a_new_operator_is_one_rollout() -> None:
    world = landing(**FOLLOW)
    release(world, "second")
    world.edit(group(None, upgrade=FOLLOW, uploadPolicy={"maxAge": "1m"}))
    world.run(180 * MINUTE)

    assert (world.landing, len(world.records)) == (["second"], 2)


def test_a_record_that_is_gone_starts_no_rollout_to_the_image_that_runs() -> None:
    world = landing(**FOLLOW)
    release(world, "second")
    world.run(180 * MINUTE)
    assert world.group
    left = [record for record in world.records if record.image == "second"]

    kept = followed(world.group, left, "second")

    assert kept.spec.image == "second"


def test_a_change_waits_for_other_groups_and_says_so() -> None:
    world = landing(**FOLLOW)
    world.rollout_limit = 5
    release(world, "second")
    world.run(30 * MINUTE)
    waiting = world.landing
    reconciling = condition(world, ConditionType.RECONCILING)
    deployed = condition(world, ConditionType.DEPLOYED)
    world.rollout_limit = 0
    world.run(10 * MINUTE)

    assert (waiting, world.landing) == (["first"], ["second"])
    assert reconciling[:2] == ("True", ConditionReason.QUEUED)
    assert "while 5 other groups change their revision" in reconciling[2]
    assert deployed[:2] == ("False", ConditionReason.QUEUED)


def test_a_change_of_a_group_that_does_not_land_waits_for_nobody() -> None:
    world = World(group("broken"))
    world.run(10 * MINUTE)
    world.rollout_limit = 1
    world.edit(group("good"))
    world.run(10 * MINUTE)

    assert world.landing == ["good"]


@pytest.mark.parametrize("change", [{"state": "Suspended"}, {"replicas": 3}])
def test_what_is_no_change_of_the_revision_waits_for_nobody(change: dict[str, object]) -> None:
    world = World(group())
    world.run(10 * MINUTE)
    world.rollout_limit = 1
    world.edit(group(**change))
    world.run(10 * MINUTE)

    assert condition(world, ConditionType.DEPLOYED)[0] == "True"
