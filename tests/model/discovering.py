"""Discovery of files: two drivers that number, read and land what appears in a bucket.

    python -m tests.model.discovering

A **bucket** gets two files, the second of which has the lesser name, or one file that is written
anew. Once a file cannot be read, and somebody may give it up. Two **drivers** list the bucket,
number what they do not know by DISCOVER, land it, park what they cannot read, and store which files
are known. Either may take the lane at any time; the former owner sleeps for ever, or goes on where
it was.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import NamedTuple

from landfall.errors import Stalled
from landfall.ledger import FeedState
from tests.model.discovering_ledger import (
    TP,
    Slot,
    Version,
    Versions,
    counted,
    folded,
    given_up,
    landed,
    next_number,
    numbered,
    recorded,
)
from tests.model.exploring import Result, explore, show

DRIVERS = 2
MAX_STEPS_ALONE = 40
"""Steps that a driver may take undisturbed before it counts as stuck."""


class Harm(StrEnum):
    """What must never be."""

    LOST = "a file is never landed, and nobody knows"
    TWICE = "a version of a file is landed twice"
    TORN = "what is landed is not of the version of the file that has the number"
    UNREADABLE = "a DISCOVER names a list that nobody has"
    REFUSED = "a driver writes what the ledger refuses"
    MISCOUNTED = "the rows that are counted for a file are not those that were landed"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the drivers do; a variant differs in one rule."""

    lists_all_names: bool = True
    reads_pinned: bool = True
    stores_lists_first: bool = True
    knows_by_records: bool = True
    remembers_parked: bool = True
    remembers_given_up: bool = True
    knows_what_is_recorded: bool = True
    lists_after_opening: bool = True
    counts_by_first_number: bool = True


class Driver(NamedTuple):
    """A driver.

    Attributes:
        view: how many slots it has seen; 0 if it does not own the lane, as far as it knows.
        found: what it has listed and does not know, or None if it has not looked.
        is_stored: whether its list is.
    """

    view: int = 0
    found: Versions | None = None
    is_stored: bool = False


class World(NamedTuple):
    """Everything there is.

    Attributes:
        slots: the ledger.
        bucket: the files.
        drivers: both of them.
        lists: stored lists.
        to_write: versions that other programs are still to write, those of a file in order.
        may_fail: whether a read will fail.
        may_give_up: whether somebody will give a parked file up.
        opens: how often the lane is still opened.
    """

    slots: tuple[Slot, ...] = ()
    bucket: frozenset[Version] = frozenset()
    drivers: tuple[Driver, ...] = (Driver(),) * DRIVERS
    lists: frozenset[Versions] = frozenset()
    to_write: Versions = ()
    may_fail: bool = False
    may_give_up: bool = False
    opens: int = 1


_LATE, _REWRITTEN = (Version("b", 1), Version("a", 1)), (Version("b", 1), Version("b", 2))
WORLDS: Mapping[str, World] = {
    "a late name": World(to_write=_LATE, may_fail=True, opens=2),
    "a file that is written anew": World(to_write=_REWRITTEN, may_fail=True, opens=2),
    "a file that is given up": World(to_write=_LATE[:1], may_fail=True, may_give_up=True, opens=2),
    "three owners": World(to_write=_LATE, opens=3),
}


class Steps:
    """What may happen next."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        """Every step of a driver, of other programs, and of what happens to drivers."""
        for version in w.to_write:
            if not any(v.name == version.name and v.number < version.number for v in w.to_write):
                bucket = {v for v in w.bucket if v.name != version.name} | {version}
                rest = tuple(v for v in w.to_write if v != version)
                yield f"{version} is written", w._replace(bucket=frozenset(bucket), to_write=rest)
        for number, driver in enumerate(w.drivers):
            for text, after in self._steps(w, number, driver):
                yield f"D{number + 1} {text}", after

    def _steps(self, w: World, d: int, me: Driver) -> Iterator[tuple[str, World | Harm]]:
        if not me.view:
            if w.opens:
                slots = (*w.slots, Slot("OPEN", d))
                drivers = _with(w.drivers, d, me._replace(view=len(slots)))
                yield "opens the lane", w._replace(slots=slots, drivers=drivers, opens=w.opens - 1)
            return
        yield from self._discovers(w, d, me)
        state = folded(w.slots[: me.view])
        feed = state.feeds[TP]
        if next_number(state) < feed.end:
            yield from self._lands(w, d, me, numbered(w.slots[: me.view])[next_number(state)])
        yield from self._returns(w, d, me, feed)

    def _looks(self, w: World, d: int, me: Driver) -> Iterator[tuple[str, World | Harm]]:
        known = recorded(w.slots[: me.view])
        if not self.rules.knows_by_records:
            known = known.union(*w.lists)
        listed = sorted(w.bucket)
        if not self.rules.lists_all_names and known:
            listed = [version for version in listed if version > max(known)]
        found = tuple(version for version in listed if version not in known)
        if found:
            after = me._replace(found=found, is_stored=False)
            text = f"lists {', '.join(map(str, found))}"
            yield text, w._replace(drivers=_with(w.drivers, d, after))

    def _discovers(self, w: World, d: int, me: Driver) -> Iterator[tuple[str, World | Harm]]:
        if me.found is None:
            yield from self._looks(w, d, me)
            yield from self._indexes(w, d, me, recorded(w.slots[: me.view]))
            return
        if not self.rules.knows_what_is_recorded:
            known = recorded(w.slots[: me.view]) | {*me.found}
            yield from self._indexes(w, d, me, known)
        names = ", ".join(map(str, me.found))
        if not me.is_stored:
            stored = w._replace(lists=w.lists | {me.found})
            after = me._replace(is_stored=True)
            yield f"stores a list of {names}", stored._replace(drivers=_with(w.drivers, d, after))
        if me.is_stored or not self.rules.stores_lists_first:
            yield f"numbers {names}", self._appended(w, d, Slot("DISCOVER", d, me.found))

    def _indexes(
        self, w: World, d: int, me: Driver, known: frozenset[Version]
    ) -> Iterator[tuple[str, World | Harm]]:
        feed = folded(w.slots[: me.view]).feeds[TP]
        if feed.end and not feed.known:
            text = f"stores that {', '.join(map(str, sorted(known)))} are known"
            yield text, self._appended(w, d, Slot("DISCOVER", d, known=known), found=me.found)

    def _lands(
        self, w: World, d: int, me: Driver, version: Version
    ) -> Iterator[tuple[str, World | Harm]]:
        there = next((found for found in w.bucket if found.name == version.name), None)
        is_there = there == version or (there and not self.rules.reads_pinned)
        hole = Slot("HOLE" if self.rules.remembers_parked else "SKIP", d)
        if is_there and there:
            landed_ = Slot("COMMIT", d, (there,))
            yield f"lands {version}", self._appended(w, d, landed_, found=me.found)
        else:
            yield f"parks {version}", self._appended(w, d, hole, found=me.found)
        if w.may_fail:
            calm = w._replace(may_fail=False)
            text = f"cannot read {version}, and parks it"
            yield text, self._appended(calm, d, hole, found=me.found)

    def _returns(
        self, w: World, d: int, me: Driver, feed: FeedState
    ) -> Iterator[tuple[str, World | Harm]]:
        """What is parked gets another number, or is given up for another version."""
        for number in feed.parked:
            version = numbered(w.slots[: me.view])[number]
            if w.may_give_up:
                slot = Slot("DISCOVER", d, ignored=(number,))
                if not self.rules.remembers_given_up:
                    slot = Slot("DISCOVER", d, again=(number,))
                text, decided = f"gives up {version}, as asked", w._replace(may_give_up=False)
                yield text, self._appended(decided, d, slot, found=me.found)
            if version in w.bucket:
                slot = Slot("DISCOVER", d, (version,), again=(number,))
                stored = w._replace(lists=w.lists | {(version,)})
                text = f"numbers {version} again"
                yield text, self._appended(stored, d, slot, found=me.found)
            else:
                slot = Slot("DISCOVER", d, again=(number,))
                yield f"gives up {version}, replaced", self._appended(w, d, slot, found=me.found)

    def _appended(
        self, w: World, d: int, slot: Slot, found: Versions | None = None
    ) -> World | Harm:
        """The world with one more record, unless another driver's is in its place."""
        me = w.drivers[d]
        if len(w.slots) != me.view:
            left = Driver() if self.rules.lists_after_opening else me._replace(view=0)
            return w._replace(drivers=_with(w.drivers, d, left))
        slots = (*w.slots, slot)
        try:
            folded(slots)
        except Stalled:
            return Harm.REFUSED
        after = Driver(len(slots), found, me.is_stored and found is not None)
        return w._replace(slots=slots, drivers=_with(w.drivers, d, after))


def _with(drivers: tuple[Driver, ...], number: int, driver: Driver) -> tuple[Driver, ...]:
    return (*drivers[:number], driver, *drivers[number + 1 :])


@cache
def unlanded(
    rules: Rules, slots: tuple[Slot, ...], bucket: frozenset[Version], lists: frozenset[Versions]
) -> frozenset[Version]:
    """What is not landed once a new driver has gone on alone, and nothing has gone wrong."""
    alone = World(slots, bucket, lists=lists)
    steps = Steps(rules)
    for _ in range(MAX_STEPS_ALONE):
        useful = (after for text, after in steps.all(alone) if text.startswith("D1"))
        moved = [w for w in useful if isinstance(w, World) and not _is_index(w, alone)]
        if not moved:
            break
        alone = moved[0]
    return bucket - {*landed(alone.slots)} - given_up(alone.slots)


def _is_index(after: World, before: World) -> bool:
    return len(after.slots) > len(before.slots) and after.slots[-1].known is not None


def harm_of(rules: Rules, w: World) -> Harm | None:
    """What is wrong with a state, or will be if nothing else goes wrong."""
    done = landed(w.slots)
    if len(done) != len({*done}):
        return Harm.TWICE
    passed = [slot for slot in w.slots if slot.kind in {"COMMIT", "HOLE", "SKIP"}]
    for slot, version in zip(passed, numbered(w.slots), strict=False):
        if slot.kind == "COMMIT" and slot.versions != (version,):
            return Harm.TORN
    if any(slot.versions and slot.versions not in w.lists for slot in _discovers(w.slots)):
        return Harm.UNREADABLE
    counts = counted(w.slots, follows_numbers=rules.counts_by_first_number)
    if counts != {version: int(version in done) for version in counts}:
        return Harm.MISCOUNTED
    return Harm.LOST if unlanded(rules, w.slots, w.bucket, w.lists) else None


def _discovers(slots: tuple[Slot, ...]) -> Iterator[Slot]:
    return (slot for slot in slots if slot.kind == "DISCOVER")


def search(rules: Rules, world: str) -> Result:
    """Search every state that may follow in a world, the nearest first."""
    return explore(WORLDS[world], Steps(rules).all, partial(harm_of, rules))


class Variant(NamedTuple):
    """Drivers without one rule, and what comes of it."""

    instead: str
    rules: Rules
    harm: Harm = Harm.LOST
    world: str = "a late name"


VARIANTS: Mapping[str, Variant] = {
    "remembers-a-name": Variant(
        "a driver only lists names after the greatest one that it knows",
        Rules(lists_all_names=False),
    ),
    "reads-what-is-there": Variant(
        "a task reads whatever version of the file is there",
        Rules(reads_pinned=False),
        Harm.TORN,
        "a file that is written anew",
    ),
    "names-lists-unstored": Variant(
        "a DISCOVER names a list before it is stored",
        Rules(stores_lists_first=False),
        Harm.UNREADABLE,
    ),
    "believes-stored-lists": Variant(
        "what is in a stored list counts as known, whether a DISCOVER names it or not",
        Rules(knows_by_records=False),
    ),
    "forgets-parked-parts": Variant(
        "a HOLE takes a part out without remembering that it was not landed",
        Rules(remembers_parked=False),
    ),
    "forgets-what-was-given-up": Variant(
        "a part that somebody gives up leaves the state, as one whose file was written anew",
        Rules(remembers_given_up=False),
        world="a file that is given up",
    ),
    "knows-ahead": Variant(
        "the index of known files has files that no DISCOVER has numbered yet",
        Rules(knows_what_is_recorded=False),
    ),
    "lists-before-opening": Variant(
        "a driver numbers what it listed before it opened the lane",
        Rules(lists_after_opening=False),
        Harm.TWICE,
        "three owners",
    ),
    "counts-by-last-number": Variant(
        "the rows of a part that is tried again are counted under the number that it has then",
        Rules(counts_by_first_number=False),
        Harm.MISCOUNTED,
    ),
}


def main() -> int:
    """Check the rules, then show what each of them prevents."""
    return show(
        "Files that two drivers discover, in every order of their steps",
        {world: partial(search, Rules(), world) for world in WORLDS},
        VARIANTS,
        lambda variant: search(variant.rules, variant.world),
    )


if __name__ == "__main__":
    sys.exit(main())
