"""What kstatus, by which Flux, kpt and Helm wait, computes for groups and Backfills."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.kube import programs
from landfall_operator.api.verbs import PAUSE
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.kubernetes.groups import Json
from tests.support.operator.operator_stage import Stage, staged
from tests.support.operator.operators import PATIENCE
from tests.support.operator.waiting_tools import NAMES, STATES, State
from tests.support.waiting import eventually


def kstatus(resource: Json) -> str:
    done = subprocess.run(
        [programs.kstatus()],
        input=json.dumps(resource),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def own(control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Stage]:
    yield from staged(control_plane, namespace, tmp_path)


@pytest.mark.parametrize("state", STATES, ids=NAMES)
def test_kstatus_computes_what_is_so(state: State) -> None:
    assert kstatus(state.made()) == state.kstatus


def test_tools_wait_for_a_group_from_the_first_moment_until_its_spec_is_in_force(
    own: Stage,
) -> None:
    def seen() -> str:
        return kstatus(own.groups.read(own.name))

    own.create()
    created = seen()

    own.operators.lead()
    own.groups.kubectl("wait", "--for=condition=Deployed", f"cg/{own.name}", "--timeout=60s")
    eventually(seen, lambda word: word == "Current", PATIENCE)
    own.groups.kubectl("annotate", "cg", own.name, f"{PAUSE}=true")
    own.patch(image="landfall:2")
    waiting = "wait", "--for=condition=Deployed", f"cg/{own.name}"
    with pytest.raises(Refused, match="timed out"):
        own.groups.kubectl(*waiting, "--timeout=5s")
    paused = seen()
    own.groups.kubectl("annotate", "cg", own.name, f"{PAUSE}-")
    own.groups.kubectl(*waiting, "--timeout=60s")

    assert (created, paused) == ("InProgress", "InProgress")
    assert own.status["image"] == "landfall:2"


def test_a_new_backfill_is_in_progress_before_an_operator_has_seen_it(own: Stage) -> None:
    manifest = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "Backfill",
        "metadata": {"name": "again"},
        "spec": {"group": own.name, "last": "1d"},
    }
    own.groups.kubectl("apply", "-f", "-", manifest=manifest)

    created = json.loads(own.groups.kubectl("get", "backfill", "again", "-o", "json"))

    assert kstatus(created) == "InProgress"
