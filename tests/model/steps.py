"""Every step that leads from one state of the checker to the next.

A step is one call of one driver with its answer, or one thing that the world does to them. All
orders of all steps are looked at, so a driver that is killed needs no step: it just never steps
again; a zombie is one that does so later. What is decided comes from the product's pure functions:
what may follow what, checkpoints and counters (``ledger.fold``), names (``layout``), what is
applied (``ledger.applied_through``), what a completion came to (``store.ensure.settle``), and which
topic partitions enter and leave (``app.membership``).
"""

from collections.abc import Iterator

from landfall import ledger
from landfall.driver.decide import membership
from landfall.errors import Stalled
from landfall.ledger import LaneOwnership
from landfall.source import Topic
from tests.model.bucket import Bucket, fates
from tests.model.chain import (
    ADD,
    COMMIT,
    DROP,
    OPEN,
    REPAIR,
    TP,
    YIELD,
    Chains,
    Entry,
    Made,
    Slot,
    bits,
)
from tests.model.rules import Gone, Harm, Rules, Scope, Taken
from tests.model.world import (
    ABSENT,
    COMPLETE,
    CREATE,
    OUT,
    At,
    Call,
    Driver,
    Left,
    Step,
    Told,
    World,
)

NEVER = -1


class Steps:
    """The protocol under these rules, in a world of this size."""

    def __init__(self, rules: Rules, scope: Scope) -> None:
        self.rules, self.scope = rules, scope
        self.chains = Chains(
            scope.revisions[:1], remembers_names=rules.leaves_names_to_former_lives
        )
        self.store = Bucket(self.chains, rules)
        self._applied: dict[tuple[int, int, int], int] = {}

    @property
    def begin(self) -> World:
        """Nobody is there yet; the ledger has let the topic partition in."""
        s = self.scope
        deleted = 0 if self.rules.keeps_slots else 1
        left = Left(
            s.unanswered,
            s.late,
            s.killed,
            s.expired,
            s.sweeps,
            s.yields,
            s.orders,
            s.ends,
            s.recreated,
            deleted,
        )
        return World(self.chains.founded, 0, 0, 0, (), (ABSENT,) * len(s.generations), left)

    def all(self, w: World) -> Iterator[Step]:
        """Every step from a state."""
        for d in range(len(w.drivers)):
            yield from self.of(w, d)
        yield from fates(w, self.store)

    def of(self, w: World, d: int, *, calm: bool = False) -> Iterator[Step]:
        """A driver's steps; ``calm`` ones are those where nothing goes wrong and nobody asks for
        anything.
        """
        me = w.drivers[d]
        if me.at == At.OUT:
            return
        if me.at <= At.WAITING:
            yield from self._start(w, d, me, calm)
            return
        for u in bits(me.waiting & ~me.lost):
            yield from self._complete(w, d, me, u, calm)
        if me.doubt >= 0:
            yield from self._send(w, d, me, self.chains.slots[me.doubt], calm)
        else:
            yield from self._next(w, d, me, calm)
        if not calm and w.left.ends:
            yield self._end(w, d, me)

    # ------------------------------------------------------------------------------ taking the lane

    def _start(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        in_order = self.scope.revisions or not d or w.drivers[d - 1].at != At.ABSENT
        if not in_order and not calm:
            return  # drivers that are alike start in one order only
        opening = me._replace(at=At.OPENING, view=w.tip, seen=NEVER if self.scope.recreated else 0)
        if self._may_open(w, d):
            yield Told(d, "starts"), _with(w, d, opening), None
        elif w.left.orders and not calm:
            left = w.left._replace(orders=w.left.orders - 1)
            yield Told(d, "is told to take over"), _with(w, d, opening)._replace(left=left), None

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

    # ------------------------------------------------------------------------------ what comes next

    def _next(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if me.at == At.OPENING:
            yield from self._append(w, d, me, OPEN, -1, calm)
        elif me.at == At.SWEEPING:
            yield self._sweep(w, d, me)
        elif me.at == At.ABORTING:
            yield self._abort_listed(w, d, me)
        elif me.fresh >= 0:
            yield from self._declare(w, d, me, calm)
        elif me.lost:
            yield self._remake(w, d, me)
        elif me.at == At.RECOVERING:
            if not me.waiting:
                yield self._list(w, d, me)
        else:
            yield from self._land(w, d, me, calm)

    def _land(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if self.scope.recreated and me.seen != w.life:
            yield Told(d, "looks at the topic"), _with(w, d, me._replace(seen=w.life)), None
        if me.flight >= 0:
            yield from self._commit(w, d, me, calm)
        elif me.seen != NEVER:
            yield from self._plan(w, d, me, calm)
        if calm:
            return
        if w.left.yields and me.flight < 0:
            asked = w._replace(left=w.left._replace(yields=w.left.yields - 1))
            yield from self._append(asked, d, me, YIELD, -1, calm)
        if w.left.sweeps:
            yield self._list(w._replace(left=w.left._replace(sweeps=w.left.sweeps - 1)), d, me)

    def _plan(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        state = self.chains.views[me.view].state
        if self.scope.recreated:
            topic = Topic(TP.topic, f"life-{me.seen}", 1)
            changes = membership.changes(state, [topic])
            if self.must_wait(me, me.seen):
                return
            recreated = changes.recreated and not self.rules.leaves_names_to_former_lives
            if changes.leave or recreated:
                yield from self._append(w, d, me, DROP, -1, calm)
                return
            if changes.enter:
                yield from self._append(w, d, me, ADD, me.seen, calm)
                return
        start = state.checkpoint[TP]
        unapplied = {self.chains.commit_of(self.chains.views[me.view], u) for u in bits(me.waiting)}
        if len(unapplied) >= self.scope.rounds:
            return
        least = start if self.scope.cuts and not calm else self.scope.records - 1
        for end in range(self.scope.records, max(least, start), -1):
            flight = self.chains.upload(Made(d, start, end, self._generation(d), w.life))
            uploaded = _with(w, d, me._replace(flight=flight))
            yield Told(d, "uploads", flight), uploaded._replace(open=w.open | 1 << flight), None

    def must_wait(self, me: Driver, life: int) -> bool:
        """Whether the topic was recreated and only a higher generation than this driver's may land
        it.
        """
        state = self.chains.views[me.view].state
        changes = membership.changes(state, [Topic(TP.topic, f"life-{life}", 1)])
        recreated = bool(changes.recreated) or state.generation <= state.retired.get(TP, -1)
        return recreated and self.rules.leaves_names_to_former_lives

    def _commit(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if not self.rules.commits_first and not w.visible >> me.flight & 1:
            yield from self._complete(w, d, me, me.flight, calm)
            return
        if self.scope.recreated and self.rules.asks_for_the_topic_id:
            state = self.chains.views[me.view].state
            if membership.recreated_topics(state, [TP], {TP.topic: f"life-{w.life}"}):
                gone = _with(w, d, me._replace(flight=-1, seen=w.life))
                yield (
                    Told(d, "sees that the topic was recreated and gives up", me.flight),
                    *self.store.abort(gone, 1 << me.flight),
                )
                return
        yield from self._append(w, d, me, COMMIT, me.flight, calm)

    # ------------------------------------------------------------------------------------ appending

    def _append(
        self, w: World, d: int, me: Driver, kind: str, about: int, calm: bool
    ) -> Iterator[Step]:
        view = self.chains.views[me.view]
        writer = f"D{d + 1}"
        if kind != OPEN and not self.rules.heeds_the_fence:
            writer = view.state.writer
        if kind == OPEN:
            entry = Entry(writer, kind, generation=self._generation(d), revision=self._revision(d))
        else:
            entry = Entry(writer, kind, about, self._applied_through(d, me))
        try:
            slot = self.chains.slot(me.view, entry)
        except Stalled:
            yield (
                Told(d, f"makes a {kind} that cannot follow and stops"),
                _with(w, d, OUT),
                Harm.REFUSED,
            )
            return
        yield from self._send(w, d, me, slot, calm)

    def _applied_through(self, d: int, me: Driver) -> int:
        known = self._applied.get((d, me.view, me.waiting))
        if known is None:
            view, rules = self.chains.views[me.view], self.rules
            waiting = (
                {self.chains.commit_of(view, u) for u in bits(me.waiting)}
                if rules.counts_what_is_verified
                else set()
            )
            handed_in = [
                seq
                for seq, uploads in view.commits.items()
                if (rules.recovers_before_planning and rules.heeds_the_fence)
                or all(self.chains.uploads[u].writer == d for u in bits(uploads))
            ]
            known = ledger.applied_through(waiting, max(handed_in, default=-1))
            self._applied[d, me.view, me.waiting] = known
        return known

    def _send(self, w: World, d: int, me: Driver, slot: Slot, calm: bool) -> Iterator[Step]:
        won, after = self.store.create(w, slot)
        is_mine = won or slot.number in self.chains.views[w.tip].slots
        believes = {Taken.COMPARES: is_mine, Taken.IS_FENCED: won, Taken.HAS_WON: True}[
            self.rules.on_taken
        ]
        yield self._won(after, d, me, slot, won) if believes else self._beaten(w, d, me, slot)
        if calm or not won:
            return
        in_doubt = me._replace(doubt=slot.number)
        if w.left.unanswered:
            left = w.left._replace(unanswered=w.left.unanswered - 1)
            yield (
                Told(d, "gets no answer to its", slot=slot.number),
                _with(after, d, in_doubt)._replace(left=left),
                None,
            )
        if w.left.late:
            late = _late(w, Call(CREATE, slot.number))
            yield (
                Told(d, "gets no answer, and still under way is the", slot=slot.number),
                _with(late, d, in_doubt),
                None,
            )

    def _won(self, w: World, d: int, me: Driver, slot: Slot, won: bool) -> Step:
        kind, about = slot.entry.kind, slot.entry.about
        told = Told(d, "appends" if won else "finds that it appended", slot=slot.number)
        me = me._replace(view=slot.after, doubt=-1)
        match kind:
            case "OPEN":
                waiting = (
                    self.chains.views[slot.after].unapplied
                    if self.rules.recovers_before_planning
                    else 0
                )
                me = me._replace(at=At.RECOVERING, waiting=waiting)
            case "COMMIT":
                me = me._replace(
                    flight=-1, waiting=me.waiting | (1 << about if self.rules.commits_first else 0)
                )
            case "REPAIR":
                me = self._repaired(me, about)
            case "YIELD":
                me = OUT
        return told, _with(w, d, me), None

    def _beaten(self, w: World, d: int, me: Driver, slot: Slot) -> Step:
        if slot.entry.kind == OPEN:
            me = me._replace(
                doubt=-1, view=w.tip, at=At.OPENING if self._may_open(w, d) else At.WAITING
            )
            return (
                Told(d, "is too late, and reads again, for", slot=slot.number),
                _with(w, d, me),
                None,
            )
        if (
            self.rules.heeds_the_fence
            or self.chains.views[w.tip].state.holding is LaneOwnership.YIELDED
        ):
            gone, harm = self.store.abort(_with(w, d, OUT), 1 << me.flight if me.flight >= 0 else 0)
            return (
                Told(d, "is fenced, gives its round up and stops, trying", slot=slot.number),
                gone,
                harm,
            )
        me = me._replace(doubt=-1, view=w.tip)
        checkpoint = self.chains.views[w.tip].state.checkpoint
        if me.flight >= 0 and self.chains.uploads[me.flight].start != checkpoint[TP]:
            me = me._replace(flight=-1)
        return (
            Told(d, "is fenced, reads on and stays, trying", slot=slot.number),
            _with(w, d, me),
            None,
        )

    # --------------------------------------------------------------------- completing and repairing

    def _complete(self, w: World, d: int, me: Driver, u: int, calm: bool) -> Iterator[Step]:
        is_open = bool(w.open >> u & 1)
        if is_open and not self.rules.completes_whatever_is_there and Call(COMPLETE, u) in w.late:
            # What AWS says of two that complete with a condition: 409, and the upload must be made
            # again.
            told = Told(d, "completes at the same time, both get 409, and gone is", u)
            yield told, w._replace(open=w.open & ~(1 << u), late=()), None
        after, harm = self.store.completed(w, u)
        believes = self.rules.on_gone
        if is_open or believes is Gone.LOOKS:
            outcome = self.store.settled(after, u)
        else:
            outcome = "completes" if believes is Gone.IS_DONE else "finds lost"
        yield self._learned(after, d, me, u, outcome, harm)
        if calm or after is w:
            return
        if w.left.unanswered:
            left = w.left._replace(unanswered=w.left.unanswered - 1)
            yield Told(d, "gets no answer to the completion of", u), after._replace(left=left), harm
        if w.left.late and Call(COMPLETE, u) not in w.late:
            yield (
                Told(d, "gets no answer, and still under way is the completion of", u),
                _late(w, Call(COMPLETE, u)),
                None,
            )

    def _learned(
        self, w: World, d: int, me: Driver, u: int, outcome: str, harm: Harm | None
    ) -> Step:
        if outcome == "completes":
            me = me._replace(waiting=me.waiting & ~(1 << u))
        elif outcome == "finds lost":
            me = me._replace(lost=me.lost | 1 << u)
        elif outcome != "cannot complete yet":
            if w.tip != me.view:
                outcome = "finds another's object, sees that it is fenced, and stops, completing"
            me, harm = OUT, harm or (Harm.FOREIGN if w.tip == me.view else None)
        return Told(d, outcome, u), _with(w, d, me), harm

    def _remake(self, w: World, d: int, me: Driver) -> Step:
        lost = bits(me.lost)[0]
        was = self.chains.uploads[lost]
        if was.start < w.log_start or was.life != w.life:
            return (
                Told(d, "cannot make again, for the log has it no more, and stalls:", lost),
                _with(w, d, OUT),
                None,
            )
        fresh = self.chains.upload(Made(d, was.start, was.end, was.generation, was.life, lost))
        made = _with(w, d, me._replace(fresh=fresh))
        return Told(d, "uploads", fresh), made._replace(open=w.open | 1 << fresh), None

    def _declare(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if self.rules.records_repairs:
            yield from self._append(w, d, me, REPAIR, me.fresh, calm)
        else:
            yield (
                Told(d, "takes, and tells nobody,", me.fresh),
                _with(w, d, self._repaired(me, me.fresh)),
                None,
            )

    def _repaired(self, me: Driver, fresh: int) -> Driver:
        lost = 1 << self.chains.uploads[fresh].instead
        return me._replace(fresh=-1, lost=me.lost & ~lost, waiting=me.waiting & ~lost | 1 << fresh)

    # ------------------------------------------------------------------------------------- sweeping

    def _list(self, w: World, d: int, me: Driver) -> Step:
        own = union_of(me.flight, me.fresh) | (
            me.waiting if self.rules.spares_decided_uploads else 0
        )
        listed = w.open & ~own
        me = me._replace(at=At.SWEEPING if listed else At.LANDING, listed=listed)
        told = (
            Told(d, "lists to sweep", uploads=listed)
            if listed
            else Told(d, "finds nothing to sweep")
        )
        return told, _with(w, d, me), None

    def _sweep(self, w: World, d: int, me: Driver) -> Step:
        if not self.rules.sweeps_as_owner_only:
            return self._abort_listed(w, d, me)
        if w.tip == me.view:
            return (
                Told(d, "sees that it still has the lane"),
                _with(w, d, me._replace(at=At.ABORTING)),
                None,
            )
        return (
            Told(d, "sees that it is fenced: no sweep"),
            _with(w, d, me._replace(at=At.LANDING, listed=0)),
            None,
        )

    def _abort_listed(self, w: World, d: int, me: Driver) -> Step:
        swept = _with(w, d, me._replace(at=At.LANDING, listed=0))
        return Told(d, "aborts", uploads=me.listed), *self.store.abort(swept, me.listed)

    def _end(self, w: World, d: int, me: Driver) -> Step:
        left = w.left._replace(ends=w.left.ends - 1)
        spared = me.doubt >= 0 and self.rules.keeps_what_is_in_doubt
        gone, harm = self.store.abort(_with(w, d, OUT), 0 if spared else union_of(me.flight))
        given_up = -1 if spared else me.flight
        told = Told(
            d,
            "is refused by the store for another reason and ends" + ", giving up" * (given_up >= 0),
            given_up,
        )
        return told, gone._replace(left=left), harm


def union_of(*uploads: int) -> int:
    """These uploads as a set of bits; negative ones are none."""
    members = 0
    for u in uploads:
        if u >= 0:
            members |= 1 << u
    return members


def _with(w: World, d: int, me: Driver) -> World:
    return w._replace(drivers=(*w.drivers[:d], me, *w.drivers[d + 1 :]))


def _late(w: World, call: Call) -> World:
    return w._replace(
        late=tuple(sorted({*w.late, call})), left=w.left._replace(late=w.left.late - 1)
    )
