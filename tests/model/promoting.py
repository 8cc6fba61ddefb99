"""Backfills that are promoted, undone and overlap, beside replays of dead letters.

    python -m tests.model.promoting

The live lane has a **dead letter**, a row in an object, and a row that bad code filtered. A
**first** backfill lands the ranges of all three again, and has no row of the object's any more. A
**second** one lands one of the ranges again, planned at any time, into a folder of its own. Plans
are made of what is applied, and recorded as late as one likes, if the ledger lets them. What they
did may be undone, and that again. The dead letter, and those that take its place, may be
**replayed** at any time. The store may lose an upload of the first one before it is applied: then
a REPLACE **instead** of it names copies of what was to retire.

``tests.model.replacing`` shows how objects are completed and deleted. Here it matters what the
ledger decides: each row must count once, however plans and replays race.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import NamedTuple

from tests.model.exploring import Result, explore, show


class Harm(StrEnum):
    """What must never be."""

    TWICE = "the ledger counts a row twice"
    MISSING = "the ledger counts the dead letter's record nowhere"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the ledger refuses; a variant differs in one rule."""

    remembers_ranges: bool = True
    knows_replays: bool = True
    undoes_what_counts: bool = True
    undoes_no_replayed: bool = True
    replays_what_counts: bool = True
    replays_what_is_applied: bool = True


RANGES = "ABC"
"""``A`` has the dead letter, ``B`` the object, and ``C`` the filtered row."""
OLD = frozenset({"letters A", "old B"})
UNDOINGS = 2
"""How often something is undone, that again, and so on."""
FIRST, SECOND, INSTEAD = "the first backfill", "the second backfill", "copies instead of the first"


class Plan(NamedTuple):
    """What a record says.

    Attributes:
        name: of it.
        retire: objects that do not count any more.
        new: objects that do.
        ranges: which are landed again, or as before; none of a replay.
        read: how many records were applied for who planned it.
        undoes: the place of the record that it undoes; -1 for none.
    """

    name: str
    retire: frozenset[str]
    new: frozenset[str]
    ranges: str
    read: int
    undoes: int = -1

    @property
    def folders(self) -> frozenset[str]:
        """Where its objects are: each backfill has a folder of its own for each range."""
        return frozenset(_folder(name) for name in self.retire | self.new)


Record = Plan | int
"""A REPLACE or REPLAY; or through how many records all is applied."""


class World(NamedTuple):
    """Everything there is.

    Attributes:
        second: which range the second backfill lands again.
        slots: the ledger.
        plans: what is planned and not recorded.
    """

    second: str
    slots: tuple[Record, ...] = ()
    plans: frozenset[Plan] = frozenset()


WORLDS = {f"the second one lands {each} again": World(each) for each in RANGES}


def _folder(name: str) -> str:
    whose = next((w for w in ("first", "second") if w in name), "old")
    return f"{whose}{name[-1]}" if "letters" not in name else "letters"


@dataclass(frozen=True)
class Folded:
    """What the ledger says.

    Attributes:
        decided: the objects that count once all is applied.
        current: the objects that count for readers.
        applied: how many records are applied.
        contents: by range, the place of the backfill whose rows it has; -1 for those of the lane.
        last: by range, the place of the record that was the last to change its rows.
        letters: by range, the dead letters that this record has made; those of the lane at first.
        replays: by range, the places of REPLAYs.
        replayed: the objects that they read.
        folders: by folder, the place of the last REPLACE.
    """

    decided: tuple[str, ...]
    current: tuple[str, ...]
    applied: int
    contents: Mapping[str, int]
    last: Mapping[str, int]
    letters: Mapping[str, frozenset[str]]
    replays: Mapping[str, int]
    replayed: frozenset[str]
    folders: Mapping[str, int]


@cache
def folded(slots: tuple[Record, ...]) -> Folded:
    """What these slots say."""
    decided, current, applied = [*sorted(OLD)], tuple(sorted(OLD)), 0
    last, letters = dict[str, int](), {"A": frozenset({"letters A"})}
    replays, folders, replayed = dict[str, int](), dict[str, int](), set[str]()
    for place, record in enumerate(slots):
        if isinstance(record, int):
            applied, current = record, tuple(decided)
            continue
        decided = [each for each in decided if each not in record.retire] + sorted(record.new)
        if not record.ranges:
            replayed |= record.retire
            replays["A"] = place
            continue
        folders |= dict.fromkeys(record.folders, place)
        last |= dict.fromkeys(record.ranges, place)
        if "A" in record.ranges:
            letters["A"] = frozenset(each for each in record.new if "letters" in each)
    return Folded(
        tuple(decided),
        current,
        applied,
        {each: _content_of(slots, len(slots) - 1, each) for each in RANGES},
        last,
        letters,
        replays,
        frozenset(replayed),
        folders,
    )


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World]]:
        """Plans are made, and recorded; all is applied; an upload is lost; letters are replayed."""
        now = folded(w.slots)
        known = {each.name for each in (*w.slots, *w.plans) if isinstance(each, Plan)}
        for plan in self._planned(w, now):
            if plan.name not in known:
                yield f"plans {plan.name}", w._replace(plans=w.plans | {plan})
        for plan in sorted(w.plans):
            if not self.refuses(now, plan):
                after = w._replace(plans=w.plans - {plan})
                yield f"records {plan.name}", _appended(after, plan)
        for plan in (*self._replays(w, now), *self._instead(w, now)):
            if plan.name not in known:
                yield f"records {plan.name}", _appended(w, plan)
        if now.applied < len(w.slots) and isinstance(w.slots[-1], Plan):
            yield "records that all is applied", _appended(w, len(w.slots))

    # ----------------------------------------------------------------------------------- what may

    def refuses(self, now: Folded, plan: Plan) -> bool:
        """Whether the ledger refuses a REPLACE."""
        rules = self.rules
        if any(now.folders.get(folder, -1) >= plan.read for folder in plan.folders):
            return True
        changed = [now.last.get(each, -1) for each in plan.ranges]
        if rules.remembers_ranges and max(changed) >= plan.read:
            return True
        replays = [now.replays.get(each, -1) for each in plan.ranges]
        return rules.knows_replays and max(replays) >= plan.read

    def _planned(self, w: World, now: Folded) -> Iterator[Plan]:
        """Backfills by what counts for readers; what undoes something by what that has done."""
        first = {"first letters A", "first C"}
        for name, ranges, new in (
            (FIRST, RANGES, first),
            (SECOND, w.second, {f"second{' letters' * (w.second == 'A')} {w.second}"}),
        ):
            if not self._waits(w, now, ranges):
                retire = frozenset(each for each in now.current if each[-1] in ranges)
                yield Plan(name, retire, frozenset(new), ranges, now.applied)
        for place, record in enumerate(w.slots[: now.applied]):
            is_replace = isinstance(record, Plan) and record.ranges and record.name != INSTEAD
            if isinstance(record, Plan) and is_replace and record.name.count("undoing") < UNDOINGS:
                made = {_content(each) for each in record.new}
                if self.rules.undoes_no_replayed and made & {*map(_content, now.replayed)}:
                    continue
                # That letters were replayed, no REPLACE says.
                there = {*now.current} | now.replayed
                counting = frozenset(each for each in there if _content(each) in made)
                counts = len(counting) == len(made) and all(
                    now.contents[each] == _content_of(w.slots, place, each)
                    for each in record.ranges
                )
                waits = self._waits(w, now, record.ranges)
                if waits or (self.rules.undoes_what_counts and not counts):
                    continue
                back = frozenset(f"{_copied(each)}' {each[-1]}" for each in record.retire)
                name = f"the undoing of {record.name}"
                yield Plan(name, counting, back, record.ranges, now.applied, place)

    def _waits(self, w: World, now: Folded, ranges: str) -> bool:
        """Whether something of these ranges is not applied yet."""
        pending = [each for each in w.slots[now.applied :] if isinstance(each, Plan)]
        return any({*(each.ranges or "A")} & {*ranges} for each in pending)

    def _replays(self, w: World, now: Folded) -> Iterator[Plan]:
        """Every dead letter that there ever was may be replayed, as far as the ledger lets it."""
        named = OLD.union(*(each.new for each in w.slots if isinstance(each, Plan)))
        for each in sorted(each for each in named if "letters" in each and "rows" not in each):
            is_last = each in now.letters["A"]
            is_applied = now.last.get("A", -1) < now.applied
            if each in now.replayed or (self.rules.replays_what_counts and not is_last):
                continue
            if self.rules.replays_what_is_applied and not is_applied:
                continue
            new = frozenset({f"rows of {each}"})
            yield Plan(f"the replay of {each}", frozenset({each}), new, "", 0)

    def _instead(self, w: World, now: Folded) -> Iterator[Plan]:
        for place, record in enumerate(w.slots):
            if isinstance(record, Plan) and record.name == FIRST and place >= now.applied:
                kept = frozenset(f"{_copied(each)}* {each[-1]}" for each in record.retire)
                yield Plan(INSTEAD, record.retire | record.new, kept, RANGES, place)


def _content(name: str) -> str:
    """What an object has, whatever it is a copy of."""
    return name.replace("'", "").replace("*", "")


@cache
def _content_of(slots: tuple[Record, ...], place: int, range_: str) -> int:
    """The place of the backfill whose rows a range has after a record; -1 for none."""
    for at in range(place, -1, -1):
        record = slots[at]
        if isinstance(record, Plan) and range_ in record.ranges:
            if record.name == INSTEAD:
                return _content_of(slots, record.read - 1, range_)
            if record.undoes >= 0:
                return _content_of(slots, record.undoes - 1, range_)
            return at
    return -1


def _copied(name: str) -> str:
    return name.rpartition(" ")[0]


def _appended(w: World, record: Record) -> World:
    return w._replace(slots=(*w.slots, record))


def harm_of(w: World) -> Harm | None:
    """What is wrong with what counts."""
    counted = Counter(each[-1] for each in folded(w.slots).decided)
    if max(counted.values(), default=0) > 1:
        return Harm.TWICE
    return None if counted["A"] else Harm.MISSING


def search(rules: Rules, begin: World, *, seen: set[str] | None = None) -> Result:
    """Search every state that may follow, the nearest first; ``seen`` gets what was applied."""

    def harm(world: World) -> Harm | None:
        if seen is not None:
            now = folded(world.slots)
            seen.update(r.name for r in world.slots[: now.applied] if isinstance(r, Plan))
        return harm_of(world)

    return explore(begin, Steps(rules).all, harm)


class Variant(NamedTuple):
    """A ledger without one rule, and what comes of it."""

    instead: str
    rules: Rules
    second: str
    harm: Harm = Harm.TWICE


VARIANTS: Mapping[str, Variant] = {
    "forgets-ranges": Variant(
        "a plan is only refused for folders of which objects were replaced since",
        Rules(remembers_ranges=False),
        "C",
    ),
    "promotes-over-a-replay": Variant(
        "a backfill is recorded though dead letters of its ranges were replayed since its plan",
        Rules(knows_replays=False),
        "C",
    ),
    "undoes-what-does-not-count": Variant(
        "a backfill is undone though another one has landed some of its ranges again",
        Rules(undoes_what_counts=False),
        "B",
    ),
    "undoes-what-was-replayed": Variant(
        "a backfill is undone though its dead letters were replayed",
        Rules(undoes_no_replayed=False),
        "C",
    ),
    "replays-what-has-retired": Variant(
        "dead letters are replayed that a backfill has landed again",
        Rules(replays_what_counts=False),
        "C",
    ),
    "replays-what-is-not-applied": Variant(
        "dead letters of a backfill are replayed before it is applied",
        Rules(replays_what_is_applied=False),
        "C",
    ),
}


def main() -> int:
    """Check the rules, then show what each of them prevents."""
    return show(
        "Backfills that are promoted, undone and overlap, beside replays",
        {name: partial(search, Rules(), begin) for name, begin in WORLDS.items()},
        VARIANTS,
        lambda variant: search(variant.rules, World(variant.second)),
    )


if __name__ == "__main__":
    sys.exit(main())
