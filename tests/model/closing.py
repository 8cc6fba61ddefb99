"""The end of a closed range of files: every order in which they are written, found and landed.

    python -m tests.model.closing

Two **files** are written before the end of a range, at any time; one is written after it. A file
has settled two hours later. A **driver** lists the bucket, numbers what has settled by
``landfall.discovery.looking``, lands it, parks what it cannot read, which happens once, and numbers
that again. It is killed at any time, and goes on without what it remembered. Where the range ends,
it asks ``landfall.source.files_log``, and it decides by ``landfall.driver.decide.closed_range``
whether it is landed. A **reader** takes the hour for complete once RUN says so.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from landfall.discovery.known import KnownFile
from landfall.discovery.looking import LookPosition, look
from landfall.discovery.rules import DiscoveryRules as LookRules
from landfall.driver.decide.closed_range import (
    PartitionsInLog,
    RangeLook,
    closed_topics,
    is_reached,
    range_ends,
)
from landfall.errors import Stalled
from landfall.formats.parts import FilePart
from landfall.ledger import State
from landfall.ledger.feeds import SPAN
from landfall.objects import ListedFile
from landfall.source import DatedOffset
from landfall.source.files_log import Listed
from tests.model.discovering_ledger import (
    TP,
    Slot,
    Version,
    Versions,
    folded,
    landed,
    next_number,
    numbered,
    recorded,
)
from tests.model.exploring import Result, explore, show

HOUR, MIDNIGHT = timedelta(hours=1), datetime(2026, 11, 21, tzinfo=UTC)
END, LAST = 1, 3
"""The hour at which the range ends, and the last one; a ``Version`` has that of its writing."""
LOOKING = LookRules(lambda _, size: (FilePart(0, size),), settle=2 * HOUR)


class Harm(StrEnum):
    """What must never be."""

    INCOMPLETE = "a reader takes the hour for complete, and a file of it is not landed"
    REFUSED = "the driver writes what the ledger refuses"
    ENDLESS = "nothing goes wrong any more, and the range never ends"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the driver does; a variant differs in one rule."""

    lists_after_the_end: bool = True
    waits_for_files: bool = True
    leaves_parked: bool = True
    takes_other_numbers_in: bool = True
    lets_go_of_later_files: bool = True


class World(NamedTuple):
    """Everything there is.

    Attributes:
        slots: the ledger.
        bucket: the files.
        hour: the time.
        to_write: files of the range that are still to be written.
        found: what the driver has listed, with when it began, or None if it lists nothing.
        listed: the last listing that has ended, if the driver remembers one.
        end: where the range ends, as far as the driver knows.
        may_fail: whether a read will fail.
    """

    slots: tuple[Slot, ...] = (Slot("OPEN", 0),)
    bucket: Versions = ()
    hour: int = 0
    to_write: tuple[str, ...] = ("a", "b")
    found: tuple[Versions, Listed] | None = None
    listed: Listed | None = None
    end: int | None = None
    may_fail: bool = True


WORLD = World()


def _time(hour: int) -> datetime:
    return MIDNIGHT + hour * HOUR


class Steps:
    """What may happen next."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        """Every step of the driver, of other programs, and of what happens to the driver."""
        if w.slots[-1].kind == "RUN":
            return
        if w.hour < LAST:
            yield f"it is {w.hour + 1} o'clock", w._replace(hour=w.hour + 1)
        if w.hour < END:
            for name in w.to_write:
                rest = tuple(other for other in w.to_write if other != name)
                yield f"{name} is written", _written(w, name)._replace(to_write=rest)
        elif not any(version.name == "c" for version in w.bucket):
            yield "c is written", _written(w, "c")
        if w.found or w.listed:
            yield "the driver is killed", w._replace(found=None, listed=None, end=None)
        yield from self._looks(w)
        yield from self._lands(w)
        yield from self._ends(w)

    def _looks(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        if w.found is None:
            yield "lists the bucket", w._replace(found=self._found(w))
            return
        versions, listing = w.found
        parked = folded(w.slots).feeds[TP].parked
        again = tuple(sorted(parked)) if listing.began >= _time(END) else ()
        versions = (*versions, *(numbered(w.slots)[number] for number in again))
        after = w._replace(found=None, listed=listing)
        if versions:
            slot = Slot("DISCOVER", 0, versions, again=again)
            after = after._replace(slots=(*w.slots, slot))
        yield f"numbers {', '.join(map(str, versions)) or 'nothing'}", self._knowing(after)

    def _found(self, w: World) -> tuple[Versions, Listed]:
        def find(name: str) -> KnownFile | None:
            known = next((v for v in recorded(w.slots) if v.name == name), None)
            return KnownFile(name, str(known.number), 1, 1, 0) if known else None

        files = (ListedFile(v.name, str(v.number), 1, _time(v.number)) for v in sorted(w.bucket))
        found = look(files, find, LookPosition(), LOOKING, _time(w.hour))
        since = found.position.waits_since if self.rules.waits_for_files else None
        if since and not self.rules.lets_go_of_later_files:
            since = MIDNIGHT
        versions = tuple(Version(f.file.name, int(f.file.etag)) for f in found.files)
        return versions, Listed(_time(w.hour), since)

    def _knowing(self, w: World) -> World:
        """The world in which the driver asks where the range ends, as ``FilesLog.first_from``."""
        listed, numbers = w.listed, folded(w.slots).feeds[TP].end * SPAN
        if listed and not self.rules.lists_after_the_end:
            listed = replace(listed, began=max(listed.began, _time(END)))
        if listed is None or w.hour < END or not listed.closes(_time(END)):
            return w
        found = DatedOffset(numbers, 0)
        ends = range_ends(RangeLook(1, {TP: numbers}, {TP: numbers}, {TP: found}))
        return w._replace(end=ends[TP] if w.end is None else w.end)

    def _lands(self, w: World) -> Iterator[tuple[str, World]]:
        state = folded(w.slots)
        if (number := next_number(state)) == state.feeds[TP].end:
            return
        version = numbered(w.slots)[number]
        yield f"lands {version}", _appended(w, Slot("COMMIT", 0, (version,)))
        if w.may_fail:
            after = w._replace(may_fail=False)
            yield f"cannot read {version}, and parks it", _appended(after, Slot("HOLE", 0))

    def _ends(self, w: World) -> Iterator[tuple[str, World | Harm]]:
        state, w = folded(w.slots), self._knowing(w)
        if w.end is None or not self._is_landed(state, w.end):
            return
        end = state.feeds[TP].end * SPAN if self.rules.takes_other_numbers_in else w.end
        text, after = "ends the range", _appended(w, Slot("RUN", 0, end=end))
        try:
            folded(after.slots)
        except Stalled:
            yield text, Harm.REFUSED
        else:
            yield text, after

    def _is_landed(self, state: State, end: int) -> bool:
        if not self.rules.leaves_parked:
            return is_reached(state, {TP: end}, TP)
        if not self.rules.takes_other_numbers_in:
            return state.checkpoint[TP] >= end and not state.feeds[TP].parked
        _, left = closed_topics(state, {TP: end}, PartitionsInLog((TP,)), lambda _: 1)
        return not left


def _written(w: World, name: str) -> World:
    return w._replace(bucket=(*w.bucket, Version(name, w.hour)))


def _appended(w: World, slot: Slot) -> World:
    return w._replace(slots=(*w.slots, slot))


def harm_of(rules: Rules, w: World) -> Harm | None:
    """What is wrong with a state."""
    if w.slots[-1].kind == "RUN":
        of_range = {version for version in w.bucket if version.number < END}
        return Harm.INCOMPLETE if of_range - {*landed(w.slots)} else None
    if w.hour == LAST and not _ends_alone(rules, w):
        return Harm.ENDLESS
    return None


def _ends_alone(rules: Rules, w: World) -> bool:
    """Whether the range ends, with a driver that goes on undisturbed while c is written on."""
    bucket = (*(v for v in w.bucket if v.name != "c"), Version("c", w.hour))
    alone, steps = w._replace(may_fail=False, bucket=bucket), Steps(rules)
    useful = ("lands", "numbers", "ends", "lists")
    for _ in range(20):
        ways = {text.split()[0]: after for text, after in steps.all(alone)}
        step = next((ways[word] for word in useful if word in ways), None)
        if alone.slots[-1].kind == "RUN" or not isinstance(step, World):
            return True
        alone = step
    return False


def search(rules: Rules) -> Result:
    """Search every state that may follow, the nearest first."""
    return explore(WORLD, Steps(rules).all, partial(harm_of, rules))


class Variant(NamedTuple):
    """A driver without one rule, and what comes of it."""

    instead: str
    rules: Rules
    harm: Harm = Harm.INCOMPLETE


VARIANTS: Mapping[str, Variant] = {
    "believes-old-listings": Variant(
        "a range ends by a listing that began before its end",
        Rules(lists_after_the_end=False),
    ),
    "forgets-waiting-files": Variant(
        "a range ends though a file of it has not settled",
        Rules(waits_for_files=False),
    ),
    "waits-for-all-files": Variant(
        "a range ends once no file waits, also none that is written after its end",
        Rules(lets_go_of_later_files=False),
        Harm.ENDLESS,
    ),
    "counts-parked-files": Variant(
        "a range ends though a file of it is parked",
        Rules(leaves_parked=False),
        Harm.REFUSED,
    ),
    "keeps-its-end": Variant(
        "what gets another number behind the end of the range is no more of it",
        Rules(takes_other_numbers_in=False),
        Harm.REFUSED,
    ),
}


def main() -> int:
    """Check the rules, then show what each of them prevents."""
    return show(
        "The end of a closed range of files, in every order of writing and landing",
        {"one range": partial(search, Rules())},
        VARIANTS,
        lambda variant: search(variant.rules),
    )


if __name__ == "__main__":
    sys.exit(main())
