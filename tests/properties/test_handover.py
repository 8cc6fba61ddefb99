"""A handover between two drivers on the in-memory store, with a kill at each of their calls.

Afterwards every offset is counted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pytest
import stamina

from landfall.api.contract import LANE, DriverPhase, ExitCode
from landfall.errors import Retry
from landfall.lane import Lane
from landfall.ledger import Open, decode
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_thread import DriverThread
from tests.support.driver.fakes import FakeLog, landed_offsets, written_offsets
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

HOLDING = {DriverPhase.RECOVERING, DriverPhase.RUNNING, DriverPhase.DRAINING}
CHANGES = {"create", "put_part", "complete", "abort"}
LISTS = {"list_after", "open_uploads"}


@pytest.fixture(autouse=True, scope="module")
def _without_pauses() -> Iterator[None]:
    """Retries do not wait."""
    with stamina.set_testing(True, attempts=1000):
        yield


class Killed(BaseException):
    """What SIGKILL is to a process: nothing catches it, and its later calls have no effect."""


@dataclass
class KillingStore:
    """A driver's store, which kills it at its n-th call.

    Attributes:
        how: ``before`` the effect, ``after`` it, or with a ``late`` effect.
    """

    store: MemoryStore
    number: int
    how: str
    calls: int = 0
    dead: bool = False
    late: list[Callable[[], object]] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    @property
    def least_part_bytes(self) -> int:
        return self.store.least_part_bytes

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object, **options: object) -> object:
            with self.lock:
                mine = self.calls
                self.calls += 1
                last = mine >= self.number
                if self.dead or (
                    last and (self.how == "before" or (self.how == "late" and name in CHANGES))
                ):
                    if not self.dead and self.how == "late":
                        self.late.append(lambda: getattr(self.store, name)(*arguments, **options))
                    self.dead = True
                    raise Killed
            answer = getattr(self.store, name)(*arguments, **options)
            if last or self.dead:
                self.dead = True
                raise Killed
            return iter(list(answer)) if name in LISTS else answer

        return call

    def deliver(self) -> None:
        """Let the late effect happen."""
        for effect in self.late:
            try:
                effect()
            except Retry:
                continue  # its caller gave up on the answer
        self.late.clear()


@dataclass
class HandOver:
    """Two revisions, restarted when they are killed, and an operator that wants the new one."""

    store: MemoryStore
    log: FakeLog
    stores: dict[str, KillingStore] = field(default_factory=dict)
    drivers: dict[str, DriverThread] = field(default_factory=dict)

    def start(self, revision: str) -> DriverThread:
        store: Any = self.stores.get(revision, self.store)
        self.drivers[revision] = DriverThread(store, self.log, revision).start()
        return self.drivers[revision]

    def restart_killed(self) -> None:
        for revision, driver in list(self.drivers.items()):
            killing = self.stores.get(revision)
            if killing and killing.dead:
                driver.contender.stop("killed")
                wait_for(lambda: self.drivers[revision].ended, "the killed one has ended")  # noqa: B023  # called at once
                del self.stores[revision]
                self.start(revision)
                killing.deliver()
            elif driver.ended:
                assert driver.code is ExitCode.FENCED, (revision, driver.code, driver.error)
                self.start(revision)

    def operate(self) -> bool:
        """One pass of an operator: whether the new driver has landed all."""
        self.restart_killed()
        old, new = self.drivers["old"], self.drivers["new"]
        if old.phase in {DriverPhase.RECOVERING, DriverPhase.RUNNING}:
            old.contender.hand_over("new")
        elif new.phase in {DriverPhase.STANDBY, DriverPhase.YIELDED} and old.phase not in HOLDING:
            new.contender.take_over()
        for driver in (old, new):
            driver.wake()
        landed = (
            {p.checkpoint == p.end_offset for p in new.statuses[-1].partitions}
            if new.statuses
            else set()
        )
        return (
            new.phase is DriverPhase.RUNNING
            and landed == {True}
            and landed_offsets(self.store) == written_offsets(self.log)
        )


def hand_over(who: str, number: int, how: str) -> tuple[HandOver, int]:
    """Play a handover in which one of the two is killed; return how many calls it made."""
    scene = HandOver(MemoryStore(), FakeLog().write("a", 25, 7).write("b", 3))
    killing = scene.stores[who] = KillingStore(scene.store, number, how)
    old = scene.start("old")
    wait_for(
        lambda: old.ended or killing.dead or landed_offsets(scene.store),
        "the old one has landed or died",
    )
    scene.start("new")
    scene.log.write("a", 31, 9)
    wait_for(scene.operate, f"{who} killed {how} call {number}, and the new one lands")
    scene.log.write("b", 5)
    wait_for(scene.operate, "the new one lands what comes")
    killing.number = 10**9  # it was never killed
    for driver in scene.drivers.values():
        driver.contender.stop("SIGTERM")
    for driver in scene.drivers.values():
        wait_for(lambda: driver.ended, "both end")  # noqa: B023  # called at once
    return scene, killing.calls


@pytest.mark.parametrize("how", ["before", "after", "late"])
@pytest.mark.parametrize("who", ["old", "new"])
def test_a_kill_at_any_call_of_a_hand_over_loses_and_repeats_nothing(who: str, how: str) -> None:
    _, calls = hand_over(who, 10**9, how)
    for number in range(calls):
        scene, _ = hand_over(who, number, how)

        case = f"{who} killed {how} call {number}"
        assert landed_offsets(scene.store) == written_offsets(scene.log), case
        assert list(scene.store.open_uploads("")) == [], case
        lane = Lane(scene.store, "fake", LANE)
        opened = [
            r.revision for seq, body in lane.bodies() if isinstance(r := decode(seq, body), Open)
        ]
        assert set(opened) <= {"old", "new"}, case
        assert opened[-1] == "new", case
