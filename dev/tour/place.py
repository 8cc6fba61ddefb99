"""The servers of the tour: Kubernetes, Kafka and S3 on this machine, or existing ones.

The environment names existing ones.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dev.demo.stores import STORES, DemoStore
from dev.kube import images
from dev.kube.cluster import EXISTING, Cluster
from dev.servers.cache import MissingTool
from dev.servers.hive_metastore import HIVE_METASTORE
from dev.servers.kafka import KAFKA
from dev.servers.s3 import S3
from dev.servers.server import Server, ServerKind

REGISTRY = "LANDFALL_REGISTRY"
"""Environment variable: the registry from which an existing cluster pulls ``landfall-operator`` and
``landfall-spark``.
"""


@dataclass
class TourPlace:
    """A cluster, Kafka and S3, with all their files in one folder."""

    folder: Path
    store: DemoStore = STORES["s3"]
    """The store of the group ``backup``; the other group lands in S3."""

    @property
    def cluster(self) -> Cluster:
        """The cluster on this machine, or the existing one."""
        return Cluster(self.folder)

    def up(self, say: Callable[[str], None]) -> dict[str, str]:
        """Start everything, Kafka and S3 without data.

        Returns:
            The environment variables that clients need.

        Raises:
            MissingTool: something is, for example the address of a Kafka that pods can reach.
        """
        self.check()
        status = self.cluster.up()
        assert status.kubeconfig
        say(f"cluster {status.kubeconfig}")
        env = dict(status.env)
        for kind in self._kinds():
            server = self.server(kind)
            server.down(at_once=True)
            shutil.rmtree(server.home, ignore_errors=True)
            found = server.up()
            existing = "" if found.pid else "  (existing server)"
            say(f"{found.name:7} {found.address}{existing}")
            env |= found.env
        return env

    def server(self, kind: ServerKind) -> Server:
        """A server of this machine, at an address that pods can reach."""
        return Server(kind, self.folder, self.cluster.status().host or "127.0.0.1")

    def load_images(self, say: Callable[[str], None]) -> None:
        """Load the images of operator and drivers; an existing cluster pulls them itself."""
        for name in () if os.environ.get(EXISTING) else self.cluster.load():
            say(name)

    def values(self, sources: images.Sources = images.CURRENT) -> tuple[str, ...]:
        """The arguments by which helm learns the images."""
        if os.environ.get(EXISTING):
            return ("--set", f"image.registry={os.environ[REGISTRY]}")
        # The tag stays the same, so only the changed digest makes a running cluster restart the
        # operator with a new image.
        digest = self.cluster.node.images()[sources.image("operator")]
        annotation = f"operator.podAnnotations.digest={digest}"
        tags = f"image.operator.tag={sources.tag},image.spark.tag={sources.tag}"
        return ("--set", f"image.registry={images.REGISTRY},{tags},{annotation}")

    def down(self) -> None:
        """Stop what was started here; existing servers stay."""
        for kind in (*self._kinds(), HIVE_METASTORE):
            Server(kind, self.folder).down(at_once=True)
        if not os.environ.get(EXISTING):
            self.cluster.down()

    def _kinds(self) -> tuple[ServerKind, ...]:
        return KAFKA, S3, *(() if self.store.server is S3 else (self.store.server,))

    def check(self) -> None:
        """Check that everything needed is there.

        Raises:
            MissingTool: what this machine lacks for a cluster, or which address is not configured.
        """
        if not os.environ.get(EXISTING):
            self.cluster.check()
            images.check()
            return
        for name in (*(kind.existing for kind in self._kinds()), REGISTRY):
            if not os.environ.get(name):
                raise MissingTool(
                    f"with {EXISTING}, {name} must be set to an address that pods can reach"
                )
