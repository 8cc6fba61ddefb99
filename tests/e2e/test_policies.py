"""The NetworkPolicies of operator and chart on a node that enforces them.

The pods have the labels and ports of the operator, a driver and an executor, and listen; what a
whole group does behind these policies is in ``test_hostile.py``.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dev.kube import requirements
from dev.kube.cluster import EXISTING, Cluster
from dev.kube.images import CURRENT
from dev.kube.node import HIDDEN
from dev.servers import cache
from dev.servers.cache import Missing
from landfall.api.contract import CONTROL_PORT, HTTP_PORT
from landfall_operator.objects import manifests, names
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.pod_templates import BLOCK_PORT, DRIVER_PORT, OperatorContext
from tests.support import cluster as kubernetes
from tests.support.helm import of_kind, rendered
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800, func_only=True),
    pytest.mark.xdist_group("node"),
]

GROUP, TENANT, SYSTEM, OTHER, WATCHING = "clicks", "tenant", "landfall", "other", "watching"
EXECUTOR_PORT = 40_001
"""Any port: Spark picks those of executors."""
DRIVER = (HTTP_PORT, CONTROL_PORT, DRIVER_PORT, BLOCK_PORT)

LISTEN = """
import socket, sys, threading
servers = [socket.create_server(("0.0.0.0", int(port)), backlog=64) for port in sys.argv[1:]]
threading.Event().wait()
"""
"""A program that listens on some ports: the kernel accepts connections."""

REACH = """
import socket, sys
for address in sys.argv[1:]:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 2).close()
    except OSError:
        continue
    print(address)
"""
"""A program that prints which of some addresses accept a connection."""

Kubectl = Callable[..., str]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.delenv(EXISTING, raising=False)
    try:
        requirements.check([tmp_path, cache.folder()], HIDDEN)
    except Missing as missing:
        pytest.skip(str(missing))
    made = Cluster(tmp_path / "one")
    yield made
    made.down()


def run(kubectl: Kubectl, namespace: str, name: str, labels: dict[str, str], *ports: int) -> str:
    """Start a pod that listens on these ports; returns its address."""
    container = {
        "name": "peer",
        "image": CURRENT.image("operator"),
        "command": ["python", "-c", LISTEN, *map(str, ports)],
        "ports": [{"name": "http", "containerPort": HTTP_PORT}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    kubectl("apply", "-f", "-", manifest=pod)
    named = ("-n", namespace, f"pod/{name}")
    kubectl("wait", "--for=condition=Ready", "--timeout=300s", *named)
    return kubectl("get", *named, "-o", "jsonpath={.status.podIP}").strip()


def reached(kubectl: Kubectl, namespace: str, name: str, addresses: list[str]) -> set[str]:
    """Which of these addresses accept a connection from a pod."""
    said = kubectl("-n", namespace, "exec", name, "--", "python", "-c", REACH, *addresses)
    return {*said.split()}


def test_who_may_connect(node: Cluster) -> None:
    kubeconfig = node.up().kubeconfig
    assert kubeconfig
    node.load(("operator",))
    kubectl = kubernetes.Cluster(Path(kubeconfig)).kubectl
    for namespace in (TENANT, SYSTEM, OTHER, WATCHING):
        kubectl("create", "namespace", namespace)
        accounts = ("-n", namespace, "get", "serviceaccounts", "-o", "name")
        eventually(partial(kubectl, *accounts), bool)
    (of_chart,) = of_kind("NetworkPolicy", rendered({}))
    operator = dict(of_chart["spec"]["podSelector"]["matchLabels"])
    executor = names.selector(GROUP, "executor")
    driver = run(kubectl, TENANT, "driver", names.selector(GROUP, "driver"), *DRIVER)
    worker = run(kubectl, TENANT, "executor", executor, EXECUTOR_PORT)
    control = run(kubectl, SYSTEM, "operator", operator, HTTP_PORT, CONTROL_PORT)
    http, signed, rpc, blocks = (f"{driver}:{port}" for port in DRIVER)
    own, metrics, inner = (
        f"{worker}:{EXECUTOR_PORT}",
        f"{control}:{HTTP_PORT}",
        f"{control}:{CONTROL_PORT}",
    )
    everything = [http, signed, rpc, blocks, own, metrics, inner]
    for namespace, name, labels in (
        (OTHER, "neighbour", {}),
        (OTHER, "impostor", {**executor, **operator}),
        (TENANT, "roommate", {}),
        (SYSTEM, "lodger", {}),
        (WATCHING, "reader", {}),
    ):
        run(kubectl, namespace, name, labels)

    def all_reached() -> dict[str, set[str]]:
        found = {}
        for namespace, name in PODS:
            found[name] = reached(kubectl, namespace, name, everything)
        return found

    neighbours = ("neighbour", "impostor", "roommate", "lodger", "reader")
    assert all_reached() == {key: {*everything} for key in [name for _, name in PODS]}

    apply(kubectl, of_chart, ())
    node.enforce()
    by_default = {
        **{key: {http, metrics} for key in neighbours},
        "operator": {http, signed, metrics, inner},
        "executor": {http, rpc, blocks, own, metrics},
        "driver": {http, signed, rpc, blocks, own, metrics},
    }
    eventually(all_reached, by_default.__eq__, 180)

    readers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": WATCHING}}}]
    (narrowed,) = of_kind(
        "NetworkPolicy", rendered({"operator": {"networkPolicy": {"from": readers}}})
    )
    apply(kubectl, narrowed, tuple(readers))
    only_named = {
        **{key: set() for key in neighbours[:-1]},
        "reader": {http, metrics},
        "operator": {http, signed, metrics, inner},
        "executor": {rpc, blocks, own},
        "driver": {http, signed, rpc, blocks, own},
    }
    eventually(all_reached, only_named.__eq__, 180)

    for namespace in (TENANT, SYSTEM):
        kubectl("-n", namespace, "delete", "networkpolicies", "--all")
    eventually(lambda: reached(kubectl, OTHER, "neighbour", everything), {*everything}.__eq__, 180)


PODS = [
    *((OTHER, name) for name in ("neighbour", "impostor")),
    (TENANT, "roommate"),
    (SYSTEM, "lodger"),
    (WATCHING, "reader"),
    (SYSTEM, "operator"),
    (TENANT, "executor"),
    (TENANT, "driver"),
]


def apply(kubectl: Kubectl, of_chart: dict[str, Any], readers: tuple[dict[str, Any], ...]) -> None:
    """Apply the chart's policy and those that the operator writes for a group."""
    labels = of_chart["spec"]["podSelector"]["matchLabels"]
    context = OperatorContext("image", SYSTEM, labels, readers=readers)
    kubectl("apply", "-f", "-", manifest={**of_chart})
    for each in manifests.shared_objects(Owner(GROUP, TENANT, "0"), (), context):
        if each["kind"] == "NetworkPolicy":
            metadata = {**each["metadata"], "namespace": TENANT}
            metadata.pop("ownerReferences")  # there is no such owner
            kubectl("apply", "-f", "-", manifest={**each, "metadata": metadata})
