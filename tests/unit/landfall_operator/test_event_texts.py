"""Events about changed conditions."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall_operator.api.reasons import ConditionReason, ConditionType
from landfall_operator.api.status import GroupStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import GroupObservation, PodFailure
from landfall_operator.reporting.event_texts import condition_events
from landfall_operator.reporting.group_status import report
from tests.support.operator.cluster_model import World, group


@pytest.fixture
def running() -> GroupObservation:
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    return world.observe()


def status_of(observed: GroupObservation) -> GroupStatus:
    return report(observed, desired_state(observed))


def stalled(observed: GroupObservation, message: str = "access denied") -> GroupStatus:
    """The status after the driver ended because it lacks rights."""
    (driver,) = observed.drivers.values()
    failed = replace(
        driver, report=None, pod_failure=PodFailure(ConditionReason.STORE_DENIED, message)
    )
    return status_of(replace(observed, drivers={driver.revision: failed}))


def test_a_problem_is_announced_once(running: GroupObservation) -> None:
    before, after = status_of(running), stalled(running)

    events = list(condition_events(before, after))

    assert EmitEvent("Warning", "StoreDenied", "access denied") in events
    assert {event.kind for event in events} == {"Warning"}
    assert list(condition_events(after, after)) == []
    assert list(condition_events(after, stalled(running, "still denied"))) == []


def test_a_recovery_is_announced(running: GroupObservation) -> None:
    events = list(condition_events(stalled(running), status_of(running)))

    assert {event.reason for event in events} == {
        ConditionType.READY,
        ConditionType.STORE_SAFE,
        ConditionType.STALLED,
    }
    assert {event.kind for event in events} == {"Normal"}


def test_a_starting_driver_is_not_announced(running: GroupObservation) -> None:
    (driver,) = running.drivers.values()
    starting = replace(running, drivers={driver.revision: replace(driver, report=None)})

    assert list(condition_events(GroupStatus(), status_of(starting))) == []
