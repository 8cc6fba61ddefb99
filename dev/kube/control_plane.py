"""etcd, kube-apiserver and kube-controller-manager: an API that keeps, checks and collects objects, and runs no pod.

On loopback and without root unless a node needs it elsewhere. Its objects live as long as its etcd
does: nothing is fsynced, nothing ends gracefully, and a start without a running etcd begins afresh.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dev.kube import programs
from dev.kube.access import Access
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
class Place:
    """Where a control plane listens.

    Attributes:
        home: the folder of all it has.
        host: address of the API server; loopback without a node.
        services: range of the addresses of Services.
        service: the first of them, which is the API server's own.
    """

    home: Path
    host: str = LOOPBACK
    services: str = "10.96.0.0/24"
    service: str = "10.96.0.1"


def start(place: Place) -> Access:
    """Have it running and ready: the default namespace has its service account. Without etcd, ``stop`` comes first.

    Raises:
        Missing: a program is not there or does not start.
    """
    folder = programs.control_plane()
    daemons = Daemons(place.home)
    api, client, peer = chosen(place.home / "ports.json", 3, LOOPBACK, keep=daemons.any("etcd"))
    access = Access(place.home, f"https://{place.host}:{api}")
    _certificates(place)
    access.write()
    daemons.start("etcd", _etcd(place, folder, client, peer))
    if daemons.start("apiserver", _apiserver(place, folder, access, (api, client))):
        daemons.stop("controller-manager")
    daemons.wait("apiserver", access.ready)
    # only now: it ends at once when the API does not answer
    daemons.start("controller-manager", _controller_manager(place, folder, access))
    daemons.wait(
        "controller-manager",
        lambda: access.exists("/api/v1/namespaces/default/serviceaccounts/default"),
    )
    return access


def running(home: Path) -> Access | None:
    """Access to the control plane, if it is ready."""
    kubeconfig = home / "admin.kubeconfig"
    if not kubeconfig.exists():
        return None
    access = Access(home, json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"])
    return access if access.ready() else None


def audit_log(home: Path) -> Path:
    """Who asked what of the API server, one JSON document a line: service accounts only, see ``audit.yaml``."""
    return home / "log" / "audit.log"


def stop(home: Path) -> None:
    """Have it stopped and forgotten, but for its logs."""
    Daemons(home).stop()
    for folder in ("etcd", "pki"):
        shutil.rmtree(home / folder, ignore_errors=True)
    for kubeconfig in home.glob("*.kubeconfig"):
        kubeconfig.unlink()


def command(program: Path, flags: Mapping[str, str]) -> list[str]:
    """A command line."""
    return [str(program), *(f"--{name}={value}" for name, value in flags.items())]


def _certificates(place: Place) -> None:
    authority = Authority(place.home / "pki")
    addresses = dict.fromkeys((LOOPBACK, place.host, place.service))
    authority.server(
        "apiserver",
        [*(f"DNS:{name}" for name in NAMES), *(f"IP:{address}" for address in addresses)],
    )
    # one certificate for kubelets (which know the group) and for extension servers (which know the
    # name)
    authority.client(API_CLIENT, "system:masters")
    authority.signing_key("service-accounts")


def _etcd(place: Place, folder: Path, client: int, peer: int) -> list[str]:
    here, there = f"http://{LOOPBACK}:{client}", f"http://{LOOPBACK}:{peer}"
    flags = {
        "name": "landfall",
        "data-dir": f"{place.home}/etcd",
        "log-level": "warn",
        "listen-client-urls": here,
        "advertise-client-urls": here,
        "listen-peer-urls": there,
        "initial-advertise-peer-urls": there,
        "initial-cluster": f"landfall={there}",
    }
    return [*command(folder / "etcd", flags), "--unsafe-no-fsync"]


def _apiserver(place: Place, folder: Path, access: Access, ports: tuple[int, int]) -> list[str]:
    pki, (api, etcd) = place.home / "pki", ports
    flags = {
        "etcd-servers": f"http://{LOOPBACK}:{etcd}",
        "bind-address": place.host,
        "advertise-address": place.host,
        "secure-port": str(api),
        # the kubernetes Service must not lead to loopback, which would be each pod's own
        "endpoint-reconciler-type": "none" if place.host == LOOPBACK else "master-count",
        "service-cluster-ip-range": place.services,
        "tls-cert-file": f"{pki}/apiserver.crt",
        "tls-private-key-file": f"{pki}/apiserver.key",
        "token-auth-file": str(access.tokens),
        "client-ca-file": f"{pki}/ca.crt",
        "kubelet-client-certificate": f"{pki}/{API_CLIENT}.crt",
        "kubelet-client-key": f"{pki}/{API_CLIENT}.key",
        "kubelet-certificate-authority": f"{pki}/ca.crt",
        # nothing resolves the node's name here
        "kubelet-preferred-address-types": "InternalIP",
        # without these six the controller manager complains for ever and starts late
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
        "audit-log-path": str(audit_log(place.home)),
        "audit-log-maxsize": "1000",
        "audit-log-maxbackup": "1",
        "allow-privileged": "true",
        "profiling": "false",
    }
    return command(folder / "kube-apiserver", flags)


def _controller_manager(place: Place, folder: Path, access: Access) -> list[str]:
    flags = {
        "kubeconfig": str(access.kubeconfig("controller-manager")),
        "secure-port": "0",
        "leader-elect": "false",
        # at the default rate it takes six seconds to start
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        "use-service-account-credentials": "true",
        "root-ca-file": f"{place.home}/pki/ca.crt",
        "service-account-private-key-file": f"{place.home}/pki/service-accounts.key",
        "profiling": "false",
    }
    return command(folder / "kube-controller-manager", flags)
