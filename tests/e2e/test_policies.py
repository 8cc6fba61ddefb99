"""The NetworkPolicies of operator and chart, on the network of a node that enforces them.

The pods are network namespaces with the labels and ports of the operator, a driver and an executor;
what a whole group does behind these policies is in ``test_hostile.py``.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from dev.kube import configuration, control_plane, requirements
from dev.kube.access import NODE, ClusterAccess
from dev.kube.cluster import Cluster
from dev.kube.control_plane import Endpoints
from dev.kube.network import Network
from dev.kube.node import HIDDEN
from dev.servers import cache
from dev.servers.cache import MissingTool
from landfall.api.contract import CONTROL_PORT, HTTP_PORT
from landfall_operator.objects import manifests, names
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.pod_templates import BLOCK_PORT, DRIVER_PORT, OperatorContext
from tests.support.kubernetes import cluster as kubernetes
from tests.support.kubernetes.helm import of_kind, rendered
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(600, func_only=True),
    pytest.mark.xdist_group("node"),
]

GROUP, TENANT, SYSTEM, OTHER, WATCHING = "clicks", "tenant", "landfall", "other", "watching"
EXECUTOR_PORT = 40_001
"""Any port: Spark picks those of executors."""
DRIVER = (HTTP_PORT, CONTROL_PORT, DRIVER_PORT, BLOCK_PORT)

LISTEN = """
import socket, sys, threading
servers = [socket.create_server(("0.0.0.0", int(port)), backlog=64) for port in sys.argv[1:]]
print("listening", flush=True)
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


class Bridged:
    """The network of a node, with pods that are network namespaces on a bridge.

    There is no kubelet: the objects of the pods are written with the addresses that they have.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.node = cluster.node
        self.block: Network = self.node.enter()
        self.access: ClusterAccess = control_plane.start(
            Endpoints(cluster.home, self.block.host, self.block.services, self.block.service)
        )
        for path, manifest in configuration.rights().items():
            self.access.apply(path, manifest)
        self.kubectl: Kubectl = kubernetes.Cluster(self.access.kubeconfig()).kubectl
        self.pods: dict[str, subprocess.Popen[str]] = {}
        self.addresses = IPv4Network(self.block.pods).hosts()
        self.gateway = str(next(self.addresses))
        self._ip(
            "link add pods type bridge",
            f"address add {self.gateway}/23 dev pods",
            "link set pods up",
        )
        self._create("nodes", {"kind": "Node", "metadata": {"name": NODE}})
        address = {"type": "InternalIP", "address": self.block.node}
        self._status("node", NODE, {"addresses": [address]})

    def enforce(self) -> None:
        """Enforce NetworkPolicies from now on."""
        self.node.enforce(self.block, self.access)

    def run(self, namespace: str, name: str, labels: dict[str, str], *ports: int) -> str:
        """Start a pod that listens on these ports; returns its address."""
        argv = ["unshare", "--net", "--", sys.executable, "-c", LISTEN, *map(str, ports)]
        pod = self.pods[name] = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert pod.stdout
        assert pod.stdout.readline() == "listening\n"
        address, device = str(next(self.addresses)), f"pod{len(self.pods)}"
        self._ip(
            f"link add {device} type veth peer name eth0 netns {pod.pid}",
            f"link set {device} master pods",
            f"link set {device} type bridge_slave hairpin on",
            f"link set {device} up",
        )
        inside = (
            "link set lo up",
            f"address add {address}/23 dev eth0",
            "link set eth0 up",
            f"route add default via {self.gateway}",
        )
        cache.run([*_within(pod.pid), "ip", "-batch", "-"], stdin="\n".join(inside))
        container = {
            "name": "peer",
            "image": "none",
            "ports": [{"name": "http", "containerPort": HTTP_PORT}],
        }
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        spec = {"nodeName": NODE, "containers": [container]}
        self._create("pods", {"kind": "Pod", "metadata": metadata, "spec": spec})
        status = {
            "phase": "Running",
            "hostIP": self.block.node,
            "podIP": address,
            "podIPs": [{"ip": address}],
        }
        self._status("pod", name, status, "-n", namespace)
        return address

    def reached(self, name: str, addresses: list[str]) -> set[str]:
        """Which of these addresses accept a connection from a pod."""
        argv = [*_within(self.pods[name].pid), sys.executable, "-c", REACH, *addresses]
        return {*subprocess.check_output(argv, text=True).split()}

    def close(self) -> None:
        """End all pods."""
        for pod in self.pods.values():
            pod.kill()
            pod.wait()

    def _create(self, _plural: str, manifest: dict[str, Any]) -> None:
        self.kubectl("create", "-f", "-", manifest={"apiVersion": "v1", **manifest})

    def _status(self, kind: str, name: str, status: dict[str, Any], *where: str) -> None:
        patch = ("--type=merge", "--patch", json.dumps({"status": status}))
        self.kubectl("patch", kind, name, *where, "--subresource=status", *patch)

    def _ip(self, *commands: str) -> None:
        init = self.node.init()
        assert init
        cache.run([*_within(init), "ip", "-batch", "-"], stdin="\n".join(commands))


def _within(pid: int) -> list[str]:
    """The prefix of a command line that runs it in the network namespace of a process."""
    return ["nsenter", "-t", str(pid), "-n"]


@pytest.fixture
def bridged(tmp_path: Path) -> Iterator[Bridged]:
    try:
        requirements.check([tmp_path, cache.folder()], HIDDEN)
    except MissingTool as missing:
        pytest.skip(str(missing))
    cluster = Cluster(tmp_path / "one")
    cluster.home.mkdir(parents=True)
    made = Bridged(cluster)
    try:
        yield made
    finally:
        made.close()
        cluster.down()


def test_who_may_connect(bridged: Bridged) -> None:
    kubectl, run = bridged.kubectl, bridged.run
    for namespace in (TENANT, SYSTEM, OTHER, WATCHING):
        kubectl("create", "namespace", namespace)
        accounts = ("-n", namespace, "get", "serviceaccounts", "-o", "name")
        eventually(partial(kubectl, *accounts), bool)
    (of_chart,) = of_kind("NetworkPolicy", rendered({}))
    operator = dict(of_chart["spec"]["podSelector"]["matchLabels"])
    executor = names.selector(GROUP, "executor")
    driver = run(TENANT, "driver", names.selector(GROUP, "driver"), *DRIVER)
    worker = run(TENANT, "executor", executor, EXECUTOR_PORT)
    control = run(SYSTEM, "operator", operator, HTTP_PORT, CONTROL_PORT)
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
        run(namespace, name, labels)

    def all_reached() -> dict[str, set[str]]:
        return {name: bridged.reached(name, everything) for name in bridged.pods}

    neighbours = ("neighbour", "impostor", "roommate", "lodger", "reader")
    assert all_reached() == {key: {*everything} for key in bridged.pods}

    apply(kubectl, of_chart, ())
    bridged.enforce()
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

    bridged.node.neglect()
    assert bridged.reached("neighbour", everything) == {*everything}
    bridged.enforce()
    eventually(all_reached, only_named.__eq__, 180)

    opened: set[str] = set()
    for namespace, policy, ports in (
        (TENANT, names.driver_name(GROUP), {http, signed, rpc, blocks}),
        (TENANT, names.executors_name(GROUP), {own}),
        (SYSTEM, narrowed["metadata"]["name"], {metrics, inner}),
    ):
        kubectl("-n", namespace, "delete", "networkpolicy", policy)
        opened |= ports
        eventually(partial(bridged.reached, "neighbour", everything), opened.__eq__, 180)


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
