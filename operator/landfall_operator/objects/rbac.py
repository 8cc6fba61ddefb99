"""The least that the operator must be allowed to do: the one place where it is written. Pure.

``GROUPS`` is needed in every namespace with groups (as a Role each, or once as a ClusterRole),
``own`` in the operator's namespace. The chart has the same (``templates/_rights.tpl``), and the
operator's integration tests run with exactly these.

The API server lets nobody give away what they do not have, so the operator has every right of the
Role it makes for drivers (``landfall_operator.objects.manifests``). Secrets it may make, and read
by name; it never lists them.
"""

import sys
from typing import Any

import yaml

from landfall_operator.api.crd import GROUP, PLURAL
from landfall_operator.objects.manifests import DRIVER_RULES
from landfall_operator.objects.names import OPERATOR

Rule = dict[str, list[str]]


def _rule(group: str, resources: str, verbs: str) -> Rule:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


_KEPT = "list watch create patch"
"""Of what is made by server-side apply, which asks for both of the last two, and stays as long as
its group does.
"""

GROUPS: tuple[Rule, ...] = (
    _rule(GROUP, PLURAL, "list watch patch"),
    _rule(GROUP, f"{PLURAL}/status", "patch"),
    *DRIVER_RULES,
    _rule("", "serviceaccounts services", _KEPT),
    _rule("", "configmaps", f"{_KEPT} delete"),
    _rule("", "secrets", "get create"),
    _rule("", "events", "get create patch"),
    _rule("apps", "deployments", f"{_KEPT} delete"),
    _rule("apps", "controllerrevisions", "get list watch create delete"),
    _rule("rbac.authorization.k8s.io", "roles rolebindings", _KEPT),
    _rule("networking.k8s.io", "networkpolicies", _KEPT),
    _rule("policy", "poddisruptionbudgets", _KEPT),
)


def own(lease: str) -> tuple[Rule, ...]:
    """What is needed in the operator's own namespace: its Lease, by name as far as names can be asked for."""
    leases = "coordination.k8s.io", "leases"
    return (_rule(*leases, "create"), {**_rule(*leases, "get update"), "resourceNames": [lease]})


def documents() -> dict[str, Any]:
    """Both, for a Lease of the usual name."""
    return {"groups": list(GROUPS), "own": list(own(OPERATOR))}


def written() -> str:
    """As a YAML document."""
    return yaml.dump(
        documents(), Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120
    )


class _Dumper(yaml.SafeDumper):
    """Writes everything out."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML's signature
        return True


if __name__ == "__main__":
    sys.stdout.write(written())
