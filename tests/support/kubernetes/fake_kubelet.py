"""A kubelet without containers: it runs the driver pods of one namespace as ``FakeDriver``s.

The pods come from real Deployments on a real API server. The name of a pod's image decides how its
driver behaves (``fake_driver``); the pull of an image named ``missing…`` fails.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self
from urllib.parse import urlencode
from uuid import uuid4

import aiohttp

from landfall.api.contract import DriverPhase, ExitCode
from landfall.driver.http.signed_requests import SignatureCheck
from landfall_operator.objects.names import (
    GROUP_LABEL,
    REVISION_LABEL,
    ROLE_LABEL,
    driver_name,
)
from landfall_operator.objects.pod_templates import EXECUTORS_KEY, KEYS_KEY
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.fake_node_api import NodeApi, now, pod_status
from tests.support.operator.fake_driver import DriverServers, FakeDriver, Lane

Json = dict[str, Any]

RESTART_SECONDS = 0.3
"""From a crash to the next start."""
HEARTBEAT = 20.0
"""Seconds between two heartbeats of the node."""


class Kubelet:
    """The kubelet of one namespace; it runs in a separate thread."""

    def __init__(
        self, cluster: Cluster, namespace: str, takes: Callable[[], bool] = lambda: True
    ) -> None:
        """``namespace`` is the namespace whose driver pods it runs.

        ``takes`` says whether it takes pods that no node has.
        """
        self._cluster = cluster
        self._namespace = namespace
        self._takes = takes
        self.is_lost = False
        self.node = f"fake-{uuid4().hex[:8]}"
        self._pods: dict[str, asyncio.Task[None]] = {}
        self._ending: dict[str, asyncio.Event] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._stopped = asyncio.Event()
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._servers = DriverServers()
        self._folder = TemporaryDirectory(prefix="operator-keys-")
        self.lanes: dict[str, Lane] = {}
        self.begun: Counter[str] = Counter()
        """The number of drivers that were started, by revision."""

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Run until the end of the block; pods stay as they are."""
        self._thread.start()
        self._ready.wait()
        if self._error:
            raise self._error
        yield self
        if not self.is_lost:
            self._stop()
        if self._error:
            raise self._error

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def lose(self) -> None:
        """Lose the node: its drivers end, and nobody tells the API server."""
        self.is_lost = True
        self._stop()

    def lane(self, group: str) -> Lane:
        """The lane of a group."""
        return self.lanes.setdefault(group, Lane())

    @property
    def drivers(self) -> list[FakeDriver]:
        """The drivers that run."""
        return list(self._servers.drivers.values())

    def landing(self, group: str) -> list[str]:
        """The revisions of drivers that hold the lane: at most one."""
        return [
            d.revision
            for d in self.drivers
            if d.lane is self.lane(group) and d.lane.holder == d.uid
        ]

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            try:
                runner.run(self._main())
            except BaseException as error:  # noqa: BLE001  # `running` raises it in the test
                self._error = error
            finally:
                self._ready.set()

    async def _main(self) -> None:
        async with NodeApi.connected(self._cluster) as self._api:
            await self._servers.start()
            await self._make_node()
            self._ready.set()
            jobs = [
                asyncio.create_task(job)
                for job in (self._watch(), self._heartbeat(), self._stopped.wait())
            ]
            done, rest = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            everything = [*rest, *self._pods.values()]
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
            await self._servers.stop()
            if not self.is_lost:
                await self._api.request("DELETE", f"/api/v1/nodes/{self.node}")
            for job in done:
                job.result()

    async def _make_node(self) -> None:
        """Create a node that gets no other pods.

        Without a node, the API server deletes pods at once, without a grace period.
        """
        node = {"metadata": {"name": self.node}, "spec": {"unschedulable": True}}
        await self._api.request(
            "POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node}
        )
        await self._beat()

    async def _beat(self) -> None:
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "fake",
            "lastHeartbeatTime": now(),
        }
        await self._api.merge(
            f"/api/v1/nodes/{self.node}/status",
            {"status": {"conditions": [{**ready, "lastTransitionTime": now()}]}},
        )

    async def _heartbeat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            await self._beat()

    async def _watch(self) -> None:
        """List and watch the pods, repeatedly: the API server ends each watch after a while."""
        path = f"/api/v1/namespaces/{self._namespace}/pods"
        query = {"labelSelector": f"{GROUP_LABEL},{ROLE_LABEL}=driver"}
        while True:
            _, listing = await self._api.request("GET", f"{path}?{urlencode(query)}")
            for pod in listing["items"]:
                self._see(pod)
            listed = {pod["metadata"]["uid"] for pod in listing["items"]}
            for uid in self._pods.keys() - listed:
                self._pods[uid].cancel()
            version = listing["metadata"]["resourceVersion"]
            with suppress(aiohttp.ClientError, ValueError):
                async for event in self._api.events(
                    path, {**query, "watch": "true", "resourceVersion": version}
                ):
                    self._see(event["object"], gone=event["type"] == "DELETED")

    def _see(self, pod: Json, *, gone: bool = False) -> None:
        uid = pod["metadata"]["uid"]
        if gone:
            if uid in self._pods:
                self._pods[uid].cancel()
            return
        node = pod["spec"].get("nodeName")
        if uid not in self._pods and (self._takes() if node is None else node == self.node):
            self._ending[uid] = asyncio.Event()
            self._pods[uid] = asyncio.create_task(self._run_pod(pod))
        if uid in self._pods and "deletionTimestamp" in pod["metadata"]:
            self._ending[uid].set()

    async def _run_pod(self, pod: Json) -> None:
        """Run a pod from its creation to its deletion."""
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{self._namespace}/pods/{metadata['name']}"
        binding = {
            "metadata": {"name": metadata["name"]},
            "target": {"kind": "Node", "name": self.node},
        }
        await self._api.request(
            "POST", f"{path}/binding", {"apiVersion": "v1", "kind": "Binding", **binding}
        )
        image = next(c["image"] for c in pod["spec"]["containers"] if c["name"] == "driver")
        if image.startswith("missing"):
            waiting = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{image}"'}
            await self._api.merge(f"{path}/status", pod_status("", image, {"waiting": waiting}))
            await self._ending[metadata["uid"]].wait()
        else:
            await self._run_driver(path, pod, image)
        await self._api.request(
            "DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        )

    async def _run_driver(self, path: str, pod: Json, image: str) -> None:
        driver = await self._driver(pod, image)
        self.begun[driver.revision] += 1
        sites = await self._servers.serve(driver)
        try:
            self._servers.drivers[driver.address] = driver
            ending = self._ending[driver.uid]
            work = asyncio.create_task(self._work(path, driver))
            done, _ = await asyncio.wait(
                [work, asyncio.create_task(ending.wait())], return_when=asyncio.FIRST_COMPLETED
            )
            if work in done:
                work.result()
            work.cancel()
            if driver.behaves("deaf"):
                await asyncio.sleep(pod["spec"]["terminationGracePeriodSeconds"])
            else:
                driver.hand_over()
        finally:
            self._servers.drivers.pop(driver.address, None)
            for site in sites:
                await site.stop()

    async def _work(self, path: str, driver: FakeDriver) -> None:
        """Run the container: it starts, stands by, lands, is fenced, and is started again."""
        last: Json = {}
        while True:
            driver.phase = DriverPhase.STARTING
            await self._api.merge(
                f"{path}/status",
                pod_status(
                    driver.address,
                    driver.image,
                    {"running": {"startedAt": now()}},
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
                    "finishedAt": now(),
                }
            }
            waiting = {
                "waiting": {
                    "reason": "CrashLoopBackOff",
                    "message": "back-off restarting failed container",
                }
            }
            await self._api.merge(
                f"{path}/status",
                pod_status(driver.address, driver.image, waiting, driver.restarts, last=last),
            )
            await asyncio.sleep(RESTART_SECONDS)

    async def _until_fenced(self, path: str, driver: FakeDriver, last: Json) -> None:
        if driver.behaves("slow"):
            await asyncio.Event().wait()
        driver.phase = DriverPhase.STANDBY
        running = {"running": {"startedAt": now()}}
        await self._api.merge(
            f"{path}/status",
            pod_status(
                driver.address, driver.image, running, driver.restarts, ready=True, last=last
            ),
        )
        lane = driver.lane
        while driver.phase is not DriverPhase.RUNNING or lane.holder == driver.uid:
            changed = lane.changed
            if driver.phase is DriverPhase.STANDBY and driver.may_open():
                driver.open()
            else:
                await changed.wait()

    async def _driver(self, pod: Json, image: str) -> FakeDriver:
        """The driver of a pod, with the ConfigMaps that the kubelet mounts.

        Unlike a real kubelet's, the file with the operator's keys stays as it is.
        """
        metadata = pod["metadata"]
        group, revision = metadata["labels"][GROUP_LABEL], metadata["labels"][REVISION_LABEL]
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                await self._mounted("configmaps", volume["configMap"]["name"])
        live = await self._mounted("configmaps", driver_name(group))
        keys = Path(self._folder.name) / f"{metadata['uid']}.json"
        keys.write_text(live.get(KEYS_KEY, ""))
        return FakeDriver(
            uid=metadata["uid"],
            pod=metadata["name"],
            group=group,
            namespace=self._namespace,
            revision=revision,
            image=image,
            generation=int(revision.removeprefix("g").partition("-")[0]),
            address="",
            signatures=SignatureCheck(keys, self._namespace, group, revision, metadata["uid"]),
            lane=self.lane(group),
            wanted=int(live[EXECUTORS_KEY]),
        )

    async def _exists(self, plural: str, name: str) -> bool:
        path = f"/api/v1/namespaces/{self._namespace}/{plural}/{name}"
        return (await self._api.request("GET", path))[0] == HTTPStatus.OK

    async def _mounted(self, plural: str, name: str) -> dict[str, str]:
        """The data of a Secret or ConfigMap; waits until it exists, as a kubelet does."""
        while True:
            status, found = await self._api.request(
                "GET", f"/api/v1/namespaces/{self._namespace}/{plural}/{name}"
            )
            if status == HTTPStatus.OK:
                data: dict[str, str] = found["data"]
                return data
            await asyncio.sleep(0.2)
