"""What the environment and its users do to groups on a real node, and what the resource then says.

Only ``make e2e`` runs these tests.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.kubernetes import last_release
from tests.support.kubernetes.live_group import NAME, SOUND, LiveGroup, events_arriving
from tests.support.kubernetes.stack import Stack

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800, func_only=True),
    pytest.mark.xdist_group("node"),
]

SMALL = {"cores": 1, "resources": {"requests": {"cpu": "100m"}}}
"""An executor of a test's size."""


def upgrade(group: LiveGroup, generation: int) -> None:
    """Ask for another generation, and wait until it is active and has committed."""
    group.change(generation=generation)
    group.wait(
        lambda: group.status().get("activeGeneration") == generation,
        f"generation {generation} is active",
    )
    group.wait_for_commit()


def test_executors_that_no_node_can_run_are_reported(group: LiveGroup, topic: str) -> None:
    group.apply(executor={**SMALL, "nodeSelector": {"nobody": "has-this"}})

    message = group.wait_for_condition("ExecutorsReady", "False", "Unschedulable")
    group.wait_for_condition("Ready", "False", "Unschedulable")
    group.change(executor={"nodeSelector": None})

    assert "node(s) didn't match" in message
    group.wait_for_condition("ExecutorsReady", "True", "AsExpected")
    assert group.final_audit() == SOUND


def test_a_good_revision_is_kept_while_the_store_is_away(
    stack: Stack, group: LiveGroup, topic: str
) -> None:
    group.apply_and_wait_for_commit()

    with events_arriving(group.scene, topic), stack.s3_outage(signal.SIGKILL):
        group.change(generation=2)
        group.wait(lambda: group.status()["rollout"].get("held"), "the rollout waits")
        group.wait(lambda: restarts(group) >= 3, "the new driver has ended three times", 900)
        assert "rejected" not in group.status()["rollout"]

    group.wait(lambda: group.status().get("activeGeneration") == 2, "generation 2 is active", 600)
    assert group.final_audit() == SOUND


def restarts(group: LiveGroup) -> int:
    """The restarts of all drivers of the group."""
    return sum(
        status["restartCount"]
        for pod in group.pods("driver").values()
        for status in pod["status"].get("containerStatuses", ())
    )


def test_a_rollback_while_the_store_is_away_ends_when_it_is_back(
    stack: Stack, group: LiveGroup, topic: str
) -> None:
    group.apply_and_wait_for_commit()
    with events_arriving(group.scene, topic):
        upgrade(group, 2)

    with events_arriving(group.scene, topic), stack.s3_outage(signal.SIGKILL):
        group.wait_for_condition("CommitsHealthy", "False", "StoreUnavailable")
        group.landfall("rollback")
        group.wait_for_phase("RollingBack")
        group.wait(lambda: group.status()["rollout"].get("held"), "the rollback waits")

    group.wait(lambda: group.status().get("activeGeneration") == 1, "generation 1 is active", 600)
    group.wait_for_condition("Stalled", "True", "RolledBack")
    assert group.final_audit() == SOUND


def test_rotated_keys_reach_a_running_driver_and_its_executors(
    stack: Stack, group: LiveGroup, topic: str
) -> None:
    group.apply_and_wait_for_commit()
    pods = group.running("driver") | group.running("executor")

    with events_arriving(group.scene, topic):
        with stack.s3_with_key("rotated"):
            group.wait_for_condition("CommitsHealthy", "False", "StoreDenied")
            group.apply_keys("rotated")
            group.wait_for_condition("CommitsHealthy", "True", "AsExpected")
        group.apply_keys()
        group.wait_for_commit()

    assert group.final_audit() == SOUND
    assert group.running("driver") | group.running("executor") == pods
    assert restarts(group) == 0


def test_a_deleted_namespace_does_not_stop_the_groups_of_others(
    stack: Stack, groups: Callable[[], LiveGroup]
) -> None:
    lost, kept = groups(), groups()
    with watching_only(stack, lost, kept):
        lost.topic()
        topic = kept.topic()
        for group in (lost, kept):
            group.apply_and_wait_for_commit()
        operators = stack.operators()

        stack.cluster.delete_namespace(lost.namespace)

        kept.wait(lambda: not stack.cluster.has_namespace(lost.namespace), "the namespace is gone")
        kept.wait(lambda: stack.watched(lost.namespace) == 0, "a metric says so")
        with events_arriving(kept.scene, topic):
            upgrade(kept, 2)
        assert stack.operators() == operators
        assert kept.final_audit() == SOUND


@contextmanager
def watching_only(stack: Stack, *groups: LiveGroup) -> Iterator[None]:
    """The operator watches these groups' namespaces alone, with Roles instead of a ClusterRole."""
    namespaces = ",".join(group.namespace for group in groups)
    stack.install("--set", f"watch.namespaces={{{namespaces}}}")
    try:
        yield
    finally:
        stack.install()


def test_verbs_by_annotation_and_by_kubectl_landfall(group: LiveGroup, topic: str) -> None:
    group.apply_and_wait_for_commit()
    first = group.driver()

    group.kubectl("annotate", "consumergroup", NAME, "landfall.dev/restart=")
    group.wait(lambda: answered(group) == "restart", "the operator answers")
    group.wait(lambda: len(group.pods("driver")) == 1 and group.driver() != first, "it restarts")
    with events_arriving(group.scene, topic):
        upgrade(group, 2)
        active = group.status()["rollout"]["active"]
        assert group.landfall("rollback").startswith(f"{NAME}: rolling back from {active} to g1-")
        group.wait_for_condition("Stalled", "True", "RolledBack")
        group.wait(lambda: group.status()["activeGeneration"] == 1, "generation 1 is active")
        group.wait_for_commit()
        group.landfall("retry")
        group.wait(lambda: group.status()["activeGeneration"] == 2, "generation 2 is active")
        group.wait_for_commit()
        group.wait(lambda: group.status()["rollout"]["stage"] == "Watching", "it is watched")
        group.landfall("promote")
        group.wait(lambda: group.status()["rollout"]["stage"] == "Settled", "it is settled")

    group.landfall("pause")
    group.change(generation=3)
    group.wait_for_condition("Reconciling", "False", "ReconciliationPaused")
    group.landfall("resume")
    group.wait(lambda: group.status()["rollout"].get("target"), "the upgrade has begun")
    group.landfall("abort")
    group.wait_for_condition("Stalled", "True", "RolledBack")
    assert group.final_audit() == SOUND
    assert topic in group.landfall("status")
    assert group.landfall("audit")
    assert group.status()["activeGeneration"] == 2


def answered(group: LiveGroup) -> str:
    """The verb that the operator answered last."""
    return str(group.status().get("lastRequest", {}).get("verb", ""))


def test_an_upgrade_from_the_last_release_leaves_its_drivers_alone(
    stack: Stack, group: LiveGroup, topic: str, tmp_path: Path
) -> None:
    old = last_release.check_out(tmp_path)
    stack.place.cluster.load(sources=old)
    stack.install(sources=old)
    group.apply_and_wait_for_commit()
    group.wait_for_phase("Running")
    pods, operators = group.running("driver") | group.running("executor"), stack.operators()

    with events_arriving(group.scene, topic):
        stack.install()
        group.wait(lambda: operators.isdisjoint(stack.operators()), "another operator runs")
        group.wait_for_condition("ExecutorsReady", "True", "AsExpected")
        group.change(upgrade={"rollback": {"window": "1h", "crashes": 4}})
        group.wait(
            lambda: group.status()["observedGeneration"] == 2,
            "the operator has reconciled the group",
        )
        group.wait_for_commit()
        assert group.running("driver") | group.running("executor") == pods
        assert group.driver()[1] == 0
        assert {kind for kind, _ in group.events()} == {"Normal"}, group.diagnostics()

        upgrade(group, 2)

    group.wait(lambda: len(group.pods("driver")) == 1, "the driver of the last release is gone")
    assert group.final_audit() == SOUND
