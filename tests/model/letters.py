"""Dead letters in places of their own: every order of drivers, specs and stores.

    python -m tests.model.letters

A slice has a good and a bad record: **data** for the output root, and **dead letters** for the
place that the spec names. A driver uploads both, commits them, completes them, and records that
they are visible. It may be killed anywhere. The **place may refuse** for a while. A completion may
have no answer and take effect **later**. The store may **lose** the upload of the dead letters,
which is made again, under a REPAIR. The **spec may change** between drivers: to another place,
with or without the former one, or to none.

Ledger, its fold, what a driver may open with, and where a REPAIR uploads to are the product's own
(``check_letters_places``, ``LostSlice``). A **reader** such as ``fsck`` has any of the specs.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from itertools import chain
from typing import NamedTuple

from landfall import ledger
from landfall.api.spec import GroupSpec
from landfall.driver.landing.letters_places import check_letters_places
from landfall.driver.landing.recovery import LostSlice
from landfall.errors import Stalled
from landfall.ledger import Header, Record, State
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind
from landfall.objects import Part, Upload
from tests.model.exploring import Result, explore, show
from tests.support.driver.fakes import group

TP = TopicPartition("a", 0)
PIECE = Slice(TP, OffsetRange(0, 2))
FIRST, SECOND = {"url": "s3://letters/fake"}, {"url": "s3://other/fake"}
SPECS: Mapping[str, GroupSpec] = {
    "the first place": group(badRecords=FIRST).spec,
    "the second place, and the first as a former one": group(
        badRecords=SECOND | {"formerPlaces": [FIRST]}
    ).spec,
    "the second place alone": group(badRecords=SECOND).spec,
    "no place": group().spec,
}
BEGIN = "the first place"
ROOT = ""
"""The output root, where dead letters are if the spec names no place."""
KILLS, CHANGES, LOSSES = 2, 1, 1
"""How often each may happen."""


class Harm(StrEnum):
    """What must never be."""

    LOST = "a COMMIT has the range of a record that is in none of its objects"
    MISPLACED = "dead letters are in another store than the one that their key names"
    DOUBLED = "dead letters are visible twice, or became others"
    UNSEEN = "a COMMIT counts as applied, and its dead letters are not visible"
    STUCK = "a driver has the lane that cannot reach what it must complete"
    SEEMS_LOST = "a reader takes dead letters for lost that are where the ledger says"
    REFUSED = "the driver writes what the ledger refuses"


@dataclass(frozen=True, slots=True)
class Rules:
    """What drivers and readers do; a variant differs in one rule."""

    fails_without_its_letters: bool = True
    follows_the_key: bool = True
    waits_for_its_letters: bool = True
    refusal_is_no_loss: bool = True
    repairs_where_it_was: bool = True
    opens_only_with_its_places: bool = True
    unknown_is_no_loss: bool = True


class Letters(NamedTuple):
    """An upload of the dead letters: the place that its key names, and which attempt it is."""

    place: str
    attempt: int


Slot = tuple[str, Letters | None, bool]
"""The type of a record, the dead letters that it names, and whether all before it is visible."""


class World(NamedTuple):
    """A state.

    Attributes:
        spec: the present one.
        driver: the spec of the driver that has the lane; empty if none has.
        landed: what it has uploaded and not committed; None in it stands for data alone.
        slots: what is in the ledger after the first OPEN and ADD.
        data: whether the data is visible.
        open: uploads of dead letters that can be completed.
        late: those of them whose completion may still come.
        visible: dead letters, with the store that they are in.
        refuses: whether the places refuse.
        taken_for_lost: dead letters that the driver makes again as soon as it can.
        attempts: uploads of dead letters so far.
        kills, changes, losses: how often each has happened.
    """

    spec: str = BEGIN
    driver: str = BEGIN
    landed: tuple[Letters | None, ...] = ()
    slots: tuple[Slot, ...] = ()
    data: bool = False
    open: frozenset[Letters] = frozenset()
    late: frozenset[Letters] = frozenset()
    visible: frozenset[tuple[str, Letters]] = frozenset()
    refuses: bool = False
    taken_for_lost: Letters | None = None
    attempts: int = 0
    kills: int = 0
    changes: int = 0
    losses: int = 0


# ------------------------------------------------------------------------------------- the ledger


@cache
def folded(slots: tuple[Slot, ...]) -> State:
    """The state after these slots."""
    if not slots:
        return _begun()
    (kind, letters, applied), state = slots[-1], folded(slots[:-1])
    header = ledger.next_header(state, "w", "t", state.seq if applied else state.applied_through)
    return ledger.fold(state, ledger.encode(_record(state, header, kind, letters)))


def _begun() -> State:
    opening = Header(0, ledger.GENESIS_HASH, 1, "w", "t")
    made = ledger.Open(header=opening, group="fake", lane="0", generation=1, software="0")
    state = ledger.fold(State(), ledger.encode(made))
    header = ledger.next_header(state, "w", "t", -1)
    entries = (ledger.Entry(TP, "id", 0),)
    return ledger.fold(state, ledger.encode(ledger.Add(header=header, entries=entries)))


def _record(state: State, header: Header, kind: str, letters: Letters | None) -> Record:
    match kind:
        case "COMMIT":
            return ledger.Commit(header=header, token="t", slices=(_slice(letters),))
        case "REPAIR" if letters:
            (slot,) = state.unapplied
            return ledger.Repair(header=header, commit=slot, objects=(_dead_letters(letters),))
        case "APPLIED":
            return ledger.Applied(header=header)
    raise AssertionError(kind)


def _slice(letters: Letters | None) -> LandedSlice:
    key = object_names.ObjectName("a", "d", 1, 0, 0, "").key
    data = LandedObject(Upload(key, "data", (Part("e", 1),), "t"), ObjectKind.DATA, 1, 0, 0, 0)
    bad = [_dead_letters(letters)] if letters else []
    return LandedSlice(PIECE, (data, *bad), 1, 0, len(bad), 1 - len(bad), 1)


def _dead_letters(letters: Letters) -> LandedObject:
    key = object_names.dead_letter_key("fake", "a", 1, 0, 0, place=letters.place)
    upload = Upload(key, str(letters.attempt), (Part("e", 1),), "t")
    return LandedObject(upload, ObjectKind.DEAD_LETTERS, 1, 1, 1, 0)


def _due(state: State) -> Letters | None:
    """The dead letters that are not known to be visible."""
    for landed in chain.from_iterable(state.unapplied.values()):
        if landed.kind is ObjectKind.DEAD_LETTERS:
            upload = landed.upload
            return Letters(object_names.letters_place(upload.key), int(upload.upload_id))
    return None


def _named(slots: tuple[Slot, ...]) -> Letters | None:
    """The dead letters that the ledger names last."""
    return next((letters for _, letters, _ in reversed(slots) if letters), None)


@cache
def _known(spec: str) -> set[str]:
    return {ROOT, *(place.id for place in SPECS[spec].bad_records.places)}


@cache
def _present(spec: str) -> str:
    place = SPECS[spec].bad_records.present_place
    return place.id if place else ROOT


# -------------------------------------------------------------------------------------- the steps


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        """The steps of drivers, stores, and whoever edits the spec."""
        if w.driver:
            yield from self._lands(w)
            yield from self._completes(w)
            if w.kills < KILLS:
                killed = w._replace(driver="", landed=(), taken_for_lost=None, kills=w.kills + 1)
                yield "the driver is killed", killed
        else:
            yield from self._opens(w)
        if w.changes < CHANGES:
            for spec in SPECS.keys() - {w.spec}:
                changed = w._replace(spec=spec, changes=w.changes + 1)
                yield f"the spec names {spec}", changed
        yield "the places refuse, or answer again", w._replace(refuses=not w.refuses)
        for letters in w.late:
            arrived = w._replace(late=w.late - {letters})
            yield "a completion takes effect", self._visible(arrived, letters)
        due = _due(folded(w.slots))
        if due in w.open and w.losses < LOSSES:
            gone = w._replace(open=w.open - {due}, losses=w.losses + 1)
            yield "the upload of the dead letters is lost", gone

    def _opens(self, w: World) -> Iterator[tuple[str, World]]:
        if self.rules.opens_only_with_its_places:
            try:
                check_letters_places(folded(w.slots), SPECS[w.spec])
            except Stalled:
                return
        yield f"a driver opens the lane, its spec names {w.spec}", w._replace(driver=w.spec)

    def _lands(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        if w.landed:
            slots = (*w.slots, ("COMMIT", w.landed[0], False))
            yield "commits", w._replace(slots=slots, landed=())
        elif not w.slots:
            place = _present(w.driver)
            if not (w.refuses and place):
                yield "uploads data and dead letters", self._uploaded(w, place)
            elif not self.rules.fails_without_its_letters:
                yield "uploads data, and is refused the dead letters", w._replace(landed=(None,))

    @staticmethod
    def _uploaded(w: World, place: str) -> World:
        made = Letters(place, w.attempts)
        return w._replace(landed=(made,), open=w.open | {made}, attempts=w.attempts + 1)

    def _completes(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        state = folded(w.slots)
        if not state.unapplied:
            return
        if not w.data:
            yield "completes the data", w._replace(data=True)
        due = _due(state)
        if due:
            yield from self._completes_letters(w, state, due)
        seen = due is None or any(letters == due for _, letters in w.visible)
        if w.data and (seen or not self.rules.waits_for_its_letters):
            applied = w._replace(slots=(*w.slots, ("APPLIED", None, True)))
            yield "records that all is visible", applied

    def _completes_letters(
        self, w: World, state: State, due: Letters
    ) -> Iterator[tuple[str, World | Harm]]:
        if due.place not in _known(w.driver):
            return
        if w.refuses and due.place:
            if not self.rules.refusal_is_no_loss:
                yield "takes what is refused for lost", w._replace(taken_for_lost=due)
        elif due == w.taken_for_lost:
            yield from self._repairs(w, state, due)
        elif due in w.open:
            yield "completes the dead letters", self._visible(w, due)
            late = w._replace(late=w.late | {due})
            yield "completes the dead letters, and has no answer yet", late
        elif not any(letters == due for _, letters in w.visible):
            yield from self._repairs(w, state, due)

    def _visible(self, w: World, letters: Letters) -> World:
        if letters not in w.open:
            return w
        store = letters.place if self.rules.follows_the_key else ROOT
        return w._replace(open=w.open - {letters}, visible=w.visible | {(store, letters)})

    def _repairs(self, w: World, state: State, due: Letters) -> Iterator[tuple[str, World | Harm]]:
        """Make the dead letters again, of a record that Kafka still has."""
        (slot,) = state.unapplied
        place = LostSlice(slot, _slice(due), (_dead_letters(due),)).letters_place
        if not self.rules.repairs_where_it_was:
            place = _present(w.driver)
        if place not in _known(w.driver) or (w.refuses and place):
            return
        made = Letters(place, w.attempts)
        slots = (*w.slots, ("REPAIR", made, False))
        text = "uploads dead letters again, and records a REPAIR"
        try:
            folded(slots)
        except Stalled:
            yield text, Harm.REFUSED
            return
        opened = w._replace(open=w.open | {made}, attempts=w.attempts + 1)
        yield text, opened._replace(slots=slots, taken_for_lost=None)


# ---------------------------------------------------------------------------------------- the harm


def harm_of(rules: Rules, w: World) -> Harm | None:  # noqa: PLR0911  # a table
    """What is wrong with a state."""
    state, named = folded(w.slots), _named(w.slots)
    if w.slots and named is None:
        return Harm.LOST
    if any(store != letters.place for store, letters in w.visible):
        return Harm.MISPLACED
    if len(w.visible) > 1:
        return Harm.DOUBLED
    seen = any(letters == named for _, letters in w.visible)
    if w.slots and not state.unapplied and not seen:
        return Harm.UNSEEN
    due = _due(state)
    if due and w.driver and due.place not in _known(w.driver):
        return Harm.STUCK
    if named and seen and not state.unapplied and not rules.unknown_is_no_loss:
        readers = [spec for spec in SPECS if named.place not in _known(spec)]
        return Harm.SEEMS_LOST if readers else None
    return None


@dataclass(frozen=True, slots=True)
class Variant:
    """See ``tests.model.exploring.Variant``."""

    instead: str
    rules: Rules
    harm: Harm


VARIANTS: Mapping[str, Variant] = {
    "commits-without-letters": Variant(
        "a slice whose dead letters are refused is committed without them",
        Rules(fails_without_its_letters=False),
        Harm.LOST,
    ),
    "completes-in-the-root": Variant(
        "dead letters are completed in the output root",
        Rules(follows_the_key=False),
        Harm.MISPLACED,
    ),
    "forgets-letters": Variant(
        "a COMMIT counts as applied once its data is visible",
        Rules(waits_for_its_letters=False),
        Harm.UNSEEN,
    ),
    "takes-refused-for-lost": Variant(
        "dead letters whose place refuses are made again",
        Rules(refusal_is_no_loss=False),
        Harm.DOUBLED,
    ),
    "repairs-in-the-present-place": Variant(
        "a REPAIR uploads to the place that the spec names now",
        Rules(repairs_where_it_was=False),
        Harm.REFUSED,
    ),
    "opens-without-places": Variant(
        "a driver opens the lane, whatever its spec names",
        Rules(opens_only_with_its_places=False),
        Harm.STUCK,
    ),
    "takes-unknown-for-lost": Variant(
        "dead letters of a place that the spec does not name are taken for lost",
        Rules(unknown_is_no_loss=False),
        Harm.SEEMS_LOST,
    ),
}


def search(rules: Rules) -> Result:
    """Search every state that may follow."""
    return explore(World(), Steps(rules).all, partial(harm_of, rules))


def main() -> int:
    """Print what is found; the exit code."""
    return show(
        "dead letters in places of their own",
        {"two places, four specs": partial(search, Rules())},
        VARIANTS,
        lambda variant: search(variant.rules),
    )


if __name__ == "__main__":
    sys.exit(main())
