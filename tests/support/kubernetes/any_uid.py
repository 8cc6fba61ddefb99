"""Admission as OpenShift's constraint ``restricted-v2`` has it: pods of Landfall get a uid.

A MutatingAdmissionPolicy gives one to pods that ask for none, and a ValidatingAdmissionPolicy
refuses those that ask for another one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.kubernetes.cluster import Cluster, Refused
from tests.support.waiting import eventually

UID = 1000680000
"""As OpenShift gives them: one for each namespace, without a name in the image."""
ANY_USER = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
"""What a pod asks for that takes any uid."""


@contextmanager
def any_uid(cluster: Cluster, *namespaces: str) -> Iterator[None]:
    """The policies for the pods of some namespaces, in force until the end of the block."""
    manifest = {"apiVersion": "v1", "kind": "List", "items": [*_policies(*namespaces)]}
    cluster.kubectl("apply", "-f", "-", manifest=manifest)
    try:
        eventually(lambda: _refuses(cluster, namespaces[0]), bool)
        yield
    finally:
        cluster.kubectl("delete", "-f", "-", manifest=manifest)


def _refuses(cluster: Cluster, namespace: str) -> bool:
    """Whether the API server applies the policies, which it does a moment later."""
    security = {"runAsUser": UID + 1}
    container = {"name": "any", "image": "any"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "any", "namespace": namespace},
        "spec": {"securityContext": security, "containers": [container]},
    }
    try:
        cluster.kubectl("create", "--dry-run=server", "-f", "-", manifest=pod)
    except Refused:
        return True
    return False


def _policies(*namespaces: str) -> Iterator[dict[str, Any]]:
    api, name = "admissionregistration.k8s.io/v1", f"any-uid-{namespaces[0]}"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    matches = {"resourceRules": [{**pods, "operations": ["CREATE"]}]}
    here = {"name": "namespace", "expression": f"object.metadata.namespace in {[*namespaces]}"}
    without = {"name": "uid", "expression": "!has(object.spec.securityContext.runAsUser)"}
    security = f"Object.spec.securityContext{{runAsUser: {UID}, fsGroup: {UID}}}"
    given = f"Object{{spec: Object.spec{{securityContext: {security}}}}}"
    allowed = f"object.spec.?securityContext.?runAsUser.orValue(0) == {UID}"
    common = {"failurePolicy": "Fail", "matchConstraints": matches}
    mutation = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": given}}
    refusal = f"runAsUser: Invalid value: must be in the ranges: [{UID}, {UID + 9999}]"
    specs: dict[str, dict[str, Any]] = {
        "MutatingAdmissionPolicy": {
            **common,
            "reinvocationPolicy": "Never",
            "matchConditions": [here, without],
            "mutations": [mutation],
        },
        "MutatingAdmissionPolicyBinding": {"policyName": name},
        "ValidatingAdmissionPolicy": {
            **common,
            "matchConditions": [here],
            "validations": [{"expression": allowed, "message": refusal}],
        },
        "ValidatingAdmissionPolicyBinding": {"policyName": name, "validationActions": ["Deny"]},
    }
    for kind, spec in specs.items():
        yield {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}
