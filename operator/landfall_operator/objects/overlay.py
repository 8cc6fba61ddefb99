"""Merges a user's pod settings into the pod templates that Landfall generates. Pure.

Mappings are merged key by key. Lists of named items are merged by name: containers field by field,
all other items (environment variables, volumes, mounts by their path) as a whole, where the user's
item replaces Landfall's. Other lists are concatenated.
"""

from collections.abc import Mapping
from typing import Any

from landfall.api.pod_spec import Pod

Json = dict[str, Any]

_MERGED_BY_NAME = {"containers": "name", "initContainers": "name"}
_REPLACED_BY_NAME = {
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "ports": "name",
}


def merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Json:
    """Both mappings merged; where they disagree, ``theirs`` wins."""
    result = dict(ours)
    for key, value in theirs.items():
        result[key] = _merged_value(key, ours[key], value) if key in ours else value
    return result


def overlay(pod: Pod, container: str) -> Json:
    """A user's pod settings as a pod template; ``container`` names Landfall's own container."""
    fields: Json = pod.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
    )
    metadata: Json = {key: fields.pop(key) for key in ("labels", "annotations") if key in fields}
    own: Json = {
        key: fields.pop(key)
        for key in ("env", "volumeMounts", "resources", "imagePullPolicy")
        if key in fields
    }
    for of_others in ("cores", "serviceAccountAnnotations"):
        fields.pop(of_others, None)
    containers: list[Json] = [{"name": container, **own}] if own else []
    for extra in fields.pop("containers", []):
        containers = _by_key(containers, [extra], "name", deep=True)
    if containers:
        fields["containers"] = containers
    return {"metadata": metadata, "spec": fields}


def _merged_value(key: str, ours: Any, theirs: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return merged(ours, theirs)
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return theirs
    if key in _MERGED_BY_NAME:
        return _by_key(ours, theirs, _MERGED_BY_NAME[key], deep=True)
    return (
        _by_key(ours, theirs, _REPLACED_BY_NAME[key], deep=False)
        if key in _REPLACED_BY_NAME
        else [*ours, *theirs]
    )


def _by_key(ours: list[Json], theirs: list[Json], key: str, *, deep: bool) -> list[Json]:
    result = {item[key]: item for item in ours}
    for item in theirs:
        known = result.get(item[key])
        result[item[key]] = merged(known, item) if deep and known else item
    return list(result.values())
