"""Dead letters that expire while others replay them: every order of two drivers' steps.

    python -m tests.model.expiring

There is one object of **dead letters**, old enough, in an applied slot. The **former** driver
deletes old dead letters: it says so, looks whether it is fenced, deletes. It may be killed or
stuck anywhere, and its request that says so may come late. Its **successor** opens the lane at any
time. It is asked to replay the dead letters: it records in a REPLAY what it made of them, and then
makes the new object visible. Before that, the store may **lose** the upload, which only the dead
letters can make again. The successor deletes old dead letters, too, between replays.

A **reader** such as ``fsck`` takes what is missing for lost unless it is said to have expired.

Each rule is left out by a variant, whose shortest story shows what comes of it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from tests.model.exploring import Result, explore, show


class Harm(StrEnum):
    """What must never be."""

    SEEMS_LOST = "dead letters are gone, and nobody has said that they have expired"
    UNREPAIRABLE = "a REPLAY has lost its upload, and what it was made of has been deleted"
    HALF_READ = "dead letters are deleted while a replay reads them"


@dataclass(frozen=True, slots=True)
class Rules:
    """What drivers do; a variant differs in one rule."""

    says_first: bool = True
    looks_after_it_has_said: bool = True
    finishes_before_it_replays: bool = True
    keeps_what_a_replay_needs: bool = True
    never_beside_a_replay: bool = True


class Former(StrEnum):
    """What the former driver does next."""

    BEGINS = "begins"
    SAYS = "says"
    LOOKS = "looks"
    DELETES = "deletes"
    ENDED = "ended"


class Replaying(StrEnum):
    """How far the successor's replay is."""

    NONE = "none"
    FINISHED = "what was said to have expired is deleted"
    READING = "reading"
    RECORDED = "recorded"
    VISIBLE = "visible"


class World(NamedTuple):
    """A state.

    Attributes:
        former: what the former driver does next.
        is_late: its request that says so has not reached the store.
        is_fenced: its successor has opened the lane.
        replaying: how far the successor's replay is.
        may_expire: the successor has looked what a replay needs, and is about to delete the rest.
        is_said: that the dead letters have expired.
        letters: whether they are there.
        upload: whether that of the REPLAY is, or its object.
    """

    former: Former = Former.BEGINS
    is_late: bool = False
    is_fenced: bool = False
    replaying: Replaying = Replaying.NONE
    may_expire: bool = False
    is_said: bool = False
    letters: bool = True
    upload: bool = True


class Steps:
    """The steps that may follow a state."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def all(self, w: World) -> Iterator[tuple[str, World]]:
        """The steps of both drivers, and of the store."""
        yield from self._of_former(w)
        if not w.is_fenced:
            yield "the successor opens the lane", w._replace(is_fenced=True)
        else:
            yield from self._replays(w)
            yield from self._expires(w)
        if w.is_late:
            yield "what the former driver said arrives", w._replace(is_late=False, is_said=True)
        if w.replaying is Replaying.RECORDED and w.upload:
            yield "the store loses the upload", w._replace(upload=False)

    def _of_former(self, w: World) -> Iterator[tuple[str, World]]:
        who = "the former driver"
        match w.former:
            case Former.BEGINS if self.rules.looks_after_it_has_said:
                yield from self._says(w, Former.LOOKS)
            case Former.SAYS:
                yield from self._says(w, Former.DELETES)
            case Former.BEGINS | Former.LOOKS:
                goes_on = Former.DELETES if w.former is Former.LOOKS else Former.SAYS
                then = Former.ENDED if w.is_fenced else goes_on
                yield f"{who} looks whether it is fenced: {w.is_fenced}", w._replace(former=then)
            case Former.DELETES:
                gone = w._replace(former=Former.ENDED, letters=False)
                yield f"{who} deletes the dead letters", gone
            case Former.ENDED:
                pass
        if w.former is not Former.ENDED:
            yield f"{who} is killed", w._replace(former=Former.ENDED)

    def _says(self, w: World, then: Former) -> Iterator[tuple[str, World]]:
        who = "the former driver"
        yield f"{who} says that they have expired", w._replace(former=then, is_said=True)
        late = w._replace(former=Former.ENDED, is_late=True)
        yield f"{who} says so, has no answer, and ends", late
        if not self.rules.says_first:
            yield f"{who} says nothing", w._replace(former=then)

    def _replays(self, w: World) -> Iterator[tuple[str, World]]:
        who, rules = "the successor", self.rules
        match w.replaying:
            case Replaying.NONE if not (w.may_expire and rules.never_beside_a_replay):
                is_deleted = w.is_said and rules.finishes_before_it_replays
                letters = w.letters and not is_deleted
                after = w._replace(replaying=Replaying.FINISHED, letters=letters)
                yield f"{who} begins to replay", after
            case Replaying.FINISHED if w.letters:
                yield f"{who} reads the dead letters", w._replace(replaying=Replaying.READING)
            case Replaying.READING:
                yield f"{who} records a REPLAY", w._replace(replaying=Replaying.RECORDED)
            case Replaying.RECORDED if w.upload:
                yield f"{who} makes it visible", w._replace(replaying=Replaying.VISIBLE)
            case _:
                pass

    def _expires(self, w: World) -> Iterator[tuple[str, World]]:
        who, rules = "the successor", self.rules
        is_replaying = w.replaying in {Replaying.FINISHED, Replaying.READING}
        is_needed = w.replaying is Replaying.RECORDED and rules.keeps_what_a_replay_needs
        if w.may_expire:
            yield f"{who} deletes them", w._replace(may_expire=False, letters=False)
        elif w.letters and not is_needed and not (is_replaying and rules.never_beside_a_replay):
            said = w._replace(may_expire=True, is_said=True)
            yield f"{who} says that they have expired, as nothing needs them", said


def harm(w: World) -> Harm | None:
    """What is wrong with a state."""
    if not w.letters and not w.is_said:
        return Harm.SEEMS_LOST
    if not w.letters and w.replaying is Replaying.RECORDED and not w.upload:
        return Harm.UNREPAIRABLE
    if not w.letters and w.replaying is Replaying.READING:
        return Harm.HALF_READ
    return None


@dataclass(frozen=True, slots=True)
class Variant:
    """See ``tests.model.exploring.Variant``."""

    instead: str
    rules: Rules
    harm: Harm


VARIANTS: Mapping[str, Variant] = {
    "deletes-unsaid": Variant(
        "deletes dead letters without a word", Rules(says_first=False), Harm.SEEMS_LOST
    ),
    "looks-before-it-says": Variant(
        "looks whether it is fenced, and then says what it deletes",
        Rules(looks_after_it_has_said=False),
        Harm.HALF_READ,
    ),
    "replays-what-may-be-deleted": Variant(
        "replays what a former driver has said to have expired",
        Rules(finishes_before_it_replays=False),
        Harm.HALF_READ,
    ),
    "deletes-what-a-replay-needs": Variant(
        "deletes what a REPLAY has read whose object is not visible",
        Rules(keeps_what_a_replay_needs=False),
        Harm.UNREPAIRABLE,
    ),
    "deletes-beside-a-replay": Variant(
        "deletes dead letters while a replay runs",
        Rules(never_beside_a_replay=False),
        Harm.HALF_READ,
    ),
}


def search(rules: Rules) -> Result:
    """Search every state that may follow."""
    return explore(World(), Steps(rules).all, harm)


def main() -> int:
    """Print what is found; the exit code."""
    return show(
        "dead letters that expire",
        {"two drivers": partial(search, Rules())},
        VARIANTS,
        lambda variant: search(variant.rules),
    )


if __name__ == "__main__":
    sys.exit(main())
