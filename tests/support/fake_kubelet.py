"""Plays the kubelet of one namespace, and the drivers in its pods: what Kubernetes without nodes
lacks
to be a cluster.

Pods come from real Deployments. Each driver lives by ``landfall.api.contract``: two HTTP faces on
an address of its own (127.x.y.z, so on a Linux machine nothing has to be set up), a control token,
standing by, yielding, opening, being fenced. The lane of a group is a ``Lane``, which outlives pods
as a ledger does. How a driver behaves is in the name of its image:

    broken         crashes at each start                bad     stops at bad records
    slow           never answers                        failing fails all its commits
    deaf           does not hear what it is told        missing is an image that cannot be pulled
    anything else  works
"""

import asyncio
import json
import os
import ssl
import threading
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import count
from typing import Any, Self
from urllib.parse import urlencode
from uuid import uuid4

import aiohttp
from aiohttp import web

from landfall.api.contract import (
    CONTROL_PORT,
    EXECUTORS_PATH,
    HTTP_PORT,
    OPEN_PATH,
    YIELD_PATH,
    CommitStatus,
    ExitCode,
    Failure,
    PartitionStatus,
    Phase,
    Rates,
    Status,
    Workers,
)
from landfall_operator.objects.names import (
    GROUP_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    control_name,
    revision_name,
)
from tests.support.cluster import Cluster

Json = dict[str, Any]

RESTARTED_AFTER = 0.3
"""Seconds from a crash to the next start."""
HEARTBEAT = 20.0
_NO_RIGHTS = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_MERGE = {"Content-Type": "application/merge-patch+json"}


@dataclass
class Lane:
    """Who may commit for a group: what a ledger tells.

    Attributes:
        holder: uid of the pod whose OPEN is the last one.
        revision: of that pod.
        yielded: the last record is YIELD, or there is none.
        opened: revisions in the order of their OPENs.
        changed: set when any of this changes.
    """

    holder: str = ""
    revision: str = ""
    yielded: bool = True
    opened: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self, uid: str, revision: str) -> None:
        """Append OPEN, which fences whoever was there."""
        self.holder, self.revision, self.yielded = uid, revision, False
        self.opened.append(revision)
        self._tell()

    def hand_over(self, uid: str) -> None:
        """Append YIELD, if the lane is ours."""
        if self.holder == uid and not self.yielded:
            self.yielded = True
            self._tell()

    def _tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass
class PlayedDriver:
    """What runs in one pod."""

    uid: str
    pod: str
    group: str
    namespace: str
    revision: str
    image: str
    generation: int
    address: str
    token: str
    lane: Lane
    wanted: int
    phase: Phase = Phase.STARTING
    lag: int = 2
    failures: int = 0
    silent: bool = False
    told: list[str] = field(default_factory=list)
    restarts: int = 0
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def behaves(self, how: str) -> bool:
        return self.image.startswith(how)

    def may_open(self) -> bool:
        """By the contract: the lane is free, or was this revision's own."""
        return self.lane.yielded or self.lane.revision == self.revision

    def open(self) -> None:
        """Take the lane."""
        self.lane.open(self.uid, self.revision)
        self.phase = Phase.RUNNING

    def hand_over(self) -> None:
        """Give it away."""
        self.lane.hand_over(self.uid)
        self.phase = Phase.YIELDED

    def dispatch(self, path: str, document: Json) -> None:
        """Do what it is told."""
        self.told.append(path)
        if path == EXECUTORS_PATH:
            self.wanted = document["wanted"]
        elif path == YIELD_PATH:
            self.hand_over()
        elif self.phase in {Phase.STANDBY, Phase.YIELDED}:
            self.open()

    def status(self) -> Status:
        """An idle driver's answer."""
        runs = self.phase is Phase.RUNNING
        failures = 9 if runs and self.behaves("failing") else self.failures
        blocked = "BadRecordsOverLimit" if runs and self.behaves("bad") else None
        seconds = int((datetime.now(UTC) - self.started).total_seconds())
        began = self.started.isoformat()
        return Status(
            version="played",
            group=self.group,
            namespace=self.namespace,
            generation=self.generation,
            epoch=len(self.lane.opened),
            lane="0",
            phase=self.phase,
            time=datetime.now(UTC).isoformat(),
            started=began,
            lag_records=self.lag,
            lag_seconds=3.0,
            overdue_seconds=0.0,
            rounds=0,
            commits=CommitStatus(
                total=5,
                failures=failures,
                consecutive_failures=failures,
                last_time=began,
                last_failure=Failure(began, "EncodeFailed", "cannot encode") if failures else None,
                unapplied=0,
            ),
            rates=Rates(
                100, 100, 100, 0, 1.0, 1.0, arrived_records=10 * seconds, task_seconds=0.1 * seconds
            ),
            partitions=(
                PartitionStatus(
                    "clicks",
                    0,
                    10,
                    10 + self.lag,
                    self.lag,
                    3.0,
                    0.0,
                    blocked=blocked,
                    message="12 of 800 records",
                ),
            ),
            revision=self.revision,
            workers=Workers(self.wanted, self.wanted, self.wanted),
        )


class Kubelet:
    """Runs in a thread of its own."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        """``namespace`` is whose pods are played."""
        ours = cluster.admin.configuration
        self._host: str = ours.host
        self._ssl = ssl.create_default_context(cafile=ours.ssl_ca_cert)
        if ours.cert_file:
            self._ssl.load_cert_chain(ours.cert_file, ours.key_file)
        self._authorization = ours.get_api_key_with_prefix("BearerToken")
        self._namespace = namespace
        self._node = f"played-{uuid4().hex[:8]}"
        self._addresses = _addresses()
        self._lives: dict[str, asyncio.Task[None]] = {}
        self._ending: dict[str, asyncio.Event] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._stopped = asyncio.Event()
        self._ready = threading.Event()
        self._fault: BaseException | None = None
        self.lanes: dict[str, Lane] = {}
        self._drivers: dict[str, PlayedDriver] = {}
        self.begun: Counter[str] = Counter()
        """Pods that were started, by revision."""

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Play until the end of the block; pods stay as they are."""
        self._thread.start()
        self._ready.wait()
        if self._fault:
            raise self._fault
        yield self
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        if self._fault:
            raise self._fault

    def lane(self, group: str) -> Lane:
        """Of a group."""
        return self.lanes.setdefault(group, Lane())

    @property
    def drivers(self) -> list[PlayedDriver]:
        """Those that live."""
        return list(self._drivers.values())

    def landing(self, group: str) -> list[str]:
        """Revisions of drivers that have the lane: one at most."""
        return [
            d.revision
            for d in self.drivers
            if d.lane is self.lane(group) and d.lane.holder == d.uid
        ]

    # ------------------------------------------------------------------------------- the API server

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._main())
            except BaseException as fault:  # noqa: BLE001  # handed to who waits for us
                self._fault = fault
            finally:
                self._ready.set()

    async def _main(self) -> None:
        headers = {"Authorization": self._authorization} if self._authorization else {}
        connector = aiohttp.TCPConnector(ssl=self._ssl, limit=16)
        async with aiohttp.ClientSession(
            self._host, headers=headers, connector=connector
        ) as self._api:
            self._faces = web.AppRunner(
                self._app(), access_log=None, handle_signals=False, shutdown_timeout=0.1
            )
            await self._faces.setup()
            await self._make_node()
            self._ready.set()
            jobs = [
                asyncio.create_task(job)
                for job in (self._watch(), self._heartbeat(), self._stopped.wait())
            ]
            done, rest = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            everything = [*rest, *self._lives.values()]
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
            await self._faces.cleanup()
            await self._ask("DELETE", f"/api/v1/nodes/{self._node}")
            for job in done:
                job.result()

    async def _ask(
        self, method: str, path: str, body: Json | None = None, **headers: str
    ) -> tuple[int, Json]:
        """As often as it takes: an API server that is busy or just begins has not answered yet."""
        while True:
            with suppress(aiohttp.ClientError, TimeoutError):
                async with self._api.request(
                    method, path, json=body, headers=headers or None
                ) as answer:
                    assert answer.status not in _NO_RIGHTS, f"{method} {path}: {answer.status}"
                    if (
                        answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
                        and answer.status != HTTPStatus.TOO_MANY_REQUESTS
                    ):
                        return answer.status, await answer.json(content_type=None)
            await asyncio.sleep(0.5)

    async def _merge(self, path: str, body: Json) -> tuple[int, Json]:
        return await self._ask("PATCH", path, body, **_MERGE)

    async def _make_node(self) -> None:
        """A node nobody else gets pods on; without one, pods that are deleted would be gone at
        once.
        """
        node = {"metadata": {"name": self._node}, "spec": {"unschedulable": True}}
        await self._ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
        await self._beat()

    async def _beat(self) -> None:
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "played",
            "lastHeartbeatTime": _now(),
        }
        await self._merge(
            f"/api/v1/nodes/{self._node}/status",
            {"status": {"conditions": [{**ready, "lastTransitionTime": _now()}]}},
        )

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self._beat()

    async def _watch(self) -> None:
        """List, then watch, and again when the API server ends it."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        query = {"labelSelector": f"{GROUP_LABEL},{ROLE_LABEL}=driver"}
        while True:
            _, listing = await self._ask("GET", f"{path}?{urlencode(query)}")
            for pod in listing["items"]:
                self._see(pod)
            there = {pod["metadata"]["uid"] for pod in listing["items"]}
            for uid in self._lives.keys() - there:
                self._lives[uid].cancel()
            version = listing["metadata"]["resourceVersion"]
            with suppress(aiohttp.ClientError, ValueError):
                async for event in self._events(
                    path, {**query, "watch": "true", "resourceVersion": version}
                ):
                    self._see(event["object"], gone=event["type"] == "DELETED")

    async def _events(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Json]:
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._api.get(path, params=query, timeout=timeout) as answer:
            if answer.status != HTTPStatus.OK:
                return  # busy, or what is watched from is forgotten
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    yield event

    def _see(self, pod: Json, *, gone: bool = False) -> None:
        uid = pod["metadata"]["uid"]
        if gone:
            if uid in self._lives:
                self._lives[uid].cancel()
            return
        if uid not in self._lives:
            self._ending[uid] = asyncio.Event()
            self._lives[uid] = asyncio.create_task(self._live(pod))
        if "deletionTimestamp" in pod["metadata"]:
            self._ending[uid].set()

    # ------------------------------------------------------------------------------------- the pods

    async def _live(self, pod: Json) -> None:
        """From the pod's creation to its end."""
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{self._namespace}/pods/{metadata['name']}"
        binding = {
            "metadata": {"name": metadata["name"]},
            "target": {"kind": "Node", "name": self._node},
        }
        await self._ask(
            "POST", f"{path}/binding", {"apiVersion": "v1", "kind": "Binding", **binding}
        )
        image = next(c["image"] for c in pod["spec"]["containers"] if c["name"] == "driver")
        if image.startswith("missing"):
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
            await self._merge(f"{path}/status", _pod_status("", image, {"waiting": waiting}))
            await self._ending[metadata["uid"]].wait()
        else:
            await self._run_driver(path, pod, image)
        await self._ask(
            "DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        )

    async def _run_driver(self, path: str, pod: Json, image: str) -> None:
        driver = await self._driver(pod, image)
        self.begun[driver.revision] += 1
        sites = await self._serve(driver)
        try:
            self._drivers[driver.address] = driver
            ending = self._ending[driver.uid]
            life = asyncio.create_task(self._work(path, driver))
            done, _ = await asyncio.wait(
                [life, asyncio.create_task(ending.wait())], return_when=asyncio.FIRST_COMPLETED
            )
            if life in done:
                life.result()
            life.cancel()
            if driver.behaves("deaf"):
                await asyncio.sleep(pod["spec"]["terminationGracePeriodSeconds"])
            else:
                driver.hand_over()
        finally:
            self._drivers.pop(driver.address, None)
            for site in sites:
                await site.stop()

    async def _work(self, path: str, driver: PlayedDriver) -> None:
        """What the container does: start, stand by, land, be fenced, start again."""
        last: Json = {}
        while True:
            driver.phase = Phase.STARTING
            await self._merge(
                f"{path}/status",
                _pod_status(
                    driver.address,
                    driver.image,
                    {"running": {"startedAt": _now()}},
                    driver.restarts,
                    last=last,
                ),
            )
            if driver.behaves("broken"):
                code = int(ExitCode.ERROR)
            else:
                await self._until_fenced(path, driver, last)
                code = int(ExitCode.FENCED)
            driver.restarts += 1
            last = {
                "terminated": {
                    "exitCode": code,
                    "reason": "Error",
                    "message": "no such thing",
                    "finishedAt": _now(),
                }
            }
            waiting = {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": "back-off restarting failed container",
                }
            }
            await self._merge(
                f"{path}/status",
                _pod_status(driver.address, driver.image, waiting, driver.restarts, last=last),
            )
            await asyncio.sleep(RESTARTED_AFTER)

    async def _until_fenced(self, path: str, driver: PlayedDriver, last: Json) -> None:
        if driver.behaves("slow"):
            await asyncio.Event().wait()
        driver.phase = Phase.STANDBY
        running = {"running": {"startedAt": _now()}}
        await self._merge(
            f"{path}/status",
            _pod_status(
                driver.address, driver.image, running, driver.restarts, ready=True, last=last
            ),
        )
        lane = driver.lane
        while driver.phase is not Phase.RUNNING or lane.holder == driver.uid:
            changed = lane.changed
            if driver.phase is Phase.STANDBY and driver.may_open():
                driver.open()
            else:
                await changed.wait()

    async def _driver(self, pod: Json, image: str) -> PlayedDriver:
        """With what the kubelet mounts for it."""
        metadata = pod["metadata"]
        group, revision = metadata["labels"][GROUP_LABEL], metadata["labels"][REVISION_LABEL]
        token = (await self._mounted("secrets", control_name(group)))["token"]
        conf = (await self._mounted("configmaps", revision_name(group, revision)))[
            "spark-defaults.conf"
        ]
        executors = next(
            line for line in conf.splitlines() if line.startswith("spark.executor.instances ")
        )
        return PlayedDriver(
            uid=metadata["uid"],
            pod=metadata["name"],
            group=group,
            namespace=self._namespace,
            revision=revision,
            image=image,
            generation=int(revision.removeprefix("g").partition("-")[0]),
            address="",
            token=b64decode(token).decode(),
            lane=self.lane(group),
            wanted=int(executors.split()[1]),
        )

    async def _mounted(self, plural: str, name: str) -> dict[str, str]:
        """Waits for it, as a kubelet does."""
        while True:
            status, found = await self._ask(
                "GET", f"/api/v1/namespaces/{self._namespace}/{plural}/{name}"
            )
            if status == HTTPStatus.OK:
                data: dict[str, str] = found["data"]
                return data
            await asyncio.sleep(0.2)

    # ------------------------------------------------------------------------------------ the faces

    def _app(self) -> web.Application:
        app = web.Application()
        app.add_routes([web.get("/status", self._status)])
        app.add_routes(
            [web.post(path, self._told) for path in (EXECUTORS_PATH, YIELD_PATH, OPEN_PATH)]
        )
        return app

    async def _serve(self, driver: PlayedDriver) -> list[web.TCPSite]:
        """On an address nobody else has."""
        while True:
            driver.address = next(self._addresses)
            sites = [
                web.TCPSite(self._faces, driver.address, port) for port in (HTTP_PORT, CONTROL_PORT)
            ]
            try:
                for site in sites:
                    await site.start()
            except OSError:
                continue
            return sites

    def _asked(self, request: web.Request) -> PlayedDriver | None:
        assert request.transport
        return self._drivers.get(request.transport.get_extra_info("sockname")[0])

    async def _status(self, request: web.Request) -> web.Response:
        driver = self._asked(request)
        if driver is None or driver.silent or driver.phase is Phase.STARTING:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        return web.json_response(asdict(driver.status()))

    async def _told(self, request: web.Request) -> web.Response:
        driver, told = self._asked(request), await request.json()
        if driver is None or driver.silent or driver.behaves("deaf"):
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        if request.headers.get("Authorization") != f"Bearer {driver.token}":
            return web.Response(status=HTTPStatus.UNAUTHORIZED)
        driver.dispatch(request.path, told)
        return web.Response(status=HTTPStatus.ACCEPTED)


def _addresses() -> Iterator[str]:
    """Ours, until they are used up: other processes begin elsewhere."""
    first = 1 + os.getpid() % 250
    for number in count(1):
        yield f"127.{first + number // 62_500 % 3}.{1 + number // 250 % 250}.{1 + number % 250}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _pod_status(
    address: str,
    image: str,
    state: Json,
    restarts: int = 0,
    *,
    ready: bool = False,
    last: Json | None = None,
) -> Json:
    """As a kubelet writes it."""
    well = "True" if ready else "False"
    conditions = {
        "PodScheduled": "True",
        "Initialized": "True",
        "ContainersReady": well,
        "Ready": well,
    }
    container = {
        "name": "driver",
        "image": image,
        "imageID": "",
        "ready": ready,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
    return {
        "status": {
            "phase": "Running" if address else "Pending",
            "conditions": [
                {"type": kind, "status": holds, "lastTransitionTime": _now()}
                for kind, holds in conditions.items()
            ],
            "containerStatuses": [container],
            **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
        }
    }
