"""What somebody changes in a group's objects is put back, on a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, document, install
from tests.support.operator.operators import PATIENCE, Operators, Running
from tests.support.waiting import eventually

NAME = "clicks"
CHANGES: dict[str, Any] = {
    "role": {"rules": []},
    "networkpolicy": {"spec": {"ingress": []}},
    "service": {"spec": {"publishNotReadyAddresses": False}},
    "configmap": {"data": {"executors": "77"}},
}


@pytest.fixture
def landing(
    control_plane: Cluster, namespace: str, tmp_path: Path
) -> Iterator[tuple[Groups, Running]]:
    """A group that lands, and its operator."""
    install(control_plane)
    operators = Operators(control_plane, namespace, tmp_path)
    operators.allow()
    groups = Groups(control_plane, namespace)
    with Kubelet(control_plane, namespace).running(), operators.clearing():
        operator = operators.lead()
        groups.create(document(NAME))
        eventually(
            lambda: groups.read(NAME).get("status", {}).get("rollout", {}).get("stage"),
            lambda stage: stage == "Settled",
            PATIENCE,
        )
        yield groups, operator


def content(groups: Groups, kind: str) -> Any:
    found = json.loads(groups.kubectl("get", kind, f"{NAME}-driver", "-o", "json"))
    return {key: value for key, value in found.items() if key not in {"metadata", "status"}}


def test_changed_content_is_put_back_and_nothing_else_is_written(
    landing: tuple[Groups, Running],
) -> None:
    groups, operator = landing
    before = {kind: content(groups, kind) for kind in CHANGES}
    passes = operator.metric("landfall_operator_passes_total", outcome="done")
    eventually(
        lambda: operator.metric("landfall_operator_passes_total", outcome="done"),
        lambda n: n > passes + 2,
        PATIENCE,
    )
    applied = operator.metric("landfall_operator_actions_total", action="Apply")

    for kind, patch in CHANGES.items():
        groups.kubectl("patch", kind, f"{NAME}-driver", "--type=merge", "-p", json.dumps(patch))

    after = eventually(
        lambda: {kind: content(groups, kind) for kind in CHANGES},
        lambda seen: seen == before,
        PATIENCE,
    )
    assert after == before
    repaired = operator.metric("landfall_operator_actions_total", action="Apply") - applied
    assert repaired == len(CHANGES)
