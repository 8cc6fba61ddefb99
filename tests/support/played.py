"""A played kubelet with played drivers: pods that were made come to life, answer as the contract says, and drain when they go.

Each driver listens at a loopback address of its own, on the real ports, and knows the real token. Drivers of one group share
a lane. One whose image begins with ``broken`` crashes.
"""

import base64
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice
from typing import Any
from uuid import uuid4

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from landfall.contract import (
    CONTROL_PORT,
    EXECUTORS_PATH,
    HTTP_PORT,
    OPEN_PATH,
    REVISION,
    YIELD_PATH,
    CommitStatus,
    PartitionStatus,
    Phase,
    Rates,
    Status,
    Workers,
)
from landfall_operator.names import GROUP_LABEL, ROLE_LABEL, control_name
from tests.support.cluster import Cluster

OURS = f"127.{os.getpid() // 250 % 250 + 1}.{os.getpid() % 250 + 1}"
"""How this process' own loopback addresses begin."""
_ADDRESSES = cycle(f"{OURS}.{n}" for n in range(1, 254))
LOOK = 0.1
"""Seconds between two looks of a kubelet."""


@dataclass
class Lane:
    """Who may land for a group."""

    holder: str | None = None
    yielded: bool = True


@dataclass
class PlayedDriver:
    """A driver, as seen from outside."""

    group: str
    namespace: str
    revision: str
    token: str
    lane: Lane
    lag: int = 2
    failures: int = 0
    phase: Phase = Phase.STANDBY
    wanted: int = 1
    told: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    servers: list[ThreadingHTTPServer] = field(default_factory=list)

    def start(self) -> str:
        """Listen; returns the address."""
        for address in islice(_ADDRESSES, 253):
            with suppress(OSError):
                for port in (HTTP_PORT, CONTROL_PORT):
                    self.servers.append(ThreadingHTTPServer((address, port), _handler(self)))
                for server in self.servers:
                    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
                return address
            for server in self.servers:  # only one of both ports was free
                server.server_close()
            self.servers.clear()
        raise AssertionError(f"something listens at {HTTP_PORT} or {CONTROL_PORT} of all addresses of this machine")

    def stop(self) -> None:
        """Hand over, and be gone."""
        if self.status().phase is Phase.RUNNING:
            self.lane.yielded = True
        self.silence()

    def silence(self) -> None:
        """Answer nobody any more."""
        for server in self.servers:
            server.shutdown()
            server.server_close()
        self.servers.clear()

    def status(self) -> Status:
        """What ``/status`` answers now."""
        if self.phase is Phase.STANDBY and (self.lane.yielded or self.lane.holder in {None, self.revision}):
            self._open()
        if self.phase is Phase.RUNNING and self.lane.holder != self.revision:
            self.phase = Phase.FENCED
        now, seconds = datetime.now(UTC).isoformat(), int(time.monotonic() - self.began)
        return Status(
            version="0",
            group=self.group,
            namespace=self.namespace,
            generation=1,
            epoch=1,
            lane="0",
            phase=self.phase,
            time=now,
            started=now,
            lag_records=self.lag,
            lag_seconds=3.0,
            overdue_seconds=0.0,
            rounds=0,
            commits=CommitStatus(5, self.failures, self.failures, now, None, 0),
            rates=Rates(100, 100, 100, 0, 1.0, 1.0, arrived_records=10 * seconds, task_seconds=0.1 * seconds),
            partitions=(PartitionStatus("clicks", 0, 10, 10 + self.lag, self.lag, 3.0, 0.0),),
            revision=self.revision,
            workers=Workers(self.wanted, self.wanted, self.wanted),
        )

    def hear(self, path: str, document: dict[str, Any]) -> None:
        """Do what is asked."""
        self.told.append(path)
        if path == EXECUTORS_PATH:
            self.wanted = document["wanted"]
        elif path == YIELD_PATH:
            self.phase, self.lane.yielded = Phase.YIELDED, True
        elif path == OPEN_PATH:
            self._open()

    def _open(self) -> None:
        self.phase, self.lane.holder, self.lane.yielded = Phase.RUNNING, self.revision, False


def _handler(driver: PlayedDriver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, json.dumps(asdict(driver.status())).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Authorization") != f"Bearer {driver.token}":
                self._answer(401)
                return
            driver.hear(self.path, json.loads(body))
            self._answer(202)

        def _answer(self, code: int, body: bytes = b"") -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
            pass

    return Handler


class Kubelet:
    """Runs the drivers' pods of a namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._api = client.CoreV1Api(cluster.admin)
        self._namespace = namespace
        self._node = f"played-{uuid4().hex[:8]}"
        self._over = threading.Event()
        self._lanes: dict[str, Lane] = {}
        self._pods: dict[str, PlayedDriver | None] = {}

    @property
    def drivers(self) -> list[PlayedDriver]:
        """Those that live."""
        return [driver for driver in list(self._pods.values()) if driver]

    @contextmanager
    def running(self) -> Iterator["Kubelet"]:
        """Play until the end of the block."""
        self._api.create_node(client.V1Node(metadata=client.V1ObjectMeta(name=self._node)))
        thread = threading.Thread(target=self._play, daemon=True)
        thread.start()
        yield self
        self._over.set()
        thread.join()
        for driver in self.drivers:
            driver.silence()
        self._api.delete_node(self._node)

    def _play(self) -> None:
        while not self._over.wait(LOOK):
            for pod in self._api.list_namespaced_pod(self._namespace, label_selector=f"{ROLE_LABEL}=driver").items:
                with suppress(ApiException):  # it changed, or its Secret is not there yet: look again
                    self._look_at(pod)

    def _look_at(self, pod: client.V1Pod) -> None:
        meta = pod.metadata
        assert meta
        assert meta.uid
        if meta.deletion_timestamp:
            driver = self._pods.pop(meta.uid, None)
            if driver:
                driver.stop()
            self._api.delete_namespaced_pod(str(meta.name), self._namespace, grace_period_seconds=0)
        elif meta.uid not in self._pods:
            self._start(pod)

    def _start(self, pod: client.V1Pod) -> None:
        assert pod.metadata
        assert pod.metadata.labels
        assert pod.spec
        name, uid, group = str(pod.metadata.name), str(pod.metadata.uid), pod.metadata.labels[GROUP_LABEL]
        (container,) = (c for c in pod.spec.containers if c.name == "driver")
        secret = self._api.read_namespaced_secret(control_name(group), self._namespace)
        if not pod.spec.node_name:
            target = client.V1ObjectReference(kind="Node", name=self._node)
            binding = client.V1Binding(metadata=client.V1ObjectMeta(name=name), target=target)
            self._api.create_namespaced_pod_binding(name, self._namespace, binding, _preload_content=False)
        if str(container.image).startswith("broken"):
            self._pods[uid] = None
            self._report(name, {"phase": "Running", "containerStatuses": [_crashed(str(container.image))]})
            return
        revision = next(e.value for e in container.env or [] if e.name == REVISION)
        token = base64.b64decode((secret.data or {})["token"]).decode()
        lane = self._lanes.setdefault(group, Lane())
        driver = PlayedDriver(group, self._namespace, str(revision), token, lane)
        address = driver.start()
        self._pods[uid] = driver
        status = {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [_running(str(container.image))],
        }
        self._report(name, status)

    def _report(self, name: str, status: dict[str, Any]) -> None:
        self._api.patch_namespaced_pod_status(name, self._namespace, {"status": status})


def _running(image: str) -> dict[str, Any]:
    state = {"running": {"startedAt": _now()}}
    return {"name": "driver", "image": image, "imageID": "", "ready": True, "restartCount": 0, "state": state}


def _crashed(image: str) -> dict[str, Any]:
    ended = {"exitCode": 1, "reason": "Error", "message": "no good", "startedAt": _now(), "finishedAt": _now()}
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    base = {"name": "driver", "image": image, "imageID": "", "ready": False, "restartCount": 3}
    return {**base, "state": state, "lastState": {"terminated": ended}}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
