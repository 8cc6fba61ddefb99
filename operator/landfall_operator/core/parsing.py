"""Parses the answers of the API server and drivers (JSON) into the values of ``snapshot``. Pure.

Each parser reads only the fields that decisions need, so the cache can drop all other fields. A
missing field is normal: Kubernetes omits empty ones.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter, ValidationError

from landfall.api.contract import (
    OLDEST_VERSION,
    VERSION,
    ExecutorProblem,
    ExitCode,
    Status,
    Workers,
)
from landfall.api.spec import ConsumerGroup, parse_group
from landfall.api.status_summary import summarize
from landfall_operator.api.reasons import BY_WORD, ConditionReason
from landfall_operator.api.revisions import parse_group_file
from landfall_operator.core.snapshot import (
    ExecutorPods,
    GroupObservation,
    PodFailure,
    ReceivedStatus,
    RecordedSpec,
    RevisionDriver,
)
from landfall_operator.humanize import shortened
from landfall_operator.objects.names import (
    DIGEST_ANNOTATION,
    REVISION_LABEL,
)
from landfall_operator.objects.pod_templates import CONFIG_VOLUME

Json = Mapping[str, Any]

MAX_MESSAGE_LENGTH = 300
"""Characters of a message in the status."""

_WAITING_REASONS: Mapping[str, ConditionReason] = {
    "ErrImagePull": ConditionReason.IMAGE_PULL,
    "ImagePullBackOff": ConditionReason.IMAGE_PULL,
    "ErrImageNeverPull": ConditionReason.IMAGE_PULL,
    "InvalidImageName": ConditionReason.IMAGE_PULL,
    "CreateContainerConfigError": ConditionReason.CONFIG_ERROR,
    "CreateContainerError": ConditionReason.CONFIG_ERROR,
    "RunContainerError": ConditionReason.CONFIG_ERROR,
}
"""The kubelet's reasons for a waiting container that does not start without a change."""
_STATUS = TypeAdapter(Status)
_TIMES = frozenset({"time", "last_time", "looked", "began", "ended", "until"})
"""Fields of a driver's status that the operator reads as times."""
_MAX_NUMBER = 2**63 - 1
"""The greatest number that the API server takes."""


def driver_of(
    deployment: Json, pods: Sequence[Json], report: ReceivedStatus | None
) -> RevisionDriver:
    """A revision's driver, from its Deployment and all of its pods, terminating ones too."""
    metadata = deployment["metadata"]
    spec = deployment["spec"]
    newest = max(
        pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default=None
    )
    container = _container(newest, "driver") if newest else {}
    return RevisionDriver(
        revision=metadata["labels"][REVISION_LABEL],
        digest=metadata.get("annotations", {}).get(DIGEST_ANNOTATION, ""),
        image=next(
            c["image"] for c in spec["template"]["spec"]["containers"] if c["name"] == "driver"
        ),
        replicas=spec.get("replicas", 1),
        pods=len(pods),
        pod=newest["metadata"].get("uid", "") if newest else "",
        restarts=container.get("restartCount", 0),
        terminating="deletionTimestamp" in metadata,
        pod_failure=pod_failure_of(newest) if newest else _replica_failure(deployment),
        last_exit=_last_exit(container),
        started=_started(container),
        report=report,
        account=spec["template"]["spec"].get("serviceAccountName", ""),
        config=_mounted_config(deployment),
    )


def _mounted_config(deployment: Json) -> str:
    """The name of the ConfigMap with the driver's files; empty if a foreign pod has none."""
    volume = volume_of(deployment, CONFIG_VOLUME) or {}
    return str(volume.get("configMap", {}).get("name", ""))


def volume_of(deployment: Json, name: str) -> Json | None:
    """A volume of the pods of a Deployment; None if they have none of this name."""
    volumes: list[Json] = deployment["spec"]["template"]["spec"].get("volumes", [])
    return next((volume for volume in volumes if volume["name"] == name), None)


def pod_failure_of(pod: Json, role: str = "driver") -> PodFailure | None:
    """Return why a pod does not run, as precisely as known; None while it runs or starts.

    ``role`` is the name of the container that matters, ``driver`` or ``executor``.
    """
    container = _container(pod, role)
    state = container.get("state", {})
    if "running" in state:
        return None
    waiting = state.get("waiting", {})
    if waiting.get("reason") in _WAITING_REASONS:
        return PodFailure(
            _WAITING_REASONS[waiting["reason"]], _short(waiting.get("message") or waiting["reason"])
        )
    # While the kubelet backs off, the container waits, and its last state records why it ended.
    terminated = state.get("terminated") or container.get("lastState", {}).get("terminated")
    return _container_failure(terminated, role) if terminated else _scheduling_failure(pod)


def report_of(body: str | bytes, received: datetime) -> ReceivedStatus | None:
    """A driver's answer to ``/status``; None if it is not a status, as while the driver starts.

    The operator keeps a summary, also of a driver that answers with all topic partitions. Anything
    in a pod may answer: texts and lists are cut to what a summary may have, and with a time or a
    number that no driver writes it is not a status.
    """
    try:
        summary = summarize(_STATUS.validate_json(body))
    except ValidationError:
        return None
    return ReceivedStatus(summary, received) if _is_plausible(summary) else None


def _is_plausible(value: Any, field: str = "") -> bool:
    """Return whether times are times, and numbers may be numbers of a resource's status."""
    if isinstance(value, str):
        return field not in _TIMES or _is_time(value)
    if isinstance(value, int | float):
        return -1 <= value <= _MAX_NUMBER
    if isinstance(value, tuple):
        return all(_is_plausible(item, field) for item in value)
    if is_dataclass(value):
        return all(
            _is_plausible(getattr(value, member.name), member.name) for member in fields(value)
        )
    return True


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def contract_mismatch(status: Status) -> str:
    """Return why this operator may not understand a driver; empty if it does."""
    versions = f"{OLDEST_VERSION} to {VERSION}"
    if OLDEST_VERSION <= status.contract <= VERSION:
        return ""
    advice = (
        "upgrade the operator" if status.contract > VERSION else "give the group a newer spec.image"
    )
    return (
        f"the driver of {status.revision} ({status.version}) has version {status.contract} of the "
        f"driver contract, and this operator knows {versions}: {advice}"
    )


def record_of(revision: Json) -> RecordedSpec:
    """The recorded spec in a ControllerRevision.

    Raises:
        Stalled: SPEC_INVALID, this release cannot read the spec.
    """
    return RecordedSpec(
        number=revision["revision"],
        group=parse_group(revision["data"]["group"]),
        image=revision["data"]["image"],
        created=datetime.fromisoformat(revision["metadata"]["creationTimestamp"]),
        label=revision["metadata"].get("labels", {}).get(REVISION_LABEL, ""),
    )


def driver_spec_of(config_map: Json) -> ConsumerGroup:
    """The spec in the ConfigMap of a revision, which its driver reads.

    Raises:
        Stalled: SPEC_INVALID, this release cannot read the spec.
    """
    return parse_group_file(config_map["data"]["group.json"])


def _container(pod: Json, role: str) -> Json:
    statuses: list[Json] = pod.get("status", {}).get("containerStatuses", [])
    return next((status for status in statuses if status["name"] == role), {})


def _started(container: Json) -> datetime | None:
    """When the container started that runs; None if none does."""
    started = container.get("state", {}).get("running", {}).get("startedAt")
    return datetime.fromisoformat(started) if started else None


def _last_exit(container: Json) -> PodFailure | None:
    """Return why a container ended last; None if it never did, or ended without an error."""
    states = (container.get(name, {}).get("terminated") for name in ("state", "lastState"))
    terminated = next(filter(None, states), None)
    if terminated is None or terminated.get("exitCode") == ExitCode.OK:
        return None
    return _container_failure(terminated, "driver")


def _container_failure(terminated: Json, role: str) -> PodFailure:
    """Return why a container ended: a driver's termination message ends ``REASON: message``."""
    last_line = (terminated.get("message") or "").strip().rpartition("\n")[2]
    name, colon, message = last_line.partition(": ")
    if terminated.get("reason") == "OOMKilled":
        return PodFailure(
            ConditionReason.OUT_OF_MEMORY, f"the {role} was killed at its memory limit"
        )
    if terminated.get("exitCode") == ExitCode.FENCED:
        return PodFailure(
            ConditionReason.FENCED, _short(last_line or "another driver opened the ledger")
        )
    if colon and name in BY_WORD:
        return PodFailure(BY_WORD[name], _short(message))
    if terminated.get("exitCode") == ExitCode.UNAVAILABLE:
        why = message if colon and name == ExitCode.UNAVAILABLE.name else last_line
        return PodFailure(
            ConditionReason.DEPENDENCY_UNAVAILABLE,
            _short(why or "the store, Kafka or Spark did not answer"),
        )
    return PodFailure(
        ConditionReason.CRASH_LOOP,
        _short(f"exit code {terminated.get('exitCode')}: {last_line}".removesuffix(": ")),
    )


def _scheduling_failure(pod: Json) -> PodFailure | None:
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return PodFailure(ConditionReason.UNSCHEDULABLE, _short(condition.get("message", "")))
    return None


def _replica_failure(deployment: Json) -> PodFailure | None:
    """Return why the API server rejects a Deployment's pod, for example because of a quota."""
    for condition in deployment.get("status", {}).get("conditions", []):
        if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
            return PodFailure(ConditionReason.POD_REFUSED, _short(condition.get("message", "")))
    return None


def _short(text: str) -> str:
    return shortened(text, MAX_MESSAGE_LENGTH)


STARTUP = timedelta(minutes=2)
"""How long an executor may take to start."""

_WORST_FIRST = (
    ConditionReason.OUT_OF_MEMORY,
    ConditionReason.IMAGE_PULL,
    ConditionReason.CONFIG_ERROR,
    ConditionReason.POD_REFUSED,
    ConditionReason.UNSCHEDULABLE,
)
"""Reasons in the order in which one of them is shown; all other reasons come later."""


def executor_pods_of(pods: Iterable[Json]) -> ExecutorPods:
    """Return the state of the executors' pods."""
    alive = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    failures = [found for pod in alive if (found := pod_failure_of(pod, "executor"))]
    return ExecutorPods(len(alive), min(failures, key=_severity, default=None))


def _severity(failure: PodFailure) -> int:
    known = failure.reason in _WORST_FIRST
    return _WORST_FIRST.index(failure.reason) if known else len(_WORST_FIRST)


def missing_since(observed: GroupObservation, workers: Workers | None) -> datetime | None:
    """Since when fewer executors run than are wanted; None while all do.

    Without an answer of the driver, what was known before stays.
    """
    before = observed.status.executors.missing_since if observed.status.executors else None
    if workers is None:
        return before
    return (before or observed.now) if workers.registered < workers.wanted else None


def executor_failure(observed: GroupObservation, workers: Workers) -> PodFailure | None:
    """Return why executors are missing, or keep being killed; None if not, or if it may pass."""
    problem = _reported(workers.problem)
    if problem and problem.reason is ConditionReason.OUT_OF_MEMORY:
        return problem
    since = missing_since(observed, workers)
    if since is None or observed.now - since < STARTUP:
        return None
    pods = observed.executor_pods
    found = (pods.failure if pods else None) or problem
    text = f"{workers.registered} of {workers.wanted} executors run"
    if found:
        return PodFailure(found.reason, f"{text}: {found.message}")
    if pods and pods.count < workers.wanted:
        text = f"{text}, and Spark has not created the pods of all: see the driver's log"
    return PodFailure(ConditionReason.EXECUTORS_MISSING, text)


def _reported(problem: ExecutorProblem | None) -> PodFailure | None:
    """The driver's problem; a newer driver may have words that this release does not know."""
    if problem is None:
        return None
    known = problem.reason in {reason.value for reason in _WORST_FIRST}
    reason = ConditionReason(problem.reason) if known else ConditionReason.EXECUTORS_MISSING
    return PodFailure(reason, problem.message)


FAILED_MOUNT = "FailedMount"
"""The reason of these Events."""
_MAX_LENGTH = 300
_MISSING = re.compile(r'\b(secret|configmap) "([^"]+)" not found')
_MISSING_KEY = re.compile(r"references non-existent (secret|config) key: (\S+)")
_REFERENCES = re.compile(r"[sS]ecretRef$")
"""Fields of a spec that refer to a Secret."""


def mount_failure(events: Iterable[Json]) -> PodFailure | None:
    """Return what is missing, from the newest Event that reports it; None if none does."""
    newest_first = sorted(events, key=_time, reverse=True)
    return next(filter(None, (_failure(str(e.get("message", ""))) for e in newest_first)), None)


def with_field(failure: PodFailure, group: ConsumerGroup | None) -> PodFailure:
    """The failure with the field of the spec that names the Secret, if one does."""
    if failure.reason is not ConditionReason.SECRET_MISSING or group is None:
        return failure
    for name, path in _references(_document(group), "spec"):
        if failure.message == _text("Secret", name):
            return PodFailure(failure.reason, f"Secret {name} of {path} does not exist")
    return failure


def _failure(message: str) -> PodFailure | None:
    if found := _MISSING.search(message):
        is_secret = found[1] == "secret"
        reason = ConditionReason.SECRET_MISSING if is_secret else ConditionReason.CONFIG_ERROR
        return PodFailure(reason, _text("Secret" if is_secret else "ConfigMap", found[2]))
    if found := _MISSING_KEY.search(message):
        reason = (
            ConditionReason.SECRET_MISSING if found[1] == "secret" else ConditionReason.CONFIG_ERROR
        )
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
