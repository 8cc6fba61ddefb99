"""A cluster by its state folder: have it up, have it down, or use the one that exists."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dev.kube import control_plane, images, network, node, requirements
from dev.kube.control_plane import Place
from dev.kube.daemons import Daemons
from dev.kube.node import Node
from dev.servers import cache
from dev.servers.cache import Missing, locked
from dev.servers.server import STATE

EXISTING = "LANDFALL_CLUSTER"


@dataclass(frozen=True, slots=True)
class Status:
    """What there is.

    Attributes:
        running: whether the API server answers.
        kubeconfig: of its administrator.
        host: address by which pods reach this machine; None where there are no pods, or for a
            cluster that is not ours.
        log: folder of its logs; None for a cluster that is not ours.
        env: what a client's environment needs.
    """

    running: bool
    kubeconfig: str | None = None
    host: str | None = None
    log: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """An API server under this state folder, with what keeps and collects its objects; no pod ever runs."""

    state: Path = STATE

    @property
    def home(self) -> Path:
        """Where all of it lives."""
        return self.state.resolve() / "control-plane"

    def up(self) -> Status:
        """Have it running and answering; one that runs already is left as it is, and what died of it is started again.

        Raises:
            Missing: a program is not there, or something does not start; says which and why.
        """
        if found := self._existing():
            return found
        self.check()
        with locked(self.home / "lock"):
            self._start()
        return self.status()

    def down(self, *, purge: bool = False) -> None:
        """Have it stopped and its objects forgotten; its logs and images stay, unless purged."""
        if not self.home.exists():
            return
        with locked(self.home / "lock"):
            self._stop()
            if purge:
                shutil.rmtree(self.home)

    def status(self) -> Status:
        """Whether it runs, and where."""
        if found := self._existing():
            return found
        access = control_plane.running(self.home)
        if access is None:
            return Status(running=False)
        kubeconfig = access.kubeconfig()
        return Status(True, str(kubeconfig), self._host(), str(self.home / "log"), _env(kubeconfig))  # noqa: FBT003

    def _existing(self) -> Status | None:
        """The cluster that the environment names, unless it is this one: ``env`` exports that, too.

        Raises:
            Missing: there is no such file.
        """
        named = os.environ.get(EXISTING)
        if not named:
            return None
        kubeconfig = Path(named).expanduser().resolve()
        if kubeconfig.is_relative_to(self.home):
            return None
        if not kubeconfig.is_file():
            raise Missing(f"{EXISTING}={named}: no such kubeconfig file")
        return Status(True, str(kubeconfig), env=_env(kubeconfig))  # noqa: FBT003

    def check(self) -> None:
        """Let it be started here.

        Raises:
            Missing: says what this machine lacks.
        """
        if sys.platform != "linux":
            raise Missing(
                f"a cluster needs Linux; elsewhere, name one that exists by {EXISTING}=KUBECONFIG-FILE"
            )

    def _start(self) -> None:
        if not Daemons(self.home).any("etcd"):
            self._stop()
        control_plane.start(Place(self.home))

    def _stop(self) -> None:
        control_plane.stop(self.home)

    def _host(self) -> str | None:
        return None


@dataclass(frozen=True, slots=True)
class Cluster(ControlPlane):
    """The same with a node, which runs pods. Needs root."""

    @property
    def home(self) -> Path:
        """Where all of it lives."""
        return self.state.resolve() / "cluster"

    @property
    def node(self) -> Node:
        """The node."""
        return Node(self.home)

    def load(self, targets: Sequence[str] = images.TARGETS) -> tuple[str, ...]:
        """Have images of the sources as they are now in the node; what pods call them.

        Raises:
            Missing: the node does not run, or a build fails.
        """
        if self._existing():
            raise Missing(
                f"{EXISTING} is set: bring images to a cluster of yours by its own registry"
            )
        images.have(targets, self.node.load)
        return tuple(images.image(target) for target in targets)

    def check(self) -> None:
        """See there."""
        super(Cluster, self).check()
        requirements.check([self.home, cache.folder()], node.HIDDEN)

    def _start(self) -> None:
        whole = Daemons(self.home).any("etcd") and self.node.init()
        if not whole:
            self._stop()
        place = network.remembered(self.home) if whole else self.node.enter()
        access = control_plane.start(Place(self.home, place.host, place.services, place.service))
        self.node.start(place, access)

    def _stop(self) -> None:
        self.node.stop()
        control_plane.stop(self.home)

    def _host(self) -> str | None:
        return network.remembered(self.home).host


def _env(kubeconfig: Path) -> dict[str, str]:
    return {"KUBECONFIG": str(kubeconfig), EXISTING: str(kubeconfig)}


KINDS: tuple[type[ControlPlane], ...] = (ControlPlane, Cluster)
"""Both may run side by side under one state folder."""
