"""Names and labels of a group's objects; the operator finds what it created by them. Pure.

Objects that all drivers share are named ``<group>-driver``. Each revision has a Deployment named
``<group>-<revision>``, and a ConfigMap named after its content. Formerly that ConfigMap had the
name of its Deployment and was rewritten in place.
"""

from collections.abc import Mapping
from typing import Any

API_VERSION = "landfall.dev/v1alpha1"
GROUP_LABEL = "landfall.dev/group"
ROLE_LABEL = "landfall.dev/role"
REVISION_LABEL = "landfall.dev/revision"
COMPONENT = "app.kubernetes.io/component"
TRIAL = "trial"
"""The component that a Backfill is which the operator made to try a revision."""
DIGEST_ANNOTATION = "landfall.dev/digest"
"""Digest of the spec that a driver was created from."""
HASH_ANNOTATION = "landfall.dev/hash"
"""Hash of an object as it was applied."""
ACCEPT_LEDGER = "landfall.dev/accept-ledger"
"""Annotation of a group that is to continue with the ledger that its driver refuses."""
OPERATOR_ANNOTATION = "landfall.dev/operator"
"""Annotation of a group with the operator that manages it, as namespace/lease."""
FINALIZER = "landfall.dev/drain"
"""Finalizer that keeps a group until its driver has drained."""
RESERVED = "kube-"
"""How the names of Kubernetes' own namespaces begin: the operator does nothing in them."""
OPERATOR = "landfall-operator"
"""The operator's name: field manager, value of managed-by, default name of its Lease."""

SIGNING_KEY = f"{OPERATOR}-key"
"""The default name of the Secret with the key that commands to drivers are signed with."""


def driver_name(group: str) -> str:
    """Name of the objects that all drivers of a group share."""
    return f"{group}-driver"


def executors_name(group: str) -> str:
    """Name of the NetworkPolicy of a group's executors."""
    return f"{group}-executors"


def control_name(group: str) -> str:
    """Name of the Secret with a control token: the user's, or of a driver of an earlier release."""
    return f"{group}-control"


def revision_name(group: str, revision: str) -> str:
    """Name of a revision's Deployment."""
    return f"{group}-{revision}"


def config_name(group: str, content: str) -> str:
    """Name of the ConfigMap that a revision's driver mounts; ``content`` is the hash of its data.

    The group's name does not come first: an operator of the former scheme deletes ConfigMaps whose
    names begin with it, and after a roll-back of the operator drivers may still need this one.
    """
    return f"config-{group}-{content}"


def record_name(group: str, digest: str) -> str:
    """Name of the ControllerRevision of a spec."""
    return f"{group}-{digest}"


def labels(group: str, role: str | None = None, revision: str | None = None) -> dict[str, str]:
    """Labels of an object of a group; with a role, of a pod in that role."""
    all_labels = {
        "app.kubernetes.io/name": "landfall",
        "app.kubernetes.io/instance": group,
        "app.kubernetes.io/managed-by": OPERATOR,
        **selector(group, role, revision),
    }
    return {**all_labels, COMPONENT: role} if role else all_labels


def selector(group: str, role: str | None = None, revision: str | None = None) -> dict[str, str]:
    """The labels that select the objects of a group, or of one role or revision."""
    parts = {GROUP_LABEL: group, ROLE_LABEL: role, REVISION_LABEL: revision}
    return {key: value for key, value in parts.items() if value}


def scale_selector(group: str) -> str:
    """The selector of a group's executor pods, in the notation of the scale subresource."""
    return ",".join(f"{key}={value}" for key, value in selector(group, "executor").items())


def reference(manifest: Mapping[str, Any]) -> str:
    """The object's ``Kind/name``."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def is_reserved(namespace: str) -> bool:
    """Return whether a namespace is Kubernetes' own."""
    return namespace.startswith(RESERVED)


def hash_of(manifest: Mapping[str, Any]) -> str:
    """The hash in an object's annotation; empty if it has none."""
    return str(manifest["metadata"].get("annotations", {}).get(HASH_ANNOTATION, ""))
