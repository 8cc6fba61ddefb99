"""Groups that sleep on a real node: no pod between the runs of a schedule, nor while topics are
quiet, and each record is landed once.
"""

from datetime import UTC, datetime

import pytest

from landfall_operator.core.schedules import AWAKE
from tests.support.audit.independent_audit import events
from tests.support.kubernetes.live_group import SOUND, LiveGroup

pytestmark = [pytest.mark.timeout(1800, func_only=True), pytest.mark.xdist_group("node")]

EVERY_TWO_MINUTES = {"cron": "*/2 * * * *", "deadline": "10m"}


def runs(group: LiveGroup) -> list[dict[str, object]]:
    """The runs in the status, newest first."""
    return list(group.status().get("runs", ()))


def wait_until_asleep(group: LiveGroup, after_runs: int) -> None:
    """Return when the group has had more runs, and sleeps without a pod."""
    group.wait(lambda: len(runs(group)) > after_runs, "another run is in the status", 600)
    wait_without_pods(group)


def wait_without_pods(group: LiveGroup) -> None:
    """Return when the group sleeps without a pod."""
    group.wait(
        lambda: (
            group.status().get("phase") == "Sleeping"
            and group.status()["replicas"] == 0
            and not group.pods("driver")
            and not group.pods("executor")
        ),
        "the group sleeps, and has no pod",
        600,
    )


@pytest.mark.full
def test_a_scheduled_group_scales_to_zero_and_back(group: LiveGroup, topic: str) -> None:
    group.apply(schedule=EVERY_TWO_MINUTES, upgrade={"rollback": {"window": "1s"}})
    wait_until_asleep(group, after_runs=0)

    first = len(runs(group))
    group.scene.kafka.produce(topic, events(range(5000, 5300)))
    group.wait(lambda: group.running("driver"), "the next range starts a driver", 600)
    group.kill("driver")
    wait_until_asleep(group, after_runs=first)

    columns = group.columns()
    assert (columns["PHASE"], columns["REPLICAS"], columns["LAG"]) == ("Sleeping", "0", "0")
    assert columns["LAST-RUN"][-1] in "sm"
    assert sum(int(str(run["records"])) for run in runs(group)) == 1300
    assert {run["result"] for run in runs(group)} == {"Landed"}
    assert (group.audit(), group.scene.findings()) == SOUND
    print(group.kubectl("get", "cg", "-o", "wide"))  # what a user sees, with -s
    print(group.kubectl("get", "cg", "-o", "jsonpath={.items[0].status.runs}"))


def test_a_request_wakes_a_sleeping_group(group: LiveGroup, topic: str) -> None:
    group.apply(schedule={"cron": "0 0 1 1 *"}, upgrade={"rollback": {"window": "1s"}})
    wait_until_asleep(group, after_runs=0)

    group.landfall("retry")

    group.wait(lambda: group.running("driver"), "the request wakes the driver")
    group.wait_for_phase("Running")
    # It stays awake for five minutes after a request, by unit tests with a clock of their own: here
    # the request is dated back, and the operator finds that they are over.
    group.patch_status(lastRequest={"time": (datetime.now(UTC) - AWAKE).isoformat()})
    wait_until_asleep(group, after_runs=0)


@pytest.mark.full
def test_a_group_of_quiet_topics_scales_to_zero_and_looks(group: LiveGroup, topic: str) -> None:
    idle = {"scaleToZero": "5s", "lookEvery": "15s"}
    group.apply(idle=idle, upgrade={"rollback": {"window": "1s"}})
    wait_without_pods(group)
    landed = group.ledger().totals.landed

    group.wait(lambda: group.running("driver"), "a driver looks", 600)
    assert group.status()["phase"] == "Sleeping"
    wait_without_pods(group)

    group.scene.kafka.produce(topic, events(range(5000, 5300)))
    group.wait(
        lambda: group.ledger().totals.landed == landed + 300, "a look finds the records", 600
    )
    wait_without_pods(group)

    columns = group.columns()
    assert (columns["PHASE"], columns["REPLICAS"], columns["LAG"]) == ("Sleeping", "0", "0")
    assert (group.audit(), group.scene.findings()) == SOUND
    print(group.kubectl("get", "cg", "-o", "jsonpath={.items[0].status.idle}"))
