"""The one node: containerd, kubelet, kube-proxy, CoreDNS and every pod, in namespaces of their own.

One process, ``pause``, is the first in a process, mount and network namespace; killing it ends
every process, mount and interface of the node. What these programs write outside the folders we can
name lands on memory-backed file systems that only they see, and the kernel settings the kubelet
wants changed are files laid over the real ones: the machine stays as it is. What is left are
cgroups, which ``stop`` removes. To containerd and kubelet a stop looks like a reboot.
"""

import hashlib
import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dev.kube import configuration, network, programs
from dev.kube.access import NODE, Access
from dev.kube.archive import Layout
from dev.kube.certificates import Authority
from dev.kube.configuration import PAUSE_IMAGE, SOCKET
from dev.kube.control_plane import command
from dev.kube.daemons import Daemons
from dev.kube.network import Network
from dev.kube.requirements import cni_programs, program
from dev.servers.cache import Missing
from dev.servers.ports import answers, write

HIDDEN = ("/run", "/var/lib", "/var/log")
"""Folders of the machine that the node does not see."""

MOUNTS = {
    "containerd": "/var/lib/containerd",
    "kubelet": "/var/lib/kubelet",
    "log/pods": "/var/log/pods",
}
"""Folders of the home, and where the node has them."""

KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
}
"""What the kubelet insists on."""

CGROUPS = Path("/sys/fs/cgroup")
SHARES = 8
"""Processor time for all pods together where it is short, in shares of an ordinary process."""


@dataclass(frozen=True, slots=True)
class Node:
    """The node under a home."""

    home: Path

    @property
    def daemons(self) -> Daemons:
        """All of the cluster."""
        return Daemons(self.home)

    def init(self) -> int | None:
        """Process id of the first process in its namespaces, once they are furnished."""
        return self.daemons.pid("node", [str(programs.node() / "pause"), "-P"])

    def enter(self) -> Network:
        """Have the namespaces, the folders in them, and the link to them."""
        for folder in MOUNTS:
            (self.home / folder).mkdir(parents=True, exist_ok=True)
        namespaces = [
            "--pid",
            "--fork",
            "--kill-child",
            "--mount",
            "--propagation",
            "private",
            "--mount-proc",
            "--net",
        ]
        self.daemons.start("node", [program("unshare"), *namespaces, "sh", "-ec", self._furnish()])
        self.daemons.wait("node", lambda: self.init() is not None)
        return network.claim(self.home, self._init())

    def start(self, place: Network, access: Access) -> None:
        """Have a node that is ready for pods; the control plane runs already."""
        self._configure(place)
        for path, manifest in configuration.dns_rights().items():
            access.apply(path, manifest)
        self._start_containerd()
        self._start_kubernetes(place, access)
        self.daemons.wait("kubelet", lambda: _is_ready(access))
        self.daemons.wait("coredns", lambda: answers(place.node, 53))
        # the whole way: our route, the node's rules for Services, and back to the API server
        self.daemons.wait("kube-proxy", lambda: answers(place.service, 443))

    def stop(self) -> None:
        """Have nothing of it left but its logs and images."""
        self.daemons.stop()
        network.release(self.home)
        for top in (*CGROUPS.glob(f"*/{self.cgroup}"), *CGROUPS.glob(self.cgroup)):
            _remove_cgroups(top)
        for name in ("kubelet", "config", "kernel"):
            shutil.rmtree(self.home / name, ignore_errors=True)

    def inside(self) -> list[str]:
        """What runs the rest of a command line in the node.

        Raises:
            Missing: the node does not run.
        """
        return ["nsenter", "-t", str(self._init()), "-p", "-m", "-n", "--"]

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Containerd's own command line."""
        return subprocess.run(self._ctr(*arguments), capture_output=True, text=True, check=False)

    def images(self) -> dict[str, str]:
        """Digest of each image that is there, by name."""
        lines = self.ctr("images", "list").stdout.splitlines()[1:]
        return {name: digest for name, _, digest, *_ in (line.split() for line in lines)}

    def load(self, layout: Layout, name: str, called: str) -> bool:
        """Have an image there; False when it was already. Layers that are there from another image are not sent again.

        Raises:
            Missing: containerd does not take it.
        """
        if self.images().get(called) == layout.names()[name]:
            return False
        there = self.ctr("content", "list", "--quiet").stdout.split()
        with subprocess.Popen(
            self._ctr("images", "import", "-"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as importing:
            assert importing.stdin
            assert importing.stderr
            with suppress(BrokenPipeError), importing.stdin as tar:
                layout.pack(name, called, tar, without=there)
            said = importing.stderr.read().decode().strip()
        if importing.returncode:
            raise Missing(f"containerd does not take {called}: {said}")
        return True

    @property
    def cgroup(self) -> str:
        """Of all pods."""
        return f"landfall-{hashlib.sha256(str(self.home).encode()).hexdigest()[:12]}"

    def _ctr(self, *arguments: str) -> list[str]:
        return [*self.inside(), program("ctr"), "-a", SOCKET, "-n", "k8s.io", *arguments]

    def _init(self) -> int:
        init = self.init()
        if init is None:
            raise Missing("the cluster has no node running: `dev/cluster up`")
        return init

    def _furnish(self) -> str:
        """The script that the first process runs before it becomes ``pause``."""
        mounts = {f"{self.home}/{ours}": theirs for ours, theirs in MOUNTS.items()}
        (self.home / "kernel").mkdir(exist_ok=True)
        for setting, value in KERNEL.items():
            file = self.home / "kernel" / setting.replace("/", ".")
            write(file, f"{value}\n")
            mounts[str(file)] = f"/proc/sys/{setting}"
        lines = [
            "mount --make-rshared /",
            *(f"mount -t tmpfs -o mode=755 landfall {folder}" for folder in HIDDEN),
            f"mkdir -p {' '.join(MOUNTS.values())}",
            *(f"mount --bind {shlex.quote(ours)} {theirs}" for ours, theirs in mounts.items()),
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            # without this, answers of a Service's pod to a pod beside it would not be translated
            # back
            "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables || true",
            f"exec {shlex.quote(str(programs.node() / 'pause'))} -P",
        ]
        return "\n".join(lines)

    def _configure(self, place: Network) -> None:
        home, config = str(self.home), self.home / "config"
        (config / "cni").mkdir(parents=True, exist_ok=True)
        write(config / "cni" / "landfall.conflist", configuration.cni(place))
        write(config / "containerd.toml", configuration.containerd(cni_programs(), f"{config}/cni"))
        write(config / "kubelet.json", configuration.kubelet(place, home, self.cgroup))
        write(config / "kube-proxy.json", configuration.kube_proxy(place, home))
        write(config / "Corefile", configuration.corefile(place, home))
        write(config / "resolv.conf", f"nameserver {place.node}\n")
        Authority(self.home / "pki").server("kubelet", [f"DNS:{NODE}", f"IP:{place.node}"])
        _make_cgroups(self.cgroup)

    def _start_containerd(self) -> None:
        config = f"{self.home}/config/containerd.toml"
        self.daemons.start("containerd", [program("containerd"), "--config", config], self.inside())
        self.daemons.wait("containerd", lambda: not self.ctr("version").returncode)
        own = Layout(self.home / "config" / "images")
        own.add(PAUSE_IMAGE, programs.node() / "pause", ["/pause", "-P"])
        self.load(own, PAUSE_IMAGE, PAUSE_IMAGE)

    def _start_kubernetes(self, place: Network, access: Access) -> None:
        folder, config = programs.node(), f"{self.home}/config"
        kubelet = {
            "config": f"{config}/kubelet.json",
            "kubeconfig": str(access.kubeconfig("node")),
            "cert-dir": "/var/lib/kubelet/pki",
            "hostname-override": NODE,
            "node-ip": place.node,
        }
        scheduler = {
            "kubeconfig": str(access.kubeconfig("scheduler")),
            "secure-port": "0",
            "leader-elect": "false",
            "profiling": "false",
        }
        inside: dict[str, Sequence[str]] = {
            "kubelet": command(folder / "kubelet", kubelet),
            "kube-proxy": command(folder / "kube-proxy", {"config": f"{config}/kube-proxy.json"}),
            "coredns": [str(folder / "coredns"), "-conf", f"{config}/Corefile"],
        }
        for name, argv in inside.items():
            self.daemons.start(name, argv, self.inside())
        self.daemons.start("scheduler", command(folder / "kube-scheduler", scheduler))


def _is_ready(access: Access) -> bool:
    node = f"/api/v1/nodes/{NODE}"
    if not access.exists(node):
        return False
    conditions = json.loads(access.call("GET", node))["status"].get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _make_cgroups(name: str) -> None:
    """The parent of all pods' cgroups, in each hierarchy there is. The kubelet wants it to exist."""
    unified = (CGROUPS / "cgroup.controllers").exists()
    for top in (
        [CGROUPS]
        if unified
        else [path for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists()]
    ):
        (top / name).mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # in the old hierarchies they begin empty, and with them empty no process may enter
            if not unified and (top / setting).exists():
                (top / name / setting).write_text((top / setting).read_text())
        for setting, usual in (("cpu.shares", 1024), ("cpu.weight", 100)):
            # all pods together are one cgroup: beside the processes of a busy machine they would
            # get the share of one
            if (top / name / setting).exists():
                (top / name / setting).write_text(str(usual * SHARES))


def _remove_cgroups(top: Path) -> None:
    """Once the last process in them is gone, which may take a moment after its namespace has ended.

    Raises:
        Missing: some process stays.
    """
    deadline = time.monotonic() + 60
    while top.exists():
        for folder in (
            *sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True),
            top,
        ):
            with suppress(OSError):
                folder.rmdir()
        if time.monotonic() > deadline:
            raise Missing(f"{top} still has processes")
        time.sleep(0.02)
