"""What the loop does when the store fails, loses uploads, or has another driver's records."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pytest

from landfall.api.contract import DriverPhase, ExitCode
from landfall.driver.core.runner import Bin
from landfall.errors import LandfallError, Reason, Stalled, StoreDenied
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import SliceResult
from landfall.store.memory import Call, CallFault, MemoryStore, NoFaults, Operation, Scripted
from landfall.task import Batch
from tests.support.driver.driver_events import after_next_batch, ledger_state, recreate
from tests.support.driver.fakes import (
    NOW,
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)

A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


def test_a_lost_upload_of_a_topic_recreated_since_stalls_the_driver() -> None:
    store, log = (
        MemoryStore(Scripted({Operation.COMPLETE: [CallFault.EXPIRED]})),
        FakeLog().write("a", 10),
    )
    runner = FakeRunner(store)
    one = driver(group(), store, log, runner)
    after_next_batch(
        runner, lambda: after_next_batch(runner, lambda: recreate(log, "a", 30))
    )  # the second run is the repair's

    assert one.run() is ExitCode.STALLED
    assert one.counters.message.startswith("ObjectLost")
    assert "a/0: not landed, the topic was deleted or recreated meanwhile" in one.counters.message
    assert landed_offsets(store) == {}


def test_a_driver_is_fenced_by_the_next_one() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    old = driver(group(), store, log, FakeRunner(store))
    new = driver(group(), store, log, FakeRunner(store), writer="w2")

    assert old.run() is ExitCode.FENCED
    assert old.phase is DriverPhase.FENCED
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
    [
        CallFault.REQUEST_LOST,
        CallFault.ANSWER_LOST,
        CallFault.REPEATED,
        CallFault.THROTTLED,
        CallFault.CONFLICT,
    ],
)
def test_a_commit_survives_whatever_its_append_meets(fault: CallFault) -> None:
    plan = Scripted({Operation.CREATE: [None, None, fault, fault]})  # OPEN, ADD, then COMMIT twice
    store, log = MemoryStore(plan), FakeLog().write("a", 10)

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert ledger_state(store).totals.commits == 1


@pytest.mark.parametrize("repeat_completes", [True, False])
@pytest.mark.parametrize(
    "fault",
    [
        CallFault.REQUEST_LOST,
        CallFault.ANSWER_LOST,
        CallFault.REPEATED,
        CallFault.THROTTLED,
        CallFault.ERROR_BODY,
    ],
)
def test_objects_become_visible_whatever_their_completion_meets(
    fault: CallFault, repeat_completes: bool
) -> None:
    store = MemoryStore(
        Scripted({Operation.COMPLETE: [fault, fault]}), repeat_completes=repeat_completes
    )
    log = FakeLog().write("a", 10)

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_committed_upload_that_was_lost_is_made_again() -> None:
    store, log = (
        MemoryStore(Scripted({Operation.COMPLETE: [CallFault.EXPIRED]})),
        FakeLog().write("a", 10),
    )

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)


def test_a_lost_upload_whose_range_is_gone_stalls_the_driver_with_the_range() -> None:
    store, log = (
        MemoryStore(Scripted({Operation.COMPLETE: [CallFault.EXPIRED]})),
        FakeLog().write("a", 10),
    )
    runner = FakeRunner(store)
    one = driver(group(), store, log, runner)
    gone = Stalled(Reason.DATA_LOSS, "offset 0 expired")
    first = runner.run

    def run_then_lose(batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        # The range exists for the batch, and is gone for the repair.
        results = first(batch, bins)
        runner.failures[A0] = [gone]
        return results

    runner.run = run_then_lose  # type: ignore[method-assign]

    assert one.run() is ExitCode.STALLED
    assert "a/0[0, 10)" in one.counters.message
    assert one.counters.message.startswith("ObjectLost")


DENIED: list[LandfallError] = [
    StoreDenied("the key was rotated"),
    Stalled(Reason.STORE_DENIED, "a custom store's"),
]


def test_a_repair_that_the_store_refuses_is_tried_again() -> None:
    store, log = (
        MemoryStore(Scripted({Operation.COMPLETE: [CallFault.EXPIRED]})),
        FakeLog().write("a", 10),
    )
    runner = FakeRunner(store)
    after_next_batch(runner, lambda: runner.failures.update({A0: [DENIED[0]]}))
    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.OK
    assert one.counters.failures_by_reason == {"StoreDenied": 1}
    assert landed_offsets(store) == written_offsets(log)


@pytest.mark.parametrize("denied", DENIED)
def test_what_the_store_refused_a_task_lands_without_a_restart(denied: LandfallError) -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10).write("b", 10)
    runner = FakeRunner(store, failures={A0: [denied, denied]})
    one = driver(group(), store, log, runner)

    assert one.run() is ExitCode.OK
    assert one.counters.failures_by_reason == {"StoreDenied": 2}
    assert landed_offsets(store) == written_offsets(log)


@pytest.mark.parametrize(
    ("operation", "refused"), [(Operation.CREATE, {2, 3}), (Operation.COMPLETE, {1})]
)
def test_a_driver_outlives_what_the_store_refuses_it(
    operation: Operation, refused: set[int]
) -> None:
    store, log = MemoryStore(Refuses(operation, refused)), FakeLog().write("a", 10)
    one = driver(group(), store, log, FakeRunner(store))

    assert one.run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    if operation is Operation.COMPLETE:
        assert one.counters.failures_by_reason == {"StoreDenied": 1}


@dataclass
class Refuses(NoFaults):
    """Refuses an operation's calls with these numbers, counted from 1."""

    operation: Operation
    refused: set[int]
    calls: int = 0

    def before(self, call: Call) -> None:
        self.calls += call.operation is self.operation
        if call.operation is self.operation and self.calls in self.refused:
            raise StoreDenied("the key was rotated")


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


def test_uploads_of_dead_drivers_are_aborted_and_no_others() -> None:
    at = [NOW - timedelta(days=2)]
    store, log = MemoryStore(clock=lambda: at[0]), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    for key in (
        "a/all/1_0_00000000000000000010.txt",
        "_landfall/_probe/x/object",
        "_landfall/fake/0-retired/00000000000000000005/a/all/1_0_00000000000000000000.txt",
        "b/all/1_0_00000000000000000000.txt",
    ):
        store.begin(key, "dead")
    at[0] = NOW + timedelta(days=1)
    store.begin("_landfall/_probe/y/object", "starting")
    store.begin("_landfall/fake/0-retired/00000000000000000006/a", "copying")

    assert driver(group(), store, log, FakeRunner(store), writer="w2").run() is ExitCode.OK
    assert [upload.key for upload in store.open_uploads("")] == [
        "_landfall/_probe/y/object",
        "_landfall/fake/0-retired/00000000000000000006/a",
        "b/all/1_0_00000000000000000000.txt",
    ]


@pytest.mark.parametrize(
    "script",
    [
        {Operation.CREATE: [None] * 5 + [CallFault.THROTTLED]},
        {Operation.OVERWRITE: [CallFault.THROTTLED]},
    ],
    ids=["the state", "the hint"],
)
def test_a_snapshot_that_the_store_does_not_take_does_not_end_the_driver(
    script: dict[Operation, list[CallFault | None]],
) -> None:
    of, log = group(tuning={"pollInterval": "5ms", "snapshotEvery": 4}), FakeLog().write("a", 10)
    store = MemoryStore(Scripted(script))  # OPEN, ADD, COMMIT, YIELD, OPEN; then the snapshot
    driver(of, store, log, FakeRunner(store)).run()
    log.write("a", 20)

    one = driver(of, store, log, FakeRunner(store), writer="w2")

    assert one.run() is ExitCode.OK
    assert one.counters.failures_by_reason == {"StoreUnavailable": 1}
    assert landed_offsets(store) == written_offsets(log)
