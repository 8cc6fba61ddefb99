"""A group that another operator manages, and what else may happen to it at the same time.

Of schedules, pauses, lost nodes, rolling to a new image, and names that are taken. Pairs of the
others are in ``test_pairs``, those of Backfills in ``test_backfill_pairs``.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from landfall_operator.api.verbs import PAUSE
from landfall_operator.core.claims import Claims
from landfall_operator.objects.names import OPERATOR_ANNOTATION
from landfall_operator.runtime import reconciler
from landfall_operator.runtime.action_executor import NameTaken
from landfall_operator.runtime.reconciler import ReconcilerSettings
from tests.support.operator.api_objects import KEY
from tests.support.operator.cluster_model import SITE
from tests.support.operator.reconciled import Reconciled

A, B = "a/landfall-operator", "b/landfall-operator"
HOUR = 3600


@pytest.fixture
def one(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reconciled]:
    """A group that no operator has seen."""
    monkeypatch.setattr(reconciler, "RETRY_SECONDS", 0.001)
    made = Reconciled()
    yield made
    made.pool.shutdown()


def run_as(one: Reconciled, operator: str, image: str = SITE.image) -> None:
    """Continue as another operator that sees everything."""
    one.restart_operator()
    site = replace(SITE, image=image)
    one.reconciler._settings = ReconcilerSettings(site, one.clock, claims=Claims(operator))


def annotate(one: Reconciled, **changes: str | None) -> None:
    """Change annotations of Landfall's; None removes one."""
    body = one.group
    annotations = {**body["metadata"].get("annotations", {})}
    for name, value in changes.items():
        annotations[{"claim": OPERATOR_ANNOTATION, "pause": PAUSE}[name]] = value
    kept = {name: value for name, value in annotations.items() if value is not None}
    one.api.store(one.path(), {**body, "metadata": {**body["metadata"], "annotations": kept}})
    one.watch()


def written(one: Reconciled) -> list[tuple[str, str]]:
    reads = {"get", "list", "watch", "page", "find"}
    return [(r.verb, r.kind.name) for r in one.api.requests if r.verb not in reads]


# ------------------------------------------------- states in which a group meets another operator


async def landing(one: Reconciled) -> None:
    run_as(one, A)
    await one.start()


async def scheduled(one: Reconciled) -> None:
    one.edit(schedule={"cron": "5 * * * *", "boundary": "Hour"})
    one.watch()
    run_as(one, A)
    while not any(kind == "Deployment" for kind, _ in one.cache.owned(KEY)):
        await one.run(1)


async def paused(one: Reconciled) -> None:
    await landing(one)
    annotate(one, pause="true")
    one.edit(image="landfall:7")
    one.watch()


async def on_a_lost_node(one: Reconciled) -> None:
    await landing(one)
    one.stop_pod()


States = Callable[[Reconciled], Awaitable[None]]
every_state = pytest.mark.parametrize("state", [scheduled, paused, on_a_lost_node])


@pytest.mark.asyncio
@every_state
async def test_the_operator_that_has_not_claimed_a_group_writes_nothing(
    one: Reconciled, state: States
) -> None:
    await state(one)
    before = {**one.api.objects}
    run_as(one, B)

    for _ in range(8):
        assert await one.reconciler.reconcile(KEY) is None
        one.now += timedelta(seconds=HOUR / 4)  # over the time of the schedule

    assert written(one) == []
    assert one.api.objects == before


@pytest.mark.asyncio
@every_state
async def test_the_operator_that_gets_a_group_leaves_its_driver_as_it_is(
    one: Reconciled, state: States
) -> None:
    await state(one)
    deployments = one.api.objects.keys() & {p for p in one.api.objects if "/deployments/" in p}
    run_as(one, B, image="landfall:2")
    annotate(one, claim=None)

    await one.run(120)

    assert one.group["metadata"]["annotations"][OPERATOR_ANNOTATION] == B
    assert one.api.asked("apply", "Deployment") == 0
    assert {p for p in one.api.objects if "/deployments/" in p} == deployments


@pytest.mark.asyncio
async def test_a_paused_group_changes_under_its_new_operator_once_it_is_resumed(
    one: Reconciled,
) -> None:
    await paused(one)
    run_as(one, B)
    annotate(one, claim=None)
    await one.run(60)
    held = one.api.asked("apply", "Deployment")

    annotate(one, pause=None)
    await one.run(60)

    assert (held, one.api.asked("apply", "Deployment")) == (0, 1)


# ------------------------------------------------------------------------- rolling, and a claim


@pytest.mark.asyncio
async def test_a_rollout_of_another_operator_is_continued_to_its_target(one: Reconciled) -> None:
    """It begins no other one, and neither waits for a place of its own."""
    await landing(one)
    one.edit(image="landfall:7")
    one.watch()
    await one.run(10)
    rollout = one.group["status"]["rollout"]
    assert rollout["stage"] == "Warming"
    run_as(one, B, image="landfall:2")
    one.reconciler._settings = replace(one.reconciler._settings, max_rollouts=1)
    annotate(one, claim=None)

    await one.run(60)

    after = one.group["status"]["rollout"]
    assert (after["stage"], after["target"]) == ("Warming", rollout["target"])
    assert one.api.asked("apply", "Deployment") == 0


# ---------------------------------------------------------------- a name is taken, and an upgrade


@pytest.mark.asyncio
async def test_a_name_that_is_taken_during_an_upgrade_stops_no_driver_that_lands(
    one: Reconciled,
) -> None:
    """Somebody deletes an object of the group and makes one of the same name."""
    await landing(one)
    active = one.revision
    service = one.path("Service", "clicks-driver")
    theirs = {"kind": "Service", "metadata": {"name": "clicks-driver", "namespace": "logs"}}
    del one.api.objects[service]
    before = one.api.store(service, theirs)
    run_as(one, A)
    one.edit(image="landfall:7")
    one.watch()
    taken = await passes(one)

    conditions = {c["type"]: (c["status"], c["reason"]) for c in one.group["status"]["conditions"]}
    deployments = [p for p in one.api.objects if "/deployments/" in p]
    assert taken > 0
    assert conditions["Stalled"] == ("True", "NameTaken")
    assert one.api.objects[service] == before
    assert [p.rpartition("/")[2] for p in deployments] == [f"clicks-{active}"]
    assert one.api.objects[deployments[0]]["spec"]["replicas"] == 1

    del one.api.objects[service]
    one.restart_operator()
    run_as(one, A)
    assert await passes(one) == 0
    assert one.api.asked("apply", "Deployment") == 1, "the upgrade goes on"


async def passes(one: Reconciled, count: int = 6) -> int:
    """Run passes; returns how many of them found a name taken."""
    found = 0
    for _ in range(count):
        try:
            await one.run(1)
        except NameTaken:
            found += 1
    return found
