"""One look at a group, put together from the stock and from what its drivers said. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from landfall_operator.core.autoscaler import Sample
from landfall_operator.core.cache import CachedObject, Key, Resource
from landfall_operator.core.parsing import driver_of
from landfall_operator.core.snapshot import Driver, Observed, Report
from landfall_operator.objects.names import DIGEST_ANNOTATION, FINALIZER
from landfall_operator.objects.overlay import Json

Owned = Mapping[tuple[str, str], CachedObject]


@dataclass(frozen=True, slots=True)
class DriverReport:
    """What a driver said last, and which process it was: see ``process_id``."""

    process_id: str
    report: Report


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is known of a group beside its objects.

    Attributes:
        now: the moment.
        told: what drivers said last, by revision.
        samples: of the last half an hour, oldest first.
        fault: why its spec cannot be run, where that is not seen from the spec alone.
        token: name of the Secret with the control token, if there is one.
    """

    now: datetime
    told: Mapping[str, DriverReport]
    samples: tuple[Sample, ...] = ()
    fault: str = ""
    token: str = ""


def observed(key: Key, resource: Resource, owned: Owned, heard: Inputs) -> Observed:
    """What is known of a group: itself, what bears its label, and what was heard."""
    metadata = resource.body["metadata"]
    records = [
        kept.value for kept in owned.values() if kept.kind == "ControllerRevision" and kept.value
    ]
    contracts = {
        kept.revision: kept.value
        for kept in owned.values()
        if kept.kind == "ConfigMap" and kept.value
    }
    return Observed(
        now=heard.now,
        name=key[1],
        namespace=key[0],
        uid=resource.uid,
        generation=metadata.get("generation", 0),
        deleting="deletionTimestamp" in metadata,
        finalizer=FINALIZER in metadata.get("finalizers", []),
        spec=None if heard.fault else resource.spec,
        fault=resource.fault or heard.fault,
        status=resource.status,
        records=tuple(sorted(records, key=lambda record: record.number)),
        drivers=drivers(resource.uid, owned, heard.told),
        contracts=contracts,
        hashes=_hashes(resource.uid, owned)
        | ({f"Secret/{heard.token}": ""} if heard.token else {}),
        samples=heard.samples,
    )


def running(owned: Owned) -> dict[str, Json]:
    """The newest pod of each revision's driver, if it runs and can be asked."""
    found = {}
    for revision in revisions(owned):
        newest = max(
            pods(owned, revision),
            key=lambda pod: str(pod["metadata"]["creationTimestamp"]),
            default=None,
        )
        if newest and newest["status"].get("phase") == "Running" and newest["status"].get("podIP"):
            found[revision] = newest
    return found


def revisions(owned: Owned) -> set[str]:
    """Of Deployments that there are."""
    return {kept.revision for kept in owned.values() if kept.kind == "Deployment" and kept.revision}


def _hashes(uid: str, owned: Owned) -> dict[str, str]:
    """Of what is the group's own; what is not is applied, and then is."""
    return {f"{kept.kind}/{kept.name}": kept.hash for kept in owned.values() if kept.owner == uid}


def drivers(uid: str, owned: Owned, told: Mapping[str, DriverReport]) -> dict[str, Driver]:
    """Drivers by revision."""
    return {
        kept.revision: _driver(
            _adopted(kept, uid), pods(owned, kept.revision), told.get(kept.revision)
        )
        for kept in owned.values()
        if kept.kind == "Deployment" and kept.revision
    }


def _driver(deployment: Json, of_it: list[Json], told: DriverReport | None) -> Driver:
    if told is None:
        return driver_of(deployment, of_it, None)
    gone = told.process_id not in {process_id(pod) for pod in of_it}
    return replace(driver_of(deployment, of_it, told.report), gone=gone)


def process_id(pod: Json) -> str:
    """Which process of a driver speaks at a pod's address: another one after every restart."""
    restarts = [
        status.get("restartCount", 0) for status in pod["status"].get("containerStatuses", [])
    ]
    return f"{pod['metadata']['uid']}/{sum(restarts)}"


def pods(owned: Owned, revision: str) -> list[Json]:
    """Pods of a revision's driver."""
    return [
        kept.value for kept in owned.values() if kept.kind == "Pod" and kept.revision == revision
    ]


def _adopted(deployment: CachedObject, uid: str) -> Json:
    """A Deployment that is not the group's own, such as one that was orphaned, has no digest: so it is applied, and owned."""
    if deployment.owner == uid:
        return deployment.value  # type: ignore[no-any-return]  # slim JSON, by its kind
    metadata = deployment.value["metadata"]
    annotations = {**metadata.get("annotations", {}), DIGEST_ANNOTATION: ""}
    return {**deployment.value, "metadata": {**metadata, "annotations": annotations}}
