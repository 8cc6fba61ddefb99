"""Scenes that need many pods or a second node, against a real API server without nodes.

The operator is real, and so are the API server and its controllers; a kubelet and drivers are
played. ``make operator-evidence`` writes what ``kubectl`` prints into ``docs/evidence``.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from tests.support.kubernetes.any_uid import ANY_USER, UID, any_uid
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, Json, document
from tests.support.operator.fake_driver import Lane
from tests.support.operator.operator_evidence import scene
from tests.support.operator.operators import Operators
from tests.support.waiting import eventually

pytestmark = [pytest.mark.full, pytest.mark.timeout(900, func_only=True)]

PATIENCE = 400.0
FLEET = 30
AT_ONCE = 5
CHANGING = {"Warming", "Yielding", "Draining", "Opening"}


@pytest.fixture
def operators(groups: Groups, tmp_path: Path) -> Iterator[Operators]:
    made = Operators(groups.cluster, groups.namespace, tmp_path, pod="operator-0")
    made.allow()
    with made.clearing():
        yield made


def stage(group: Json) -> str:
    return str(group.get("status", {}).get("rollout", {}).get("stage"))


def test_a_fleet_of_thirty_is_rolled_five_at_a_time(
    groups: Groups, operators: Operators, kubelet: Kubelet
) -> None:
    first = operators.lead()
    for n in range(FLEET):
        groups.create(document(f"group-{n:02}", upgrade={"image": "Follow"}))
    eventually(lambda: list(map(stage, groups.list())), lambda s: s == ["Settled"] * FLEET, 600)
    first.end()
    counts: list[int] = []
    drivers: list[int] = []
    columns = (
        "custom-columns=NAME:.metadata.name,PHASE:.status.phase,STAGE:.status.rollout.stage,"
        "IMAGE:.status.image,NEWER-IMAGE:.status.newerImage"
    )

    def rolled() -> int:
        found = groups.list()
        counts.append(sum(stage(group) in CHANGING for group in found))
        drivers.append(len(kubelet.drivers))
        return sum(group["status"].get("image") == "landfall:2" for group in found)

    with scene("A fleet of 30 groups, 5 at a time") as shown:
        shown.say(
            f"*Played:* the kubelet and the drivers. {FLEET} groups have `upgrade.image: Follow`. "
            f"The operator is started with another default image and `--max-rollouts {AT_ONCE}`. "
            "In the middle of it:"
        )
        operators.lead(
            *("--image", "landfall:2", "--max-rollouts", str(AT_ONCE), "--interval", "2")
        )
        eventually(rolled, lambda done: done >= FLEET // 2, PATIENCE)
        eventually(lambda: (rolled(), counts[-1])[1], lambda count: count == AT_ONCE, PATIENCE)
        shown.get(groups.kubectl, "-o", columns)
        waiting = eventually(lambda: queued(groups), bool, PATIENCE)
        shown.describe(groups.kubectl, waiting[0], "Ready", "Deployed", "Upgrading")
        eventually(rolled, lambda done: done == FLEET, PATIENCE)
        eventually(
            lambda: {stage(group) for group in groups.list()}, lambda s: s == {"Watching"}, PATIENCE
        )
        shown.say(
            f"At no time more than {max(counts)} groups changed their revision, and no more than "
            f"{max(drivers)} drivers ran. At the end:"
        )
        shown.get(groups.kubectl, "-o", columns)

    assert max(counts) == AT_ONCE
    assert max(drivers) <= FLEET + AT_ONCE
    assert sorted(kubelet.begun.values()) == [1] * (2 * FLEET)


def queued(groups: Groups) -> list[str]:
    """The names of groups that wait for others."""
    return [
        str(group["metadata"]["name"])
        for group in groups.list()
        if any(c["reason"] == "Queued" for c in group["status"].get("conditions", []))
    ]


def test_a_lost_node_costs_seconds_and_not_minutes(
    resource: Cluster, groups: Groups, operators: Operators
) -> None:
    lost = Kubelet(resource, groups.namespace)
    spare = Kubelet(resource, groups.namespace, takes=lambda: lost.is_lost)
    core = client.CoreV1Api(resource.admin)
    operators.keep()

    with spare.running(), lost.running(), scene("A lost node") as shown:
        groups.create(document())
        eventually(lambda: stage(groups.read("clicks")), lambda s: s == "Settled", PATIENCE)
        lane = lost.lane("clicks")
        before = lane.holder
        shown.say(
            "*Played:* two nodes, their kubelets and the drivers; the controllers that notice the "
            "loss and evict pods are Kubernetes' own. The driver's node is lost without a word: no "
            "heartbeat, no pod that ends."
        )

        lost.lose()
        since = time.monotonic()
        spare.lanes["clicks"] = Lane(lane.holder, lane.revision, lane.yielded, lane.opened)
        eventually(lambda: tainted(core, lost.node), bool, PATIENCE)
        noticed = time.monotonic() - since
        shown.say(f"Kubernetes notices after {noticed:.0f} s:")
        command = f"get nodes {lost.node} {spare.node}"
        shown.show(f"kubectl {command}", groups.kubectl(*command.split()))
        shown.get(groups.kubectl, "-o", "wide")
        eventually(lambda: spare.lanes["clicks"].holder, lambda h: h != before, PATIENCE)
        back = time.monotonic() - since
        eventually(
            lambda: groups.read("clicks")["status"]["phase"], lambda p: p == "Running", PATIENCE
        )
        shown.say(
            f"{back - noticed:.0f} s after that, another driver has the lane, and the ledger "
            "fences the first one, should it come back. Kubernetes' own toleration is 300 s; the "
            "first pod is not gone even now:"
        )
        chosen = "pods -l landfall.dev/group=clicks -o wide"
        shown.show(f"kubectl get {chosen}", groups.kubectl("get", *chosen.split()))
        shown.get(groups.kubectl)
        shown.describe(groups.kubectl, "clicks", "Ready", "Deployed", "Stalled")
        forget(core, lost.node, groups)

    assert back - noticed < 60


def tainted(core: client.CoreV1Api, node: str) -> bool:
    taints = core.read_node(node).spec.taints or []
    return any(t.key.endswith("/unreachable") and t.effect == "NoExecute" for t in taints)


def forget(core: client.CoreV1Api, node: str, groups: Groups) -> None:
    """Delete the lost node and its pods, as the cloud provider's controller does."""
    core.delete_node(node)
    gone = ("pods", "--field-selector", f"spec.nodeName={node}", "--force", "--grace-period=0")
    groups.kubectl("delete", *gone)


def test_a_pod_of_any_user_id_is_admitted_and_one_that_is_not_is_explained(
    groups: Groups, operators: Operators, kubelet: Kubelet
) -> None:
    columns = (
        "custom-columns=NAME:.metadata.name,UID:.spec.securityContext.runAsUser,PHASE:.status.phase"
    )
    defaults = json.dumps({"securityContext": ANY_USER})

    with scene("Any user id") as shown, any_uid(groups.cluster, groups.namespace):
        first = operators.lead()
        groups.create(document())
        eventually(lambda: "PodRefused" in conditions(groups), bool, PATIENCE)
        shown.say(
            "*Played:* the kubelet, the drivers, and the admission of OpenShift's `restricted-v2`, "
            f"by two policies of the API server: pods get the uid {UID}, and one that asks for "
            "another uid is refused. What the image does with a uid that has no name is not shown "
            "here (`tests/unit/landfall_operator/test_pod_defaults.py`). With default values, a "
            "group asks for the uid of its image:"
        )
        shown.get(groups.kubectl)
        shown.describe(groups.kubectl, "clicks", "Ready", "Stalled")
        first.end()
        operators.lead("--driver-defaults", defaults, "--executor-defaults", defaults)
        groups.kubectl("delete", "consumergroup", "clicks", "--timeout=120s")
        groups.create(document())
        eventually(lambda: stage(groups.read("clicks")), lambda s: s == "Settled", PATIENCE)
        shown.say(
            "With the chart's `pods.securityContext: {runAsNonRoot: true, seccompProfile: {type: "
            "RuntimeDefault}}`, it asks for none, gets one, and lands:"
        )
        shown.show(f"kubectl get pods -o {columns}", groups.kubectl("get", "pods", "-o", columns))
        shown.get(groups.kubectl)

    assert str(UID) in groups.kubectl("get", "pods", "-o", columns)
    assert kubelet.landing("clicks")


def conditions(groups: Groups) -> str:
    return str(groups.read("clicks").get("status", {}).get("conditions", []))
