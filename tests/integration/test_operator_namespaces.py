"""A watched namespace is deleted and comes back; the operator of several namespaces goes on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from landfall_operator.objects import rbac
from landfall_operator.objects.names import OPERATOR
from tests.rights.grants import single
from tests.support.kubernetes.api_audit_log import Account
from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.kubernetes.fake_kubelet import Kubelet
from tests.support.kubernetes.groups import Groups, document, install
from tests.support.kubernetes.helm import rendered
from tests.support.operator.operators import PATIENCE, Operators, Running
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
        eventually(lambda: operator.metric("landfall_operator_groups"), lambda n: n == 1, PATIENCE)


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


@dataclass
class LabelledSite:
    """An operator with what the chart gives it by default, in its own namespace.

    Attributes:
        cluster: The cluster, which all tests share: the label is this test's own.
        label: The label that it looks for, as ``key=value``.
        own: Its own namespace, without the label.
        groups: The groups of a namespace, without the label at first.
        operators: Starts the operator.
    """

    cluster: Cluster
    label: str
    own: str
    groups: Groups
    operators: Operators

    @property
    def role(self) -> str:
        return f"{self.own}-{OPERATOR}"

    def lead(self) -> Running:
        options = ("--namespace-label", self.label, "--namespace-role", self.role)
        running = self.operators.start(*options, everywhere=True)
        running.wait_until_leading()
        return running

    def set_label(self, label: str) -> None:
        self.cluster.kubectl("label", "namespace", self.groups.namespace, label)

    def may(self, verb: str, resource: str) -> bool:
        """Whether the operator has a right in the namespace of the groups."""
        account = f"system:serviceaccount:{self.own}:{OPERATOR}"
        try:
            self.groups.kubectl("auth", "can-i", verb, resource, "--as", account)
        except Refused:
            return False
        return True


@pytest.fixture
def labelled(control_plane: Cluster, namespace: str, tmp_path: Path) -> Iterator[LabelledSite]:
    install(control_plane)
    label = f"landfall.dev/watch=test-{uuid4().hex[:6]}"
    values = {"fullnameOverride": "landfall", "watch": {"label": label}, "crds": {"install": False}}
    kinds = {"ServiceAccount", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    objects = [
        each
        for each in rendered({**values, "rbac": {"aggregate": False}}, namespace)
        if each["kind"] in kinds or "Role" in each["kind"]
    ]
    batch = {"apiVersion": "v1", "kind": "List", "items": objects}
    control_plane.kubectl("apply", "-f", "-", manifest=batch)
    other = control_plane.create_namespace()
    operators = Operators(control_plane, namespace, tmp_path)
    with Kubelet(control_plane, other).running(), operators.clearing():
        yield LabelledSite(control_plane, label, namespace, Groups(control_plane, other), operators)
    control_plane.kubectl("delete", "-f", "-", "--wait=false", manifest=batch)
    control_plane.delete_namespace(other)


def test_a_namespace_is_managed_while_it_has_the_label(labelled: LabelledSite) -> None:
    groups, name = labelled.groups, f"here-{uuid4().hex[:6]}"
    account = Account(labelled.cluster, labelled.own, OPERATOR)

    def phase() -> str:
        return str(groups.read(name).get("status", {}).get("phase"))

    groups.create(document(name))
    operator = labelled.lead()
    unwatched = ("landfall_operator_unwatched_groups", groups.namespace)
    eventually(lambda: operator.metric(unwatched[0], namespace=unwatched[1]), bool, PATIENCE)
    assert "does not manage" in operator.said
    assert phase() == "None"
    assert not labelled.may("list", "configmaps")

    labelled.set_label(labelled.label)

    eventually(phase, lambda seen: seen == "Running", PATIENCE)
    assert labelled.may("list", "configmaps")
    assert operator.metric(unwatched[0], namespace=unwatched[1]) == 0
    assert watched(operator, groups.namespace) == 1

    labelled.set_label("landfall.dev/watch-")
    eventually(lambda: labelled.may("list", "configmaps"), lambda may: not may, PATIENCE)
    groups.patch(name, {"spec": {"state": "Suspended"}})
    eventually(lambda: operator.metric("landfall_operator_groups"), lambda n: n == 0, PATIENCE)
    assert "no longer carries the label" in operator.said
    assert phase() == "Running"

    labelled.set_label(labelled.label)

    eventually(phase, lambda seen: seen == "Suspended", PATIENCE)
    groups.kubectl("delete", "consumergroup", name, f"--timeout={PATIENCE:.0f}s")
    assert operator.popen.poll() is None
    assert [
        request
        for request in account.asked()
        if "ValidatingAdmission" in request.refused
        # Until the operator sees that the label is gone, the policy refuses what it writes there.
        if "does not carry the label" not in request.refused
    ] == []
    needed = {right for right in single(rbac.labelled(labelled.role)) if right.verb != "bind"}
    assert needed <= {request.right for request in account.asked()}


def test_a_labelled_namespace_is_deleted_with_its_groups(labelled: LabelledSite) -> None:
    groups, name = labelled.groups, f"gone-{uuid4().hex[:6]}"
    labelled.set_label(labelled.label)
    operator = labelled.lead()
    groups.create(document(name))
    eventually(
        lambda: groups.read(name).get("status", {}).get("phase"),
        lambda seen: seen == "Running",
        PATIENCE,
    )

    labelled.cluster.delete_namespace(groups.namespace)

    eventually(
        lambda: labelled.cluster.has_namespace(groups.namespace),
        lambda is_there: not is_there,
        PATIENCE,
    )
    eventually(lambda: operator.ask("/readyz")[1], lambda text: "no namespace" in text, PATIENCE)
    assert operator.popen.poll() is None


def watched(operator: Any, namespace: str) -> float:
    value: float = operator.metric("landfall_operator_namespace_watched", namespace=namespace)
    return value
