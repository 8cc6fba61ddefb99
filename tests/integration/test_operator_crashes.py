"""An operator that is killed at every single write leads a group to the same state as any other."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, Json, document
from tests.support.operator.operator_restarts import run_operator
from tests.support.waiting import eventually

TIMEOUT_SECONDS = 400.0
OWNED = (
    "deployments,configmaps,controllerrevisions,serviceaccounts,roles,rolebindings,"
    "services,networkpolicies,poddisruptionbudgets"
)


@dataclass
class Scenario:
    """A group and its operators, each killed after so many writes; None is never killed."""

    groups: Groups
    kubelet: Kubelet
    writes: int | None
    kills: int = 0

    def edit(self, **spec: Any) -> None:
        """Edit the spec, as a user does."""
        self.groups.patch("clicks", {"spec": spec})

    def until(self, condition: Callable[[Json], Any]) -> Json:
        """Run and kill operators until the status meets a condition; returns that status."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        status: Json = {}

        def is_met() -> bool:
            nonlocal status
            status = self._status()
            assert time.monotonic() < deadline, f"after {self.kills} kills still {status}"
            return bool(condition(status))

        while not is_met():
            self.kills += asyncio.run(
                run_operator(
                    self.groups.cluster, self.groups.namespace, "clicks", self.writes, is_met
                )
            )
        return status

    def opened(self) -> list[str]:
        """The generations in the order of their OPEN records."""
        return [revision.partition("-")[0] for revision in self.kubelet.lane("clicks").opened]

    def started(self) -> dict[str, int]:
        """The number of pods that were started, by generation."""
        return {
            revision.partition("-")[0]: number
            for revision, number in sorted(self.kubelet.begun.items())
        }

    def owned(self) -> list[str]:
        """The objects that the group owns, without the hashes in their names."""
        printed = self.groups.kubectl("get", OWNED, "-l", "landfall.dev/group=clicks", "-o", "name")
        return sorted(re.sub(r"-[0-9a-f]{8,16}$", "", name) for name in printed.split())

    def _status(self) -> Json:
        found = self.groups.list()
        status: Json = found[0].get("status", {}) if found else {"phase": "gone"}
        return {"phase": None, "rollout": {}, **status}


@pytest.fixture(
    params=[None, 1, 2], ids=["never killed", "killed at each write", "killed at each second write"]
)
def scenario(request: pytest.FixtureRequest, groups: Groups) -> Iterator[Scenario]:
    with Kubelet(groups.cluster, groups.namespace).running() as kubelet:
        yield Scenario(groups, kubelet, request.param)


def landed(generation: int) -> Callable[[Json], bool]:
    """A condition: this generation lands, and no rollout is in progress."""

    def condition(status: Json) -> bool:
        settled = status["rollout"].get("stage") in {"Settled", "Watching"}
        return (status["phase"], status.get("activeGeneration"), settled) == (
            "Running",
            generation,
            True,
        )

    return condition


def rolled_back(generation: int) -> Callable[[Json], bool]:
    """A condition: this generation was rolled back, and no rollout is in progress."""

    def condition(status: Json) -> bool:
        rejected = status["rollout"].get("rejected", {}).get("generation")
        settled = status["rollout"].get("stage") in {"Settled", "Watching"}
        return (rejected, status["phase"], settled) == (generation, "Stalled", True)

    return condition


def test_a_group_reaches_the_same_state(scenario: Scenario) -> None:
    scenario.groups.create(document(generation=1))
    scenario.until(landed(1))
    assert (scenario.opened(), scenario.started()) == (["g1"], {"g1": 1})

    scenario.edit(generation=2)
    scenario.until(landed(2))
    assert (scenario.opened(), scenario.started()) == (["g1", "g2"], {"g1": 1, "g2": 1})

    scenario.edit(generation=3, image="broken:3")
    assert scenario.until(rolled_back(3))["activeGeneration"] == 2
    assert (scenario.opened(), scenario.started()) == (["g1", "g2"], {"g1": 1, "g2": 1, "g3": 1})

    scenario.edit(state="Suspended", generation=2, image=None)
    scenario.until(lambda status: status["phase"] == "Suspended")
    assert scenario.kubelet.drivers == []

    scenario.edit(state="Running")
    scenario.until(landed(2))
    assert (scenario.opened(), scenario.started()) == (
        ["g1", "g2", "g2"],
        {"g1": 1, "g2": 2, "g3": 1},
    )
    eventually(scenario.owned, lambda owned: owned == EVERYTHING)

    scenario.groups.kubectl("delete", "cg", "clicks", "--wait=false")
    scenario.until(lambda status: status["phase"] == "gone")
    assert (scenario.kubelet.drivers, scenario.kubelet.lane("clicks").yielded) == ([], True)
    eventually(scenario.owned, lambda owned: not owned)


EVERYTHING = [
    "configmap/clicks-driver",
    "configmap/config-clicks",
    "controllerrevision.apps/clicks",
    "controllerrevision.apps/clicks",
    "controllerrevision.apps/clicks",
    "deployment.apps/clicks-g2",
    "networkpolicy.networking.k8s.io/clicks-driver",
    "networkpolicy.networking.k8s.io/clicks-executors",
    "poddisruptionbudget.policy/clicks-driver",
    "role.rbac.authorization.k8s.io/clicks-driver",
    "rolebinding.rbac.authorization.k8s.io/clicks-driver",
    "service/clicks-driver",
    "serviceaccount/clicks-driver",
]


def test_a_generation_that_lands_and_fails_is_rolled_back(scenario: Scenario) -> None:
    scenario.groups.create(document(generation=1))
    scenario.until(landed(1))

    scenario.edit(generation=2, image="failing:2")
    scenario.until(rolled_back(2))

    assert scenario.opened() == ["g1", "g2", "g1"]
    eventually(lambda: scenario.kubelet.drivers, lambda left: [d.generation for d in left] == [1])
