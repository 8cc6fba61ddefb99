"""From what the API server and drivers answer (parsed JSON) to the values of ``observe``. Pure.

Only what is needed is taken, so an index may keep these instead of whole objects. A missing field
is nothing unusual here: Kubernetes leaves out what is empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from landfall.api.contract import ExitCode, Status
from landfall.api.spec import ConsumerGroup, parse_group
from landfall_operator.api.reasons import Reason
from landfall_operator.api.revisions import contract_read
from landfall_operator.api.status import GroupStatus
from landfall_operator.core.snapshot import Driver, PodFailure, Record, Report
from landfall_operator.humanize import shortened
from landfall_operator.objects.names import (
    DIGEST_ANNOTATION,
    HASH_ANNOTATION,
    REVISION_LABEL,
    reference,
)

Json = Mapping[str, Any]

LONGEST = 300

_WAITING: Mapping[str, Reason] = {
    "ErrImagePull": Reason.IMAGE_PULL,
    "ImagePullBackOff": Reason.IMAGE_PULL,
    "ErrImageNeverPull": Reason.IMAGE_PULL,
    "InvalidImageName": Reason.IMAGE_PULL,
    "CreateContainerConfigError": Reason.CONFIG_ERROR,
    "CreateContainerError": Reason.CONFIG_ERROR,
    "RunContainerError": Reason.CONFIG_ERROR,
}
_STATUS = TypeAdapter(Status)
_REASONS: Mapping[str, Reason] = {reason.value: reason for reason in Reason}


def driver_of(deployment: Json, pods: Sequence[Json], report: Report | None) -> Driver:
    """A revision's driver, from its Deployment and the pods of that revision, ending ones too."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    newest = max(
        pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None
    )
    own = _container(newest) if newest else {}
    return Driver(
        revision=metadata["labels"][REVISION_LABEL],
        digest=metadata.get("annotations", {}).get(DIGEST_ANNOTATION, ""),
        image=next(
            c["image"] for c in spec["template"]["spec"]["containers"] if c["name"] == "driver"
        ),
        replicas=spec.get("replicas", 1),
        pods=len(pods),
        restarts=own.get("restartCount", 0),
        terminating="deletionTimestamp" in metadata,
        trouble=trouble_of(newest) if newest else _refused(deployment),
        report=report,
    )


def trouble_of(pod: Json) -> PodFailure | None:
    """Why a driver's pod does not run, in the words of whoever knows best; None when it runs or is on its way."""
    state = _container(pod).get("state", {})
    if "running" in state:
        return None
    waiting = state.get("waiting", {})
    if waiting.get("reason") in _WAITING:
        return PodFailure(
            _WAITING[waiting["reason"]], _short(waiting.get("message") or waiting["reason"])
        )
    ended = state.get("terminated") or _container(pod).get("lastState", {}).get("terminated")
    return _ended(ended) if ended else _unscheduled(pod)


def report_of(body: str | bytes, received: datetime) -> Report | None:
    """What a driver answered to ``/status``; None when that is not a status, as before its first pass."""
    try:
        return Report(_STATUS.validate_json(body), received)
    except ValidationError:
        return None


def status_of(written: Json) -> GroupStatus:
    """The status as it was written last; if another release wrote it, the parts that this one can read."""
    readable = deepcopy(dict(written))
    while True:
        try:
            return GroupStatus.model_validate(readable, by_alias=True)
        except ValidationError as unread:
            fault = unread.errors(include_url=False)[0]
            path = fault["loc"][:-1] if fault["type"] == "missing" else fault["loc"]
            _cut(readable, path)


def _cut(value: Any, path: Sequence[str | int]) -> None:
    """Take out what is at a path, of mappings and lists."""
    for step in path[:-1]:
        value = value[step]
    del value[path[-1]]


def record_of(revision: Json) -> Record:
    """A spec as it was remembered.

    Raises:
        Stalled: SPEC_INVALID, this release no longer reads it.
    """
    return Record(
        number=revision["revision"],
        group=parse_group(revision["data"]["group"]),
        image=revision["data"]["image"],
        made=datetime.fromisoformat(revision["metadata"]["creationTimestamp"]),
    )


def contract_of(config_map: Json) -> ConsumerGroup:
    """The spec that a revision's driver reads.

    Raises:
        Stalled: SPEC_INVALID, this release no longer reads it.
    """
    return contract_read(config_map["data"]["group.json"])


def hashes_of(objects: Iterable[Json]) -> dict[str, str]:
    """What was applied, of the objects that a group owns; objects need their ``kind``."""
    return {
        reference(o): o["metadata"].get("annotations", {}).get(HASH_ANNOTATION, "") for o in objects
    }


def _container(pod: Json) -> Json:
    statuses: list[Json] = pod.get("status", {}).get("containerStatuses", [])
    return next((status for status in statuses if status["name"] == "driver"), {})


def _ended(terminated: Json) -> PodFailure:
    """From a container that ended: its last words are ``REASON: message`` if it had the time."""
    words = (terminated.get("message") or "").strip()
    last = words.rpartition("\n")[2]
    name, colon, message = last.partition(": ")
    if terminated.get("reason") == "OOMKilled":
        return PodFailure(Reason.OUT_OF_MEMORY, "the driver was killed at its memory limit")
    if terminated.get("exitCode") == ExitCode.FENCED:
        return PodFailure(Reason.FENCED, _short(last or "another driver opened the ledger"))
    if colon and name in _REASONS:
        return PodFailure(_REASONS[name], _short(message))
    return PodFailure(
        Reason.CRASH_LOOP,
        _short(f"exit code {terminated.get('exitCode')}: {last}".removesuffix(": ")),
    )


def _unscheduled(pod: Json) -> PodFailure | None:
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return PodFailure(Reason.UNSCHEDULABLE, _short(condition.get("message", "")))
    return None


def _refused(deployment: Json) -> PodFailure | None:
    """Why a Deployment has no pod."""
    for condition in deployment.get("status", {}).get("conditions", []):
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return PodFailure(Reason.POD_REFUSED, _short(condition.get("message", "")))
    return None


def _short(text: str) -> str:
    return shortened(text, LONGEST)
