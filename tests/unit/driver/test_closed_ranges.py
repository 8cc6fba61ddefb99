"""A driver lands closed ranges one after the other, each to its end, and says so by RUN."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest

from landfall.api.contract import ExitCode
from landfall.driver.core.observer import Observer
from landfall.driver.core.planned_replacement import NoPlanner
from landfall.driver.http.status import DriverProgress, schedule_status
from landfall.driver.landing.closed_ranges import closing, until
from landfall.driver.landing.goals import UntilOffsets
from landfall.driver.process.loop import Driver
from landfall.errors import Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import EndedRun, State
from landfall.ledger.offsets import TopicPartition
from landfall.store.memory import MemoryStore
from landfall.task.counting import Miscounted, ObjectsOfSpec
from tests.support.driver.driver_events import after_next_batch, recreate
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, driver, group, landed_offsets
from tests.unit.ledger.test_ledger import CLICKS
from tests.unit.ledger.test_missing import DATA, missing

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
HOUR = timedelta(hours=1)
END = NOW - HOUR


def log_until(*, before: int, after: int) -> FakeLog:
    """Topics a and b; of a, so many records dated before the end of the range, and after it."""
    log = FakeLog().write("a", before + after).write("b", 3)
    log.times = {A: [(END - HOUR, 0), (END, before)], B: [(END - HOUR, 0)]}
    return log


def state(store: MemoryStore) -> State:
    return Lane(store, "fake", "0").read()


def millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)


def runs(store: MemoryStore) -> list[tuple[int, tuple[str, ...], int]]:
    return [(run.until, run.left, run.totals.landed) for run in state(store).runs]


def test_a_range_is_landed_to_its_end_and_not_further() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)

    code = driver(group(), store, log, FakeRunner(store), goal=until(END)).run()

    assert code is ExitCode.OK
    assert state(store).checkpoint.next_offsets == {A: 5, B: 3}
    assert runs(store) == [(millis(END), (), 8)]
    assert sorted(landed_offsets(store)) == [("a", 0, n) for n in range(5)] + [
        ("b", 0, n) for n in range(3)
    ]


def test_what_a_range_completes_is_merged_before_the_range_ends() -> None:
    asked = list[tuple[Mapping[str, int], int]]()

    class Merges(NoPlanner):
        def merged_first(
            self,
            state: State,
            wanted: Mapping[str, int],
            *,
            ends: bool = False,
            until_deleted: bool = True,
        ) -> Mapping[str, int]:
            if ends or until_deleted:
                return wanted
            asked.append((wanted, len(state.runs)))
            return wanted if len(asked) > 3 else {"a": wanted["a"]}

    of = group(completeness={"delay": "10m"}, route={"pattern": "dt={date}/hr={hour}"})
    store, log = MemoryStore(), log_until(before=5, after=4)
    one = driver(of, store, log, FakeRunner(store), goal=until(END))
    deps = replace(one.deps, new_planner=lambda *_: Merges())

    Driver(of, one.writer, deps, lambda _: None, goal=until(END)).run()

    assert [runs for _, runs in asked] == [0] * 4
    assert {*map(frozenset, (wanted for wanted, _ in asked))} == {frozenset("ab")}
    assert len(runs(store)) == 1


def test_the_next_range_begins_where_the_one_before_ended() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    driver(group(), store, log, FakeRunner(store), goal=until(END)).run()
    log.times[A].append((END + HOUR / 2, 8))

    driver(group(), store, log, FakeRunner(store), goal=until(END + HOUR / 2), writer="w2").run()

    assert state(store).checkpoint[A] == 8
    assert runs(store) == [(millis(END), (), 8), (millis(END + HOUR / 2), (), 3)]


def test_a_range_that_has_ended_is_not_landed_again() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    for writer in ("w1", "w2"):
        one = driver(group(), store, log, FakeRunner(store), goal=until(END), writer=writer)
        assert one.run() is ExitCode.OK

    assert len(runs(store)) == 1
    assert state(store).checkpoint[A] == 5


def test_ranges_that_were_missed_are_landed_in_order() -> None:
    def ranges(after: int | None, _: datetime) -> Iterable[datetime]:
        ends = (END - HOUR, END)
        return (end for end in ends if after is None or millis(end) > after)

    store, log = MemoryStore(), log_until(before=5, after=4)
    log.times[A] = [(END - 2 * HOUR, 0), (END - HOUR, 2), (END, 5)]

    driver(group(), store, log, FakeRunner(store), goal=closing(ranges)).run()

    assert runs(store) == [(millis(END - HOUR), (), 2), (millis(END), (), 6)]


def test_a_topic_that_is_stalled_is_left_and_the_others_are_landed() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    log.denied.add("b")
    log.named = ("b",)

    code = driver(group(), store, log, FakeRunner(store), goal=until(END)).run()

    assert code is ExitCode.STALLED
    assert runs(store) == [(millis(END), ("b",), 5)]


def test_what_was_left_is_landed_by_a_later_driver_under_the_same_end() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    runner = FakeRunner(store)
    runner.failures[B] = [Stalled(Reason.DATA_LOSS, "no such offset")] * 3
    first = driver(group(), store, log, runner, goal=until(END))

    assert first.run() is ExitCode.STALLED
    assert (
        first.counters.message
        == "DataLoss: no such offset\nnot landed up to the end of the range: b"
    )

    again = driver(group(), store, log, FakeRunner(store), goal=until(END), writer="w2")
    assert again.run() is ExitCode.OK
    assert runs(store) == [(millis(END), ("b",), 5), (millis(END), (), 3)]


def test_nothing_is_said_again_if_nothing_more_is_landed() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    for writer in ("w1", "w2"):
        runner = FakeRunner(store)
        runner.failures[B] = [Stalled(Reason.DATA_LOSS, "no such offset")] * 3
        one = driver(group(), store, log, runner, goal=until(END), writer=writer)
        assert one.run() is ExitCode.STALLED

    assert len(runs(store)) == 1


def test_records_of_an_open_transaction_are_waited_for() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    log.high_watermarks = {B: 4}
    one = driver(group(), store, log, FakeRunner(store), goal=until(END))
    looks = iter(range(3))
    ended_during = list[int]()

    def commit(_: object) -> None:
        ended_during.append(len(runs(store)))
        if next(looks, None) is None:
            log.write("b", 4)

    one.report = commit

    assert one.run() is ExitCode.OK
    assert state(store).checkpoint[B] == 4
    assert set(ended_during[:3]) == {0}


def test_a_record_ahead_of_the_clock_ends_no_range() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    log.times[A] = [(END - HOUR, 0), (NOW + 100_000 * HOUR, 2)]

    driver(group(), store, log, FakeRunner(store), goal=until(END)).run()

    assert state(store).checkpoint[A] == 9


def test_a_range_makes_topics_complete_up_to_the_delay_before_its_end() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    of = group(route={"pattern": "dt={date}/hr={hour}"}, completeness={"delay": "5m"})

    driver(of, store, log, FakeRunner(store), goal=until(END + timedelta(minutes=5))).run()

    assert state(store).horizons == {"a": millis(END), "b": millis(END)}


def test_without_a_delay_a_range_completes_the_hour_that_it_ends_with() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    route = {"pattern": "dt={date}/hr={hour}"}
    of = group(route=route, completeness={"delay": "0s"}, schedule={"cron": "5 * * * *"})
    hour = END.replace(minute=0, second=0, microsecond=0)

    driver(of, store, log, FakeRunner(store), goal=until(hour)).run()

    assert state(store).horizons == {"a": millis(hour), "b": millis(hour)}


def test_a_range_whose_end_has_not_come_is_landed_as_it_comes() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    end = NOW + timedelta(minutes=2)
    one = driver(group(), store, log, FakeRunner(store), goal=until(end))

    assert one.run() is ExitCode.OK
    (run,) = state(store).runs
    assert (run.until, run.totals.landed) == (millis(end), 12)
    assert isinstance(run, EndedRun)
    assert run.ended > end.isoformat()


@pytest.mark.parametrize("end", [5, 15])
def test_a_range_ends_in_the_log_of_a_topic_that_was_created_again_meanwhile(end: int) -> None:
    store, log = MemoryStore(), log_until(before=2, after=0)
    driver(group(), store, log, FakeRunner(store), goal=until(END)).run()
    log.write("a", 10)
    runner = FakeRunner(store)

    def created_again() -> None:
        recreate(log, "a", end)
        log.times[A] = [(END + HOUR / 2, end - 1)]

    after_next_batch(runner, created_again)
    goal, of = until(END + HOUR / 2), group(generation=2)

    assert driver(of, store, log, runner, goal=goal, writer="w2").run() is ExitCode.OK
    assert state(store).checkpoint[A] == end - 1
    assert runs(store)[1:] == [(millis(END + HOUR / 2), (), end - 1)]


def test_a_topic_that_was_created_again_is_left_though_it_has_fewer_records() -> None:
    store, log = MemoryStore(), log_until(before=5, after=0)
    of = group(route={"pattern": "dt={date}/hr={hour}"}, completeness={"delay": "5m"})
    driver(of, store, log, FakeRunner(store), goal=until(END)).run()
    recreate(log, "a", 3)

    one = driver(of, store, log, FakeRunner(store), goal=until(END + HOUR), writer="w2")

    assert one.run() is ExitCode.STALLED
    assert runs(store)[1:] == [(millis(END + HOUR), ("a",), 0)]
    assert state(store).horizons["a"] < state(store).horizons["b"]


def test_a_topic_that_the_spec_does_not_select_any_more_is_no_failure() -> None:
    store, log = MemoryStore(), log_until(before=5, after=0)
    driver(group(), store, log, FakeRunner(store), goal=until(END)).run()
    del log.partitions["b"]
    kafka = {"bootstrapServers": "x:9092", "topics": ["a"]}
    of, end = group(source={"kafka": kafka}), END + HOUR / 2

    seen = list[DriverProgress]()
    one = driver(of, store, log, FakeRunner(store), goal=until(end), writer="w2")
    one.report = seen.append

    assert one.run() is ExitCode.OK
    assert runs(store)[1:] == [(millis(end), ("b",), 0)]
    shown = schedule_status(of, seen[-1])
    assert shown
    assert [run.left for run in shown.runs] == [(), ()]


def test_a_partition_that_was_created_before_the_end_of_a_range_is_a_part_of_it() -> None:
    store, log = MemoryStore(), log_until(before=5, after=0)
    end = NOW + timedelta(minutes=2)
    one = driver(group(), store, log, FakeRunner(store), goal=until(end))
    observer = Observer(log, timedelta(minutes=30))
    one = Driver(
        one.group, one.writer, replace(one.deps, observer=observer), one.report, goal=until(end)
    )

    def create(progress: DriverProgress) -> None:
        if progress.state.checkpoint.next_offsets == {A: 5, B: 3}:
            log.write("b", 3, 7)

    one.report = create

    assert one.run() is ExitCode.OK
    assert [run.totals.landed for run in state(store).runs] == [15]


def test_a_range_waits_until_a_deleted_topic_has_left() -> None:
    store, log = MemoryStore(), log_until(before=5, after=0)
    kafka = {"bootstrapServers": "x:9092", "topicPattern": ".*", "onDataLoss": "SkipAndRecord"}
    of, end = group(source={"kafka": kafka}), END + HOUR / 2
    driver(of, store, log, FakeRunner(store), goal=until(END)).run()
    del log.partitions["b"]

    one = driver(of, store, log, FakeRunner(store), goal=until(end), writer="w2")

    assert one.run() is ExitCode.OK
    assert state(store).members.keys() == {A}
    assert runs(store)[1:] == [(millis(end), (), 0)]


def test_offsets_end_a_driver_once_they_are_landed() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)

    code = driver(group(), store, log, FakeRunner(store), goal=partial(UntilOffsets, {A: 7})).run()

    assert code is ExitCode.OK
    assert state(store).checkpoint.next_offsets == {A: 7, B: 0}
    assert runs(store) == []


def test_a_topic_that_does_not_reach_its_offsets_is_left() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    runner = FakeRunner(store)
    runner.failures[B] = [Stalled(Reason.DATA_LOSS, "no such offset")]
    goal = partial(UntilOffsets, {A: 7, B: 2})

    one = driver(group(), store, log, runner, goal=goal)

    assert one.run() is ExitCode.STALLED
    assert "not landed up to the end of the range: b" in one.counters.message


def test_a_topic_with_a_missing_object_is_left_though_its_offsets_are_reached() -> None:
    state, goal, other = missing(DATA), UntilOffsets({CLICKS: 5}), UntilOffsets({})

    goal.advance(state, {CLICKS}, is_landed=True)
    other.advance(state, {CLICKS}, is_landed=True)

    assert state.checkpoint[CLICKS] == 5
    assert (goal.is_done, goal.left) == (True, ["clicks"])
    assert (other.is_done, other.left) == (True, [])


def test_a_topic_whose_objects_do_not_hold_their_rows_is_left() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    runner = FakeRunner(store)
    read_back, spoiled = runner.read_back, list[str]()

    def after_damage(shares: Sequence[ObjectsOfSpec]) -> list[Miscounted]:
        key = next(o.upload.key for share in shares for o in share.objects if "b/" in o.upload.key)
        spoiled.append(key)
        store.overwrite(key, b"0\n1\n")
        return read_back(shares)

    runner.read_back = after_damage  # type: ignore[method-assign]
    one = driver(group(), store, log, runner, goal=until(END))

    assert one.run() is ExitCode.STALLED
    assert runs(store) == [(millis(END), ("b",), 8)]
    assert f"ObjectLost: {spoiled[0]}: 2 rows" in one.counters.message


def test_a_check_that_fails_is_repeated() -> None:
    store, log = MemoryStore(), log_until(before=5, after=4)
    runner = FakeRunner(store)
    read_back, errors = runner.read_back, [Retry("no answer")]

    def once_away(shares: Sequence[ObjectsOfSpec]) -> list[Miscounted]:
        if errors:
            raise errors.pop()
        return read_back(shares)

    runner.read_back = once_away  # type: ignore[method-assign]

    assert driver(group(), store, log, runner, goal=until(END)).run() is ExitCode.OK
    assert runs(store) == [(millis(END), (), 8)]
