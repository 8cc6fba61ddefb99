"""etcd, kube-apiserver and kube-controller-manager: a Kubernetes API without a node and pods.

It listens on loopback and needs no root, unless a node needs another address. Its objects last as
long as the etcd process: etcd does not fsync, processes are killed rather than stopped, and a start
without a running etcd begins with no objects.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.kube import programs
from dev.kube.access import ClusterAccess
from dev.kube.certificates import Authority
from dev.kube.daemons import Daemons
from dev.servers.ports import chosen

LOOPBACK = "127.0.0.1"
NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
API_CLIENT = "kube-apiserver-client"
AUDIT_POLICY = Path(__file__).with_name("audit.yaml")


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The folder and the addresses of a control plane.

    Attributes:
        home: The folder of everything that belongs to the cluster.
        host: The address of the API server; loopback without a node.
        services: The address range of Services.
        service: The first address of the range, which is the Service of the API server.
    """

    home: Path
    host: str = LOOPBACK
    services: str = "10.96.0.0/24"
    service: str = "10.96.0.1"


def start(endpoints: Endpoints) -> ClusterAccess:
    """Ensure that the control plane runs and that the default namespace has its ServiceAccount.

    If etcd does not run, call ``stop`` first.

    Raises:
        Missing: A program is missing or does not start.
    """
    folder = programs.control_plane()
    daemons = Daemons(endpoints.home)
    api, client, peer = chosen(endpoints.home / "ports.json", 3, LOOPBACK, keep=daemons.any("etcd"))
    access = ClusterAccess(endpoints.home, f"https://{endpoints.host}:{api}")
    _certificates(endpoints)
    access.write()
    daemons.start("etcd", _etcd(endpoints, folder, client, peer))
    if daemons.start("apiserver", _apiserver(endpoints, folder, access, (api, client))):
        daemons.stop("controller-manager")
    daemons.wait("apiserver", access.ready)
    # Last, because it exits at once if the API server does not answer.
    daemons.start("controller-manager", _controller_manager(endpoints, folder, access))
    daemons.wait(
        "controller-manager",
        lambda: access.exists("/api/v1/namespaces/default/serviceaccounts/default"),
    )
    return access


def running(home: Path) -> ClusterAccess | None:
    """Access to the control plane; None if it is not ready."""
    kubeconfig = home / "admin.kubeconfig"
    if not kubeconfig.exists():
        return None
    access = ClusterAccess(
        home, json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    )
    return access if access.ready() else None


def audit_log(home: Path) -> Path:
    """The audit log of requests by ServiceAccounts, one JSON object a line."""
    return home / "log" / "audit.log"


def stop(home: Path) -> None:
    """Stop the control plane and delete everything except its logs."""
    Daemons(home).stop()
    for folder in ("etcd", "pki"):
        shutil.rmtree(home / folder, ignore_errors=True)
    for kubeconfig in home.glob("*.kubeconfig"):
        kubeconfig.unlink()


def command(program: Path, flags: Mapping[str, str]) -> list[str]:
    """The command line of a program with flags."""
    return [str(program), *(f"--{name}={value}" for name, value in flags.items())]


def _certificates(endpoints: Endpoints) -> None:
    authority = Authority(endpoints.home / "pki")
    addresses = dict.fromkeys((LOOPBACK, endpoints.host, endpoints.service))
    authority.server(
        "apiserver",
        [*(f"DNS:{name}" for name in NAMES), *(f"IP:{address}" for address in addresses)],
    )
    # One certificate for kubelets, which check its group, and for extension API servers, which
    # check its name.
    authority.client(API_CLIENT, "system:masters")
    authority.signing_key("service-accounts")


def _etcd(endpoints: Endpoints, folder: Path, client: int, peer: int) -> list[str]:
    client_url, peer_url = f"http://{LOOPBACK}:{client}", f"http://{LOOPBACK}:{peer}"
    flags = {
        "name": "landfall",
        "data-dir": f"{endpoints.home}/etcd",
        "log-level": "warn",
        "listen-client-urls": client_url,
        "advertise-client-urls": client_url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"landfall={peer_url}",
    }
    return [*command(folder / "etcd", flags), "--unsafe-no-fsync"]


def _apiserver(
    endpoints: Endpoints, folder: Path, access: ClusterAccess, ports: tuple[int, int]
) -> list[str]:
    pki, (api, etcd) = endpoints.home / "pki", ports
    flags = {
        "etcd-servers": f"http://{LOOPBACK}:{etcd}",
        "bind-address": endpoints.host,
        "advertise-address": endpoints.host,
        "secure-port": str(api),
        # The kubernetes Service must not point to loopback: for a pod, that is the pod itself.
        "endpoint-reconciler-type": "none" if endpoints.host == LOOPBACK else "master-count",
        "service-cluster-ip-range": endpoints.services,
        "tls-cert-file": f"{pki}/apiserver.crt",
        "tls-private-key-file": f"{pki}/apiserver.key",
        "token-auth-file": str(access.tokens),
        "client-ca-file": f"{pki}/ca.crt",
        "kubelet-client-certificate": f"{pki}/{API_CLIENT}.crt",
        "kubelet-client-key": f"{pki}/{API_CLIENT}.key",
        "kubelet-certificate-authority": f"{pki}/ca.crt",
        # The name of the node cannot be resolved on this machine.
        "kubelet-preferred-address-types": "InternalIP",
        # Without these six flags the controller manager logs errors forever and starts late.
        "requestheader-client-ca-file": f"{pki}/ca.crt",
        "requestheader-allowed-names": API_CLIENT,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": f"{pki}/{API_CLIENT}.crt",
        "proxy-client-key-file": f"{pki}/{API_CLIENT}.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": f"{pki}/service-accounts.pub",
        "service-account-signing-key-file": f"{pki}/service-accounts.key",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "audit-policy-file": str(AUDIT_POLICY),
        "audit-log-path": str(audit_log(endpoints.home)),
        "audit-log-maxsize": "1000",
        "audit-log-maxbackup": "1",
        "allow-privileged": "true",
        "profiling": "false",
    }
    return command(folder / "kube-apiserver", flags)


def _controller_manager(endpoints: Endpoints, folder: Path, access: ClusterAccess) -> list[str]:
    flags = {
        "kubeconfig": str(access.kubeconfig("controller-manager")),
        "secure-port": "0",
        "leader-elect": "false",
        # At the default rate limit it takes six seconds to start.
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        "use-service-account-credentials": "true",
        "root-ca-file": f"{endpoints.home}/pki/ca.crt",
        "service-account-private-key-file": f"{endpoints.home}/pki/service-accounts.key",
        "profiling": "false",
    }
    return command(folder / "kube-controller-manager", flags)
