"""Many groups at once all come to their end, and people who write at the same time as the operator are not overrun."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.groups import Groups, Json, document
from tests.support.operators import Operators
from tests.support.played import Kubelet
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(900)

MANY = 50
PATIENCE = 400.0


@pytest.fixture
def kubelet(groups: Groups) -> Iterator[Kubelet]:
    with Kubelet(groups.cluster, groups.namespace).running() as made:
        yield made


@pytest.fixture
def operators(groups: Groups, tmp_path: Path) -> Iterator[Operators]:
    made = Operators(groups.cluster, groups.namespace, tmp_path)
    made.allow()
    with made.clearing():
        yield made


def gist(group: Json) -> tuple[Any, ...]:
    """Whether it is where it should be."""
    status = group.get("status", {})
    return status.get("phase"), status.get("rollout", {}).get("stage"), status.get("observedGeneration")


def test_many_groups_at_once_all_come_to_their_end(groups: Groups, operators: Operators, kubelet: Kubelet) -> None:
    operators.lead()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: groups.create(document(f"group-{n}")), range(MANY)))

    eventually(
        lambda: list(map(gist, groups.list())), lambda seen: seen == [("Running", "Settled", 1)] * MANY, PATIENCE
    )
    assert sorted(kubelet.begun.values()) == [1] * MANY
    groups.kubectl("delete", "cg", "--all", "--wait=false")
    eventually(groups.list, lambda left: not left, PATIENCE)
    assert kubelet.drivers == []
