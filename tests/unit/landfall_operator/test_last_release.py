"""What the last release applied stays as it is: no driver restarts, nothing mounted is rewritten.

The files in ``last_release`` are the objects of a landing group, as that release applied them.
"""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from landfall.api.contract import Status
from landfall_operator.api.status import Stage
from landfall_operator.core.actions import Action, Apply, Delete, SaveRollout
from landfall_operator.core.cache import GROUP, ObjectCache
from landfall_operator.core.inputs import DriverReport, Inputs, observe, process_id
from landfall_operator.core.parsing import contract_mismatch, report_of
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.objects.names import labels
from tests.support.frozen_defaults import frozen, present
from tests.support.operator.api_objects import KEY, stored
from tests.support.operator.cluster_model import START, World, decided, group

FOLDER = Path(__file__).parent / "last_release"
FOLDED = ("minimal", "full")


def applied(name: str) -> list[dict[str, Any]]:
    objects: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text())
    return objects


def of_kind(kind: str, objects: list[dict[str, Any]]) -> dict[str, Any]:
    return next(each for each in objects if each["kind"] == kind)


def landing(name: str, **spec: Any) -> GroupObservation:
    """The group while its driver lands, as an operator of this release observes it."""
    objects = applied(name)
    revision = of_kind("Deployment", objects)["metadata"]["labels"]["landfall.dev/revision"]
    document = of_kind("ControllerRevision", objects)["data"]["group"]
    owner = objects[0]["metadata"]["ownerReferences"][0]["uid"]
    metadata = {**document["metadata"], "uid": owner, "generation": 1, "resourceVersion": "1"}
    rollout = {"stage": "Settled", "active": revision, "since": "2026-11-21T11:00:00Z"}
    status = {"observedGeneration": 1, "rollout": rollout}
    resource = {**document, "metadata": {**metadata, "finalizers": ["landfall.dev/drain"]}}
    resource = {**resource, "spec": {**document["spec"], **spec}, "status": status}
    pod = pod_of(revision)
    cache = ObjectCache()
    cache.put(GROUP, resource)
    cache.put("Pod", pod)
    for number, each in enumerate(objects):
        cache.put(each["kind"], stored(each, 1, f"uid-{number}"))
    report = DriverReport(process_id(pod), report_of(status_of_last_release(revision), START))  # type: ignore[arg-type]  # it is a status
    inputs = Inputs(START, {revision: report}, operator_keys=(b"k" * 32,))
    return observe(KEY, cache.groups[KEY], cache.owned(KEY), inputs)


def pod_of(revision: str) -> dict[str, Any]:
    metadata = {
        "name": "driver",
        "namespace": "logs",
        "uid": "pod",
        "resourceVersion": "9",
        "creationTimestamp": "2026-11-21T11:00:00Z",
        "labels": labels("clicks", "driver", revision),
    }
    running = {"name": "driver", "state": {"running": {}}, "restartCount": 0, "ready": True}
    status = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [running]}
    return {"kind": "Pod", "metadata": metadata, "status": status}


def status_of_last_release(revision: str) -> bytes:
    """What a driver of the last release answers: without the fields that came later."""
    world = World(group("good", replicas=2))
    world.run(timedelta(minutes=2))
    (driver,) = world.observe().drivers.values()
    assert driver.report
    answer = msgspec.to_builtins(replace(driver.report.status, revision=revision))
    del answer["contract"]
    return msgspec.json.encode({**answer, "workers": {"wanted": 2, "registered": 2, "slots": 2}})


ADDED = ("NetworkPolicy/clicks-executors",)
"""Objects that came with this release; none is mounted or restarts a pod."""


def without_live_settings(actions: tuple[Action, ...]) -> list[str]:
    """The actions except for the intent log and the objects that came with this release."""
    return [
        str(action)
        for action in actions
        if not isinstance(action, SaveRollout)
        and str(action) not in {"ConfigMap/clicks-driver", *ADDED}
    ]


@pytest.mark.parametrize("name", FOLDED)
def test_an_upgrade_of_the_operator_changes_no_object_of_the_last_release(name: str) -> None:
    desired, actions = decided(landing(name))

    assert without_live_settings(actions) == []
    assert desired.rollout.stage is Stage.SETTLED


@pytest.mark.parametrize("name", FOLDED)
def test_the_defaults_that_its_api_server_stored_replace_no_driver(name: str) -> None:
    """Every object has the defaults of the release under which it was written."""
    stored_spec = json.loads((FOLDER / "stored_specs.json").read_text())[name]

    desired, actions = decided(landing(name, **stored_spec))

    assert without_live_settings(actions) == []
    assert (desired.rollout.stage, desired.plan) == (Stage.SETTLED, None)


def test_no_default_of_a_field_has_changed() -> None:
    """What a spec without the field means, also in records that were written without defaults."""
    known, now = frozen(), present()
    gone = sorted(known.keys() - now.keys())
    changed = {path: (known[path], now[path]) for path in known.keys() & now.keys()}

    assert gone == [], "a field of v1alpha1 is gone"
    assert {p: was for p, was in changed.items() if was[0] != was[1]} == {}, "see docs/adr/0069"


def test_each_field_has_a_default_that_may_not_change() -> None:
    missing = sorted(present().keys() - frozen().keys())

    assert missing == [], "python -m tests.support.frozen_defaults"


@pytest.mark.parametrize("name", FOLDED)
def test_the_config_map_of_a_running_driver_stays_as_it_is_when_the_group_is_scaled(
    name: str,
) -> None:
    _, actions = decided(landing(name, replicas=7))

    applied = [str(a) for a in actions if isinstance(a, Apply) and str(a) not in ADDED]
    assert applied == ["ConfigMap/clicks-driver"]
    assert [type(a).__name__ for a in actions if not isinstance(a, Apply | SaveRollout)] == [
        "SendScale"
    ]


@pytest.mark.parametrize("name", FOLDED)
def test_a_config_map_that_somebody_deleted_comes_back_under_the_name_that_is_mounted(
    name: str,
) -> None:
    observed = landing(name)
    (driver,) = observed.drivers.values()
    left = {key: value for key, value in observed.hashes.items() if driver.config not in key}

    _, actions = decided(replace(observed, hashes=left))

    restored = [a for a in actions if isinstance(a, Apply) and driver.config in str(a)]
    assert len(restored) == 1
    assert "immutable" not in restored[0].manifest


def test_a_config_map_goes_when_no_deployment_mounts_it() -> None:
    observed = landing("minimal")
    hashes = {**observed.hashes, "ConfigMap/clicks-g0-left": "old"}

    _, actions = decided(replace(observed, hashes=hashes))

    assert [a for a in actions if isinstance(a, Delete)] == [Delete("ConfigMap", "clicks-g0-left")]


def test_an_answer_without_a_version_is_of_the_first_contract() -> None:
    report = report_of(status_of_last_release("g1-a"), START)

    assert report
    assert isinstance(report.status, Status)
    assert report.status.contract == 1
    assert contract_mismatch(report.status) == ""


@pytest.mark.parametrize(("version", "advice"), [(0, "newer spec.image"), (99, "upgrade the")])
def test_a_driver_of_an_unknown_contract_is_named_with_what_to_do(
    version: int, advice: str
) -> None:
    report = report_of(status_of_last_release("g1-a"), START)
    assert report

    message = contract_mismatch(replace(report.status, contract=version))

    assert f"g1-a (0) has version {version} of the driver contract" in message
    assert advice in message
