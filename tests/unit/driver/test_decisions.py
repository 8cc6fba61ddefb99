"""Requests of engineers to a running driver, and to a lane without one."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from landfall.api.contract import LANE, DriverPhase, ExitCode, Status
from landfall.api.verbs import (
    Answer,
    DropRequest,
    FilesDoneRequest,
    Outcome,
    Request,
    ResetRequest,
    RetryRequest,
    SkipRequest,
    UnblockRequest,
)
from landfall.driver.core.runner import Bin
from landfall.driver.requests.lane_session import LaneSession
from landfall.driver.requests.pending_requests import PendingRequests
from landfall.errors import Reason, SourceAway, Stalled
from landfall.lane import Lane
from landfall.ledger import Add, Drop, Hole, LaneOwnership, Record, State, Yield, decode
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import SliceResult
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from tests.support.driver.driver_events import ledger_state
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    ticking,
    written_offsets,
)

A0 = TopicPartition("a", 0)
BY: dict[str, Any] = {"who": "kim", "why": "INC-12", "topic": "a", "partition": 0}


def records(store: MemoryStore) -> list[Record]:
    return [decode(seq, body) for seq, body in Lane(store, "fake", LANE).bodies()]


def is_blocked(status: Status) -> bool:
    return any(p.topic == "a" and p.blocked for p in status.partitions)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log() -> FakeLog:
    return FakeLog().write("a", 10).write("b", 3)


@pytest.fixture
def expired(store: MemoryStore, log: FakeLog) -> DriverThread:
    """A driver whose topic partition a/0 lost the offsets from 10 to 20."""
    first = DriverThread(store, log, "r").start()
    first.until_landed()
    first.stop()
    log.write("a", 30, log_start=20)
    again = DriverThread(store, log, "r").start()
    status = again.until(is_blocked, "a/0 is blocked")
    (blocked,) = (p for p in status.partitions if p.blocked)
    assert blocked.next_step == "landfall skip GROUP.yaml a/0 --why '…'"
    return again


# ------------------------------------------------------------------------------- a running driver


def test_skip_lets_a_running_driver_land_on(
    expired: DriverThread, store: MemoryStore, log: FakeLog
) -> None:
    dry = expired.contender.decide(SkipRequest(**BY, dry_run=True))
    assert (dry.outcome, dry.records) == (
        Outcome.DRY_RUN,
        ("HOLE: a/0[10, 20) is not landed, 10 offsets",),
    )
    assert not [r for r in records(store) if isinstance(r, Hole)]

    done = expired.contender.decide(SkipRequest(**BY, id="one"))

    assert (done.outcome, done.records) == (Outcome.DONE, dry.records)
    expired.until_landed()
    assert expired.stop() is ExitCode.OK
    (hole,) = (r for r in records(store) if isinstance(r, Hole))
    assert hole.decision is not None
    assert (hole.decision.verb, hole.decision.who, hole.decision.why) == ("skip", "kim", "INC-12")
    landed = sorted(o for topic, _, o in landed_offsets(store) if topic == "a")
    assert landed == [*range(10), *range(20, 30)]


def test_a_request_that_is_sent_twice_is_carried_out_once(
    expired: DriverThread, store: MemoryStore
) -> None:
    first = expired.contender.decide(SkipRequest(**BY, until=25, id="one"))
    again = expired.contender.decide(SkipRequest(**BY, until=25, id="one"))
    other = expired.contender.decide(SkipRequest(**BY, until=26, id="one"))

    assert first == again
    assert "id one names another request" in other.message
    expired.stop()
    assert len([r for r in records(store) if isinstance(r, Hole)]) == 1


def test_another_driver_knows_what_was_recorded_under_an_id(
    expired: DriverThread, store: MemoryStore, log: FakeLog
) -> None:
    expired.contender.decide(SkipRequest(**BY, id="one"))
    expired.stop()
    again = DriverThread(store, log, "r").start()
    again.until_landed()

    answer = again.contender.decide(SkipRequest(**BY, id="one"))

    assert (answer.outcome, answer.message) == (
        Outcome.DONE,
        "recorded before, under the id one",
    )
    again.stop()


def test_a_refused_request_leaves_no_record(expired: DriverThread, store: MemoryStore) -> None:
    before = len(records(store))

    answer = expired.contender.decide(ResetRequest(**BY, to=5))

    assert answer.outcome is Outcome.REFUSED
    assert "the log holds [20, 30)" in answer.message
    assert len(records(store)) == before
    expired.stop()


class GatedRunner(FakeRunner):
    """Lands only while its gate is open."""

    gate = threading.Event()

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        self.gate.wait()
        return super().run(batch, bins)


def test_a_request_waits_for_the_batch_in_flight_of_its_topic_partition(
    store: MemoryStore, log: FakeLog
) -> None:
    runner = GatedRunner(store)
    runner.gate = threading.Event()
    thread = DriverThread(store, log, "r", runner=runner).start()
    thread.until(lambda s: any(p.in_round for p in s.partitions), "a batch is in flight")
    request = DropRequest(**BY, id="one")
    pending: PendingRequests = thread.contender._driver._requests.pending  # type: ignore[union-attr]

    assert pending.submit(request, timedelta(milliseconds=50)).outcome is Outcome.WAITING
    assert ledger_state(store).checkpoint[A0] == 0
    thread.until(lambda s: s.requests == 1, "the status shows the request")
    runner.gate.set()

    assert thread.contender.decide(request).outcome is Outcome.DONE
    thread.stop()
    state = ledger_state(store)
    assert A0 in state.excluded
    assert [type(r) for r in records(store)].index(Drop) > 2  # after the COMMIT of that batch
    assert landed_offsets(store) == written_offsets(log)


def test_retry_lets_a_driver_try_again_what_was_denied(store: MemoryStore, log: FakeLog) -> None:
    denied = Stalled(Reason.SOURCE_DENIED, "no ACL")
    runner = FakeRunner(store, failures={A0: [denied]})
    thread = DriverThread(store, log, "r", runner=runner).start()
    thread.until(is_blocked, "a/0 is blocked")

    answer = thread.contender.decide(RetryRequest(who="kim"))

    assert answer.outcome is Outcome.DONE
    thread.until_landed()
    assert thread.stop() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_what_the_source_denied_is_tried_again_after_a_pause(
    store: MemoryStore, log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("landfall.driver.landing.commits.DENIED_PAUSE", timedelta(milliseconds=50))
    denied = Stalled(Reason.SOURCE_DENIED, "no ACL")
    thread = DriverThread(
        store, log, "r", runner=FakeRunner(store, failures={A0: [denied, denied]})
    ).start()

    thread.until_landed()

    assert thread.stop() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_what_was_dropped_stays_out_until_a_reset_in_a_new_generation(
    store: MemoryStore, log: FakeLog
) -> None:
    one = DriverThread(store, log, "r").start()
    one.until_landed()
    assert one.contender.decide(DropRequest(**BY)).outcome is Outcome.DONE
    same = one.contender.decide(ResetRequest(**BY, to="earliest"))
    assert "set spec.generation to 2" in same.message
    log.write("a", 15)
    one.stop()

    two = DriverThread(store, log, "r2", group=group(generation=2)).start()
    two.until(lambda s: s.phase is DriverPhase.RUNNING and s.partitions, "the next driver runs")
    assert A0 not in ledger_state(store).members
    assert two.contender.decide(ResetRequest(**BY, to="earliest")).outcome is Outcome.DONE
    two.until_landed()
    two.stop()

    of_a = {o: n for (topic, _, o), n in landed_offsets(store).items() if topic == "a"}
    assert of_a == {**dict.fromkeys(range(10), 2), **dict.fromkeys(range(10, 15), 1)}


@pytest.mark.parametrize("where", ["a driver", "no driver"])
def test_a_kafka_partition_without_a_leader_can_be_dropped(
    store: MemoryStore, log: FakeLog, where: str
) -> None:
    one = DriverThread(store, log, "r").start()
    one.until_landed()
    log.unavailable[A0] = SourceAway("a/0: the Kafka partition has no leader")

    if where == "a driver":
        skipped = one.contender.decide(SkipRequest(**BY))
        assert (skipped.outcome, "has no leader" in skipped.message) == (Outcome.FAILED, True)
        dropped = one.contender.decide(DropRequest(**BY))
        one.stop()
    else:
        one.stop()
        names = count()
        lane, runner = Lane(store, "fake", LANE), FakeRunner(store)
        session = LaneSession(
            group(), store, lane, log, runner, ticking(), lambda: f"session-{next(names)}"
        )
        with pytest.raises(SourceAway, match="has no leader"):
            session.carry_out(SkipRequest(**BY), take_over=False)
        dropped = session.carry_out(DropRequest(**BY), take_over=False)

    assert dropped.outcome is Outcome.DONE
    (text,) = dropped.records
    assert text.endswith("more may not be landed, as its log does not answer")
    assert A0 not in ledger_state(store).members


def test_a_process_without_the_lane_says_so(store: MemoryStore, log: FakeLog) -> None:
    one = DriverThread(store, log, "r").start()
    one.until_landed()
    two = DriverThread(store, log, "r2").start()
    two.until_phase(DriverPhase.STANDBY)

    answer = two.contender.decide(SkipRequest(**BY))
    of_taker = two.contender.decide(FilesDoneRequest(who="kim", lease=7))

    message = "this process does not have the lane: ask the one that has"
    assert answer == Answer(Outcome.REFUSED, message=message)
    assert of_taker == Answer(Outcome.FAILED, message=message)
    two.stop()
    one.stop()


def test_a_driver_that_stops_answers_what_waits() -> None:
    pending = PendingRequests(lambda: None)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(pending.submit, SkipRequest(**BY))
        while not pending.waiting():
            pass
        pending.close("the driver has stopped")

    assert asked.result().outcome is Outcome.FAILED
    assert pending.submit(SkipRequest(**BY)).message == "the driver has stopped"


# ------------------------------------------------------------------------------- without a driver


def session(store: MemoryStore, log: FakeLog, generation: int = 1) -> LaneSession:
    names = count()
    return LaneSession(
        group(generation=generation),
        store,
        Lane(store, "fake", LANE),
        log,
        FakeRunner(store),
        ticking(),
        lambda: f"session-{next(names)}",
    )


def test_a_lane_without_a_driver_is_opened_recorded_in_and_handed_over(
    expired: DriverThread, store: MemoryStore, log: FakeLog
) -> None:
    expired.stop()

    answer = session(store, log).carry_out(SkipRequest(**BY), take_over=False)

    assert answer.records == ("HOLE: a/0[10, 20) is not landed, 10 offsets",)
    handed_over = records(store)[-1]
    assert isinstance(handed_over, Yield)
    assert handed_over.reason == "skip by kim"
    again = DriverThread(store, log, "r").start()
    again.until_landed()
    again.stop()


@pytest.mark.parametrize("request_", [SkipRequest(**BY), ResetRequest(**BY, to=25)])
def test_a_lane_that_a_driver_has_is_opened_only_on_demand(
    expired: DriverThread, store: MemoryStore, log: FakeLog, request_: Request
) -> None:
    before = len(records(store))
    refused = session(store, log).carry_out(request_, take_over=False)
    assert refused.outcome is Outcome.REFUSED
    assert "a driver has the lane (epoch 2" in refused.message
    assert "--take-over" in refused.message
    assert len(records(store)) == before

    done = session(store, log).carry_out(request_, take_over=True)

    assert done.outcome is Outcome.DONE
    assert ledger_state(store).holding is LaneOwnership.YIELDED
    expired.contender.check_store(store.read)  # as the store monitor does every few seconds
    assert expired.end() is ExitCode.FENCED
    again = DriverThread(store, log, "r").start()
    again.until_landed()
    again.stop()


def test_nobody_is_fenced_for_a_request_that_is_refused_or_a_dry_run(
    expired: DriverThread, store: MemoryStore, log: FakeLog
) -> None:
    before = len(records(store))

    refused = session(store, log).carry_out(ResetRequest(**BY, to=5), take_over=True)
    dry = session(store, log).carry_out(SkipRequest(**BY, dry_run=True), take_over=False)

    assert (refused.outcome, dry.outcome) == (Outcome.REFUSED, Outcome.DRY_RUN)
    assert len(records(store)) == before
    expired.stop()


def test_a_reset_back_without_a_driver_needs_the_generation_of_the_group_file(
    store: MemoryStore, log: FakeLog
) -> None:
    one = DriverThread(store, log, "r").start()
    one.until_landed()
    one.stop()
    back = ResetRequest(**BY, to=4)

    refused = session(store, log).carry_out(back, take_over=False)
    assert "set spec.generation to 2" in refused.message
    done = session(store, log, generation=2).carry_out(back, take_over=False)

    assert done.outcome is Outcome.DONE
    kinds = [type(r) for r in records(store)][-3:]
    assert kinds == [Drop, Add, Yield]
    assert ledger_state(store).checkpoint[A0] == 4


def test_a_request_without_a_driver_is_carried_out_once_too(
    expired: DriverThread, store: MemoryStore, log: FakeLog
) -> None:
    expired.stop()
    request = SkipRequest(**BY, until=25, id="one")

    first = session(store, log).carry_out(request, take_over=False)
    again = session(store, log).carry_out(request, take_over=False)

    assert first.outcome is Outcome.DONE
    assert (again.outcome, again.message) == (Outcome.DONE, "recorded before, under the id one")
    assert len([r for r in records(store) if isinstance(r, Hole)]) == 1


def test_a_session_yields_the_lane_though_a_record_was_not_written(
    expired: DriverThread, store: MemoryStore, log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired.stop()

    def broken(*_: object) -> State:
        raise Stalled(Reason.LEDGER_BROKEN, "a rule is broken")

    monkeypatch.setattr("landfall.driver.requests.lane_session._append", broken)

    with pytest.raises(Stalled, match="a rule is broken"):
        session(store, log).carry_out(SkipRequest(**BY), take_over=False)

    assert ledger_state(store).holding is LaneOwnership.YIELDED


def test_requests_that_make_no_sense_without_a_driver_or_a_ledger_are_refused(
    store: MemoryStore, log: FakeLog
) -> None:
    of_empty = session(store, log).carry_out(SkipRequest(**BY), take_over=True)
    retried = session(store, log).carry_out(RetryRequest(who="kim"), take_over=True)

    assert of_empty.message == "s3://bucket/root has no ledger of fake"
    assert "retry is for a running driver" in retried.message
    assert records(store) == []


def test_bad_records_are_allowed_up_to_the_offset_of_the_decision_and_no_further(
    store: MemoryStore, log: FakeLog
) -> None:
    limited = group(badRecords={"maxRatio": "0.1", "minCount": 1})
    log.write("a", 100)
    assert driver(limited, store, log, FakeRunner(store, bad={A0: 2})).run() is ExitCode.STALLED
    assert session(store, log).carry_out(UnblockRequest(**BY), take_over=True).records == (
        "UNBLOCK: a/0 may have any share of bad records in [0, 100)",
    )
    log.write("a", 150)

    again = driver(limited, store, log, FakeRunner(store, bad={A0: 2}), writer="w2")

    assert again.run() is ExitCode.STALLED
    assert again.stalled_partitions()[A0].reason is Reason.BAD_RECORDS
    assert ledger_state(store).checkpoint[A0] == 100
