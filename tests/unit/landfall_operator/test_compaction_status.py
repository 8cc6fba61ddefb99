"""What users read of merging small objects."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.compaction_status import CompactionStatus
from landfall_operator.api import status as written
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.reporting.status_writes import NUMBERS, write_interval
from tests.support.operator.cluster_model import World, group
from tests.unit.landfall_operator.test_group_status import status_of, with_driver

MERGING = CompactionStatus(2, 1234, 5_678, 40, 5_678_901, duplicates=3, problem="o.json is damaged")


@pytest.fixture
def running() -> GroupObservation:
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    return world.observe()


def reporting(running: GroupObservation, merging: CompactionStatus | None) -> GroupObservation:
    (driver,) = running.drivers.values()
    assert driver.report
    status = replace(driver.report.status, compaction=merging)
    return with_driver(running, report=replace(driver.report, status=status))


def test_numbers_are_rounded_and_the_problem_is_named(running: GroupObservation) -> None:
    found = status_of(reporting(running, MERGING)).compaction

    assert found == written.GroupCompactionStatus(
        waiting_folders=2,
        waiting_objects=1300,
        merged_objects=5700,
        new_objects=40,
        merged_bytes=5_700_000,
        duplicates=3,
        problem="o.json is damaged",
    )


def test_a_group_that_merges_nothing_has_none(running: GroupObservation) -> None:
    assert status_of(running).compaction is None


def test_the_last_numbers_stay_without_a_driver_and_go_with_the_setting(
    running: GroupObservation,
) -> None:
    before = status_of(reporting(running, MERGING))

    away = status_of(replace(running, status=before, drivers={}))
    switched_off = status_of(reporting(replace(running, status=before), None))

    assert (away.compaction, switched_off.compaction) == (before.compaction, None)


def test_a_number_that_has_changed_little_is_no_reason_to_write(running: GroupObservation) -> None:
    before = status_of(reporting(running, MERGING))

    same = status_of(reporting(running, replace(MERGING, merged_objects=5_679)))
    more = status_of(reporting(running, replace(MERGING, waiting_objects=9_000)))

    assert (write_interval(before, same), write_interval(before, more)) == (None, NUMBERS)
