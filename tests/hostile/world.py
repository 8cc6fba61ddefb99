"""What the hostile parties meet: one operator, an honest group with its driver, and servers.

The operator has the rights and the admission policy that the chart gives it by default, and watches
namespaces with a label. Each attack ends with the same questions to the honest group and to the
operator (``World.attack``).
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from uuid import uuid4

import psutil

from landfall_operator.objects.names import OPERATOR
from tests.hostile.evidence import Attack
from tests.hostile.gadget import LOOT
from tests.hostile.guards import PATH
from tests.hostile.pods import Images, ProcessKubelet, RunningDriver
from tests.support.audit.independent_audit import events
from tests.support.kafka.broker import Broker
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.groups import Groups, install
from tests.support.kubernetes.helm import rendered
from tests.support.kubernetes.live_group import NAME, PARTITIONS, LiveGroup
from tests.support.landing.group import Scene
from tests.support.operator.operators import Operators, Running
from tests.support.stores.s3 import S3Server
from tests.support.waiting import eventually

OPERATOR_MEMORY = 400 << 20
"""The most that the operator's process may ever have had; its limit in the chart is 512Mi."""
ANSWERS_WITHIN = 10.0
"""Seconds within which the operator's probe is answered, on a busy machine."""
CONTROL_CHARACTERS = frozenset(map(chr, [*range(9), *range(11, 32), *range(127, 160)]))


@dataclass
class Outside:
    """A server that nobody has any reason to ask, and all that it was asked."""

    url: str = ""
    asked: list[str] = field(default_factory=list)

    @contextmanager
    def serving(self) -> Iterator["Outside"]:
        """Serve until the end of the block."""
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                asked.append(f"{self.command} {self.path} {self.rfile.read(length)!r}")
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_POST = do_PUT = do_HEAD = do_DELETE = do_GET  # noqa: N815  # the base class's names

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()


@dataclass
class Tenant:
    """A namespace that the operator watches, with what runs its pods."""

    groups: Groups
    kubelet: ProcessKubelet
    images: Images

    @property
    def namespace(self) -> str:
        return self.groups.namespace


@dataclass
class World:
    """Everything; ``attack`` plays against it."""

    cluster: Cluster
    kafka: Broker
    s3: S3Server
    operator: Running
    honest: LiveGroup
    kubelet: ProcessKubelet
    topic: str
    outside: Outside
    loot: Path
    make_tenant: Callable[[], Tenant]
    attacks: list[Attack] = field(default_factory=list)
    _next: int = 10_000
    _replicas: int = 1

    @property
    def driver(self) -> RunningDriver:
        """The honest group's driver."""
        (driver,) = self.kubelet.running_drivers.values()
        return driver

    @contextmanager
    def attack(self, party: str, name: str, tried: str) -> Iterator[Attack]:
        """Play an attack in the block; then nobody else has suffered, and the attacker has nothing.

        Raises:
            AssertionError: somebody has, or it got something.
        """
        attack, driver = Attack(party, name, tried), self.driver
        self._forget()  # what one that failed has left
        yield attack
        self.check_operator(attack)
        self.check_honest(driver)
        attack.loot += [f"it ran code: {file.read_text()}" for file in self.loot.iterdir()]
        attack.loot += [f"a request of somebody else: {each}" for each in self.outside.asked]
        self._forget()
        assert attack.loot == [], f"{party}, {name}: {attack.loot}"
        self.attacks.append(attack)

    def _forget(self) -> None:
        for file in self.loot.iterdir():
            file.unlink()
        self.outside.asked.clear()

    def check_operator(self, attack: Attack) -> None:
        """The operator's process is the same, answers, has little memory, and acts."""
        assert self.operator.popen.poll() is None, self.operator.said[-4000:]
        eventually(lambda: self.operator.ask("/healthz")[0], HTTPStatus.OK.__eq__, ANSWERS_WITHIN)
        assert "leading" in self.operator.ask("/readyz")[1]
        peak = peak_memory(self.operator.popen.pid)
        assert peak < OPERATOR_MEMORY, f"{attack.name}: the operator had {peak >> 20} MiB"
        found = CONTROL_CHARACTERS & set(self.operator.said)
        attack.check(not found, f"control characters in the operator's log: {found}")
        before = self._observed()
        self._replicas = 3 - self._replicas
        self.honest.change(replicas=self._replicas)
        self.honest.wait(lambda: self._observed() > before, "the operator acts on a change")

    def _observed(self) -> int:
        return int(self.honest.status().get("observedGeneration", 0))

    def check_honest(self, driver: RunningDriver) -> None:
        """The same driver lands what arrives now, and the status says that nothing lags."""
        first, self._next = self._next, self._next + 20
        for partition in range(PARTITIONS):
            records = events(range(first, first + 20), partition)
            self.kafka.produce(self.topic, records)
        self.honest.wait_until_landed()
        assert (self.driver.pod, self.driver.popen.pid) == (driver.pod, driver.popen.pid), (
            "the honest driver was started again"
        )


def peak_memory(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def cpu_seconds(pid: int) -> float:
    """The processor time of a process so far."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@contextmanager
def playing(cluster: Cluster, kafka: Broker, s3: S3Server, folder: Path) -> Iterator[World]:
    """Start everything; the honest group has landed once."""
    install(cluster)
    loot = folder / "loot"
    loot.mkdir()
    os.environ |= {LOOT: str(loot), "PYTHONPATH": PATH}
    own, label = cluster.create_namespace(), f"landfall.dev/watch=hostile-{uuid4().hex[:6]}"
    with ExitStack() as stack:
        stack.callback(cluster.delete_namespace, own)
        _install_chart(stack, cluster, own, label)

        def make_tenant() -> Tenant:
            namespace = cluster.create_namespace()
            stack.callback(cluster.delete_namespace, namespace)
            cluster.kubectl("label", "namespace", namespace, label)
            images = Images()
            kubelet = ProcessKubelet(cluster, namespace, folder, images)
            stack.enter_context(kubelet.running())
            return Tenant(Groups(cluster, namespace), kubelet, images)

        operators = stack.enter_context(Operators(cluster, own, folder).clearing())
        role = f"{own}-{OPERATOR}"
        options = ("--namespace-label", label, "--namespace-role", role)
        operator = operators.start(*options, everywhere=True)
        operator.wait_until_leading()
        tenant = make_tenant()
        honest = LiveGroup(cluster, tenant.namespace, Scene(kafka, s3.create_bucket()))
        topic = honest.topic()
        honest.apply()
        stack.callback(honest.clear)
        honest.wait_until_landed()
        outside = stack.enter_context(Outside().serving())
        yield World(
            cluster,
            kafka,
            s3,
            operator,
            honest,
            tenant.kubelet,
            topic,
            outside,
            loot,
            make_tenant,
        )


def _install_chart(stack: ExitStack, cluster: Cluster, namespace: str, label: str) -> None:
    """Apply what the chart gives the operator: its account, its rights and the admission policy."""
    values = {"watch": {"label": label}, "crds": {"install": False}}
    values |= {"fullnameOverride": "landfall", "rbac": {"aggregate": False}}
    kinds = {"ServiceAccount", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    objects = [
        each
        for each in rendered(values, namespace)
        if each["kind"] in kinds or "Role" in each["kind"]
    ]
    batch = {"apiVersion": "v1", "kind": "List", "items": objects}
    cluster.kubectl("apply", "-f", "-", manifest=batch)
    stack.callback(lambda: cluster.kubectl("delete", "-f", "-", "--wait=false", manifest=batch))


__all__ = ["NAME", "Outside", "Tenant", "World", "cpu_seconds", "playing"]
