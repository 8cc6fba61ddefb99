"""What a machine must have for a node, and how to get what it lacks."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from dev.kube.daemons import SYSTEM_PATH
from dev.servers.cache import Missing

PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
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
"""Debian's package of each program."""

TRIAL = "mkdir lower upper work all && mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work landfall all"
CGROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
"""The old hierarchy's, else the unified one's."""

CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
CNI_PACKAGE = "containernetworking-plugins"


def program(name: str) -> str:
    """The path of a program.

    Raises:
        Missing: it is not there.
    """
    found = shutil.which(name, path=SYSTEM_PATH)
    if not found:
        raise Missing(f"`{name}` is not there (Debian: apt-get install {PACKAGES.get(name, name)})")
    return found


def cni_programs() -> str:
    """The folder of the network plug-ins.

    Raises:
        Missing: there is none.
    """
    found = next((folder for folder in CNI_FOLDERS if Path(folder, "bridge").exists()), None)
    if found is None:
        raise Missing(
            f"no network plug-ins in {' or '.join(CNI_FOLDERS)} (Debian: apt-get install {CNI_PACKAGE})"
        )
    return found


def missing_packages() -> list[str]:
    """Debian's packages that a node and the building of images need, and that are not there."""
    missing = [PACKAGES[name] for name in PACKAGES if not shutil.which(name, path=SYSTEM_PATH)]
    missing += [CNI_PACKAGE] * (not any(Path(folder, "bridge").exists() for folder in CNI_FOLDERS))
    return list(dict.fromkeys(missing))


def check(folders: Iterable[Path], hidden: Iterable[str]) -> None:
    """Let a node be started here.

    Args:
        folders: that the node's programs must see.
        hidden: folders of the machine that they do not see.

    Raises:
        Missing: says everything that is in the way, at once.
    """
    lacks, missing = [], missing_packages()
    if os.geteuid() != 0:
        lacks.append("root (without it: `dev/cluster up --control-plane`, which runs no pod)")
    if missing:
        lacks.append(f"programs: apt-get install --no-install-recommends {' '.join(missing)}")
    for folder in folders:
        lacks += [
            f"{folder} elsewhere: below {top} it is hidden from the node"
            for top in hidden
            if _below(folder, top)
        ]
    lacks += [refusal for folder in [*folders][:1] if not lacks and (refusal := _refused(folder))]
    if lacks:
        raise Missing("a cluster with a node needs\n" + "\n".join(f"  {lack}" for lack in lacks))


def _refused(folder: Path) -> str | None:
    """What a container or sandbox around us denies: namespaces, overlay mounts below this folder, or cgroups."""
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
        return f"namespaces with mounts of their own, which are denied: {done.stderr.strip()}"
    cgroups = next((path for path in CGROUPS if path.is_dir()), None)
    return (
        None
        if cgroups and os.access(cgroups, os.W_OK)
        else f"cgroups: {CGROUPS[-1]} cannot be written"
    )


def _below(folder: Path, top: str) -> bool:
    return folder.resolve().is_relative_to(Path(top).resolve())
