"""Runs of closed ranges: every order in which a driver lands two of them and is gone in between.

    python -m tests.model.runs

A **log** has a few records of one topic, which Kafka dates before or after the end of a range; one
of them is in a transaction that is open at first, one is dated ahead of everybody's clock, and one
is in a Kafka partition that the ledger does not have yet. A **driver** lands them and completes
their uploads in any order. At any time it looks at the log, and decides by
``landfall.driver.decide.closed_range`` where the range ends. Once it has written RUN, it is gone
until the next range is due. A **reader** takes a topic for complete as the ledger says.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import NamedTuple

from landfall import ledger
from landfall.driver.decide.closed_range import (
    PartitionsInLog,
    RangeLook,
    closed_topics,
    range_ends,
)
from landfall.errors import Stalled
from landfall.ledger import Header, Record, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload
from landfall.source import DatedOffset
from tests.model.exploring import Result, explore, show

DATES = ((99, 3), (1, 5), (1,))
"""When Kafka dates the records, by Kafka partition and offset."""
TPS = tuple(TopicPartition("a", number) for number in range(len(DATES)))
IN_TRANSACTION, LATER = (1, 0), 2
RANGES = (4, 8)
"""Where the ranges end."""
LOOKED = 9
"""When the driver looks; a record dated later is ahead of its clock."""


class Harm(StrEnum):
    """What must never be."""

    INCOMPLETE = "a reader takes the topic for complete, and a record before is not visible"
    FORGOTTEN = "nobody is there to make an object visible that is committed"
    REFUSED = "the driver writes what the ledger refuses"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the driver does; a variant differs in one rule."""

    sees_transactions: bool = True
    sees_new_partitions: bool = True
    doubts_dates_ahead: bool = True
    waits_until_applied: bool = True
    lands_to_the_end: bool = True


Number = tuple[int, int]
"""A record, and its object: the Kafka partition and the offset."""
Slot = tuple[str, object, int]
"""The type of a record, what it is about, and through which slot the driver says all is applied."""


class World(NamedTuple):
    """Everything there is.

    Attributes:
        slots: what the driver has appended.
        visible: objects.
        is_open: whether the transaction is.
        is_gone: whether the driver is, until the next range is due.
    """

    slots: tuple[Slot, ...] = ()
    visible: frozenset[Number] = frozenset()
    is_open: bool = True
    is_gone: bool = False


WORLD = World()
CALM = World(slots=(("ADD", None, -1),), is_open=False)
"""The transaction is committed, and the ledger has all Kafka partitions."""


@cache
def folded(slots: tuple[Slot, ...]) -> State:
    """The state after these slots."""
    if not slots:
        return _begun()
    (kind, about, applied), state = slots[-1], folded(slots[:-1])
    header = ledger.next_header(state, "w", "t", applied)
    return ledger.fold(state, ledger.encode(_record(header, kind, about)))


def _begun() -> State:
    opening = Header(0, ledger.GENESIS_HASH, 1, "w", "t")
    made = ledger.Open(header=opening, group="g", lane="0", generation=1, software="0")
    state = ledger.fold(State(), ledger.encode(made))
    entries = tuple(ledger.Entry(tp, "id", 0) for tp in TPS[:LATER])
    header = ledger.next_header(state, "w", "t", -1)
    return ledger.fold(state, ledger.encode(ledger.Add(header=header, entries=entries)))


def _record(header: Header, kind: str, about: object) -> Record:
    match kind, about:
        case "RUN", (int() as until, tuple() as topics):
            return ledger.Run(header=header, until=until, began="t", topics=topics)
        case "ADD", _:
            return ledger.Add(header=header, entries=(ledger.Entry(TPS[LATER], "id", 0),))
        case "COMMIT", (int() as partition, int() as offset):
            key = object_names.ObjectName("a", "d", 1, partition, offset, "").key
            upload = Upload(key, "u", (Part("e", 1),), "t")
            data = LandedObject(upload, ObjectKind.DATA, 1, offset, offset, 0)
            piece = Slice(TPS[partition], OffsetRange(offset, offset + 1))
            landed = LandedSlice(piece, (data,), 1, 0, 0, 0, 1)
            return ledger.Commit(header=header, token="t", slices=(landed,))
    raise AssertionError(kind)


def _due(state: State) -> Iterator[tuple[int, Number]]:
    for slot, objects in state.unapplied.items():
        for landed in objects:
            name = object_names.parse_key(landed.upload.key)
            yield slot, (name.partition, name.start)


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        """The steps of the driver and of what happens to it."""
        state = folded(w.slots)
        if w.is_open:
            yield "the transaction is committed", w._replace(is_open=False)
        if w.is_gone:
            if len(state.runs) < len(RANGES):
                yield "the next range is due", w._replace(is_gone=False)
            return
        if TPS[LATER] not in state.members:
            yield "the new Kafka partition enters", self._appended(w, "ADD", None)
        yield from self._lands(w, state)
        yield from self._ends(w, state)

    def _lands(self, w: World, state: State) -> Iterator[tuple[str, World]]:
        for tp in state.members:
            number = (tp.partition, state.checkpoint[tp])
            is_held_back = w.is_open and number == IN_TRANSACTION
            if number[1] < len(DATES[tp.partition]) and not is_held_back:
                yield f"lands {tp} at {number[1]}", self._appended(w, "COMMIT", number)
        for _, number in _due(state):
            if number not in w.visible:
                text = f"completes {number[0]}/{number[1]}"
                yield text, w._replace(visible=w.visible | {number})

    def _ends(self, w: World, state: State) -> Iterator[tuple[str, World | Harm]]:
        until = RANGES[len(state.runs)]
        ends = range_ends(self._look(w, until))
        if not self.rules.lands_to_the_end:
            ends = dict(state.checkpoint.next_offsets)
        found = TPS if self.rules.sees_new_partitions else tuple(state.members)
        topics, left = closed_topics(state, ends, PartitionsInLog(found), lambda _: until)
        is_applied = _applied(w, state) == state.seq or not self.rules.waits_until_applied
        if left or not is_applied:
            return
        text = f"ends the run until {until}"
        try:
            after = self._appended(w, "RUN", (until, topics))
            folded(after.slots)
        except Stalled:
            yield text, Harm.REFUSED
        else:
            yield text, after._replace(is_gone=True)

    def _look(self, w: World, until: int) -> RangeLook:
        high = {tp: len(DATES[tp.partition]) for tp in TPS}
        ends = dict(high)
        if w.is_open:
            ends[TPS[IN_TRANSACTION[0]]] = IN_TRANSACTION[1]
        if not self.rules.sees_transactions:
            high = ends
        first = {tp: _first_from(until, tp, end) for tp, end in ends.items()}
        now = LOOKED if self.rules.doubts_dates_ahead else max(map(max, DATES))
        return RangeLook(now, high, ends, first)

    def _appended(self, w: World, kind: str, about: object) -> World:
        return w._replace(slots=(*w.slots, (kind, about, _applied(w, folded(w.slots)))))


def _first_from(until: int, tp: TopicPartition, end: int) -> DatedOffset | None:
    dates = enumerate(DATES[tp.partition][:end])
    return next((DatedOffset(offset, date) for offset, date in dates if date >= until), None)


def _applied(w: World, state: State) -> int:
    """Through which slot everything is visible."""
    waiting = [slot for slot, number in _due(state) if number not in w.visible]
    return min(waiting, default=state.seq + 1) - 1


def harm_of(w: World) -> Harm | None:
    """What is wrong with a state: what a reader takes for complete is not, or is forgotten."""
    state = folded(w.slots)
    until = state.horizons.get("a", -1)
    for partition, dates in enumerate(DATES):
        for offset, date in enumerate(dates):
            if date < until and (partition, offset) not in w.visible:
                return Harm.INCOMPLETE
    if w.is_gone and any(number not in w.visible for _, number in _due(state)):
        return Harm.FORGOTTEN
    return None


def search(rules: Rules, begin: World = WORLD, *, seen: list[int] | None = None) -> Result:
    """Search every state that may follow, the nearest first.

    Args:
        rules: what the driver does.
        begin: the first state.
        seen: gets the number of runs of each state that has some.
    """

    def harm(world: World) -> Harm | None:
        if seen is not None and (runs := folded(world.slots).runs):
            seen.append(len(runs))
        return harm_of(world)

    return explore(begin, Steps(rules).all, harm)


class Variant(NamedTuple):
    """A driver without one rule, and what comes of it."""

    instead: str
    rules: Rules
    harm: Harm = Harm.INCOMPLETE
    begin: World = CALM


VARIANTS: Mapping[str, Variant] = {
    "ends-in-transactions": Variant(
        "a range ends where the log ends, though a transaction holds records back",
        Rules(sees_transactions=False),
        begin=WORLD,
    ),
    "unknown-partitions": Variant(
        "a Kafka partition that is not in the ledger has nothing of the range",
        Rules(sees_new_partitions=False),
        begin=WORLD,
    ),
    "believes-any-date": Variant(
        "a range ends at a record that is dated ahead of the driver's clock",
        Rules(doubts_dates_ahead=False),
    ),
    "ends-where-it-is": Variant(
        "a range ends where the driver happens to be",
        Rules(lands_to_the_end=False),
    ),
    "ends-at-the-commit": Variant(
        "a run ends once all is committed, before it is visible",
        Rules(waits_until_applied=False),
        Harm.REFUSED,
    ),
}


def main() -> int:
    """Check the rules, then show what each of them prevents."""
    return show(
        "Runs of closed ranges, in every order of landing and completing",
        {"two ranges": partial(search, Rules())},
        VARIANTS,
        lambda variant: search(variant.rules, variant.begin),
    )


if __name__ == "__main__":
    sys.exit(main())
