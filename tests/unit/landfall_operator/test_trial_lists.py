"""A trial by the operator's own requests: a Backfill is created, read from lists, and deleted."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from landfall_operator.api.backfill import KIND
from landfall_operator.api.backfill import parsed as parsed_backfill
from landfall_operator.core.cache import Key
from landfall_operator.runtime.backfills import Backfills, BackfillScope
from tests.support.operator.api_objects import KEY
from tests.support.operator.cluster_model_trials import compared
from tests.support.operator.reconciled import Reconciled


@pytest.fixture
def scene() -> Iterator[Reconciled]:
    """A group whose next revision is being tried."""
    made = Reconciled()
    asyncio.run(made.start())
    listed(made)
    made.edit(upgrade={"strategy": "Shadow"}, route={"pattern": "day={date}"})
    run(made, 30)
    yield made
    made.pool.shutdown()


def run(scene: Reconciled, seconds: float) -> None:
    """Let the watches see everything, and passes run for this long."""
    scene.watch()
    asyncio.run(scene.run(seconds))


def backfills(scene: Reconciled) -> dict[str, dict[str, Any]]:
    """The Backfills of the API server, by path."""
    under = scene.path(KIND, "")
    return {path: body for path, body in scene.api.objects.items() if path.startswith(under)}


def listed(scene: Reconciled, version: str = "999999") -> list[Key]:
    """List the Backfills; returns the groups that are woken."""
    return take_trials(scene, backfills(scene).values(), version)


def take_trials(
    scene: Reconciled, bodies: Iterable[dict[str, Any]], version: str | None
) -> list[Key]:
    """Take a list of the whole cluster; returns the groups that are woken."""
    woken: list[Key] = []
    scope = BackfillScope(
        namespaces=tuple,
        is_ready=lambda: True,
        is_managed=lambda _: True,
        take=lambda _: None,
        wake=woken.append,
    )
    lists = Backfills(scene.api, scene.cache, scene.metrics, scope)
    lists.take_trials(None, bodies, version)
    return woken


def test_the_backfill_of_a_trial_is_valid_and_has_its_spec_on_record(scene: Reconciled) -> None:
    ((_, body),) = backfills(scene).items()
    found, error = parsed_backfill(body["spec"])

    assert (found is not None, error) == (True, "")
    revisions = {
        made["metadata"]["labels"]["landfall.dev/revision"]
        for path, made in scene.api.objects.items()
        if path.startswith(scene.path("ControllerRevision", ""))
    }
    assert body["spec"]["revision"] in revisions
    assert scene.group["status"]["rollout"]["stage"] == "Trying"


def test_a_settled_trial_is_not_written_again(scene: Reconciled) -> None:
    scene.api.requests.clear()

    run(scene, 120)

    assert [r.verb for r in scene.api.requests if r.kind.name == KIND] == []
    assert listed(scene) == []


def test_what_a_list_says_of_a_trial_wakes_its_group_and_ends_it(scene: Reconciled) -> None:
    ((path, body),) = backfills(scene).items()
    scene.api.store(path, {**body, "status": compared(differ=5)})

    assert listed(scene) == [KEY]
    run(scene, 30)

    rollout = scene.group["status"]["rollout"]
    assert (rollout["trial"]["result"], rollout["rejected"]["reason"]) == (
        "Refused",
        "TrialRefused",
    )
    assert list(backfills(scene)) == [path]


def test_a_withdrawn_trial_deletes_its_backfill(scene: Reconciled) -> None:
    scene.edit(route={"pattern": "dt={date}"})

    run(scene, 30)

    assert backfills(scene) == {}


def test_a_trial_that_no_list_has_any_more_is_gone(scene: Reconciled) -> None:
    ((path, body),) = backfills(scene).items()
    del scene.api.objects[path]

    assert listed(scene, body["metadata"]["resourceVersion"]) == []
    assert listed(scene) == [KEY]
    assert not any(kind == KIND for kind, _ in scene.cache.owned(KEY))


def test_the_backfill_of_a_user_wakes_nobody(scene: Reconciled) -> None:
    metadata = {"name": "fix-ts", "namespace": KEY[0]}
    scene.api.store(scene.path(KIND, "fix-ts"), {"kind": KIND, "metadata": metadata})

    assert listed(scene) == []


def test_an_operator_that_has_just_started_waits_for_the_first_list(scene: Reconciled) -> None:
    ((path, body),) = backfills(scene).items()
    scene.restart_operator()

    run(scene, 30)
    assert scene.api.asked("apply", KIND) == 0
    assert listed(scene) == [KEY]
    run(scene, 30)

    assert scene.api.asked("apply", KIND) == 0
    assert backfills(scene) == {path: body}


def test_where_backfills_cannot_be_listed_a_trial_begins_all_the_same(scene: Reconciled) -> None:
    ((path, _),) = backfills(scene).items()
    del scene.api.objects[path]
    scene.restart_operator()
    run(scene, 30)

    take_trials(scene, [], None)
    run(scene, 30)

    assert scene.api.asked("apply", KIND) == 1
