"""Publishers of one ledger: any number of them, killed, frozen and late anywhere.

    python -m tests.model.publishing [--large]

A **ledger** is what a driver may have written, slot after slot, while publishers run; what each
slot calls visible is worked out by ``landfall.ledger`` itself. A **table** keeps its rows and the
position through which it has them, and takes a change only from who has loaded it as it is. A
**publisher** reads its cursor, then the ledger from there to its end, and then for each table with
objects in between: loads it, leaves out what it has, and commits. At last it writes its cursor.
Somebody may drop a table, which is then made anew without rows and without position.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from tests.model.exploring import Result, explore, show
from tests.model.publishing_ledgers import (
    BEGUN,
    LEDGERS,
    TOPICS,
    Ledger,
    named_between,
    shown,
    visible_between,
)

TABLES = len(TOPICS)
MAX_STEPS_ALONE = 30
"""Steps after which a publisher that runs undisturbed has published everything."""


class Harm(StrEnum):
    """What must never be."""

    TWICE = "a table has the rows of an object twice"
    UNDECIDED = "a table has rows of an object that is not visible"
    LOST = "a publisher that runs undisturbed leaves out an object"


@dataclass(frozen=True, slots=True)
class Rules:
    """What publishers do; a variant differs in one rule."""

    counts_every_slot: bool = True
    keeps_position_with_rows: bool = True
    leaves_out_what_is_there: bool = True
    loads_again: bool = True
    looks_for_dropped: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """The rows, by object, sorted; the position; and how often it was changed."""

    rows: tuple[int, ...] = ()
    through: int = -1
    version: int = 0


class Cursor(NamedTuple):
    """The hint in the store: the position, and for each table the last slot with objects of it."""

    through: int = -1
    last: tuple[int, ...] = (-1,) * TABLES


NOWHERE = Cursor()


@dataclass(frozen=True, slots=True)
class Publisher:
    """Where a publisher is.

    Attributes:
        at: the number of the next table, or ``BEGIN`` or ``CURSOR``.
        cursor: as it was read.
        through: the end of the ledger when that was read.
        loaded: the next table, once it is loaded.
    """

    at: int
    cursor: Cursor = NOWHERE
    through: int = -1
    loaded: Table | None = None


BEGIN, CURSOR = -1, TABLES
NEW = Publisher(BEGIN)


@dataclass(frozen=True, slots=True)
class World:
    """Everything there is; ``drops`` is how many tables may still be dropped."""

    slots: int
    tables: tuple[Table, ...] = (Table(),) * TABLES
    cursor: Cursor = NOWHERE
    publishers: tuple[Publisher, ...] = (NEW, NEW)
    drops: int = 0


Event = tuple[str, World]


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules, chain: Ledger) -> None:
        self.rules, self.chain = rules, chain

    def all(self, w: World) -> Iterator[Event]:
        """The steps of everybody."""
        if w.slots < len(self.chain.slots):
            record = type(self.chain.slots[w.slots].record).__name__.upper()
            applied = self.chain.slots[w.slots].applied
            text = f"the driver appends {record} in slot {w.slots}, applied through {applied}"
            yield text, replace(w, slots=w.slots + 1)
        for i in range(TABLES) if w.drops else ():
            tables = _put(w.tables, i, Table(version=w.tables[i].version + 1))
            yield f"somebody drops table {i}", replace(w, tables=tables, drops=w.drops - 1)
        for p, me in enumerate(w.publishers):
            if step := self.of(w, p):
                yield f"publisher {p} {step[0]}", step[1]
            if me != NEW:
                yield f"publisher {p} is killed", _as(w, p, NEW)

    def of(self, w: World, p: int) -> Event | None:
        """The next step of a publisher; None if it has nothing to do."""
        me = w.publishers[p]
        if me.at == BEGIN:
            if not self._is_due(w):
                return None
            begun = Publisher(0, w.cursor, w.slots - 1)
            return f"reads slots {w.cursor.through + 1} to {w.slots - 1}", _as(w, p, begun)
        if me.at == CURSOR:
            return "writes its cursor", replace(_as(w, p, NEW), cursor=self._cursor(me))
        if me.loaded is None:
            return f"loads table {me.at}", _as(w, p, replace(me, loaded=w.tables[me.at]))
        return self._commit(w, p, me.loaded)

    def _is_due(self, w: World) -> bool:
        through = self._position(w.slots - 1)
        dropped = (t.through < last for t, last in zip(w.tables, w.cursor.last, strict=True))
        return through > w.cursor.through or (self.rules.looks_for_dropped and any(dropped))

    def _commit(self, w: World, p: int, loaded: Table) -> Event:
        me = w.publishers[p]
        table, after = w.tables[me.at], me.cursor.through
        onward = replace(me, at=me.at + 1, loaded=None)
        if self.rules.leaves_out_what_is_there:
            after = max(after, loaded.through)
        if self.rules.looks_for_dropped and loaded.through < me.cursor.last[me.at]:
            after = loaded.through
        objects = self._between(after, me.through, me.at)
        if not objects:
            return f"has nothing for table {me.at}", _as(w, p, onward)
        if table.version != loaded.version:
            if self.rules.loads_again:
                return f"finds table {me.at} changed", _as(w, p, replace(me, loaded=None))
            loaded = table
        position = self._position(me.through) if self.rules.keeps_position_with_rows else -1
        rows = tuple(sorted((*table.rows, *objects)))
        made = Table(rows, max(position, loaded.through), table.version + 1)
        after_it = _as(replace(w, tables=_put(w.tables, me.at, made)), p, onward)
        return f"commits {shown(self.chain, objects)} to table {me.at}", after_it

    def _position(self, last: int) -> int:
        return last if self.rules.counts_every_slot else self.chain.slots[last].applied

    def _between(self, after: int, through: int, table: int) -> tuple[int, ...]:
        between = visible_between if self.rules.counts_every_slot else named_between
        return between(self.chain, after, through, table)

    def _cursor(self, me: Publisher) -> Cursor:
        """Where a publisher is that has published what it has read."""
        through = self._position(me.through)
        last = [
            max(
                (s for s in range(through + 1) if visible_between(self.chain, s - 1, s, i)),
                default=-1,
            )
            for i in range(TABLES)
        ]
        return Cursor(through, tuple(last))


def _as(w: World, p: int, me: Publisher) -> World:
    return replace(w, publishers=_put(w.publishers, p, me))


def _put(items: tuple, index: int, item: object) -> tuple:  # type: ignore[type-arg]  # of any items
    return (*items[:index], item, *items[index + 1 :])


def search(rules: Rules, chain: Ledger, drops: int = 0) -> Result:
    """Search every state that may follow, the nearest first."""
    steps = Steps(rules, chain)
    return explore(World(BEGUN, drops=drops), steps.all, partial(_harm, steps))


def _harm(steps: Steps, w: World) -> Harm | None:
    visible = {n for i in range(TABLES) for n in visible_between(steps.chain, -1, w.slots - 1, i)}
    rows = [number for table in w.tables for number in table.rows]
    if len({*rows}) != len(rows):
        return Harm.TWICE
    if not visible.issuperset(rows):
        return Harm.UNDECIDED
    end = replace(w, publishers=(NEW,) * len(w.publishers))
    for _ in range(MAX_STEPS_ALONE):
        if (step := steps.of(end, 0)) is None:
            break
        end = step[1]
    left = visible.difference(number for table in end.tables for number in table.rows)
    return Harm.LOST if left else None


class Variant(NamedTuple):
    """Publishers without one rule, the ledger that shows it, and what comes of it."""

    instead: str
    rules: Rules
    ledger: str
    harm: Harm
    drops: int = 0


VARIANTS: Mapping[str, Variant] = {
    "counts-commits": Variant(
        "the position is the last COMMIT that is applied, not the last slot that was read",
        Rules(counts_every_slot=False),
        "an object made again",
        Harm.TWICE,
    ),
    "position-apart": Variant(
        "a table does not keep the position in the transaction of its rows",
        Rules(keeps_position_with_rows=False),
        "COMMITs",
        Harm.TWICE,
    ),
    "trusts-cursor": Variant(
        "the cursor decides what is new for a table, not the table's position",
        Rules(leaves_out_what_is_there=False),
        "COMMITs",
        Harm.TWICE,
    ),
    "retries-blindly": Variant(
        "a table that was changed meanwhile is committed to without loading it again",
        Rules(loads_again=False),
        "COMMITs",
        Harm.TWICE,
    ),
    "dropped-unseen": Variant(
        "nobody looks whether a table has less than the cursor says",
        Rules(looks_for_dropped=False),
        "COMMITs",
        Harm.LOST,
        drops=1,
    ),
}


def main(*, large: bool = False) -> int:
    """Check the rules on every ledger, then show what each of them prevents.

    Args:
        large: whether somebody drops a table meanwhile, which takes minutes.
    """
    worlds = {
        f"{name}, {drops} dropped": partial(search, Rules(), LEDGERS[name], drops)
        for drops in range(2 if large else 1)
        for name in LEDGERS
    }
    return show(
        "Publishers, any number of them, killed, frozen and late anywhere",
        worlds,
        VARIANTS,
        lambda variant: search(variant.rules, LEDGERS[variant.ledger], variant.drops),
    )


if __name__ == "__main__":
    sys.exit(main(large="--large" in sys.argv))
