"""A hand-over between two drivers over the in-memory store, either of them killed at each call it
makes; then every offset counted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import pytest
import stamina

from landfall.api.contract import LANE, ExitCode, Phase
from landfall.errors import Retry
from landfall.lane import Lane
from landfall.ledger import Open, decode
from landfall.store.memory import MemoryStore
from tests.support.driver_thread import Player
from tests.support.fakes import FakeLog, landed_offsets, written_offsets
from tests.support.landing import wait_for

pytestmark = pytest.mark.slow

HOLDING = {Phase.RECOVERING, Phase.RUNNING, Phase.DRAINING}
CHANGES = {"create", "put_part", "complete", "abort"}
LISTS = {"list_after", "open_uploads"}


@pytest.fixture(autouse=True, scope="module")
def _impatient() -> Iterator[None]:
    """Retries without waiting."""
    with stamina.set_testing(True, attempts=1000):
        yield


class Killed(BaseException):
    """What SIGKILL is to a process: nothing catches it, and no call it makes afterwards has an
    effect.
    """


@dataclass
class Mortal:
    """A driver's way to the store, on which it dies at its n-th call: before the effect, after it,
    or with the effect to come.
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
        def call(*arguments: object) -> object:
            with self.lock:
                mine = self.calls
                self.calls += 1
                last = mine >= self.number
                if self.dead or (
                    last and (self.how == "before" or (self.how == "late" and name in CHANGES))
                ):
                    if not self.dead and self.how == "late":
                        self.late.append(lambda: getattr(self.store, name)(*arguments))
                    self.dead = True
                    raise Killed
            answer = getattr(self.store, name)(*arguments)
            if last or self.dead:
                self.dead = True
                raise Killed
            return iter(list(answer)) if name in LISTS else answer

        return call

    def deliver(self) -> None:
        """What it had sent arrives."""
        for effect in self.late:
            try:
                effect()
            except Retry:
                continue  # its caller gave up on the answer
        self.late.clear()


@dataclass
class Stage:
    """Two revisions, restarted when they die, and an operator that wants the new one to land."""

    store: MemoryStore
    log: FakeLog
    mortals: dict[str, Mortal] = field(default_factory=dict)
    players: dict[str, Player] = field(default_factory=dict)

    def enter(self, revision: str) -> Player:
        way: Any = self.mortals.get(revision, self.store)
        self.players[revision] = Player(way, self.log, revision).start()
        return self.players[revision]

    def restart_the_dead(self) -> None:
        for revision, player in list(self.players.items()):
            mortal = self.mortals.get(revision)
            if mortal and mortal.dead:
                player.turns.stop("killed")
                wait_for(lambda: self.players[revision].ended, "the dead one is gone")  # noqa: B023  # called at once
                del self.mortals[revision]
                self.enter(revision)
                mortal.deliver()
            elif player.ended:
                assert player.code is ExitCode.FENCED, (revision, player.code, player.error)
                self.enter(revision)

    def operate(self) -> bool:
        """One pass: told levels, as often as need be; whether the new one has landed all."""
        self.restart_the_dead()
        old, new = self.players["old"], self.players["new"]
        if old.phase in {Phase.RECOVERING, Phase.RUNNING}:
            old.turns.hand_over("new")
        elif new.phase in {Phase.STANDBY, Phase.YIELDED} and old.phase not in HOLDING:
            new.turns.take_over()
        for player in (old, new):
            player.look()
        landed = (
            {p.checkpoint == p.end_offset for p in new.statuses[-1].partitions}
            if new.statuses
            else set()
        )
        return (
            new.phase is Phase.RUNNING
            and landed == {True}
            and landed_offsets(self.store) == written_offsets(self.log)
        )


def played(who: str, number: int, how: str) -> tuple[Stage, int]:
    """A hand-over in which one of the two is killed; its store calls until then."""
    stage = Stage(MemoryStore(), FakeLog().write("a", 25, 7).write("b", 3))
    mortal = stage.mortals[who] = Mortal(stage.store, number, how)
    old = stage.enter("old")
    wait_for(
        lambda: old.ended or mortal.dead or landed_offsets(stage.store),
        "the old one has landed or died",
    )
    stage.enter("new")
    stage.log.write("a", 31, 9)
    wait_for(stage.operate, f"{who} killed {how} call {number}, and the new one lands")
    stage.log.write("b", 5)
    wait_for(stage.operate, "the new one lands what comes")
    mortal.number = 10**9  # it got away
    for player in stage.players.values():
        player.turns.stop("SIGTERM")
    for player in stage.players.values():
        wait_for(lambda: player.ended, "both end")  # noqa: B023  # called at once
    return stage, mortal.calls


@pytest.mark.parametrize("how", ["before", "after", "late"])
@pytest.mark.parametrize("who", ["old", "new"])
def test_a_kill_at_any_call_of_a_hand_over_loses_and_repeats_nothing(who: str, how: str) -> None:
    _, calls = played(who, 10**9, how)
    for number in range(calls):
        stage, _ = played(who, number, how)

        told = f"{who} killed {how} call {number}"
        assert landed_offsets(stage.store) == written_offsets(stage.log), told
        assert list(stage.store.open_uploads("")) == [], told
        lane = Lane(stage.store, "twin", LANE)
        opened = [
            r.revision for seq, body in lane.bodies() if isinstance(r := decode(seq, body), Open)
        ]
        assert set(opened) <= {"old", "new"}, told
        assert opened[-1] == "new", told
