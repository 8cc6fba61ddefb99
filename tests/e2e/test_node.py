"""``dev/cluster up`` gives a node that runs pods; ``down`` leaves the machine as it was before."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dev.kube import images, network, requirements
from dev.kube.cluster import EXISTING, Cluster
from dev.kube.configuration import PAUSE_IMAGE
from dev.kube.node import CGROUPS, HIDDEN, KERNEL
from dev.servers import cache
from dev.servers.cache import MissingTool
from dev.servers.ports import answers
from tests.support.kubernetes import cluster as kubernetes

NewCluster = Callable[[str], Cluster]


@pytest.fixture
def new_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewCluster]:
    """Creates clusters of the test's own, which it may kill, and stops them after the test."""
    monkeypatch.delenv(EXISTING, raising=False)
    try:
        requirements.check([tmp_path, cache.folder()], HIDDEN)
    except MissingTool as missing:
        pytest.skip(str(missing))
    clusters: list[Cluster] = []

    def make(name: str) -> Cluster:
        clusters.append(Cluster(tmp_path / name))
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.down()


def test_a_pod_runs_and_a_service_reaches_the_api_server(new_cluster: NewCluster) -> None:
    cluster = new_cluster("one")

    kubectl = _up(cluster)

    _run_a_pod(kubectl)
    service = kubectl("get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
    assert answers(service, 443)
    assert list((cluster.home / "log" / "pods").iterdir())


def test_a_second_up_changes_nothing(new_cluster: NewCluster) -> None:
    cluster = new_cluster("one")
    before = cluster.up()

    after = cluster.up()

    assert after == before
    # a daemon that is restarted keeps the log of its former run
    assert not list((cluster.home / "log").glob("*.previous"))


@pytest.mark.full
def test_two_clusters_run_side_by_side(new_cluster: NewCluster) -> None:
    one, other = new_cluster("one"), new_cluster("other")

    hosts = {one.up().host, other.up().host}
    one.down()

    assert len(hosts) == 2
    assert other.status().running


def test_down_leaves_only_logs_and_images(new_cluster: NewCluster) -> None:
    cluster = new_cluster("one")
    before = _machine_state()
    _run_a_pod(_up(cluster))

    cluster.down()

    assert _machine_state() == before
    assert _leftovers(cluster) == []
    assert {path.name for path in cluster.home.iterdir()} == {
        "containerd",
        "lock",
        "log",
        "ports.json",
    }


@pytest.mark.full
@pytest.mark.parametrize("daemon", ["node", "etcd", "containerd", "kubelet"])
def test_up_repairs_a_cluster_with_a_killed_daemon(new_cluster: NewCluster, daemon: str) -> None:
    cluster = new_cluster("one")
    before = _machine_state()
    _run_a_pod(_up(cluster))
    cluster.node.daemons.stop(daemon)

    _run_a_pod(_up(cluster))
    cluster.down()

    assert _machine_state() == before
    assert _leftovers(cluster) == []


@pytest.mark.full
def test_down_cleans_up_after_all_daemons_were_killed(new_cluster: NewCluster) -> None:
    cluster = new_cluster("one")
    before = _machine_state()
    _run_a_pod(_up(cluster))
    for pid in _processes(cluster):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    cluster.down(purge=True)

    assert _machine_state() == before
    assert (_leftovers(cluster), cluster.home.exists()) == ([], False)


@pytest.mark.full
def test_images_are_not_loaded_into_a_cluster_that_the_user_brought(
    new_cluster: NewCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = Path(__file__)
    monkeypatch.setenv(EXISTING, str(kubeconfig))

    with pytest.raises(MissingTool, match="by its own registry"):
        new_cluster("one").load(images.TARGETS)


def _up(cluster: Cluster) -> Callable[..., str]:
    kubeconfig = cluster.up().kubeconfig
    assert kubeconfig
    return kubernetes.Cluster(Path(kubeconfig)).kubectl


def _run_a_pod(kubectl: Callable[..., str]) -> None:
    metadata = {"generateName": "pod-", "namespace": "default"}
    container = {"name": "c", "image": PAUSE_IMAGE}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container]},
    }
    created = kubectl("create", "-f", "-", "-o", "name", manifest=pod).strip()
    kubectl("wait", "--for=condition=Ready", created, "--timeout=120s")


def _processes(cluster: Cluster) -> list[int]:
    return sorted(cluster.node.daemons.pids())


def _leftovers(cluster: Cluster) -> list[object]:
    """The processes, network links and cgroups of a cluster that still exist."""
    cgroups = [*CGROUPS.glob(f"*/{cluster.node.cgroup}"), *CGROUPS.glob(cluster.node.cgroup)]
    return [*_processes(cluster), *network.links(cluster.home), *cgroups]


def _machine_state() -> dict[str, str]:
    """Everything of this machine that a node may change: settings, mounts, iptables rules."""
    settings = {name: Path("/proc/sys", name).read_text() for name in KERNEL}
    mounts = [
        line
        for line in Path("/proc/self/mounts").read_text().splitlines()
        if "landfall" in line.split()[0]
    ]
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False).stdout
    ours = "\n".join(line for line in rules.splitlines() if "KUBE" in line or "CNI" in line)
    return {**settings, "mounts": "\n".join(mounts), "rules": ours}
