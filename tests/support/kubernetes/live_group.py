"""A group on a real node: applied, disturbed and observed by the Kubernetes API, and audited."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise
from threading import Event, Thread
from typing import Any

from kubernetes import client

from landfall.api.contract import HTTP_PORT
from landfall.ledger import State
from tests.support.audit.independent_audit import EXACT, Audit, audit, events, in_bucket, in_kafka
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.landing.group import Scene

PATIENCE = 300.0
"""Seconds until a test gives up; on a busy machine, the start of Spark alone may take 60."""
GROUPS = ("landfall.dev", "v1alpha1", "consumergroups")
NAME = "scene"
KEYS = "s3"
"""The name of the Secret with the keys of the bucket."""
PARTITIONS = 2

HOT_PATH = {
    "driver": "import json, urllib.request as r;"
    f"print(json.load(r.urlopen('http://127.0.0.1:{HTTP_PORT}/status'))['hot_path'])",
    "executor": "from landfall.native import hot_path; print(hot_path().name)",
}
"""Programs that print the hot path in a pod of each role."""

SOUND: tuple[Audit, list[str]] = (EXACT, [])
"""Every record landed exactly once, and fsck and audit find nothing."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class LiveGroup:
    """A group in its own namespace; ``scene`` has its topics and its bucket."""

    cluster: Cluster
    namespace: str
    scene: Scene

    # -------------------------------------------------------------------------------------- actions

    def topic(self) -> str:
        """Create another topic of the group, with some events."""
        made, kafka = self.scene.topic(f"a{len(self.scene.topics)}", PARTITIONS), self.scene.kafka
        for partition in range(PARTITIONS):
            kafka.produce(made, events(range(partition * 1000, partition * 1000 + 500), partition))
        return made

    def document(self, **spec: Any) -> dict[str, Any]:
        """The group's manifest with small resources; ``Scene.document`` merges ``spec`` into it."""
        output = {**spec.pop("output", {})}
        output["s3"] = {"credentialsSecretRef": {"name": KEYS}, **self._s3, **output.get("s3", {})}
        sizes = {"executor": {"cores": 1, "resources": {"requests": {"cpu": "100m"}}}}
        made = self.scene.document(
            NAME,
            output=output,
            **{**sizes, "uploadPolicy": {"maxBytes": "1M", "maxAge": "1s"}, **spec},
        )
        made["metadata"]["namespace"] = self.namespace
        return made

    def apply(self, secret: str = "", **spec: Any) -> None:
        """Apply the group and its Secret, with the right secret key or another one."""
        self.apply_keys(secret)
        self.cluster.kubectl("apply", "-f", "-", manifest=self.document(**spec))

    def apply_and_wait_for_commit(self) -> None:
        """Apply the group, and wait until it commits for the first time."""
        self.apply()
        self.wait_for_commit()

    def apply_keys(self, secret: str = "") -> None:
        """Apply the Secret with the store's keys: the right secret key or another one."""
        env = self.scene.bucket.server.env
        keys = {
            "AWS_ACCESS_KEY_ID": env["AWS_ACCESS_KEY_ID"],
            "AWS_SECRET_ACCESS_KEY": secret or env["AWS_SECRET_ACCESS_KEY"],
        }
        metadata = {"name": KEYS, "namespace": self.namespace}
        manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": keys}
        self.cluster.kubectl("apply", "-f", "-", manifest=manifest)

    def change(self, **spec: Any) -> None:
        """Merge fields into the spec."""
        self.kubectl(
            "patch", "consumergroup", NAME, "--type=merge", "-p", json.dumps({"spec": spec})
        )

    def patch_status(self, **fields: Any) -> None:
        """Merge fields into the status, as if the operator had written them."""
        patch = json.dumps({"status": fields})
        of_status = ("--subresource=status", "--type=merge", "-p", patch)
        self.kubectl("patch", "consumergroup", NAME, *of_status)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the namespace; returns its output."""
        return self.cluster.kubectl("-n", self.namespace, *arguments)

    def landfall(self, command: str, *arguments: str) -> str:
        """Run ``kubectl landfall`` for the group; returns its output."""
        return self.cluster.kubectl("landfall", command, NAME, "-n", self.namespace, *arguments)

    # ---------------------------------------------------------------------------------- observation

    def status(self) -> dict[str, Any]:
        """The status as the operator wrote it; empty before that."""
        found: Any = self._groups.get_namespaced_custom_object(
            GROUPS[0], GROUPS[1], self.namespace, GROUPS[2], NAME
        )
        status: dict[str, Any] = found.get("status", {})
        return status

    def condition(self, kind: str) -> tuple[str, str, str]:
        """The status, reason and message of a condition; empty before the operator has set it."""
        found: Json = next(
            (c for c in self.status().get("conditions", ()) if c["type"] == kind), {}
        )
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    def events(self) -> set[tuple[str, str]]:
        """The type and reason of every Kubernetes Event about the group."""
        chosen = f"involvedObject.kind=ConsumerGroup,involvedObject.name={NAME}"
        listed = self._core.list_namespaced_event(
            self.namespace, field_selector=chosen, _preload_content=False
        )
        return {(event["type"], event["reason"]) for event in _items(listed)}

    def columns(self) -> dict[str, str]:
        """The line of ``kubectl get consumergroups`` by column."""
        header, line = self.kubectl("get", "consumergroups").splitlines()
        starts = [match.start() for match in re.finditer(r"\S+", header)]
        cells = (line[start:end].strip() for start, end in pairwise((*starts, None)))
        return dict(zip(header.split(), cells, strict=True))

    def pods(self, role: str) -> dict[str, Json]:
        """The pods of a role that are not being deleted, by uid."""
        chosen = f"landfall.dev/group={NAME},landfall.dev/role={role}"
        listed = self._core.list_namespaced_pod(
            self.namespace, label_selector=chosen, _preload_content=False
        )
        return {
            pod["metadata"]["uid"]: pod
            for pod in _items(listed)
            if "deletionTimestamp" not in pod["metadata"]
        }

    def running(self, role: str) -> set[str]:
        """The uids of the pods of a role that run."""
        return {uid for uid, pod in self.pods(role).items() if pod["status"]["phase"] == "Running"}

    def driver(self) -> tuple[str, int]:
        """The uid of the only driver pod, and the restarts of its container."""
        ((uid, pod),) = self.pods("driver").items()
        return uid, sum(
            status["restartCount"] for status in pod["status"].get("containerStatuses", ())
        )

    def node(self) -> str:
        """The name of the driver's node."""
        (pod,) = self.pods("driver").values()
        return str(pod["spec"]["nodeName"])

    def inside(self, role: str, *command: str) -> str:
        """Run a command in the only pod of a role; returns its output."""
        ((_, pod),) = self.pods(role).items()
        return self.kubectl("exec", pod["metadata"]["name"], "-c", role, "--", *command)

    def root(self, role: str) -> str:
        """How the root of the only pod of a role is mounted: ``ro`` or ``rw``."""
        mounts = (line.split() for line in self.inside(role, "cat", "/proc/mounts").splitlines())
        return next(options.split(",")[0] for _, at, _, options, *_ in mounts if at == "/")

    def hot_path(self, role: str) -> str:
        """Which hot path the only pod of a role has: by the driver's status, or by its image."""
        return self.inside(role, "python", "-c", HOT_PATH[role]).strip()

    def mapping(self, role: str, file: str) -> set[str]:
        """The programs in the only pod of a role that have mapped a file into memory."""
        each = f"grep -qs {file} $each/maps && cat $each/comm"
        script = f"for each in /proc/[0-9]*; do {each}; done; true"
        return {*self.inside(role, "sh", "-c", script).split()}

    def kill(self, role: str) -> None:
        """Delete the pods of a role without a grace period, as if their node were lost."""
        names = [str(pod["metadata"]["name"]) for pod in self.pods(role).values()]
        self.kubectl("delete", "pod", "--grace-period=0", "--force", *names)

    # -------------------------------------------------------------------------------------- waiting

    def wait(self, holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
        """Return when a condition holds.

        Raises:
            AssertionError: It does not in time; the message has everything that may explain it.
        """
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:g} s: {what}\n{self.diagnostics()}")
            time.sleep(0.25)

    def wait_for_phase(self, phase: str) -> None:
        """Return when the group is in a phase."""
        self.wait(lambda: self.status().get("phase") == phase, f"the group is {phase}")

    def wait_for_condition(self, kind: str, status: str, reason: str) -> str:
        """Wait for the status and reason of a condition; returns its message."""
        self.wait(
            lambda: self.condition(kind)[:2] == (status, reason),
            f"{kind} is {status} because of {reason}",
        )
        return self.condition(kind)[2]

    def wait_for_commit(self, seconds: float = PATIENCE) -> None:
        """Return after another commit."""
        before = self.ledger().totals.commits
        self.wait(lambda: self.ledger().totals.commits > before, "another commit", seconds)

    def wait_until_landed(self) -> None:
        """Return when every record is committed and visible, and the status shows no lag."""
        self.wait(self._has_caught_up, "everything is committed")
        self.wait(lambda: not self.audit().missing, "everything committed is visible")
        self.wait(self._is_reported, "the status says so")

    def _is_reported(self) -> bool:
        status, commits = self.status(), self.ledger().totals.commits
        # The count of commits may be five minutes old, for it changed by less than a quarter.
        landed = status.get("commits", {}).get("total", 0)
        return "lag" in status and status["lag"]["records"] == 0 and 0 < landed <= commits

    def final_audit(self) -> tuple[Audit, list[str]]:
        """Wait until all landed; returns what the audits find, which should equal ``SOUND``."""
        self.wait_until_landed()
        return self.audit(), self.scene.findings()

    def _has_caught_up(self) -> bool:
        checkpoint = self.ledger().checkpoint
        ends = {(tp.topic, tp.partition): checkpoint[tp] for tp in checkpoint}
        kafka, topics = self.scene.kafka, self.scene.topics
        return all(
            ends.get((t, p)) == kafka.end_offset(t, p) for t in topics for p in range(PARTITIONS)
        )

    # ---------------------------------------------------------------------------------------- audit

    def ledger(self) -> State:
        """The state of the ledger."""
        return self.scene.state()

    def audit(self) -> Audit:
        """Compare what landed with what the topics contain now."""
        return audit(in_kafka(self.scene.kafka, *self.scene.topics), in_bucket(self.scene.bucket))

    def diagnostics(self) -> str:
        """The group, its pods, its Events and the ends of the logs."""
        commands = [
            ("get", "consumergroups,pods", "-o", "wide"),
            ("get", "consumergroup", NAME, "-o", "jsonpath={.status}"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "-l", "landfall.dev/role=driver", "--tail=40", "--prefix"),
            ("logs", "-l", "landfall.dev/role=executor", "--tail=15", "--prefix"),
        ]
        operator = (
            "logs",
            "-n",
            SYSTEM,
            "-l",
            "app.kubernetes.io/name=landfall-operator",
            "--tail=40",
        )
        texts = [_tried(self.kubectl, *arguments) for arguments in commands] + [
            _tried(self.cluster.kubectl, *operator)
        ]
        return "\n----\n".join(texts)

    def clear(self) -> None:
        """Delete the group and its namespace at once, in any state; the landed data stays."""
        _tried(
            self.kubectl,
            "patch",
            "consumergroup",
            NAME,
            "--type=merge",
            "-p",
            '{"metadata":{"finalizers":null}}',
        )
        self.cluster.delete_namespace(self.namespace)
        _tried(self.kubectl, "delete", "pods", "--all", "--grace-period=0", "--force")

    @cached_property
    def _core(self) -> client.CoreV1Api:
        return client.CoreV1Api(self.cluster.admin)

    @cached_property
    def _groups(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.cluster.admin)

    @property
    def _s3(self) -> Json:
        return {"endpoint": self.scene.bucket.server.endpoint, "pathStyle": True}


SYSTEM = "landfall"
"""The operator's namespace."""


@contextmanager
def events_arriving(scene: Scene, topic: str) -> Iterator[None]:
    """Produce some hundred events a second on all Kafka partitions of a topic, during the block.

    All of them are in Kafka when the block ends.
    """
    over = Event()
    ids = count(1_000_000)

    def produce() -> None:
        producer = scene.kafka.producer()
        while not over.wait(0.1):
            for partition in range(PARTITIONS):
                scene.kafka.send(producer, topic, events([next(ids) for _ in range(20)], partition))
            producer.poll(0)
        scene.kafka.flush(producer)

    thread = Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _items(answer: Any) -> list[dict[str, Any]]:
    """The items of a list response."""
    items: list[dict[str, Any]] = json.loads(answer.data)["items"]
    return items


def _tried(call: Callable[..., str], *arguments: str) -> str:
    try:
        return call(*arguments)
    except Refused as refused:
        return f"kubectl {' '.join(arguments)}: {refused}"
