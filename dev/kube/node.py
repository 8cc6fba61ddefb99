"""The node: containerd, kubelet, kube-proxy, CoreDNS and all pods, in separate Linux namespaces.

The process ``pause`` is the init process of a PID, mount and network namespace; killing it ends all
processes, mounts and interfaces of the node. Files that these programs write outside of
configurable folders go to memory-backed file systems that only they see, and files are mounted over
the kernel settings that the kubelet changes: the machine itself is not modified. Only cgroups are
left, which ``stop`` removes. To containerd and kubelet, a stop looks like a reboot.
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
from dev.kube.access import NODE, ClusterAccess
from dev.kube.archive import OciLayout
from dev.kube.certificates import Authority
from dev.kube.configuration import PAUSE_IMAGE, SOCKET
from dev.kube.control_plane import command
from dev.kube.daemons import Daemons
from dev.kube.network import Network
from dev.kube.requirements import cni_programs, program
from dev.servers import cache
from dev.servers.cache import MissingTool
from dev.servers.ports import answers, write

HIDDEN = ("/run", "/var/lib", "/var/log")
"""Folders of the machine that are hidden from the node."""

MOUNTS = {
    "containerd": "/var/lib/containerd",
    "kubelet": "/var/lib/kubelet",
    "log/pods": "/var/log/pods",
}
"""Folders of the home, and where they are mounted in the node."""

KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
}
"""The kernel settings that the kubelet requires."""

POLICIES = "network-policies"
FORGET = (
    "iptables-save -t filter | grep -v -e KUBE-ROUTER -e KUBE-POD-FW -e KUBE-NWPLCY"
    " | iptables-restore -T filter"
)
"""Removes the rules that kube-router has written, and their chains."""

CGROUPS = Path("/sys/fs/cgroup")
SHARES = 8
"""CPU weight of all pods together, as a multiple of an ordinary process's."""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """The node of one cluster."""

    home: Path

    @property
    def daemons(self) -> Daemons:
        """All processes of the cluster."""
        return Daemons(self.home)

    def init(self) -> int | None:
        """The id of the init process of the namespaces; None before they are set up."""
        return self.daemons.pid("node", [str(programs.node() / "pause"), "-P"])

    def enter(self) -> Network:
        """Create the namespaces, the mounts in them, and the network link to them."""
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
        self.daemons.start(
            "node", [program("unshare"), *namespaces, "sh", "-ec", self._setup_script()]
        )
        self.daemons.wait("node", lambda: self.init() is not None)
        return network.claim(self.home, self._init())

    def start(self, block: Network, access: ClusterAccess) -> None:
        """Start a node that is ready for pods; the control plane has to run already."""
        self._configure(block)
        for path, manifest in configuration.rights().items():
            access.apply(path, manifest)
        self._start_containerd()
        self._start_kubernetes(block, access)
        self.daemons.wait("kubelet", lambda: _is_ready(access))
        self.daemons.wait("coredns", lambda: answers(block.node, 53))
        # This proves the whole path: the route, the node's rules for Services, and the API server.
        self.daemons.wait("kube-proxy", lambda: answers(block.service, 443))

    def enforce(self, block: Network, access: ClusterAccess) -> None:
        """Enforce NetworkPolicies on connections that are opened from now on.

        Raises:
            MissingTool: A program is missing, or the node does not run.
        """
        program("ipset")
        argv = [
            str(programs.network_policies()),
            f"-kubeconfig={access.kubeconfig('policies')}",
            f"-node={NODE}",
            f"-services={block.services}",
        ]
        self.daemons.start(POLICIES, argv, self.inside())
        self.daemons.wait(POLICIES, lambda: "KUBE-ROUTER-FORWARD" in self._rules())

    def neglect(self) -> None:
        """Stop enforcing NetworkPolicies.

        Raises:
            MissingTool: The node does not run.
        """
        self.daemons.stop(POLICIES)
        cache.run([*self.inside(), "sh", "-ec", FORGET])

    def _rules(self) -> str:
        argv = [*self.inside(), program("iptables"), "-S", "FORWARD"]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout

    def stop(self) -> None:
        """Remove everything of the node except its logs and images."""
        self.daemons.stop()
        network.release(self.home)
        for top in (*CGROUPS.glob(f"*/{self.cgroup}"), *CGROUPS.glob(self.cgroup)):
            _remove_cgroups(top)
        for name in ("kubelet", "config", "kernel"):
            shutil.rmtree(self.home / name, ignore_errors=True)

    def inside(self) -> list[str]:
        """The prefix of a command line that runs it in the namespaces of the node.

        Raises:
            MissingTool: The node does not run.
        """
        return ["nsenter", "-t", str(self._init()), "-p", "-m", "-n", "--"]

    def ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``ctr``, the command line of containerd."""
        return subprocess.run(self._ctr(*arguments), capture_output=True, text=True, check=False)

    def images(self) -> dict[str, str]:
        """The digest of each image in containerd, by name."""
        lines = self.ctr("images", "list").stdout.splitlines()[1:]
        return {name: digest for name, _, digest, *_ in (line.split() for line in lines)}

    def load(self, layout: OciLayout, name: str, pod_name: str) -> bool:
        """Import an image unless it exists; returns whether it was imported.

        Layers that containerd has from other images are not sent again.

        Raises:
            MissingTool: containerd rejects the image.
        """
        if self.images().get(pod_name) == layout.names()[name]:
            return False
        existing = self.ctr("content", "list", "--quiet").stdout.split()
        with subprocess.Popen(
            self._ctr("images", "import", "-"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as importing:
            assert importing.stdin
            assert importing.stderr
            with suppress(BrokenPipeError), importing.stdin as tar:
                layout.pack(name, pod_name, tar, without=existing)
            output = importing.stderr.read().decode().strip()
        if importing.returncode:
            raise MissingTool(f"containerd rejects {pod_name}: {output}")
        return True

    @property
    def cgroup(self) -> str:
        """The name of the parent cgroup of all pods."""
        return f"landfall-{hashlib.sha256(str(self.home).encode()).hexdigest()[:12]}"

    def _ctr(self, *arguments: str) -> list[str]:
        return [*self.inside(), program("ctr"), "-a", SOCKET, "-n", "k8s.io", *arguments]

    def _init(self) -> int:
        init = self.init()
        if init is None:
            raise MissingTool("the node is not running: start it with `dev/cluster up`")
        return init

    def _setup_script(self) -> str:
        """The script that the init process runs before it becomes ``pause``."""
        mounts = {f"{self.home}/{source}": target for source, target in MOUNTS.items()}
        (self.home / "kernel").mkdir(exist_ok=True)
        for setting, value in KERNEL.items():
            file = self.home / "kernel" / setting.replace("/", ".")
            write(file, f"{value}\n")
            mounts[str(file)] = f"/proc/sys/{setting}"
        lines = [
            "mount --make-rshared /",
            *(f"mount -t tmpfs -o mode=755 landfall {folder}" for folder in HIDDEN),
            f"mkdir -p {' '.join(MOUNTS.values())}",
            *(f"mount --bind {shlex.quote(source)} {target}" for source, target in mounts.items()),
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            # Without this, replies from one pod to another through a Service keep the pod's own
            # address, and the caller rejects them.
            "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables || true",
            f"exec {shlex.quote(str(programs.node() / 'pause'))} -P",
        ]
        return "\n".join(lines)

    def _configure(self, block: Network) -> None:
        home, config = str(self.home), self.home / "config"
        (config / "cni").mkdir(parents=True, exist_ok=True)
        write(config / "cni" / "landfall.conflist", configuration.cni(block))
        write(config / "containerd.toml", configuration.containerd(cni_programs(), f"{config}/cni"))
        write(config / "kubelet.json", configuration.kubelet(block, home, self.cgroup))
        write(config / "kube-proxy.json", configuration.kube_proxy(block, home))
        write(config / "Corefile", configuration.corefile(block, home))
        write(config / "resolv.conf", f"nameserver {block.node}\n")
        Authority(self.home / "pki").server("kubelet", [f"DNS:{NODE}", f"IP:{block.node}"])
        _make_cgroups(self.cgroup)

    def _start_containerd(self) -> None:
        config = f"{self.home}/config/containerd.toml"
        self.daemons.start("containerd", [program("containerd"), "--config", config], self.inside())
        self.daemons.wait("containerd", lambda: not self.ctr("version").returncode)
        own = OciLayout(self.home / "config" / "images")
        own.add(PAUSE_IMAGE, programs.node() / "pause", ["/pause", "-P"])
        self.load(own, PAUSE_IMAGE, PAUSE_IMAGE)

    def _start_kubernetes(self, block: Network, access: ClusterAccess) -> None:
        folder, config = programs.node(), f"{self.home}/config"
        kubelet = {
            "config": f"{config}/kubelet.json",
            "kubeconfig": str(access.kubeconfig("node")),
            "cert-dir": "/var/lib/kubelet/pki",
            "hostname-override": NODE,
            "node-ip": block.node,
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


def _is_ready(access: ClusterAccess) -> bool:
    node = f"/api/v1/nodes/{NODE}"
    if not access.exists(node):
        return False
    conditions = json.loads(access.call("GET", node))["status"].get("conditions", [])
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def _make_cgroups(name: str) -> None:
    """Create the parent cgroup of all pods in each hierarchy; the kubelet requires it to exist."""
    unified = (CGROUPS / "cgroup.controllers").exists()
    for top in (
        [CGROUPS]
        if unified
        else [path for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists()]
    ):
        (top / name).mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            # In cgroup v1 they are empty at first, and no process may join such a cgroup.
            if not unified and (top / setting).exists():
                (top / name / setting).write_text((top / setting).read_text())
        for setting, usual in (("cpu.shares", 1024), ("cpu.weight", 100)):
            # All pods are in one cgroup, which on a busy machine would get no more CPU time than
            # a single process.
            if (top / name / setting).exists():
                (top / name / setting).write_text(str(usual * SHARES))


def _remove_cgroups(top: Path) -> None:
    """Remove a tree of cgroups, after waiting for the last process in it to end.

    Raises:
        MissingTool: A process does not end.
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
            raise MissingTool(f"{top} still has processes")
        time.sleep(0.02)
