from collections import Counter
from collections.abc import Sequence
from itertools import count
from threading import Event

import pytest

from landfall.api.contract import ExitCode, Workers
from landfall.driver.core.runner import Bin
from landfall.errors import BatchFailed, Reason, Retry
from landfall.ledger import LaneOwnership
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import SliceResult
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from tests.support.driver.driver_events import ledger_state
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


def test_everything_is_landed_once_and_the_lane_is_yielded() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 25, 7).write("b", 3)

    code = driver(group(), store, log, FakeRunner(store)).run()

    assert code is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert ledger_state(store).holding is LaneOwnership.YIELDED
    assert log.mirrored == {TopicPartition("a", 0): 25, TopicPartition("a", 1): 7, B0: 3}


def test_a_second_run_lands_only_what_is_new() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.write("a", 15)
    runner = FakeRunner(store)

    driver(group(), store, log, runner, writer="w2").run()

    assert [planned for bins in runner.rounds for b in bins for planned in b] == [
        Slice(A0, OffsetRange(10, 15))
    ]
    assert landed_offsets(store) == written_offsets(log)


def test_a_topic_partition_that_fails_is_tried_again_and_holds_up_no_other() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    runner = FakeRunner(store, failures={A0: [Retry("away"), Retry("still away")]})

    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert one.counters.failures_by_reason == {"RoundFailed": 2}


def test_a_batch_of_many_topic_partitions_that_fails_is_one_failure() -> None:
    store, log = MemoryStore(), FakeLog().write("a", *[10] * 20)
    tps = [TopicPartition("a", n) for n in range(20)]
    runner = FakeRunner(store, failures={tp: [BatchFailed("an executor died")] for tp in tps})
    one = driver(group(), store, log, runner)
    seen: list[int] = []
    one.report = lambda _: seen.append(one.counters.consecutive_failures)

    assert one.run() is ExitCode.OK
    assert (one.counters.failures, max(seen)) == (1, 1)
    assert one.counters.last_failure is not None
    assert one.counters.last_failure.message == (
        "20 topic partitions of a batch failed, the first: an executor died"
    )
    assert landed_offsets(store) == written_offsets(log)


def test_too_many_bad_records_stall_a_topic_partition_before_commit() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    runner = FakeRunner(store, bad={A0: 3})

    one = driver(group(badRecords={"minCount": 3}), store, log, runner)

    assert one.run() is ExitCode.STALLED
    assert one.stalled_partitions()[A0].reason is Reason.BAD_RECORDS
    assert landed_offsets(store) == written_offsets(FakeLog().write("b", 10))
    assert ledger_state(store).checkpoint.next_offsets == {A0: 0, B0: 10}
    assert list(store.open_uploads("")) == []


def test_a_stopped_driver_yields_and_leaves_the_rest() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(group(), store, log, FakeRunner(store), until_caught_up=False)
    one.stop("SIGTERM")

    assert one.run() is ExitCode.OK
    assert ledger_state(store).holding is LaneOwnership.YIELDED


@pytest.mark.parametrize("executor", ["never", "comes"])
def test_a_driver_that_drains_waits_for_no_batch_that_nothing_runs(executor: str) -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    runner, runs, looks = FakeRunner(store), Event(), count()
    quick = runner.run

    def run(batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        assert runs.wait(60)
        return quick(batch, bins)

    def settle() -> Workers:
        if executor == "comes" and next(looks) == 2:
            runs.set()
        return Workers(1, int(runs.is_set()), 2 * runs.is_set())

    runner.run, runner.settle = run, settle  # type: ignore[method-assign]
    one = driver(group(), store, log, runner, until_caught_up=False)
    began = one.deps.clock()
    one.report = lambda progress: one.stop("SIGTERM") if progress.in_flight else None

    assert one.run() is ExitCode.OK
    runs.set()

    assert ledger_state(store).holding is LaneOwnership.YIELDED
    assert one.deps.clock() - began < group().spec.upgrade.drain_timeout / 2
    assert landed_offsets(store) == (written_offsets(log) if executor == "comes" else Counter())


def test_batches_overlap_so_that_a_slow_one_holds_up_no_other() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    runner, slow = FakeRunner(store), Event()
    quick = runner.run

    def wait_for_b(batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        if bins[0][0].topic_partition == A0:
            log.write("b", 10)
            assert slow.wait(60), "the batch of b never ended while the one of a was in flight"
        return quick(batch, bins)

    runner.run = wait_for_b  # type: ignore[method-assign]
    one = driver(group(), store, log, runner)
    one.report = lambda _: (
        slow.set() if B0 in one.writer.state.checkpoint and landed_offsets(store) else None
    )

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_topic_partition_is_in_one_batch_at_a_time() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    runner, in_flight = FakeRunner(store), list[TopicPartition]()
    quick = runner.run

    def note(batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        mine = {planned.topic_partition for slices in bins for planned in slices}
        assert not mine & set(in_flight)
        in_flight.extend(mine)
        log.write("a", log.partitions["a"][0].end + (3 if log.partitions["a"][0].end < 40 else 0))
        results = quick(batch, bins)
        for tp in mine:
            in_flight.remove(tp)
        return results

    runner.run = note  # type: ignore[method-assign]
    one = driver(group(), store, log, runner, until_caught_up=False)
    one.report = lambda _: one.stop("enough") if one.writer.state.totals.landed >= 40 else None

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
