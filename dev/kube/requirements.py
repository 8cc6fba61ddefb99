"""Requirements of a machine to run a node, and how to install missing ones."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dev.kube.daemons import SYSTEM_PATH
from dev.servers.cache import MissingTool

PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ipset": "ipset",
    "conntrack": "conntrack",
    "catatonit": "catatonit",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "openssl": "openssl",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
}
"""The Debian package of each program."""

TRIAL = (
    "mkdir lower upper work all && "
    "mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work landfall all"
)
CGROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
"""The folder of cgroup v1, else of cgroup v2."""

CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
CNI_PACKAGE = "containernetworking-plugins"


def program(name: str) -> str:
    """The path of a program.

    Raises:
        MissingTool: It is not installed.
    """
    found = shutil.which(name, path=SYSTEM_PATH)
    if not found:
        raise MissingTool(
            f"`{name}` is not installed (Debian: apt-get install {PACKAGES.get(name, name)})"
        )
    return found


def cni_programs() -> str:
    """The folder of the CNI plug-ins.

    Raises:
        MissingTool: They are not installed.
    """
    found = next((folder for folder in CNI_FOLDERS if Path(folder, "bridge").exists()), None)
    if found is None:
        raise MissingTool(
            f"no CNI plug-ins in {' or '.join(CNI_FOLDERS)} (Debian: apt-get install {CNI_PACKAGE})"
        )
    return found


def missing_packages() -> list[str]:
    """The missing Debian packages that a node and the image builds need."""
    missing = [PACKAGES[name] for name in PACKAGES if not shutil.which(name, path=SYSTEM_PATH)]
    missing += [CNI_PACKAGE] * (not any(Path(folder, "bridge").exists() for folder in CNI_FOLDERS))
    return list(dict.fromkeys(missing))


def check(folders: Iterable[Path], hidden: Iterable[str]) -> None:
    """Return if this machine can run a node.

    Args:
        folders: The folders that the node's programs must see.
        hidden: The folders of the machine that are hidden from them.

    Raises:
        MissingTool: It cannot; the message lists everything that is missing.
    """
    lacks, missing = [], missing_packages()
    if os.geteuid() != 0:
        lacks.append("root (without root: `dev/cluster up --control-plane`, which runs no pods)")
    if missing:
        lacks.append(f"programs: apt-get install --no-install-recommends {' '.join(missing)}")
    for folder in folders:
        lacks += [
            f"another place for {folder}: everything below {top} is hidden from the node"
            for top in hidden
            if _below(folder, top)
        ]
    lacks += [problem for folder in [*folders][:1] if not lacks and (problem := _denied(folder))]
    if lacks:
        raise MissingTool(
            "a cluster with a node needs\n" + "\n".join(f"  {lack}" for lack in lacks)
        )


def _denied(folder: Path) -> str | None:
    """Return what the container around us denies: namespaces, mounts, cgroups; None if nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as trial:
        argv = [
            "unshare",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--mount-proc",
            "--net",
            "sh",
            "-ec",
            TRIAL,
        ]
        done = subprocess.run(argv, cwd=trial, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"permission to mount in new namespaces, which is denied: {done.stderr.strip()}"
    cgroups = next((path for path in CGROUPS if path.is_dir()), None)
    return (
        None
        if cgroups and os.access(cgroups, os.W_OK)
        else f"writable cgroups: {CGROUPS[-1]} is read-only"
    )


def _below(folder: Path, top: str) -> bool:
    return folder.resolve().is_relative_to(Path(top).resolve())
