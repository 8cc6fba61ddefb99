"""The observation of a Backfill: the resource, its group, its pods, their reports. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from landfall.api.backfill_report import BackfillReport, LandingPhase, parse_report
from landfall.api.contract import ExitCode
from landfall_operator.api.backfill import BackfillSpec, parsed
from landfall_operator.api.backfill_status import BackfillStatus
from landfall_operator.api.revisions import digest_of, revision_of
from landfall_operator.api.status_values import readable
from landfall_operator.core.cache import Resource
from landfall_operator.core.images import followed
from landfall_operator.core.inputs import OwnedObjects
from landfall_operator.core.parsing import pod_failure_of
from landfall_operator.core.snapshot import RecordedSpec
from landfall_operator.objects.backfill_pods import CORES_ANNOTATION, Lander

Json = Mapping[str, Any]

RETRY = "landfall.dev/retry"
"""The annotation that lets a backfill that failed be tried again."""
FINALIZER = "landfall.dev/discard"
"""Keeps a Backfill until its side lane is deleted."""


@dataclass(frozen=True, slots=True)
class MissingSpec:
    """The reason why there is no spec to land by."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class BackfillPod:
    """A pod of a backfill, which lands or discards.

    Attributes:
        uid: its metadata.uid.
        owner: uid of the Backfill that owns it.
        cores: the value of ``maxCores`` that it was started with, as text.
        address: its IP address, once it runs.
        terminating: whether it is being deleted.
        is_over: whether it ended, or was ended, and does not start again by itself.
        has_others: whether the user's containers still run then.
        exit_code: of the last end of its container; None if it has not ended yet.
        report: its report at that end.
        problem: what keeps it from running, in words.
    """

    uid: str
    owner: str
    cores: str
    address: str
    terminating: bool
    is_over: bool
    has_others: bool
    exit_code: int | None
    report: BackfillReport | None
    problem: str

    @property
    def has_failed_for_good(self) -> bool:
        """Return whether starting it again would not help."""
        if self.report is not None:
            return self.report.phase == LandingPhase.FAILED
        # Its image may be of a release without the command, which then is no command.
        return self.exit_code == ExitCode.USAGE


PromotionOutcome = Literal["done", "refused", "waiting", "failed"]
"""As ``landfall.api.verbs.Outcome`` has them; ``failed`` also if there was no answer."""


@dataclass(frozen=True, slots=True)
class PromotionAnswer:
    """The answer of the group's driver to the request to promote.

    Attributes:
        outcome: the outcome of the request.
        message: details.
        slot: of the REPLACE; None unless it is recorded.
    """

    outcome: PromotionOutcome
    message: str
    slot: int | None = None


@dataclass(frozen=True, slots=True)
class BackfillObservation:
    """Everything that a decision about a Backfill is made from.

    Attributes:
        now: the time of the observation.
        name: the resource's metadata.name.
        namespace: its metadata.namespace.
        uid: its metadata.uid.
        generation: its metadata.generation.
        deleted: since when it is being deleted; None while it is not.
        has_finalizer: whether the operator's finalizer is set.
        wants_retry: whether the annotation ``RETRY`` is set.
        spec: the parsed spec; None if it is not valid.
        spec_error: why it is not.
        status: as it is stored.
        landing: by what it is landed, or why there is nothing.
        pod: the pod that lands; None if there is none.
        discarding: the pod that discards; None if there is none.
        report: the report of the pod that lands while it runs; None without an answer.
        answer: to the request to promote, if it was asked in this pass.
    """

    now: datetime
    name: str
    namespace: str
    uid: str
    generation: int
    deleted: datetime | None
    has_finalizer: bool
    wants_retry: bool
    spec: BackfillSpec | None
    spec_error: str
    status: BackfillStatus
    landing: Lander | MissingSpec
    pod: BackfillPod | None = None
    discarding: BackfillPod | None = None
    report: BackfillReport | None = None
    answer: PromotionAnswer | None = None


def observation(body: Json, now: datetime, landing: Lander | MissingSpec) -> BackfillObservation:
    """Return the observation that the resource itself gives."""
    metadata = body["metadata"]
    spec, error = parsed(body.get("spec", {}))
    deleted = metadata.get("deletionTimestamp")
    return BackfillObservation(
        now=now,
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        deleted=datetime.fromisoformat(deleted) if deleted else None,
        has_finalizer=FINALIZER in metadata.get("finalizers", []),
        wants_retry=RETRY in metadata.get("annotations", {}),
        spec=spec,
        spec_error=error,
        status=readable(BackfillStatus, body.get("status", {})),
        landing=landing,
    )


def landing_spec(
    name: str, revision: str | None, resource: Resource | None, owned: OwnedObjects, image: str
) -> Lander | MissingSpec:
    """Return the lander of a backfill of a group, or what is missing.

    Args:
        name: of the group.
        revision: that is asked for; None for the group's present spec.
        resource: the group, if it exists.
        owned: its objects.
        image: that is used if neither spec nor record names one.
    """
    if resource is None:
        return MissingSpec("GroupNotFound", f"there is no ConsumerGroup {name} in this namespace")
    records = [entry.value for entry in owned.values() if isinstance(entry.value, RecordedSpec)]
    spec = resource.spec
    if revision is None or (spec and revision_of(spec) == revision):
        if spec is None:
            return MissingSpec(
                "GroupInvalid", f"the spec of {name} is not valid: see its SpecValid"
            )
        spec = followed(spec, records, image)
        recorded = next((r for r in records if r.digest == digest_of(spec)), None)
        return Lander(spec, spec.spec.image or (recorded.image if recorded else image))
    found = next((r for r in records if revision in {r.revision, r.label}), None)
    if found is None:
        return MissingSpec(
            "RevisionNotFound", f"{name} has no revision {revision}: see its history"
        )
    return Lander(found.group, found.group.spec.image or found.image)


def pod_of(body: Json) -> BackfillPod:
    """A pod as the API server has it."""
    metadata = body["metadata"]
    status = body.get("status", {})
    containers = [c for c in status.get("containerStatuses", []) if c["name"] == "driver"]
    container = containers[0] if containers else {}
    state = container.get("state", {})
    ends = (state.get("terminated"), container.get("lastState", {}).get("terminated"))
    end: Json = next(filter(None, ends), {})
    report = parse_report(end.get("message") or "")
    has_ended_well = state.get("terminated", {}).get("exitCode") == ExitCode.OK
    return BackfillPod(
        uid=metadata["uid"],
        owner=next((o["uid"] for o in metadata.get("ownerReferences", [])), ""),
        cores=metadata.get("annotations", {}).get(CORES_ANNOTATION, ""),
        address=status.get("podIP", "") if state.get("running") else "",
        terminating="deletionTimestamp" in metadata,
        # A pod that is evicted has the phase Failed, and the kubelet starts no container again.
        is_over=has_ended_well or status.get("phase") in {"Succeeded", "Failed"},
        has_others=has_ended_well and status.get("phase") == "Running",
        exit_code=end.get("exitCode"),
        report=report,
        problem="" if state.get("running") else _problem(body, report),
    )


def _problem(pod: Json, report: BackfillReport | None) -> str:
    if report and report.message:
        return f"{report.reason}: {report.message}"
    failure = pod_failure_of(pod)
    return failure.message if failure else str(pod.get("status", {}).get("message", ""))
