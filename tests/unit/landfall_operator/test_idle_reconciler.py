"""The operator stops the driver of a group with ``spec.idle``, and starts it for looks."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.contract import Status
from tests.support.operator.cluster_model import START
from tests.support.operator.reconciled import Reconciled
from tests.unit.landfall_operator.test_schedule_reconciler import replicas

pytestmark = pytest.mark.asyncio

IDLE = {"scaleToZero": "30m", "lookEvery": "5m"}


@pytest.fixture
def one() -> Iterator[Reconciled]:
    made = Reconciled()
    yield made
    made.pool.shutdown()


def of_quiet_topics(answer: Status) -> Status:
    """An answer with nothing left to land."""
    none = tuple(replace(p, lag_records=0, lag_seconds=0.0) for p in answer.partitions)
    commits = replace(answer.commits, last_time=START.isoformat(), unapplied=0)
    return replace(answer, partitions=none, lag_records=0, lag_seconds=0.0, commits=commits)


async def fall_asleep(world: Reconciled) -> Status:
    """The group falls asleep; returns what its driver said."""
    world.edit(idle=IDLE)
    world.watch()
    await world.start()
    assert world.drivers.answer
    said = world.drivers.answer = of_quiet_topics(world.drivers.answer)
    while replicas(world):
        await world.run(30)
    stop_pods(world)
    return said


def stop_pods(world: Reconciled) -> None:
    for path in [path for path in world.api.objects if path.startswith(world.path("Pod", ""))]:
        world.cache.drop("Pod", world.api.objects.pop(path))
    world.drivers.answer = None


async def test_a_driver_of_quiet_topics_is_stopped_and_looks_on_time(one: Reconciled) -> None:
    await fall_asleep(one)
    slept = one.now
    assert slept - START < timedelta(minutes=33)

    while replicas(one) == 0:
        await one.run(1)

    assert timedelta(minutes=4) < one.now - slept <= timedelta(minutes=5, seconds=2)
    assert one.group["status"]["phase"] == "Sleeping"


async def test_an_operator_that_was_away_starts_the_driver_in_its_first_pass(
    one: Reconciled,
) -> None:
    await fall_asleep(one)
    await one.run(60)
    one.now += timedelta(hours=3)
    one.restart_operator()

    await one.run(1)

    assert replicas(one) == 1


async def test_an_operator_that_restarts_lets_the_group_sleep(one: Reconciled) -> None:
    await fall_asleep(one)
    await one.run(60)
    one.restart_operator()

    await one.run(60)

    assert replicas(one) == 0
    assert one.group["status"]["phase"] == "Sleeping"
    assert one.group["status"]["idle"]["sleeping"]


async def test_while_a_group_sleeps_nothing_is_written(one: Reconciled) -> None:
    await fall_asleep(one)
    await one.run(60)
    one.api.requests.clear()

    await one.run(200)

    assert [request for request in one.api.requests if request[0] != "GET"] == []
