"""Scenarios of a group's life, run on a model of a cluster."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall_operator.api.revisions import digest_of
from landfall_operator.api.status import Stage
from tests.support.operator.cluster_model import SITE, World, group

MINUTE = timedelta(minutes=1)


@pytest.fixture
def world() -> World:
    """A group that has been landing for five minutes."""
    new = World(group("good", replicas=2))
    new.run(5 * MINUTE)
    new.stages.clear()
    new.events.clear()
    return new


def test_a_new_group_starts_and_lands() -> None:
    world = World(group("good"))

    world.run(2 * MINUTE)

    assert (world.landing, world.status.phase, world.finalizer) == (["good"], "Running", True)
    assert world.stages == [Stage.OPENING, Stage.WATCHING, Stage.SETTLED]


def test_the_first_revision_has_nothing_to_roll_back_to() -> None:
    world = World(group("good"))

    world.run(5 * MINUTE)
    world.edit(group("better"))
    world.run(3 * 60 * MINUTE)

    first, second = (event for event in world.events if event.startswith("Settled: "))
    assert first.endswith(" is settled")
    assert second.endswith(" is settled; it can no longer be rolled back automatically")


def test_a_pass_saves_its_intent_before_it_creates_anything() -> None:
    actions = [type(action).__name__ for action in World(group("good")).reconcile()]

    assert actions[:4] == ["SaveRollout", "EmitEvent", "AddFinalizer", "Apply"]
    assert actions[-3:] == ["CreateRevision", "Apply", "Apply"]


def test_an_unused_config_map_is_deleted_even_if_its_driver_is_gone(world: World) -> None:
    world.hashes["ConfigMap/clicks-g0-left"] = "left by an operator that died"
    world.driver_specs["g0-left"] = group("good")

    world.settle()

    (driver,) = world.drivers.values()
    assert {name for name in world.hashes if name.startswith("ConfigMap/")} == {
        "ConfigMap/clicks-driver",
        f"ConfigMap/{driver.config}",
    }


def test_the_executor_count_is_sent_to_the_running_driver(world: World) -> None:
    pod = next(iter(world.drivers.values())).pod

    world.edit(group("good", replicas=5))
    world.run(MINUTE)

    assert next(iter(world.drivers.values())).pod is pod
    assert pod
    assert pod.executors == 5
    assert world.status.plan
    assert (world.status.plan.change, world.status.plan.fields) == ("Live", ("replicas",))


def test_a_new_image_is_warmed_up_before_the_old_one_yields(world: World) -> None:
    world.edit(group("better"))
    world.run(5 * MINUTE)

    assert world.stages == [Stage.WARMING, Stage.YIELDING, Stage.OPENING, Stage.WATCHING]
    assert (world.landing, world.images) == (["better"], ["better"])


def test_a_generation_is_settled_when_its_window_is_over(world: World) -> None:
    world.edit(group("better"))
    world.run(3 * 60 * MINUTE)

    assert (world.stages[-1], world.status.rollout.previous, world.status.phase) == (
        Stage.SETTLED,
        None,
        "Running",
    )
    assert [outcome.outcome for outcome in world.status.history] == ["Active", "Superseded"]


def test_recreate_stops_the_old_one_first(world: World) -> None:
    world.edit(group("better", upgrade={"strategy": "Recreate"}))
    world.run(5 * MINUTE)

    assert world.stages == [Stage.DRAINING, Stage.OPENING, Stage.WATCHING]
    assert world.images == ["better"]


@pytest.mark.parametrize("image", ["broken", "slow"])
def test_a_generation_that_never_stands_by_never_stops_the_old_one(
    world: World, image: str
) -> None:
    world.edit(group(image))
    world.run(15 * MINUTE)

    assert world.stages == [Stage.WARMING, Stage.WATCHING, Stage.SETTLED]
    assert (world.landing, world.images, world.status.phase) == (["good"], ["good"], "Stalled")
    assert world.status.reason == "RolledBack"


@pytest.mark.parametrize("image", ["bad", "failing"])
def test_a_generation_that_fails_is_rolled_back_once(world: World, image: str) -> None:
    world.edit(group(image))
    world.run(20 * MINUTE)

    assert world.stages == [
        Stage.WARMING,
        Stage.YIELDING,
        Stage.OPENING,
        Stage.WARMING,
        Stage.YIELDING,
        Stage.OPENING,
        Stage.WATCHING,
        Stage.SETTLED,
    ]
    assert (world.landing, world.status.reason) == (["good"], "RolledBack")


def test_another_spec_after_a_rollback_is_tried(world: World) -> None:
    world.edit(group("bad"))
    world.run(20 * MINUTE)

    world.edit(group("better"))
    world.run(10 * MINUTE)

    assert (world.landing, world.status.phase, world.status.rollout.rejected) == (
        ["better"],
        "Running",
        None,
    )


def test_applying_the_old_spec_rolls_back_manually(world: World) -> None:
    old = world.group
    world.edit(group("better"))
    world.run(10 * MINUTE)

    world.edit(old)
    world.run(10 * MINUTE)

    assert world.landing == ["good"]


def test_a_change_is_withdrawn_before_it_is_done(world: World) -> None:
    old = world.group
    world.edit(group("slow"))
    world.run(MINUTE)

    world.edit(old)
    world.run(MINUTE)

    assert world.stages == [Stage.WARMING, Stage.WATCHING, Stage.SETTLED]
    assert world.images == ["good"]


def test_a_broken_first_spec_is_replaced_by_a_good_one() -> None:
    world = World(group("broken"))
    world.run(5 * MINUTE)

    world.edit(group("good"))
    world.run(5 * MINUTE)

    assert (world.landing, world.images) == (["good"], ["good"])


def test_a_driver_that_ignores_commands_is_fenced_in_time() -> None:
    world = World(group("deaf"))
    world.run(2 * MINUTE)
    world.edit(group("better"))

    world.run(9 * MINUTE)
    assert world.landing == ["deaf"]

    world.run(5 * MINUTE)
    assert world.holder == next(r for r, d in world.drivers.items() if d.image == "better")


def test_an_invalid_spec_keeps_the_last_valid_one_running(world: World) -> None:
    world.edit(None, spec_error="spec.replica: unknown field, did you mean replicas?")
    world.run(5 * MINUTE)

    invalid = {c.type: c for c in world.status.conditions}["SpecValid"]
    assert (world.landing, invalid.status, invalid.reason) == (["good"], "False", "SpecInvalid")
    assert "did you mean replicas" in invalid.message


def test_an_invalid_spec_keeps_the_last_live_settings(world: World) -> None:
    world.edit(group("good", replicas=4, state="Suspended"))
    world.run(2 * MINUTE)

    world.edit(None, spec_error="not valid")
    world.run(5 * MINUTE)

    assert (world.landing, world.status.rollout.stage) == ([], Stage.SUSPENDED)


def test_a_driver_setting_is_handed_over_like_any_revision(world: World) -> None:
    world.edit(group("good", replicas=2, uploadPolicy={"maxAge": "1m"}))
    world.run(5 * MINUTE)

    assert world.stages == [Stage.WARMING, Stage.YIELDING, Stage.OPENING, Stage.WATCHING]
    assert world.group
    assert [d.digest for d in world.drivers.values()] == [digest_of(world.group)]
    assert world.status.plan
    assert (world.status.plan.change, world.status.plan.fields) == (
        "NewRevision",
        ("uploadPolicy.maxAge",),
    )


def test_the_plan_of_a_revert_names_what_was_reverted(world: World) -> None:
    old = world.group
    world.edit(group("good", replicas=2, uploadPolicy={"maxAge": "1m"}))
    world.run(5 * MINUTE)

    world.edit(old)
    world.run(MINUTE)

    assert world.status.plan
    assert world.status.plan.fields == ("uploadPolicy.maxAge",)


def test_suspending_drains_and_resuming_continues(world: World) -> None:
    world.edit(group("good", state="Suspended"))
    world.run(2 * MINUTE)
    assert (world.landing, world.status.phase, world.yielded) == ([], "Suspended", True)

    world.edit(group("good"))
    world.run(2 * MINUTE)
    assert (world.landing, world.status.phase) == (["good"], "Running")


def test_a_spec_changed_while_suspended_is_what_resumes(world: World) -> None:
    world.edit(group("good", state="Suspended"))
    world.run(2 * MINUTE)
    world.edit(group("better", state="Suspended"))
    world.run(MINUTE)

    world.edit(group("better"))
    world.run(2 * MINUTE)

    assert (world.landing, world.images) == (["better"], ["better"])


def test_deleting_drains_first(world: World) -> None:
    world.deleting = True
    world.settle()
    assert world.finalizer

    world.run(2 * MINUTE)
    assert (world.finalizer, world.landing, world.yielded) == (False, [], True)


def test_a_driver_that_was_deleted_manually_is_created_again(world: World) -> None:
    world.drivers.clear()
    world.run(2 * MINUTE)

    assert world.landing == ["good"]


def test_an_operator_of_another_release_restarts_no_driver() -> None:
    world = World(group(None))
    world.run(2 * MINUTE)
    pod, hashes = next(iter(world.drivers.values())).pod, dict(world.hashes)

    world.context = replace(SITE, image="landfall:2")
    world.run(2 * MINUTE)

    assert next(iter(world.drivers.values())).pod is pod
    assert (world.images, world.hashes) == (["landfall:1"], hashes)


def test_every_transition_is_announced_once(world: World) -> None:
    world.edit(group("better"))
    world.run(3 * 60 * MINUTE)

    active, previous = world.status.rollout.active, "g1-"
    assert world.events[0].startswith(f"Warming: warming up {active} while {previous}")
    assert [event.partition(":")[0] for event in world.events] == [
        "Warming",
        "Yielding",
        "Opening",
        "Watching",
        "Settled",
    ]


def test_a_terminating_driver_is_not_created_again_before_it_is_gone() -> None:
    world = World(group("deaf"))
    world.run(2 * MINUTE)
    world.edit(group("better"))
    world.run(15 * MINUTE)

    world.edit(group("deaf", badRecords={"maxRatio": "0.5"}))
    world.run(90 * MINUTE)

    assert world.landing == ["deaf"]


def test_a_suspended_group_without_a_driver_can_be_deleted_without_an_operator() -> None:
    world = World(group("good"))
    world.run(timedelta(minutes=2))
    assert world.finalizer

    world.edit(group("good", state="Suspended"))
    world.run(timedelta(minutes=10))
    assert (world.status.phase, world.finalizer) == ("Suspended", False)
    world.edit(group("good"))
    assert "AddFinalizer" in [type(action).__name__ for action in world.reconcile()]
    world.run(timedelta(minutes=2))

    assert (world.landing, world.finalizer) == (["good"], True)
