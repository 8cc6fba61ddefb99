"""A cluster by its state folder: have it up, have it down, or use the one that exists."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dev.kube import control_plane
from dev.servers.cache import Missing, locked
from dev.servers.server import STATE

EXISTING = "LANDFALL_CLUSTER"


@dataclass(frozen=True, slots=True)
class Status:
    """What there is.

    Attributes:
        running: whether the API server answers.
        kubeconfig: of its administrator.
        log: folder of its logs; None for a cluster that is not ours.
        env: what a client's environment needs.
    """

    running: bool
    kubeconfig: str | None = None
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
        """Have it running and answering; one that runs already is left as it is.

        Raises:
            Missing: a program is not there, or something does not start; says which and why.
        """
        if os.environ.get(EXISTING):
            return existing()
        _linux()
        with locked(self.home / "lock"):
            control_plane.start(control_plane.Place(self.home))
        return self.status()

    def down(self) -> None:
        """Have it stopped and its objects forgotten; its logs and ports stay."""
        with locked(self.home / "lock"):
            control_plane.stop(self.home)

    def status(self) -> Status:
        """Whether it runs, and where."""
        if os.environ.get(EXISTING):
            return existing()
        access = control_plane.running(self.home)
        if access is None:
            return Status(running=False)
        return Status(True, str(access.kubeconfig()), str(self.home / "log"), _env(access.kubeconfig()))  # noqa: FBT003


def existing() -> Status:
    """The cluster that the environment names.

    Raises:
        Missing: there is no such file.
    """
    kubeconfig = Path(os.environ[EXISTING]).expanduser().resolve()
    if not kubeconfig.is_file():
        raise Missing(f"{EXISTING}={os.environ[EXISTING]}: no such kubeconfig file")
    return Status(True, str(kubeconfig), None, _env(kubeconfig))  # noqa: FBT003


def _env(kubeconfig: Path) -> dict[str, str]:
    return {"KUBECONFIG": str(kubeconfig), EXISTING: str(kubeconfig)}


def _linux() -> None:
    if sys.platform != "linux":
        raise Missing(f"a cluster needs Linux; elsewhere, name one that exists by {EXISTING}=KUBECONFIG-FILE")
