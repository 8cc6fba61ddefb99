"""All of Landfall on a real node: cluster, images, Kafka, S3, and the operator installed by its
chart.
"""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dev.kube import programs
from dev.servers.s3 import S3
from dev.tour.place import Place
from tests.support.cluster import Cluster, Refused
from tests.support.kafka import Broker
from tests.support.landing import Scene
from tests.support.live_group import SYSTEM, Operated
from tests.support.s3 import S3Server

CHART = Path(__file__).resolve().parents[2] / "charts" / "landfall"
RELEASE = "landfall"
PODS = ("pods", "-n", SYSTEM, "-l", "app.kubernetes.io/name=landfall-operator")


@dataclass(frozen=True)
class Stack:
    """What all groups of a session share."""

    place: Place
    cluster: Cluster
    kafka: Broker
    s3: S3Server

    @classmethod
    def at(cls, place: Place) -> "Stack":
        """Have all of it up and installed."""
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

    @contextmanager
    def group(self) -> Iterator[Operated]:
        """A group that nobody has applied yet, in a namespace and over a bucket of its own; gone
        with the block.
        """
        scene = Scene(self.kafka, self.s3.create_bucket())
        made = Operated(self.cluster, self.cluster.create_namespace(), scene)
        try:
            yield made
        finally:
            made.clear()

    def install(self, chart: Path = CHART) -> None:
        """``helm upgrade --install``; returns when the operator is ready."""
        waiting = ("--create-namespace", "--wait", "--timeout", "10m")
        self._helm("upgrade", "--install", RELEASE, str(chart), *waiting, *self.place.values())

    def operators(self) -> set[str]:
        """Uids of the operator's pods that are not on their way out."""
        found = self.cluster.kubectl(
            "get", *PODS, "-o", "jsonpath={range .items[*]}{.metadata}{'\\n'}{end}"
        )
        pods = [json.loads(line) for line in found.splitlines()]
        return {pod["uid"] for pod in pods if "deletionTimestamp" not in pod}

    def kill_operator(self) -> None:
        """Delete its pods without grace, as when their node is gone."""
        self.cluster.kubectl("delete", *PODS, "--grace-period=0", "--force")

    def operator_image(self) -> str:
        """An image that is there and runs no driver."""
        return self.cluster.kubectl(
            "get", *PODS, "-o", "jsonpath={.items[0].spec.containers[0].image}"
        )

    def condition(self, group: Operated, kind: str) -> float | None:
        """What Prometheus would read of a group's condition: 1 True, 0 False, -1 Unknown."""
        service = f"/api/v1/namespaces/{SYSTEM}/services/{RELEASE}-operator:http/proxy/metrics"
        labels = {"namespace": group.namespace, "condition": kind}
        families = text_string_to_metric_families(self.cluster.kubectl("get", "--raw", service))
        samples = chain.from_iterable(
            family.samples for family in families if family.name == "landfall_group_condition"
        )
        return next(
            (sample.value for sample in samples if labels.items() <= sample.labels.items()), None
        )

    @contextmanager
    def s3_away(self, how: signal.Signals) -> Iterator[None]:
        """The S3 server does not answer (SIGSTOP) or is not there (SIGKILL) while the block runs."""
        server = self.place.server(S3)
        pid = server.status().pid
        if pid is None:
            pytest.skip("the S3 server is not ours to stop")
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
