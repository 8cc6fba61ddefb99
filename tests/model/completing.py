"""Steps that complete decided uploads, and that make a lost one again."""

from collections.abc import Iterator

from tests.model.appending import Appending, late_call, with_driver
from tests.model.chain import REPAIR, Made, bits
from tests.model.rules import Gone, Harm
from tests.model.world import COMPLETE, STOPPED, Call, Driver, Event, Step, World


class Completing(Appending):
    """Completes and repairs, beside what ``Appending`` does."""

    def _complete(self, w: World, d: int, me: Driver, u: int, calm: bool) -> Iterator[Step]:
        is_open = bool(w.open >> u & 1)
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

    def _upload_again(self, w: World, d: int, me: Driver) -> Step:
        lost = bits(me.lost)[0]
        was = self.chains.uploads[lost]
        if was.start < w.log_start or was.incarnation != w.incarnation:
            return (
                Event(d, "stalls, as the log no longer has the records of", lost),
                with_driver(w, d, STOPPED),
                None,
            )
        fresh = self.chains.upload(
            Made(d, was.start, was.end, was.generation, was.incarnation, lost)
        )
        made = with_driver(w, d, me._replace(fresh=fresh))
        return Event(d, "uploads", fresh), made._replace(open=w.open | 1 << fresh), None

    def _record_repair(self, w: World, d: int, me: Driver, calm: bool) -> Iterator[Step]:
        if self.rules.records_repairs:
            yield from self._append(w, d, me, REPAIR, me.fresh, calm)
        else:
            yield (
                Event(d, "completes, without a REPAIR, from now on", me.fresh),
                with_driver(w, d, self._repaired(me, me.fresh)),
                None,
            )
