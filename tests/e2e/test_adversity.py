"""Groups on a real node when things go wrong around them; only ``make e2e`` runs these tests."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from landfall.ledger import LaneOwnership
from tests.support.audit.independent_audit import events
from tests.support.kubernetes.live_group import NAME, SOUND, LiveGroup, events_arriving
from tests.support.kubernetes.stack import Stack

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800, func_only=True),
    pytest.mark.xdist_group("node"),
]

UNREADABLE = {
    "format": "Json",
    "timestamp": {"field": "nowhere.to.be.found", "unit": "Milliseconds"},
}
"""A ``decode`` section with which no event can be decoded: its timestamp field does not exist."""
TOO_LITTLE_MEMORY = {"resources": {"requests": {"memory": "128Mi"}, "limits": {"memory": "128Mi"}}}
"""A ``driver`` section with less memory than a JVM needs to start."""


def test_a_driver_that_runs_out_of_memory_is_reported(group: LiveGroup, topic: str) -> None:
    group.apply(driver=TOO_LITTLE_MEMORY)
    group.wait_for_condition("Ready", "False", "OutOfMemory")

    group.change(driver=None)
    group.wait_for_condition("Ready", "True", "AsExpected")
    group.scene.kafka.produce(topic, events(range(5000, 6000)))
    group.wait_for_commit()
    assert group.final_audit() == SOUND


def test_too_little_memory_for_a_driver_that_lands_is_taken_back(
    group: LiveGroup, topic: str
) -> None:
    group.apply_and_wait_for_commit()
    driver = group.driver()

    with events_arriving(group.scene, topic):
        group.change(driver=TOO_LITTLE_MEMORY)
        message = group.wait_for_condition("Stalled", "True", "RolledBack")
        group.wait_for_commit()
    assert re.match(r"g1-\w{8} was rolled back \(OutOfMemory\): ", message)

    group.change(driver=None)
    group.wait_for_condition("Stalled", "False", "AsExpected")
    assert group.driver() == driver
    assert group.final_audit() == SOUND


def test_a_group_yields_when_its_node_is_drained_and_continues_afterwards(
    group: LiveGroup, topic: str
) -> None:
    group.apply_and_wait_for_commit()
    node, drained = group.node(), group.driver()

    with events_arriving(group.scene, topic), cordoned(group, node):
        pods = f"--pod-selector=landfall.dev/group={NAME}"
        group.cluster.kubectl(
            "drain", node, pods, "--force", "--delete-emptydir-data", "--timeout=300s"
        )
        assert group.ledger().holding is LaneOwnership.YIELDED
        group.wait_for_condition("Ready", "False", "Unschedulable")

    group.wait_for_condition("Ready", "True", "AsExpected")
    assert group.driver() != drained
    assert group.final_audit() == SOUND


@contextmanager
def cordoned(group: LiveGroup, node: str) -> Iterator[None]:
    group.cluster.kubectl("cordon", node)
    try:
        yield
    finally:
        group.cluster.kubectl("uncordon", node)


def test_a_group_waits_for_a_node_that_fits(group: LiveGroup, topic: str) -> None:
    group.apply(driver={"nodeSelector": {"nobody": "has-this"}})
    group.wait_for_condition("Ready", "False", "Unschedulable")

    group.change(driver=None)

    assert group.final_audit() == SOUND


def test_an_upgrade_continues_after_its_operator_was_killed(
    stack: Stack, group: LiveGroup, topic: str
) -> None:
    group.apply_and_wait_for_commit()

    with events_arriving(group.scene, topic):
        group.change(generation=2)
        group.wait(lambda: group.status()["rollout"].get("target"), "the upgrade has begun")
        stack.kill_operator()
        group.wait(lambda: group.status().get("activeGeneration") == 2, "generation 2 is active")
        group.wait_for_commit()

    assert group.final_audit() == SOUND


def test_an_image_that_does_not_start_is_rolled_back(
    stack: Stack, group: LiveGroup, topic: str
) -> None:
    group.apply_and_wait_for_commit()
    driver = group.driver()

    with events_arriving(group.scene, topic):
        group.change(image=stack.operator_image(), generation=2)
        message = group.wait_for_condition("Stalled", "True", "RolledBack")
        group.wait_for_commit()

    assert re.match(r"g2-\w{8} was rolled back ", message)
    assert (group.status()["activeGeneration"], group.driver()) == (1, driver)
    assert group.final_audit() == SOUND


def test_a_generation_that_cannot_decode_is_rolled_back_once(group: LiveGroup, topic: str) -> None:
    group.apply_and_wait_for_commit()

    with events_arriving(group.scene, topic):
        group.change(decode=UNREADABLE, generation=2)
        group.wait_for_condition("Stalled", "True", "RolledBack")
        group.wait(lambda: group.ledger().generation == 1, "generation 1 opens the ledger again")
        group.wait_for_commit()

    assert group.final_audit() == SOUND
    outcomes = [(o["generation"], o["outcome"]) for o in group.status()["history"]]
    assert sorted(outcomes) == [(1, "Active"), (2, "RolledBack")]
    epoch = group.ledger().epoch
    group.kubectl("annotate", "consumergroup", NAME, "looked=at")
    group.scene.kafka.produce(topic, events(range(5000, 6000)))
    assert group.final_audit() == SOUND
    assert (group.ledger().epoch, group.condition("Stalled")[1]) == (epoch, "RolledBack")


def test_a_resumed_group_continues_at_its_checkpoint(group: LiveGroup, topic: str) -> None:
    group.apply_and_wait_for_commit()

    group.change(state="Suspended")
    group.wait_for_phase("Suspended")
    group.wait(lambda: not group.pods("driver") and not group.pods("executor"), "its pods are gone")
    assert group.ledger().holding is LaneOwnership.YIELDED
    group.scene.kafka.produce(topic, events(range(5000, 6000)))
    group.change(state="Running")

    assert group.final_audit() == SOUND


@pytest.mark.parametrize("fault", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
def test_an_unavailable_store_is_reported_and_waited_for(
    stack: Stack, group: LiveGroup, topic: str, fault: signal.Signals
) -> None:
    group.apply_and_wait_for_commit()
    driver = group.driver()

    with events_arriving(group.scene, topic), stack.s3_outage(fault):
        group.wait_for_condition("CommitsHealthy", "False", "StoreUnavailable")
        group.wait(lambda: ("Warning", "StoreUnavailable") in group.events(), "an Event says so")
        group.wait(lambda: stack.condition(group, "CommitsHealthy") == 0, "a metric says so")

    group.wait_for_condition("CommitsHealthy", "True", "AsExpected")
    assert group.final_audit() == SOUND
    assert group.driver() == driver


def test_two_groups_run_side_by_side(groups: Callable[[], LiveGroup]) -> None:
    both = groups(), groups()
    for group in both:
        group.topic()
        group.apply()

    assert [group.final_audit() for group in both] == [SOUND, SOUND]
