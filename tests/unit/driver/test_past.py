"""The charts of a driver's page go back beyond its start, by the ledger."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from landfall.api.contract import ExitCode
from landfall.driver.core.in_process import InProcessRunner
from landfall.driver.http import past
from landfall.driver.http.history import LONGEST_SECONDS, MOST_POINTS, Point, StatusHistory
from landfall.driver.http.past import PastReader, points_before
from landfall.driver.http.status import StatusReport
from landfall.driver.process import run
from landfall.driver.process.run import RunOptions, drive
from landfall.lane import Lane
from landfall.lane.stores import open_stores
from landfall.ledger import Commit, Record
from landfall.ledger.offsets import TopicPartition
from landfall.store.memory import MemoryStore
from tests.support.driver import console_pages
from tests.support.files.folder_feed import FolderFeed, rows
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger

TP = TopicPartition("clicks", 0)
NOW = datetime(2026, 11, 21, 6, tzinfo=UTC)
STEP = timedelta(seconds=LONGEST_SECONDS)


def commits(*ago: float) -> list[Record]:
    """COMMITs of ten records each, so many seconds before ``NOW``."""
    sample = SampleLedger().open().add(TP)
    found: list[Record] = []
    for number, seconds in enumerate(ago):
        slices = (sample.land(TP, 10 * number, 10 * number + 10),)
        header = structs.replace(
            sample.next_header, time=(NOW - timedelta(seconds=seconds)).isoformat()
        )
        found.append(Commit(header=header, token="t", slices=slices))
    return found


def test_counters_count_down_to_the_start() -> None:
    found = points_before(NOW, 9, commits(10, 200, 300, 500))

    assert [(NOW.timestamp() - p.time / 1000) for p in found] == [480, 240, 0]
    assert [p.landed_records for p in found] == [-30, -20, 0]
    assert [p.input_bytes for p in found] == [-270, -180, 0]
    assert [p.commits for p in found] == [6, 7, 9]
    assert {p.lag_records for p in found} | {p.failures for p in found} == {None}


def test_no_more_than_a_day_is_taken_and_nothing_before_what_was_read() -> None:
    day = 24 * 3600.0
    read: list[Record] = []

    def counted(records: list[Record]) -> object:
        for record in records:
            read.append(record)
            yield record

    found = points_before(NOW, 9, counted(commits(60, day + 5, day + 10)))  # type: ignore[arg-type]  # a generator

    assert len(found) == day / LONGEST_SECONDS + 1
    assert found[0].time == int((NOW.timestamp() - day) * 1000)
    assert len(read) == 2
    assert points_before(NOW, 9, []) == []


def point(ago: timedelta, lag: int | None) -> Point:
    shown = Point.of(console_pages.healthy(), NOW - ago)
    return replace(shown, lag_records=lag)


def test_what_this_process_saw_comes_after_the_past() -> None:
    history = StatusHistory()
    history.add(point(3 * STEP, None))  # it stood by
    history.take_past(points_before(NOW, 9, commits(10, 700, 900)))
    history.add(point(-STEP, 7))

    shown = history.columns()

    assert [lag for lag in shown["lag_records"] if lag is not None] == [7]
    assert shown["time"] == sorted(set(shown["time"]))
    assert shown["time"][-1] == int((NOW + STEP).timestamp() * 1000)
    assert len(shown["time"]) == 5
    history.take_past([])
    assert history.columns() == shown


def test_the_past_leaves_as_it_gets_old_and_there_is_a_bound() -> None:
    history = StatusHistory()
    history.take_past(points_before(NOW, 9, commits(10, 25 * 3600)))
    assert len(history.columns()["time"]) == 361

    most = 0
    for number in range(int(25 * 3600 / 15)):
        history.add(point(timedelta(seconds=-15 * (number + 1)), 7))
        if number % 40 == 0:
            most = max(most, len(history.columns()["time"]))

    assert 480 < most <= MOST_POINTS + 361
    assert None not in history.columns()["lag_records"]


def test_a_bounded_part_of_the_ledger_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = SampleLedger().open().add(TP)
    for number in range(300):
        sample.commit(sample.land(TP, 10 * number, 10 * number + 10))
    store = sample.store
    assert isinstance(store, MemoryStore)
    monkeypatch.setattr(past, "MOST_RECORDS", 20)
    now = datetime(2026, 11, 21, 5, 30, tzinfo=UTC)
    reader = PastReader(Lane(store, GROUP, LANE), StatusHistory(), lambda: now)
    store.requests.clear()

    reader.observe(sample.state)
    reader.join()

    assert reader.history.columns()["time"]
    assert store.requests.total() <= 64  # a window of slots


def test_a_store_that_fails_leaves_no_past() -> None:
    sample = SampleLedger().open().add(TP)
    reader = PastReader(Lane(MemoryStore(), GROUP, LANE), StatusHistory(), lambda: NOW)

    reader.observe(sample.state)
    reader.join()

    assert reader.history.columns()["time"] == []


def test_a_driver_that_starts_again_shows_what_was_landed_before(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = FolderFeed(tmp_path)  # type: ignore[arg-type]  # a path
    feed.put("a.json", rows(range(5)))
    assert feed.land() is ExitCode.OK
    boards = []

    class Board(run.StatusBoard):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments)  # type: ignore[arg-type]  # as they came
            boards.append(self)

    monkeypatch.setattr(run, "StatusBoard", Board)
    group = feed.group()
    shown: list[float | None] = []

    def watch(_: StatusReport) -> None:
        until = time.monotonic() + 10
        while not shown and time.monotonic() < until:
            shown[:] = boards[0].history.columns()["failures"]
            time.sleep(0.01)

    options = RunOptions(until_caught_up=True, http_port=0)
    assert drive(group, open_stores(group.spec), InProcessRunner(), options, watch) is ExitCode.OK

    assert shown[:1] == [None]  # only the ledger's points do not know it
