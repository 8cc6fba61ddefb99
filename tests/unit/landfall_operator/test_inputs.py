"""One look at a group, put together from what is kept."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.api.revisions import revision_of
from landfall_operator.core.cache import ObjectCache
from landfall_operator.core.decide import decide
from landfall_operator.core.inputs import DriverReport, Inputs, observed, process_id, running
from landfall_operator.core.snapshot import Observed
from landfall_operator.objects.manifests import Owner, deployment
from landfall_operator.objects.names import labels
from tests.support.api_objects import KEY, OWNER, resource, told
from tests.support.cluster_model import SITE, START, World, group

REVISION = revision_of(group("good"))


def pod(uid: str = "p", restarts: int = 0, **metadata: str) -> dict[str, Any]:
    """A driver's pod that runs."""
    statuses = [
        {"name": "driver", "restartCount": restarts, "ready": True, "state": {"running": {}}}
    ]
    made = {
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
    return told(made, 1, uid)


@pytest.fixture
def cache() -> ObjectCache:
    made = ObjectCache()
    made.put("ConsumerGroup", resource())
    made.put("Deployment", told(deployment(OWNER, group("good"), "good", 1, SITE)))
    return made


def look(cache: ObjectCache, **heard: Any) -> Observed:
    return observed(
        KEY,
        cache.groups[KEY],
        cache.owned(KEY),
        Inputs(now=START, told=heard.pop("told", {}), **heard),
    )


def report() -> Any:
    world = World(group("good"))
    world.run(timedelta(minutes=1))
    (driver,) = world.observe().drivers.values()
    assert driver.report
    return replace(driver.report, received=START)


def test_a_driver_is_its_deployment_with_its_pods(cache: ObjectCache) -> None:
    cache.put("Pod", pod())

    driver = look(cache).drivers[REVISION]

    assert (driver.image, driver.replicas, driver.pods, driver.restarts) == ("good", 1, 1, 0)


def test_what_a_driver_said_counts_while_its_process_lives(cache: ObjectCache) -> None:
    cache.put("Pod", pod())
    said = {REVISION: DriverReport(process_id(pod()), report())}
    assert look(cache, told=said).drivers[REVISION].lands(START)

    cache.put("Pod", {**pod(restarts=1), "metadata": {**pod()["metadata"], "resourceVersion": "2"}})

    assert not look(cache, told=said).drivers[REVISION].lands(START)


def test_the_newest_pod_is_asked(cache: ObjectCache) -> None:
    cache.put("Pod", pod("old"))
    newer = pod("new")
    newer["metadata"]["creationTimestamp"] = "2026-11-21T12:00:01Z"
    cache.put("Pod", newer)

    assert [found["metadata"]["uid"] for found in running(cache.owned(KEY)).values()] == ["new"]


def test_a_fault_takes_the_spec_away(cache: ObjectCache) -> None:
    seen = look(cache, fault="taken")

    assert (seen.spec, seen.fault) == (None, "taken")


def test_an_orphaned_deployment_is_applied_and_so_owned(cache: ObjectCache) -> None:
    orphan = told(
        deployment(Owner("clicks", "logs", "somebody"), group("good"), "good", 1, SITE), 2
    )
    cache.put("Deployment", orphan)

    assert look(cache).drivers[REVISION].digest == ""


def test_the_token_is_made_once(cache: ObjectCache) -> None:
    def asked(**heard: Any) -> bool:
        return "EnsureToken" in {
            type(action).__name__ for action in decide(look(cache, **heard), SITE)
        }

    assert (asked(), asked(token="clicks-control")) == (True, False)
