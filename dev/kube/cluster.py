"""Clusters by their state folder: start one, stop it, or use one that exists already."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dev.kube import control_plane, images, network, node, requirements
from dev.kube.control_plane import Endpoints
from dev.kube.daemons import Daemons
from dev.kube.node import ClusterNode
from dev.servers import cache
from dev.servers.cache import MissingTool, locked
from dev.servers.server import STATE

EXISTING = "LANDFALL_CLUSTER"


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The state of a cluster.

    Attributes:
        running: Whether the API server answers.
        kubeconfig: The path of the administrator's kubeconfig.
        host: The address by which pods reach this machine; None without a node, and for a cluster
            that was not started here.
        log: The folder of the logs; None for a cluster that was not started here.
        env: The environment variables for clients.
    """

    running: bool
    kubeconfig: str | None = None
    host: str | None = None
    log: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A control plane under the state folder, without a node and pods."""

    state: Path = STATE

    @property
    def home(self) -> Path:
        """The folder of everything that belongs to the cluster."""
        return self.state.resolve() / "control-plane"

    def up(self) -> ClusterStatus:
        """Ensure that the cluster runs and answers; processes that died are started again.

        Raises:
            MissingTool: A program is missing, or a process does not start.
        """
        if found := self._existing():
            return found
        self.check()
        with locked(self.home / "lock"):
            self._start()
        return self.status()

    def down(self, *, purge: bool = False) -> None:
        """Stop the cluster and delete its objects; ``purge`` deletes logs and images too."""
        if not self.home.exists():
            return
        with locked(self.home / "lock"):
            self._stop()
            if purge:
                shutil.rmtree(self.home)

    def status(self) -> ClusterStatus:
        """Return whether the cluster runs, and how to reach it."""
        if found := self._existing():
            return found
        access = control_plane.running(self.home)
        if access is None:
            return ClusterStatus(running=False)
        kubeconfig = access.kubeconfig()
        return ClusterStatus(
            running=True,
            kubeconfig=str(kubeconfig),
            host=self._host(),
            log=str(self.home / "log"),
            env=_env(kubeconfig),
        )

    def _existing(self) -> ClusterStatus | None:
        """The cluster that $LANDFALL_CLUSTER names, unless it is this one (``env`` exports it).

        Raises:
            MissingTool: The variable names no kubeconfig file.
        """
        named = os.environ.get(EXISTING)
        if not named:
            return None
        kubeconfig = Path(named).expanduser().resolve()
        if kubeconfig.is_relative_to(self.home):
            return None
        if not kubeconfig.is_file():
            raise MissingTool(f"{EXISTING}={named}: no such kubeconfig file")
        return ClusterStatus(True, str(kubeconfig), env=_env(kubeconfig))  # noqa: FBT003

    def check(self) -> None:
        """Return if this machine can run the cluster.

        Raises:
            MissingTool: It cannot; the message names what is missing.
        """
        if sys.platform != "linux":
            raise MissingTool(
                "a cluster needs Linux; elsewhere, name an existing one by "
                f"{EXISTING}=KUBECONFIG-FILE"
            )

    def _start(self) -> None:
        if not Daemons(self.home).any("etcd"):
            self._stop()
        control_plane.start(Endpoints(self.home))

    def _stop(self) -> None:
        control_plane.stop(self.home)

    def _host(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Cluster(ControlPlane):
    """A control plane with a node that runs pods. It needs root."""

    @property
    def home(self) -> Path:
        """The folder of everything that belongs to the cluster."""
        return self.state.resolve() / "cluster"

    @property
    def node(self) -> ClusterNode:
        """The only node of the cluster."""
        return ClusterNode(self.home)

    def load(
        self,
        targets: Sequence[str] = images.TARGETS,
        sources: images.Sources = images.CURRENT,
    ) -> tuple[str, ...]:
        """Build images and load them into the node; returns their names.

        Raises:
            MissingTool: The node does not run, or a build fails.
        """
        if self._existing():
            raise MissingTool(
                f"{EXISTING} is set: images get into an existing cluster by its own registry"
            )
        images.ensure(targets, self.node.load, sources)
        return tuple(sources.image(target) for target in targets)

    def enforce(self) -> None:
        """Enforce NetworkPolicies until the cluster stops, or ``node.neglect``.

        Raises:
            MissingTool: The cluster does not run, or was not started here.
        """
        access = None if self._existing() else control_plane.running(self.home)
        if access is None:
            raise MissingTool("no cluster of `dev/cluster up` runs, so it cannot enforce policies")
        self.node.enforce(network.claimed(self.home), access)

    def check(self) -> None:
        """Like ``ControlPlane.check``, for a node too."""
        super(Cluster, self).check()
        requirements.check([self.home, cache.folder()], node.HIDDEN)

    def _start(self) -> None:
        # With one half gone, the other one is of no use: the cluster starts from scratch.
        is_intact = Daemons(self.home).any("etcd") and self.node.init()
        if not is_intact:
            self._stop()
        block = network.claimed(self.home) if is_intact else self.node.enter()
        access = control_plane.start(
            Endpoints(self.home, block.host, block.services, block.service)
        )
        self.node.start(block, access)

    def _stop(self) -> None:
        self.node.stop()
        control_plane.stop(self.home)

    def _host(self) -> str | None:
        return network.claimed(self.home).host


def _env(kubeconfig: Path) -> dict[str, str]:
    return {"KUBECONFIG": str(kubeconfig), EXISTING: str(kubeconfig)}


KINDS: tuple[type[ControlPlane], ...] = (ControlPlane, Cluster)
"""Both kinds; they may run side by side under one state folder."""
