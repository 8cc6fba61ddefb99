"""Two things at once that happen to a group; elsewhere, each is tried alone.

Of rolling to a new image, schedules, pauses, suspending, deletion, a lost node, other groups, other
operators, and an upgrade of the operator.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import RolloutStatus, Stage
from landfall_operator.api.verbs import PAUSE
from landfall_operator.core.claims import Claims
from landfall_operator.runtime.reconciler import ReconcilerSettings
from tests.support.operator.api_objects import KEY, resource
from tests.support.operator.cluster_model import SITE, World, group
from tests.support.operator.cluster_model_drivers import Pod
from tests.support.operator.reconciled import Reconciled

MINUTE = timedelta(minutes=1)
FOLLOW = {"upgrade": {"image": "Follow"}}
HOURLY = {"schedule": {"cron": "5 * * * *", "boundary": "Hour"}}
IDLE = {"idle": {"scaleToZero": "10m", "lookEvery": "30m"}}


def following(**spec: Any) -> World:
    world = World(group(None, **FOLLOW, **spec), context=replace(SITE, image="first"))
    world.run(10 * MINUTE)
    return world


def release(world: World, image: str) -> None:
    """An operator with another default image continues."""
    world.context = replace(world.context, image=image)


def reason(world: World, kind: ConditionType) -> ConditionReason:
    (found,) = (each.reason for each in world.status.conditions if each.type is kind)
    return found


# ---------------------------------------------------------------------------- rolling to an image


@pytest.mark.parametrize("sleeps", [HOURLY, IDLE], ids=["schedule", "idle"])
def test_a_group_that_sleeps_waits_while_other_groups_change(sleeps: dict[str, Any]) -> None:
    world = following(**sleeps)
    if sleeps is IDLE:
        world.quiet = world.now
    world.run(20 * MINUTE)
    assert world.status.phase == "Sleeping"

    world.rollout_limit = 5
    release(world, "second")
    world.run(5 * MINUTE)
    waiting = world.images, reason(world, ConditionType.DEPLOYED)
    world.rollout_limit = 0
    world.run(20 * MINUTE)

    assert waiting == (["first"], ConditionReason.QUEUED)
    assert world.images == ["second"]


def test_a_group_that_wakes_for_its_range_waits_too() -> None:
    """Groups with the same schedule wake at the same time."""
    world = following(**HOURLY)
    world.rollout_limit = 5
    release(world, "second")
    world.run(120 * MINUTE)
    waiting = world.images, len(world.ledger.ended)
    world.rollout_limit = 0
    world.run(20 * MINUTE)

    assert waiting == (["first"], 4)
    assert world.images == ["second"]


def test_a_paused_group_follows_only_when_it_is_resumed() -> None:
    world = following()
    world.annotations[PAUSE] = "true"
    release(world, "second")
    world.run(30 * MINUTE)
    paused = world.landing
    del world.annotations[PAUSE]
    world.run(10 * MINUTE)

    assert (paused, world.landing) == (["first"], ["second"])


def test_a_suspended_group_resumes_with_the_image_that_it_follows() -> None:
    world = following()
    world.edit(group(None, **FOLLOW, state="Suspended"))
    world.run(10 * MINUTE)
    release(world, "second")
    world.run(10 * MINUTE)
    suspended = [driver for driver in world.drivers.values() if driver.replicas]
    world.edit(group(None, **FOLLOW))
    world.run(10 * MINUTE)

    assert (suspended, world.landing) == ([], ["second"])


def test_a_group_that_waits_for_others_is_deleted_at_once() -> None:
    world = following()
    world.rollout_limit = 5
    release(world, "second")
    world.run(5 * MINUTE)
    world.deleting = True
    world.run(3 * MINUTE)

    assert ([driver.pod for driver in world.drivers.values()], world.finalizer) == ([None], False)


@pytest.mark.parametrize("stage", [Stage.WARMING, Stage.YIELDING, Stage.OPENING])
def test_the_node_of_the_active_driver_is_lost_during_a_rollout(stage: Stage) -> None:
    world = following()
    release(world, "second")
    world.settle()
    while world.status.rollout.stage is not stage:
        world.now += timedelta(seconds=5)
        world.advance()
        world.reconcile()

    lose(world, "first")
    world.run(30 * MINUTE)

    assert world.landing == ["second"]
    assert world.status.rollout.active == world.holder


def lose(world: World, image: str) -> None:
    """The node of a driver is lost: another pod takes the place of its pod, and has not begun."""
    (driver,) = (each for each in world.drivers.values() if each.image == image)
    driver.pod = Pod(world.now, executors=driver.executors)


# ---------------------------------------------------------------- places in the limit of a rollout


CHANGING = {"rollout": {"stage": "Warming", "active": "g1-a", "target": "g2-b"}}


OWN = {"landfall.dev/operator": "a/landfall-operator"}


@contextmanager
def with_limit(limit: int) -> Iterator[Reconciled]:
    """An operator with room for so many rollouts, and without groups."""
    one = Reconciled()
    one.reconciler._settings = ReconcilerSettings(
        SITE, one.clock, claims=Claims("a/landfall-operator"), max_rollouts=limit
    )
    try:
        yield one
    finally:
        one.pool.shutdown()


def put(
    one: Reconciled, path: str, annotations: Mapping[str, str] = OWN, *, changing: bool = True
) -> None:
    """Give the operator a group, by namespace and name."""
    namespace, name = path.split("/")
    own = {"namespace": namespace, "name": name, "uid": path, "annotations": annotations}
    body = resource()
    status = CHANGING if changing else {}
    group = {**body, "metadata": {**body["metadata"], **own}, "status": status}
    one.cache.put("ConsumerGroup", group)


@pytest.mark.parametrize(
    ("annotations", "limit"),
    [
        (OWN, 1),
        # Nobody continues it, so the others would wait until somebody does.
        ({**OWN, PAUSE: "true"}, 0),
        # The other operator has a limit of its own.
        ({"landfall.dev/operator": "b/landfall-operator"}, 0),
    ],
    ids=["own", "paused", "of another operator"],
)
def test_only_a_rollout_that_this_operator_continues_takes_a_place(
    annotations: dict[str, str], limit: int
) -> None:
    with with_limit(1) as one:
        put(one, "logs/other", annotations)

        assert one.reconciler._rollout_limit(KEY) == limit


@pytest.mark.parametrize(
    ("limit", "changing", "idle", "waits"),
    [
        (3, ["logs/a", "logs/b"], ["pay/c"], 2),
        (3, ["logs/a"], ["pay/c"], 0),
        (3, ["pay/a", "pay/b"], [], 0),
        (3, ["pay/a", "pay/b", "logs/a"], [], 3),
        # Without another namespace, all places are for this one.
        (3, ["logs/a", "logs/b"], ["logs/c"], 0),
        (1, ["pay/a"], [], 1),
    ],
)
def test_the_rollouts_of_one_namespace_leave_a_place_to_the_next(
    limit: int, changing: list[str], idle: list[str], waits: int
) -> None:
    assert KEY[0] == "logs"
    with with_limit(limit) as one:
        for path in changing:
            put(one, path)
        for path in idle:
            put(one, path, changing=False)

        assert one.reconciler._rollout_limit(KEY) == waits


# ------------------------------------------------------------------------ a lost node, and deletion


@pytest.mark.parametrize("ends", ["deleted", "suspended"])
def test_a_pod_on_a_lost_node_holds_up_its_group_for_no_longer_than_the_drain_timeout(
    ends: str,
) -> None:
    """Nobody confirms that the pod has ended; the ledger fences its driver."""
    world = World(group("deaf"))
    world.run(10 * MINUTE)
    if ends == "deleted":
        world.deleting = True
    else:
        world.edit(group("deaf", state="Suspended"))

    world.run(25 * MINUTE)

    if ends == "deleted":
        assert not world.finalizer
    else:
        assert (world.status.rollout.stage, world.status.phase) == (Stage.SUSPENDED, "Suspended")


# ------------------------------------------------------------------- the operator is upgraded


def suspended() -> World:
    world = World(group(None))
    world.run(10 * MINUTE)
    world.edit(group(None, state="Suspended"))
    world.run(10 * MINUTE)
    return world


def asleep() -> World:
    world = World(group(None, **HOURLY))
    world.run(20 * MINUTE)
    return world


def paused() -> World:
    world = World(group(None))
    world.run(10 * MINUTE)
    world.annotations[PAUSE] = "true"
    world.edit(group(None, uploadPolicy={"maxAge": "1m"}))
    world.run(10 * MINUTE)
    return world


def rolled_back() -> World:
    world = World(group(None))
    world.run(10 * MINUTE)
    world.edit(group("bad"))
    world.run(30 * MINUTE)
    return world


@pytest.mark.parametrize("state", [suspended, asleep, paused, rolled_back])
def test_an_operator_of_another_release_leaves_a_group_in_its_state(
    state: Callable[[], World],
) -> None:
    world = state()
    world.settle()
    drivers = {name: (driver.image, driver.pod) for name, driver in world.drivers.items()}
    before = world.status.phase, world.status.rollout, dict(world.hashes)

    world.context = replace(SITE, image="landfall:2")
    world.run(5 * MINUTE)

    assert {name: (d.image, d.pod) for name, d in world.drivers.items()} == drivers
    assert (world.status.phase, world.status.rollout, world.hashes) == before


def during(stage: Stage) -> World:
    world = World(group(None))
    world.run(10 * MINUTE)
    world.edit(group(None, uploadPolicy={"maxAge": "1m"}))
    world.settle()
    while world.status.rollout.stage is not stage:
        world.now += timedelta(seconds=5)
        world.advance()
        world.reconcile()
    return world


@pytest.mark.parametrize("stage", [Stage.WARMING, Stage.YIELDING, Stage.OPENING])
def test_an_operator_of_another_release_continues_a_rollout(stage: Stage) -> None:
    """It must not begin another one, although it would give the revision another image."""
    world = during(stage)
    target = world.status.rollout.target or world.status.rollout.active

    world.context = replace(SITE, image="landfall:2")
    world.run(30 * MINUTE)

    assert (world.status.rollout.active, world.images) == (target, ["landfall:1"])
    assert len(world.landing) == 1


# ------------------------------------------------------------------------- a suspended group


def test_a_suspended_group_keeps_what_it_claims() -> None:
    """``test_first_come`` derives who was first from the active revision, which must not go."""
    world = suspended()

    assert world.status.rollout.active
    assert [record.revision for record in world.records] == [world.status.rollout.active]
    assert isinstance(world.status.rollout, RolloutStatus)
