"""Leases of files: two drivers that hand files out, and two takers that process them.

    python -m tests.model.leasing

Two **files** have numbers. A **taker** asks for a file, works, and asks that the file be done; what
it has made counts once it is told so. An answer may be lost: then it asks again, under the same id.
It may die, and another one begins in its place. A **driver** carries requests out, or ends a lease
as too late: at any time, since nobody knows what clocks say. Either driver may take the lane; the
former owner sleeps for ever, or goes on where it was.

Each rule is left out by a variant, whose shortest story shows what comes of it. With all rules, the
product's own fold must say of every record what this model says.
"""

import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache, partial
from typing import NamedTuple

from tests.model.exploring import Result, explore, show
from tests.model.leasing_ledger import FILES, Known, Rules, Slot, Slots, is_refused, known

DRIVERS, TAKERS = 2, 2
MAX_ATTEMPTS = 2
MAX_STEPS_ALONE = 40
"""Steps that one driver and one taker take undisturbed before a file counts as lost."""


class Harm(StrEnum):
    """What must never be."""

    TWICE = "two takers are told that what they made of a file counts"
    LOST = "a file is never given to anyone again, and is not done"
    UNTOLD = "a file is done, and its taker is told that what it made does not count"
    UNKNOWN = "a file is kept for a taker that was answered and has another lease"
    FOR_EVER = "a file that kills its takers is given to them for ever"
    REFUSED = "a driver writes what the ledger refuses"


class Taker(NamedTuple):
    """A taker.

    Attributes:
        asks: what it waits for: ``take``, ``done``, or nothing.
        asked: how often it has begun to ask.
        lease: its lease, by slot; -1 for none.
        file: the one it works at.
        accepted: files of which it was told that what it made counts.
    """

    asks: str = ""
    asked: int = 0
    lease: int = -1
    file: int = -1
    accepted: frozenset[int] = frozenset()


class World(NamedTuple):
    """Everything there is.

    Attributes:
        slots: the ledger.
        views: how many slots each driver has seen; 0 if it does not own the lane, as far as it
            knows.
        takers: all of them.
        opens: how often the lane is still opened.
        losses: how many answers will be lost.
        expiries: how many leases will be too late.
        deaths: how many takers will die.
    """

    slots: Slots = ()
    views: tuple[int, ...] = (0,) * DRIVERS
    takers: tuple[Taker, ...] = (Taker(),) * TAKERS
    opens: int = 1
    losses: int = 0
    expiries: int = 0
    deaths: int = 0


WORLDS: Mapping[str, World] = {
    "two owners, and a lease too late": World(opens=2, expiries=1),
    "answers that are lost": World(opens=2, losses=2),
    "a taker that dies": World(expiries=1, deaths=1),
    "files that kill": World(expiries=3),
}


class Steps:
    """What may happen next."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        """Every step of a driver and of a taker."""
        for t, taker in enumerate(w.takers):
            for text, after in self._takes(w, t, taker):
                yield f"T{t + 1} {text}", after
        for d in range(DRIVERS):
            for text, driven in self._drives(w, d):
                yield f"D{d + 1} {text}", driven

    def _takes(self, w: World, t: int, me: Taker) -> Iterator[tuple[str, World]]:
        if not me.asks and me.lease < 0:
            asks = me._replace(asks="take", asked=me.asked + 1)
            yield "asks for a file", _with_taker(w, t, asks)
        if not me.asks and me.lease >= 0:
            asks = me._replace(asks="done", asked=me.asked + 1)
            yield f"asks that file {me.file + 1} be done", _with_taker(w, t, asks)
        if w.deaths:
            again = Taker(asked=me.asked, accepted=me.accepted)
            yield "dies, and begins anew", _with_taker(w._replace(deaths=w.deaths - 1), t, again)

    def _drives(self, w: World, d: int) -> Iterator[tuple[str, World | Harm]]:
        view = w.views[d]
        if not view:
            if w.opens:
                slots = (*w.slots, Slot("OPEN", d))
                opened = w._replace(slots=slots, opens=w.opens - 1)
                yield "opens the lane", _with_view(opened, d, len(slots))
            return
        seen = known(w.slots[:view], self.rules)
        for t, taker in enumerate(w.takers):
            if taker.asks == "take":
                yield from self._gives(w, d, t, seen)
            elif taker.asks == "done":
                yield from self._ends(w, d, t, seen)
        if w.expiries and self.rules.ends_leases_by_records:
            calm = w._replace(expiries=w.expiries - 1)
            for slot, file, _ in seen.held:
                ended = self._appended(calm, d, Slot("EXPIRED", d, file, slot))
                yield f"ends the lease of file {file + 1}, too late", ended[0]

    def _gives(self, w: World, d: int, t: int, seen: Known) -> Iterator[tuple[str, World | Harm]]:
        me = w.takers[t]
        request = (t, me.asked)
        if self.rules.knows_open_requests:
            mine = [at for at, slot in enumerate(w.slots[: w.views[d]]) if slot.request == request]
            for slot, file, _ in seen.held:
                if slot in mine:
                    yield from self._answers(w, t, f"gives file {file + 1} again", (slot, file))
                    return
            if mine:
                yield from self._answers(w, t, "says that this lease is over", None)
                return
        for file, now in self._free(w, seen):
            after, at = self._appended(now, d, Slot("LEASE", d, file, -1, request))
            yield from self._tells(w, after, (d, t), f"gives file {file + 1}", (at, file))

    def _free(self, w: World, seen: Known) -> Iterator[tuple[int, World]]:
        yield from ((file, w) for file, tried in seen.parked if tried < MAX_ATTEMPTS)
        first = range(seen.leased_to, FILES)
        yield from ((file, w) for file in (first if not self.rules.leases_in_order else first[:1]))
        if w.expiries and not self.rules.ends_leases_by_records:
            calm = w._replace(expiries=w.expiries - 1)
            yield from ((file, calm) for _, file, _ in seen.held if file not in seen.done)

    def _ends(self, w: World, d: int, t: int, seen: Known) -> Iterator[tuple[str, World | Harm]]:
        me = w.takers[t]
        request, what = (t, me.asked), f"file {me.file + 1}"
        if request in seen.requests:
            yield from self._answers(w, t, f"says again that {what} is done", None, done=me.file)
            return
        is_open = any(slot == me.lease for slot, _, _ in seen.held)
        if not is_open and self.rules.refuses_late_outcomes:
            if self.rules.refuses_as_owner and len(w.slots) != w.views[d]:
                yield "finds that it has no lane", _with_view(w, d, 0)
                return
            was_done = Slot("DONE", -1, me.file, me.lease, request)
            by_it = any(slot._replace(writer=-1) == was_done for slot in w.slots)
            if by_it:
                yield f"says that {what} is not T{t + 1}'s", Harm.UNTOLD
            else:
                yield from self._answers(w, t, f"says that {what} is not T{t + 1}'s", None)
            return
        after, _ = self._appended(w, d, Slot("DONE", d, me.file, me.lease, request))
        yield from self._tells(w, after, (d, t), f"says that {what} is done", None, done=me.file)

    def _tells(
        self,
        before: World,
        after: World | Harm,
        who: tuple[int, int],
        text: str,
        lease: tuple[int, int] | None,
        done: int = -1,
    ) -> Iterator[tuple[str, World | Harm]]:
        """The answer to a request that needed a record, if that is there."""
        d, t = who
        is_there = isinstance(after, World) and len(after.slots) > len(before.slots)
        if not is_there:
            yield "finds that it has no lane", after
        if isinstance(after, World) and (is_there or not self.rules.answers_after_appending):
            view = after.views[d]
            for said, later in self._answers(after, t, text, lease, done=done):
                yield said, later if is_there else _with_view(later, d, view)

    def _answers(
        self, w: World, t: int, text: str, lease: tuple[int, int] | None, done: int = -1
    ) -> Iterator[tuple[str, World]]:
        """The taker hears the answer, or it is lost."""
        me = w.takers[t]
        slot, file = lease or (-1, -1)
        accepted = me.accepted | {done} if done >= 0 else me.accepted
        answered = me._replace(asks="", lease=slot, file=file, accepted=accepted)
        yield f"{text}, to T{t + 1}", _with_taker(w, t, answered)
        if w.losses:
            yield f"{text}, which T{t + 1} does not hear", w._replace(losses=w.losses - 1)

    def _appended(self, w: World, d: int, slot: Slot) -> tuple[World | Harm, int]:
        """The world with one more record, unless another's is in its place; and its slot."""
        if len(w.slots) != w.views[d]:
            return _with_view(w, d, 0), w.views[d]
        slots = (*w.slots, slot)
        if is_refused(slots, self.rules):
            return Harm.REFUSED, -1
        return _with_view(w._replace(slots=slots), d, len(slots)), len(w.slots)


def _with_taker(w: World, number: int, taker: Taker) -> World:
    return w._replace(takers=(*w.takers[:number], taker, *w.takers[number + 1 :]))


def _with_view(w: World, number: int, view: int) -> World:
    return w._replace(views=(*w.views[:number], view, *w.views[number + 1 :]))


@cache
def left(rules: Rules, slots: Slots) -> frozenset[int]:
    """What is neither done nor given up, once all leases have expired and one taker goes on."""
    steps = Steps(rules)
    alone = World(slots, takers=(Taker(asked=100),), expiries=FILES, opens=1)
    for _ in range(MAX_STEPS_ALONE):
        seen = known(alone.slots, rules)
        others = {slot for slot, _, _ in seen.held} - {alone.takers[0].lease}
        ways = [(text, w) for text, w in steps.all(alone) if isinstance(w, World)]
        ways = [way for way in ways if not way[0].startswith("D2")]
        late = [way for way in ways if "too late" in way[0]] if others else []
        useful = late or [way for way in ways if "too late" not in way[0]]
        if not useful:
            break
        alone = useful[0][1]
    seen = known(alone.slots, rules)
    given_up = {file for file, tried in seen.parked if tried >= MAX_ATTEMPTS}
    return frozenset(range(FILES)) - seen.done - given_up


def harm_of(rules: Rules, w: World) -> Harm | None:
    """What is wrong with a state, or will be if nothing else goes wrong."""
    accepted = [file for taker in w.takers for file in taker.accepted]
    if len(accepted) != len({*accepted}):
        return Harm.TWICE
    given = [slot.file for slot in w.slots if slot.kind == "LEASE"]
    if any(given.count(file) > MAX_ATTEMPTS for file in range(FILES)):
        return Harm.FOR_EVER
    seen = known(w.slots, rules)
    for slot, _, _ in seen.held:
        t, asked = w.slots[slot].request
        me = w.takers[t]
        if asked == me.asked and me.lease not in {-1, slot}:
            return Harm.UNKNOWN
    return Harm.LOST if left(rules, w.slots) else None


def search(rules: Rules, world: str) -> Result:
    """Search every state that may follow in a world, the nearest first."""
    return explore(WORLDS[world], Steps(rules).all, partial(harm_of, rules))


class Variant(NamedTuple):
    """Drivers or a ledger without one rule, and what comes of it."""

    instead: str
    rules: Rules
    harm: Harm
    world: str = "two owners, and a lease too late"


VARIANTS: Mapping[str, Variant] = {
    "answers-first": Variant(
        "a driver answers before its record is in the ledger",
        Rules(answers_after_appending=False),
        Harm.TWICE,
    ),
    "ends-leases-by-the-clock": Variant(
        "a lease whose time is over counts as none, without a record that ends it",
        Rules(ends_leases_by_records=False),
        Harm.TWICE,
    ),
    "takes-late-outcomes": Variant(
        "a file is done whoever says so, whether or not its lease is over",
        Rules(refuses_late_outcomes=False),
        Harm.TWICE,
    ),
    "refuses-what-it-has-not-seen": Variant(
        "a driver refuses by what it knows, without a look whether it still owns the lane",
        Rules(refuses_as_owner=False),
        Harm.UNTOLD,
        "answers that are lost",
    ),
    "leases-in-any-order": Variant(
        "any file that was never leased may be leased, and those before it count as leased",
        Rules(leases_in_order=False),
        Harm.LOST,
    ),
    "forgets-expired-files": Variant(
        "a lease that expires ends, and its file is not free again",
        Rules(parks_expired=False),
        Harm.LOST,
    ),
    "counts-no-deaths": Variant(
        "a lease that expires is no attempt",
        Rules(counts_expired=False),
        Harm.FOR_EVER,
        "files that kill",
    ),
    "knows-no-open-requests": Variant(
        "a taker that asks again under the same id gets another lease",
        Rules(knows_open_requests=False),
        Harm.UNKNOWN,
        "answers that are lost",
    ),
    "forgets-requests": Variant(
        "what a request has ended is not remembered with its id",
        Rules(remembers_requests=False),
        Harm.UNTOLD,
        "answers that are lost",
    ),
}


def main() -> int:
    """Check the rules, then show what each of them prevents."""
    return show(
        "Files that two drivers lease to two takers, in every order of their steps",
        {world: partial(search, Rules(), world) for world in WORLDS},
        VARIANTS,
        lambda variant: search(variant.rules, variant.world),
    )


if __name__ == "__main__":
    sys.exit(main())
