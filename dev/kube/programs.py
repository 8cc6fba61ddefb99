"""The programs of a cluster, built once per machine from pinned Go modules.

Each folder under ``go/`` is a separate module: in one module with Kubernetes, CoreDNS and Helm
would change the versions of dozens of its dependencies. 1.36 is the newest Kubernetes that works
with the containerd 1.6 of Debian 12; 1.37 requires containerd 2.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from dev.servers import cache

KUBERNETES = "1.36.3"
HELM = "v3.22.0"
SOURCES = Path(__file__).resolve().parent / "go"

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kubectl")
NODE = ("kubelet", "kube-proxy", "kube-scheduler")

_MINOR = KUBERNETES.split(".")[1]
_STAMPS = {
    "k8s.io/component-base/version.gitVersion": f"v{KUBERNETES}",
    "k8s.io/component-base/version.gitMajor": "1",
    "k8s.io/component-base/version.gitMinor": _MINOR,
    "k8s.io/component-base/version.gitTreeState": "clean",
    "k8s.io/client-go/pkg/version.gitVersion": f"v{KUBERNETES}",
}
# Without these stamps the programs report the version v0.0.0-master, and their checks of each
# other's version fail.
_STAMPED = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in _STAMPS.items())])


def control_plane() -> Path:
    """The folder of etcd, kube-apiserver, kube-controller-manager and kubectl."""
    packages = [
        "go.etcd.io/etcd/server/v3",
        *(f"k8s.io/kubernetes/cmd/{name}" for name in CONTROL_PLANE),
    ]

    def build(folder: Path) -> None:
        _go("kubernetes", folder, packages, _STAMPED)
        (folder / "server").rename(folder / "etcd")

    announcement = (
        f"building Kubernetes {KUBERNETES}'s control plane with go (once, five to ten minutes)"
    )
    return cache.built(
        f"kubernetes-{KUBERNETES}-control-plane",
        _recipe("kubernetes", packages),
        build,
        announcement,
    )


def node() -> Path:
    """The folder of kubelet, kube-proxy, kube-scheduler, coredns and the init process ``pause``."""
    packages = [f"k8s.io/kubernetes/cmd/{name}" for name in NODE]

    def build(folder: Path) -> None:
        pause = cache.tool("catatonit", "a cluster with a node", "catatonit")
        _go("kubernetes", folder, packages, _STAMPED)
        _go("coredns", folder, ["."], "-s -w")
        shutil.copy(pause, folder / "pause")

    announcement = f"building Kubernetes {KUBERNETES}'s node with go (once, two to five minutes)"
    recipe = _recipe("kubernetes", packages) + _recipe("coredns", [])
    return cache.built(f"kubernetes-{KUBERNETES}-node", recipe, build, announcement)


def helm() -> Path:
    """The folder of helm."""
    package = "helm.sh/helm/v3/cmd/helm"
    announcement = "building Helm with go (once, one to three minutes)"

    def build(folder: Path) -> None:
        _go("helm", folder, [package], f"-s -w -X helm.sh/helm/v3/internal/version.version={HELM}")

    return cache.built(f"helm-{HELM}", _recipe("helm", [package]), build, announcement)


def network_policies() -> Path:
    """A program that enforces NetworkPolicies on the node: kube-router's controller of them."""
    announcement = "building kube-router's controller of NetworkPolicies with go (once, a minute)"

    def build(folder: Path) -> None:
        _go("network-policies", folder, ["."], "-s -w")

    built = cache.built("network-policies", _recipe("network-policies", []), build, announcement)
    return built / "network-policies"


def kstatus() -> Path:
    """A program that prints what kstatus computes: what Flux, kpt and Helm wait for."""
    announcement = "building kstatus with go (once, half a minute)"

    def build(folder: Path) -> None:
        _go("kstatus", folder, ["."], "-s -w")

    return cache.built("kstatus", _recipe("kstatus", []), build, announcement) / "kstatus"


def _go(module: str, folder: Path, packages: Sequence[str], flags: str) -> None:
    """Build all packages in one call, so that shared dependencies are compiled once."""
    go = cache.tool("go", "the first start of a cluster", "golang")
    env = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"}
    cache.run(
        [
            go,
            "build",
            "-C",
            str(SOURCES / module),
            "-trimpath",
            "-ldflags",
            flags,
            "-o",
            f"{folder}/",
            *packages,
        ],
        env,
    )


def _recipe(module: str, packages: Sequence[str]) -> str:
    sources = [file.read_text() for file in sorted((SOURCES / module).glob("*.*"))]
    return "\n".join([*sources, *packages, _STAMPED])
