"""Steps that append a record to the ledger, and what a driver concludes from the response."""

from collections.abc import Iterator

from landfall import ledger
from landfall.errors import Stalled
from landfall.ledger import LaneOwnership
from tests.model.bucket import Bucket
from tests.model.chain import OPEN, TP, Chains, Entry, Slot, bits
from tests.model.rules import Harm, Rules, Scope, Taken
from tests.model.world import CREATE, STOPPED, At, Call, Driver, Event, Step, World


class Appending:
    """Appends under these rules, in a world of this size."""

    def __init__(self, rules: Rules, scope: Scope) -> None:
        self.rules, self.scope = rules, scope
        self.chains = Chains(rules, scope)
        self.store = Bucket(self.chains, rules)
        self._applied: dict[tuple[int, int, int], int] = {}

    def _may_open(self, w: World, d: int) -> bool:
        revision = self._revision(d)
        return not revision or self.chains.views[w.tip].state.can_open(revision)

    def _revision(self, d: int) -> str:
        return self.scope.revisions[d] if d < len(self.scope.revisions) else ""

    def _generation(self, d: int) -> int:
        generations = self.scope.generations
        return (
            generations[d]
            if d < len(generations)
            else max(generations) + bool(self.scope.recreated)
        )

    def _append(
        self, w: World, d: int, me: Driver, kind: str, about: int, calm: bool
    ) -> Iterator[Step]:
        view = self.chains.views[me.view]
        writer = f"D{d + 1}"
        if kind != OPEN and not self.rules.stops_when_fenced:
            writer = view.state.writer
        if kind == OPEN:
            entry = Entry(writer, kind, generation=self._generation(d), revision=self._revision(d))
        else:
            entry = Entry(writer, kind, about, self._applied_through(d, me))
        try:
            slot = self.chains.slot(me.view, entry)
        except Stalled:
            yield (
                Event(d, f"makes a {kind} that cannot follow, and stops"),
                with_driver(w, d, STOPPED),
                Harm.REFUSED,
            )
            return
        yield from self._send(w, d, me, slot, calm)

    def _applied_through(self, d: int, me: Driver) -> int:
        known = self._applied.get((d, me.view, me.waiting))
        if known is None:
            view, rules = self.chains.views[me.view], self.rules
            waiting = (
                {self.chains.due_under(view, u) for u in bits(me.waiting)}
                if rules.verifies_before_applied
                else set()
            )
            handed_in = [
                seq
                for seq, uploads in view.commits.items()
                if (rules.recovers_before_planning and rules.stops_when_fenced)
                or all(self.chains.uploads[u].writer == d for u in bits(uploads))
            ]
            known = ledger.applied_through(waiting, max(handed_in, default=-1))
            self._applied[d, me.view, me.waiting] = known
        return known

    def _send(self, w: World, d: int, me: Driver, slot: Slot, calm: bool) -> Iterator[Step]:
        won, after = self.store.create(w, slot)
        is_mine = won or slot.number in {*self.chains.views[w.tip].slots, *w.again}
        believes = {Taken.COMPARES: is_mine, Taken.IS_FENCED: won, Taken.HAS_WON: True}[
            self.rules.on_taken
        ]
        yield (
            self._appended(after, d, me, slot, won) if believes else self._lost_slot(w, d, me, slot)
        )
        if calm or not won:
            return
        in_doubt = me._replace(doubt=slot.number)
        if w.left.unanswered:
            left = w.left._replace(unanswered=w.left.unanswered - 1)
            yield (
                Event(d, "gets no response after appending", slot=slot.number),
                with_driver(after, d, in_doubt)._replace(left=left),
                None,
            )
        if w.left.late:
            late = late_call(w, Call(CREATE, slot.number))
            yield (
                Event(d, "gets no response; not yet at the store is", slot=slot.number),
                with_driver(late, d, in_doubt),
                None,
            )

    def _appended(self, w: World, d: int, me: Driver, slot: Slot, won: bool) -> Step:
        kind, about = slot.entry.kind, slot.entry.about
        event = Event(d, "appends" if won else "finds its own record:", slot=slot.number)
        me = me._replace(view=slot.after, doubt=-1)
        match kind:
            case "OPEN" if me.at > At.OPENING:
                pass  # it sealed its own epoch
            case "OPEN":
                waiting = (
                    self.chains.views[slot.after].unapplied
                    if self.rules.recovers_before_planning
                    else 0
                )
                me = me._replace(at=At.RECOVERING, waiting=waiting)
            case "COMMIT":
                me = me._replace(
                    batch=-1, waiting=me.waiting | (1 << about if self.rules.commits_first else 0)
                )
            case "REPAIR":
                me = self._repaired(me, about)
            case "LOST" | "BLOCK":
                view = self.chains.views[slot.after]
                gone = view.given_up | view.missing
                me = me._replace(waiting=me.waiting & ~gone, lost=me.lost & ~gone)
            case "YIELD":
                me = STOPPED
        return event, with_driver(w, d, me), None

    def _lost_slot(self, w: World, d: int, me: Driver, slot: Slot) -> Step:
        if slot.entry.kind == OPEN and me.at <= At.OPENING:
            me = me._replace(
                doubt=-1, view=w.tip, at=At.OPENING if self._may_open(w, d) else At.WAITING
            )
            return (
                Event(d, "loses the slot and reads the ledger again; it tried", slot=slot.number),
                with_driver(w, d, me),
                None,
            )
        if (
            self.rules.stops_when_fenced
            or self.chains.views[w.tip].state.holding is LaneOwnership.YIELDED
        ):
            gone, harm = self.store.abort(
                with_driver(w, d, STOPPED), 1 << me.batch if me.batch >= 0 else 0
            )
            return (
                Event(d, "is fenced, aborts its uploads and stops; it tried", slot=slot.number),
                gone,
                harm,
            )
        me = me._replace(doubt=-1, view=w.tip)
        checkpoint = self.chains.views[w.tip].state.checkpoint
        if me.batch >= 0 and self.chains.uploads[me.batch].start != checkpoint[TP]:
            me = me._replace(batch=-1)
        return (
            Event(d, "is fenced, reads the ledger and continues; it tried", slot=slot.number),
            with_driver(w, d, me),
            None,
        )

    def _repaired(self, me: Driver, fresh: int) -> Driver:
        lost = 1 << self.chains.uploads[fresh].instead
        return me._replace(fresh=-1, lost=me.lost & ~lost, waiting=me.waiting & ~lost | 1 << fresh)


def union_of(*uploads: int) -> int:
    """These uploads as a set of bits; negative ones are none."""
    members = 0
    for u in uploads:
        if u >= 0:
            members |= 1 << u
    return members


def with_driver(w: World, d: int, me: Driver) -> World:
    return w._replace(drivers=(*w.drivers[:d], me, *w.drivers[d + 1 :]))


def late_call(w: World, call: Call) -> World:
    return w._replace(
        late=tuple(sorted({*w.late, call})), left=w.left._replace(late=w.left.late - 1)
    )
