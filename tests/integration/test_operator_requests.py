"""``kubectl landfall`` against the operator as a process, on a real API server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.operator.operator_stage import Stage, staged
from tests.support.operator.operators import PATIENCE
from tests.support.waiting import eventually


@pytest.fixture
def stage(control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Stage]:
    """A namespace with an operator."""
    for own in staged(control_plane, namespace, tmp_path):
        own.operators.keep()
        yield own


def test_kubectl_landfall_rolls_back_and_tries_again(stage: Stage) -> None:
    stage.create()
    first = stage.wait_for("Running")["rollout"]["active"]
    stage.patch(image="landfall:2")
    rollout = eventually(
        lambda: stage.status["rollout"],
        lambda seen: seen["active"] != first and seen["stage"] == "Watching",
        PATIENCE,
    )
    second = rollout["active"]

    said = stage.kubectl_landfall("rollback")
    assert said == f"{stage.name}: rolling back from {second} to {first}"
    eventually(lambda: stage.status, lambda seen: seen["rollout"]["active"] == first, PATIENCE)
    seen = stage.wait_for("Stalled")
    assert (seen["reason"], seen["rollout"]["active"]) == ("RolledBack", first)
    assert seen["lastRequest"]["verb"] == "rollback"
    annotations = stage.groups.read(stage.name)["metadata"]["annotations"]
    assert annotations.keys() == {"landfall.dev/operator"}
    eventually(stage.reasons, lambda said: "Requested" in said)

    stage.kubectl_landfall("retry")
    eventually(lambda: stage.status, lambda seen: seen["rollout"]["active"] == second, PATIENCE)


def test_kubectl_landfall_says_why_a_request_is_refused(stage: Stage) -> None:
    stage.create()
    running = stage.wait_for("Running")["rollout"]["active"]

    with pytest.raises(Refused, match="refused: there is no other revision to go back to"):
        stage.kubectl_landfall("rollback")
    assert stage.status["rollout"]["active"] == running


def test_a_paused_group_is_not_changed_until_it_is_resumed(stage: Stage) -> None:
    stage.create()
    first = stage.wait_for("Running")["rollout"]["active"]

    stage.kubectl_landfall("pause")
    stage.patch(image="landfall:2")
    paused = eventually(
        lambda: stage.condition("Reconciling"),
        lambda seen: seen.get("reason") == "ReconciliationPaused",
        PATIENCE,
    )

    assert (paused["status"], paused["observedGeneration"]) == ("False", 1)
    assert stage.groups.read(stage.name)["metadata"]["generation"] == 2
    assert stage.drivers().keys() == {first}

    stage.kubectl_landfall("resume")
    eventually(lambda: stage.status, lambda seen: seen["rollout"]["active"] != first, PATIENCE)
