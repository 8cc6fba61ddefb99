"""A watched namespace is deleted and comes back; the operator of several namespaces goes on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from landfall_operator.objects import rbac
from landfall_operator.objects.names import OPERATOR
from tests.support.cluster import Cluster
from tests.support.fake_kubelet import Kubelet
from tests.support.groups import Groups, document, install
from tests.support.operators import PATIENCE, Operators
from tests.support.waiting import eventually

_RBAC = "rbac.authorization.k8s.io"


@dataclass
class Site:
    """An operator's own namespace, which it watches, and another one."""

    cluster: Cluster
    own: Groups
    other: Groups
    operators: Operators

    def allow_in_other(self) -> None:
        """Make the other namespace's Role, as the chart does."""
        name = f"landfall-{self.own.namespace}"
        self.apply(
            _rules("Role", name, rbac.GROUPS, self.other.namespace),
            _binding("Role", name, self.own.namespace, self.other.namespace),
        )

    def allow_finalizers(self) -> None:
        """Make the rights that outlive a namespace, as the chart does."""
        name = f"landfall-{self.own.namespace}"
        self.apply(
            _rules("ClusterRole", name, rbac.FINALIZERS),
            _binding("ClusterRole", name, self.own.namespace),
        )

    def apply(self, *items: dict[str, Any]) -> None:
        manifest = {"apiVersion": "v1", "kind": "List", "items": list(items)}
        self.cluster.kubectl("apply", "-f", "-", manifest=manifest)

    def phase(self, groups: Groups, name: str) -> str:
        return str(groups.read(name).get("status", {}).get("phase"))


def _rules(
    kind: str, name: str, rules: tuple[rbac.Rule, ...], namespace: str = ""
) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    made = {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata}
    return {**made, "rules": list(rules)}


def _binding(kind: str, name: str, account_in: str, namespace: str = "") -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    subject = {"kind": "ServiceAccount", "name": OPERATOR, "namespace": account_in}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [subject],
    }


@pytest.fixture
def site(control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[Site]:
    install(control_plane)
    other = control_plane.create_namespace()
    operators = Operators(control_plane, namespace, tmp_path)
    made = Site(
        control_plane, Groups(control_plane, namespace), Groups(control_plane, other), operators
    )
    operators.allow()
    made.allow_in_other()
    made.allow_finalizers()
    with operators.clearing():
        yield made
    name = f"landfall-{namespace}"
    control_plane.kubectl("delete", "clusterrole,clusterrolebinding", name)
    control_plane.delete_namespace(other)


def test_a_deleted_namespace_goes_and_the_operator_stays(site: Site) -> None:
    lost, kept = f"lost-{uuid4().hex[:6]}", f"kept-{uuid4().hex[:6]}"
    with (
        Kubelet(site.cluster, site.own.namespace).running(),
        Kubelet(site.cluster, site.other.namespace).running(),
    ):
        operator = site.operators.lead("--namespace", site.other.namespace)
        site.own.create(document(kept))
        site.other.create(document(lost))
        eventually(lambda: site.phase(site.own, kept), lambda seen: seen == "Running", PATIENCE)
        eventually(lambda: site.phase(site.other, lost), lambda seen: seen == "Running", PATIENCE)

        site.cluster.delete_namespace(site.other.namespace)

        eventually(
            lambda: site.cluster.has_namespace(site.other.namespace),
            lambda exists: not exists,
            PATIENCE,
        )
        eventually(lambda: watched(operator, site.other.namespace), lambda n: n == 0, PATIENCE)
        site.own.patch(kept, {"spec": {"state": "Suspended"}})
        eventually(lambda: site.phase(site.own, kept), lambda seen: seen == "Suspended", PATIENCE)
        assert operator.popen.poll() is None
        assert watched(operator, site.own.namespace) == 1
        assert operator.metric("landfall_operator_groups") == 1


def test_a_namespace_without_rights_comes_back_with_them(site: Site) -> None:
    name = f"back-{uuid4().hex[:6]}"
    binding = f"rolebinding/landfall-{site.own.namespace}"
    with Kubelet(site.cluster, site.other.namespace).running():
        operator = site.operators.lead("--namespace", site.other.namespace)
        site.other.kubectl("delete", binding)
        eventually(lambda: watched(operator, site.other.namespace), lambda n: n == 0, PATIENCE)
        eventually(lambda: operator.ask("/readyz")[0], lambda code: code == 200, PATIENCE)  # HTTP
        site.other.create(document(name))

        site.allow_in_other()

        eventually(lambda: site.phase(site.other, name), lambda seen: seen == "Running", PATIENCE)
        assert watched(operator, site.other.namespace) == 1
        assert operator.popen.poll() is None


def test_groups_of_a_lost_namespace_are_let_go_when_they_are_deleted(site: Site) -> None:
    name = f"gone-{uuid4().hex[:6]}"
    with Kubelet(site.cluster, site.other.namespace).running():
        site.operators.lead("--namespace", site.other.namespace)
        site.other.create(document(name))
        eventually(lambda: site.phase(site.other, name), lambda seen: seen == "Running", PATIENCE)
        site.other.kubectl("delete", f"rolebinding/landfall-{site.own.namespace}")

        site.other.kubectl("delete", "consumergroup", name, f"--timeout={PATIENCE:.0f}s")

        assert site.other.list() == []


def watched(operator: Any, namespace: str) -> float:
    value: float = operator.metric("landfall_operator_namespace_watched", namespace=namespace)
    return value
