"""Uploads that dead drivers left are aborted alongside landing; other programs' stay."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from landfall.api.contract import ExitCode
from landfall.driver.core.background import Threads
from landfall.driver.landing.orphan_uploads import OrphanFilter, OrphanSweep, is_of_landed_range
from landfall.ledger.offsets import Checkpoint, TopicPartition
from landfall.objects import OpenUpload
from landfall.store.memory import Call, MemoryStore, NoFaults, Operation
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

OURS = OrphanFilter(lambda key: key.startswith("a/"), None)


class Holds(NoFaults):
    """Holds calls of an operation back until they are let through."""

    def __init__(self, operation: Operation) -> None:
        self.operation, self.through = operation, threading.Event()
        self.held = 0

    def before(self, call: Call) -> None:
        if call.operation is self.operation:
            self.held += 1
            assert self.through.wait(60)


def landed_before(store: MemoryStore, log: FakeLog) -> None:
    """A former driver landed nothing and left 200 uploads, so that a is known to the ledger."""
    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.OK
    for start in range(200):
        store.begin(f"a/all/1_0_{start:020d}.txt", "of a dead driver")


def test_landing_does_not_wait_until_orphans_are_aborted() -> None:
    holds = Holds(Operation.ABORT)
    store, log = MemoryStore(holds), FakeLog().write("a", 10)
    landed_before(store, log)
    log.write("a", 30)

    thread = DriverThread(store, log).start()
    thread.until_landed()
    status = thread.until(lambda s: "aborting" in s.message, "the status says so")
    aborted_before = 200 - len(list(store.open_uploads("")))
    holds.through.set()
    wait_for(lambda: not list(store.open_uploads("")), "all are aborted")

    assert status.message == "aborting 200 uploads that former drivers left"
    assert (aborted_before, holds.held > 1) == (0, True), "several at the same time"
    assert thread.stop() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_listing_that_takes_too_long_takes_no_upload_of_this_driver() -> None:
    holds = Holds(Operation.OPEN_UPLOADS)
    store, log = MemoryStore(), FakeLog().write("a", 10)
    landed_before(store, log)
    log.write("a", 30)
    store._plan = holds

    thread = DriverThread(store, log).start()
    wait_for(lambda: holds.held, "it lists")
    thread.until(lambda s: "looking for uploads" in s.message, "the status says so")
    thread.until_landed()
    kept = store.begin("a/all/1_0_00000000000000000030.txt", "of a task of this driver")
    holds.through.set()

    assert thread.stop() is ExitCode.OK
    assert kept in {upload.upload_id for upload in store.open_uploads("")}
    assert landed_offsets(store) == written_offsets(log)


class Paged(MemoryStore):
    """Lists one upload a page; between two pages, another one is begun."""

    sweep: OrphanSweep

    def open_uploads(self, prefix: str) -> Iterator[OpenUpload]:  # noqa: ARG002  # all are listed
        now = datetime.now(UTC)
        yield OpenUpload("a/1", self.begin("a/1", "of a dead driver"), now)
        self.sweep.close()
        yield OpenUpload("a/2", self.begin("a/2", "of a task of this driver"), now)


def test_a_closed_listing_keeps_what_was_begun_since() -> None:
    store = Paged()
    sweep = store.sweep = OrphanSweep(store, lambda: False, Threads(), lambda: datetime.now(UTC))

    sweep.start(OURS)
    sweep.stop()

    assert sorted(store._uploads) == ["upload-2"]


@pytest.mark.parametrize(("is_fenced", "left"), [(False, ["b/1"]), (True, ["a/1", "a/2", "b/1"])])
def test_a_fenced_driver_aborts_nothing(is_fenced: bool, left: list[str]) -> None:
    store = MemoryStore()
    for key in ("a/1", "a/2", "b/1"):
        store.begin(key, "token")
    sweep = OrphanSweep(store, lambda: is_fenced, Threads(), lambda: datetime.now(UTC))

    sweep.start(OURS)
    sweep.stop()

    assert [upload.key for upload in store.open_uploads("")] == left


def test_a_driver_whose_clock_is_days_ahead_keeps_what_its_tasks_upload() -> None:
    """Ages are differences between the driver's clock and the store's."""
    checkpoint = Checkpoint({TopicPartition("a", 0): 30})
    names = [f"a/all/1_0_{start:020d}.txt" for start in (0, 29, 30, 31)]
    names += [f"_landfall/shop/dead-letters/a/1_0_{start:020d}.parquet" for start in (29, 30)]

    found = [is_of_landed_range("shop", checkpoint, name) for name in names]

    assert found == [True, True, False, False, True, False]
    assert not is_of_landed_range("shop", checkpoint, "a/all/1_1_00000000000000000000.txt")
    assert not is_of_landed_range("shop", checkpoint, "something/else")
