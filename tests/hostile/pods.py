"""A kubelet without containers that runs what real pods say: Landfall's drivers, as processes.

It mounts the ConfigMaps and Secrets that a pod names into a folder, gives the process the
environment of its container, and starts the driver's entry point on an address of its own, with the
ports of a pod. Only the executors are missing: Spark runs them inside of the driver. A pod whose
image is registered as somebody's own gets a server of a test instead: a tenant may run any image.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import psutil

from landfall.api.contract import CONTROL_PORT, HTTP_PORT
from tests.hostile.guards import PATH
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.fake_node_api import now, pod_status
from tests.support.landing.processes import ENTRY, MARK

Json = dict[str, Any]

MOUNTED = "/etc/landfall/"
LOCAL = ("spark.master local[2]\n", "spark.ui.enabled false\n")
NOT_LOCAL = ("spark.kubernetes.", "spark.master", "spark.submit.", "spark.executor.instances")
BACKOFF = 10.0
"""Seconds from the end of a container to its next start."""
_numbers = count(1)


class OwnImage(Protocol):
    """What runs in a pod whose image is a tenant's own."""

    async def serve(self, address: str, pod: Json) -> None:
        """Listen on the ports of a driver, at the address of this pod."""

    async def close(self) -> None:
        """Stop."""


@dataclass
class RunningDriver:
    """A driver process, and where it listens."""

    pod: str
    address: str
    popen: subprocess.Popen[bytes]
    log: Path
    mark: str

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def url(self, path: str = "", port: int = HTTP_PORT) -> str:
        return f"http://{self.address}:{port}{path}"

    def processes(self) -> Iterator[psutil.Process]:
        """The driver's process with all that it started."""
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark:
                    yield process
            except psutil.Error:
                continue

    def clear(self) -> None:
        """Kill it with all that it started."""
        for process in [*self.processes()]:
            try:
                process.kill()
            except psutil.Error:
                continue
        self.popen.wait()


@dataclass
class Images:
    """The images that are not Landfall's, by name."""

    own: dict[str, OwnImage] = field(default_factory=dict)


class ProcessKubelet(Kubelet):
    """Runs the driver pods of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, images: Images) -> None:
        super().__init__(cluster, namespace)
        self._pods_folder = folder / namespace
        self._pods_folder.mkdir()
        self._images = images
        self.running_drivers: dict[str, RunningDriver] = {}
        """The driver processes by the name of their pod."""

    async def _run_driver(self, path: str, pod: Json, image: str) -> None:
        address = f"127.{100 + os.getpid() % 100}.7.{next(_numbers)}"
        ending = self._ending[pod["metadata"]["uid"]]
        if own := self._images.own.get(image):
            await own.serve(address, pod)
            try:
                await self._report(path, address, image, ready=True)
                await ending.wait()
            finally:
                await own.close()
            return
        restarts, last = 0, Json()
        while not ending.is_set():
            driver = await self._start_unless(ending, pod, address, restarts)
            if driver is None:
                return
            try:
                last = await self._watch_over(path, image, driver, ending, restarts, last)
            finally:
                await asyncio.to_thread(driver.clear)
                self.running_drivers.pop(driver.pod, None)
            restarts += 1
            waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
            body = pod_status(address, image, waiting, restarts, last=last)
            await self._api.merge(f"{path}/status", body)
            with suppress(TimeoutError):
                await asyncio.wait_for(ending.wait(), BACKOFF)

    async def _watch_over(
        self,
        path: str,
        image: str,
        driver: RunningDriver,
        ending: asyncio.Event,
        restarts: int,
        last: Json,
    ) -> Json:
        """Probe a driver until it ends by itself or has to; returns how it ended."""
        was_ready = None
        while driver.popen.poll() is None and not ending.is_set():
            ready = await asyncio.to_thread(_is_ready, driver)
            if ready != was_ready:
                await self._report(
                    path, driver.address, image, ready=ready, restarts=restarts, last=last
                )
                was_ready = ready
            await asyncio.sleep(0.5)
        if driver.popen.poll() is None:
            driver.popen.send_signal(signal.SIGTERM)
            await asyncio.to_thread(driver.popen.wait, 120)
        message = driver.log.with_suffix(".termination").read_text()
        code = driver.popen.returncode
        ended = {"exitCode": code, "reason": "Error", "message": message, "finishedAt": now()}
        return {"terminated": ended}

    async def _report(
        self,
        path: str,
        address: str,
        image: str,
        *,
        ready: bool = False,
        restarts: int = 0,
        last: Json | None = None,
    ) -> None:
        running = {"running": {"startedAt": now()}}
        body = pod_status(address, image, running, restarts, ready=ready, last=last)
        await self._api.merge(f"{path}/status", body)

    async def _start_unless(
        self, ending: asyncio.Event, pod: Json, address: str, restarts: int
    ) -> RunningDriver | None:
        """Start a driver; None if the pod ends while it waits for a Secret or a ConfigMap."""
        starting = asyncio.create_task(self._start(pod, address, restarts))
        ended = asyncio.create_task(ending.wait())
        await asyncio.wait([starting, ended], return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if starting.done():
            return starting.result()
        starting.cancel()
        return None

    async def _start(self, pod: Json, address: str, restarts: int) -> RunningDriver:
        name = pod["metadata"]["name"]
        folder = self._pods_folder / f"{name}-{restarts}"
        (container,) = (c for c in pod["spec"]["containers"] if c["name"] == "driver")
        await self._mount(pod, container, folder)
        (folder / "secrets").mkdir(exist_ok=True)
        log = self._pods_folder / f"{name}-{restarts}.log"
        log.with_suffix(".termination").touch()
        _localize(folder / "group/spark-defaults.conf")
        ports = ("--http-port", str(HTTP_PORT), "--control-port", str(CONTROL_PORT))
        command = [sys.executable, str(ENTRY), "--host", address, *ports]
        environment = {
            **os.environ,
            **await self._variables(pod, container, address, folder),
            "LANDFALL_SECRETS": str(folder / "secrets"),
            "PYTHONPATH": PATH,
            MARK: f"{name}-{restarts}",
        }
        environment.pop("LANDFALL_PEERS", None)  # no Service has a name here
        with log.open("wb") as output:
            popen = subprocess.Popen(  # noqa: ASYNC220  # returns at once
                [*command, "--termination-file", str(log.with_suffix(".termination"))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        driver = RunningDriver(name, address, popen, log, environment[MARK])
        self.running_drivers[name] = driver
        return driver

    async def _mount(self, pod: Json, container: Json, folder: Path) -> None:
        """Write the volumes' files, as the kubelet mounts them."""
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for mount in container["volumeMounts"]:
            volume, to = volumes[mount["name"]], folder / mount["mountPath"].removeprefix(MOUNTED)
            if source := volume.get("configMap"):
                files = await self._files("configmaps", source["name"], source)
                content = {name: text.encode() for name, text in files.items()}
            elif source := volume.get("secret"):
                files = await self._files("secrets", source["secretName"], source)
                content = {name: b64decode(text) for name, text in files.items()}
            else:
                continue
            to.mkdir(parents=True)
            for name, body in content.items():
                (to / name).write_bytes(body)

    async def _files(self, plural: str, name: str, source: Json) -> dict[str, str]:
        """The files of a volume: of an optional one that does not exist, none."""
        if source.get("optional") and not await self._exists(plural, name):
            return {}
        data = await self._mounted(plural, name)
        if items := source.get("items"):
            return {item["path"]: data[item["key"]] for item in items if item["key"] in data}
        return data

    async def _variables(
        self, pod: Json, container: Json, address: str, folder: Path
    ) -> Mapping[str, str]:
        """The environment of the container, with paths and addresses of this machine."""
        metadata = pod["metadata"]
        fields = {
            "metadata.name": metadata["name"],
            "metadata.uid": metadata["uid"],
            "status.podIP": address,
        }
        found: dict[str, str] = {}
        for variable in container["env"]:
            source = variable.get("valueFrom", {})
            if reference := source.get("configMapKeyRef"):
                data = await self._mounted("configmaps", reference["name"])
                if reference["key"] in data:
                    found[variable["name"]] = data[reference["key"]]
            elif reference := source.get("fieldRef"):
                found[variable["name"]] = fields[reference["fieldPath"]]
            else:
                found[variable["name"]] = variable.get("value", "")
        for name, value in found.items():
            expanded = value.replace("$(POD_IP)", address).replace("$(POD_NAME)", metadata["name"])
            found[name] = expanded.replace(MOUNTED, f"{folder}/")
        return found


def _localize(file: Path) -> None:
    """Let Spark run its tasks in the driver; what it does with its ports stays."""
    kept = [line for line in file.read_text().splitlines(keepends=True)
            if not line.startswith(NOT_LOCAL)]  # fmt: skip
    file.write_text("".join([*kept, *LOCAL]))


def _is_ready(driver: RunningDriver) -> bool:
    import urllib.request

    try:
        with urllib.request.urlopen(driver.url("/healthcheck"), timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, json.JSONDecodeError):
        return False
