from dataclasses import replace
from datetime import timedelta

import pytest

from landfall.api.contract import LANE, DriverPhase, ExitCode
from landfall.driver.process.loop import Driver
from landfall.errors import Reason, Retry, SourceAway, Stalled, StoreAway
from landfall.lane import Lane
from landfall.ledger import LaneOwnership, Open, decode
from landfall.ledger.offsets import TopicPartition
from landfall.store.memory import Call, CallFault, MemoryStore, NoFaults, Operation, Scripted
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)
from tests.support.waiting import wait_for


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log() -> FakeLog:
    return FakeLog().write("a", 25, 7).write("b", 3)


def lane(store: MemoryStore) -> Lane:
    return Lane(store, "fake", LANE)


def opened_by(store: MemoryStore) -> list[str]:
    """Revisions of all OPENs."""
    records = (decode(seq, body) for seq, body in lane(store).bodies())
    return [record.revision for record in records if isinstance(record, Open)]


def landing(store: MemoryStore, log: FakeLog, revision: str) -> DriverThread:
    thread = DriverThread(store, log, revision).start()
    thread.until_landed()
    return thread


def test_an_empty_lane_is_taken_at_once(store: MemoryStore, log: FakeLog) -> None:
    thread = landing(store, log, "old")

    assert thread.statuses[-1].revision == "old"
    assert thread.stop() is ExitCode.OK
    assert opened_by(store) == ["old"]
    assert lane(store).read().holding is LaneOwnership.YIELDED


def test_a_driver_stands_by_while_another_revision_owns_the_lane(
    store: MemoryStore, log: FakeLog
) -> None:
    old, runner = landing(store, log, "old"), FakeRunner(store)
    new = DriverThread(store, log, "new", runner=runner).start()

    status = new.until_phase(DriverPhase.STANDBY)

    assert (status.revision, status.epoch, status.partitions, status.lag_records) == (
        "new",
        0,
        (),
        0,
    )
    assert status.message == "revision old has the lane, epoch 1"
    assert new.stop() is ExitCode.OK
    assert old.stop() is ExitCode.OK
    assert opened_by(store) == ["old"]
    assert runner.rounds == []


def test_a_check_without_the_lane_only_shows_whether_the_store_answers(
    store: MemoryStore, log: FakeLog
) -> None:
    old, new = landing(store, log, "old"), DriverThread(store, log, "new").start()
    new.until_phase(DriverPhase.STANDBY)
    new.contender.check_store(store.read)
    old.contender.hand_over("new")
    old.until_phase(DriverPhase.YIELDED)
    new.wake()
    new.until_landed()

    old.contender.check_store(store.read)

    with pytest.raises(StoreAway):
        old.contender.check_store(
            MemoryStore(Scripted({Operation.READ: [CallFault.REQUEST_LOST]})).read
        )
    assert (old.stop(), new.stop()) == (ExitCode.OK, ExitCode.OK)


def test_the_new_driver_continues_at_the_cut(store: MemoryStore, log: FakeLog) -> None:
    old = landing(store, log, "old")
    new = DriverThread(store, log, "new").start()
    new.until_phase(DriverPhase.STANDBY)

    old.contender.hand_over("new")
    old.until_phase(DriverPhase.YIELDED)
    log.write("a", 40, 9)
    new.wake()
    new.until_landed()

    assert old.phase is DriverPhase.YIELDED
    assert old.stop() is ExitCode.OK
    assert new.stop() is ExitCode.OK
    assert opened_by(store) == ["old", "new"]
    assert landed_offsets(store) == written_offsets(log)


def test_a_driver_that_handed_over_rests_until_the_command_to_take_over(
    store: MemoryStore, log: FakeLog
) -> None:
    old = landing(store, log, "old")
    old.contender.hand_over("new")
    status = old.until_phase(DriverPhase.YIELDED)
    assert (status.epoch, status.partitions, status.message) == (1, (), "the lane is handed over")
    old.wake()
    old.contender.hand_over("new")
    assert opened_by(store) == ["old"]

    old.contender.take_over()
    log.write("b", 12)
    old.until_landed()

    assert old.statuses[-1].epoch == 2
    assert old.stop() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_driver_that_is_to_take_over_while_it_drains_lands_again(
    store: MemoryStore, log: FakeLog
) -> None:
    old = landing(store, log, "old")

    old.contender.hand_over("new")
    old.contender.take_over()
    old.until(lambda status: status.epoch == 2, "opened again")
    log.write("b", 12)
    old.until_landed()

    assert old.stop() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_taking_over_fences_the_other_driver(store: MemoryStore, log: FakeLog) -> None:
    old = landing(store, log, "old")
    new = DriverThread(store, log, "new").start()
    new.until_phase(DriverPhase.STANDBY)

    new.contender.take_over()
    new.until_phase(DriverPhase.RUNNING)
    log.write("a", 40, 9)
    new.until_landed()

    assert old.end() is ExitCode.FENCED
    assert new.stop() is ExitCode.OK
    assert opened_by(store) == ["old", "new"]
    assert landed_offsets(store) == written_offsets(log)


def test_a_driver_that_lands_ignores_the_command_to_take_over(
    store: MemoryStore, log: FakeLog
) -> None:
    thread = landing(store, log, "old")

    thread.contender.take_over()
    log.write("b", 5)
    thread.until_landed()

    assert thread.stop() is ExitCode.OK
    assert opened_by(store) == ["old"]


def test_the_same_revision_continues_after_a_crash(store: MemoryStore, log: FakeLog) -> None:
    DriverThread(store, log, "old").contender._open(lane(store).read())  # and crashes

    assert landing(store, log, "old").stop() is ExitCode.OK
    assert opened_by(store) == ["old", "old"]
    assert landed_offsets(store) == written_offsets(log)


def test_without_a_revision_the_lane_is_taken_at_once(store: MemoryStore, log: FakeLog) -> None:
    old = landing(store, log, "old")

    nameless = landing(store, log, "")

    log.write("b", 5)
    nameless.until_landed()
    assert old.end() is ExitCode.FENCED
    assert nameless.stop() is ExitCode.OK


def test_one_of_two_standby_drivers_gets_the_lane(store: MemoryStore, log: FakeLog) -> None:
    old = landing(store, log, "old")
    waiting = [DriverThread(store, log, revision).start() for revision in ("new", "newer")]
    for thread in waiting:
        thread.until_phase(DriverPhase.STANDBY)

    old.contender.hand_over("new")
    old.until_phase(DriverPhase.YIELDED)
    seen = lane(store).read()
    first, second = (thread.contender._open(seen) for thread in waiting)

    assert first
    assert second is None
    assert opened_by(store) == ["old", "new"]
    for thread in (old, *waiting):
        thread.stop()


@pytest.mark.parametrize("phase", [DriverPhase.STANDBY, DriverPhase.YIELDED])
def test_sigterm_ends_a_driver_that_waits(
    store: MemoryStore, log: FakeLog, phase: DriverPhase
) -> None:
    old = landing(store, log, "old")
    new = DriverThread(store, log, "new").start()
    new.until_phase(DriverPhase.STANDBY)
    if phase is DriverPhase.YIELDED:
        old.contender.hand_over("new")
    waiting = {DriverPhase.STANDBY: new, DriverPhase.YIELDED: old}[phase]
    waiting.until_phase(phase)

    assert waiting.stop() is ExitCode.OK
    assert (old if waiting is new else new).stop() is ExitCode.OK
    assert opened_by(store) == ["old"]


def test_a_driver_that_is_stopped_first_does_not_open_the_lane(
    store: MemoryStore, log: FakeLog
) -> None:
    thread = DriverThread(store, log, "old")
    thread.contender.stop("SIGTERM")

    assert thread.start().end() is ExitCode.OK
    assert opened_by(store) == []


def test_executors_that_cannot_start_end_a_driver_that_would_stand_by(
    store: MemoryStore, log: FakeLog
) -> None:
    old = landing(store, log, "old")
    broken = FakeRunner(store, cold=Retry("no module named landfall"))

    new = DriverThread(store, log, "new", runner=broken).start()
    new.wake()

    with pytest.raises(Retry, match="no module named landfall"):
        new.end()
    assert old.stop() is ExitCode.OK


def test_an_unavailable_store_is_waited_for_while_standing_by(log: FakeLog) -> None:
    script: dict[Operation, list[CallFault | None]] = {}
    store = MemoryStore(Scripted(script))
    old = landing(store, log, "old")
    new = DriverThread(store, log, "new").start()
    new.until_phase(DriverPhase.STANDBY)

    script[Operation.LIST] = [CallFault.THROTTLED, CallFault.THROTTLED]

    def both_failed() -> bool:
        new.wake()
        return len(new.waits_for) == 2

    wait_for(both_failed, "both looks failed")
    old.contender.hand_over("new")
    old.until_phase(DriverPhase.YIELDED)
    new.wake()
    new.until_landed()

    assert [what.startswith("store: ") for what in new.waits_for] == [True, True]
    assert new.stop() is ExitCode.OK
    assert old.stop() is ExitCode.OK


@pytest.mark.parametrize("operation", [Operation.READ, Operation.LIST], ids=str)
def test_an_unavailable_store_is_waited_for_before_the_first_read(
    log: FakeLog, operation: Operation
) -> None:
    """The driver's process has started by then, and another one would take longer than most
    outages.
    """
    script: dict[Operation, list[CallFault | None]] = {
        operation: [CallFault.THROTTLED, CallFault.THROTTLED]
    }
    thread = DriverThread(
        MemoryStore(Scripted(script)), log, "new", look_interval=timedelta(0)
    ).start()

    thread.until_landed()

    assert [what.startswith("store: ") for what in thread.waits_for] == [True, True]
    assert thread.stop() is ExitCode.OK


def test_a_driver_that_waits_for_the_store_can_be_stopped(log: FakeLog) -> None:
    script: dict[Operation, list[CallFault | None]] = {Operation.READ: [CallFault.THROTTLED] * 1000}
    thread = DriverThread(MemoryStore(Scripted(script)), log, "new").start()
    wait_for(lambda: thread.waits_for, "it waits")

    assert thread.stop() is ExitCode.OK


def test_an_output_root_with_objects_of_our_names_and_no_ledger_is_refused(
    store: MemoryStore, log: FakeLog
) -> None:
    driver(group(), store, log, FakeRunner(store)).run()
    for stat in list(store.list_after("_landfall/")):
        store.delete(stat.key)

    with pytest.raises(Stalled) as refused:
        DriverThread(store, log, "new").start().end()

    assert refused.value.reason is Reason.OUTPUT_OCCUPIED


def test_arrived_records_and_executors_are_counted(store: MemoryStore, log: FakeLog) -> None:
    thread = landing(store, log, "old")
    assert thread.statuses[-1].rates.arrived_records == 0

    log.write("a", 40, 9)
    status = thread.until_landed()

    assert status.rates.arrived_records == 17
    assert status.workers is not None
    assert (status.workers.wanted, status.workers.registered, status.workers.slots) == (1, 1, 2)
    assert thread.stop() is ExitCode.OK


def test_objects_of_a_driver_that_opened_the_empty_lane_first_do_not_stop_the_second(
    log: FakeLog,
) -> None:
    first: list[ExitCode] = []

    class Meanwhile(NoFaults):
        def before(self, call: Call) -> CallFault | None:
            if (call.operation, call.key) == (Operation.LIST, "") and not first:
                first.append(ExitCode.OK)
                first[0] = driver(group(), store, log, FakeRunner(store), writer="first").run()
            return None

    store = MemoryStore(Meanwhile())
    second = landing(store, log, "second")

    assert second.stop() is ExitCode.OK
    assert opened_by(store) == ["", "second"]
    assert first == [ExitCode.OK]


def test_offsets_known_from_before_a_handover_are_no_sign_of_a_truncated_log() -> None:
    store, log, a0 = MemoryStore(), FakeLog().write("a", 4).write("b", 4), TopicPartition("a", 0)
    first = driver(group(), store, log, FakeRunner(store), writer="w1")
    assert first.run() is ExitCode.OK
    assert driver(group(), store, log.write("a", 5), FakeRunner(store), writer="w2").run() == 0
    log.unavailable[a0] = SourceAway("a/0: the Kafka partition has no leader")
    third = driver(group(), store, log, FakeRunner(store), writer="w3")
    deps = replace(third.deps, observer=first.deps.observer)  # the first process lands again

    again = Driver(third.group, third.writer, deps, third.report, until_caught_up=True)

    assert again.run() is ExitCode.STALLED
    assert again.writer.state.blocked == {}
    assert again.stalled_partitions()[a0].reason is Reason.SOURCE_UNAVAILABLE
