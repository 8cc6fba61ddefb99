"""Steps that complete decided uploads, and that make a lost one again."""

from collections.abc import Iterator

from tests.model.appending import Appending, late_call, with_driver
from tests.model.chain import BLOCK, LOST, REPAIR, TP, Made, bits
from tests.model.rules import Gone, Harm
from tests.model.world import COMPLETE, STOPPED, Call, Driver, Event, Step, World


class Completing(Appending):
    """Completes and repairs, beside what ``Appending`` does."""

    def _complete(self, w: World, d: int, me: Driver, u: int, calm: bool) -> Iterator[Step]:
        is_open = bool(w.open >> u & 1)
        if not self.rules.looks_before_it_gives_up and self._is_gone(w, u):
            event = Event(d, "takes for lost, as the log no longer has the records,", u)
            yield event, with_driver(w, d, me._replace(lost=me.lost | 1 << u)), None
        if is_open and not self.rules.completes_unconditionally and Call(COMPLETE, u) in w.late:
            # What AWS says of two that complete with a condition: 409, and the upload must be made
            # again.
            event = Event(d, "and another driver complete at once, both get 409, which destroys", u)
            yield event, w._replace(open=w.open & ~(1 << u), late=()), None
        after, harm = self.store.completed(w, u)
        believes = self.rules.on_gone
        if is_open or believes is Gone.LOOKS:
            outcome = self.store.completion_outcome(after, u)
        else:
            outcome = "completes" if believes is Gone.IS_DONE else "finds the loss of"
        yield self._after_completion(after, d, me, u, outcome, harm)
        if calm or after is w:
            return
        if w.left.unanswered:
            left = w.left._replace(unanswered=w.left.unanswered - 1)
            yield (
                Event(d, "gets no response after completing", u),
                after._replace(left=left),
                harm,
            )
        if w.left.late and Call(COMPLETE, u) not in w.late:
            yield (
                Event(d, "gets no response; not yet at the store is the completion of", u),
                late_call(w, Call(COMPLETE, u)),
                None,
            )

    def _after_completion(
        self, w: World, d: int, me: Driver, u: int, outcome: str, harm: Harm | None
    ) -> Step:
        if outcome == "completes":
            me = me._replace(waiting=me.waiting & ~(1 << u))
        elif outcome == "finds the loss of":
            me = me._replace(lost=me.lost | 1 << u)
        elif outcome != "cannot yet complete":
            if w.tip != me.view:
                outcome = (
                    "finds an object of another upload and that it is fenced, and stops completing"
                )
            me, harm = STOPPED, harm or (Harm.FOREIGN if w.tip == me.view else None)
        return Event(d, outcome, u), with_driver(w, d, me), harm

    def _is_gone(self, w: World, u: int) -> bool:
        """Whether the log does not have an upload's records any more."""
        was = self.chains.uploads[u]
        return was.start < w.log_start or was.incarnation != w.incarnation

    def _to_make_again(self, me: Driver) -> int:
        """Lost uploads, and missing ones that a person lets the driver try."""
        view = self.chains.views[me.view]
        return me.lost | (0 if TP in view.state.blocked else view.missing)

    def _is_recorded(self, me: Driver, lost: int) -> bool:
        """Whether a REPAIR says that a new upload takes the place of a lost one."""
        is_missing = self.chains.views[me.view].missing >> lost & 1
        rules = self.rules
        return rules.records_repairs_of_missing if is_missing else rules.records_repairs

    def _make_again(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        lost = bits(self._to_make_again(me))[0]
        was = self.chains.uploads[lost]
        if self._is_gone(w, lost):
            if self.rules.records_what_it_gives_up:
                is_asked = self.scope.asks and TP in self.chains.views[me.view].state.members
                yield from self._append(w, d, me, BLOCK if is_asked else LOST, lost, calm)
            else:
                rest = me._replace(waiting=me.waiting & ~(1 << lost), lost=me.lost & ~(1 << lost))
                yield Event(d, "waits no longer for", lost), with_driver(w, d, rest), None
            return
        fresh = self.chains.upload(
            Made(d, was.start, was.end, was.generation, was.incarnation, lost, w.cut)
        )
        made = with_driver(w, d, me._replace(fresh=fresh))
        yield Event(d, "uploads", fresh), made._replace(open=w.open | 1 << fresh), None

    def _record_repair(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        lost = self.chains.uploads[me.fresh].instead
        is_checked = self.rules.repairs_only_what_is_due
        if is_checked and not self.chains.is_due(self.chains.views[me.view], lost):
            gone = with_driver(w, d, me._replace(fresh=-1))
            event = Event(d, "aborts, as what it replaces was given up meanwhile,", me.fresh)
            yield event, *self.store.abort(gone, 1 << me.fresh)
        elif self._is_recorded(me, lost):
            yield from self._append(w, d, me, REPAIR, me.fresh, calm)
        else:
            yield (
                Event(d, "completes, without a REPAIR, from now on", me.fresh),
                with_driver(w, d, self._repaired(me, me.fresh)),
                None,
            )
