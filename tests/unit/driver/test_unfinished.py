"""A run with an end that is stopped before it does not end like one that has reached it."""

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from landfall.api.contract import ExitCode
from landfall.driver.core.in_process import InProcessRunner
from landfall.driver.http.status import StatusReport
from landfall.driver.landing.closed_ranges import until
from landfall.driver.process.run import RunOptions, drive, run_group
from landfall.lane.stores import open_stores
from tests.support.files.folder_feed import FolderFeed, rows

WITH_AN_END = {
    "--until-caught-up": RunOptions(until_caught_up=True, http_port=0),
    "--until": RunOptions(goal=until(datetime(2026, 11, 21, tzinfo=UTC)), http_port=0),
}
ENDS = pytest.mark.parametrize("options", WITH_AN_END.values(), ids=WITH_AN_END)
HOURLY = {"schedule": {"cron": "0 * * * *"}, "completeness": {"delay": "1m"}}


class Terminated:
    """SIGTERM as soon as the driver shows anything."""

    def __init__(self) -> None:
        self._is_over = False

    def __call__(self, _: StatusReport) -> None:
        if not self._is_over:
            self._is_over = True
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def feed(tmp_path: Path) -> FolderFeed:
    made = FolderFeed(tmp_path)
    made.put("a.json", rows(range(5)))
    return made


def run(
    feed: FolderFeed, options: RunOptions, show: Callable[[StatusReport], None] | None = None
) -> ExitCode:
    group = feed.group()
    return drive(group, open_stores(group.spec), InProcessRunner(), options, show)


@ENDS
def test_a_run_that_is_stopped_before_its_end_is_unfinished(
    feed: FolderFeed, options: RunOptions
) -> None:
    assert run(feed, options, Terminated()) is ExitCode.UNFINISHED
    assert run(feed, options) is ExitCode.OK


def test_a_run_without_an_end_is_ended_by_a_signal(feed: FolderFeed) -> None:
    assert run(feed, RunOptions(http_port=0), Terminated()) is ExitCode.OK


def test_a_scheduled_run_has_an_end_but_in_a_pod_it_stays(feed: FolderFeed) -> None:
    group = feed.group(HOURLY)

    def ends(options: RunOptions) -> ExitCode:
        return drive(group, open_stores(group.spec), InProcessRunner(), options, Terminated())

    assert ends(RunOptions(http_port=0)) is ExitCode.UNFINISHED
    assert ends(RunOptions(http_port=0, stays=True)) is ExitCode.OK


@ENDS
def test_a_suspended_group_does_not_reach_an_end(feed: FolderFeed, options: RunOptions) -> None:
    group = feed.group({"state": "Suspended"})

    assert run_group(group, options) is ExitCode.UNFINISHED
    assert run_group(group, RunOptions()) is ExitCode.OK
