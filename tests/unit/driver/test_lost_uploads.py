"""Committed uploads that the store has lost: what waits for them, and what is recorded."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event

import pytest
from msgspec import UNSET

from landfall import ledger
from landfall.api.contract import LANE, ExitCode
from landfall.driver.core.runner import Bin
from landfall.driver.core.stored_specs import store_spec, stored_spec
from landfall.driver.http.status import DriverProgress
from landfall.driver.landing.closed_ranges import until
from landfall.driver.landing.recovery import LostSlice, land_again
from landfall.driver.process.loop import Driver
from landfall.errors import Reason, SourceAway, Stalled
from landfall.lane import Lane
from landfall.ledger import Decision, Permission, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice, LandingRules, SliceResult
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from tests.support.driver.fakes import (
    NOW,
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)
from tests.support.stores.lost_uploads import commit_and_lose, records_of, tags

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
GONE = Stalled(Reason.DATA_LOSS, "the range expired")
ASKED = Decision("unblock", "kim", "restored", "2026-11-22T01:00:00Z")


def state_of(store: MemoryStore) -> State:
    return Lane(store, "fake", LANE).read()


def next_driver(store: MemoryStore, log: FakeLog, runner: FakeRunner, **spec: object) -> Driver:
    name = f"w{state_of(store).epoch + 1}"
    return driver(group(**spec), store, log, runner, writer=name)


SKIPS = {
    "source": {
        "kafka": {
            "bootstrapServers": "fake:9092",
            "topicPattern": ".*",
            "onDataLoss": "SkipAndRecord",
        }
    }
}


def test_all_lost_slices_are_landed_again_in_one_job() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("b", 5), ("c", 3))
    runner = FakeRunner(store)

    assert next_driver(store, log, runner).run() is ExitCode.OK

    assert [sum(map(len, bins)) for bins in runner.rounds] == [3]
    assert tags(store).count("Repair") == 3
    assert landed_offsets(store) == written_offsets(log)


def test_only_the_topic_partition_of_what_cannot_be_made_again_stops() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("b", 5))
    runner = FakeRunner(store, failures={A0: [GONE]})
    log.write("b", 9)

    assert next_driver(store, log, runner).run() is ExitCode.STALLED

    state = state_of(store)
    assert (state.blocked[A0].reason, state.blocked[A0].offsets) == (
        Reason.OBJECT_LOST,
        OffsetRange(0, 10),
    )
    assert "a/all/1_0_00000000000000000000.txt" in state.blocked[A0].message
    assert dict(state.checkpoint.next_offsets) == {A0: 10, B0: 9}
    # The COMMITs that came after are applied, and a successor need not verify them again.
    assert (state.applied_through, state.unapplied) == (max(commits(store)), {})
    assert sum(landed_offsets(store).values()) == 9
    # Kafka's tools do not see the missing records as read.
    assert log.mirrored == {B0: 9}


def commits(store: MemoryStore) -> list[int]:
    return [r.header.seq for r in records_of(store) if isinstance(r, ledger.Commit)]


def test_a_block_for_lost_objects_lasts_over_restarts_and_nothing_is_tried_again() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("b", 5))
    next_driver(store, log, FakeRunner(store, failures={A0: [GONE]})).run()
    log.write("a", 12).write("b", 9)
    runner = FakeRunner(store)

    assert next_driver(store, log, runner).run() is ExitCode.STALLED

    assert [piece.topic_partition for bins in runner.rounds for b in bins for piece in b] == [B0]


def test_an_unblock_lets_the_objects_be_made_again() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("b", 5))
    next_driver(store, log, FakeRunner(store, failures={A0: [GONE]})).run()
    one = next_driver(store, log, FakeRunner(store))
    one._committer.append(
        lambda header: ledger.Unblock(header=header, entries=(Permission(A0),), decision=ASKED)
    )

    assert one.run() is ExitCode.OK

    state = state_of(store)
    assert (state.missing, state.blocked, state.unapplied) == ({}, {}, {})
    assert landed_offsets(store) == written_offsets(log)


def test_what_fails_again_after_an_unblock_is_blocked_again() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))
    next_driver(store, log, FakeRunner(store, failures={A0: [GONE]})).run()
    one = next_driver(store, log, FakeRunner(store, failures={A0: [GONE]}))
    one._committer.append(
        lambda header: ledger.Unblock(header=header, entries=(Permission(A0),), decision=ASKED)
    )

    assert one.run() is ExitCode.STALLED

    state = state_of(store)
    assert [len(objects) for objects in state.missing.values()] == [1]
    assert A0 in state.blocked


def test_with_skip_and_record_the_objects_are_given_up_and_landing_goes_on() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("b", 5))
    log.write("b", 9)
    runner = FakeRunner(store, failures={A0: [GONE]})

    assert next_driver(store, log, runner, **SKIPS).run() is ExitCode.OK

    state = state_of(store)
    assert (state.totals.lost, state.totals.lost_objects, state.blocked) == (10, 1, {})
    assert dict(state.checkpoint.next_offsets) == {A0: 10, B0: 9}
    assert sum(landed_offsets(store).values()) == 9


@dataclass
class WaitsWithRepairs(FakeRunner):
    """A runner whose repairs take until somebody sets ``go``."""

    go: Event = field(default_factory=Event)

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        if any(piece.topic_partition == A0 for pieces in bins for piece in pieces):
            assert self.go.wait(30)
        return super().run(batch, bins)


def test_landing_goes_on_while_lost_objects_are_made_again() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))
    log.write("b", 5)
    runner = WaitsWithRepairs(store)
    one = next_driver(store, log, runner)
    seen: list[tuple[int, str]] = []

    def report(progress: object) -> None:
        if one.writer.state.checkpoint.next_offsets.get(B0) == 5:
            seen.append((one.progress().repairing, one.counters.message))
            runner.go.set()

    one.report = report

    assert one.run() is ExitCode.OK
    said = "making 1 committed object again whose uploads the store has lost"
    assert seen[0] == (1, said)
    assert landed_offsets(store) == written_offsets(log)


def test_commits_that_wait_for_lost_uploads_do_not_count_as_unapplied() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("c", 5), ("d", 5))
    log.write("b", 5)
    runner = WaitsWithRepairs(store)
    one = next_driver(store, log, runner, tuning={"pollInterval": "5ms", "maxUnapplied": 1})

    def report(progress: object) -> None:
        if one.writer.state.checkpoint.next_offsets.get(B0) == 5:
            runner.go.set()

    one.report = report

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_what_is_lost_of_a_kafka_partition_without_a_leader_holds_up_nothing() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("b", 5))
    away = log.unavailable[A0] = SourceAway("a/0: the Kafka partition has no leader")
    runner = FakeRunner(store, failures={A0: [away] * 40})

    assert next_driver(store, log, runner).run() is ExitCode.STALLED
    assert landed_offsets(store) == {("b", 0, offset): 1 for offset in range(5)}
    log.write("b", 3).ids["b"] = "recreated"
    assert next_driver(store, log, runner, generation=2).run() is ExitCode.STALLED
    assert state_of(store).checkpoint[B0] == 3
    assert runner.failures[A0]
    del log.unavailable[A0]
    assert next_driver(store, log, FakeRunner(store), generation=2).run() is ExitCode.OK
    assert landed_offsets(store)["a", 0, 9] == 1


def test_a_range_ends_once_a_kafka_partition_without_a_leader_is_dropped() -> None:
    """A closed range waits for what is lost of it, which nobody can make again until a DROP."""
    log, passes = FakeLog(), 20
    store = commit_and_lose(log, ("a", 10), ("b", 5))
    log.times = {tp: [(NOW - timedelta(hours=2), 0)] for tp in (A0, B0)}
    away = log.unavailable[A0] = SourceAway("a/0: the Kafka partition has no leader")
    runner = FakeRunner(store, failures={A0: [away] * 1000})
    one = driver(group(), store, log, runner, goal=until(NOW - timedelta(hours=1)), writer="w2")
    seen = list[int]()

    def report(progress: DriverProgress) -> None:
        seen.append(len(progress.state.runs))
        if len(seen) == passes:
            one._committer.append(
                lambda header: ledger.Drop(
                    header=header, topic_partitions=(A0,), reason="no leader", decision=ASKED
                )
            )
        assert len(seen) < 100 * passes, "the range never ends"

    one.report = report

    assert one.run() is ExitCode.OK

    assert seen[passes - 1] == 0
    (run,) = state_of(store).runs
    assert (run.left, state_of(store).totals.lost) == ((), 10)
    assert landed_offsets(store) == {("b", 0, offset): 1 for offset in range(5)}


def test_a_driver_that_is_stopped_leaves_what_is_lost_to_the_next() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))
    runner = FakeRunner(store)
    one = next_driver(store, log, runner)
    one.stop("SIGTERM")

    assert one.run() is ExitCode.OK

    assert (runner.rounds, tags(store)[-1]) == ([], "Yield")
    assert next_driver(store, log, runner).run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_an_object_with_other_rows_than_were_committed_is_not_taken() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))
    runner = FakeRunner(store, bad={A0: 3})

    assert next_driver(store, log, runner).run() is ExitCode.STALLED

    assert "the rows differ now" in state_of(store).blocked[A0].message
    assert list(store.open_uploads("")) == []


def test_what_is_given_up_while_it_is_made_again_is_not_repaired() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))
    next_driver(store, log, FakeRunner(store, failures={A0: [GONE]})).run()
    runner = WaitsWithRepairs(store)
    one = next_driver(store, log, runner)
    one._committer.append(
        lambda header: ledger.Unblock(header=header, entries=(Permission(A0),), decision=ASKED)
    )

    def report(progress: object) -> None:
        if (job := one._lost._job) and not runner.go.is_set():
            ((slot, objects),) = one.writer.state.missing.items()
            one._committer.append(
                lambda header: ledger.Lost(header=header, commit=slot, objects=objects)
            )
            runner.go.set()
            job.results.result(30)  # so that the next pass finds it done

    one.report = report

    assert one.run() is ExitCode.OK
    assert (tags(store).count("Lost"), tags(store).count("Repair")) == (1, 0)
    assert list(store.open_uploads("")) == []


def test_what_a_decision_permitted_is_made_again_with_its_bad_records() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))
    runner = TellsPermitted(store)

    assert next_driver(store, log, runner).run() is ExitCode.OK

    assert runner.permitted == [{A0: object_names.MAX_OFFSET}]


def test_what_cannot_be_made_of_a_topic_partition_that_left_is_given_up() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10), ("b", 5))
    one = next_driver(store, log, FakeRunner(store, failures={A0: [GONE]}))
    one._committer.append(
        lambda header: ledger.Drop(
            header=header, topic_partitions=(A0,), reason="gone", decision=ASKED
        )
    )
    del log.partitions["a"]

    assert one.run() is ExitCode.OK

    assert state_of(store).totals.lost == 10


@dataclass
class TellsPermitted(FakeRunner):
    """A runner that keeps what is permitted in each batch."""

    permitted: list[dict[TopicPartition, int]] = field(default_factory=list)

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        self.permitted.append(dict(batch.permitted))
        return super().run(batch, bins)


@dataclass
class TellsRules(FakeRunner):
    """A runner that keeps the rules by which each batch is cut, and the slices of the batch."""

    batches: list[tuple[LandingRules, list[Slice]]] = field(default_factory=list)

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        self.batches.append((batch.rules, sorted(s for each in bins for s in each)))
        return super().run(batch, bins)


def test_what_an_older_version_landed_is_made_again_by_its_rules() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))  # with results that name no rules
    runner = TellsRules(store)

    assert next_driver(store, log, runner).run() is ExitCode.OK

    assert [rules for rules, _ in runner.batches] == [LandingRules.PAYLOADS]


def test_slices_that_were_cut_by_different_rules_are_made_again_apart() -> None:
    ranges = [Slice(A0, OffsetRange(n, n + 1)) for n in range(3)]
    lost = [
        LostSlice(1, LandedSlice(range_, (), 0, 0, 0, 1, 0, rules=rules), ())
        for range_, rules in zip(ranges, (2, UNSET, 99), strict=True)
    ]
    runner = TellsRules(MemoryStore())

    land_again(Batch(group(), "again"), runner, lost, {})

    assert runner.batches == [
        (LandingRules.PAYLOADS, ranges[1:2]),
        (LandingRules.ALL_BYTES, ranges[:1]),
        (LandingRules.WHOLE_ROWS, ranges[2:]),
    ]


# ----------------------------------------------------------------------------------- stored specs


@dataclass
class TellsRoutes(FakeRunner):
    """A runner that keeps the routes and generations by which slices are landed."""

    routes: list[tuple[str, int]] = field(default_factory=list)

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        self.routes.append((batch.group.spec.route.pattern, batch.group.spec.generation))
        return super().run(batch, bins)


def test_lost_objects_are_made_again_by_the_spec_and_generation_of_their_commit() -> None:
    log, old = FakeLog(), {"route": {"pattern": "old={date}"}}
    store = commit_and_lose(log, ("a", 10), **old)
    runner = TellsRoutes(store)

    one = next_driver(store, log, runner, generation=2, route={"pattern": "new={date}"})

    assert one.run() is ExitCode.OK
    assert runner.routes == [("old={date}", 1)]
    assert landed_offsets(store) == written_offsets(log)


def test_a_stored_spec_says_what_objects_hold_and_the_present_one_where_they_are() -> None:
    store = MemoryStore()
    before = group(route={"pattern": "old={date}"}, output={"url": "s3://old/x", "format": "Json"})
    now = group(route={"pattern": "new={date}"}, output={"url": "s3://new/y", "format": "Text"})
    name = store_spec(store, before, LANE)

    found = stored_spec(store, now, LANE, name)

    assert found.spec.route == before.spec.route
    assert (found.spec.output.url, found.spec.output.format) == ("s3://new/y", "Json")
    assert store_spec(store, before, LANE) == name
    assert stored_spec(store, now, LANE, "") == now
    assert stored_spec(store, now, LANE, "0" * 64) == now


def test_a_stored_spec_holds_no_address_and_no_reference_to_a_secret() -> None:
    store = MemoryStore()
    output = {"url": "s3://b/x", "s3": {"credentialsSecretRef": {"name": "planted"}}}

    name = store_spec(store, group(output=output), LANE)

    body = store.read(f"_landfall/fake/{LANE}-specs/{name}.json") or b""
    assert b"planted" not in body
    assert b"fake:9092" not in body


@pytest.mark.parametrize("digest", ["", "x", "0" * 63])
def test_a_name_of_a_spec_that_is_no_digest_is_refused(digest: str) -> None:
    with pytest.raises(ValueError, match="not a SHA-256"):
        object_names.spec_key("g", "0", digest)


def test_what_a_former_topic_lost_is_never_made_of_the_new_one() -> None:
    log = FakeLog()
    store = commit_and_lose(log, ("a", 10))
    away = log.unavailable[A0] = SourceAway("a/0: the Kafka partition has no leader")
    runner = FakeRunner(store, failures={A0: [away] * 6})
    one = driver(group(generation=2), store, log, runner, writer="w2", until_caught_up=False)
    began = one.deps.clock()

    def recreate_then_elect_then_stop(progress: DriverProgress) -> None:
        if one._lost._failures == 6:
            log.ids["a"] = "recreated"
        if A0 not in progress.state.members or A0 in progress.state.blocked:
            log.unavailable.clear()
        if progress.time - began > timedelta(minutes=10):
            one.stop("done")

    one.report = recreate_then_elect_then_stop

    assert one.run() is ExitCode.OK
    assert "Repair" not in tags(store)
    assert tags(store)[4:6] == ["Block", "Drop"]
    assert state_of(store).totals.lost == 10
    assert landed_offsets(store) == written_offsets(log)
