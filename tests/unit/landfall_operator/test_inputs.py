"""The observation of a group, from the cache and the drivers' answers."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall.api.contract import SIGNED_SINCE
from landfall.api.signatures import KeyDocument
from landfall_operator.api.revisions import revision_of
from landfall_operator.core.actions import Apply
from landfall_operator.core.cache import ObjectCache
from landfall_operator.core.inputs import (
    DriverReport,
    Inputs,
    needs_token,
    observe,
    process_id,
    reachable_pods,
    signed_pods,
)
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.objects.manifests import Owner
from landfall_operator.objects.names import labels
from tests.support.operator.api_objects import KEY, deployed, resource, stored
from tests.support.operator.cluster_model import START, World, decided, group

REVISION = revision_of(group("good"))


def pod(uid: str = "p", restarts: int = 0, **metadata: str) -> dict[str, Any]:
    """A driver's pod that runs."""
    statuses = [
        {"name": "driver", "restartCount": restarts, "ready": True, "state": {"running": {}}}
    ]
    manifest = {
        "metadata": {
            "name": uid,
            "namespace": "logs",
            "labels": labels("clicks", "driver", REVISION),
            **metadata,
        },
        "status": {
            "phase": "Running",
            "podIP": f"10.0.0.{restarts}",
            "containerStatuses": statuses,
        },
    }
    return stored(manifest, 1, uid)


@pytest.fixture
def cache() -> ObjectCache:
    new = ObjectCache()
    new.put("ConsumerGroup", resource())
    new.put("Deployment", stored(deployed(group("good"))))
    return new


def observed(cache: ObjectCache, **inputs: Any) -> GroupObservation:
    return observe(
        KEY,
        cache.groups[KEY],
        cache.owned(KEY),
        Inputs(now=START, reports=inputs.pop("reports", {}), **inputs),
    )


def report() -> Any:
    world = World(group("good"))
    world.run(timedelta(minutes=1))
    (driver,) = world.observe().drivers.values()
    assert driver.report
    return replace(driver.report, received=START)


def test_a_driver_is_its_deployment_with_its_pods(cache: ObjectCache) -> None:
    cache.put("Pod", pod())

    driver = observed(cache).drivers[REVISION]

    assert (driver.image, driver.replicas, driver.pods, driver.restarts) == ("good", 1, 1, 0)


def test_a_drivers_answer_counts_while_its_process_runs(cache: ObjectCache) -> None:
    cache.put("Pod", pod())
    reports = {REVISION: DriverReport(process_id(pod()), report())}
    assert observed(cache, reports=reports).drivers[REVISION].lands(START)

    cache.put("Pod", {**pod(restarts=1), "metadata": {**pod()["metadata"], "resourceVersion": "2"}})

    assert not observed(cache, reports=reports).drivers[REVISION].lands(START)


def test_the_newest_pod_is_polled(cache: ObjectCache) -> None:
    cache.put("Pod", pod("old"))
    newer = pod("new")
    newer["metadata"]["creationTimestamp"] = "2026-11-21T12:00:01Z"
    cache.put("Pod", newer)

    assert [found["metadata"]["uid"] for found in reachable_pods(cache.owned(KEY)).values()] == [
        "new"
    ]


def test_a_spec_with_an_error_is_not_used(cache: ObjectCache) -> None:
    invalid = observed(cache, spec_error="taken")

    assert (invalid.spec, invalid.spec_error) == (None, "taken")


def test_an_orphaned_deployment_is_applied_and_thereby_owned(cache: ObjectCache) -> None:
    orphan = stored(deployed(group("good"), Owner("clicks", "logs", "somebody")), 2)
    cache.put("Deployment", orphan)

    _, actions = decided(observed(cache))

    applied = [action.manifest["kind"] for action in actions if isinstance(action, Apply)]
    assert (observed(cache).drivers[REVISION].owned, applied[-1]) == (False, "Deployment")


def test_a_token_is_created_only_for_a_driver_that_does_not_start_without(
    cache: ObjectCache,
) -> None:
    def creates_token(**inputs: Any) -> bool:
        _, actions = decided(observed(cache, **inputs))
        return "EnsureToken" in {type(action).__name__ for action in actions}

    assert (creates_token(), creates_token(lacks_token=True)) == (False, True)


def test_the_operators_public_keys_are_live_settings(cache: ObjectCache) -> None:
    def settings(*keys: bytes) -> dict[str, str]:
        _, actions = decided(observed(cache, operator_keys=keys))
        (data,) = (
            action.manifest["data"]
            for action in actions
            if isinstance(action, Apply) and action.manifest["metadata"]["name"] == "clicks-driver"
            if action.manifest["kind"] == "ConfigMap"
        )
        return data

    new, old = b"n" * 32, b"o" * 32

    assert "operator-keys.json" not in settings()
    document = KeyDocument.parse(settings(new, old)["operator-keys.json"])
    assert document == KeyDocument(cache.groups[KEY].uid, (new, old))


def test_drivers_that_mount_the_keys_and_know_them_take_signatures(cache: ObjectCache) -> None:
    cache.put("Deployment", stored(deployed(group("good"))))
    owned, pods = cache.owned(KEY), {REVISION: {"metadata": {"uid": "pod"}}}

    assert signed_pods(owned, pods, {}) == {REVISION: "pod"}
    assert signed_pods(owned, pods, {REVISION: SIGNED_SINCE}) == {REVISION: "pod"}
    assert signed_pods(owned, pods, {REVISION: SIGNED_SINCE - 1}) == {}
    assert signed_pods(owned, {}, {}) == {}
    assert not needs_token(owned, cache.groups[KEY].uid)


def test_drivers_of_an_earlier_release_need_the_token(cache: ObjectCache) -> None:
    deployment = stored(deployed(group("good")), 2)
    pod = deployment["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "control", "secret": {"secretName": "clicks-control"}}]
    cache.put("Deployment", deployment)
    owned, pods = cache.owned(KEY), {REVISION: {"metadata": {"uid": "pod"}}}

    assert signed_pods(owned, pods, {REVISION: SIGNED_SINCE}) == {}
    assert needs_token(owned, cache.groups[KEY].uid)
    assert not needs_token(owned, "of another group")
