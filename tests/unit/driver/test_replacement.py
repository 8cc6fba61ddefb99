"""A driver that replaces one of its own revision, as after the drain of a node."""

from datetime import timedelta

import pytest

from landfall.api.contract import LANE, DriverPhase, ExitCode
from landfall.lane import Lane
from landfall.ledger import Open, Yield, decode
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import FakeLog


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def log() -> FakeLog:
    return FakeLog().write("a", 25, 7).write("b", 3)


def lane(store: MemoryStore) -> Lane:
    return Lane(store, "fake", LANE)


def landing(store: MemoryStore, log: FakeLog, revision: str) -> DriverThread:
    thread = DriverThread(store, log, revision).start()
    thread.until_landed()
    return thread


def replacement(store: MemoryStore, log: FakeLog, of: DriverThread) -> DriverThread:
    """Another process of the same revision, which finds the first one at work while it is."""
    return DriverThread(
        store,
        log,
        of.revision,
        is_owner_working=lambda: not of.ended,
        look_interval=timedelta(milliseconds=20),
    )


def test_a_replacement_waits_for_the_driver_that_drains(store: MemoryStore, log: FakeLog) -> None:
    old = landing(store, log, "old")
    new = replacement(store, log, old).start()

    status = new.until(lambda s: "still has the lane" in s.message, "it waits")

    # In STANDBY, the operator would tell it to take the lane.
    assert (status.phase, status.epoch) == (DriverPhase.STARTING, 0)
    assert old.stop() is ExitCode.OK
    new.until_landed()
    assert new.stop() is ExitCode.OK
    records = [decode(seq, body) for seq, body in lane(store).bodies()]
    assert [type(r).__name__ for r in records if isinstance(r, Open | Yield)] == [
        *("Open", "Yield"),
        *("Open", "Yield"),
    ]


def test_a_replacement_does_not_wait_for_a_driver_that_was_killed(
    store: MemoryStore, log: FakeLog
) -> None:
    DriverThread(store, log, "old").contender._open(lane(store).read())  # and crashes
    asked: list[bool] = []
    new = DriverThread(store, log, "old", is_owner_working=lambda: bool(asked.append(True)))

    new.start().until_landed()

    assert asked == [True]
    assert "still has the lane" not in {status.message for status in new.statuses}
    assert new.stop() is ExitCode.OK


def test_a_replacement_waits_no_longer_than_drain_timeout(store: MemoryStore, log: FakeLog) -> None:
    old = landing(store, log, "old")
    new = replacement(store, log, old)
    upgrade = new.group.spec.upgrade.model_copy(update={"drain_timeout": timedelta(seconds=30)})
    spec = new.group.spec.model_copy(update={"upgrade": upgrade})
    new.contender.group = new.group.model_copy(update={"spec": spec})

    new.start().until_landed()

    log.write("a", 1)
    assert old.end() is ExitCode.FENCED
    assert new.stop() is ExitCode.OK


def test_a_replacement_that_waits_takes_the_lane_on_command(
    store: MemoryStore, log: FakeLog
) -> None:
    old = landing(store, log, "old")
    new = replacement(store, log, old).start()
    new.until(lambda s: "still has the lane" in s.message, "it waits")

    new.contender.take_over()

    new.until_landed()
    log.write("a", 1)
    assert old.end() is ExitCode.FENCED
    assert new.stop() is ExitCode.OK
