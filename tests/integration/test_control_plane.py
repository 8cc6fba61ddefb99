"""``dev/cluster up --control-plane`` behaves as the tests that use it assume."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from dev.kube.cluster import EXISTING, ControlPlane
from dev.kube.daemons import Daemons
from dev.servers.cache import MissingTool
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.waiting import eventually

DAEMONS = ("etcd", "apiserver", "controller-manager")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlPlane]:
    """A control plane that only this test uses, and may stop and kill."""
    monkeypatch.delenv(EXISTING, raising=False)
    made = ControlPlane(tmp_path / "state")
    yield made
    made.down()


def test_owned_objects_are_deleted_with_their_owner(control_plane: Cluster, namespace: str) -> None:
    api = client.CoreV1Api(control_plane.admin)
    owner = api.create_namespaced_config_map(namespace, {"metadata": {"name": "owner"}})
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner.metadata.uid,
    }
    api.create_namespaced_secret(
        namespace, {"metadata": {"name": "owned", "ownerReferences": [reference]}}
    )

    api.delete_namespaced_config_map("owner", namespace)

    eventually(lambda: api.list_namespaced_secret(namespace).items, lambda left: not left)


def test_a_pod_waits_for_a_node(control_plane: Cluster, namespace: str) -> None:
    pod = {"containers": [{"name": "c", "image": "none"}], "restartPolicy": "Never"}
    created = client.CoreV1Api(control_plane.admin).create_namespaced_pod(
        namespace, {"metadata": {"name": "pod"}, "spec": pod}
    )

    assert created.status.phase == "Pending"


def test_an_account_has_only_its_own_rights(control_plane: Cluster, namespace: str) -> None:
    api = client.CoreV1Api(control_plane.as_account(namespace, "default"))

    with pytest.raises(ApiException) as refused:
        api.list_namespaced_pod(namespace)

    assert refused.value.status == 403


def test_kubectl_says_why_it_fails(control_plane: Cluster, namespace: str) -> None:
    with pytest.raises(Refused, match="NotFound"):
        control_plane.kubectl("get", "pod", "nobody", "-n", namespace)


def test_a_second_up_changes_nothing(own: ControlPlane) -> None:
    before = own.up(), _processes(own)

    assert (own.up(), _processes(own)) == before


def test_up_repairs_what_was_killed_and_keeps_the_objects(own: ControlPlane) -> None:
    cluster = Cluster(Path(own.up().kubeconfig or ""))
    name = cluster.create_namespace()
    for daemon in ("apiserver", "controller-manager"):
        Daemons(own.home).stop(daemon)

    own.up()

    assert client.CoreV1Api(cluster.admin).read_namespace(name).metadata.name == name


def test_down_leaves_no_process_and_no_object(own: ControlPlane) -> None:
    name = Cluster(Path(own.up().kubeconfig or "")).create_namespace()

    own.down()

    assert (_processes(own), own.status().running) == ({daemon: [] for daemon in DAEMONS}, False)
    again = Cluster(Path(own.up().kubeconfig or ""))
    assert name not in [
        found.metadata.name for found in client.CoreV1Api(again.admin).list_namespace().items
    ]


def test_an_existing_cluster_is_used(
    control_plane: Cluster, own: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EXISTING, str(control_plane))

    assert (own.up().kubeconfig, _processes(own)["etcd"]) == (str(control_plane), [])


def test_a_missing_kubeconfig_is_named(own: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXISTING, "/nowhere/config")

    with pytest.raises(
        MissingTool, match="LANDFALL_CLUSTER=/nowhere/config: no such kubeconfig file"
    ):
        own.up()


def _processes(cluster: ControlPlane) -> dict[str, list[int]]:
    return {daemon: list(Daemons(cluster.home).pids(daemon)) for daemon in DAEMONS}
