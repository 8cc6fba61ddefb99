"""What the loop does when topics change, offsets expire, or the source does not answer."""

from datetime import datetime, timedelta
from itertools import count

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.driver.http.status import DriverProgress
from landfall.driver.process.loop import Driver
from landfall.errors import LogTruncated, Reason, Retry, Stalled
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_events import after_next_batch, ledger_state
from tests.support.driver.driver_status import status_of
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


def test_expired_offsets_stall_a_topic_partition() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.write("a", 30, log_start=20)

    one = driver(group(), store, log, FakeRunner(store), writer="w2")

    assert one.run() is ExitCode.STALLED
    assert one.stalled_partitions()[A0].reason is Reason.DATA_LOSS
    assert "offsets [10, 20) expired" in one.counters.message


def test_expired_offsets_are_skipped_and_recorded_when_the_spec_says_so() -> None:
    kafka = {"bootstrapServers": "x:9092", "topicPattern": ".*", "onDataLoss": "SkipAndRecord"}
    of, store, log = group(source={"kafka": kafka}), MemoryStore(), FakeLog().write("a", 10)
    driver(of, store, log, FakeRunner(store)).run()
    log.write("a", 30, log_start=20)

    assert driver(of, store, log, FakeRunner(store), writer="w2").run() is ExitCode.OK
    assert ledger_state(store).totals.skipped == 10
    assert sorted(offset for _, _, offset in landed_offsets(store)) == [*range(10), *range(20, 30)]


def test_offsets_that_expire_while_they_are_read_are_skipped_as_well_when_the_spec_says_so() -> (
    None
):
    kafka = {"bootstrapServers": "x:9092", "topicPattern": ".*", "onDataLoss": "SkipAndRecord"}
    store, log = MemoryStore(), FakeLog().write("a", 30)
    runner = FakeRunner(
        store, failures={A0: [Stalled(Reason.DATA_LOSS, "offsets [0, 30) are not all there")]}
    )
    after_next_batch(runner, lambda: log.write("a", 30, log_start=20))

    assert driver(group(source={"kafka": kafka}), store, log, runner).run() is ExitCode.OK
    assert ledger_state(store).totals.skipped == 20
    assert sorted(offset for _, _, offset in landed_offsets(store)) == [*range(20, 30)]


def test_finished_batches_wait_for_a_source_that_is_unavailable() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    runner = FakeRunner(store)
    one = driver(group(), store, log, runner)
    after_next_batch(runner, lambda: setattr(log, "error", Retry("broker away")))

    def recover_after_three_failures(_: object) -> None:
        if one.counters.failures > 3:
            log.error = None

    one.report = recover_after_three_failures

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert len(runner.rounds) == 1


def test_a_source_that_is_unavailable_for_a_moment_is_waited_for() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    log.error = Retry("broker away")
    one = driver(group(), store, log, FakeRunner(store))
    seen: list[int] = []

    def recover_after_three_looks(_: object) -> None:
        seen.append(one.counters.failures)
        if len(seen) > 3:
            log.error = None

    one.report = recover_after_three_looks

    assert one.run() is ExitCode.OK
    assert one.counters.failures_by_reason["SourceUnavailable"] >= 3
    assert landed_offsets(store) == written_offsets(log)


def test_the_lag_is_unknown_until_the_source_has_answered() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    log.error = Retry("broker away")
    one = driver(group(), store, log, FakeRunner(store))
    known: list[bool] = []

    def recover_after_a_look(_: object) -> None:
        known.append(status_of(one).lag_known)
        log.error = None

    one.report = recover_after_a_look

    assert one.run() is ExitCode.OK
    assert (known[0], known[-1]) == (False, True)


def test_an_outage_with_nothing_to_land_is_over_when_the_source_answers() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(group(), store, log, FakeRunner(store), until_caught_up=False)
    seen: list[int] = []

    def fail_once_landed(_: object) -> None:
        seen.append(one.counters.consecutive_failures)
        if one.counters.commits and not one.unapplied:
            log.error = Retry("broker away") if max(seen) < 3 else None
        if max(seen) >= 3 and not seen[-1]:
            one.stop("done")

    one.report = fail_once_landed

    assert one.run() is ExitCode.OK
    assert one.counters.commits == 1


def test_a_source_that_never_answers_ends_the_driver() -> None:
    store, log = MemoryStore(), FakeLog()
    log.error = Retry("broker away")

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.UNAVAILABLE


def test_a_pattern_that_matches_nothing_is_no_success() -> None:
    one = driver(group(), MemoryStore(), FakeLog(), FakeRunner(MemoryStore()))

    assert one.run() is ExitCode.STALLED
    assert (
        one.counters.message
        == "TopicMissing: no topic matches '.*'; a pattern must match the whole name"
    )


def test_a_topic_named_in_the_spec_that_does_not_exist_is_reported_and_the_others_land() -> None:
    of = group(source={"kafka": {"bootstrapServers": "x:9092", "topics": ["a", "typo"]}})
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(of, store, log, FakeRunner(store))

    assert one.run() is ExitCode.STALLED
    assert one.counters.message == "TopicMissing: typo: there is no such topic"
    assert landed_offsets(store) == written_offsets(log)


def latest() -> ConsumerGroup:
    kafka = {"bootstrapServers": "x:9092", "topicPattern": ".*", "startingOffsets": "Latest"}
    return group(source={"kafka": kafka})


def test_with_latest_a_topic_created_while_the_driver_runs_lands_whole() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    one = driver(latest(), store, log, FakeRunner(store), until_caught_up=False)
    looks = count()

    def create_then_stop(_: object) -> None:
        if (looked := next(looks)) == 2:
            log.write("b", 5)
        if looked > 2 and B0 in one.writer.state.checkpoint and one.caught_up:
            one.stop("done")

    one.report = create_then_stop

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(FakeLog().write("b", 5))


def test_with_latest_nothing_produced_since_an_earlier_driver_looked_is_lost() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(latest(), store, log, FakeRunner(store)).run()
    looked = datetime.fromisoformat(ledger_state(store).looked_at or "")
    log.write("b", 8)
    log.times[B0] = [(looked - timedelta(days=1), 0), (looked + timedelta(minutes=1), 6)]

    driver(latest(), store, log, FakeRunner(store), writer="w2").run()

    assert sorted(offset for topic, _, offset in landed_offsets(store) if topic == "b") == [6, 7]


def test_a_topic_added_to_a_running_group_starts_at_its_explicit_offset() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    listed = {"bootstrapServers": "x:9092", "topics": ["a"]}
    driver(group(source={"kafka": listed}), store, log, FakeRunner(store)).run()
    log.write("b", 9)

    offsets = {"offsets": {"b": {"0": 6}}}
    both = {**listed, "topics": ["a", "b"], "startingOffsets": offsets}
    driver(group(source={"kafka": both}), store, log, FakeRunner(store), writer="w2").run()

    assert sorted(offset for topic, _, offset in landed_offsets(store) if topic == "b") == [6, 7, 8]


def test_a_starting_offset_beyond_the_end_is_an_error_and_the_others_land() -> None:
    offsets = {"offsets": {"b": {"0": 60}}}
    kafka = {"bootstrapServers": "x:9092", "topics": ["a", "b"], "startingOffsets": offsets}
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 5)
    one = driver(group(source={"kafka": kafka}), store, log, FakeRunner(store))

    assert one.run() is ExitCode.STALLED
    assert "b/0: source.kafka.startingOffsets names offset 60" in one.counters.message
    assert landed_offsets(store) == written_offsets(FakeLog().write("a", 10))
    assert B0 not in ledger_state(store).checkpoint


def run_for(store: MemoryStore, log: FakeLog, spec: dict[str, object], writer: str) -> Driver:
    """Run a driver until three minutes have passed on its clock, which is a second a call."""
    of = group(source={"kafka": spec})
    one = driver(of, store, log, FakeRunner(store), until_caught_up=False, writer=writer)
    began = one.deps.clock()

    def stop_in_time(progress: DriverProgress) -> None:
        if progress.time - began > timedelta(minutes=3):
            one.stop("done")

    one.report = stop_in_time
    assert one.run() is ExitCode.OK
    return one


PATTERN: dict[str, object] = {"bootstrapServers": "x:9092", "topicPattern": ".*"}
SKIPPING = {**PATTERN, "onDataLoss": "SkipAndRecord"}


def landed_then_deleted(store: MemoryStore) -> FakeLog:
    log = FakeLog().write("a", 10).write("b", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    del log.partitions["b"]
    return log


def test_a_topic_deleted_while_no_driver_looked_stays_blocked_over_restarts() -> None:
    store = MemoryStore()
    log = landed_then_deleted(store)

    first = run_for(store, log, PATTERN, "w2")
    again = driver(group(), store, log, FakeRunner(store), writer="w3")

    assert first.stalled_partitions()[B0].reason is Reason.TOPIC_MISSING
    assert ledger_state(store).blocked[B0].offsets == OffsetRange(10, 10)
    assert again.run() is ExitCode.STALLED
    assert "whether there was more is not known" in str(again.stalled_partitions()[B0])


def test_a_topic_deleted_with_unlanded_records_becomes_a_hole_when_the_spec_says_so() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    of = group(source={"kafka": SKIPPING})
    runner = FakeRunner(store, failures={B0: [Retry("broker away")] * 9})
    one = driver(of, store, log, runner, until_caught_up=False)
    began = one.deps.clock()

    def delete_then_stop(progress: DriverProgress) -> None:
        if A0 in one.writer.state.checkpoint:
            log.partitions.pop("b", None)
        if progress.time - began > timedelta(minutes=3):
            one.stop("done")

    one.report = delete_then_stop

    assert one.run() is ExitCode.OK
    state = ledger_state(store)
    assert (state.totals.skipped, B0 in state.members, state.blocked) == (10, False, {})


def test_a_topic_that_the_spec_no_longer_names_is_left_alone() -> None:
    store = MemoryStore()
    log = landed_then_deleted(store)

    only_a = {"bootstrapServers": "x:9092", "topics": ["a"]}
    assert run_for(store, log, only_a, "w2").stalled_partitions() == {}
    assert B0 in ledger_state(store).members


def test_a_truncated_log_stays_blocked_when_it_has_grown_past_the_checkpoint() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.write("a", 4)
    assert driver(group(), store, log, FakeRunner(store), writer="w2").run() is ExitCode.STALLED
    log.write("a", 30)

    one = driver(group(), store, log, FakeRunner(store), writer="w3")

    assert one.run() is ExitCode.STALLED
    assert "truncated at offset 4" in str(one.stalled_partitions()[A0])
    assert ledger_state(store).blocked[A0].offsets == OffsetRange(4, 10)
    assert landed_offsets(store) == written_offsets(FakeLog().write("a", 10))


def test_a_truncation_that_only_leader_epochs_show_is_blocked_in_the_ledger() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    log.write("a", 30).write("b", 10)
    runner = FakeRunner(store, failures={A0: [LogTruncated("a/0: truncated", 4)]})

    one = driver(group(source={"kafka": SKIPPING}), store, log, runner, writer="w2")

    assert one.run() is ExitCode.STALLED
    assert ledger_state(store).blocked[A0].offsets == OffsetRange(4, 10)
    assert landed_offsets(store)["b", 0, 9] == 1


def test_nobody_waits_for_a_topic_that_was_deleted_after_it_was_landed() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    runner = FakeRunner(store, failures={A0: [Retry("slow")] * 8})
    one = driver(group(), store, log, runner)

    def delete_b(_: object) -> None:
        state = one.writer.state
        if B0 in state.checkpoint and state.checkpoint[B0] == 10 and not one.unapplied:
            log.partitions.pop("b", None)

    one.report = delete_b

    assert one.run() is ExitCode.OK
    assert landed_offsets(store)["b", 0, 9] == 1
    assert ledger_state(store).members.keys() == {A0}
