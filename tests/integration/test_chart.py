"""The chart renders objects that a real API server accepts, and rejects unknown values."""

import subprocess
from contextlib import suppress
from typing import Any

import pytest
import yaml

from dev.kube import programs
from landfall_operator import settings
from landfall_operator.objects import rbac
from landfall_operator.objects.names import OPERATOR
from landfall_operator.runtime.namespaces import Labelled
from tests.support.kubernetes import helm
from tests.support.kubernetes.chart_values import DIGEST, EVERYTHING, REGISTRY, SCENARIOS
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.cluster import Refused as KubectlRefused
from tests.support.kubernetes.helm import CHART, Manifest, Refused, Values, of_kind, rendered, the
from tests.support.waiting import eventually

scenarios = pytest.mark.parametrize(
    "values", [pytest.param(v, id=name) for name, v in SCENARIOS.items()]
)


def operator_pod(manifests: list[Manifest]) -> Any:
    return the("Deployment", manifests)["spec"]["template"]


def environment(manifests: list[Manifest]) -> dict[str, str]:
    return {
        e["name"]: e["value"]
        for e in operator_pod(manifests)["spec"]["containers"][0]["env"]
        if "value" in e
    }


@scenarios
def test_a_strict_linter_finds_nothing(values: Values) -> None:
    assert "0 chart(s) failed" in helm.lint(values)


@scenarios
def test_the_api_server_accepts_every_object_with_every_field(
    values: Values, control_plane: Cluster, namespace: str
) -> None:
    with suppress(KubectlRefused):  # it may exist
        control_plane.kubectl("create", "namespace", "logs")
    known = [
        m
        for m in rendered(values, namespace)
        if not m["apiVersion"].startswith("monitoring.coreos.com/")
    ]

    accepted = control_plane.kubectl(
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

    assert len(accepted.splitlines()) == len(known)


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
    """Enforce the standard in a namespace; the API server applies the label a moment later."""
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

    eventually(refusal, lambda message: "PodSecurity" in message)


@scenarios
def test_the_operator_reads_the_environment_of_its_pod(values: Values) -> None:
    manifests = rendered(values)
    pod = operator_pod(manifests)

    parsed = settings.read(
        [], {**environment(manifests), "POD_NAME": "pod", "POD_NAMESPACE": "landfall"}
    )

    listed = tuple(values.get("watch", {}).get("namespaces", ()))
    assert parsed.namespaces == (() if listed == ("*",) else listed)
    assert (parsed.labelled is None) == bool(listed)
    assert parsed.port == pod["spec"]["containers"][0]["ports"][0]["containerPort"]
    assert parsed.context.operator_labels == the("Service", manifests)["spec"]["selector"]
    assert parsed.context.operator_labels.items() <= pod["metadata"]["labels"].items()
    assert parsed.context.operator_labels["app.kubernetes.io/name"] == OPERATOR
    assert parsed.context.image_pull_secrets == tuple(
        each["name"] if isinstance(each, dict) else each
        for each in values.get("image", {}).get("pullSecrets", ())
    )
    readers = values.get("drivers", {}).get("networkPolicy", {}).get("from", ())
    assert parsed.context.readers == tuple(readers)


def test_the_operator_gets_the_defaults_of_pods_and_the_selector() -> None:
    values = {
        "watch": {"selector": "wave!=next"},
        "pods": {
            "securityContext": {"runAsNonRoot": True},
            "common": {"labels": {"cost": "data", "role": "any"}},
            "driver": {"labels": {"role": "driver"}},
        },
    }
    container = the("Deployment", rendered(values))["spec"]["template"]["spec"]["containers"][0]
    read = settings.read([], {e["name"]: e["value"] for e in container["env"] if "value" in e})

    assert read.claims.selector.selects({"wave": "next"}) is False
    context = read.context
    assert context.driver.labels == {"cost": "data", "role": "driver"}
    assert context.executor.labels == {"cost": "data", "role": "any"}
    assert context.executor.security_context == {"runAsNonRoot": True}
    plain = the("Deployment", rendered({}))["spec"]["template"]["spec"]["containers"][0]["env"]
    assert "LANDFALL_DRIVER_DEFAULTS" not in {each["name"] for each in plain}


def test_one_registry_applies_to_every_image() -> None:
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


@pytest.mark.parametrize("name", ["nameOverride", "fullnameOverride"])
def test_a_name_that_no_service_can_have_is_refused(name: str) -> None:
    with pytest.raises(Refused, match=name):
        rendered({name: "a.b"})


def test_without_a_registry_nothing_is_installed() -> None:
    with pytest.raises(Refused, match=r"image\.registry is not set.*\n.*install\.md#images"):
        rendered({"image": {"registry": ""}})


def test_a_release_may_have_dots_in_its_name() -> None:
    command = [programs.helm() / "helm", "template", "v1.2", CHART, "--kube-version", "1.36.0"]
    command += ["-s", "templates/service.yaml", "--set", f"image.registry={REGISTRY}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert yaml.safe_load(done.stdout)["metadata"]["name"] == "v1-2-landfall-operator"


def test_the_operator_gets_the_limit_of_rollouts() -> None:
    assert (
        settings.read([], environment(rendered({"operator": {"maxRollouts": 5}}))).max_rollouts == 5
    )


def test_the_operator_gets_the_labels_that_objects_inherit() -> None:
    values = {"pods": {"inheritedLabels": ["team", "example.com/cost"]}}

    context = settings.read([], environment(rendered(values))).context

    assert context.inherited == ("team", "example.com/cost")


def test_the_test_pod_is_not_taken_for_the_operator() -> None:
    manifests = rendered({})

    selector = the("Service", manifests)["spec"]["selector"]

    assert not selector.items() <= the("Pod", manifests)["metadata"]["labels"].items()


def test_a_disruption_budget_comes_with_the_second_replica() -> None:
    assert of_kind("PodDisruptionBudget", rendered({})) == []
    assert the("PodDisruptionBudget", rendered(EVERYTHING))["spec"]["maxUnavailable"] == 1


def cluster_roles(values: Values) -> tuple[dict[str, Any], set[str]]:
    """The rules of the operator's ClusterRoles by name, and those that are bound in the cluster."""
    manifests = rendered({**values, "rbac": {**values.get("rbac", {}), "aggregate": False}})
    rules = {role["metadata"]["name"]: role["rules"] for role in of_kind("ClusterRole", manifests)}
    bindings = of_kind("ClusterRoleBinding", manifests)
    return rules, {binding["roleRef"]["name"] for binding in bindings}


def test_by_default_the_operator_has_no_rights_but_in_namespaces_with_the_label() -> None:
    manifests = rendered({})
    role = f"landfall-{operator_pod(manifests)['spec']['serviceAccountName']}"

    rules, bound = cluster_roles({})

    assert rules == {
        role: list(rbac.GROUPS),
        f"{role}-labelled": list(rbac.labelled(role)),
        f"{role}-finalizers": list(rbac.FINALIZERS),
    }
    assert bound == {f"{role}-labelled", f"{role}-finalizers"}
    account = rbac.Account("landfall", operator_pod(manifests)["spec"]["serviceAccountName"])
    parsed = settings.read([], {**environment(manifests), "POD_NAMESPACE": "landfall"})
    assert parsed.labelled == Labelled("landfall.dev/watch=true", role, account)


def test_for_all_namespaces_the_operator_has_its_rights_in_the_cluster() -> None:
    rules, bound = cluster_roles(SCENARIOS["all namespaces"])

    assert list(rules.values()) == [list(rbac.GROUPS)]
    assert bound == set(rules)


def test_all_namespaces_stand_alone() -> None:
    with pytest.raises(Refused, match="must be the only entry"):
        rendered({"watch": {"namespaces": ["*", "logs"]}})


def test_with_namespaces_it_may_elsewhere_only_let_groups_go() -> None:
    manifests = rendered({**SCENARIOS["some namespaces"], "rbac": {"aggregate": False}})

    rules = {role["metadata"]["namespace"]: role["rules"] for role in of_kind("Role", manifests)}

    assert the("ClusterRole", manifests)["rules"] == list(rbac.FINALIZERS)
    assert rules == {
        "default": list(rbac.GROUPS),
        "logs": list(rbac.GROUPS),
        "landfall": rules["landfall"],
    }
    given = environment(manifests)
    own = rbac.own(given["LANDFALL_LEASE"], given["LANDFALL_SIGNING_KEY"])
    assert rules["landfall"] == list(own)


@pytest.mark.parametrize("scenario", ["all namespaces", "some namespaces"])
@pytest.mark.parametrize("tokens", [None, False, True])
def test_rights_to_secrets_of_groups_are_given_only_for_drivers_that_need_tokens(
    scenario: str, tokens: bool | None
) -> None:
    values = {**SCENARIOS[scenario], "compatibility": {"bearerTokens": tokens}}
    manifests = rendered(values)
    expected = [*rbac.GROUPS, *(rbac.BEARER_TOKENS if tokens else ())]

    roles = [*of_kind("ClusterRole", manifests), *of_kind("Role", manifests)]
    policy = the("ValidatingAdmissionPolicy", manifests)["spec"]["variables"]

    assert expected in [role["rules"] for role in roles]
    assert any(role["rules"][: len(rbac.GROUPS)] == list(rbac.GROUPS) for role in roles)
    (owned,) = (v["expression"] for v in policy if v["name"] == "isOwnedKind")
    assert ("'secrets'" in owned) is bool(tokens)


def test_without_rights_in_the_cluster_there_are_roles_only() -> None:
    values = {"rbac": {"aggregate": False, "finalizers": False}}

    manifests = rendered({**SCENARIOS["some namespaces"], **values})

    assert of_kind("ClusterRole", manifests) == of_kind("ClusterRoleBinding", manifests) == []


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
    # The operator binds itself to the role with its rights, in each namespace with the label.
    by_itself = environment(manifests).get("LANDFALL_NAMESPACE_ROLE")
    assert bound == {(where, name) for where, name in made if name not in {*aggregated, by_itself}}
    assert operator_pod(manifests)["spec"]["serviceAccountName"] == account["name"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"operator": {"replica": 2}}, ["/operator", "replica"]),
        ({"operator": {"replicas": 6}}, ["/operator/replicas", "5"]),
        ({"image": {"registry": "https://registry.example"}}, ["/image/registry"]),
        ({"image": {"operator": {"digest": "sha256:12"}}}, ["/image/operator/digest"]),
        ({"watch": {"namespaces": "logs"}}, ["/watch/namespaces", "array"]),
        ({"watch": {"namespaces": ["Logs"]}}, ["/watch/namespaces/0", "Logs"]),
        ({"watch": {"namespaces": ["kube-system"]}}, ["/watch/namespaces/0"]),
        ({"watch": {"label": "landfall.dev/watch"}}, ["/watch/label"]),
        ({"monitoring": {"interval": "often"}}, ["/monitoring/interval"]),
        (
            {"monitoring": {"rules": {"overrides": {"LandfallStalled": {"expression": "1"}}}}},
            ["expression"],
        ),
        (
            {"monitoring": {"rules": {"enabled": True, "disabled": ["Stalled"]}}},
            ["unknown alert Stalled", "LandfallStalled"],
        ),
    ],
)
def test_a_wrong_value_is_rejected_with_its_path(values: Values, words: list[str]) -> None:
    with pytest.raises(Refused) as refused:
        rendered(values)

    assert [word for word in words if word not in str(refused.value)] == []
