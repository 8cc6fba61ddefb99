"""A revision that is tried first, with the operator as a process and a real API server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubernetes.cluster import Cluster
from tests.support.operator.cluster_model_trials import compared
from tests.support.operator.operator_stage import Stage, staged
from tests.support.operator.operators import PATIENCE
from tests.support.waiting import eventually


@pytest.fixture
def stage(control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Stage]:
    """A namespace with an operator."""
    for own in staged(control_plane, namespace, tmp_path):
        own.operators.keep()
        yield own


def backfill(stage: Stage, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        stage.groups.kubectl("get", "cgb", "--ignore-not-found", name, "-o", "json") or "{}"
    )
    return found


def test_a_revision_that_is_refused_lands_once_it_is_promoted(stage: Stage) -> None:
    stage.create(upgrade={"strategy": "Shadow"})
    first = stage.wait_for("Running")["rollout"]["active"]

    stage.patch(route={"pattern": "day={date}"})
    trial = eventually(lambda: stage.status["rollout"].get("trial", {}), bool, PATIENCE)
    made = eventually(lambda: backfill(stage, trial["backfill"]), bool, PATIENCE)
    assert (made["spec"]["revision"], made["spec"]["promote"]) == (trial["revision"], "Never")
    body = json.dumps({"status": compared(differ=5)})
    stage.groups.kubectl(
        "patch", "cgb", trial["backfill"], "--subresource=status", "--type=merge", "-p", body
    )

    eventually(lambda: stage.condition("Stalled").get("reason"), "TrialRefused".__eq__, PATIENCE)
    assert stage.drivers().keys() == {first}
    assert backfill(stage, trial["backfill"])
    said = stage.kubectl_landfall("promote")
    assert said == f"{stage.name}: continuing with {trial['revision']}, regardless of its trial"

    eventually(lambda: stage.status["rollout"]["active"], trial["revision"].__eq__, PATIENCE)
    eventually(
        lambda: backfill(stage, trial["backfill"]),
        lambda left: not left or "deletionTimestamp" in left["metadata"],
        PATIENCE,
    )
