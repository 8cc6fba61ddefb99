"""The operator's process is killed again and again, right after the API server executed a write."""

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, Json, document
from tests.support.operator.kill_proxy import KillProxy
from tests.support.operator.operators import Operators
from tests.support.waiting import eventually

PATIENCE = 400.0
WRITES = 5
"""How many writes each operator makes before it is killed."""


@pytest.fixture
def gate(groups: Groups) -> Iterator[KillProxy]:
    with KillProxy(groups.cluster).open() as made:
        yield made


@pytest.fixture
def operators(groups: Groups, gate: KillProxy, tmp_path: Path) -> Iterator[Operators]:
    """Operators with the name of one pod, so that each gets the lease at once.

    They reach the API server only through the gate.
    """
    made = Operators(
        groups.cluster,
        groups.namespace,
        tmp_path,
        host=f"http://127.0.0.1:{gate.port}",
        pod="operator-0",
    )
    made.allow()
    with made.clearing():
        yield made


def status(groups: Groups) -> Json:
    found = groups.list()
    return found[0].get("status", {}) if found else {"phase": "gone"}


def dead_or(popen: subprocess.Popen[bytes], is_reached: Callable[[], bool]) -> bool:
    return popen.poll() is not None or is_reached()


def test_an_operator_that_is_killed_again_and_again_makes_progress(
    groups: Groups, gate: KillProxy, operators: Operators, kubelet: Kubelet
) -> None:
    def until(phase: str, generation: int | None = None) -> None:
        def is_reached() -> bool:
            seen = status(groups)
            return seen.get("phase") == phase and generation in {None, seen.get("activeGeneration")}

        while not is_reached():
            popen = operators.start().popen
            gate.after(WRITES, popen.kill)
            eventually(partial(dead_or, popen, is_reached), bool, PATIENCE)
            popen.kill()
            popen.wait()

    groups.create(document(generation=1))
    until("Running", 1)
    groups.patch("clicks", {"spec": {"generation": 2}})
    until("Running", 2)
    groups.kubectl("delete", "cg", "clicks", "--wait=false")
    until("gone")

    assert [revision.partition("-")[0] for revision in kubelet.lane("clicks").opened] == [
        "g1",
        "g2",
    ]
    assert sorted(kubelet.begun.values()) == [1, 1]
    assert (len(operators.begun) > 5, kubelet.drivers) == (True, [])
