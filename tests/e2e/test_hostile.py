"""Hostile parties on a real node that enforces NetworkPolicies: pods, connections, accounts.

``make hostile-node`` writes what they tried and got into ``docs/evidence/hostile.md``. What needs
no pod is in ``tests/hostile``.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from landfall.api.contract import CONTROL_PORT, HTTP_PORT, LANE
from landfall.ledger.names.object_names import ledger_prefix
from landfall_operator.objects import names
from landfall_operator.objects.pod_templates import BLOCK_PORT, DRIVER_PORT
from tests.fuzz import hostile
from tests.hostile import evidence
from tests.hostile.evidence import Attack
from tests.hostile.test_registry import GOOD, PROTO, ROWS, Registered, described, serving, sound
from tests.support.audit.independent_audit import landed_lines
from tests.support.kafka.registry import framed
from tests.support.kubernetes.cluster import Refused
from tests.support.kubernetes.live_group import NAME, SOUND, SYSTEM, LiveGroup, events_arriving
from tests.support.kubernetes.stack import Stack
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1800, func_only=True),
    pytest.mark.xdist_group("node"),
]

EVIDENCE = "LANDFALL_HOSTILE_EVIDENCE"
"""Environment variable: the file that gets the tables, of a run in which nothing failed."""

REACH = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor

def opens(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 3).close()
    except OSError:
        return "0"
    return "1"

with ThreadPoolExecutor(32) as threads:
    print("".join(threads.map(opens, sys.argv[1:])))
"""
"""A program that says which of some addresses accept a connection."""

LISTENING = """
import glob
found = set()
for file in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in open(file).readlines()[1:]:
        _, local, _, state, *_ = line.split()
        host, port = local.split(":")
        if state == "0A" and not host.endswith("0100007F"):
            found.add(int(port, 16))
print(*sorted(found))
"""
"""A program that prints the ports of its pod that listen on more than the loopback device."""

RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 185,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class Peer:
    """A pod that tries to connect.

    Attributes:
        pod: name of the pod.
        container: the container to run programs in.
    """

    stack: Stack
    namespace: str
    pod: str
    container: str

    def run(self, program: str, *arguments: str) -> str:
        """Run a Python program in the pod; returns what it prints."""
        where = ("-n", self.namespace, "exec", self.pod, "-c", self.container, "--")
        return self.stack.cluster.kubectl(*where, "python", "-c", program, *arguments).strip()

    def reaches(self, addresses: Sequence[str]) -> set[str]:
        """Which of these addresses accept a connection from here."""
        answers = self.run(REACH, *addresses)
        return {address for address, open_ in zip(addresses, answers, strict=True) if open_ == "1"}


@dataclass
class Land:
    """A cluster whose operator runs one honest group, which has landed once."""

    stack: Stack
    group: LiveGroup
    topic: str
    attacks: list[Attack] = field(default_factory=list)

    @contextmanager
    def attack(self, party: str, name: str, tried: str) -> Iterator[Attack]:
        """Play an attack in the block; then the group lands on, by the same driver.

        Raises:
            AssertionError: it does not, or the attacker got something.
        """
        attack, driver = Attack(party, name, tried), self.group.driver()
        with events_arriving(self.group.scene, self.topic):
            yield attack
        self.group.wait_until_landed()
        assert self.group.driver() == driver, "the honest driver was started again"
        assert attack.loot == [], f"{party}, {name}: {attack.loot}"
        self.attacks.append(attack)

    def peer(self, namespace: str, name: str, labels: dict[str, str] | None = None) -> Peer:
        """Start a pod with Python in it, which meets the ``restricted`` standard."""
        metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
        container = {
            "name": "peer",
            "image": self.stack.operator_image(),
            "command": ["sleep", "86400"],
            "securityContext": RESTRICTED,
        }
        spec = {
            "containers": [container],
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
        }
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        kubectl = self.stack.cluster.kubectl
        kubectl("apply", "-f", "-", manifest=manifest)
        kubectl("-n", namespace, "wait", "--for=condition=Ready", f"pod/{name}", "--timeout=300s")
        return Peer(self.stack, namespace, name, "peer")

    def of_group(self, role: str) -> Peer:
        """The group's own pod of a role."""
        (pod,) = self.group.pods(role).values()
        return Peer(self.stack, self.group.namespace, pod["metadata"]["name"], role)

    def operator(self) -> Peer:
        """The operator's pod."""
        (pod,) = self.items("pods", "-n", SYSTEM, "-l", "app.kubernetes.io/name=landfall-operator")
        container = pod["spec"]["containers"][0]["name"]
        return Peer(self.stack, SYSTEM, pod["metadata"]["name"], container)

    def items(self, *words: str) -> list[dict[str, Any]]:
        """What ``kubectl get`` lists and does not delete."""
        listed = json.loads(self.stack.cluster.kubectl("get", *words, "-o", "json"))["items"]
        return [item for item in listed if "deletionTimestamp" not in item["metadata"]]

    def deployed(self, namespace: str, name: str) -> str:
        """The condition ``Deployed`` of a group, as JSON."""
        path = "jsonpath={.status.conditions[?(@.type=='Deployed')]}"
        return self.stack.cluster.kubectl(
            *("-n", namespace, "get", "consumergroup", name, "-o", path)
        )

    def address(self, peer: Peer, *ports: int) -> list[str]:
        """The addresses of ports of a pod."""
        path = ("-n", peer.namespace, "pod", peer.pod, "-o", "jsonpath={.status.podIP}")
        address = self.stack.cluster.kubectl("get", *path)
        return [f"{address}:{port}" for port in ports]


@pytest.fixture(scope="module")
def land(stack: Stack) -> Iterator[Land]:
    with pytest.MonkeyPatch.context() as patched, stack.group() as group:
        for name, value in stack.s3.env.items():
            if name.startswith("AWS_"):
                patched.setenv(name, value)
        topic = group.topic()
        group.apply_and_wait_for_commit()
        made = Land(stack, group, topic)
        yield made
        assert group.final_audit() == SOUND
        if file := os.environ.get(EVIDENCE):
            evidence.write(Path(file), made.attacks)


@pytest.fixture
def enforcing(stack: Stack) -> Iterator[Callable[[], None]]:
    """Has NetworkPolicies enforced from its call to the end of the test."""
    node = stack.place.cluster.node
    node.neglect()
    yield stack.place.cluster.enforce
    node.neglect()


NODE = "Neighbour pod, on a node that enforces NetworkPolicies"


def test_connections_of_neighbours(land: Land, enforcing: Callable[[], None]) -> None:
    group, stack = land.group, land.stack
    driver, executor = land.of_group("driver"), land.of_group("executor")
    shown = land.address(driver, HTTP_PORT)
    metrics = land.address(land.operator(), HTTP_PORT)
    closed = [
        *land.address(driver, CONTROL_PORT, DRIVER_PORT, BLOCK_PORT),
        *land.address(executor, *map(int, executor.run(LISTENING).split())),
    ]
    other = stack.cluster.create_namespace()
    neighbours = {
        "a pod of another namespace": land.peer(other, "neighbour"),
        "one there with the labels of an executor and of the operator": land.peer(
            other, "impostor", {**names.selector(NAME, "executor"), **labels_of_operator(land)}
        ),
        "one of the group's namespace": land.peer(group.namespace, "roommate"),
        "one of the operator's namespace": land.peer(SYSTEM, "lodger"),
    }

    with land.attack(
        NODE,
        "ports of driver, executor and operator",
        f"{', '.join(neighbours)} connect to each port that listens",
    ) as attack:
        assert len(closed) > 3, "no port of the executor listens"
        for name, peer in neighbours.items():
            assert peer.reaches(closed) == {*closed}, f"{name}, without any enforcement"
        attack.saw(f"without enforcement, each of {len(closed)} ports accepts each of them")
        enforcing()
        for name, peer in neighbours.items():
            left = eventually(partial(peer.reaches, closed), set().__eq__, 90)
            attack.check(not left, f"{name} reaches {left}")
        attack.saw("with it, the control port, Spark's ports and the executor's port accept none")
        for name, peer in neighbours.items():
            assert peer.reaches([*shown, *metrics]) == {*shown, *metrics}, name
        attack.saw("port 8080 of driver and operator, which every pod may read, stays open")
        control, *of_spark = closed[:3]
        assert land.operator().reaches([control]) == {control}
        assert executor.reaches(of_spark) == {*of_spark}
        assert driver.reaches(closed[3:]) == {*closed[3:]}
        attack.saw("operator, executors and driver reach what they need")
        group.change(replicas=2)
        group.wait(lambda: len(group.running("executor")) == 2, "a second executor runs")
        group.wait(lambda: group.status().get("replicas") == 2, "it has joined the driver")
        group.wait_for_commit()
        attack.saw("a command of the operator arrives, and another executor joins")
        group.change(replicas=1)
        group.wait(lambda: len(group.running("executor")) == 1, "one executor is left")
        without_policies(land, neighbours["a pod of another namespace"], closed[:3])
        attack.saw("without the policies it connects; the operator, back again, restores them")


def labels_of_operator(land: Land) -> dict[str, str]:
    """The labels by which policies know the operator's pods."""
    (policy,) = land.items("networkpolicies", "-n", SYSTEM)
    found: dict[str, str] = policy["spec"]["podSelector"]["matchLabels"]
    return found


def without_policies(land: Land, peer: Peer, ports: list[str]) -> None:
    """Delete the group's policies while no operator runs: the ports are open; then it is back."""
    kubectl = land.stack.cluster.kubectl
    scaled = ("-n", SYSTEM, "scale", "deployment", "-l", "app.kubernetes.io/name=landfall-operator")
    kubectl(*scaled, "--replicas=0")
    try:
        eventually(land.stack.operators, lambda running: not running, 120)
        land.group.kubectl("delete", "networkpolicies", "--all")
        eventually(lambda: peer.reaches(ports), {*ports}.__eq__, 90)
    finally:
        kubectl(*scaled, "--replicas=1")
    eventually(lambda: peer.reaches(ports), lambda left: not left, 180)


def test_readers_that_the_chart_names(land: Land, enforcing: Callable[[], None]) -> None:
    watching = land.stack.cluster.create_namespace()
    reader = land.peer(watching, "reader")
    neighbour = land.peer(land.stack.cluster.create_namespace(), "neighbour")
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": watching}}}
    of = json.dumps([selector])
    options = ("operator.networkPolicy.from", "drivers.networkPolicy.from")
    shown = land.address(land.of_group("driver"), HTTP_PORT)

    with land.attack(
        NODE,
        "status and metrics, narrowed by the chart",
        "a pod of another namespace reads port 8080 of driver and operator, while"
        " `operator.networkPolicy.from` and `drivers.networkPolicy.from` name a third namespace",
    ) as attack:
        enforcing()
        assert neighbour.reaches(shown) == {*shown}
        try:
            land.stack.install(*(f"--set-json={option}={of}" for option in options))
            ports = [*shown, *land.address(land.operator(), HTTP_PORT)]
            left = eventually(lambda: neighbour.reaches(ports), lambda left: not left, 120)
            attack.check(not left, f"it reaches {left}")
            attack.saw("it reaches neither; the namespace that is named reads both")
            assert reader.reaches(ports) == {*ports}
            before = land.group.status()["commits"]["total"]
            land.group.wait(
                lambda: land.group.status()["commits"]["total"] > before, "a status of now"
            )
            assert land.group.condition("Ready")[0] == "True"
            attack.saw("the kubelet's probes and the operator still read")
        finally:
            land.stack.install()
        eventually(lambda: neighbour.reaches(shown), {*shown}.__eq__, 120)


ASK = """
import json, os, ssl, sys, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount"
try:
    token = open(folder + "/token").read()
except OSError:
    sys.exit(print("no token"))
trust = ssl.create_default_context(cafile=folder + "/ca.crt")
server = "https://" + os.environ["KUBERNETES_SERVICE_HOST"] + ":"
server += os.environ["KUBERNETES_SERVICE_PORT"]
for asked in sys.argv[1:]:
    method, path, body = asked.split(" ", 2)
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    request = urllib.request.Request(server + path, body.encode() or None, headers, method=method)
    try:
        print(urllib.request.urlopen(request, context=trust).status)
    except urllib.error.HTTPError as error:
        print(error.code)
"""
"""A program that asks the API server with the token of its pod, and prints the answers' codes."""


def test_what_stolen_pods_may_ask(land: Land) -> None:
    own, other = land.group.namespace, land.stack.cluster.create_namespace()
    api, rbac = "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/namespaces"
    ours = "/apis/landfall.dev/v1alpha1"
    forbidden = [
        f"GET {api}/{own}/secrets ",
        f"GET {api}/{own}/secrets/s3 ",
        f"GET {api}/{own}/configmaps ",
        f"GET {api}/{other}/pods ",
        f"GET {api}/kube-system/pods ",
        "GET /api/v1/nodes ",
        f"GET {api}/{SYSTEM}/secrets ",
        f"GET {ours}/consumergroups ",
        f"GET {rbac}/{own}/roles ",
        f'POST {api}/{other}/pods {{"metadata":{{"name":"x"}},"spec":{{"containers":[]}}}}',
        f"POST {api}/{own}/serviceaccounts/default/token {{}}",
        f"POST {rbac}/{own}/rolebindings {{}}",
    ]

    with land.attack(
        "Stolen pods, on a node",
        "the API server, with the tokens of driver and executor",
        "Secrets, pods of other namespaces, nodes, groups, roles, tokens of other accounts",
    ) as attack:
        said = land.of_group("executor").run(ASK, *forbidden)
        attack.check(said == "no token", f"a token in an executor: {said}")
        attack.saw("an executor has no token")
        allowed = f"GET {api}/{own}/pods "
        first, *codes = land.of_group("driver").run(ASK, allowed, *forbidden).split()
        assert first == "200"
        for asked, code in zip(forbidden, codes, strict=True):
            attack.check(code == "403", f"{code} for {asked}")
        attack.saw(f"a driver may list its pods, and gets 403 for {len(forbidden)} other requests")


SPECS: dict[str, dict[str, Any]] = {
    # With the `allowPrivilegeEscalation: false` of the operator, the API server itself refuses it.
    "a privileged container": {
        "securityContext": {"privileged": True, "allowPrivilegeEscalation": True}
    },
    "root": {"securityContext": {"runAsUser": 0, "runAsNonRoot": False}},
    "more capabilities": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}},
}


def test_pods_of_a_tenant(land: Land) -> None:
    namespace = land.stack.create_namespace()
    specs: list[dict[str, Any]] = [
        {"containers": [{"name": "driver", **of}]} for of in SPECS.values()
    ]
    specs.append({"volumes": [{"name": "scratch", "hostPath": {"path": "/"}}]})
    tried = f"groups whose drivers have {', '.join(SPECS)}, the node's files"

    with land.attack("Tenant, on a node", "pods that are the node", tried) as attack:
        refused = 0
        for number, driver in enumerate(specs):
            manifest = land.group.document(driver=driver)
            manifest["metadata"] = {"name": f"strong{number}", "namespace": namespace}
            manifest["spec"]["output"]["url"] = f"s3://hostile/{number}"
            try:
                land.stack.cluster.kubectl("apply", "-f", "-", manifest=manifest)
            except Refused:
                refused += 1
                continue
            eventually(
                partial(land.deployed, namespace, f"strong{number}"),
                lambda said: "restricted pods: " in said,
                120,
            )
        attack.check(not land.items("pods", "-n", namespace), "a pod that may do more")
        attack.check(not land.items("deployments", "-n", namespace), "a Deployment of such pods")
        attack.saw(f"the API server accepts {len(specs) - refused} of {len(specs)} groups")
        attack.saw("the chart's policy refuses the Deployments that the operator makes of them")
        attack.saw("`Deployed` is False and names the rule")
    kubectl = land.stack.cluster.kubectl
    if kubectl("-n", namespace, "get", "consumergroups", "-o", "name"):
        kubectl("-n", namespace, "delete", "consumergroups", "--all", "--timeout=120s")


def test_payloads_and_schemas_in_executors(land: Land) -> None:
    registered, status = Registered(), land.stack.place.cluster.status()
    assert status.host
    loot = "/tmp/loot"
    named = ("--plugin=protoc-gen-x=/bin/sh", "--x_out=/tmp", f"a\nid > {loot}\nx.proto")
    registered.schemas = {
        GOOD: ("PROTOBUF", PROTO, {}),
        10: ("PROTOBUF", described("a.proto"), dict.fromkeys(named, PROTO)),
        11: ("PROTOBUF", f'syntax = "proto3"; {"message A { " * 3_000}{"}" * 3_000}', {}),
    }
    with (
        land.attack(
            "Producer and schema registry, on a node",
            "payloads and schemas for executors in pods",
            "payloads of each decoder that nest 50,000 levels or name sizes that no byte follows;"
            " references of schemas that are arguments of protoc",
        ) as attack,
        land.stack.group() as pestered,
        serving(registered, status.host),
    ):
        scene, expected = pestered.scene, ROWS
        entries = []
        for format_ in ("Json", "Avro", "MessagePack", "Protobuf"):
            of = hostile.profile(format_, 50_000)
            topic = scene.topic(format_.lower(), max_message_bytes=16_000_000)
            entries.append({"pattern": topic.replace(".", r"\."), "decode": hostile.spec(format_)})
            payloads = [each for bad in of.hostile.values() for each in (bad, of.sound[0])]
            scene.kafka.produce(topic, payloads, message_max_bytes=16_000_000)
            expected += len(of.hostile)
        topic = scene.topic("schemas")
        registry = {"urls": [registered.url], "timeout": "2s"}
        decode = {"format": "Protobuf", "registry": registry}
        entries.append({"pattern": topic.replace(".", r"\."), "decode": decode})
        bodies = [framed(id_, b"\x00\x08\x07") for id_ in (10, 11)]
        scene.kafka.produce(topic, [sound("Protobuf"), *bodies, *[sound("Protobuf")] * 2])
        pestered.apply(
            decode={"format": "Json"},
            topics=entries,
            badRecords={"maxRatio": "1"},
            route={"pattern": "all"},
        )
        pestered.wait(lambda: sound_rows(pestered) == expected, "all sound records land", 900)
        ((_, executor),) = pestered.pods("executor").items()
        restarts = sum(c["restartCount"] for c in executor["status"]["containerStatuses"])
        assert (restarts, pestered.driver()[1]) == (0, 0)
        attack.saw(f"{expected} sound records between them land, each once; no process ended")
        found = pestered.inside("executor", "sh", "-c", f"cat {loot} 2>&1 || true")
        attack.check("uid=" not in found, f"code in an executor: {found}")


def sound_rows(group: LiveGroup) -> int:
    """How many sound records landed."""
    rows = [json.loads(line) for _, line in landed_lines(group.scene.bucket)]
    return sum(
        str(row["b"]).startswith("good-") if row.get("b") else row.get("a") in (7, "7")
        for row in rows
    )


def test_garbage_beside_a_ledger(land: Land) -> None:
    with land.stack.group() as damaged:
        damaged.topic()
        damaged.apply_and_wait_for_commit()
        damaged.wait_until_landed()
        bucket = damaged.scene.bucket
        with land.attack(
            "Bucket writer, on a node",
            "another group's ledger",
            "the last slots of a group are replaced by other bytes, and its driver is killed",
        ) as attack:
            slots = bucket.keys(ledger_prefix(NAME, LANE))
            assert len(slots) > 1
            for key in slots[-2:]:
                bucket.write(key, b"[" * 100_000)
            before = bucket.stamps()
            damaged.kill("driver")
            damaged.wait(
                lambda: damaged.condition("Stalled")[0] == "True", "the group says so", 600
            )
            _, reason, message = damaged.condition("Stalled")
            attack.check(reason == "LedgerBroken", f"another reason: {reason}, {message}")
            attack.check(message.isprintable(), "control characters")
            attack.check("ledger slot " in message, f"no slot in {message}")
            after = bucket.stamps()
            # A driver that is ended gives the lane up, so there may be another slot.
            changed = {key for key, stamp in before.items() if after.get(key) != stamp}
            changed |= {key for key in after.keys() - before if not key.startswith("_landfall/")}
            attack.check(not changed, f"changed: {sorted(changed)}")
            attack.saw(
                f"its group stops ({reason}), names the slot, and no object is changed or added"
            )
            attack.saw("the group next to it lands on")
