"""A group on a real node, from ``kubectl apply`` to deletion, through kills and handovers."""

import pytest

from landfall.ledger import LaneOwnership
from tests.support.audit.independent_audit import data_keys, events
from tests.support.kubernetes.cluster import Refused
from tests.support.kubernetes.live_group import SOUND, LiveGroup, events_arriving
from tests.support.kubernetes.stack import Stack

ARCHIVE = "/opt/landfall/spark.jsa"
"""The image's archive of Java classes."""

pytestmark = [pytest.mark.timeout(1200, func_only=True), pytest.mark.xdist_group("node")]


def test_an_applied_group_lands_and_reports_its_status(
    stack: Stack, group: LiveGroup, topic: str
) -> None:
    group.apply()

    assert group.final_audit() == SOUND
    group.wait_for_phase("Running")
    group.wait(lambda: group.status()["replicas"] == 1, "the status counts the executor")
    columns = group.columns()
    shown = ("NAME", "PHASE", "GENERATION", "REPLICAS", "LAG", "LAG-TIME")
    assert [columns[name] for name in shown] == ["scene", "Running", "1", "1", "0", "0s"]
    assert columns.keys() - shown == {"COMMIT-FAILURES", "LAST-COMMIT", "LAST-RUN", "AGE"}
    assert columns["LAST-RUN"] == ""
    assert {role: group.root(role) for role in ("driver", "executor")} == {
        "driver": "ro",
        "executor": "ro",
    }
    assert {group.hot_path(role) for role in ("driver", "executor")} <= stack.hot_paths()
    (executor,) = group.pods("executor").values()
    owners = {owner["uid"] for owner in executor["metadata"]["ownerReferences"]}
    assert owners == group.pods("driver").keys()
    # Without it they would start, too, with twice the CPU time.
    assert {role: group.mapping(role, ARCHIVE) for role in ("driver", "executor")} == {
        "driver": {"java"},
        "executor": {"java"},
    }


@pytest.mark.full
def test_an_executor_without_the_secret_cannot_join_a_driver(group: LiveGroup, topic: str) -> None:
    group.apply()
    group.wait_for_commit()
    intruder = (
        "_SPARK_AUTH_SECRET=guessed SPARK_EXECUTOR_MEMORY=64m SPARK_EXECUTOR_ID=99"
        " timeout 240 /opt/entrypoint executor"
    )

    # Exit code 124, the timeout's, would mean that the executor joined and ran on.
    with pytest.raises(Refused, match=r"exit code 1$"):
        group.inside("executor", "bash", "-c", intruder)

    assert group.final_audit() == SOUND


def test_a_killed_driver_is_restarted_and_loses_nothing(group: LiveGroup, topic: str) -> None:
    group.apply()
    group.wait_for_commit()

    with events_arriving(group.scene, topic):
        killed, epoch = group.running("driver"), group.ledger().epoch
        group.kill("driver")
        group.wait(lambda: group.ledger().epoch > epoch, "the next driver opens the ledger")
        group.wait_for_commit()

    assert group.final_audit() == SOUND
    assert group.running("driver").isdisjoint(killed)


@pytest.mark.full
def test_a_killed_executor_is_replaced(group: LiveGroup, topic: str) -> None:
    group.apply()
    group.wait_for_commit()
    driver = group.driver()

    with events_arriving(group.scene, topic):
        killed = group.running("executor")
        group.kill("executor")
        group.wait(lambda: group.running("executor") - killed, "another executor runs")
        group.wait_for_commit()

    assert group.final_audit() == SOUND
    assert group.driver() == driver


def test_a_new_generation_takes_over_under_load(group: LiveGroup, topic: str) -> None:
    group.apply()
    group.wait_for_commit()

    with events_arriving(group.scene, topic):
        group.change(generation=2)
        group.wait(lambda: group.ledger().generation == 2, "generation 2 opens the ledger")
        group.wait_for_commit()
        group.wait(
            lambda: group.status().get("activeGeneration") == 2, "the status shows generation 2"
        )

    assert group.final_audit() == SOUND
    assert group.status()["plan"]["change"] == "NewRevision"
    assert {key.rpartition("/")[2].partition("_")[0] for key in data_keys(group.scene.bucket)} == {
        "1",
        "2",
    }


@pytest.mark.full
def test_replicas_change_without_a_new_driver(group: LiveGroup, topic: str) -> None:
    group.apply()
    group.wait_for_commit()
    driver = group.driver()

    for replicas in (3, 1):
        group.kubectl("scale", "consumergroup", "scene", f"--replicas={replicas}")
        group.wait(
            lambda: group.status().get("replicas") == replicas,  # noqa: B023
            f"{replicas} executors run, by the status",
        )
        group.wait(lambda: len(group.running("executor")) == replicas, f"{replicas} pods run")  # noqa: B023

    group.scene.kafka.produce(topic, events(range(5000, 6000)))
    assert group.final_audit() == SOUND
    assert group.driver() == driver


def test_a_deleted_group_drains_and_leaves_its_data(group: LiveGroup, topic: str) -> None:
    group.apply()
    group.wait_until_landed()

    group.kubectl("delete", "consumergroup", "scene", "--wait=false")

    group.wait(
        lambda: group.kubectl("get", "consumergroups", "-o", "name") == "", "the group is gone"
    )
    group.wait(lambda: group.kubectl("get", "pods", "-o", "name") == "", "its pods are gone")
    assert group.ledger().holding is LaneOwnership.YIELDED
    assert (group.audit(), group.scene.findings()) == SOUND


@pytest.mark.full
def test_wrong_keys_of_the_store_are_reported(group: LiveGroup, topic: str) -> None:
    group.apply(secret="wrong")

    message = group.wait_for_condition("Stalled", "True", "StoreDenied")
    assert group.scene.bucket.url in message
    # Not at once: it is unknown while the driver is started again.
    group.wait_for_condition("StoreSafe", "False", "StoreDenied")
