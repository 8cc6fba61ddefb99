"""An operator that dies in every single write brings a group to the same end as one that lives on."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.fake_kubelet import Kubelet
from tests.support.groups import Groups, Json, document
from tests.support.operator_restarts import live
from tests.support.waiting import eventually

PATIENCE = 400.0
OWNED = "deployments,configmaps,controllerrevisions,serviceaccounts,roles,rolebindings,services,networkpolicies,poddisruptionbudgets"


@dataclass
class Story:
    """A group, and operators that live for so many writes each; None is one that lives on."""

    groups: Groups
    kubelet: Kubelet
    writes: int | None
    deaths: int = 0

    def edit(self, **spec: Any) -> None:
        """As a user does."""
        self.groups.patch("clicks", {"spec": spec})

    def until(self, enough: Callable[[Json], Any]) -> Json:
        """Let operators live and die until the group is as it should be."""
        deadline = time.monotonic() + PATIENCE
        status: Json = {}

        def seen() -> bool:
            nonlocal status
            status = self._status()
            assert time.monotonic() < deadline, f"after {self.deaths} deaths still {status}"
            return bool(enough(status))

        while not seen():
            self.deaths += asyncio.run(
                live(self.groups.cluster, self.groups.namespace, "clicks", self.writes, seen)
            )
        return status

    def opened(self) -> list[str]:
        """Generations in the order of their OPENs."""
        return [revision.partition("-")[0] for revision in self.kubelet.lane("clicks").opened]

    def begun(self) -> dict[str, int]:
        """Pods that were started, by generation."""
        return {
            revision.partition("-")[0]: number
            for revision, number in sorted(self.kubelet.begun.items())
        }

    def owned(self) -> list[str]:
        """What there is of the group, without the digests in names."""
        printed = self.groups.kubectl("get", OWNED, "-l", "landfall.dev/group=clicks", "-o", "name")
        return sorted(re.sub(r"-[0-9a-f]{8,16}$", "", name) for name in printed.split())

    def _status(self) -> Json:
        found = self.groups.list()
        status: Json = found[0].get("status", {}) if found else {"phase": "gone"}
        return {"phase": None, "rollout": {}, **status}


@pytest.fixture(
    params=[None, 1, 2], ids=["lives on", "dies in each write", "dies in each second write"]
)
def story(request: pytest.FixtureRequest, groups: Groups) -> Iterator[Story]:
    with Kubelet(groups.cluster, groups.namespace).running() as kubelet:
        yield Story(groups, kubelet, request.param)


def landed(generation: int) -> Callable[[Json], bool]:
    """Whether a generation lands, and nothing is under way."""

    def enough(status: Json) -> bool:
        settled = status["rollout"].get("stage") in {"Settled", "Watching"}
        return (status["phase"], status.get("activeGeneration"), settled) == (
            "Running",
            generation,
            True,
        )

    return enough


def given_up(generation: int) -> Callable[[Json], bool]:
    """Whether a generation was taken back, and nothing is under way."""

    def enough(status: Json) -> bool:
        rejected = status["rollout"].get("rejected", {}).get("generation")
        return (rejected, status["rollout"]["stage"], status["phase"]) == (
            generation,
            "Settled",
            "Stalled",
        )

    return enough


def test_a_group_comes_to_the_same_end(story: Story) -> None:
    story.groups.create(document(generation=1))
    story.until(landed(1))
    assert (story.opened(), story.begun()) == (["g1"], {"g1": 1})

    story.edit(generation=2)
    story.until(landed(2))
    assert (story.opened(), story.begun()) == (["g1", "g2"], {"g1": 1, "g2": 1})

    story.edit(generation=3, image="broken:3")
    assert story.until(given_up(3))["activeGeneration"] == 2
    assert (story.opened(), story.begun()) == (["g1", "g2"], {"g1": 1, "g2": 1, "g3": 1})

    story.edit(state="Suspended", generation=2, image=None)
    story.until(lambda status: status["phase"] == "Suspended")
    assert story.kubelet.drivers == []

    story.edit(state="Running")
    story.until(landed(2))
    assert (story.opened(), story.begun()) == (["g1", "g2", "g2"], {"g1": 1, "g2": 2, "g3": 1})
    eventually(story.owned, lambda owned: owned == EVERYTHING)

    story.groups.kubectl("delete", "cg", "clicks", "--wait=false")
    story.until(lambda status: status["phase"] == "gone")
    assert (story.kubelet.drivers, story.kubelet.lane("clicks").yielded) == ([], True)
    eventually(story.owned, lambda owned: not owned)


EVERYTHING = [
    "configmap/clicks-g2",
    "controllerrevision.apps/clicks",
    "controllerrevision.apps/clicks",
    "controllerrevision.apps/clicks",
    "deployment.apps/clicks-g2",
    "networkpolicy.networking.k8s.io/clicks-driver",
    "poddisruptionbudget.policy/clicks-driver",
    "role.rbac.authorization.k8s.io/clicks-driver",
    "rolebinding.rbac.authorization.k8s.io/clicks-driver",
    "service/clicks-driver",
    "serviceaccount/clicks-driver",
]


def test_a_generation_that_lands_and_fails_is_taken_back(story: Story) -> None:
    story.groups.create(document(generation=1))
    story.until(landed(1))

    story.edit(generation=2, image="failing:2")
    story.until(given_up(2))

    assert story.opened() == ["g1", "g2", "g1"]
    eventually(lambda: story.kubelet.drivers, lambda left: [d.generation for d in left] == [1])
