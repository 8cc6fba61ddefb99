"""The environment of a chaos run: everything that it needs, run as users run it.

It is a Kubernetes node, Kafka, S3 behind the fault proxy, the operator by its Helm chart, and two
groups.
"""

import base64
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.tour.place import TourPlace
from landfall.api.spec import ConsumerGroup
from tests.chaos import targets
from tests.chaos.disk import Disk
from tests.chaos.proxy import FaultProxy
from tests.chaos.schedule import GROUPS, PARQUET, RAW
from tests.support.kafka.broker import SECONDS
from tests.support.kubernetes.cluster import Refused
from tests.support.kubernetes.live_group import KEYS, NAME, LiveGroup
from tests.support.kubernetes.stack import Stack
from tests.support.landing.group import Scene

CLOCK = "clock"
"""Name of the ConfigMap with the clock library, and of the volume with the file that it reads."""
LIBRARY_FOLDER = "/clock-library"

Json = Mapping[str, Any]

COMPACT: Json = {"below": "8Mi", "target": "32Mi"}

SPECS: Mapping[str, Json] = {
    RAW: {  # by Kafka's timestamps: a minute is merged after the other
        "route": {"pattern": "dt={date}/hr={hour}/mi={minute}"},
        "completeness": {"delay": "20s"},
        "compact": COMPACT,
        "replicas": 1,
        "decode": {"format": "Raw"},
        "output": {
            "format": "SequenceFile",
            "codec": "Gzip",
            "options": {"keyMode": "MessagePack"},
        },
        "badRecords": {"maxRatio": "0.5"},
        "uploadPolicy": {"maxBytes": "2M", "maxAge": "3s"},
        "upgrade": {"drainTimeout": "20s"},
    },
    PARQUET: {  # by event times: a day is merged after the other, see ``records.SPEED``
        "completeness": {"delay": "1h"},
        "compact": COMPACT,
        "tuning": {"keepReplaced": "20s"},
        "replicas": 2,
        "output": {"format": "Parquet"},
        "badRecords": {"maxRatio": "0.5"},
        "uploadPolicy": {"maxBytes": "2M", "maxAge": "5s"},
        "upgrade": {"drainTimeout": "40s"},
    },
}
"""The specs of the groups, as far as they differ."""

SHORT_TIMEOUTS: Json = {"readTimeout": "5s", "connectTimeout": "3s"}
"""Timeouts of the store that are shorter than a fault, so that the groups notice a silent store."""


def pod_logs(pods: Path) -> Iterator[Path]:
    """Yield the logs of all pods; a pod that goes meanwhile has none."""
    for folder, _, names in os.walk(pods):
        yield from (Path(folder, name) for name in names if name.endswith(".log"))


@dataclass
class Environment:
    """A running environment.

    Attributes:
        disk: the S3 server's small disk; None if this machine could not mount one.
        folder: gets everything that is written about the run.
        stopping: set when faults that last should end and no more should begin.
        clock_unavailable: why no clock can be shifted; empty if one can.
    """

    place: TourPlace
    stack: Stack
    proxy: FaultProxy
    disk: Disk | None
    groups: Mapping[str, LiveGroup]
    folder: Path
    stopping: threading.Event = field(default_factory=threading.Event)
    clock_unavailable: str = ""

    def wait(self, seconds: float) -> None:
        """Wait so many seconds, or until ``stopping`` is set."""
        self.stopping.wait(seconds)

    @property
    def secrets(self) -> Path:
        """Folder with the keys to the bucket, for Landfall's commands on this machine."""
        return self.folder / "secrets"

    def write_group_file(self, name: str) -> Path:
        """Write a group's YAML for Landfall's commands, and return its path.

        It names the S3 server itself instead of the proxy: checks must see no faults.
        """
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(self.groups[name].document(**_spec(name))))
        return path

    def group_spec(self, name: str) -> ConsumerGroup:
        """A group's resource, with the address of the S3 server itself."""
        return self.groups[name].scene.group(NAME, **_spec(name))

    @property
    def prefix(self) -> str:
        """Prefix of the topics that both groups land."""
        return self.groups[RAW].scene.prefix

    @cached_property
    def core_api(self) -> client.CoreV1Api:
        """A client of the Kubernetes API, with all rights."""
        return client.CoreV1Api(self.stack.cluster.admin)

    def lag(self, name: str) -> int:
        """Records of all topics that a group has not committed yet, by ledger and broker."""
        state, kafka = self.groups[name].ledger(), self.stack.kafka
        checkpoint = {(tp.topic, tp.partition): state.checkpoint[tp] for tp in state.checkpoint}
        topics = kafka.admin.list_topics(timeout=SECONDS).topics
        topic_partitions = [
            (topic, partition)
            for topic in self.groups[name].scene.topics
            for partition in topics[topic].partitions
        ]
        return sum(kafka.end_offset(*tp) - checkpoint.get(tp, 0) for tp in topic_partitions)

    def has_landed(self, name: str) -> bool:
        """Whether a group has committed everything, and everything that it committed is visible.

        An upload that the store has lost is looked up for a minute and then made again, while the
        group lands on.
        """
        if self.lag(name):
            return False
        group = self.groups[name]
        unapplied = chain.from_iterable(group.ledger().unapplied.values())
        return {landed.upload.key for landed in unapplied} <= set(group.scene.bucket.keys())

    def settle(self, name: str, seconds: float) -> bool:
        """Suspend a group while no object takes the place of another; False if one always does.

        Listings then have each row once, and stay as they are.
        """
        group, deadline = self.groups[name], time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self._replaces(name):
                group.change(state="Suspended")
                group.wait(lambda: not group.pods("driver"), "no driver runs")
                if not self._replaces(name):
                    return True
                group.change(state="Running")
            time.sleep(2)
        return False

    def _replaces(self, name: str) -> bool:
        state = self.groups[name].ledger()
        return bool(state.replacing or state.retiring)

    def describe(self, name: str) -> str:
        """A group's status in one line."""
        status = self.groups[name].status()
        lag, commits = status.get("lag", {}), status.get("commits", {})
        return (
            f"{status.get('phase')} generation {status.get('activeGeneration')},"
            f" {commits.get('total')} commits,"
            f" lag {lag.get('records')} records {lag.get('seconds')} s"
        )

    def keep_logs(self) -> None:
        """Hard-link the logs of all present pods, so that they outlive the pods."""
        kept = self.folder / "logs"
        kept.mkdir(exist_ok=True)
        for log in pod_logs(self.place.cluster.home / "log" / "pods"):
            with suppress(FileExistsError, FileNotFoundError):
                os.link(log, kept / "_".join(log.relative_to(log.parents[2]).parts))

    def lift_faults(self) -> None:
        """End every fault: lift rules, start servers, resume groups, set clocks right."""
        self.stopping.set()
        self.proxy.lift()
        for kind in (KAFKA, S3):
            self.place.server(kind).up()
        for group in self.groups.values():
            group.change(state="Running")
            for uid in group.running("driver") | group.running("executor"):
                targets.set_clock(uid, 0)

    # ------------------------------------------------------------------------- creation, tear-down

    @classmethod
    def create(cls, place: TourPlace, folder: Path, seed: int) -> "Environment":
        """Start everything but the load; the groups are not applied yet, their topics not made."""
        # What an earlier run with --keep left would be in the way, its mounted disk, too.
        place.down()
        Disk(place.server(S3).home).unmount()
        stack = Stack.at(place)
        os.environ.update(
            {name: value for name, value in stack.s3.env.items() if name.startswith("AWS_")}
        )
        disk = _small_disk(place)
        upstream = stack.s3.endpoint
        host = upstream.rpartition("/")[2].partition(":")[0]
        proxy = FaultProxy(upstream, f"{host}:0", seed=seed, folder=folder)
        scene = Scene(stack.kafka, stack.s3.create_bucket())
        scenes = {
            name: Scene(stack.kafka, stack.s3.create_bucket(), scene.prefix) for name in GROUPS
        }
        groups = {
            name: LiveGroup(stack.cluster, stack.create_namespace(), scenes[name])
            for name in GROUPS
        }
        made = cls(place, stack, proxy, disk, groups, folder)
        made._write_secrets()
        return made

    def apply(self) -> None:
        """Apply both groups with the proxy as their store, one with clocks that can be shifted."""
        for name, group in self.groups.items():
            spec = _spec(name, **SHORT_TIMEOUTS, endpoint=self.proxy.endpoint)
            if name == PARQUET:
                spec |= self._shiftable_clock(group)
            group.apply(**spec)

    def tear_down(self) -> None:
        """Stop everything and unmount the disk; also if a part has failed."""
        self.stopping.set()
        with suppress(Exception):  # the rest is to be stopped even if the proxy has crashed
            self.proxy.stop()
        for group in self.groups.values():
            with suppress(Refused):
                group.clear()
        self.place.down()
        if self.disk:
            self.disk.unmount()

    def _shiftable_clock(self, group: LiveGroup) -> dict[str, Any]:
        try:
            library = targets.build_clock_library(self.folder)
        except OSError as error:
            self.clock_unavailable = str(error)
            return {}
        about = client.V1ObjectMeta(name=CLOCK)
        files: dict[str, bytes | str] = {"clock.so": base64.b64encode(library).decode()}
        self.core_api.create_namespaced_config_map(
            group.namespace, client.V1ConfigMap(metadata=about, binary_data=files)
        )
        pod = {
            "env": [
                {"name": "LD_PRELOAD", "value": f"{LIBRARY_FOLDER}/clock.so"},
                {"name": "CLOCK_FILE", "value": targets.CLOCK_FILE},
            ],
            "volumes": [
                {"name": "clock-library", "configMap": {"name": CLOCK}},
                {"name": CLOCK, "emptyDir": {}},
            ],
            "volumeMounts": [
                {"name": "clock-library", "mountPath": LIBRARY_FOLDER, "readOnly": True},
                {"name": CLOCK, "mountPath": targets.CLOCK_FOLDER},
            ],
        }
        return {
            "driver": pod,
            "executor": {"cores": 1, "resources": {"requests": {"cpu": "100m"}}, **pod},
        }

    def _write_secrets(self) -> None:
        keys = self.secrets / KEYS
        keys.mkdir(parents=True)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            (keys / name).write_text(self.stack.s3.env[name])
        os.environ["LANDFALL_SECRETS"] = str(self.secrets)


def _spec(name: str, **s3: Any) -> dict[str, Any]:
    """The spec of a group, with settings of its store, if any."""
    spec = SPECS[name]
    return {**spec, "output": {**spec["output"], **({"s3": s3} if s3 else {})}}


def _small_disk(place: TourPlace) -> Disk | None:
    """Restart the S3 server on a disk that can be filled; None if none can be mounted."""
    server = place.server(S3)
    server.down(at_once=True)
    disk = Disk(server.home)
    mounted = disk.mount()
    server.up()
    return disk if mounted else None
