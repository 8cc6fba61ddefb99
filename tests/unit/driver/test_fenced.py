"""What a driver must not abort: uploads that may be committed, and those of its successor."""

from dataclasses import dataclass, field

import pytest

from landfall.api.contract import ExitCode
from landfall.errors import LandfallError, Reason, Retry, Stalled
from landfall.store.memory import Call, CallFault, MemoryStore, NoFaults, Operation
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)

DENIED = Stalled(Reason.STORE_DENIED, "the credentials expired")
AWAY = Retry("the store does not answer")


@dataclass
class Refusing(NoFaults):
    """Faults and refusals of each operation, one after another."""

    script: dict[Operation, list[CallFault | LandfallError | None]] = field(default_factory=dict)

    def before(self, call: Call) -> CallFault | None:
        remaining = self.script.get(call.operation)
        fault = remaining.pop(0) if remaining else None
        if isinstance(fault, LandfallError):
            raise fault
        return fault


def test_a_driver_that_ends_with_its_commit_in_doubt_keeps_the_uploads() -> None:
    plan = Refusing(
        {Operation.CREATE: [None, None, CallFault.ANSWER_LOST, DENIED]}
    )  # OPEN, ADD, COMMIT, COMMIT again
    store, log = MemoryStore(plan), FakeLog().write("a", 10)
    successors = FakeRunner(store)

    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.STALLED
    assert driver(group(), store, log, successors, writer="w2").run() is ExitCode.OK
    assert landed_offsets(store) == written_offsets(log)
    assert successors.rounds == [], "the successor only completes the uploads"


def test_a_fenced_driver_does_not_abort_its_successors_uploads() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    driver(group(), store, log, FakeRunner(store)).run()
    old = driver(group(), store, log, FakeRunner(store), writer="w2")
    driver(group(), store, log, FakeRunner(store), writer="w3")
    successors = store.begin("a/all/1_0_00000000000000000010.txt", "of w3")

    assert old.run() is ExitCode.FENCED
    assert [upload.upload_id for upload in store.open_uploads("")] == [successors]


def test_a_check_ends_a_fenced_driver_that_has_nothing_to_commit() -> None:
    store, log = MemoryStore(), FakeLog().write("a", 10)
    old = DriverThread(store, log).start()
    old.until_landed()
    successor = driver(group(), store, log, FakeRunner(store), writer="w2")
    upload = store.begin("a/all/1_0_00000000000000000010.txt", "of w2")

    old.contender.check_store(store.read)

    assert old.end() is ExitCode.FENCED
    assert (
        old.statuses[-1].message
        == f"ledger slot {successor.writer.state.seq} was taken by epoch 2, writer w2"
    )
    assert [upload.upload_id for upload in store.open_uploads("")] == [upload]


@pytest.mark.parametrize(
    ("answers", "code"), [([], ExitCode.FENCED), ([AWAY] * 20, ExitCode.UNAVAILABLE)]
)
def test_a_driver_that_meets_a_repaired_object_learns_that_it_is_fenced(
    answers: list[CallFault | LandfallError | None], code: ExitCode
) -> None:
    plan = Refusing({Operation.COMPLETE: [DENIED]})
    store, log = MemoryStore(plan), FakeLog().write("a", 10)
    assert driver(group(), store, log, FakeRunner(store)).run() is ExitCode.STALLED
    old = driver(group(), store, log, FakeRunner(store), writer="w2")
    new = driver(group(), store, log, FakeRunner(store), writer="w3")
    store.expire("a/all/1_0_00000000000000000000.txt")
    assert new.run() is ExitCode.OK
    plan.script[Operation.READ] = plan.script[Operation.LIST] = answers

    assert old.run() is code

    assert "another object is there" in old.counters.message
    plan.script.clear()
    assert landed_offsets(store) == written_offsets(log)
