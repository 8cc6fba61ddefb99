"""Objects that take the place of others: every order of deciding, completing, retiring and undoing.

    python -m tests.model.replacing

An **hour** has two objects, each with one row, of COMMITs that are perhaps not applied yet; a late
row may be committed at any time. Two side lanes have prepared uploads that hold both rows: one
merges the objects, one corrects them. Two **drivers** of the live lane record which of them takes
the objects' place (REPLACE) and make the new object visible. From the record on that says so, it is
applied: it counts for readers, and landing and other REPLACEs do not wait for the old ones. Those
are cleaned up, in any order that the rules leave and as late as drivers like: a copy is kept of
each, and it is deleted. A driver that was fenced goes on with what it knew. Once nothing is left,
that is recorded as well (RETIRED), and nobody looks for it any more.

The **undoing** of a merge is a REPLACE as well, by copies of what was kept, or is not deleted yet;
what is kept may expire once nothing is left to be cleaned up. The store may **lose** an upload of
the merge before it is completed, or deny to complete it: then a REPLACE by nothing **gives it up**,
which was not applied, and the old objects count as before. Or the merge is **decided again** by a
later record, so that what came in between is applied without it.

A store may keep the parts of an upload after it is completed, as files that wait for their rename
or parts of a composition do: then whoever completes it again makes the object again.

A reader by **listing** takes what is visible, a reader by the **ledger** what the last applied
record leaves, each object in its place or, if it is not there any more, where it is kept. Who has
read an older slot finds what retires in the same way, until nothing is left of it.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from tests.model.exploring import Result, explore, show
from tests.model.replacing_ledgers import (
    BACK,
    CORRECT,
    GIVE_UP,
    KEPT_AS,
    LATE,
    LATER,
    LOSABLE,
    MERGE,
    MERGES,
    OLD,
    PLANS,
    RETIRED,
    ROWS,
    UNDO,
    Folded,
    Plan,
    Record,
    folded,
)


class Harm(StrEnum):
    """What must never be."""

    MISSING = "a row that was visible is in no listing"
    TWICE = "nothing is left to do, and a listing has a row twice"
    GONE = "a reader of the ledger finds an object neither in its place nor where it is kept"
    COUNTED_TWICE = "the ledger counts a row twice"
    NOT_UNDONE = "an undoing is decided, and what it needs has expired"


@dataclass(frozen=True, slots=True)
class Rules:
    """What drivers do; a variant differs in one rule."""

    completes_what_is_decided: bool = True
    replaces_what_is_applied: bool = True
    refuses_old_plans: bool = True
    knows_what_is_decided: bool = True
    retires_what_is_applied: bool = True
    copies_first: bool = True
    drops_uploads_first: bool = True
    aborts_what_it_gives_up: bool = True
    applies_what_is_visible: bool = True
    remembers_what_retires: bool = True
    undoes_under_new_names: bool = True
    copies_before_it_undoes: bool = True
    gives_up_what_is_pending: bool = True
    decides_again_what_is_pending: bool = True


class World(NamedTuple):
    """Everything there is.

    Attributes:
        slots: the ledger after the two COMMITs.
        known: how many slots each of the two drivers has seen; -1 for one that has not started or
            is gone.
        owner: of the ledger.
        visible: objects in the listing.
        uploads: what can be completed.
        kept: copies of objects that retire.
        was_visible, was_kept: what a driver may have seen, however long ago.
        parts_stay: whether parts outlive a completion.
    """

    slots: tuple[Record, ...] = ()
    known: tuple[int, int] = (0, -1)
    owner: int = 0
    visible: frozenset[str] = frozenset()
    uploads: frozenset[str] = OLD | MERGE.new | CORRECT.new | LATE.new
    kept: frozenset[str] = frozenset()
    was_visible: frozenset[str] = frozenset()
    was_kept: frozenset[str] = frozenset()
    parts_stay: bool = False


WORLD = World()
STAYING = World(parts_stay=True)


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        """The steps of the drivers, and of time."""
        if w.known[1] < 0 and w.owner == 0:
            # Its OPEN is no slot here: what it changes is whose the ledger is.
            yield "D2 opens the ledger", w._replace(known=(w.known[0], len(w.slots)), owner=1)
        for driver, known in enumerate(w.known):
            if known >= 0:
                seen = folded(w.slots[:known])
                for text, after in self._of(w, driver, seen):
                    yield f"D{driver + 1} {text}", after
        if LOSABLE in w.uploads - w.was_visible:
            yield (
                f"the store loses the upload of {LOSABLE}",
                w._replace(uploads=w.uploads - {LOSABLE}),
            )
        for name in sorted(w.kept):
            if not self._is_needed(w, name):
                yield f"what is kept of {name} expires", w._replace(kept=w.kept - {name})

    def _is_needed(self, w: World, name: str) -> bool:
        """Whether a REPLACE that retires it is not carried out yet, or nobody is done with it."""
        now = folded(w.slots)
        is_pending = any(name in plan.retire for plan in (*now.pending, *now.retiring))
        return is_pending or name in now.current

    def _of(self, w: World, driver: int, seen: Folded) -> Iterator[tuple[str, World | Harm]]:
        yield from self._decides(w, driver, seen)
        for plan in (*seen.pending, *self._undecided(seen)):
            yield from self._completes(w, plan)
        for plan in seen.applied if self.rules.retires_what_is_applied else seen.plans:
            yield from self._retires(w, plan)
        if not MERGES.isdisjoint(seen.applied):
            yield from self._copies(w)
        if (through := self._applied_through(w, seen)) is not None:
            yield "records what is applied", self._appended(w, driver, through)
        if seen.retiring and self._has_retired(w, seen):
            yield "records what has retired", self._appended(w, driver, RETIRED)

    def _copies(self, w: World) -> Iterator[tuple[str, World]]:
        for name, kept in KEPT_AS.items():
            if kept in w.kept | w.visible and name not in w.uploads | w.was_visible:
                yield f"copies what is kept of {kept}", w._replace(uploads=w.uploads | {name})

    def _undecided(self, seen: Folded) -> tuple[Plan, ...]:
        if self.rules.completes_what_is_decided:
            return ()
        return tuple(plan for plan in (MERGE, CORRECT) if plan not in seen.plans)

    def _decides(self, w: World, driver: int, seen: Folded) -> Iterator[tuple[str, World]]:
        unapplied = frozenset[str]().union(*(plan.new for plan in seen.pending))
        for plan in PLANS:
            is_new = plan not in seen.plans
            is_unapplied = plan.retire - _given_up(plan) & unapplied
            is_early = is_unapplied and self.rules.replaces_what_is_applied
            if plan is UNDO:
                is_ready = w.uploads >= BACK or not self.rules.copies_before_it_undoes
                is_possible = plan.retire <= {*seen.decided} and is_ready
            elif plan is GIVE_UP:
                among = seen.pending if self.rules.gives_up_what_is_pending else seen.plans
                is_possible = not MERGES.isdisjoint(among)
            elif plan is LATER:
                by_rule = self.rules.decides_again_what_is_pending
                waits = LATE in seen.pending or not by_rule
                is_possible = MERGE in (seen.pending if by_rule else seen.plans) and waits
                is_possible = is_possible and not w.parts_stay  # to keep that world small
            else:
                # A planner reads what counts for readers, where what another REPLACE retires counts
                # until that one is applied; so its plan must not be of before that.
                counts = seen.decided if self.rules.knows_what_is_decided else seen.current
                # Without the rule, a plan that was made before another one was decided is as good.
                is_possible = plan.retire <= {*counts} or not self.rules.refuses_old_plans
                # What the merge concerned is known as replaced until its being given up is applied.
                is_possible = is_possible and GIVE_UP not in seen.pending
            if is_new and is_possible and not is_early:
                yield f"records {plan.name}", self._appended(w, driver, plan)

    def _completes(self, w: World, plan: Plan) -> Iterator[tuple[str, World]]:
        for name in sorted(plan.new & w.uploads):
            if any(self._key(name) == self._key(other) for other in w.visible):
                continue
            uploads = w.uploads if w.parts_stay else w.uploads - {name}
            yield (
                f"completes {name}",
                w._replace(
                    visible=w.visible | {name},
                    was_visible=w.was_visible | {name},
                    uploads=uploads,
                ),
            )

    def _retires(self, w: World, plan: Plan) -> Iterator[tuple[str, World]]:
        given_up = _given_up(plan)
        for name in sorted(given_up & w.uploads - w.was_visible):
            yield f"aborts the upload of {name}", w._replace(uploads=w.uploads - {name})
        for name in sorted(plan.retire):
            if name in w.visible and name not in w.was_kept | given_up:
                kept = w._replace(kept=w.kept | {name}, was_kept=w.was_kept | {name})
                yield f"keeps a copy of {name}", kept
            if name in w.uploads and name in w.was_visible:
                yield f"drops the parts of {name}", w._replace(uploads=w.uploads - {name})
            may = name in w.was_kept | given_up or not self.rules.copies_first
            if name in w.uploads and self.rules.drops_uploads_first:
                may = False
            found = {other for other in w.visible if self._key(other) == self._key(name)}
            if may and found:
                yield f"deletes {name}", w._replace(visible=w.visible - found)

    def _applied_through(self, w: World, seen: Folded) -> int | None:
        """Up to how many records a driver finds in its place all that is decided and to stay."""
        through, new, retire = None, frozenset[str](), frozenset[str]()
        for plan, end in zip(seen.pending, (*seen.at[1:], len(w.slots)), strict=False):
            new, retire = new | plan.new, retire | plan.retire
            is_visible = new - retire <= w.visible or not self.rules.applies_what_is_visible
            # A part of it is recorded only if there is a reason: it keeps the states few.
            if is_visible and (end == len(w.slots) or LATER in seen.pending):
                through = end
        return through

    def _has_retired(self, w: World, seen: Folded) -> bool:
        """Whether nothing is left of what retires by the REPLACEs that are applied."""
        retire = frozenset[str]().union(*(plan.retire for plan in seen.retiring))
        is_retired = not retire & w.visible or not self.rules.remembers_what_retires
        is_given_up = GIVE_UP not in seen.retiring or not MERGE.new & w.uploads
        return is_retired and (is_given_up or not self.rules.aborts_what_it_gives_up)

    def _key(self, name: str) -> str:
        return name if self.rules.undoes_under_new_names else KEPT_AS.get(name, name)

    def _appended(self, w: World, driver: int, record: Record) -> World:
        """A driver that does not own the ledger any more learns that, and ends."""
        if driver != w.owner:
            return w._replace(known=_with(w.known, driver, -1))
        return w._replace(slots=(*w.slots, record), known=_with(w.known, driver, len(w.slots) + 1))


def _given_up(plan: Plan) -> frozenset[str]:
    """What another REPLACE decided and nobody needs now, visible or not."""
    return MERGE.new if plan is GIVE_UP else frozenset()


def _with(known: tuple[int, int], driver: int, slots: int) -> tuple[int, int]:
    return (slots, known[1]) if driver == 0 else (known[0], slots)


def _rows(names: Iterable[str]) -> Counter[int]:
    """How often these objects have each row."""
    return Counter(row for name in names for row in ROWS[name])


def harm_of(w: World) -> Harm | None:
    """What readers find that is wrong."""
    now = folded(w.slots)
    listed = _rows(w.visible)
    is_applied = any(isinstance(record, int) and record != RETIRED for record in w.slots)
    if is_applied and not _rows(now.current).keys() <= listed.keys():
        return Harm.MISSING
    if not (now.pending or now.retiring) and max(listed.values()) > 1:
        return Harm.TWICE
    if max(_rows(now.decided).values()) > 1:
        return Harm.COUNTED_TWICE
    readable = {*now.current}.union(*(plan.retire - _given_up(plan) for plan in now.retiring))
    if is_applied and not readable <= w.visible | w.kept:
        return Harm.GONE
    if UNDO in now.plans and any(
        name not in w.uploads | w.was_visible and kept not in w.kept
        for name, kept in KEPT_AS.items()
    ):
        return Harm.NOT_UNDONE
    return None


def search(rules: Rules, begin: World = WORLD, *, seen: set[Plan] | None = None) -> Result:
    """Search every state that may follow, the nearest first; ``seen`` gets what was applied."""

    def harm(world: World) -> Harm | None:
        now = folded(world.slots)
        if seen is not None and not (now.pending or now.retiring):
            seen.update(now.plans)
        return harm_of(world)

    return explore(begin, Steps(rules).all, harm)


class Variant(NamedTuple):
    """Drivers without one rule, and what comes of it."""

    instead: str
    rules: Rules
    harm: Harm
    begin: World = WORLD


VARIANTS: Mapping[str, Variant] = {
    "completes-undecided": Variant(
        "what is to take an object's place is completed before that is decided",
        Rules(completes_what_is_decided=False),
        Harm.TWICE,
    ),
    "replaces-unapplied": Variant(
        "an object is replaced before it is known to be visible",
        Rules(replaces_what_is_applied=False),
        Harm.GONE,
    ),
    "takes-old-plans": Variant(
        "a plan is recorded although another one has replaced the objects since",
        Rules(refuses_old_plans=False),
        Harm.COUNTED_TWICE,
    ),
    "plans-by-what-is-read": Variant(
        "a plan is recorded that knows of another REPLACE, whose old objects still count for it",
        Rules(knows_what_is_decided=False),
        Harm.COUNTED_TWICE,
    ),
    "retires-first": Variant(
        "old objects are deleted before the ledger says that the new ones are visible",
        Rules(retires_what_is_applied=False),
        Harm.MISSING,
    ),
    "keeps-nothing": Variant(
        "old objects are deleted before a copy of them is kept",
        Rules(copies_first=False),
        Harm.GONE,
    ),
    "leaves-parts": Variant(
        "an old object is deleted while parts of its upload are there",
        Rules(drops_uploads_first=False),
        Harm.TWICE,
        STAYING,
    ),
    "leaves-what-it-gives-up": Variant(
        "what a REPLACE decided is given up while it can still be completed",
        Rules(aborts_what_it_gives_up=False),
        Harm.TWICE,
    ),
    "applies-first": Variant(
        "a REPLACE counts as applied before its new objects are visible",
        Rules(applies_what_is_visible=False),
        Harm.MISSING,
    ),
    "forgets-what-retires": Variant(
        "nobody looks for old objects any more, before they are deleted",
        Rules(remembers_what_retires=False),
        Harm.TWICE,
    ),
    "undoes-under-old-names": Variant(
        "an undoing brings objects back under the names that they had",
        Rules(undoes_under_new_names=False),
        Harm.GONE,
    ),
    "undoes-without-copies": Variant(
        "an undoing is decided before what it brings back is copied",
        Rules(copies_before_it_undoes=False),
        Harm.NOT_UNDONE,
    ),
    "gives-up-what-counts": Variant(
        "a REPLACE is given up after a record has called it applied",
        Rules(gives_up_what_is_pending=False),
        Harm.COUNTED_TWICE,
    ),
    "decides-again-what-is-given-up": Variant(
        "a REPLACE is decided again after it was given up",
        Rules(decides_again_what_is_pending=False),
        Harm.GONE,
    ),
}


def main() -> int:
    """Check the rules, then show what each of them prevents."""
    return show(
        "Objects that take the place of others, in every order of two drivers",
        {
            "parts end with their upload": partial(search, Rules()),
            "parts stay": partial(search, Rules(), STAYING),
        },
        VARIANTS,
        lambda variant: search(variant.rules, variant.begin),
    )


if __name__ == "__main__":
    sys.exit(main())
