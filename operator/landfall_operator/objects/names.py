"""What a group's objects are called and how they are labelled: always the same, so that what exists is found again. Pure.

A group has one each of most things, ``<group>-driver``; a Deployment and a ConfigMap per revision,
``<group>-<revision>``.
"""

from collections.abc import Mapping
from typing import Any

API_VERSION = "landfall.dev/v1alpha1"
GROUP_LABEL = "landfall.dev/group"
ROLE_LABEL = "landfall.dev/role"
REVISION_LABEL = "landfall.dev/revision"
DIGEST_ANNOTATION = "landfall.dev/digest"
"""Of the spec a driver was made from."""
HASH_ANNOTATION = "landfall.dev/hash"
"""Of an object as it was applied."""
FINALIZER = "landfall.dev/drain"
"""Keeps a group until its driver has drained."""
OPERATOR = "landfall-operator"


def driver_name(group: str) -> str:
    """Of whatever all drivers of a group share."""
    return f"{group}-driver"


def control_name(group: str) -> str:
    """Of the Secret with the control token."""
    return f"{group}-control"


def revision_name(group: str, revision: str) -> str:
    """Of a revision's Deployment and ConfigMap."""
    return f"{group}-{revision}"


def record_name(group: str, digest: str) -> str:
    """Of a spec's ControllerRevision."""
    return f"{group}-{digest}"


def labels(group: str, role: str | None = None, revision: str | None = None) -> dict[str, str]:
    """Labels of an object of a group, or of a pod in a role."""
    made = {
        "app.kubernetes.io/name": "landfall",
        "app.kubernetes.io/instance": group,
        "app.kubernetes.io/managed-by": OPERATOR,
        **selector(group, role, revision),
    }
    return {**made, "app.kubernetes.io/component": role} if role else made


def selector(group: str, role: str | None = None, revision: str | None = None) -> dict[str, str]:
    """The labels that things are found by."""
    parts = {GROUP_LABEL: group, ROLE_LABEL: role, REVISION_LABEL: revision}
    return {key: value for key, value in parts.items() if value}


def scale_selector(group: str) -> str:
    """Pods of executors, as the scale subresource writes it."""
    return ",".join(f"{key}={value}" for key, value in selector(group, "executor").items())


def reference(manifest: Mapping[str, Any]) -> str:
    """``Kind/name``."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"
