"""``/groups`` and the page of all groups: what the operator's metrics have, and nothing else."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from landfall.api import console
from landfall_operator.core.desired_state import desired_state
from landfall_operator.reporting.group_status import report
from landfall_operator.runtime import http
from landfall_operator.runtime.group_list import group_list
from landfall_operator.runtime.group_metrics import GroupSnapshot
from landfall_operator.runtime.metrics import Metrics, OperatorSnapshot
from tests.support.operator.cluster_model import START, World, group
from tests.support.operator.group_snapshots import fleet

BROWSER = {"Accept": "text/html,*/*;q=0.8"}


@pytest.fixture(scope="module")
def snapshot() -> GroupSnapshot:
    world = World(group("good", autoscaling={"minReplicas": 1, "maxReplicas": 4}))
    world.run(timedelta(minutes=10))
    status = report(world.observe(), desired_state(world.observe()))
    return GroupSnapshot("logs", "hits-to-s3", status, START, answers=True, restarts=2)


def test_a_group_has_its_numbers(snapshot: GroupSnapshot) -> None:
    document = group_list({("logs", "clicks"): snapshot}, is_leader=True)

    (shown,) = document["groups"]
    assert document["is_leader"] is True
    assert (shown["phase"], shown["lag_records"], shown["commits"]) == ("Running", 2, 5)
    assert (shown["driver_up"], shown["restarts"], shown["wrong"]) == (True, 2, [])


def test_what_is_wrong_is_the_type_of_a_condition_and_never_its_text(
    snapshot: GroupSnapshot,
) -> None:
    conditions = tuple(
        c.model_copy(update={"status": "False", "message": "topic secret-plans is gone"})
        for c in snapshot.status.conditions
    )
    status = snapshot.status.model_copy(update={"conditions": conditions})

    document = group_list({("a", "b"): replace(snapshot, status=status)}, is_leader=True)

    (shown,) = document["groups"]
    assert "Ready" in shown["wrong"]
    assert not {"Stalled", "Upgrading", "Reconciling"} & {*shown["wrong"]}
    assert "secret-plans" not in json.dumps(document)


def test_all_texts_are_in_the_metrics_of_the_same_port(snapshot: GroupSnapshot) -> None:
    metrics = Metrics(lambda: OperatorSnapshot(is_leader=True, groups=1, oldest_pass=1.5))
    metrics.group_snapshots["logs", "hits-to-s3"] = snapshot
    page = generate_latest(metrics.registry).decode()

    (shown,) = group_list(metrics.group_snapshots, is_leader=True)["groups"]

    texts = [text for name, text in shown.items() if isinstance(text, str) and "since" not in name]
    assert len(texts) == 4
    for text in (*texts, *shown["wrong"], *shown["publishers_lagging"]):
        assert f'"{text}"' in page


@asynccontextmanager
async def serving(number: int) -> AsyncIterator[str]:
    snapshots = fleet(number)
    runner = await http.serve(
        CollectorRegistry(),
        lambda: (True, "ok"),
        lambda: (True, "ok"),
        "127.0.0.1",
        0,
        groups=lambda: group_list(snapshots, is_leader=True),
    )
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.asyncio
async def test_a_browser_gets_the_page_with_its_files_and_a_program_the_paths() -> None:
    async with serving(2) as url, aiohttp.ClientSession() as session:
        async with session.get(url, headers=BROWSER) as answer:
            assert answer.headers["Content-Security-Policy"] == console.CONTENT_SECURITY_POLICY
            assert "<title>Groups" in await answer.text()
        async with session.get(url, headers={"Accept": "*/*"}) as answer:
            assert "/groups\n" in await answer.text()
        for name in console.GROUPS_FILES:
            async with session.get(f"{url}/{name}") as answer:
                assert answer.headers["Content-Type"] == console.content_type(name)
                assert await answer.read() == console.content(name)


@pytest.mark.asyncio
async def test_a_thousand_groups_are_answered_at_once_and_made_once_a_second() -> None:
    async with serving(1000) as url, aiohttp.ClientSession() as session:
        began = time.thread_time()
        bodies = []
        for _ in range(5):
            async with session.get(f"{url}/groups") as answer:
                bodies.append(await answer.read())

        assert time.thread_time() - began < 0.5
        assert len(json.loads(bodies[0])["groups"]) == 1000
        assert len(bodies[0]) < 600_000
