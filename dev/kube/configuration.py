"""What the node's programs are told. Pure. JSON where they take YAML; paths are those inside the node."""

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
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  # without CAP_SYS_RESOURCE an oom_score_adj below one's own cannot be set
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
    """``containerd.toml``."""
    return CONTAINERD.format(cni_programs=cni_programs, cni_folder=cni_folder)


def cni(network: Network) -> str:
    """A bridge for the pods, without translation of addresses."""
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
    """Its KubeletConfiguration."""
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
            # an image that is collected cannot be pulled again
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
    """Its KubeProxyConfiguration. Conntrack's settings are read-only in a network namespace, so none are asked for."""
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
    """CoreDNS answers for the cluster, and knows nothing else. Answers hold a second: tests are impatient."""
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


def dns_rights() -> dict[str, Mapping[str, Any]]:
    """What CoreDNS may look at, by the path to apply it at."""
    api = "rbac.authorization.k8s.io"
    name = "system:coredns"
    looks = ["list", "watch"]
    role = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["endpoints", "services", "pods", "namespaces"],
                "verbs": looks,
            },
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": looks},
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
