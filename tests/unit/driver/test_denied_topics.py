"""A topic that may not be described: it waits, nothing is decided about it, and the others land."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from landfall import ledger
from landfall.api.contract import ExitCode
from landfall.driver.core.observer import Observer
from landfall.driver.http.status import DriverProgress
from landfall.driver.process.loop import Driver
from landfall.driver.requests.executor import observe
from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import Checkpoint, TopicPartition
from landfall.source import Watermarks
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_events import after_next_batch, ledger_state
from tests.support.driver.fakes import (
    NOW,
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)
from tests.unit.driver.test_lost_uploads import commit_and_lose, next_driver

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
LATER = NOW + timedelta(minutes=1)
PATTERN: dict[str, object] = {"bootstrapServers": "x:9092", "topicPattern": ".*"}
NAMED: dict[str, object] = {"bootstrapServers": "x:9092", "topics": ["a", "b"]}


def test_topic_partitions_of_a_denied_topic_are_unavailable_and_keep_what_was_known() -> None:
    log, checkpoint = FakeLog().write("a", 10).write("b", 5), Checkpoint({A0: 10, B0: 3})
    observer = Observer(log, timedelta(0))
    observer.look(NOW, checkpoint)
    log.denied.add("b")

    observer.look(LATER, checkpoint)

    assert observer.view.unavailable.keys() == {B0}
    assert observer.watermarks[B0] == Watermarks(0, 5)
    assert observer.missing == ()
    assert [topic.name for topic in observer.topics] == ["a"]


def test_a_member_that_was_denied_from_the_start_is_unavailable() -> None:
    log = FakeLog(denied={"b"}).write("a", 10).write("b", 5)
    observer = Observer(log, timedelta(0))

    observer.look(NOW, Checkpoint({A0: 10, B0: 3}))

    assert observer.view.unavailable.keys() == {B0}
    assert (observer.watermarks.keys(), observer.missing) == ({A0}, ())


def test_a_denial_between_two_discoveries_is_no_deletion() -> None:
    log, checkpoint = FakeLog().write("a", 10).write("b", 5), Checkpoint({A0: 10, B0: 5})
    observer = Observer(log, timedelta(hours=1))
    observer.look(NOW, checkpoint)
    log.denied.add("b")

    observer.look(LATER, checkpoint)

    assert observer.view.unavailable.keys() == {B0}
    assert observer.missing == ()


def test_a_request_about_a_denied_topic_is_refused() -> None:
    log = FakeLog(denied={"b"}).write("a", 10).write("b", 5)

    with pytest.raises(Stalled, match="b: denied"):
        observe(log, B0)


def running(
    store: MemoryStore, log: FakeLog, at: Callable[[Driver, timedelta], None], **kafka: object
) -> Driver:
    """Run a driver for five minutes of its clock; ``at`` is called after each pass."""
    one = driver(
        group(source={"kafka": kafka}), store, log, FakeRunner(store), until_caught_up=False
    )
    began = one.deps.clock()

    def report(progress: DriverProgress) -> None:
        at(one, progress.time - began)
        if progress.time - began > timedelta(minutes=5):
            one.stop("done")

    one.report = report
    assert one.run() is ExitCode.OK
    return one


@pytest.mark.parametrize("on_data_loss", ["Stall", "SkipAndRecord"])
def test_a_denied_topic_waits_the_others_land_and_it_lands_when_access_is_back(
    on_data_loss: str,
) -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    seen: list[Stalled] = []

    def deny_then_grant(one: Driver, after: timedelta) -> None:
        if timedelta(minutes=1) < after < timedelta(minutes=4):
            log.denied.add("b")
            log.write("a", 20).write("b", 30)
            seen.extend(one.stalled_partitions().values())
        if after > timedelta(minutes=3):
            assert landed_offsets(store)["a", 0, 19] == 1
            assert ledger_state(store).members.keys() == {A0, B0}
            assert not ledger_state(store).blocked
        if after >= timedelta(minutes=4):
            log.denied.clear()

    one = running(store, log, deny_then_grant, **PATTERN, onDataLoss=on_data_loss)

    assert {(error.reason, str(error)) for error in seen} == {(Reason.SOURCE_DENIED, "b: denied")}
    assert landed_offsets(store) == written_offsets(log)
    assert not one.stalled_partitions()
    records = [ledger.decode(seq, body) for seq, body in one.writer.lane.bodies()]
    assert not [r for r in records if isinstance(r, ledger.Block | ledger.Drop | ledger.Hole)]


def test_a_topic_of_the_spec_that_was_never_described_waits_and_the_others_land() -> None:
    store = MemoryStore()
    log = FakeLog(denied={"b"}, named=("a", "b")).write("a", 10).write("b", 10)

    one = driver(group(source={"kafka": NAMED}), store, log, FakeRunner(store))

    assert one.run() is ExitCode.STALLED
    assert one.counters.message == "SourceDenied: b: denied"
    assert landed_offsets(store)["a", 0, 9] == 1
    assert ledger_state(store).members.keys() == {A0}


def test_with_latest_a_topic_denied_at_the_first_look_starts_where_it_was_then() -> None:
    store = MemoryStore()
    log = FakeLog(denied={"b"}, named=("a", "b")).write("a", 10).write("b", 10)
    log.times[B0] = [(NOW - timedelta(hours=1), 0), (NOW, 8)]

    def grant(_: Driver, after: timedelta) -> None:
        if after > timedelta(minutes=2):
            log.denied.clear()
            log.write("b", 15)

    running(store, log, grant, **NAMED, startingOffsets="Latest")

    landed = [offset for topic, _, offset in landed_offsets(store) if topic == "b"]
    assert sorted(landed) == list(range(8, 15))


def test_what_was_read_of_a_topic_denied_meanwhile_is_committed_when_access_is_back() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    one = driver(group(), store, log, FakeRunner(store))
    began = one.deps.clock()
    after_next_batch(one.deps.runner, partial(log.denied.add, "b"))

    def stop_in_time(progress: DriverProgress) -> None:
        if progress.time - began > timedelta(minutes=1):
            log.denied.clear()
        if progress.time - began > timedelta(minutes=4):
            one.stop("done")

    one.until_caught_up, one.report = False, stop_in_time

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert one.counters.failures_by_reason["SourceDenied"] >= 1


def test_a_group_whose_topics_are_all_denied_ends_and_says_why() -> None:
    store, log = MemoryStore(), FakeLog(denied={"a"}, named=("a",)).write("a", 10)
    one = driver(group(), store, log, FakeRunner(store))

    assert one.run() is ExitCode.STALLED
    assert "a: denied" in one.counters.message


def test_what_is_lost_of_a_denied_topic_is_not_given_up() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("b", 5))
    log.denied.add("a")

    assert next_driver(store, log, FakeRunner(store)).run() is ExitCode.STALLED
    assert landed_offsets(store) == {("b", 0, offset): 1 for offset in range(5)}
    assert not ledger_state(store).missing
    log.denied.clear()
    assert next_driver(store, log, FakeRunner(store)).run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
