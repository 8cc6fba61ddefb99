from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from threading import Event

import pytest
import stamina

from landfall.api.contract import LANE, ExitCode, Phase
from landfall.driver.runner import Bin
from landfall.errors import Reason, Retry, Stalled
from landfall.lane import Lane
from landfall.ledger import LaneOwnership, State
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import SliceResult
from landfall.store.fault_injection import Fault, Operation, Scripted
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from tests.support.driver_status import status_of
from tests.support.fakes import (
    NOW,
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    """Retries without waiting."""
    with stamina.set_testing(True, attempts=100):
        yield


def ledger_state(store: MemoryStore) -> State:
    return Lane(store, "twin", LANE).read()


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

    assert [piece for bins in runner.rounds for b in bins for piece in b] == [
        Slice(A0, OffsetRange(10, 15))
    ]
    assert landed_offsets(store) == written_offsets(log)


def test_a_topic_partition_that_fails_is_tried_again_and_holds_nobody_up() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    runner = FakeRunner(store, failures={A0: [Retry("away"), Retry("still away")]})

    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert one.counters.failures_by_reason == {"RoundFailed": 2}


def test_too_many_bad_records_stop_a_topic_partition_before_commit() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    runner = FakeRunner(store, bad={A0: 3})

    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.STALLED
    assert one.stalled_partitions()[A0].reason is Reason.BAD_RECORDS
    assert landed_offsets(store) == written_offsets(FakeLog().write("b", 10))
    assert ledger_state(store).checkpoint.next_offsets == {A0: 0, B0: 10}
    assert list(store.open_uploads("")) == []


def test_expired_offsets_stop_a_topic_partition() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.write("a", 30, log_start=20)

    one = driver(group(), store, log, FakeRunner(store), writer="w2")

    assert one.run() is ExitCode.STALLED
    assert one.stalled_partitions()[A0].reason is Reason.DATA_LOSS
    assert "offsets [10, 20) expired" in one.counters.message


def test_expired_offsets_are_skipped_and_recorded_when_the_spec_says_so() -> None:
    kafka = {"bootstrapServers": "x", "topicPattern": ".*", "onDataLoss": "SkipAndRecord"}
    of, store, log = group(source={"kafka": kafka}), MemoryStore(), FakeLog().write("a", 10)
    driver(of, store, log, FakeRunner(store)).run()
    log.write("a", 30, log_start=20)

    assert driver(of, store, log, FakeRunner(store), writer="w2").run() is ExitCode.OK
    assert ledger_state(store).totals.skipped == 10
    assert sorted(offset for _, _, offset in landed_offsets(store)) == [*range(10), *range(20, 30)]


def test_offsets_that_expire_while_they_are_read_are_skipped_too_when_the_spec_says_so() -> None:
    kafka = {"bootstrapServers": "x", "topicPattern": ".*", "onDataLoss": "SkipAndRecord"}
    store, log = MemoryStore(), FakeLog().write("a", 30)
    runner = FakeRunner(
        store, failures={A0: [Stalled(Reason.DATA_LOSS, "offsets [0, 30) are not all there")]}
    )
    after_next_round(runner, lambda: log.write("a", 30, log_start=20))

    assert driver(group(source={"kafka": kafka}), store, log, runner).run() is ExitCode.OK
    assert ledger_state(store).totals.skipped == 20
    assert sorted(offset for _, _, offset in landed_offsets(store)) == [*range(20, 30)]


def test_a_recreated_topic_stands_still_until_a_new_generation() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.ids["a"] = "another"

    stopped = driver(group(), store, log, FakeRunner(store), writer="w2")
    assert stopped.run() is ExitCode.STALLED
    assert stopped.stalled_partitions()[A0].reason is Reason.TOPIC_RECREATED

    assert (
        driver(group(generation=2), store, log, FakeRunner(store), writer="w3").run() is ExitCode.OK
    )
    assert set(landed_offsets(store).values()) == {2}


def recreate(log: FakeLog, topic: str, end: int) -> None:
    """Delete a topic, create it again, and write into it."""
    log.ids[topic] += "-again"
    log.write(topic, end)


def after_next_round(runner: FakeRunner, happens: Callable[[], object]) -> None:
    """Let something happen while the next round runs, after its tasks read the log."""
    run = runner.run

    def and_then(batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        runner.run = run  # type: ignore[method-assign]
        results = run(batch, bins)
        happens()
        return results

    runner.run = and_then  # type: ignore[method-assign]


def test_what_was_read_of_a_topic_recreated_meanwhile_is_not_committed() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    runner = FakeRunner(store)
    after_next_round(runner, lambda: recreate(log, "a", 30))

    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.STALLED
    assert one.stalled_partitions()[A0].reason is Reason.TOPIC_RECREATED
    assert landed_offsets(store) == written_offsets(FakeLog().write("b", 10))
    assert list(store.open_uploads("")) == []
    assert (
        driver(group(generation=2), store, log, FakeRunner(store), writer="w2").run() is ExitCode.OK
    )
    assert landed_offsets(store) == written_offsets(log)


def test_a_new_generation_lets_the_old_topics_rounds_end_before_it_lands_the_new_one() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.write("a", 20).write("b", 10)
    runner = FakeRunner(store)
    after_next_round(runner, lambda: recreate(log, "a", 15))

    assert driver(group(generation=2), store, log, runner, writer="w2").run() is ExitCode.OK
    landed = written_offsets(FakeLog().write("a", 10)) + written_offsets(log)
    assert landed_offsets(store) == landed


def test_a_recreated_topic_starts_at_its_start_whatever_the_spec_says() -> None:
    kafka = {"bootstrapServers": "x", "topicPattern": ".*", "startingOffsets": "Latest"}
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(source={"kafka": kafka}), store, log, FakeRunner(store)).run()
    recreate(log, "a", 7)

    one = driver(
        group(source={"kafka": kafka}, generation=2), store, log, FakeRunner(store), writer="w2"
    )

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_what_came_back_waits_for_a_source_that_is_away() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    runner = FakeRunner(store)
    one = driver(group(), store, log, runner)
    after_next_round(runner, lambda: setattr(log, "error", Retry("broker away")))

    def back_after_three_failures(_: object) -> None:
        if one.counters.failures > 3:
            log.error = None

    one.report = back_after_three_failures

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert len(runner.rounds) == 1


def test_a_lost_upload_of_a_topic_recreated_since_stalls() -> None:
    store, log = (
        MemoryStore(Scripted({Operation.COMPLETE: [Fault.EXPIRED]})),
        FakeLog().write("a", 10),
    )
    runner = FakeRunner(store)
    one = driver(group(), store, log, runner)
    after_next_round(
        runner, lambda: after_next_round(runner, lambda: recreate(log, "a", 30))
    )  # the second is the repair's

    assert one.run() is ExitCode.STALLED
    assert one.counters.message.startswith("ObjectLost")
    assert "a/0: not landed, the topic was deleted or recreated meanwhile" in one.counters.message
    assert landed_offsets(store) == {}


def test_a_driver_is_fenced_by_the_next_one() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    old = driver(group(), store, log, FakeRunner(store))
    new = driver(group(), store, log, FakeRunner(store), writer="w2")

    assert old.run() is ExitCode.FENCED
    assert old.phase is Phase.FENCED
    assert landed_offsets(store) == {}
    assert list(store.open_uploads("")) == []
    assert new.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_fenced_driver_names_who_took_the_slot() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    old = driver(group(), store, log, FakeRunner(store))
    driver(group(), store, log, FakeRunner(store), writer="w2")
    old.run()

    assert old.counters.message == "ledger slot 1 was taken by epoch 2, writer w2"


@pytest.mark.parametrize(
    "fault",
    [Fault.REQUEST_LOST, Fault.ANSWER_LOST, Fault.REPEATED, Fault.THROTTLED, Fault.CONFLICT],
)
def test_a_commit_survives_whatever_its_append_meets(fault: Fault) -> None:
    plan = Scripted({Operation.CREATE: [None, None, fault, fault]})  # OPEN, ADD, then COMMIT twice
    store, log = MemoryStore(plan), FakeLog().write("a", 10)

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert ledger_state(store).totals.commits == 1


@pytest.mark.parametrize("repeat_completes", [True, False])
@pytest.mark.parametrize(
    "fault",
    [Fault.REQUEST_LOST, Fault.ANSWER_LOST, Fault.REPEATED, Fault.THROTTLED, Fault.ERROR_BODY],
)
def test_objects_become_visible_whatever_their_completion_meets(
    fault: Fault, repeat_completes: bool
) -> None:
    store = MemoryStore(
        Scripted({Operation.COMPLETE: [fault, fault]}), repeat_completes=repeat_completes
    )
    log = FakeLog().write("a", 10)

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_decided_upload_that_was_lost_is_made_again() -> None:
    store, log = (
        MemoryStore(Scripted({Operation.COMPLETE: [Fault.EXPIRED]})),
        FakeLog().write("a", 10),
    )

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_lost_upload_whose_range_is_gone_stalls_with_the_range() -> None:
    store, log = (
        MemoryStore(Scripted({Operation.COMPLETE: [Fault.EXPIRED]})),
        FakeLog().write("a", 10),
    )
    runner = FakeRunner(store)
    one = driver(group(), store, log, runner)
    gone = Stalled(Reason.DATA_LOSS, "offset 0 expired")
    first = runner.run

    def then_lost(
        batch: Batch, bins: Sequence[Bin]
    ) -> list[SliceResult]:  # the range is there for the round, and gone for the repair
        results = first(batch, bins)
        runner.failures[A0] = [gone]
        return results

    runner.run = then_lost  # type: ignore[method-assign]

    assert one.run() is ExitCode.STALLED
    assert "a/0[0, 10)" in one.counters.message
    assert one.counters.message.startswith("ObjectLost")


def test_a_repair_that_the_store_refuses_says_so() -> None:
    store, log = (
        MemoryStore(Scripted({Operation.COMPLETE: [Fault.EXPIRED]})),
        FakeLog().write("a", 10),
    )
    runner = FakeRunner(store)
    denied = Stalled(Reason.STORE_DENIED, "the credentials expired")
    after_next_round(runner, lambda: runner.failures.update({A0: [denied]}))
    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.STALLED
    assert one.counters.message == "StoreDenied: the credentials expired"


def test_a_source_that_is_away_for_a_moment_is_waited_for() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    log.error = Retry("broker away")
    one = driver(group(), store, log, FakeRunner(store))
    seen: list[int] = []

    def back_after_three_looks(_: object) -> None:
        seen.append(one.counters.failures)
        if len(seen) > 3:
            log.error = None

    one.report = back_after_three_looks

    assert one.run() is ExitCode.OK
    assert one.counters.failures_by_reason["SourceUnavailable"] >= 3
    assert landed_offsets(store) == written_offsets(log)


def test_a_driver_that_never_saw_the_source_does_not_call_its_lag_zero() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    log.error = Retry("broker away")
    one = driver(group(), store, log, FakeRunner(store))
    known: list[bool] = []

    def back_after_a_look(_: object) -> None:
        known.append(status_of(one).lag_known)
        log.error = None

    one.report = back_after_a_look

    assert one.run() is ExitCode.OK
    assert (known[0], known[-1]) == (False, True)


def test_an_outage_with_nothing_to_land_is_over_when_the_source_answers() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(group(), store, log, FakeRunner(store), until_caught_up=False)
    seen: list[int] = []

    def away_once_landed(_: object) -> None:
        seen.append(one.counters.consecutive_failures)
        if one.counters.commits and not one.unapplied:
            log.error = Retry("broker away") if max(seen) < 3 else None
        if max(seen) >= 3 and not seen[-1]:
            one.stop("done")

    one.report = away_once_landed

    assert one.run() is ExitCode.OK
    assert one.counters.commits == 1


def test_a_source_that_never_answers_ends_the_driver() -> None:
    store, log = MemoryStore(), FakeLog()
    log.error = Retry("broker away")

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.UNAVAILABLE


def test_a_stopped_driver_yields_and_leaves_the_rest() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(group(), store, log, FakeRunner(store), until_caught_up=False)
    one.stop("SIGTERM")

    assert one.run() is ExitCode.OK
    assert ledger_state(store).holding is LaneOwnership.YIELDED


def test_snapshots_shorten_what_the_next_driver_reads() -> None:
    of, store = group(tuning={"pollInterval": "5ms", "snapshotEvery": 2}), MemoryStore()
    log = FakeLog()
    for end in (5, 10, 15, 20):
        assert (
            driver(of, store, log.write("a", end), FakeRunner(store), writer=f"w{end}").run()
            is ExitCode.OK
        )
    state = ledger_state(store)

    assert state.snapshot_seq > 0
    assert landed_offsets(store) == written_offsets(log)


def test_rounds_overlap_so_a_slow_one_holds_nobody_up() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    runner, slow = FakeRunner(store), Event()
    quick = runner.run

    def wait_for_b(batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        if bins[0][0].topic_partition == A0:
            log.write("b", 10)
            assert slow.wait(20), "the round of b never ended while the one of a was under way"
        return quick(batch, bins)

    runner.run = wait_for_b  # type: ignore[method-assign]
    one = driver(group(), store, log, runner)
    one.report = lambda _: (
        slow.set() if B0 in one.writer.state.checkpoint and landed_offsets(store) else None
    )

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_topic_partition_is_in_one_round_at_a_time() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    runner, under_way = FakeRunner(store), list[TopicPartition]()
    quick = runner.run

    def note(batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        mine = {piece.topic_partition for pieces in bins for piece in pieces}
        assert not mine & set(under_way)
        under_way.extend(mine)
        log.write("a", log.partitions["a"][0].end + (3 if log.partitions["a"][0].end < 40 else 0))
        results = quick(batch, bins)
        for tp in mine:
            under_way.remove(tp)
        return results

    runner.run = note  # type: ignore[method-assign]
    one = driver(group(), store, log, runner, until_caught_up=False)
    one.report = lambda _: one.stop("enough") if one.writer.state.totals.landed >= 40 else None

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_pattern_that_matches_nothing_is_no_success() -> None:
    one = driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore()))

    assert one.run() is ExitCode.STALLED
    assert (
        one.counters.message
        == "TopicMissing: no topic matches '.*'; a pattern must match the whole name"
    )


def test_a_topic_named_in_the_spec_that_is_not_there_is_told_and_the_others_land() -> None:
    of = group(source={"kafka": {"bootstrapServers": "x", "topics": ["a", "typo"]}})
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(of, store, log, FakeRunner(store))

    assert one.run() is ExitCode.STALLED
    assert one.counters.message == "TopicMissing: typo: there is no such topic"
    assert landed_offsets(store) == written_offsets(log)


def test_what_dead_drivers_left_is_swept_and_nothing_else() -> None:
    at = [NOW - timedelta(days=2)]
    store, log = MemoryStore(clock=lambda: at[0]), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    for key in (
        "a/all/1_0_00000000000000000010.txt",
        "_landfall/_probe/x/object",
        "b/all/1_0_00000000000000000000.txt",
    ):
        store.begin(key, "dead")
    at[0] = NOW + timedelta(days=1)
    store.begin("_landfall/_probe/y/object", "starting")

    assert driver(group(), store, log, FakeRunner(store), writer="w2").run() is ExitCode.OK
    assert [upload.key for upload in store.open_uploads("")] == [
        "_landfall/_probe/y/object",
        "b/all/1_0_00000000000000000000.txt",
    ]


@pytest.mark.parametrize(
    "script",
    [{Operation.CREATE: [None] * 5 + [Fault.THROTTLED]}, {Operation.OVERWRITE: [Fault.THROTTLED]}],
    ids=["the state", "the hint"],
)
def test_a_snapshot_that_the_store_does_not_take_ends_nobody(
    script: dict[Operation, list[Fault | None]],
) -> None:
    of, log = group(tuning={"pollInterval": "5ms", "snapshotEvery": 4}), FakeLog().write("a", 10)
    store = MemoryStore(Scripted(script))  # OPEN, ADD, COMMIT, YIELD, OPEN; then the snapshot
    driver(of, store, log, FakeRunner(store)).run()
    log.write("a", 20)

    one = driver(of, store, log, FakeRunner(store), writer="w2")

    assert one.run() is ExitCode.OK
    assert one.counters.failures_by_reason == {"StoreUnavailable": 1}
    assert landed_offsets(store) == written_offsets(log)
