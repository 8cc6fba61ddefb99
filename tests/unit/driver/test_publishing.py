"""Publishers beside landing: when one has a pass, what it says of itself, and how it ends."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from landfall.api.contract import DriverPhase, ExitCode
from landfall.api.spec.publish import PublisherEntry
from landfall.driver.http.status import DriverProgress, StatusReport
from landfall.driver.process import publishing
from landfall.driver.process.publishing import LONGEST_PAUSE, PublisherRun, Publishing
from landfall.errors import DestinationAway, Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import State, decode
from landfall.ledger.offsets import TopicPartition
from landfall.publish import Published
from landfall.publish.following import Follower
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_status import report_of
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group
from tests.support.ledger.sample_ledger import GROUP, LANE, SampleLedger
from tests.support.publishers.played_publisher import PLAYED, Scripted
from tests.support.waiting import eventually

TP = TopicPartition("clicks", 0)
START = datetime(2026, 11, 21, 12, tzinfo=UTC)
AWAY = DestinationAway("the catalog does not answer")


class Played:
    """One publisher whose passes and whose time the test makes."""

    def __init__(self, *script: Published | Exception) -> None:
        self.now = START
        self.ledger = SampleLedger().open().add(TP)
        entry = PublisherEntry(name="lake", type=PLAYED, min_interval=timedelta(minutes=1))
        follower = Follower(Lane(self.ledger.store, GROUP, LANE))
        self.publisher = Scripted(list(script))
        self.run = PublisherRun(entry, self.publisher, follower, lambda: self.now)

    def land(self) -> "Played":
        """One more COMMIT that is visible, and the driver says so."""
        start = self.ledger.state.checkpoint[TP]
        self.ledger.commit(self.ledger.land(TP, start, start + 5)).shown()
        return self.observe()

    def observe(self) -> "Played":
        self.run.observe(self.ledger.state)
        return self

    def after(self, **passed: float) -> "Played":
        self.now += timedelta(**passed)
        return self


def test_a_publisher_without_anything_to_read_waits_for_the_ledger() -> None:
    played = Played(Published(3))
    assert played.run.pause() is None

    played.land()

    assert played.run.pause() == timedelta(0)
    assert played.run.run_pass()
    assert played.run.pause() is None


def test_passes_are_as_far_apart_as_the_spec_says() -> None:
    played = Played(Published(3), Published(5)).land()
    played.run.run_pass()

    played.after(seconds=10).land()

    assert played.run.pause() == timedelta(seconds=50)
    assert played.after(seconds=50).run.pause() == timedelta(0)


def test_the_lag_is_the_age_of_what_is_visible_and_not_published() -> None:
    played = Played(Published(3), AWAY, Published(5)).land()
    played.run.run_pass()
    assert played.after(hours=1).run.status.lag_seconds == 0

    played.land().after(minutes=5)
    played.run.run_pass()

    status = played.run.status
    assert (status.lag_seconds, status.lag_slots, status.slot) == (300, 2, 3)
    assert (status.failures, status.consecutive_failures, status.blocked) == (1, 1, None)
    assert status.message == "DestinationUnavailable: the catalog does not answer"
    played.run.run_pass()
    after = played.run.status
    assert (after.lag_seconds, after.lag_slots, after.consecutive_failures) == (0, 0, 0)
    assert (after.failures, after.message, after.last_time) == (1, "", played.now.isoformat())


def test_what_lands_during_a_pass_counts_from_its_begin() -> None:
    played = Played().land()

    class Slow(Scripted):
        def publish(self, follower: Follower) -> Published:
            del follower
            played.after(seconds=30).land()
            return Published(3)

    played.run.publisher = Slow()
    played.run.run_pass()

    assert played.after(seconds=30).run.status.lag_seconds == 60
    assert played.run.pause() == timedelta(0)


def test_a_driver_that_has_just_started_knows_how_old_the_backlog_is() -> None:
    played = Played(AWAY).land()

    played.run.run_pass()

    committed = datetime.fromisoformat("2026-11-21T05:00:00+00:00")  # as the sample ledger says
    assert played.run.status.lag_seconds == (START - committed).total_seconds()


def test_pauses_after_failures_grow_to_a_minute_and_end_with_the_first_success() -> None:
    played = Played(*[AWAY] * 8, Published(3), AWAY).land()
    pauses = list[float]()
    for _ in range(8):
        played.run.run_pass()
        pauses.append((played.run.pause() or timedelta(0)).total_seconds())
        played.after(seconds=pauses[-1])

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    played.run.run_pass()
    played.after(minutes=1).land().run.run_pass()
    assert played.run.pause() == timedelta(seconds=1)


def test_one_that_waits_for_somebody_tries_each_minute_or_when_it_is_asked_to() -> None:
    played = Played(Stalled(Reason.DESTINATION_CONFLICT, "column n is a string"), Published(3))
    played.land().run.run_pass()

    assert played.run.status.blocked == "DestinationConflict"
    assert played.run.pause() == LONGEST_PAUSE
    played.run.retry_now()
    assert played.run.pause() == timedelta(0)
    played.run.run_pass()
    assert played.run.status.blocked is None


def test_an_error_of_a_library_ends_no_thread() -> None:
    played = Played(ZeroDivisionError("division by zero")).land()

    assert not played.run.run_pass()

    assert played.run.status.message == "ZeroDivisionError: division by zero"
    assert played.run.pause() == timedelta(seconds=1)


# ------------------------------------------------------------------------------- in their threads


class Two:
    """A group with two publishers that write to files, and its ledger."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / "one.txt", folder / "two.txt"]
        entries = [
            {
                "name": path.stem,
                "type": PLAYED,
                "minInterval": "1ms",
                "options": {"path": str(path)},
            }
            for path in self.files
        ]
        self.sample = SampleLedger(MemoryStore()).open().add(TP)
        made = group(publish=entries)
        metadata = made.metadata.model_copy(update={"name": GROUP})
        self.group = made.model_copy(update={"metadata": metadata})
        self.all = Publishing(self.group, self.sample.store, lambda: datetime.now(UTC))

    def land(self) -> State:
        start = self.sample.state.checkpoint[TP]
        self.sample.commit(self.sample.land(TP, start, start + 5)).shown()
        return self.sample.state

    def fail(self, number: int, how: str) -> None:
        self.files[number].with_suffix(".fails").write_text(how)

    def published(self, number: int) -> int:
        return (
            len(self.files[number].read_text().splitlines()) if self.files[number].exists() else 0
        )


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    made = Two(tmp_path)
    made.all.start()
    yield made
    made.all.stop()


def test_publishers_publish_what_the_driver_calls_visible_and_none_waits_for_another(
    two: Two,
) -> None:
    two.fail(1, "stalled")

    two.all.observe(two.land())
    two.all.observe(two.land())

    eventually(lambda: two.published(0), lambda count: count == 2)
    eventually(lambda: two.all.statuses[1].blocked, "DestinationConflict".__eq__)
    assert two.published(1) == 0
    two.files[1].with_suffix(".fails").unlink()
    two.all.retry_now()
    eventually(lambda: two.published(1), lambda count: count == 2)
    assert [status.lag_slots for status in two.all.statuses] == [0, 0]


def test_at_the_end_each_publishes_what_landed_last(two: Two) -> None:
    two.land()  # nobody tells the publishers

    assert two.all.stop(tries=1) is None

    assert [two.published(0), two.published(1)] == [1, 1]


def test_the_end_says_what_is_not_published(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "FIRST_PAUSE", timedelta(milliseconds=1))
    two.fail(0, "retry")
    two.fail(1, "stalled")
    two.land()

    wrong = two.all.stop(tries=3)

    assert isinstance(wrong, Stalled)
    assert [status.failures for status in two.all.statuses] == [3, 1]


def test_a_destination_that_hangs_does_not_keep_a_process_from_ending(two: Two) -> None:
    release = threading.Event()

    class Hangs(Scripted):
        def publish(self, follower: Follower) -> Published:
            del follower
            release.wait(60)
            return Published(3)

    two.all.runs[0].publisher = Hangs()
    two.land()

    wrong = two.all.stop(tries=1, patience=timedelta(milliseconds=300))

    assert isinstance(wrong, Retry)
    assert "publish-one" in str(wrong)
    release.set()


def test_only_the_process_that_has_the_lane_reports_publishers(two: Two) -> None:
    store = MemoryStore()
    summary = report_of(driver(group(), store, FakeLog(), FakeRunner(store))).summary
    report = StatusReport(replace(summary, phase=DriverPhase.RUNNING))
    assert [p.name for p in two.all.overlay(report).status.publishers] == ["one", "two"]
    standby = StatusReport(replace(summary, phase=DriverPhase.STANDBY))
    assert two.all.overlay(standby).status.publishers == ()


def test_a_wrong_option_is_the_specs_fault(tmp_path: Path) -> None:
    made = group(publish=[{"name": "a", "type": PLAYED, "options": {"paht": "x"}}])

    with pytest.raises(Stalled, match=r"spec\.publish\[0\]\.options\.path: needed") as raised:
        Publishing(made, MemoryStore(), lambda: START)

    assert raised.value.reason is Reason.SPEC_INVALID


# ---------------------------------------------------------------------------- what the driver says


class _Settles:
    """Runs a driver until it has nothing to do for three minutes of its clock, and stops it."""

    def __init__(self, records: int = 20, **spec: object) -> None:
        self.records = records
        self.store, log = MemoryStore(), FakeLog().write("clicks", records)
        self.group = group(**spec)
        runner = FakeRunner(self.store)
        self.driver = driver(self.group, self.store, log, runner, until_caught_up=False)
        self.driver.report = self.seen
        self.at_rest_since: datetime | None = None

    def seen(self, progress: DriverProgress) -> None:
        landed = (
            progress.is_at_rest
            and TP in progress.state.checkpoint
            and progress.state.checkpoint[TP] == self.records
        )
        self.at_rest_since = (self.at_rest_since or progress.time) if landed else None
        if self.at_rest_since and progress.time - self.at_rest_since > timedelta(minutes=3):
            self.driver.stop("the test has seen enough")

    def tags(self) -> list[str]:
        assert self.driver.run() is ExitCode.OK
        lane = Lane(self.store, self.group.metadata.name, LANE)
        return [type(decode(seq, body)).__name__ for seq, body in lane.bodies()]


def test_an_idle_driver_says_once_what_is_visible_with_and_without_publishers() -> None:
    entry = {"name": "lake", "type": PLAYED, "options": {"path": "unused"}}

    with_publishers, without = _Settles(publish=[entry]).tags(), _Settles().tags()

    assert with_publishers == ["Open", "Add", "Commit", "Applied", "Yield"]
    assert without == ["Open", "Add", "Commit", "Applied", "Yield"]


def test_an_idle_driver_says_that_nothing_is_waited_for_after_a_change_without_objects() -> None:
    assert _Settles(records=0).tags() == ["Open", "Add", "Applied", "Yield"]


def test_an_idle_driver_waits_a_while_for_another_record() -> None:
    settles = _Settles()
    settles.driver.deps = replace(settles.driver.deps, confirm_after=timedelta(hours=1))
    settles.driver._committer.deps = settles.driver.deps

    assert settles.tags() == ["Open", "Add", "Commit", "Yield"]
