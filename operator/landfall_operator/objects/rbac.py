"""The RBAC rules that the operator needs, and no more: the only place that defines them. Pure.

The operator needs ``GROUPS`` in every namespace with groups (as a Role in each, or once as a
ClusterRole), ``FINALIZERS`` in the whole cluster, and ``own`` in its own namespace. Where it
watches the namespaces that carry a label, it also needs ``labelled`` in the whole cluster: with it,
it binds itself to the ClusterRole with ``GROUPS`` in each of them. The chart
repeats the rules (``templates/_rights.tpl``), and the operator's integration tests run with exactly
these.

The API server prevents privilege escalation: no client can grant rights that it does not have. So
the operator has every right of the Role that it creates for drivers
(``landfall_operator.objects.manifests``). It has no right to Secrets in the namespaces of groups,
except for ``BEARER_TOKENS`` where drivers of an earlier release still run; it never lists them.
"""

import sys
from typing import Any, NamedTuple

from landfall_operator.api.backfill import PLURAL as BACKFILLS
from landfall_operator.api.crd import PLURAL
from landfall_operator.api.definition import GROUP, yaml_text
from landfall_operator.objects import names
from landfall_operator.objects.manifests import DRIVER_RULES
from landfall_operator.objects.names import OPERATOR
from landfall_operator.objects.overlay import Json

Rule = dict[str, list[str]]
BINDING_LABELS = {names.COMPONENT: "namespace-rights"}
"""By these labels the operator finds the RoleBindings that it made for itself."""


class Account(NamedTuple):
    """The ServiceAccount of the operator."""

    namespace: str
    name: str


def _rule(group: str, resources: str, verbs: str) -> Rule:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


_APPLY = "list watch create patch"
"""Verbs for objects that exist as long as their group; server-side apply needs the last two."""

GROUPS: tuple[Rule, ...] = (
    _rule(GROUP, PLURAL, "list watch patch"),
    _rule(GROUP, f"{PLURAL}/status", "patch"),
    _rule(GROUP, BACKFILLS, "list create patch delete"),
    _rule(GROUP, f"{BACKFILLS}/status", "patch"),
    *DRIVER_RULES,
    _rule("", "serviceaccounts services", _APPLY),
    _rule("", "configmaps", f"{_APPLY} delete"),
    _rule("", "events", "get list create patch"),
    _rule("apps", "deployments", f"{_APPLY} delete"),
    _rule("apps", "controllerrevisions", "list watch create delete"),
    _rule("rbac.authorization.k8s.io", "roles rolebindings", _APPLY),
    _rule("networking.k8s.io", "networkpolicies", _APPLY),
    _rule("policy", "poddisruptionbudgets", _APPLY),
)


BEARER_TOKENS: tuple[Rule, ...] = (_rule("", "secrets", "get create"),)
"""The rules, besides ``GROUPS``, to command drivers of releases before the operator signed."""

FINALIZERS: tuple[Rule, ...] = (
    _rule(GROUP, f"{PLURAL} {BACKFILLS}", "list patch"),
    _rule(GROUP, f"{PLURAL}/status", "patch"),
)
"""The rules for the whole cluster where all other rules are in Roles of single namespaces.

A namespace that is deleted loses its RoleBindings first. Without these rights the finalizers of its
groups and backfills could not be removed, and the namespace would never go.
"""


def labelled(role: str) -> tuple[Rule, ...]:
    """The rules for the whole cluster of an operator that watches the namespaces with a label.

    It binds itself to ``role``, the ClusterRole with ``GROUPS``, where the label is, and nowhere
    else: the chart's ValidatingAdmissionPolicy refuses the rest. ``bind`` allows it to grant this
    role's rights, which it does not have itself.
    """
    bind = _rule("rbac.authorization.k8s.io", "clusterroles", "bind")
    return (
        _rule("", "namespaces", "list"),
        _rule("rbac.authorization.k8s.io", "rolebindings", "list create delete"),
        {**bind, "resourceNames": [role]},
    )


def namespace_binding(namespace: str, role: str, account: Account) -> Json:
    """The RoleBinding by which the operator has its rights in a namespace with the label."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {
            "name": role,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": OPERATOR, **BINDING_LABELS},
        },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
        ],
    }


def own(lease: str, signing_key: str = names.SIGNING_KEY) -> tuple[Rule, ...]:
    """The rules for the operator's namespace: its Lease, and the Secret with its key.

    ``create`` is limited by name only in a server-side apply, as which the Secret is created.
    """
    leases = "coordination.k8s.io", "leases"
    return (
        _rule(*leases, "create"),
        {**_rule(*leases, "get update"), "resourceNames": [lease]},
        {**_rule("", "secrets", "get create patch"), "resourceNames": [signing_key]},
    )


def documents() -> dict[str, Any]:
    """All sets of rules, for a Lease with its default name."""
    return {
        "groups": list(GROUPS),
        "bearerTokens": list(BEARER_TOKENS),
        "finalizers": list(FINALIZERS),
        "labelled": list(labelled(f"landfall-{OPERATOR}")),
        "own": list(own(OPERATOR)),
    }


def to_yaml() -> str:
    """All sets of rules as a YAML document."""
    return yaml_text(documents(), flow=None)


if __name__ == "__main__":
    sys.stdout.write(to_yaml())
