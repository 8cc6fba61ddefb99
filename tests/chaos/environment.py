"""All that a run needs, as users run it: a cluster, Kafka, S3 behind the proxy, the operator by its
chart, two groups.
"""

import base64
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.tour.place import Place
from landfall.api.spec import ConsumerGroup
from tests.chaos import targets
from tests.chaos.disk import Disk
from tests.chaos.proxy import FaultProxy
from tests.chaos.schedule import GROUPS, PARQUET, RAW
from tests.support.cluster import Refused
from tests.support.kafka import SECONDS
from tests.support.landing import Scene
from tests.support.live_group import KEYS, NAME, LiveGroup
from tests.support.stack import Stack

CLOCK = "clock"
"""Name of the ConfigMap with the library that makes wrong clocks, and of the volume with the file
that it reads.
"""
LIBRARY = "/clock-library"

Json = Mapping[str, Any]

SPECS: Mapping[str, Json] = {
    RAW: {
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
    PARQUET: {
        "replicas": 2,
        "output": {"format": "Parquet"},
        "badRecords": {"maxRatio": "0.5"},
        "uploadPolicy": {"maxBytes": "2M", "maxAge": "5s"},
        "upgrade": {"drainTimeout": "40s"},
    },
}
"""What differs between the groups."""

PATIENT: Json = {"readTimeout": "5s", "connectTimeout": "3s"}
"""So that silence is noticed within the length of a fault."""


@dataclass
class Environment:
    """What is there; ``folder`` gets what is written about the run."""

    place: Place
    stack: Stack
    proxy: FaultProxy
    disk: Disk | None
    groups: Mapping[str, LiveGroup]
    folder: Path
    over: threading.Event = field(default_factory=threading.Event)
    """Set when no more faults are wanted, and those that last should end."""
    no_clock: str = ""
    """Why no clock can be wrong."""

    def rest(self, seconds: float) -> None:
        """Let a fault last."""
        self.over.wait(seconds)

    @property
    def secrets(self) -> Path:
        """Folder with the keys to the bucket, for Landfall's commands on this side."""
        return self.folder / "secrets"

    def file(self, name: str) -> Path:
        """A group's YAML with the address of the S3 server itself, for Landfall's commands."""
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(self.groups[name].document(**_spec(name))))
        return path

    def parsed(self, name: str) -> ConsumerGroup:
        """The same."""
        return self.groups[name].scene.group(NAME, **_spec(name))

    @property
    def prefix(self) -> str:
        """Of the topics that both groups land."""
        return self.groups[RAW].scene.prefix

    @cached_property
    def core(self) -> client.CoreV1Api:
        """Kubernetes."""
        return client.CoreV1Api(self.stack.cluster.admin)

    def lag(self, name: str) -> int:
        """Records of all topics that a group has not committed, and objects of its that are not
        visible yet.
        """
        state, kafka = self.groups[name].ledger(), self.stack.kafka
        behind = {(tp.topic, tp.partition): state.checkpoint[tp] for tp in state.checkpoint}
        topics = self.groups[name].scene.topics
        known = kafka.admin.list_topics(timeout=SECONDS).topics
        all_of_them = [
            (topic, partition) for topic in topics for partition in known[topic].partitions
        ]
        ends = {tp: kafka.end_offset(*tp) for tp in all_of_them}
        return sum(end - behind.get(tp, 0) for tp, end in ends.items())

    def describe(self, name: str) -> str:
        """How a group is, in short, as its status says."""
        status = self.groups[name].status()
        lag, commits = status.get("lag", {}), status.get("commits", {})
        return (
            f"{status.get('phase')} generation {status.get('activeGeneration')}, {commits.get('total')} commits,"
            f" lag {lag.get('records')} records {lag.get('seconds')} s"
        )

    def keep_logs(self) -> None:
        """Have the logs of all pods there are, or were when this was called before; a pod's log
        goes with it.
        """
        kept = self.folder / "logs"
        kept.mkdir(exist_ok=True)
        for log in (self.place.cluster.home / "log" / "pods").glob("*/*/*.log"):
            with suppress(FileExistsError, FileNotFoundError):
                os.link(log, kept / "_".join(log.relative_to(log.parents[2]).parts))

    def mend(self) -> None:
        """Have every fault lifted."""
        self.over.set()
        self.proxy.lift()
        for kind in (KAFKA, S3):
            self.place.server(kind).up()
        for group in self.groups.values():
            group.change(state="Running")
            for uid in group.running("driver") | group.running("executor"):
                targets.set_clock(uid, 0)

    # ---------------------------------------------------------------------------------- from and to

    @classmethod
    def set(cls, place: Place, folder: Path, seed: int) -> "Environment":
        """Have all of it there but the groups' topics."""
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
            name: LiveGroup(stack.cluster, stack.cluster.create_namespace(), scenes[name])
            for name in GROUPS
        }
        made = cls(place, stack, proxy, disk, groups, folder)
        made._write_secrets()
        return made

    def apply(self) -> None:
        """Both groups, with the proxy for a store; one of them with a clock that can be set."""
        for name, group in self.groups.items():
            spec = _spec(name, **PATIENT, endpoint=self.proxy.endpoint)
            if name == PARQUET:
                spec |= self._settable_clock(group)
            group.apply(**spec)

    def strike(self) -> None:
        """Take it all down."""
        self.over.set()
        with suppress(Exception):
            self.proxy.stop()
        for group in self.groups.values():
            with suppress(Refused):
                group.clear()
        self.place.down()
        if self.disk:
            self.disk.unmount()

    def _settable_clock(self, group: LiveGroup) -> dict[str, Any]:
        try:
            library = targets.shim(self.folder)
        except OSError as error:
            self.no_clock = str(error)
            return {}
        about = client.V1ObjectMeta(name=CLOCK)
        held: dict[str, bytes | str] = {"clock.so": base64.b64encode(library).decode()}
        self.core.create_namespaced_config_map(
            group.namespace, client.V1ConfigMap(metadata=about, binary_data=held)
        )
        pod = {
            "env": [
                {"name": "LD_PRELOAD", "value": f"{LIBRARY}/clock.so"},
                {"name": "CLOCK_FILE", "value": targets.CLOCK_FILE},
            ],
            "volumes": [
                {"name": "clock-library", "configMap": {"name": CLOCK}},
                {"name": CLOCK, "emptyDir": {}},
            ],
            "volumeMounts": [
                {"name": "clock-library", "mountPath": LIBRARY, "readOnly": True},
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


def _spec(name: str, **s3: Any) -> dict[str, Any]:
    """A group's, with what there is to say of its store."""
    spec = SPECS[name]
    return {**spec, "output": {**spec["output"], **({"s3": s3} if s3 else {})}}


def _small_disk(place: Place) -> Disk | None:
    """Give the S3 server one that can be filled."""
    server = place.server(S3)
    server.down(at_once=True)
    disk = Disk(server.home)
    mounted = disk.mount()
    server.up()
    return disk if mounted else None
