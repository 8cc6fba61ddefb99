"""When a driver decides that hours are complete: what counts, and what holds a topic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from msgspec import structs

from landfall import ledger
from landfall.driver.core.observer import Observer
from landfall.driver.http.metrics import StatusCollector
from landfall.driver.landing.finalizing import Finalizing
from landfall.errors import Reason, Retry
from landfall.ledger import Add, Block, Blocked, Commit, Drop, Entry, Finalize, State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_events import recreate
from tests.support.driver.driver_status import status_of
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group
from tests.unit.ledger.test_ledger import header, opened

A, B = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
BEGAN = datetime(2026, 11, 22, 3, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def ms(hour: int, minute: int = 0) -> int:
    return int(datetime(2026, 11, 22, hour, minute, tzinfo=UTC).timestamp() * 1000)


@dataclass
class Case:
    """A log of two partitions, and a driver that looks at it; A has a record more than it lands."""

    log: FakeLog = field(default_factory=lambda: FakeLog().write("clicks", 6, 5))
    now: datetime = BEGAN
    state: State = field(default_factory=lambda: opened(State()))
    written: list[Finalize] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start()
        self.enter(A, B)

    def start(self) -> None:
        """Begin with a driver that has not looked yet."""
        self.observer = Observer(self.log, timedelta(0))
        of = group(completeness={"delay": "30m"}, route={"pattern": "dt={date}/hr={hour}"})
        self.finalizing = Finalizing(of, self.observer, self.append)

    def append(self, record: Callable[..., ledger.Record]) -> State:
        at_rest = header(self.state, self.state.seq)
        made = record(header=structs.replace(at_rest, time=self.now.isoformat()))
        self.state = ledger.fold(self.state, ledger.encode(made))
        if isinstance(made, Finalize):
            self.written.append(made)
        return self.state

    def enter(self, *tps: TopicPartition, topic_id: str = "id-clicks") -> None:
        entries = tuple(Entry(tp, topic_id, 0) for tp in tps)
        self.append(lambda header: Add(header=header, entries=entries))

    def land(self, tp: TopicPartition, end: int, latest_ms: int) -> "Case":
        start = self.state.checkpoint[tp]
        invisible = end - start
        landed = LandedSlice(Slice(tp, OffsetRange(start, end)), (), 0, 0, 0, invisible, 0)
        slices = (structs.replace(landed, latest_ms=latest_ms),)
        self.append(lambda header: Commit(header=header, token="t", slices=slices))
        return self

    def after(self, minutes: int = 1) -> int:
        """Go on so long, a pass each minute; returns up to when the topic is complete."""
        for _ in range(minutes):
            self.now += MINUTE
            self.observer.look(self.now, self.state.checkpoint)
            self.finalizing.advance(self.state, self.now)
        return self.state.horizon("clicks")

    @property
    def holds(self) -> list[tuple[TopicPartition, str]]:
        return [(held.topic_partition, held.why) for held in self.finalizing.held]


def test_a_topic_is_complete_when_every_partition_has_landed_past_the_hour_by_the_delay() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(2, 29))

    assert case.after() == ms(1)
    assert case.holds[0][0] == B
    case.log.write("clicks", 6, 6)
    assert case.land(B, 6, ms(2, 30)).after() == ms(2)
    assert not case.holds
    assert case.written[-1].entries[0].drained == ()


def test_a_topic_that_is_merged_first_is_complete_up_to_what_is_merged() -> None:
    case, wanted = Case().land(A, 5, ms(2, 30)).land(B, 5, ms(2, 30)), list[tuple[int, bool]]()
    merged = dict[str, int]()

    def merged_first(
        _: State, of: Mapping[str, int], *, ends: bool = False, until_deleted: bool = True
    ) -> Mapping[str, int]:
        assert until_deleted
        wanted.append((of["clicks"], ends))
        return of if ends else merged

    case.finalizing.merged_first = merged_first
    assert [case.after(3), wanted] == [-1, [(ms(2), False)] * 3]
    case.finalizing.advance(case.state, case.now + timedelta(seconds=6))
    assert len(wanted) == 4  # soon, while something is merged

    merged["clicks"] = ms(1)
    assert case.after() == ms(1)
    case.finalizing.advance(case.state, case.now, at_once=True, ends=True)

    assert [w.entries[0].until for w in case.written] == [ms(1), ms(2)]


def test_nothing_is_decided_twice() -> None:
    case = Case().land(A, 5, ms(2, 30)).land(B, 5, ms(2, 30))

    case.after(20)

    assert [w.entries[0].until for w in case.written] == [ms(2)]


def test_an_idle_partition_counts_after_the_delay() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, -1)

    assert case.after(29) == -1
    assert case.after(3) == ms(2)  # A counts until 03:05
    assert case.written[-1].entries[0].drained == ((1, 5),)
    case.log.write("clicks", 5, 5)
    assert case.after(31) == ms(3)  # both are idle, at 04:13
    assert case.written[-1].entries[0].drained == ((0, 5), (1, 5))


def test_drivers_that_only_look_now_and_then_complete_the_hours_of_an_idle_group() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, -1)
    case.log.write("clicks", 5, 5)
    horizons = list[int]()

    for _ in range(13):
        case.now += 10 * MINUTE
        case.start()
        horizons.append(case.after())

    assert horizons[:6] == [-1, -1, -1, -1, -1, ms(3)]  # half an hour later: clocks may differ
    assert horizons[-1] == ms(4)


def test_what_was_written_while_no_driver_looked_was_written_now() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(1))
    case.log.write("clicks", 5, 6)
    case.now += 120 * MINUTE
    case.start()
    case.after()

    case.land(B, 6, ms(1))

    assert case.after(29) == ms(0)
    assert case.after(3) == ms(5)


def test_who_has_just_written_is_not_idle() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, -1)
    case.after(20)
    case.log.write("clicks", 6, 6)

    case.after()
    case.land(B, 6, -1)

    assert case.after(20) == -1
    assert case.after(12) == ms(2)


def test_records_that_are_not_landed_or_in_an_open_transaction_are_waited_for() -> None:
    unlanded = Case().land(A, 5, ms(3, 5)).land(B, 4, ms(1))
    in_transaction = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(1))
    in_transaction.log.high_watermarks[B] = 6
    away = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(1))
    away.after()
    away.log.unavailable[B] = Retry("away")

    for case in (unlanded, in_transaction, away):
        assert case.after(120) == ms(0)  # B counts until 01:00
        assert case.holds[0][0] == B


def test_a_partition_that_is_not_in_the_ledger_holds_its_topic() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(3, 5))
    case.log.write("clicks", 6, 5, 0)

    assert case.after() == -1
    assert case.holds == [(TopicPartition("clicks", 2), "it is not landed yet")]
    case.enter(TopicPartition("clicks", 2))
    assert case.after(31) == ms(2)


def test_a_topic_that_was_created_again_is_held_until_that_is_landed() -> None:
    case = Case().land(A, 5, ms(4, 30)).land(B, 5, ms(4, 30))
    case.log.write("clicks", 5, 5)
    recreate(case.log, "clicks", 5)

    assert case.after(120) == -1
    assert case.holds == [(A, "it is not landed yet")]


def test_a_topic_that_was_created_again_has_just_been_written() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(1))
    case.after(40)
    recreate(case.log, "clicks", 4)
    case.state = opened(case.state, generation=2)
    case.append(lambda header: Drop(header=header, topic_partitions=(A, B), reason="recreated"))
    case.enter(A, topic_id="id-clicks-again")
    case.land(A, 4, ms(1))

    assert case.after(30) == ms(2)
    assert case.after(2) == ms(3)


def test_what_was_created_again_before_a_driver_began_is_not_idle_since_an_earlier_look() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(1))
    recreate(case.log, "clicks", 5)
    case.now += 120 * MINUTE
    case.start()
    case.after()
    case.state = opened(case.state, generation=2)
    case.append(lambda header: Drop(header=header, topic_partitions=(A, B), reason="recreated"))
    case.enter(A, topic_id="id-clicks-again")
    case.land(A, 5, ms(1))

    assert case.after(29) == ms(0)
    assert case.after(2) == ms(5)


def test_nothing_is_complete_that_may_be_in_a_partition_which_is_not_discovered_yet() -> None:
    case = Case().land(A, 5, ms(3, 40)).land(B, 5, ms(3, 40))
    case.observer.discovery_interval = 10 * MINUTE
    case.now = BEGAN + 15 * MINUTE
    case.after()
    case.log.write("clicks", 6, 5, 2)

    assert case.after(6) == ms(2)
    assert case.after(5) == ms(2)
    assert case.holds == [(TopicPartition("clicks", 2), "it is not landed yet")]


def test_a_blocked_partition_holds_its_topic_however_long() -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(1))
    entries = (Blocked(B, Reason.DATA_LOSS, "truncated", OffsetRange(0, 5)),)
    case.append(lambda header: Block(header=header, entries=entries))

    assert case.after(120) == ms(0)
    assert case.holds == [(B, "it is blocked: DataLoss")]


def test_event_times_ahead_of_the_look_complete_nothing_early() -> None:
    case = Case().land(A, 5, ms(9)).land(B, 5, ms(9))

    assert case.after() == ms(2)


def test_a_group_without_completeness_and_a_route_without_days_decide_nothing() -> None:
    for spec in ({}, {"completeness": {}, "route": {"pattern": "hr={hour}"}}):
        case = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(3, 5))
        case.finalizing = Finalizing(group(**spec), case.observer, case.append)

        assert case.after(90) == -1
        assert not case.holds


def test_a_driver_that_hands_over_decides_what_it_knows_though_it_has_just_looked() -> None:
    case = Case()
    case.after()
    case.land(A, 5, ms(2, 30)).land(B, 5, ms(2, 30))

    case.finalizing.advance(case.state, case.now)
    assert not case.written
    case.finalizing.advance(case.state, case.now, at_once=True)

    assert [w.entries[0].until for w in case.written] == [ms(2)]


def test_the_status_and_the_metrics_say_up_to_when_and_what_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case().land(A, 5, ms(3, 5)).land(B, 5, ms(2, 29))
    case.after()
    store = MemoryStore()
    one = driver(group(), store, case.log, FakeRunner(store))
    progress = replace(one.progress(), state=case.state, held=case.finalizing.held)
    monkeypatch.setattr(one, "progress", lambda: progress)

    status = status_of(one)

    until = "2026-11-22T01:00:00+00:00"
    [topic] = status.completeness
    assert (topic.topic, topic.until, topic.held_by) == ("clicks", until, "clicks/1")
    assert "later event times of it are not landed" in topic.why
    collector = StatusCollector(lambda: (status, one.counters))
    families = {family.name: family for family in collector.collect()}
    [sample] = families["landfall_topic_complete_until_timestamp_seconds"].samples
    assert (sample.labels["topic"], sample.value) == ("clicks", ms(1) / 1000)
