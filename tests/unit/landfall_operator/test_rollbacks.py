"""What is rolled back, what is not, and what comes back: scenarios on a model of a cluster."""

from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.api.reasons import ConditionType
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status import Condition, Stage
from tests.support.operator.cluster_model import TICK, World, group
from tests.support.operator.cluster_model_drivers import ENVIRONMENT

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
KAFKA = {"bootstrapServers": "kafka:9092", "topics": ["clicks"]}
SKIPPING = {"badRecords": {"maxRatio": "0.5"}}


@pytest.fixture
def world() -> World:
    """A group that has been landing for five minutes."""
    new = World(group("good"))
    new.run(5 * MINUTE)
    new.stages.clear()
    return new


def digests(world: World) -> list[str]:
    return [deployed.digest for deployed in world.drivers.values()]


def condition(world: World, kind: ConditionType) -> Condition:
    return next(found for found in world.status.conditions if found.type is kind)


# ------------------------------------------------------------------------------- what a revision is


@pytest.mark.parametrize("image", ["better", "bad", "broken"])
def test_a_reverted_setting_never_comes_back(world: World, image: str) -> None:
    first = group("good")
    world.edit(group("good", **SKIPPING))
    world.run(3 * HOUR, 5 * MINUTE)
    world.edit(first)
    world.run(3 * HOUR, 5 * MINUTE)

    world.edit(group(image))
    world.settle()
    assert world.status.rollout.active == revision_of(first)
    assert digest_of(first) in digests(world)
    assert digest_of(group("good", **SKIPPING)) not in digests(world)

    world.run(20 * MINUTE)
    assert digests(world) == [digest_of(group("better") if image == "better" else first)]


@pytest.mark.parametrize(
    "setting",
    [
        {"tuning": {"sparkConf": {"spark.memory.fraction": "7"}}},
        {"driver": {"resources": {"limits": {"memory": "600Mi"}}}},
        {"executor": {"nodeSelector": {"disk": "none"}}},
        {"source": {"kafka": {**KAFKA, "properties": {"fetch.min.bytes": "9"}}}},
    ],
    ids=lambda setting: next(iter(setting)),
)
def test_a_driver_setting_that_fails_is_taken_back(world: World, setting: dict[str, Any]) -> None:
    changed = group("good", **setting)
    world.crashing.add(digest_of(changed))

    world.edit(changed)
    while not world.status.rollout.rejected:
        assert world.landing == ["good"]
        world.run(TICK)
    world.run(5 * MINUTE)

    assert (world.landing, digests(world)) == (["good"], [digest_of(group("good"))])
    assert world.status.reason == "RolledBack"
    message = condition(world, ConditionType.STALLED).message
    assert message.startswith(f"{revision_of(changed)} was rolled back (")


def test_objects_of_the_former_scheme_stay_as_they_are(world: World) -> None:
    world.rename(revision_of(group("good")), "g1-former0")
    pod, hashes = world.drivers["g1-former0"].pod, dict(world.hashes)

    world.run(10 * MINUTE)

    assert world.drivers["g1-former0"].pod is pod
    assert (list(world.drivers), world.hashes) == (["g1-former0"], hashes)
    assert (world.status.rollout.active, world.status.phase) == ("g1-former0", "Running")


def test_a_group_of_the_former_scheme_is_upgraded_and_rolled_back(world: World) -> None:
    world.rename(revision_of(group("good")), "g1-former0")
    world.add_record(group("good", **SKIPPING), "g1-former0")  # was reverted: a higher number

    world.edit(group("bad"))
    world.run(20 * MINUTE)

    assert (world.landing, digests(world)) == (["good"], [digest_of(group("good"))])
    assert world.status.rollout.active == revision_of(group("good"))


def test_no_record_is_guessed(world: World) -> None:
    world.rename(revision_of(group("good")), "g1-former0")
    world.add_record(group("good", **SKIPPING), "g1-former0")
    world.edit(group("better"))
    world.run(5 * MINUTE)
    moved = world.status.rollout.model_copy(update={"previous": "g1-former0"})
    world.status = world.status.model_copy(update={"rollout": moved})

    world.crashing.add("better")
    world.run(10 * MINUTE)

    assert digests(world) == [digest_of(group("better"))]


def test_a_former_driver_that_lost_its_files_gets_them_back(world: World) -> None:
    world.rename(revision_of(group("good")), "g1-former0")
    del world.hashes["ConfigMap/clicks-g1-former0"]

    world.run(5 * MINUTE)

    assert (list(world.drivers), world.landing) == (["g1-former0"], ["good"])
    assert "ConfigMap/clicks-g1-former0" in world.hashes


def test_an_invalid_spec_keeps_the_live_settings_of_a_former_driver(world: World) -> None:
    world.rename(revision_of(group("good")), "g1-former0")
    world.edit(group("good", state="Suspended", replicas=3))
    world.run(2 * MINUTE)

    world.edit(None, spec_error="not valid")
    world.run(5 * MINUTE)

    assert (world.landing, world.status.rollout.stage) == ([], Stage.SUSPENDED)
    assert list(world.drivers) == ["g1-former0"]


# ----------------------------------------------------------------------------- rollbacks that fail


def test_a_rollback_without_room_makes_room(world: World) -> None:
    world.edit(group("bad"))
    while not world.status.rollout.rejected:
        world.run(TICK)
    world.away.add("room")

    world.run(8 * MINUTE)
    assert (world.landing, world.status.rollout.previous) == (["bad"], revision_of(group("good")))
    upgrading = condition(world, ConditionType.UPGRADING)
    assert (upgrading.reason, "nodes are available" in upgrading.message) == ("Unschedulable", True)
    assert (world.status.phase, world.status.reason) == ("RollingBack", "Unschedulable")

    world.run(10 * MINUTE)
    assert (world.landing, world.status.rollout.previous) == (["good"], None)


def test_a_rollback_that_fails_is_tried_again(world: World) -> None:
    world.edit(group("bad"))
    world.run(MINUTE)
    world.crashing.add("good")

    world.run(5 * MINUTE)
    rollout = world.status.rollout
    assert (world.landing, rollout.previous) == (["bad"], revision_of(group("good")))
    assert rollout.retry
    assert rollout.retry.attempts == 1
    stalled = condition(world, ConditionType.STALLED)
    assert "has failed 1 time and is tried again at" in stalled.message
    assert "exit code 1" in stalled.message

    world.run(3 * HOUR)
    assert world.status.rollout.retry
    assert world.status.rollout.retry.attempts == 5
    assert world.status.rollout.stage is Stage.WATCHING

    world.crashing.clear()
    world.run(61 * MINUTE)
    assert (world.landing, world.status.rollout.previous) == (["good"], None)
    assert (world.status.rollout.retry, world.status.reason) == (None, "RolledBack")


def test_another_spec_ends_a_rollback_that_fails(world: World) -> None:
    world.edit(group("bad"))
    world.run(MINUTE)
    world.crashing.add("good")
    world.run(5 * MINUTE)

    world.edit(group("better"))
    world.run(5 * MINUTE)

    assert (world.landing, world.status.rollout.retry) == (["better"], None)


# --------------------------------------------------------------------------------- the environment


@pytest.mark.parametrize("strategy", ["HandOver", "Recreate"])
@pytest.mark.parametrize("lead", [0, 1, 5], ids=["before", "during", "after"])
@pytest.mark.parametrize("what", ENVIRONMENT)
def test_an_outage_condemns_no_revision(world: World, what: str, lead: int, strategy: str) -> None:
    if not lead:
        world.away.add(what)
    world.edit(group("better", upgrade={"strategy": strategy}))
    world.run(lead * MINUTE)
    world.away.add(what)
    world.run(45 * MINUTE)

    world.away.clear()
    world.run(HOUR)

    assert (world.landing, world.status.rollout.rejected) == (["better"], None)
    assert world.committed >= set(digests(world))


def test_the_condition_names_what_a_rollout_waits_for(world: World) -> None:
    world.away.add("image")
    world.edit(group("better"))
    world.run(5 * MINUTE)

    upgrading, stalled = (
        condition(world, kind) for kind in (ConditionType.UPGRADING, ConditionType.STALLED)
    )
    assert (world.landing, upgrading.reason) == (["good"], "ImagePullFailed")
    assert upgrading.message.endswith("waits: the registry does not answer")
    assert stalled.status == "False"

    world.run(10 * MINUTE)
    stalled = condition(world, ConditionType.STALLED)
    assert (stalled.status, stalled.reason) == ("True", "ImagePullFailed")


def test_the_time_to_get_ready_begins_anew_after_an_outage(world: World) -> None:
    world.away.add("image")
    world.edit(group("slow"))
    world.run(30 * MINUTE)

    world.away.clear()
    world.run(9 * MINUTE)
    assert world.status.rollout.stage is Stage.WARMING

    world.run(3 * MINUTE)
    assert world.status.rollout.rejected


def test_a_recreated_driver_whose_image_is_absent_goes_back_and_is_tried_again(
    world: World,
) -> None:
    world.away.add("image")
    world.edit(group("better", upgrade={"strategy": "Recreate"}))

    world.run(5 * MINUTE)
    assert (world.landing, world.status.reason) == (["good"], "RolledBack")
    assert "it is tried again at" in condition(world, ConditionType.STALLED).message

    world.run(3 * HOUR)
    assert world.status.rollout.retry
    assert world.status.rollout.retry.attempts == 5

    world.away.clear()
    world.run(61 * MINUTE)
    assert (world.landing, world.status.rollout.retry) == (["better"], None)


def test_a_recreated_driver_that_finds_no_store_goes_back(world: World) -> None:
    world.edit(group("astray", upgrade={"strategy": "Recreate"}))

    world.run(9 * MINUTE)
    assert world.status.rollout.held

    world.run(10 * MINUTE)
    assert (world.landing, world.status.reason) == (["good"], "RolledBack")


# ------------------------------------------------------------------------------ what can come back


def test_a_revision_that_never_committed_is_not_rolled_back_to() -> None:
    world = World(group("failing"))
    world.run(5 * MINUTE)

    world.edit(group("better"))
    world.run(MINUTE)
    world.crashing.add("better")
    world.run(20 * MINUTE)

    assert (world.images, world.status.rollout.previous) == (["better"], None)


def test_a_revision_is_watched_until_it_commits(world: World) -> None:
    world.edit(group("better"))
    world.run(2 * MINUTE)
    world.away.add("store")

    world.run(4 * HOUR, 5 * MINUTE)

    assert world.status.rollout.stage in {Stage.OPENING, Stage.WATCHING}
    assert world.status.rollout.previous == revision_of(group("good"))


def test_limits_are_fields(world: World) -> None:
    rollback = {"crashes": 1, "readyIn": "1m"}
    world.edit(group("slow", upgrade={"rollback": rollback}))
    world.run(2 * MINUTE)
    assert world.status.rollout.rejected
    assert world.status.rollout.rejected.reason == "NotReadyInTime"

    world.edit(group("broken", upgrade={"rollback": rollback}))
    world.run(timedelta(seconds=45))
    assert world.status.rollout.rejected
    assert world.status.rollout.rejected.reason == "CrashLoop"
