"""Why the kubelet cannot mount the volumes of a pod: a Secret or ConfigMap that is missing. Pure.

A pod that waits for a volume says no more than ``ContainerCreating``. The reason is only in Events
about the pod, in the kubelet's words.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from landfall.api.spec import ConsumerGroup
from landfall_operator.api.reasons import Reason
from landfall_operator.core.snapshot import PodFailure
from landfall_operator.humanize import shortened
from landfall_operator.objects.overlay import Json

FAILED_MOUNT = "FailedMount"
"""The reason of these Events."""
_MAX_LENGTH = 300
_MISSING = re.compile(r'\b(secret|configmap) "([^"]+)" not found')
_MISSING_KEY = re.compile(r"references non-existent (secret|config) key: (\S+)")
_REFERENCES = re.compile(r"[sS]ecretRef$")
"""Fields of a spec that refer to a Secret."""


def mount_failure(events: Iterable[Json]) -> PodFailure | None:
    """What is missing, from the newest Event that says so; None if none does."""
    newest_first = sorted(events, key=_time, reverse=True)
    return next(filter(None, (_failure(str(e.get("message", ""))) for e in newest_first)), None)


def with_field(failure: PodFailure, group: ConsumerGroup | None) -> PodFailure:
    """The failure with the field of the spec that names the Secret, if one does."""
    if failure.reason is not Reason.SECRET_MISSING or group is None:
        return failure
    for name, path in _references(_document(group), "spec"):
        if failure.message == _text("Secret", name):
            return PodFailure(failure.reason, f"Secret {name} of {path} does not exist")
    return failure


def _failure(message: str) -> PodFailure | None:
    if found := _MISSING.search(message):
        is_secret = found[1] == "secret"
        reason = Reason.SECRET_MISSING if is_secret else Reason.CONFIG_ERROR
        return PodFailure(reason, _text("Secret" if is_secret else "ConfigMap", found[2]))
    if found := _MISSING_KEY.search(message):
        reason = Reason.SECRET_MISSING if found[1] == "secret" else Reason.CONFIG_ERROR
        return PodFailure(reason, shortened(f"a volume of the pod {found[0]}", _MAX_LENGTH))
    return None


def _text(kind: str, name: str) -> str:
    return shortened(f"{kind} {name} does not exist", _MAX_LENGTH)


def _time(event: Mapping[str, Any]) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


def _document(group: ConsumerGroup) -> Json:
    return group.spec.model_dump(mode="json", by_alias=True, exclude_none=True)


def _references(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """The names of Secrets in a spec, each with its path."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _references(item, f"{path}[{index}]")
    if not isinstance(value, Mapping):
        return
    for key, item in value.items():
        at = f"{path}.{key}"
        if isinstance(item, str) and key in {"secret", "secretName"}:
            yield item, at
        elif isinstance(item, Mapping) and _REFERENCES.search(key) and "name" in item:
            yield str(item["name"]), at
        else:
            yield from _references(item, at)
