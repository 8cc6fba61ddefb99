"""The effects of calls on the store, and events that no driver causes."""

from collections.abc import Iterator

from landfall.errors import Retry, Stalled
from landfall.objects import ObjectStat, UploadLost, check_completed, multipart_etag
from tests.model.chain import TP, Chains, Slot, bits
from tests.model.rules import Harm, Rules
from tests.model.world import CREATE, STORE, WORLD, Call, Event, Left, Step, World


class Bucket:
    """The effects of calls."""

    def __init__(self, chains: Chains, rules: Rules) -> None:
        self.chains, self._rules = chains, rules
        self._outcomes: dict[tuple[int, int, bool], str] = {}

    def create(self, w: World, slot: Slot) -> tuple[bool, World]:
        """Create a slot if it is not there: whether that was so, and the state after it."""
        if slot.before == w.tip:
            return True, w._replace(tip=slot.after)
        seq = self.chains.views[w.tip].seqs.get(slot.place)
        if seq is None:
            # A driver that believes in a slot that does not exist may append after the chain's end.
            return True, w
        if w.torn >> seq & 1:
            return True, w._replace(torn=w.torn ^ 1 << seq, again=(*w.again, slot.number))
        return False, w

    def has(self, w: World, place: tuple[int, int]) -> bool:
        """Whether there is a slot at a place."""
        seq = self.chains.views[w.tip].seqs.get(place)
        return seq is not None and not w.torn >> seq & 1

    def deletable(self, w: World) -> Iterator[int]:
        """The slots that a driver may delete now."""
        view, rules = self.chains.views[w.tip], self._rules
        for (epoch, index), seq in view.seqs.items():
            is_sealed = epoch < view.state.epoch
            is_seal = is_sealed and (epoch, index + 1) not in view.seqs
            # The record that names the segment is in a later epoch.
            is_recorded = (epoch + 1, 0) in view.seqs
            if (
                (index or not rules.keeps_first_slots)
                and not (is_seal and rules.keeps_seals)
                and (is_sealed or not rules.deletes_sealed_only)
                and (is_recorded or not is_sealed or not rules.records_segments_first)
                and not w.torn >> seq & 1
            ):
                yield seq

    def completed(self, w: World, u: int) -> tuple[World, Harm | None]:
        """Complete an upload, if it is open."""
        if not w.open >> u & 1:
            return w, None
        there = w.visible & self.chains.keys[u]
        if there and not self._rules.completes_unconditionally:
            return w, None
        after = w._replace(open=w.open ^ 1 << u, visible=w.visible & ~there | 1 << u)
        return without_idle_calls(after), Harm.CHANGED if there else None

    def completion_outcome(self, w: World, u: int) -> str:
        """What the product concludes from the store's state after it asked for completion."""
        there = bits(w.visible & self.chains.keys[u])
        occupant = there[0] if there else -1
        is_open = bool(w.open >> u & 1)
        outcome = self._outcomes.get((u, occupant, is_open))
        if outcome is None:
            outcome = self._outcomes[u, occupant, is_open] = self._outcome(u, occupant, is_open)
        return outcome

    def _outcome(self, u: int, occupant: int, is_open: bool) -> str:
        found = None
        if occupant >= 0:
            it = self.chains.objects[occupant].upload
            found = ObjectStat(it.key, it.size, multipart_etag(it.parts), it.token)
        try:
            check_completed(self.chains.objects[u].upload, found, is_open=is_open)
        except Retry:
            return "cannot yet complete"
        except UploadLost:
            return "finds the loss of"
        except Stalled:
            return "finds an object of another upload in place of"
        return "completes"

    def abort(self, w: World, uploads: int) -> tuple[World, Harm | None]:
        """Abort uploads, those that are open."""
        decided = uploads & w.open & self.chains.views[w.tip].decided
        after = w._replace(open=w.open & ~uploads)
        return without_idle_calls(after), Harm.ABORTED if decided else None


def world_events(w: World, store: Bucket) -> Iterator[Step]:
    """The events that may still happen to a state."""
    left, state = w.left, store.chains.views[w.tip].state
    yield from _arrivals(w, store)
    if left.killed:
        for u in bits(w.open):
            gone = w._replace(
                open=w.open & ~(1 << u), killed=w.killed | 1 << u, left=_less(left, "killed")
            )
            yield Event(WORLD, "a lifecycle rule aborts", u), without_idle_calls(gone), None
    if left.expired and TP in state.checkpoint and state.checkpoint[TP] > w.log_start:
        gone = w._replace(log_start=state.checkpoint[TP], left=_less(left, "expired"))
        yield Event(WORLD, "retention deletes all committed records from the log"), gone, None
    if left.restored and w.log_start:
        back = w._replace(log_start=0, left=_less(left, "restored"))
        yield Event(WORLD, "the log gets back what it had deleted"), back, None
    if left.recreated:
        again = w._replace(incarnation=w.incarnation + 1, left=_less(left, "recreated"))
        yield Event(WORLD, "the topic is deleted and recreated"), again, None
    if left.truncated and TP in state.checkpoint and state.checkpoint[TP] > w.log_start:
        cut = state.checkpoint[TP] - 1
        other = w._replace(cut=cut, left=_less(left, "truncated"))
        yield Event(WORLD, f"an election cuts the log back to {cut}, others follow"), other, None
    for seq in store.deletable(w) if left.deleted else ():
        torn = w._replace(torn=w.torn | 1 << seq, left=_less(left, "deleted"))
        yield Event(WORLD, f"slot {seq}, which a segment holds, is deleted"), torn, None


def _arrivals(w: World, store: Bucket) -> Iterator[Step]:
    for call in w.late:
        rest = w._replace(late=tuple(c for c in w.late if c != call))
        if call.what == CREATE:
            _, after = store.create(rest, store.chains.slots[call.about])
            yield (
                Event(WORLD, "the store at last receives", slot=call.about),
                without_idle_calls(after),
                None,
            )
        elif call.what == STORE:
            yield Event(WORLD, "the store at last receives the schema"), _stored(rest), None
        else:
            after, harm = store.completed(rest, call.about)
            yield Event(WORLD, "the store at last completes", call.about), after, harm


def _stored(w: World) -> World:
    return without_idle_calls(w._replace(schema=True))


def _less(left: Left, what: str) -> Left:
    return left._replace(**{what: getattr(left, what) - 1})


def without_idle_calls(w: World) -> World:
    """The state without late calls that can no longer have an effect."""
    if not w.late:
        return w
    late = tuple(c for c in w.late if _may_matter(w, c))
    return w if late == w.late else w._replace(late=late)


def _may_matter(w: World, call: Call) -> bool:
    if call.what == STORE:
        return not w.schema
    return call.what == CREATE or bool(w.open >> call.about & 1)
