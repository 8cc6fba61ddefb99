"""What is said about changes of conditions."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall_operator.api.reasons import ConditionType, Reason
from landfall_operator.api.status import GroupStatus
from landfall_operator.core.actions import EmitEvent
from landfall_operator.core.desired_state import desired_state
from landfall_operator.core.snapshot import Observed, PodFailure
from landfall_operator.reporting.event_texts import changes
from landfall_operator.reporting.group_status import report
from tests.support.cluster_model import World, group


@pytest.fixture
def running() -> Observed:
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    return world.observe()


def told(observed: Observed) -> GroupStatus:
    return report(observed, desired_state(observed))


def stalled(observed: Observed, message: str = "access denied") -> GroupStatus:
    """The same with a driver that ended for want of rights."""
    (driver,) = observed.drivers.values()
    troubled = replace(driver, report=None, trouble=PodFailure(Reason.STORE_DENIED, message))
    return told(replace(observed, drivers={driver.revision: troubled}))


def test_what_goes_wrong_is_said_once(running: Observed) -> None:
    before, after = told(running), stalled(running)

    said = list(changes(before, after))

    assert EmitEvent("Warning", "StoreDenied", "access denied") in said
    assert {one.kind for one in said} == {"Warning"}
    assert list(changes(after, after)) == []
    assert list(changes(after, stalled(running, "still denied"))) == []


def test_what_is_well_again_is_said(running: Observed) -> None:
    said = list(changes(stalled(running), told(running)))

    assert {one.reason for one in said} == {
        ConditionType.READY,
        ConditionType.STORE_SAFE,
        ConditionType.STALLED,
    }
    assert {one.kind for one in said} == {"Normal"}


def test_starting_is_no_news(running: Observed) -> None:
    (driver,) = running.drivers.values()
    starting = replace(running, drivers={driver.revision: replace(driver, report=None)})

    assert list(changes(GroupStatus(), told(starting))) == []
