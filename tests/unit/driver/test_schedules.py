"""A driver in a pod lands the ranges of a schedule as they come, and waits in between."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from landfall.api.contract import ExitCode, Status
from landfall.api.spec import Schedule
from landfall.driver.core.counters import DriverCounters
from landfall.driver.http.status import DriverProgress, driver_report
from landfall.driver.landing.closed_ranges import scheduled
from landfall.driver.process.loop import Driver
from landfall.errors import Reason, Stalled
from landfall.lane import Lane
from landfall.ledger import EndedRun
from landfall.ledger.offsets import TopicPartition
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, driver, group

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
EVERY_MINUTE = Schedule(cron="* * * * *")
HOURLY = Schedule(cron="0 * * * *")
LAST_TICK = NOW.replace(second=0, microsecond=0)


def runs(store: MemoryStore) -> list[EndedRun]:
    return list(Lane(store, "fake", "0").read().runs)


def until(run: EndedRun) -> datetime:
    return datetime.fromtimestamp(run.until / 1000, UTC)


def log() -> FakeLog:
    """Topics a and b; five records are due, and the other four of a are a minute later."""
    found = FakeLog().write("a", 6).write("b", 3)
    long_ago = LAST_TICK - timedelta(hours=1)
    found.times = {A: [(long_ago, 0), (LAST_TICK, 2)], B: [(long_ago, 0)]}
    return found


def status(of: DriverProgress) -> Status:
    spec = group(schedule={"cron": EVERY_MINUTE.cron})
    return driver_report(spec, "0", of, DriverCounters(NOW)).status


def landing(
    store: MemoryStore,
    runner: FakeRunner,
    see: Callable[[Driver, Status], None],
    *,
    schedule: Schedule = EVERY_MINUTE,
    stays: bool = True,
) -> ExitCode:
    """Run a driver of the schedule, and show each of its reports to ``see``."""
    goal = scheduled(schedule, stays=stays)
    one = driver(group(tuning={"pollInterval": "1ms"}), store, log(), runner, goal=goal)
    one.report = lambda progress: see(one, status(progress))
    return one.run()


def test_a_driver_that_stays_lands_each_range_when_its_time_comes() -> None:
    store, waits = MemoryStore(), list[bool]()

    def see(one: Driver, shown: Status) -> None:
        assert shown.schedule
        waits.append(shown.schedule.waits)
        if len(shown.schedule.runs) == 3:
            one.stop("enough")

    code = landing(store, FakeRunner(store), see)

    assert code is ExitCode.OK
    minute = timedelta(minutes=1)
    found = [(until(run) - LAST_TICK, run.totals.landed) for run in runs(store)]
    assert found[:3] == [(0 * minute, 5), (1 * minute, 4), (2 * minute, 0)]
    assert not waits[0], "before the first look nobody knows whether anything is due"


def test_a_driver_that_does_not_stay_ends_after_the_range_that_is_due() -> None:
    store = MemoryStore()

    code = landing(store, FakeRunner(store), lambda *_: None, stays=False)

    assert code is ExitCode.OK
    assert until(runs(store)[0]) == LAST_TICK


def test_what_is_not_due_is_no_lag() -> None:
    store, seen = MemoryStore(), list[Status]()

    def see(one: Driver, shown: Status) -> None:
        if shown.schedule and shown.schedule.waits:
            seen.append(shown)
            one.stop("enough")

    landing(store, FakeRunner(store), see)

    assert (seen[0].lag_records, seen[0].overdue_seconds) == (0, 0.0)
    assert [p.end_offset for p in seen[0].partitions] == [6, 3]
    (run,) = seen[0].schedule.runs if seen[0].schedule else ()
    assert (run.until, run.records, run.objects) == (LAST_TICK.isoformat(), 5, 2)


def test_a_range_is_overdue_since_its_end() -> None:
    store, overdue = MemoryStore(), list[float]()

    def see(one: Driver, shown: Status) -> None:
        if shown.lag_records:
            age = (datetime.fromisoformat(shown.time) - LAST_TICK).total_seconds()
            overdue.append(shown.overdue_seconds - age)
        if shown.schedule and shown.schedule.waits:
            one.stop("enough")

    landing(store, FakeRunner(store), see)

    assert overdue
    assert max(overdue) <= 0


def test_what_was_left_is_landed_once_nothing_holds_it() -> None:
    store, held = MemoryStore(), list[bool]()
    runner = FakeRunner(store)
    runner.failures[B] = [Stalled(Reason.SOURCE_DENIED, "denied")] * 10_000

    def see(one: Driver, shown: Status) -> None:
        assert shown.schedule
        ended = shown.schedule.runs
        if ended:
            runner.failures[B] = []
        held.append(any(p.blocked for p in shown.partitions))
        if ended and not ended[0].left and len(ended) > 1:
            one.stop("enough")

    landing(store, runner, see, schedule=HOURLY)

    assert [(until(run), run.left) for run in runs(store)] == [
        (LAST_TICK, ("b",)),
        (LAST_TICK, ()),
    ]
    assert any(held)
