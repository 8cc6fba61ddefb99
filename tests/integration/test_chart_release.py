"""A release of the chart on a real API server: installed, upgraded and uninstalled."""

import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
import yaml
from kubernetes import client

from dev.kube.cluster import EXISTING, ControlPlane
from tests.support.kubernetes import helm
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.groups import Groups, document
from tests.support.kubernetes.helm import CHART, Values
from tests.support.waiting import eventually

GROUPS = "consumergroups.landfall.dev"


@pytest.fixture
def own_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """An API server without Landfall's CustomResourceDefinition."""
    monkeypatch.delenv(EXISTING, raising=False)
    made = ControlPlane(tmp_path / "state")
    kubeconfig = made.up().kubeconfig
    assert kubeconfig
    yield Cluster(Path(kubeconfig))
    made.down()


def test_a_release_is_installed_upgraded_with_its_definition_and_removed_without_its_groups(
    own_cluster: Cluster,
) -> None:
    namespace, at = own_cluster.create_namespace(), own_cluster.kubeconfig
    definition = ("crd", "consumergroups.landfall.dev")

    notes = helm.run(at, namespace, "install", str(CHART))
    (example,) = re.findall(r"<<'YAML'\n(.*?)\n  YAML\n", notes, re.DOTALL)
    group = {
        **yaml.safe_load(example),
        "spec": {**yaml.safe_load(example)["spec"], "state": "Suspended"},
    }
    own_cluster.kubectl("wait", "--for=condition=Established", "--timeout=240s", *definition)
    own_cluster.kubectl("apply", "-n", namespace, "-f", "-", manifest=group)
    # the definition of an older release
    state = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/state"
    older = f'[{{"op": "remove", "path": "{state}"}}]'
    own_cluster.kubectl("patch", *definition, "--type=json", "-p", older)
    helm.run(at, namespace, "upgrade", str(CHART), values={"operator": {"replicas": 2}})
    upgraded = orjson.loads(own_cluster.kubectl("get", *definition, "-o", "json"))
    helm.run(at, namespace, "uninstall")

    assert (
        "state"
        in upgraded["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
            "properties"
        ]
    )
    assert client.AppsV1Api(own_cluster.admin).list_namespaced_deployment(namespace).items == []
    assert "clickstream" in own_cluster.kubectl("get", "consumergroups", "-n", namespace)
    helm.run(at, namespace, "install", str(CHART))  # adopts what the first release left


def test_an_upgrade_that_would_leave_groups_alone_is_refused(own_cluster: Cluster) -> None:
    namespace, at = own_cluster.create_namespace(), own_cluster.kubeconfig
    groups = Groups(own_cluster, own_cluster.create_namespace())
    everywhere: Values = {"watch": {"namespaces": ["*"]}}
    # a release before the label watched all namespaces by default
    helm.run(at, namespace, "install", str(CHART), values=everywhere)
    eventually(lambda: own_cluster.kubectl("get", "crd", "-o", "name"), lambda seen: GROUPS in seen)
    own_cluster.kubectl("wait", "--for=condition=Established", "--timeout=240s", "crd", GROUPS)
    groups.create(document())

    default: Values = {"watch": {"namespaces": []}}
    with pytest.raises(helm.Refused, match=f"label namespace {groups.namespace} ") as refused:
        helm.run(at, namespace, "upgrade", str(CHART), values=default)

    (command,) = re.findall(r"kubectl (label .*)", str(refused.value))
    (option,) = re.findall(r"--set '(.*)'", str(refused.value))
    helm.run(at, namespace, "upgrade", str(CHART), "--set", option)
    own_cluster.kubectl(*command.split())
    notes = helm.run(at, namespace, "upgrade", str(CHART), values=default)
    assert "landfall.dev/watch=true" in notes
    # once it goes by labels, groups elsewhere may be those of another release
    own_cluster.kubectl("label", "namespace", groups.namespace, "landfall.dev/watch-")
    helm.run(at, namespace, "upgrade", str(CHART), values=default)


def test_an_upgrade_that_could_not_command_the_drivers_that_run_is_refused(
    own_cluster: Cluster,
) -> None:
    namespace, at = own_cluster.create_namespace(), own_cluster.kubeconfig
    groups = Groups(own_cluster, own_cluster.create_namespace())
    everywhere: Values = {"watch": {"namespaces": ["*"]}}
    helm.run(at, namespace, "install", str(CHART), values=everywhere)
    eventually(lambda: own_cluster.kubectl("get", "crd", "-o", "name"), lambda seen: GROUPS in seen)
    own_cluster.kubectl("wait", "--for=condition=Established", "--timeout=240s", "crd", GROUPS)
    # the operator of a release that sent tokens
    deployment = ("deployment", f"{helm.RELEASE}-landfall-operator", "-n", namespace)
    own_cluster.kubectl("set", "env", *deployment, "LANDFALL_SIGNING_KEY-")
    helm.run(at, namespace, "upgrade", str(CHART), values=everywhere)  # without groups it may
    own_cluster.kubectl("set", "env", *deployment, "LANDFALL_SIGNING_KEY-")
    groups.create(document())

    with pytest.raises(helm.Refused, match="nothing was changed: drivers of") as refused:
        helm.run(at, namespace, "upgrade", str(CHART), values=everywhere)

    with_tokens, without = re.findall(
        r"--set (compatibility\.bearerTokens=\w+)", str(refused.value)
    )
    assert "secrets" not in roles(own_cluster)
    helm.run(at, namespace, "upgrade", str(CHART), "--set", with_tokens, values=everywhere)
    assert "secrets" in roles(own_cluster)
    helm.run(at, namespace, "upgrade", str(CHART), "--set", without, values=everywhere)
    assert "secrets" not in roles(own_cluster)
    # the operator that runs signs by now: nothing has to be said any more
    helm.run(at, namespace, "upgrade", str(CHART), values=everywhere)


def roles(cluster: Cluster) -> str:
    """The ClusterRoles of the operator."""
    return cluster.kubectl(
        "get", "clusterrole", "-l", f"app.kubernetes.io/instance={helm.RELEASE}", "-o", "json"
    )
