"""Where the tour takes place: a cluster, Kafka and S3 of this machine, or those that the environment names."""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dev.kube import images
from dev.kube.cluster import EXISTING, Cluster
from dev.servers.cache import Missing
from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import Kind, Server

REGISTRY = "LANDFALL_REGISTRY"
"""Environment variable: where a cluster of yours finds the images ``landfall-operator`` and
``landfall-spark``.
"""


@dataclass
class Place:
    """All of it in one folder."""

    folder: Path

    @property
    def cluster(self) -> Cluster:
        """The cluster, ours or yours."""
        return Cluster(self.folder)

    def up(self, say: Callable[[str], None]) -> dict[str, str]:
        """Have it all running, Kafka and S3 fresh; returns what clients need in their environment.

        Raises:
            Missing: something is, such as the address of a Kafka that pods of your cluster reach.
        """
        self.check()
        status = self.cluster.up()
        assert status.kubeconfig
        say(f"cluster {status.kubeconfig}")
        env = dict(status.env)
        for kind in (KAFKA, S3):
            server = self.server(kind)
            server.down(at_once=True)
            shutil.rmtree(server.home, ignore_errors=True)
            found = server.up()
            say(f"{found.name:7} {found.address}" + ("" if found.pid else "  (yours)"))
            env |= found.env
        return env

    def server(self, kind: Kind) -> Server:
        """Kafka or S3, at an address that pods reach."""
        return Server(kind, self.folder, self.cluster.status().host or "127.0.0.1")

    def load_images(self, say: Callable[[str], None]) -> None:
        """Have the images of operator and drivers where pods find them; a cluster of yours finds them by itself."""
        for name in () if os.environ.get(EXISTING) else self.cluster.load():
            say(name)

    def values(self) -> tuple[str, ...]:
        """What helm must know of the images."""
        if os.environ.get(EXISTING):
            return ("--set", f"image.registry={os.environ[REGISTRY]}")
        # the tag stays, so the digest says to a cluster that runs already that there is another
        # operator to start
        digest = self.cluster.node.images()[images.image("operator")]
        annotation = f"operator.podAnnotations.digest={digest}"
        return (
            "--set",
            f"image.registry={images.REGISTRY},image.operator.tag=dev,image.spark.tag=dev,{annotation}",
        )

    def down(self) -> None:
        """Stop what is ours."""
        for kind in (KAFKA, S3):
            Server(kind, self.folder).down(at_once=True)
        if not os.environ.get(EXISTING):
            self.cluster.down()

    def check(self) -> None:
        """Let there be a place.

        Raises:
            Missing: what this machine lacks for a cluster, or what is not said of yours.
        """
        if not os.environ.get(EXISTING):
            self.cluster.check()
            images.check()
            return
        for name in (KAFKA.existing, S3.existing, REGISTRY):
            if not os.environ.get(name):
                raise Missing(
                    f"with {EXISTING}, {name} must name one that pods of your cluster reach"
                )
