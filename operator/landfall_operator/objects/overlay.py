"""Merging what a user says of a pod into what Landfall needs of it. Pure.

Mappings are merged key by key. Lists of things that have names are merged by name: containers into
each other, the rest (environment variables, volumes, mounts by their path) one for one, the user's
winning. Other lists are joined.
"""

from collections.abc import Mapping
from typing import Any

from landfall.api.pod_spec import Pod

Json = dict[str, Any]

_INTO_EACH_OTHER = {"containers": "name", "initContainers": "name"}
_ONE_FOR_ONE = {
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "ports": "name",
}


def merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Json:
    """Both, theirs winning."""
    result = dict(ours)
    for key, value in theirs.items():
        result[key] = _combined(key, ours[key], value) if key in ours else value
    return result


def overlay(pod: Pod, container: str) -> Json:
    """A pod template of what the user wrote; ``container`` is the name of ours."""
    said: Json = pod.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
    )
    metadata: Json = {key: said.pop(key) for key in ("labels", "annotations") if key in said}
    own: Json = {
        key: said.pop(key)
        for key in ("env", "volumeMounts", "resources", "imagePullPolicy")
        if key in said
    }
    said.pop("cores", None)
    containers: list[Json] = [{"name": container, **own}] if own else []
    for extra in said.pop("containers", []):
        containers = _by_key(containers, [extra], "name", deep=True)
    if containers:
        said["containers"] = containers
    return {"metadata": metadata, "spec": said}


def _combined(key: str, ours: Any, theirs: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return merged(ours, theirs)
    if not isinstance(ours, list) or not isinstance(theirs, list):
        return theirs
    if key in _INTO_EACH_OTHER:
        return _by_key(ours, theirs, _INTO_EACH_OTHER[key], deep=True)
    return (
        _by_key(ours, theirs, _ONE_FOR_ONE[key], deep=False)
        if key in _ONE_FOR_ONE
        else [*ours, *theirs]
    )


def _by_key(ours: list[Json], theirs: list[Json], key: str, *, deep: bool) -> list[Json]:
    result = {item[key]: item for item in ours}
    for item in theirs:
        known = result.get(item[key])
        result[item[key]] = merged(known, item) if deep and known else item
    return list(result.values())
