"""The configuration files of the node's programs. Pure.

Files that may be YAML are written as JSON, a subset of it. Paths are those inside the node.
"""

import json
from collections.abc import Mapping
from typing import Any

from dev.kube.access import NODE
from dev.kube.network import Network

SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "landfall.local/pause:1"

CONTAINERD = f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # Without CAP_SYS_RESOURCE, a process cannot set an oom_score_adj below its own.
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    discard_unpacked_layers = true
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{cni_programs}}"
    conf_dir = "{{cni_folder}}"
"""


def containerd(cni_programs: str, cni_folder: str) -> str:
    """The content of ``containerd.toml``."""
    return CONTAINERD.format(cni_programs=cni_programs, cni_folder=cni_folder)


def cni(network: Network) -> str:
    """The CNI configuration: a bridge for the pods, without address translation."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": network.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
    }
    plugins = [
        {**bridge, "ipam": addresses},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return _json({"cniVersion": "0.4.0", "name": "landfall", "plugins": plugins})


def kubelet(network: Network, home: str, cgroup: str) -> str:
    """The KubeletConfiguration."""
    return _json(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": network.node,
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "clusterDNS": [network.node],
            "clusterDomain": "cluster.local",
            "resolvConf": f"{home}/config/resolv.conf",
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{home}/pki/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": f"{home}/pki/kubelet.crt",
            "tlsPrivateKeyFile": f"{home}/pki/kubelet.key",
            "oomScoreAdj": 0,
            "healthzBindAddress": "127.0.0.1",
            # Images are never collected: without a registry they could not be pulled again.
            "imageGCHighThresholdPercent": 100,
            "imageMaximumGCAge": "0s",
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
                "nodefs.inodesFree": "1%",
            },
            "nodeStatusUpdateFrequency": "5s",
            "shutdownGracePeriod": "0s",
        }
    )


def kube_proxy(network: Network, home: str) -> str:
    """The KubeProxyConfiguration.

    It changes no conntrack settings, because they are read-only in a network namespace.
    """
    return _json(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "bindAddress": network.node,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "clientConnection": {"kubeconfig": f"{home}/proxy.kubeconfig"},
            "clusterCIDR": network.pods,
            "hostnameOverride": NODE,
            "mode": "iptables",
            "oomScoreAdj": 0,
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
            "iptables": {"minSyncPeriod": "200ms", "syncPeriod": "30s"},
            "nodePortAddresses": [f"{network.node}/32"],
        }
    )


def corefile(network: Network, home: str) -> str:
    """The configuration of CoreDNS: it resolves only names of the cluster.

    Answers are valid for one second, so that tests see changes soon.
    """
    return f"""\
.:53 {{
  bind {network.node}
  errors
  ready 127.0.0.1:8181
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {home}/dns.kubeconfig landfall
    pods insecure
    ttl 1
  }}
  loadbalance
}}
"""


def rights() -> dict[str, Mapping[str, Any]]:
    """The RBAC objects of CoreDNS and the controller of policies, by the path to apply them at."""
    policies = ("networking.k8s.io", ["networkpolicies"])
    return {
        **_reader(
            "system:coredns",
            ("", ["endpoints", "services", "pods", "namespaces"]),
            ("discovery.k8s.io", ["endpointslices"]),
        ),
        **_reader("system:network-policies", ("", ["pods", "namespaces", "nodes"]), policies),
    }


def _reader(name: str, *readable: tuple[str, list[str]]) -> dict[str, Mapping[str, Any]]:
    """The RBAC objects of a user who may read these resources, by their group."""
    api = "rbac.authorization.k8s.io"
    verbs = ["get", "list", "watch"]
    role = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {"apiGroups": [group], "resources": resources, "verbs": verbs}
            for group, resources in readable
        ],
    }
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "User", "name": name, "apiGroup": api}],
    }
    path = f"/apis/{api}/v1"
    return {f"{path}/clusterroles/{name}": role, f"{path}/clusterrolebindings/{name}": binding}


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1) + "\n"
