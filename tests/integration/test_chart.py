"""The chart renders what a real API server takes, refuses values it does not know, and upgrades
what it installed.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from kubernetes import client

from dev.kube.cluster import EXISTING, ControlPlane
from landfall_operator import settings
from landfall_operator.objects import rbac
from landfall_operator.objects.names import OPERATOR
from tests.support import helm
from tests.support.cluster import Cluster
from tests.support.cluster import Refused as KubectlRefused
from tests.support.helm import CHART, Manifest, Refused, Values, rendered
from tests.support.waiting import eventually

REGISTRY = "registry.example:5000/mirror"
DIGEST = "sha256:" + "0123456789abcdef" * 4
EVERYTHING: Values = {
    "image": {
        "registry": REGISTRY,
        "pullPolicy": "Always",
        "pullSecrets": ["pull"],
        "operator": {"digest": DIGEST},
    },
    "operator": {
        "replicas": 2,
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "podLabels": {"team": "data"},
        "podAnnotations": {"example.com/note": "1"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
            }
        ],
        "priorityClassName": "system-cluster-critical",
        "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    },
    "serviceAccount": {"name": "somebody", "annotations": {"example.com/role": "landfall"}},
    "monitoring": {
        "labels": {"release": "prometheus"},
        "serviceMonitor": {"enabled": True},
        "podMonitor": {"enabled": True},
        "rules": {"enabled": True},
        "dashboard": {"enabled": True, "annotations": {"grafana_folder": "Landfall"}},
    },
}
SCENARIOS: dict[str, Values] = {
    "default": {},
    "some namespaces": {
        "watch": {"namespaces": ["default", "kube-public"]},
        "rbac": {"aggregate": False},
    },
    "air-gapped": {"image": {"registry": REGISTRY, "pullSecrets": ["pull"]}},
    "bare": {
        "crds": {"install": False},
        "rbac": {"create": False, "aggregate": False},
        "serviceAccount": {"create": False},
        "operator": {"networkPolicy": {"enabled": False}},
    },
    "everything": EVERYTHING,
}
scenarios = pytest.mark.parametrize(
    "values", [pytest.param(v, id=name) for name, v in SCENARIOS.items()]
)


def of_kind(kind: str, manifests: list[Manifest]) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def the(kind: str, manifests: list[Manifest]) -> Manifest:
    (found,) = of_kind(kind, manifests)
    return found


def operator_pod(manifests: list[Manifest]) -> Any:
    return the("Deployment", manifests)["spec"]["template"]


def environment(manifests: list[Manifest]) -> dict[str, str]:
    return {
        e["name"]: e["value"]
        for e in operator_pod(manifests)["spec"]["containers"][0]["env"]
        if "value" in e
    }


# --------------------------------------------------------------------------------- what is rendered


@scenarios
def test_a_strict_linter_finds_nothing(values: Values) -> None:
    assert "0 chart(s) failed" in helm.lint(values)


@scenarios
def test_the_api_server_takes_every_object_with_every_field(
    values: Values, control_plane: Cluster, namespace: str
) -> None:
    known = [
        m
        for m in rendered(values, namespace)
        if not m["apiVersion"].startswith("monitoring.coreos.com/")
    ]

    taken = control_plane.kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=chart-test",
        "--dry-run=server",
        "--validate=strict",
        "-f",
        "-",
        manifest={"apiVersion": "v1", "kind": "List", "items": known},
    )

    assert len(taken.splitlines()) == len(known)


@scenarios
def test_pods_meet_the_restricted_standard(
    values: Values, control_plane: Cluster, namespace: str
) -> None:
    restrict(control_plane, namespace)
    account = {"serviceAccountName": "default"}
    manifests = rendered(values, namespace)
    operator = {"apiVersion": "v1", "kind": "Pod", **operator_pod(manifests)}
    operator = {
        **operator,
        "metadata": {"name": "operator"},
        "spec": {**operator["spec"], **account},
    }

    for pod in (operator, the("Pod", manifests)):
        control_plane.kubectl(
            "create", "--dry-run=server", "-n", namespace, "-f", "-", manifest=pod
        )


def restrict(cluster: Cluster, namespace: str) -> None:
    """Have nothing in a namespace that does not meet the standard; the API server hears of the
    label a moment later.
    """
    cluster.kubectl(
        "label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"
    )
    container = {"name": "any", "image": "any", "securityContext": {"privileged": True}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "any"},
        "spec": {"containers": [container]},
    }

    def refusal() -> str:
        try:
            return cluster.kubectl(
                "create", "--dry-run=server", "-n", namespace, "-f", "-", manifest=pod
            )
        except KubectlRefused as refused:
            return str(refused)

    eventually(refusal, lambda said: "PodSecurity" in said)


@scenarios
def test_the_operator_understands_what_it_is_told(values: Values) -> None:
    manifests = rendered(values)
    pod = operator_pod(manifests)

    told = settings.read(
        [], {**environment(manifests), "POD_NAME": "pod", "POD_NAMESPACE": "landfall"}
    )

    assert told.namespaces == tuple(sorted(values.get("watch", {}).get("namespaces", ())))
    assert told.port == pod["spec"]["containers"][0]["ports"][0]["containerPort"]
    assert told.context.operator_labels == the("Service", manifests)["spec"]["selector"]
    assert told.context.operator_labels.items() <= pod["metadata"]["labels"].items()
    assert told.context.operator_labels["app.kubernetes.io/name"] == OPERATOR
    assert told.context.image_pull_secrets == tuple(values.get("image", {}).get("pullSecrets", ()))


def test_one_registry_holds_for_every_image() -> None:
    manifests = rendered(EVERYTHING)
    test_pod = the("Pod", manifests)["spec"]

    images = [
        operator_pod(manifests)["spec"]["containers"][0]["image"],
        test_pod["containers"][0]["image"],
        environment(manifests)["LANDFALL_IMAGE"],
    ]

    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    operator = f"{REGISTRY}/landfall-operator@{DIGEST}"
    assert images == [operator, operator, f"{REGISTRY}/landfall-spark:{version}"]
    assert (
        operator_pod(manifests)["spec"]["imagePullSecrets"]
        == test_pod["imagePullSecrets"]
        == [{"name": "pull"}]
    )


def test_the_test_pod_is_not_taken_for_the_operator() -> None:
    manifests = rendered({})

    selector = the("Service", manifests)["spec"]["selector"]

    assert not selector.items() <= the("Pod", manifests)["metadata"]["labels"].items()


def test_a_budget_of_disruptions_comes_with_the_second_replica() -> None:
    assert of_kind("PodDisruptionBudget", rendered({})) == []
    assert the("PodDisruptionBudget", rendered(EVERYTHING))["spec"]["maxUnavailable"] == 1


# ------------------------------------------------------------------------------------------- rights


def test_by_default_the_operator_may_work_in_all_namespaces() -> None:
    manifests = rendered({"rbac": {"aggregate": False}})

    assert the("ClusterRole", manifests)["rules"] == list(rbac.GROUPS)
    assert [role["metadata"]["namespace"] for role in of_kind("Role", manifests)] == ["landfall"]


def test_with_namespaces_it_may_do_nothing_anywhere_else() -> None:
    manifests = rendered(SCENARIOS["some namespaces"])

    rules = {role["metadata"]["namespace"]: role["rules"] for role in of_kind("Role", manifests)}

    assert of_kind("ClusterRole", manifests) == of_kind("ClusterRoleBinding", manifests) == []
    assert rules == {
        "default": list(rbac.GROUPS),
        "kube-public": list(rbac.GROUPS),
        "landfall": rules["landfall"],
    }
    assert {resource for rule in rules["landfall"] for resource in rule["resources"]} == {"leases"}


@pytest.mark.parametrize("values", [{}, SCENARIOS["some namespaces"]])
def test_every_role_is_bound_to_the_operators_account(values: Values) -> None:
    manifests = rendered(values)
    account = the("ServiceAccount", manifests)["metadata"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    aggregated = {
        m["metadata"]["name"] for m in manifests if "aggregate" in str(m["metadata"].get("labels"))
    }

    bindings = [*of_kind("RoleBinding", manifests), *of_kind("ClusterRoleBinding", manifests)]
    roles = [*of_kind("Role", manifests), *of_kind("ClusterRole", manifests)]

    assert all(binding["subjects"] == [subject] for binding in bindings)
    bound = {(b["metadata"].get("namespace"), b["roleRef"]["name"]) for b in bindings}
    made = {(r["metadata"].get("namespace"), r["metadata"]["name"]) for r in roles}
    assert bound == {(where, name) for where, name in made if name not in aggregated}
    assert operator_pod(manifests)["spec"]["serviceAccountName"] == account["name"]


# --------------------------------------------------------------------------------------- monitoring


def test_nothing_of_the_prometheus_operators_is_made_unless_asked_for() -> None:
    assert [m for m in rendered({}) if m["apiVersion"].startswith("monitoring")] == []


def test_monitors_find_the_ports_and_keep_the_groups_namespace() -> None:
    manifests = rendered(EVERYTHING)
    of_operator, of_drivers = (
        the("ServiceMonitor", manifests)["spec"],
        the("PodMonitor", manifests)["spec"],
    )
    scraped = [of_operator["endpoints"], of_drivers["podMetricsEndpoints"]]

    assert [(e["port"], e["path"], e["honorLabels"]) for (e,) in scraped] == [
        ("http", "/metrics", True)
    ] * 2
    assert (
        of_operator["selector"]["matchLabels"].items()
        <= the("Service", manifests)["metadata"]["labels"].items()
    )
    assert of_drivers["namespaceSelector"] == {"any": True}


def test_drivers_are_scraped_where_they_run() -> None:
    manifests = rendered(
        {**SCENARIOS["some namespaces"], "monitoring": {"podMonitor": {"enabled": True}}}
    )

    assert the("PodMonitor", manifests)["spec"]["namespaceSelector"] == {
        "matchNames": ["default", "kube-public"]
    }


def alerts(**rules: Any) -> dict[str, Manifest]:
    made = the("PrometheusRule", rendered({"monitoring": {"rules": {"enabled": True, **rules}}}))
    return {rule["alert"]: rule for group in made["spec"]["groups"] for rule in group["rules"]}


def test_alerts_are_rendered_as_they_are_tested() -> None:
    groups = yaml.safe_load((CHART / "files/alerts.yaml").read_text())["groups"]

    assert alerts() == {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_alerts_are_changed_and_left_out_by_name() -> None:
    changed = alerts(
        disabled=["LandfallNoCommit"],
        overrides={"LandfallStalled": {"for": "9m", "labels": {"severity": "page"}}},
        labels={"team": "data"},
        runbook="https://wiki/landfall",
    )

    stalled = changed["LandfallStalled"]
    assert "LandfallNoCommit" not in changed
    assert (stalled["for"], stalled["labels"]) == ("9m", {"severity": "page", "team": "data"})
    assert stalled["annotations"]["runbook_url"] == "https://wiki/landfall#landfallstalled"


def test_the_dashboard_arrives_unharmed() -> None:
    config = the("ConfigMap", rendered(EVERYTHING))

    assert orjson.loads(config["data"]["landfall.json"]) == orjson.loads(
        (CHART / "files/dashboard.json").read_bytes()
    )
    assert config["metadata"]["labels"]["grafana_dashboard"] == "1"


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"operator": {"replica": 2}}, ["/operator", "replica"]),
        ({"operator": {"replicas": 3}}, ["/operator/replicas", "2"]),
        ({"image": {"registry": "https://registry.example"}}, ["/image/registry"]),
        ({"image": {"operator": {"digest": "sha256:12"}}}, ["/image/operator/digest"]),
        ({"watch": {"namespaces": "logs"}}, ["/watch/namespaces", "array"]),
        ({"watch": {"namespaces": ["Logs"]}}, ["/watch/namespaces/0", "Logs"]),
        ({"monitoring": {"interval": "often"}}, ["/monitoring/interval"]),
        (
            {"monitoring": {"rules": {"overrides": {"LandfallStalled": {"expression": "1"}}}}},
            ["expression"],
        ),
        (
            {"monitoring": {"rules": {"enabled": True, "disabled": ["Stalled"]}}},
            ["no alert Stalled", "LandfallStalled"],
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_place(values: Values, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        rendered(values)

    assert [word for word in words if word not in str(refused.value)] == []


# ------------------------------------------------------------------------------------- on a cluster


@pytest.fixture
def own_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """An API server that knows nothing of Landfall yet."""
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
    # as an older release had it
    older = '[{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/state"}]'
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
    helm.run(at, namespace, "install", str(CHART))  # finds all as it was
