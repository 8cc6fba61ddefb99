"""The real loop on the in-memory store, killed at every call that it makes.

Afterwards a successor runs, and every offset is counted.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest
import stamina
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.contract import ExitCode
from landfall.driver.process.loop import Driver
from landfall.store.memory import Call, CallFault, MemoryStore, Operation, Random
from tests.support.driver.driver_mutants import CompletesFirst, PlansBeforeRecovery
from tests.support.driver.fakes import (
    FakeLog,
    FakeRunner,
    driver,
    group,
    landed_offsets,
    written_offsets,
)


@pytest.fixture(autouse=True, scope="module")
def _without_pauses() -> Iterator[None]:
    """Retries do not wait."""
    with stamina.set_testing(True, attempts=1000):
        yield


class Killed(BaseException):
    """What SIGKILL is to a process: nothing catches it, and its later calls have no effect."""


@dataclass
class KillAt:
    """Kills the driver at its n-th call of the store.

    Attributes:
        how: ``before`` the effect, ``after`` it, or with the effect delivered ``late``.
    """

    number: int
    how: str
    dead: bool = False

    def before(self, call: Call) -> CallFault | None:
        if self.dead or (call.number >= self.number and self.how == "before"):
            self.dead = True
            raise Killed
        return (
            CallFault.LATE
            if call.number == self.number and self.how == "late" and changes(call)
            else None
        )

    def after(self, call: Call) -> None:
        if self.dead or call.number >= self.number:
            self.dead = True
            raise Killed


def changes(call: Call) -> bool:
    return call.operation in {
        Operation.CREATE,
        Operation.COMPLETE,
        Operation.PUT_PART,
        Operation.ABORT,
    }


class Replaceable:
    """No faults, until a test sets a plan."""

    def __init__(self) -> None:
        self.plan: KillAt | Random | None = None

    def before(self, call: Call) -> CallFault | None:
        return self.plan.before(call) if self.plan else None

    def after(self, call: Call) -> None:
        if self.plan:
            self.plan.after(call)


def log() -> FakeLog:
    return FakeLog().write("a", 25, 7).write("b", 3)


def opened(kind: type[Driver], store: MemoryStore, of: FakeLog, writer: str) -> Driver:
    """A driver of this kind that owns the lane."""
    one = driver(group(), store, of, FakeRunner(store), writer=writer)
    return kind(one.group, one.writer, one.deps, one.report, one.until_caught_up)


def run(kind: type[Driver], store: MemoryStore, of: FakeLog, writer: str) -> ExitCode:
    return opened(kind, store, of, writer).run()


def calls_without_a_kill() -> int:
    store = MemoryStore()
    run(Driver, store, log(), "w")
    return sum(store.requests.values())


def killed_then_continued(kind: type[Driver], number: int, how: str) -> tuple[MemoryStore, FakeLog]:
    """Kill one driver, let another land more after it, and one more after that."""
    plan, of = Replaceable(), log()
    store = MemoryStore(plan)
    plan.plan = KillAt(number, how)
    with suppress(Killed):
        run(kind, store, of, "w1")
    plan.plan = None
    of.write("a", 31, 9)  # the successor sees other ends, so it cuts elsewhere
    successor = opened(kind, store, of, "w2")
    store.deliver()  # what the killed driver had sent arrives after the successor's OPEN
    assert successor.run() is ExitCode.OK
    assert run(kind, store, of.write("b", 5), "w3") is ExitCode.OK
    return store, of


@pytest.mark.parametrize("how", ["before", "after", "late"])
def test_a_kill_at_any_call_loses_and_repeats_nothing(how: str) -> None:
    for number in range(calls_without_a_kill() + 1):
        store, of = killed_then_continued(Driver, number, how)

        assert landed_offsets(store) == written_offsets(of), f"killed {how} call {number}"
        assert list(store.open_uploads("")) == [], f"killed {how} call {number}"


@given(seed=st.integers(0, 2**32), rate=st.floats(0, 0.3), repeats=st.booleans())
def test_a_store_that_lies_loses_and_repeats_nothing(seed: int, rate: float, repeats: bool) -> None:
    plan, of = Replaceable(), log()
    store = MemoryStore(plan, repeat_completes=repeats)
    one = driver(group(), store, of, FakeRunner(store), writer="w1")
    plan.plan = Random(seed, rate)

    code = one.run()
    plan.plan = None
    store.deliver()
    run(Driver, store, of.write("a", 31, 9), "w2")

    assert code in {ExitCode.OK, ExitCode.FENCED, ExitCode.UNAVAILABLE}
    assert landed_offsets(store) == written_offsets(of)


@pytest.mark.parametrize("broken", [CompletesFirst, PlansBeforeRecovery])
def test_each_rule_is_needed(broken: type[Driver]) -> None:
    wrong = []
    for number in range(calls_without_a_kill() + 1):
        store, of = killed_then_continued(broken, number, "after")
        if landed_offsets(store) != written_offsets(of):
            wrong.append(number)

    assert wrong, f"{broken.__name__} lands exactly once as well: the rule is not needed"
