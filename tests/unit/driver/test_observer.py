"""What a look at the log asks for, and what it costs when nothing has changed."""

import sys
from collections.abc import Callable, Collection
from datetime import timedelta
from types import FrameType

from landfall.driver.core.observer import LOOKED_AT_PER_SECOND, Observer, longest_pause
from landfall.errors import SourceAway
from landfall.ledger.offsets import Checkpoint, TopicPartition
from landfall.source import Bound, FoundOffsets, Watermarks
from landfall.store.memory import MemoryStore
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, driver, group

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LATER = NOW + timedelta(minutes=1)


def looked(log: FakeLog, checkpoint: Checkpoint) -> Observer:
    observer = Observer(log, timedelta(0))
    observer.look(NOW, checkpoint)
    observer.record_arrivals(checkpoint, NOW)
    return observer


def test_only_what_is_not_landed_to_the_end_is_unsettled() -> None:
    observer = looked(FakeLog().write("a", 10, 20).write("b", 5), Checkpoint({A0: 10, A1: 15}))

    assert observer.unsettled == (A1, B0)
    assert observer.missing == ()


def test_a_topic_partition_that_is_gone_is_missing() -> None:
    log = FakeLog().write("a", 10).write("b", 5)
    observer = looked(log, Checkpoint({A0: 10, B0: 5}))
    del log.partitions["b"]

    observer.look(LATER, Checkpoint({A0: 10, B0: 5}))

    assert (observer.unsettled, observer.missing) == ((), (B0,))
    assert observer.last_ends[B0] == 5


def test_one_that_does_not_answer_keeps_what_was_known_of_it() -> None:
    log = FakeLog().write("a", 10, 20)
    observer = looked(log, Checkpoint({A0: 10, A1: 15}))
    log.unavailable[A1] = SourceAway("no leader")
    log.write("a", 11, 30)

    observer.look(LATER, Checkpoint({A0: 10, A1: 15}))

    assert observer.watermarks == {A0: Watermarks(0, 11), A1: Watermarks(0, 20)}
    assert observer.view.unavailable.keys() == {A1}
    assert observer.missing == ()


def test_one_that_never_answered_is_neither_known_nor_missing() -> None:
    log = FakeLog(unavailable={A0: SourceAway("no leader")}).write("a", 10, 20)

    observer = looked(log, Checkpoint({A0: 10, A1: 20}))

    assert observer.watermarks.keys() == {A1}
    assert (observer.unsettled, observer.missing) == ((), ())


def test_a_new_topic_partition_is_known_once_its_log_start_is_known() -> None:
    class HalfAway(FakeLog):
        def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
            self.unavailable = {A0: SourceAway("gone")} if bound is Bound.LOG_START else {}
            return super().offsets(tps, bound)

    observer = looked(HalfAway().write("a", 10, log_start=4), Checkpoint())

    assert observer.watermarks == {}
    assert observer.view.unavailable.keys() == {A0}


def test_log_starts_are_asked_for_only_where_something_is_unlanded() -> None:
    log = FakeLog().write("a", 10, 20)
    observer, checkpoint = looked(log, Checkpoint({A0: 10, A1: 20})), Checkpoint({A0: 10, A1: 20})
    log.asked.clear()
    log.write("a", 10, 21, log_start=8)

    observer.look(LATER, checkpoint)

    assert log.asked["LOG_START"] == 1
    assert observer.watermarks[A1] == Watermarks(8, 21)


def test_a_record_is_dated_when_it_is_first_seen_also_after_an_idle_time() -> None:
    log, checkpoint = FakeLog().write("a", 10), Checkpoint({A0: 10})
    observer = looked(log, checkpoint)
    log.write("a", 11)

    observer.look(LATER, checkpoint)
    observer.record_arrivals(checkpoint, LATER)

    (backlog,) = observer.backlogs(checkpoint, (), LATER + timedelta(seconds=7))
    assert backlog.age == timedelta(seconds=7)


def test_records_held_back_by_an_open_transaction_are_seen_with_their_age() -> None:
    log, checkpoint = FakeLog(high_watermarks={A0: 13}).write("a", 10), Checkpoint({A0: 10})
    observer = looked(log, checkpoint)

    observer.look(LATER, checkpoint)

    held = observer.view.held_back[A0]
    assert (held.records, held.since) == (3, NOW)


def test_a_look_is_due_the_later_the_more_topic_partitions_there_are() -> None:
    log = FakeLog().write("a", *[0] * LOOKED_AT_PER_SECOND)
    observer = Observer(log, timedelta(0), longest_pause=timedelta(seconds=30))
    assert observer.is_due(NOW)
    observer.look(NOW, Checkpoint())

    assert not observer.is_due(NOW + timedelta(seconds=0.9))
    assert observer.is_due(NOW + timedelta(seconds=1))
    observer.force_discovery()
    assert observer.is_due(NOW)


def test_the_shortest_max_age_bounds_the_time_between_looks() -> None:
    policy = group(
        uploadPolicy={"maxAge": "5m", "overrides": [{"topics": "a", "maxAge": "10s"}]}
    ).spec.upload_policy

    assert longest_pause(policy) == timedelta(seconds=1)


IDLE = 2_000


def test_a_pass_over_idle_topic_partitions_calls_no_function_for_each_of_them() -> None:
    """Hashing is left out: it is cheap, and what the comparison with the last look is made of."""
    store, log = MemoryStore(), FakeLog().write("a", *[3] * IDLE)
    driver(group(), store, log, FakeRunner(store)).run()
    one = driver(group(), store, log, FakeRunner(store), writer="w2", until_caught_up=False)
    one.deps.observer.discovery_interval = timedelta(days=1)
    one._pass(NOW)

    calls = calls_in(lambda: one._pass(LATER))

    assert calls < IDLE / 4


def calls_in(act: Callable[[], object]) -> int:
    """How many Python functions ``act`` calls, without hashing, comparing and the fake log's."""
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        code = frame.f_code
        is_ours = not code.co_filename.endswith("fakes.py") and code.co_name not in {
            "__hash__",
            "__eq__",
        }
        count += event == "call" and is_ours

    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count
