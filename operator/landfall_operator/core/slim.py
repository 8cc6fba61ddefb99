"""What the cache keeps of a Deployment and of a Pod: the fields that decisions need. Pure."""

from collections.abc import Mapping
from typing import Any

from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import CONFIG_VOLUME, CONTROL_VOLUME, KEYS_VOLUME

_VOLUMES = frozenset({CONFIG_VOLUME, CONTROL_VOLUME, KEYS_VOLUME})


def slim_deployment(body: Mapping[str, Any]) -> Json:
    """The fields of a Deployment that ``parsing.driver_of`` reads."""
    spec = body["spec"]
    containers = [
        {"name": c["name"], "image": c.get("image", "")}
        for c in spec["template"]["spec"]["containers"]
    ]
    volumes = spec["template"]["spec"].get("volumes", [])
    conditions = body.get("status", {}).get("conditions", [])
    failures = [
        _pick(c, "type", "status", "message") for c in conditions if c["type"] == "ReplicaFailure"
    ]
    return {
        "metadata": _pick(body["metadata"], "name", "labels", "annotations", "deletionTimestamp"),
        "spec": {
            "replicas": spec.get("replicas", 1),
            "template": {
                "spec": {
                    **_pick(spec["template"]["spec"], "serviceAccountName"),
                    "containers": containers,
                    "volumes": [v for v in volumes if v["name"] in _VOLUMES],
                }
            },
        },
        "status": {"conditions": failures},
    }


def slim_pod(body: Mapping[str, Any]) -> Json:
    """The fields of a driver's pod that ``parsing`` reads."""
    status = body.get("status", {})
    conditions = [
        _pick(c, "type", "status", "reason", "message") for c in status.get("conditions", [])
    ]
    drivers = [c for c in status.get("containerStatuses", []) if c["name"] == "driver"]
    return {
        "metadata": _pick(
            body["metadata"], "name", "uid", "creationTimestamp", "deletionTimestamp"
        ),
        "status": {
            **_pick(status, "phase", "podIP"),
            "conditions": [c for c in conditions if c["type"] in {"PodScheduled", "Ready"}],
            "containerStatuses": [
                _pick(c, "name", "restartCount", "ready", "state", "lastState") for c in drivers
            ],
        },
    }


def _pick(mapping: Mapping[str, Any], *names: str) -> Json:
    return {name: mapping[name] for name in names if name in mapping}
