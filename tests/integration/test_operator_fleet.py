"""Many groups at the same time, and users who write at the same time as the operator."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, Json, document
from tests.support.operator.operators import Operators
from tests.support.waiting import eventually

MANY = 50
PATIENCE = 400.0


@pytest.fixture
def operators(groups: Groups, tmp_path: Path) -> Iterator[Operators]:
    made = Operators(groups.cluster, groups.namespace, tmp_path, pod="operator-0")
    made.allow()
    with made.clearing():
        yield made


def gist(group: Json) -> tuple[Any, ...]:
    """The fields by which a test decides whether a group is settled."""
    status = group.get("status", {})
    return (
        status.get("phase"),
        status.get("rollout", {}).get("stage"),
        status.get("observedGeneration"),
    )


@pytest.mark.full
def test_many_groups_run_and_are_deleted_although_the_operator_is_killed(
    groups: Groups, operators: Operators, kubelet: Kubelet
) -> None:
    operators.keep()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: groups.create(document(f"group-{n}")), range(MANY)))
    eventually(kubelet.begun.total, lambda begun: begun > MANY // 5, PATIENCE)
    operators.begun[-1].kill()

    eventually(
        lambda: list(map(gist, groups.list())),
        lambda seen: seen == [("Running", "Settled", 1)] * MANY,
        PATIENCE,
    )
    assert sorted(kubelet.begun.values()) == [1] * MANY
    groups.kubectl("delete", "cg", "--all", "--wait=false")
    eventually(groups.list, lambda left: not left, PATIENCE)
    assert kubelet.drivers == []


def test_a_fleet_follows_the_image_of_a_new_operator_two_groups_at_a_time(
    groups: Groups, operators: Operators, kubelet: Kubelet
) -> None:
    first = operators.lead()
    for n in range(6):
        groups.create(document(f"group-{n}", upgrade={"image": "Follow"}))
    settled = [("Running", "Settled", 1)] * 6
    eventually(lambda: list(map(gist, groups.list())), lambda seen: seen == settled, PATIENCE)
    first.end()
    changing = set[int]()

    def images() -> list[str]:
        seen = [group["status"] for group in groups.list()]
        stages = [status["rollout"]["stage"] for status in seen]
        changing.add(
            sum(stage in {"Warming", "Yielding", "Draining", "Opening"} for stage in stages)
        )
        return [status["image"] for status in seen]

    operators.lead("--image", "landfall:2", "--max-rollouts", "2", "--interval", "2")
    eventually(images, lambda seen: seen == ["landfall:2"] * 6, PATIENCE)

    assert max(changing) == 2
    assert sorted(kubelet.begun.values()) == [1] * 12


def run(groups: Groups) -> None:
    groups.create(document())
    eventually(lambda: groups.read("clicks"), lambda group: gist(group)[0] == "Running", PATIENCE)


def test_no_edit_is_lost_while_the_operator_writes(
    groups: Groups, operators: Operators, kubelet: Kubelet
) -> None:
    operators.keep()
    run(groups)

    for replicas in range(2, 22):
        groups.patch_scale("clicks", replicas)
        groups.patch("clicks", {"metadata": {"labels": {"edit": str(replicas)}}})
        groups.patch_status("clicks", {"status": {"phase": "Pending"}})

    seen = eventually(
        lambda: groups.read("clicks"),
        lambda group: gist(group) == ("Running", "Settled", generation(group)),
        PATIENCE,
    )
    eventually(
        lambda: [driver.wanted for driver in kubelet.drivers],
        lambda wanted: wanted == [21],
        PATIENCE,
    )
    assert (seen["metadata"]["labels"]["edit"], list(kubelet.begun.values())) == ("21", [1])


def generation(group: Json) -> int:
    return int(group["metadata"]["generation"])


def test_an_invalid_edit_leaves_the_last_valid_spec_running(
    groups: Groups, operators: Operators, kubelet: Kubelet
) -> None:
    operators.keep()
    run(groups)

    groups.patch("clicks", {"spec": {"image": "other:1", "source": {"kafka": {"exclude": "a("}}}})

    condition = eventually(
        lambda: spec_valid(groups), lambda seen: seen["status"] == "False", PATIENCE
    )
    assert condition["message"].startswith(
        "spec.source.kafka.exclude: not a regular expression: 'a('"
    )
    assert [(driver.image, driver.phase) for driver in kubelet.drivers] == [
        ("landfall:1", "Running")
    ]

    groups.patch("clicks", {"spec": {"source": {"kafka": {"exclude": "a"}}}})

    eventually(lambda: spec_valid(groups), lambda seen: seen["status"] == "True", PATIENCE)
    eventually(
        lambda: [d.image for d in kubelet.drivers], lambda images: images == ["other:1"], PATIENCE
    )


def spec_valid(groups: Groups) -> Json:
    conditions = groups.read("clicks")["status"]["conditions"]
    return next(condition for condition in conditions if condition["type"] == "SpecValid")


def test_a_driver_that_does_not_hand_over_in_time_is_fenced(
    groups: Groups, operators: Operators, kubelet: Kubelet
) -> None:
    operators.keep()
    groups.create(document(image="deaf:1", upgrade__drainTimeout="1s"))
    eventually(lambda: kubelet.lane("clicks").opened, lambda opened: len(opened) == 1, PATIENCE)

    groups.patch("clicks", {"spec": {"image": "good:2"}})

    opened = eventually(
        lambda: kubelet.lane("clicks").opened, lambda opened: len(opened) == 2, PATIENCE
    )
    eventually(
        lambda: groups.read("clicks")["status"]["rollout"]["active"],
        lambda active: active == opened[1],
        PATIENCE,
    )
    assert kubelet.landing("clicks") == [opened[1]]
