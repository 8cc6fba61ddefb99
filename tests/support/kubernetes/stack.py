"""Landfall on a real node: cluster, images, Kafka, S3, and the operator installed by the chart."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from unittest.mock import patch

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dev.kube import programs
from dev.kube.cluster import EXISTING
from dev.kube.images import CURRENT, Sources, native_toolchain
from dev.servers import s3
from dev.servers.s3 import S3
from dev.tour.place import TourPlace
from tests.support.kafka.broker import Broker
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.kubernetes.live_group import SYSTEM, LiveGroup
from tests.support.landing.group import Scene
from tests.support.stores.s3 import S3Server

RELEASE = "landfall"
PODS = ("pods", "-n", SYSTEM, "-l", "app.kubernetes.io/name=landfall-operator")


@dataclass(frozen=True)
class Stack:
    """Everything that the groups of a test session share."""

    place: TourPlace
    cluster: Cluster
    kafka: Broker
    s3: S3Server

    @classmethod
    def at(cls, place: TourPlace) -> "Stack":
        """Start and install everything."""
        existing = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        env = {**existing, **place.up(print)}
        place.load_images(print)
        made = cls(
            place,
            Cluster(Path(env["KUBECONFIG"])),
            Broker(env["LANDFALL_KAFKA"]),
            S3Server(env["LANDFALL_S3"], env),
        )
        made.install()
        return made

    def create_namespace(self) -> str:
        """Create a namespace whose groups the operator manages."""
        name = self.cluster.create_namespace()
        self.cluster.kubectl("label", "namespace", name, "landfall.dev/watch=true")
        return name

    @contextmanager
    def group(self) -> Iterator[LiveGroup]:
        """A group, not applied yet, with its own namespace and bucket; deleted after the block."""
        scene = Scene(self.kafka, self.s3.create_bucket())
        made = LiveGroup(self.cluster, self.create_namespace(), scene)
        try:
            yield made
        finally:
            made.clear()

    def install(self, *options: str, sources: Sources = CURRENT) -> None:
        """Install or upgrade the chart of these sources; returns when the operator is ready."""
        chart = sources.root / "charts" / "landfall"
        waiting = ("--create-namespace", "--wait", "--timeout", "10m")
        values = (*self.place.values(sources), *options)
        self._helm("upgrade", "--install", RELEASE, str(chart), *waiting, *values)

    def uninstall(self) -> None:
        """Uninstall the chart; definitions and groups stay."""
        self._helm("uninstall", RELEASE, "--wait")

    def operators(self) -> set[str]:
        """The uids of the operator's pods that are not being deleted."""
        found = self.cluster.kubectl(
            "get", *PODS, "-o", "jsonpath={range .items[*]}{.metadata}{'\\n'}{end}"
        )
        pods = [json.loads(line) for line in found.splitlines()]
        return {pod["uid"] for pod in pods if "deletionTimestamp" not in pod}

    def kill_operator(self) -> None:
        """Delete the operator's pods without a grace period, as if their node were lost."""
        self.cluster.kubectl("delete", *PODS, "--grace-period=0", "--force")

    def operator_image(self) -> str:
        """The operator's image: one that exists in the node but runs no driver."""
        return self.cluster.kubectl(
            "get", *PODS, "-o", "jsonpath={.items[0].spec.containers[0].image}"
        )

    def hot_paths(self) -> set[str]:
        """The hot paths that the image may have: of one that was built here, exactly one."""
        if os.environ.get(EXISTING):
            return {"native", "python"}
        return {"native" if native_toolchain("spark") else "python"}

    def condition(self, group: LiveGroup, kind: str) -> float | None:
        """The metric of a group's condition: 1 for True, 0 for False, -1 for Unknown."""
        labels = {"namespace": group.namespace, "condition": kind}
        return self._metric("landfall_group_condition", labels)

    def watched(self, namespace: str) -> float | None:
        """The metric of a namespace: 1 if the operator watches it, 0 if it cannot."""
        return self._metric("landfall_operator_namespace_watched", {"namespace": namespace})

    def _metric(self, name: str, labels: Mapping[str, str]) -> float | None:
        """A metric of the operator; None if it has none with these labels."""
        service = f"/api/v1/namespaces/{SYSTEM}/services/{RELEASE}-operator:http/proxy/metrics"
        families = text_string_to_metric_families(self.cluster.kubectl("get", "--raw", service))
        samples = chain.from_iterable(family.samples for family in families if family.name == name)
        return next(
            (sample.value for sample in samples if labels.items() <= sample.labels.items()), None
        )

    @contextmanager
    def s3_outage(self, how: signal.Signals) -> Iterator[None]:
        """During the block, the S3 server does not answer (SIGSTOP) or does not run (SIGKILL)."""
        server = self.place.server(S3)
        pid = server.status().pid
        if pid is None:
            pytest.skip("the S3 server was not started here")
        if how is signal.SIGKILL:
            server.down(at_once=True)
        else:
            os.kill(pid, how)
        try:
            yield
        finally:
            if how is not signal.SIGKILL:
                os.kill(pid, signal.SIGCONT)
            server.up()

    @contextmanager
    def s3_with_key(self, secret: str) -> Iterator[None]:
        """During the block, the S3 server knows another secret key, and not the one before."""
        server = self.place.server(S3)
        if server.status().pid is None:
            pytest.skip("the S3 server was not started here")
        server.down()
        with patch.object(s3, "SECRET_KEY", secret):
            server.up()
        try:
            yield
        finally:
            server.down()
            server.up()

    def _helm(self, *arguments: str) -> None:
        argv = [
            str(programs.helm() / "helm"),
            "--kubeconfig",
            str(self.cluster),
            "-n",
            SYSTEM,
            *arguments,
        ]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Refused(
                f"{done.stderr.strip()}\n{self.cluster.kubectl('get', *PODS, '-o', 'wide')}"
            )
