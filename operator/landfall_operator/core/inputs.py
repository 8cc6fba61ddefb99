"""Builds the observation of a group from cached API objects and from its drivers' answers. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from landfall.api.contract import SIGNED_SINCE
from landfall.api.spec import ConsumerGroup
from landfall_operator.api.backfill import KIND as BACKFILL
from landfall_operator.core.cache import CachedObject, Key, Resource
from landfall_operator.core.images import followed
from landfall_operator.core.parsing import driver_of, pod_failure_of, volume_of, with_field
from landfall_operator.core.samples import DriverSample
from landfall_operator.core.snapshot import (
    ExecutorPods,
    GroupObservation,
    PodFailure,
    ReceivedStatus,
    RevisionDriver,
)
from landfall_operator.core.trial_backfills import TrialBackfill
from landfall_operator.objects.names import FINALIZER, driver_name
from landfall_operator.objects.overlay import Json
from landfall_operator.objects.pod_templates import CONTROL_VOLUME, KEYS_VOLUME

OwnedObjects = Mapping[tuple[str, str], CachedObject]
"""The cached objects of one group, by kind and name."""


@dataclass(frozen=True, slots=True)
class DriverReport:
    """The last answer of a driver, and the process that gave it (see ``process_id``)."""

    process_id: str
    report: ReceivedStatus


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs of an observation besides API objects.

    Attributes:
        now: the time of the observation.
        reports: the drivers' last answers, by revision.
        samples: measurements of the last half hour, oldest first.
        spec_error: why the spec cannot be applied, if the spec alone does not show it.
        executor_pods: the executors' pods; None if they were not looked at.
        trials_listed: whether the Backfills of the group's namespace have been listed.
        promotes: whether its driver is to promote a Backfill.
        operator_keys: the public keys by which drivers recognize the operator.
        lacks_token: whether a driver that needs a control token to start has none.
        name_taken: why an object of the group cannot be created, because it belongs to another
            owner.
        mount_failures: why volumes of a pod cannot be mounted, by the pod's uid.
        default_image: the operator's image for groups that name none.
    """

    now: datetime
    reports: Mapping[str, DriverReport]
    samples: tuple[DriverSample, ...] = ()
    spec_error: str = ""
    executor_pods: ExecutorPods | None = None
    trials_listed: bool = False
    promotes: bool = False
    operator_keys: tuple[bytes, ...] = ()
    lacks_token: bool = False
    name_taken: str = ""
    mount_failures: Mapping[str, PodFailure] = field(default_factory=dict)
    default_image: str = ""


def observe(key: Key, resource: Resource, owned: OwnedObjects, inputs: Inputs) -> GroupObservation:
    """The observation of a group: its resource, its labelled objects, and its drivers' answers."""
    metadata = resource.metadata
    records = [
        cached.value
        for cached in owned.values()
        if cached.kind == "ControllerRevision" and cached.value
    ]
    # The ConfigMap with live settings comes last: the earlier ones have the settings of the
    # driver's creation.
    config_maps = [cached for cached in owned.values() if cached.kind == "ConfigMap"]
    config_maps.sort(key=lambda cached: cached.name == driver_name(key[1]))
    driver_specs = {cached.revision: cached.value for cached in config_maps if cached.value}
    return GroupObservation(
        now=inputs.now,
        name=key[1],
        namespace=key[0],
        uid=resource.uid,
        generation=resource.generation,
        deleting="deletionTimestamp" in metadata,
        finalizer=FINALIZER in metadata.get("finalizers", []),
        annotations=metadata.get("annotations", {}),
        labels=resource.labels,
        spec=followed(resource.spec, records, inputs.default_image)
        if resource.spec and not inputs.spec_error
        else None,
        spec_error=resource.spec_error or inputs.spec_error,
        status=resource.status,
        records=tuple(sorted(records, key=lambda record: record.number)),
        drivers={
            revision: _with_mount_failure(
                driver, inputs.mount_failures, driver_specs.get(revision) or resource.spec
            )
            for revision, driver in _drivers(resource.uid, owned, inputs.reports).items()
        },
        driver_specs=driver_specs,
        hashes=_hashes(resource.uid, owned),
        fields={f"{cached.kind}/{cached.name}": cached.fields for cached in owned.values()},
        samples=inputs.samples,
        executor_pods=inputs.executor_pods,
        backfills=_trials(resource.uid, owned) if inputs.trials_listed else None,
        promotes=inputs.promotes,
        operator_keys=inputs.operator_keys,
        lacks_token=inputs.lacks_token,
        name_taken=inputs.name_taken,
        default_image=inputs.default_image,
    )


def reachable_pods(owned: OwnedObjects) -> dict[str, Json]:
    """The newest pod of each driver that runs and has an address, by revision."""
    found = {}
    for revision in revisions(owned):
        newest = max(
            _pods(owned, revision),
            key=lambda pod: str(pod["metadata"]["creationTimestamp"]),
            default=None,
        )
        if newest and newest["status"].get("phase") == "Running" and newest["status"].get("podIP"):
            found[revision] = newest
    return found


def waiting_pods(owned: OwnedObjects) -> dict[str, str]:
    """The names of drivers' pods that wait for something that they do not name, by their uids."""
    return {
        str(cached.value["metadata"].get("uid", "")): cached.name
        for cached in owned.values()
        if cached.kind == "Pod"
        and cached.value["status"].get("phase") == "Pending"
        and "deletionTimestamp" not in cached.value["metadata"]
        and pod_failure_of(cached.value) is None
    }


def _with_mount_failure(
    driver: RevisionDriver, failures: Mapping[str, PodFailure], group: ConsumerGroup | None
) -> RevisionDriver:
    found = failures.get(driver.pod)
    if found is None or driver.pod_failure:
        return driver
    return replace(driver, pod_failure=with_field(found, group))


def revisions(owned: OwnedObjects) -> set[str]:
    """The revisions whose Deployment exists."""
    return {
        cached.revision
        for cached in owned.values()
        if cached.kind == "Deployment" and cached.revision
    }


def drivers_run(owned: OwnedObjects, uid: str) -> bool:
    """Return whether a group has a driver, and every driver that should run has a running pod.

    Args:
        owned: the objects with the group's label.
        uid: the group's metadata.uid; drivers of a former group of the same name do not count.
    """
    deployments = [
        cached
        for cached in owned.values()
        if cached.kind == "Deployment" and cached.value and cached.owner == uid
    ]
    wanted = {cached.revision for cached in deployments if cached.value["spec"]["replicas"]}
    return bool(deployments) and wanted <= reachable_pods(owned).keys()


def signed_pods(
    owned: OwnedObjects, pods: Mapping[str, Json], contracts: Mapping[str, int]
) -> dict[str, str]:
    """The uids of the pods whose drivers take the operator's signatures, by revision.

    Args:
        owned: the objects with the group's label.
        pods: the drivers' pods, by revision.
        contracts: the contract versions that drivers report, by revision; until a driver has
            reported, its Deployment's version.
    """
    with_keys = {
        cached.revision
        for cached in owned.values()
        if cached.kind == "Deployment" and cached.value and volume_of(cached.value, KEYS_VOLUME)
    }
    return {
        revision: str(pod["metadata"].get("uid", ""))
        for revision, pod in pods.items()
        if revision in with_keys and contracts.get(revision, SIGNED_SINCE) >= SIGNED_SINCE
    }


def needs_token(owned: OwnedObjects, uid: str) -> bool:
    """Return whether a driver of the group needs the Secret with the control token to start."""
    volumes = [
        volume_of(cached.value, CONTROL_VOLUME) or {}
        for cached in owned.values()
        if cached.kind == "Deployment" and cached.value and cached.owner == uid
    ]
    return any(not v["secret"].get("optional", False) for v in volumes if "secret" in v)


def process_id(pod: Json) -> str:
    """Identifies the driver process in a pod: it differs after every restart of the container."""
    restarts = [
        status.get("restartCount", 0) for status in pod["status"].get("containerStatuses", [])
    ]
    return f"{pod['metadata']['uid']}/{sum(restarts)}"


def _trials(uid: str, owned: OwnedObjects) -> dict[str, TrialBackfill]:
    """The Backfills that the operator made to try a revision of the group."""
    return {
        cached.name: cached.value
        for cached in owned.values()
        if cached.kind == BACKFILL and cached.owner == uid and cached.value
    }


def _hashes(uid: str, owned: OwnedObjects) -> dict[str, str]:
    """Hashes of the objects that this group owns.

    An object with the group's label but without its owner reference is left out. It is applied
    again, which makes the group its owner.
    """
    return {
        f"{cached.kind}/{cached.name}": cached.hash
        for cached in owned.values()
        if cached.owner == uid
    }


def _drivers(
    uid: str, owned: OwnedObjects, reports: Mapping[str, DriverReport]
) -> dict[str, RevisionDriver]:
    return {
        cached.revision: replace(
            _driver(cached.value, _pods(owned, cached.revision), reports.get(cached.revision)),
            owned=cached.owner == uid,
        )
        for cached in owned.values()
        if cached.kind == "Deployment" and cached.revision
    }


def _driver(deployment: Json, pods: list[Json], report: DriverReport | None) -> RevisionDriver:
    if report is None:
        return driver_of(deployment, pods, None)
    process_gone = report.process_id not in {process_id(pod) for pod in pods}
    return replace(driver_of(deployment, pods, report.report), process_gone=process_gone)


def _pods(owned: OwnedObjects, revision: str) -> list[Json]:
    """The pods of a revision's driver."""
    return [
        cached.value
        for cached in owned.values()
        if cached.kind == "Pod" and cached.revision == revision
    ]
