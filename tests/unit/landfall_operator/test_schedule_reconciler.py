"""The operator scales a group with ``spec.schedule`` by itself, when its range is due."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.run_status import RunStatus, ScheduleStatus
from tests.support.operator.cluster_model import START
from tests.support.operator.reconciled import Reconciled

pytestmark = pytest.mark.asyncio

HOURLY = {"cron": "5 * * * *", "boundary": "Hour"}


def landed(hour: int) -> RunStatus:
    """The run of the hour that ends then."""
    until = START.replace(hour=hour)
    began, ended = until + timedelta(minutes=5), until + timedelta(minutes=8)
    times = (until.isoformat(), began.isoformat(), ended.isoformat())
    return RunStatus(*times, records=12_034, bad_records=0, objects=3, bytes=9_000, slot=hour)


def replicas(world: Reconciled) -> int:
    prefix = world.path("Deployment", "")
    (deployment,) = (body for path, body in world.api.objects.items() if path.startswith(prefix))
    count: int = deployment["spec"]["replicas"]
    return count


@pytest.fixture
def one() -> Iterator[Reconciled]:
    made = Reconciled()
    yield made
    made.pool.shutdown()


async def fall_asleep(world: Reconciled) -> Reconciled:
    """The group lands two hours and falls asleep."""
    world.edit(schedule=HOURLY)
    world.watch()
    await world.start()
    awake = replicas(world)
    assert world.drivers.answer
    waits = ScheduleStatus(until=None, waits=True, runs=(landed(12), landed(11)))
    world.drivers.answer = replace(world.drivers.answer, schedule=waits)
    await world.run(60)
    assert (awake, replicas(world)) == (1, 0)
    for path in [path for path in world.api.objects if path.startswith(world.path("Pod", ""))]:
        world.cache.drop("Pod", world.api.objects.pop(path))
    world.drivers.answer = None
    return world


async def test_the_driver_is_started_within_seconds_after_the_range_is_due(
    one: Reconciled,
) -> None:
    asleep = await fall_asleep(one)
    due = START.replace(hour=13, minute=5)
    while asleep.now < due - timedelta(seconds=20):
        await asleep.run(10)
        assert replicas(asleep) == 0

    passed = asleep.now
    while replicas(asleep) == 0:
        passed = asleep.now
        await asleep.run(0.1)

    assert timedelta(0) <= passed - due < timedelta(seconds=2)


async def test_an_operator_that_starts_late_starts_the_driver_in_its_first_pass(
    one: Reconciled,
) -> None:
    asleep = await fall_asleep(one)
    asleep.now = START.replace(hour=17, minute=30)
    asleep.restart_operator()

    await asleep.run(1)

    assert replicas(asleep) == 1


async def test_an_operator_that_restarts_lets_the_group_sleep(one: Reconciled) -> None:
    asleep = await fall_asleep(one)
    asleep.restart_operator()

    await asleep.run(60)

    assert replicas(asleep) == 0
    assert asleep.group["status"]["phase"] == "Sleeping"
    assert asleep.group["status"]["schedule"]["next"] == "2026-11-21T13:05:00Z"


async def test_the_status_of_a_group_that_sleeps_is_not_written_again_and_again(
    one: Reconciled,
) -> None:
    asleep = await fall_asleep(one)
    await asleep.run(60)
    asleep.api.requests.clear()

    await asleep.run(1200)

    assert [request for request in asleep.api.requests if request[0] != "GET"] == []
