"""Searches all reachable states, the nearest first, for a violation."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from tests.model.chain import COMMIT, YIELD, bits, records, union
from tests.model.rules import Harm, Rules, Scope
from tests.model.steps import Steps
from tests.model.world import ABSENT, At, Driver, Event, Left, World

NOTHING_LEFT = Left(*(0,) * len(Left._fields))
MAX_STEPS_ALONE = 100
"""Steps that a driver may take undisturbed before it counts as stuck."""


@dataclass(frozen=True)
class Counterexample:
    """A shortest way to a harm.

    Attributes:
        harm: the violation.
        steps: the events that lead to it.
        before: the state before the last event.
        after: the state after it.
    """

    harm: Harm
    steps: tuple[Event, ...]
    before: World
    after: World


@dataclass(frozen=True)
class Result:
    """What a search found.

    Attributes:
        states: number of states searched.
        chains: number of different ledgers.
        counterexample: the first harm, if there is one.
        model: what the numbers in the counterexample refer to.
    """

    states: int
    chains: int
    counterexample: Counterexample | None
    model: Steps


def search(rules: Rules, scope: Scope, harms: Collection[Harm] = tuple(Harm)) -> Result:
    """Search every reachable state for one of these harms."""
    steps = Steps(rules, scope)
    finder = HarmFinder(steps)
    begin = steps.begin
    came_from: dict[World, tuple[World, Event] | None] = {begin: None}
    ahead = deque([begin])
    while ahead:
        world = ahead.popleft()
        for event, after, harm in steps.all(world):
            if after in came_from and harm is None:
                continue
            came_from.setdefault(after, (world, event))
            found = harm if harm in harms else finder.harm(after, harms)
            if found:
                way = (*_way(came_from, world), event)
                return Result(
                    len(came_from),
                    len(steps.chains.views),
                    Counterexample(found, way, world, after),
                    steps,
                )
            if after is not world:
                ahead.append(after)
    return Result(len(came_from), len(steps.chains.views), None, steps)


def _way(came_from: dict[World, tuple[World, Event] | None], to: World) -> tuple[Event, ...]:
    way: list[Event] = []
    while (step := came_from[to]) is not None:
        to, event = step
        way.append(event)
    return tuple(reversed(way))


class HarmFinder:
    """Holds states against the invariants, and lets drivers go on alone to see how it ends."""

    def __init__(self, steps: Steps) -> None:
        self._steps, self._chains = steps, steps.chains
        self._ends: dict[World, Harm | None] = {}
        self._seen: dict[tuple[int, int, bool], list[Harm]] = {}

    def harm(self, w: World, harms: Collection[Harm]) -> Harm | None:
        """What is wrong in this state, or will be if nothing else ever goes wrong."""
        for harm in self._in_sight(w):
            if harm in harms:
                return harm
        if Harm.LOST in harms and self.alone(w, len(w.drivers)):
            return Harm.LOST
        if Harm.STUCK in harms:
            for d, me in enumerate(w.drivers):
                if self._holds(w, me) and self.alone(w, d):
                    return Harm.STUCK
        return None

    def _in_sight(self, w: World) -> list[Harm]:
        found = self._seen.get((w.tip, w.visible, w.schema))
        if found is None:
            view = self._chains.views[w.tip]
            checks = {
                Harm.TWICE: self._twice(w.visible),
                Harm.UNDECIDED: w.visible & ~view.named,
                Harm.UNAPPLIED: view.applied & ~w.visible,
                Harm.UNREADABLE: view.names_schema and not w.schema,
                Harm.REFUSED: (view.state.totals.landed, view.state.totals.lost)
                != (self._landed(w.tip), self._rows(view.given_up)),
            }
            found = [harm for harm, wrong in checks.items() if wrong]
            self._seen[w.tip, w.visible, w.schema] = found
        return found

    def _landed(self, tip: int) -> int:
        """Records that the ledger's COMMITs name, counted here."""
        slots = (self._chains.slots[number].entry for number in self._chains.views[tip].slots)
        return self._rows(union(1 << e.about for e in slots if e.kind == COMMIT))

    def _rows(self, uploads: int) -> int:
        return sum(self._chains.objects[u].rows for u in bits(uploads))

    def _twice(self, visible: int) -> bool:
        seen: set[tuple[int, int, int]] = set()
        for made in (self._chains.uploads[u].records() for u in bits(visible)):
            if made & seen:
                return True
            seen |= made
        return False

    def _holds(self, w: World, me: Driver) -> bool:
        is_yielding = me.doubt >= 0 and self._chains.slots[me.doubt].entry.kind == YIELD
        return At.OPENING < me.at < At.STOPPED and w.tip == me.view and not is_yielding

    def alone(self, w: World, d: int) -> bool:
        """Whether something stays unlanded if this driver goes on alone, with nothing going wrong
        any more.
        """
        here = self.apart(w, d)
        way = [here]
        while here not in self._ends:
            step = next(self._steps.of(here, d, calm=True), None)
            if step is None or len(way) > MAX_STEPS_ALONE:
                self._ends[here] = self.missing(here, d)
                break
            here = step[1]
            way.append(here)
        end = self._ends[here]
        self._ends.update(dict.fromkeys(way, end))
        return end is not None

    def way_alone(self, w: World, d: int) -> tuple[tuple[Event, ...], World]:
        """How it goes if this driver goes on alone."""
        here = self.apart(w, d)
        way: list[Event] = []
        while len(way) < MAX_STEPS_ALONE and (
            step := next(self._steps.of(here, d, calm=True), None)
        ):
            here = step[1]
            way.append(step[0])
        return tuple(way), here

    def apart(self, w: World, d: int) -> World:
        """This driver, or a new one, and nobody else, with no call under way."""
        me = w.drivers[d] if d < len(w.drivers) else ABSENT
        return World(
            w.tip,
            w.torn,
            w.open,
            w.visible,
            (),
            (*(ABSENT,) * d, me),
            NOTHING_LEFT,
            w.log_start,
            w.incarnation,
            w.again,
            w.killed,
            w.cut,
            w.schema,
        )

    def missing(self, w: World, d: int) -> Harm | None:
        """Whether a record of the topic as it is now is in no visible object, though this driver
        may land it and nobody decided otherwise; or one was given up that nothing had taken.
        """
        scope, view = self._steps.scope, self._chains.views[w.tip]
        if view.given_up & ~w.killed:
            return Harm.LOST
        if not self.unlanded(w):
            return None
        must_wait = scope.recreated and self._steps.must_wait(w.drivers[d], w.incarnation)
        return None if must_wait else Harm.LOST

    def unlanded(self, w: World) -> list[int]:
        """Offsets of the topic as it is now in no visible object, without what was decided."""
        view = self._chains.views[w.tip]
        excused = {o for u in bits(view.given_up & w.killed) for o in self._offsets(u)}
        excused |= {*bits(view.not_landed)}
        if w.cut >= 0 and view.state.excluded:
            excused |= {*range(w.cut, self._steps.scope.records)}
        landed = {r for u in bits(w.visible) for r in self._chains.uploads[u].records()}
        log = records(w.incarnation, w.cut, range(self._steps.scope.records))
        return sorted({offset for _, _, offset in log - landed} - excused)

    def _offsets(self, u: int) -> range:
        return range(self._chains.uploads[u].start, self._chains.uploads[u].end)
