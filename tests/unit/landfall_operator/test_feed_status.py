"""What users read of the files of a group's feeds."""

from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.feed_status import FeedStatus
from landfall_operator.api import status as written
from landfall_operator.api.reasons import ConditionReason, ConditionType, Phase
from landfall_operator.api.status import GroupStatus
from landfall_operator.core.snapshot import GroupObservation
from landfall_operator.reporting.status_writes import NUMBERS, write_interval
from tests.support.operator.cluster_model import World, group
from tests.unit.landfall_operator.test_group_status import condition, status_of, with_driver

LOOKED = "2026-11-21T05:00:00+00:00"
HITS = FeedStatus("hits", 1234, 5_678_901, 10, 0, 0, 1, looked=LOOKED)
PARKED = FeedStatus(
    "web", 0, 0, 3, 2, 1, 0, 0, LOOKED, "a: damaged", "landfall files retry GROUP.yaml web"
)


@pytest.fixture
def running() -> GroupObservation:
    world = World(group("good"))
    world.run(timedelta(minutes=5))
    return world.observe()


def reporting(running: GroupObservation, *feeds: FeedStatus) -> GroupObservation:
    (driver,) = running.drivers.values()
    assert driver.report
    status = replace(driver.report.status, feeds=feeds)
    return with_driver(running, report=replace(driver.report, status=status))


def feeds_of(status: GroupStatus) -> list[written.GroupFeedStatus]:
    return list(status.feeds or ())


def test_feeds_are_listed_with_rounded_numbers_those_with_an_error_first(
    running: GroupObservation,
) -> None:
    status = status_of(reporting(running, HITS, PARKED))

    assert [feed.topic for feed in feeds_of(status)] == ["web", "hits"]
    web, hits = feeds_of(status)
    assert (web.parked_parts, web.error) == (2, "a: damaged")
    assert (hits.pending_files, hits.pending_bytes, hits.landed_parts) == (1300, 5_700_000, 10)
    assert status.files == "1.3k pending, 2 parked"


def test_a_group_of_kafka_has_no_feeds(running: GroupObservation) -> None:
    status = status_of(running)

    assert (status.feeds, status.files) == (None, None)


def test_files_that_nobody_tries_any_more_stall_the_group(running: GroupObservation) -> None:
    status = status_of(reporting(running, HITS, PARKED))

    stalled = condition(status, ConditionType.STALLED)
    assert (status.phase, stalled.reason) == (Phase.STALLED, ConditionReason.FILE_UNREADABLE)
    assert "1 part of files could not be read, however often it was tried" in stalled.message
    assert "web: a: damaged; next: kubectl -n logs exec deploy/" in stalled.message
    assert stalled.message.endswith("-- landfall files retry web")


def test_files_that_are_tried_again_stall_nothing(running: GroupObservation) -> None:
    status = status_of(reporting(running, replace(PARKED, undecided_parts=0)))

    assert condition(status, ConditionType.STALLED).status == "False"
    assert status.files == "0 pending, 2 parked"


def test_the_last_numbers_stay_without_a_driver(running: GroupObservation) -> None:
    before = status_of(reporting(running, HITS))

    status = status_of(replace(running, status=before, drivers={}))

    assert status.feeds == before.feeds


def test_a_look_that_finds_nothing_is_no_reason_to_write(running: GroupObservation) -> None:
    before = status_of(reporting(running, HITS))

    looked = status_of(reporting(running, replace(HITS, looked="2026-11-21T05:01:00+00:00")))
    more = status_of(reporting(running, replace(HITS, pending_files=5000)))

    assert write_interval(before, looked) is None
    assert write_interval(before, more) == NUMBERS
