"""Complete hours: every order in which a driver lands, loses, repairs and finalizes.

    python -m tests.model.finalizing

A **log** has a few records of one topic, all written before anybody looks; one of them is in a
transaction that is open at first, and one in a Kafka partition that the ledger does not have yet. A
**driver** lands them one by one and completes their uploads in any order; one upload may be lost,
and is then named as missing, made again or given up. At any time it looks at the log, and decides
by ``landfall.driver.decide.completeness`` whether the topic is complete up to a later time. What it
writes is folded by ``landfall.ledger``. A **reader** follows the ledger.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from typing import NamedTuple

from msgspec.structs import replace

from landfall import ledger
from landfall.driver.decide.completeness import LogLook, horizons
from landfall.errors import Reason, Stalled
from landfall.ledger import Header, Record, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload
from tests.model.exploring import Result, explore, show

TIMES = ((3,), (1,), (1,))
"""The event times of the records, by Kafka partition and offset."""
TPS = tuple(TopicPartition("a", number) for number in range(len(TIMES)))
IN_TRANSACTION, LATER = (1, 0), 2
DELAY, LOOKED = 1, 9
MAX_FINALIZED = 2


class Harm(StrEnum):
    """What must never be."""

    INCOMPLETE = "a reader takes the topic for complete, and a record before is not visible"
    REFUSED = "the driver writes what the ledger refuses"


@dataclass(frozen=True, slots=True)
class Rules:
    """What driver and reader do; a variant differs in one rule."""

    waits_until_applied: bool = True
    waits_for_missing: bool = True
    waits_for_repairs: bool = True
    counts_the_furthest_behind: bool = True
    sees_transactions: bool = True
    sees_new_partitions: bool = True


Number = tuple[int, int]
"""A record, and its object: the Kafka partition and the offset."""


class World(NamedTuple):
    """Everything there is.

    Attributes:
        slots: what the driver has appended, with what it said was applied.
        visible: objects.
        lost: objects whose upload is gone.
        is_open: whether the transaction is.
        losses: how many uploads may still be lost.
    """

    slots: tuple[tuple[str, tuple[object, ...], int], ...] = ()
    visible: frozenset[Number] = frozenset()
    lost: frozenset[Number] = frozenset()
    is_open: bool = True
    losses: int = 1


WORLD = World()
CALM = World(slots=(("ADD", (), -1),), is_open=False)
"""The transaction is committed, and the ledger has all Kafka partitions."""


@cache
def folded(slots: tuple[tuple[str, tuple[object, ...], int], ...]) -> tuple[State, Record | None]:
    """The state after these slots, and the last record."""
    if not slots:
        return _begun(), None
    (kind, about, applied), (state, _) = slots[-1], folded(slots[:-1])
    header = ledger.next_header(state, "w", "t", applied)
    record = _record(state, header, kind, about)
    return ledger.fold(state, ledger.encode(record)), record


def _begun() -> State:
    opening = Header(0, ledger.GENESIS_HASH, 1, "w", "t")
    made = ledger.Open(header=opening, group="g", lane="0", generation=1, software="0")
    return _added(ledger.fold(State(), ledger.encode(made)), 0, 1)


def _added(state: State, *numbers: int) -> State:
    header = ledger.next_header(state, "w", "t", -1)
    entries = tuple(ledger.Entry(TPS[number], "id", 0) for number in numbers)
    return ledger.fold(state, ledger.encode(ledger.Add(header=header, entries=entries)))


def _object(number: Number, upload_id: str = "u") -> LandedObject:
    partition, offset = number
    key = object_names.ObjectName("a", "d", 1, partition, offset, "").key
    upload = Upload(key, upload_id, (Part("e", 1),), "t")
    return LandedObject(upload, ObjectKind.DATA, 1, offset, offset, 0)


def _number(landed: LandedObject) -> Number:
    name = object_names.parse_key(landed.upload.key)
    return name.partition, name.start


def _record(state: State, header: Header, kind: str, about: tuple[object, ...]) -> Record:
    if kind == "FINALIZE":
        entries: tuple[ledger.Horizon, ...] = about  # type: ignore[assignment]  # of this kind
        return ledger.Finalize(header=header, delay=DELAY, looked=LOOKED, entries=entries)
    if kind == "APPLIED":
        return ledger.Applied(header=header)
    if kind == "ADD":
        return ledger.Add(header=header, entries=(ledger.Entry(TPS[LATER], "id", 0),))
    number: Number = about  # type: ignore[assignment]  # of the other kinds
    partition, offset = number
    if kind == "COMMIT":
        piece = Slice(TPS[partition], OffsetRange(offset, offset + 1))
        made = LandedSlice(piece, (_object(number),), 1, 0, 0, 0, 1)
        slices = (replace(made, latest_ms=TIMES[partition][offset]),)
        return ledger.Commit(header=header, token="t", slices=slices)
    return _about_upload(state, header, kind, number)


def _about_upload(state: State, header: Header, kind: str, number: Number) -> Record:
    partition, slot = number[0], next(s for s, found in _due(state) if found == number)
    if kind == "BLOCK":
        entry = ledger.Blocked(TPS[partition], Reason.OBJECT_LOST, "gone", OffsetRange(0, 1))
        missing = (ledger.Missing(slot, (_object(number).upload.key,)),)
        return ledger.Block(header=header, entries=(entry,), missing=missing)
    if kind == "REPAIR":
        return ledger.Repair(header=header, commit=slot, objects=(_object(number, "v"),))
    return ledger.Lost(header=header, commit=slot, objects=(_object(number),))


def _due(state: State) -> Iterator[tuple[int, Number]]:
    for by_slot in (state.unapplied, state.missing):
        for slot, objects in by_slot.items():
            for landed in objects:
                yield slot, _number(landed)


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        """The steps of the driver and of what happens to it."""
        state, _ = folded(w.slots)
        if w.is_open:
            yield "the transaction is committed", w._replace(is_open=False)
        if TPS[LATER] not in state.members:
            yield "the new Kafka partition enters", self._appended(w, "ADD", ())
        for tp in state.members:
            number = (tp.partition, state.checkpoint[tp])
            is_there = number[1] < len(TIMES[tp.partition])
            if (
                is_there
                and tp not in state.blocked
                and not (w.is_open and number == IN_TRANSACTION)
            ):
                yield f"lands {tp} at {number[1]}", self._appended(w, "COMMIT", number)
        yield from self._of_uploads(w, state)
        yield from self._look(w, state)

    def _of_uploads(self, w: World, state: State) -> Iterator[tuple[str, World]]:
        missing = {_number(o) for objects in state.missing.values() for o in objects}
        for _, number in _due(state):
            name = f"{number[0]}/{number[1]}"
            if number in w.lost:
                if number not in missing:
                    yield f"names {name} as missing", self._appended(w, "BLOCK", number)
                again = self._appended(w, "REPAIR", number)
                yield f"makes {name} again", again._replace(lost=w.lost - {number})
                yield f"gives {name} up", self._appended(w, "LOST", number)
            elif number not in w.visible:
                yield f"completes {name}", w._replace(visible=w.visible | {number})
                if w.losses:
                    lost = w._replace(lost=w.lost | {number}, losses=w.losses - 1)
                    yield f"the upload of {name} is lost", lost

    def _look(self, w: World, state: State) -> Iterator[tuple[str, World | Harm]]:
        ends = {tp: len(TIMES[tp.partition]) for tp in TPS}
        if w.is_open:
            partition, offset = IN_TRANSACTION
            ends[TPS[partition]] = offset
            if self.rules.sees_transactions:
                del ends[TPS[partition]]
        found = TPS if self.rules.sees_new_partitions else tuple(state.members)
        look = LogLook(LOOKED, ends, found)
        entries, _ = horizons(state, look, DELAY, lambda _, until: until)
        if not self.rules.counts_the_furthest_behind:
            latest = max(member.latest_ms for member in state.members.values()) - DELAY
            entries = (ledger.Horizon("a", latest),) if latest > state.horizon("a") else ()
        if entries and sum(kind == "FINALIZE" for kind, _, _ in w.slots) < MAX_FINALIZED:
            text = f"finalizes until {entries[0].until}"
            try:
                after = self._appended(w, "FINALIZE", entries)
                folded(after.slots)
            except Stalled:
                yield text, Harm.REFUSED
            else:
                yield text, after
        applied = _applied(w, state)
        if applied > state.applied_through and state.unapplied:
            yield "records what is applied", self._appended(w, "APPLIED", ())

    def _appended(self, w: World, kind: str, about: tuple[object, ...]) -> World:
        state, _ = folded(w.slots)
        return w._replace(slots=(*w.slots, (kind, about, _applied(w, state))))

    def reads(self, w: World) -> int:
        """Up to when a reader of the ledger takes the topic for complete."""
        known, pending = -1, list[tuple[int, int]]()
        for end in range(1, len(w.slots) + 1):
            state, record = folded(w.slots[:end])
            if isinstance(record, ledger.Finalize):
                pending.append((record.entries[0].until, state.seq))
            if isinstance(record, ledger.Repair) and self.rules.waits_for_repairs:
                pending = [(until, state.seq) for until, _ in pending]
            applied = min(state.unapplied, default=state.seq + 1) - 1
            for each in list(pending):
                is_applied = each[1] <= applied or not self.rules.waits_until_applied
                if is_applied and not (state.missing and self.rules.waits_for_missing):
                    known = max(known, each[0])
                    pending.remove(each)
        if self.rules == Rules():
            assert known == folded(w.slots)[0].horizons.get("a", -1), "the product reads otherwise"
        return known


def _applied(w: World, state: State) -> int:
    """Through which slot everything is visible, or named as missing."""
    for slot in sorted(state.unapplied):
        if any(_number(o) not in w.visible for o in state.unapplied[slot]):
            return slot - 1
    return state.seq


def harm_of(steps: Steps, w: World) -> Harm | None:
    """What is wrong: a record before the reader's horizon is not visible, nor given up."""
    until = steps.reads(w)
    given_up = {about for kind, about, _ in w.slots if kind == "LOST"}
    for partition, times in enumerate(TIMES):
        for offset, at in enumerate(times):
            number = (partition, offset)
            if at < until and number not in w.visible and number not in given_up:
                return Harm.INCOMPLETE
    return None


def search(
    rules: Rules, begin: World = WORLD, max_slots: int = 7, *, seen: list[int] | None = None
) -> Result:
    """Search every state that may follow, the nearest first.

    Args:
        max_slots: of the ledger; longer ones are left out.
        seen: gets the time up to which a reader takes the topic for complete, of each state that
            has one.
    """
    steps = Steps(rules)

    def short_steps(world: World) -> Iterator[tuple[str, World | Harm]]:
        for text, after in steps.all(world):
            if isinstance(after, Harm) or len(after.slots) <= max_slots:
                yield text, after

    def harm(world: World) -> Harm | None:
        if seen is not None and (until := steps.reads(world)) >= 0:
            seen.append(until)
        return harm_of(steps, world)

    return explore(begin, short_steps, harm)


class Variant(NamedTuple):
    """Driver or reader without one rule, and what comes of it."""

    instead: str
    rules: Rules
    harm: Harm = Harm.INCOMPLETE
    begin: World = CALM


VARIANTS: Mapping[str, Variant] = {
    "counts-at-once": Variant(
        "a reader counts a horizon from the slot on that decides it",
        Rules(waits_until_applied=False),
    ),
    "forgets-missing": Variant(
        "a horizon counts though objects decided before it are missing",
        Rules(waits_for_missing=False),
    ),
    "forgets-repairs": Variant(
        "a horizon does not wait for missing objects that are made again under a later slot",
        Rules(waits_for_repairs=False),
    ),
    "counts-the-first": Variant(
        "the topic partition that is furthest ahead decides",
        Rules(counts_the_furthest_behind=False),
        Harm.REFUSED,
    ),
    "ends-in-transactions": Variant(
        "a topic partition is drained though a transaction holds records back",
        Rules(sees_transactions=False),
        begin=WORLD,
    ),
    "unknown-partitions": Variant(
        "a Kafka partition that is not in the ledger holds nothing",
        Rules(sees_new_partitions=False),
        begin=WORLD,
    ),
}


def main() -> int:
    """Check the rules, then show what each of them prevents."""
    return show(
        "Horizons, until which a topic is complete, in every order of landing and repairing",
        {"one topic": partial(search, Rules())},
        VARIANTS,
        lambda variant: search(variant.rules, variant.begin),
    )


if __name__ == "__main__":
    sys.exit(main())
