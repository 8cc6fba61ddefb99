"""One look at a group, put together from what is kept."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from landfall_operator.api.revisions import revision_of
from landfall_operator.core.cache import Stock
from landfall_operator.core.decide import decide
from landfall_operator.core.inputs import Heard, Told, observed, running, voice
from landfall_operator.core.snapshot import Observed
from landfall_operator.objects.manifests import Owner, deployment
from landfall_operator.objects.names import labels
from tests.support.told import KEY, OWNER, resource, told
from tests.support.world import SITE, START, World, group

REVISION = revision_of(group("good"))


def pod(uid: str = "p", restarts: int = 0, **metadata: str) -> dict[str, Any]:
    """A driver's pod that runs."""
    statuses = [{"name": "driver", "restartCount": restarts, "ready": True, "state": {"running": {}}}]
    made = {
        "metadata": {"name": uid, "namespace": "logs", "labels": labels("clicks", "driver", REVISION), **metadata},
        "status": {"phase": "Running", "podIP": f"10.0.0.{restarts}", "containerStatuses": statuses},
    }
    return told(made, 1, uid)


@pytest.fixture
def stock() -> Stock:
    made = Stock()
    made.put("ConsumerGroup", resource())
    made.put("Deployment", told(deployment(OWNER, group("good"), "good", 1, SITE)))
    return made


def look(stock: Stock, **heard: Any) -> Observed:
    return observed(KEY, stock.groups[KEY], stock.owned(KEY), Heard(now=START, told=heard.pop("told", {}), **heard))


def report() -> Any:
    world = World(group("good"))
    world.run(timedelta(minutes=1))
    (driver,) = world.observe().drivers.values()
    assert driver.report
    return replace(driver.report, received=START)


def test_a_driver_is_its_deployment_with_its_pods(stock: Stock) -> None:
    stock.put("Pod", pod())

    driver = look(stock).drivers[REVISION]

    assert (driver.image, driver.replicas, driver.pods, driver.restarts) == ("good", 1, 1, 0)


def test_what_a_driver_said_counts_while_its_process_lives(stock: Stock) -> None:
    stock.put("Pod", pod())
    said = {REVISION: Told(voice(pod()), report())}
    assert look(stock, told=said).drivers[REVISION].lands(START)

    stock.put("Pod", {**pod(restarts=1), "metadata": {**pod()["metadata"], "resourceVersion": "2"}})

    assert not look(stock, told=said).drivers[REVISION].lands(START)


def test_the_newest_pod_is_asked(stock: Stock) -> None:
    stock.put("Pod", pod("old"))
    newer = pod("new")
    newer["metadata"]["creationTimestamp"] = "2026-11-21T12:00:01Z"
    stock.put("Pod", newer)

    assert [found["metadata"]["uid"] for found in running(stock.owned(KEY)).values()] == ["new"]


def test_a_fault_takes_the_spec_away(stock: Stock) -> None:
    seen = look(stock, fault="taken")

    assert (seen.spec, seen.fault) == (None, "taken")


def test_an_orphaned_deployment_is_applied_and_so_owned(stock: Stock) -> None:
    orphan = told(deployment(Owner("clicks", "logs", "somebody"), group("good"), "good", 1, SITE), 2)
    stock.put("Deployment", orphan)

    assert look(stock).drivers[REVISION].digest == ""


def test_the_token_is_made_once(stock: Stock) -> None:
    def asked(**heard: Any) -> bool:
        return "EnsureToken" in {type(action).__name__ for action in decide(look(stock, **heard), SITE)}

    assert (asked(), asked(token="clicks-control")) == (True, False)
