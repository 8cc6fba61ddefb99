"""Every step that leads from one state of the checker to the next.

A step is one call of one driver with its response, or one event in the world outside. All orders of
all steps are searched. A driver that is killed therefore needs no step of its own: it just never
steps again; a zombie is one that does so later. What a driver decides comes from the product's pure
functions: what may follow what, checkpoints and counters (``ledger.fold``), names
(``ledger.names.object_names``), what is applied (``ledger.applied_through``), what a completion has
achieved (``objects.check_completed``), which topic partitions enter and leave
(``source.membership``), and what a person's decision records (``driver.decide.requests``).
"""

from collections.abc import Iterator

from landfall.source import FoundTopics, Topic, membership
from tests.model.appending import late_call, union_of, with_driver
from tests.model.bucket import world_events
from tests.model.chain import (
    ADD,
    APPLIED,
    BLOCK_TRUNCATED,
    COMMIT,
    DROP,
    OPEN,
    TP,
    YIELD,
    Made,
    bits,
)
from tests.model.deciding import Deciding
from tests.model.world import ABSENT, STOPPED, STORE, At, Call, Driver, Event, Left, Step, World

NEVER = -1


class Steps(Deciding):
    """All steps of the protocol."""

    @property
    def begin(self) -> World:
        """Nobody is there yet; the ledger has let the topic partition in."""
        s = self.scope
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
            s.seals,
            s.deleted,
            s.truncated,
            s.restored,
            s.decisions,
            s.applies,
        )
        return World(self.chains.founded, 0, 0, 0, (), (ABSENT,) * len(s.generations), left)

    def all(self, w: World) -> Iterator[Step]:
        """Every step from a state."""
        for d in range(len(w.drivers)):
            yield from self.of(w, d)
        yield from world_events(w, self.store)

    def of(self, w: World, d: int, *, calm: bool = False) -> Iterator[Step]:
        """A driver's steps; ``calm`` ones are those where nothing goes wrong and nobody asks for
        anything.
        """
        me = w.drivers[d]
        if me.at == At.STOPPED:
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
        if not calm and w.left.decisions and me.at > At.OPENING and me.doubt < 0:
            yield from self._ask_a_person(w, d, me)
        if not calm and w.left.ends:
            yield self._end(w, d, me)

    # ------------------------------------------------------------------------------ taking the lane

    def _start(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        in_order = self.scope.revisions or not d or w.drivers[d - 1].at != At.ABSENT
        if not in_order and not calm:
            return  # drivers that are alike start in one order only
        opening = me._replace(at=At.OPENING, view=w.tip, seen=NEVER if self.scope.recreated else 0)
        if self._may_open(w, d):
            yield Event(d, "starts"), with_driver(w, d, opening), None
        elif w.left.orders and not calm:
            left = w.left._replace(orders=w.left.orders - 1)
            yield (
                Event(d, "is ordered to take the lane over"),
                with_driver(w, d, opening)._replace(left=left),
                None,
            )

    # -------------------------------------------------------------------------------- what is next

    def _next(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if me.at == At.OPENING:
            yield from self._append(w, d, me, OPEN, -1, calm)
        elif me.at == At.SWEEPING:
            yield self._check_ownership(w, d, me)
        elif me.at == At.ABORTING:
            yield self._abort_listed(w, d, me)
        elif me.fresh >= 0:
            yield from self._record_repair(w, d, me, calm)
        elif self._to_make_again(me):
            yield from self._make_again(w, d, me, calm)
        elif me.at == At.RECOVERING:
            if not me.waiting:
                yield self._list(w, d, me)
        else:
            yield from self._land(w, d, me, calm)

    def _land(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if self.scope.recreated and me.seen != w.incarnation:
            yield (
                Event(d, "looks up the topic's id"),
                with_driver(w, d, me._replace(seen=w.incarnation)),
                None,
            )
        yield from self._advance(w, d, me, calm)
        if calm:
            return
        if w.left.yields and me.batch < 0:
            asked = w._replace(left=w.left._replace(yields=w.left.yields - 1))
            yield from self._append(asked, d, me, YIELD, -1, calm)
        if w.left.applies and self._applied_through(d, me) > self._recorded(me):
            asked = w._replace(left=w.left._replace(applies=w.left.applies - 1))
            yield from self._append(asked, d, me, APPLIED, -1, calm)
        if w.left.seals:
            sealed = w._replace(left=w.left._replace(seals=w.left.seals - 1))
            yield from self._append(sealed, d, me, OPEN, -1, calm)
        if not self.rules.keeps_schemas and w.schema:
            yield from self._delete_schema(w, d, me)
        if w.left.sweeps:
            yield self._list(w._replace(left=w.left._replace(sweeps=w.left.sweeps - 1)), d, me)

    def _recorded(self, me: Driver) -> int:
        return self.chains.views[me.view].state.applied_through

    def _advance(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if self._must_drop_batch(me):
            yield self._drop_batch(w, d, me)
        elif calm and self._is_blocked(me):
            yield from self._resolve(w, d, me)
        elif me.batch >= 0:
            yield from self._commit(w, d, me, calm)
        elif self._is_truncated(w, me):
            yield from self._append(w, d, me, BLOCK_TRUNCATED, w.cut, calm)
        elif me.seen != NEVER and not self._is_held(me):
            yield from self._plan(w, d, me, calm)

    def _plan(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        state = self.chains.views[me.view].state
        if self.scope.recreated:
            topic = Topic(TP.topic, f"incarnation-{me.seen}", 1)
            changes = membership.changes(state, [topic])
            if self.must_wait(me, me.seen):
                return
            recreated = changes.recreated and not self.rules.never_reuses_names
            if changes.leave or recreated:
                yield from self._append(w, d, me, DROP, -1, calm)
                return
            if changes.enter:
                yield from self._append(w, d, me, ADD, me.seen, calm)
                return
        start = state.checkpoint[TP]
        unapplied = {self.chains.due_under(self.chains.views[me.view], u) for u in bits(me.waiting)}
        if len(unapplied) >= self.scope.batches:
            return
        if self.scope.schemas and self.rules.stores_schemas_first and not me.stored:
            yield from self._store_schema(w, d, me, calm)
            return
        least = start if self.scope.cuts and not calm else self.scope.records - 1
        for end in range(self.scope.records, max(least, start), -1):
            batch = self.chains.upload(
                Made(d, start, end, self._generation(d), w.incarnation, cut=w.cut)
            )
            uploaded = with_driver(w, d, me._replace(batch=batch))
            yield Event(d, "uploads", batch), uploaded._replace(open=w.open | 1 << batch), None

    def _store_schema(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        """A task stores the schema of the payloads, if it is not there."""
        stored = with_driver(w, d, me._replace(stored=True))._replace(schema=True)
        yield Event(d, "stores the schema of the payloads"), stored, None
        if calm:
            return
        if w.left.unanswered:
            left = w.left._replace(unanswered=w.left.unanswered - 1)
            event = Event(d, "gets no response after storing the schema, and tries again")
            yield event, w._replace(schema=True, left=left), None
        if w.left.late and Call(STORE, 0) not in w.late:
            event = Event(d, "gets no response; not yet at the store is the schema")
            yield event, late_call(w, Call(STORE, 0)), None

    def _delete_schema(self, w: World, d: int, me: Driver) -> Iterator[Step]:
        if not self.chains.views[me.view].names_schema:
            event = Event(d, "deletes the schema, which no COMMIT names that it has read")
            yield event, w._replace(schema=False), None

    def must_wait(self, me: Driver, incarnation: int) -> bool:
        """Whether the topic was recreated and only a higher generation than this driver's may land
        it.
        """
        state = self.chains.views[me.view].state
        changes = membership.changes(state, [Topic(TP.topic, f"incarnation-{incarnation}", 1)])
        recreated = bool(changes.recreated) or state.generation <= state.retired.get(TP, -1)
        return recreated and self.rules.never_reuses_names

    def _commit(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if not self.rules.commits_first and not w.visible >> me.batch & 1:
            yield from self._complete(w, d, me, me.batch, calm)
            return
        if self.scope.recreated and self.rules.checks_the_topic_id:
            state = self.chains.views[me.view].state
            now = FoundTopics((Topic(TP.topic, f"incarnation-{w.incarnation}", 1),), {})
            if membership.recreated_topics(state, [TP], now):
                gone = with_driver(w, d, me._replace(batch=-1, seen=w.incarnation))
                yield (
                    Event(d, "finds the topic recreated and aborts", me.batch),
                    *self.store.abort(gone, 1 << me.batch),
                )
                return
        yield from self._append(w, d, me, COMMIT, me.batch, calm)

    # --------------------------------------------------------------------- aborting orphans, ending

    def _list(self, w: World, d: int, me: Driver) -> Step:
        own = union_of(me.batch, me.fresh) | (
            me.waiting if self.rules.spares_decided_uploads else 0
        )
        listed = w.open & ~own
        me = me._replace(at=At.SWEEPING if listed else At.LANDING, listed=listed)
        event = (
            Event(d, "lists as orphans", uploads=listed) if listed else Event(d, "finds no orphans")
        )
        return event, with_driver(w, d, me), None

    def _check_ownership(self, w: World, d: int, me: Driver) -> Step:
        if not self.rules.aborts_as_owner_only:
            return self._abort_listed(w, d, me)
        state = self.chains.views[me.view].state
        if not self.store.has(w, (state.epoch, state.next_index)):
            return (
                Event(d, "checks that it still owns the lane"),
                with_driver(w, d, me._replace(at=At.ABORTING)),
                None,
            )
        return (
            Event(d, "finds that it is fenced and aborts nothing"),
            with_driver(w, d, me._replace(at=At.LANDING, listed=0)),
            None,
        )

    def _abort_listed(self, w: World, d: int, me: Driver) -> Step:
        swept = with_driver(w, d, me._replace(at=At.LANDING, listed=0))
        return Event(d, "aborts", uploads=me.listed), *self.store.abort(swept, me.listed)

    def _end(self, w: World, d: int, me: Driver) -> Step:
        left = w.left._replace(ends=w.left.ends - 1)
        spared = me.doubt >= 0 and self.rules.keeps_uploads_in_doubt
        gone, harm = self.store.abort(
            with_driver(w, d, STOPPED), 0 if spared else union_of(me.batch)
        )
        given_up = -1 if spared else me.batch
        event = Event(
            d,
            "is denied access by the store and ends" + ", aborting" * (given_up >= 0),
            given_up,
        )
        return event, gone._replace(left=left), harm
