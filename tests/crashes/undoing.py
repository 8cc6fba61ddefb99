"""Somebody who has drivers undo REPLACEs of a schedule, and first undoes what a refusal names.

What a refusal names must work: a refusal that names no command, one whose command leads back to
itself, and one that names the undoing that was just done by its command, are stuck.
"""

import re
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING

from landfall.api.verbs import Answer, Outcome, UndoRequest
from landfall.ledger import Replace
from tests.crashes.judge import folded_records
from tests.support.ledger.undoable import REMEDY

if TYPE_CHECKING:
    from tests.crashes.pairs import PairSchedule

LAST = 0.5
"""How often the last REPLACE is to be undone, and not any one."""
FINAL = (
    "nothing to undo",
    "whole",
    "were replayed since",
    "has left the lane",
    "the copy",
    "is no REPLACE",
)
"""What refusals say to which there is no command: nothing is stuck by them."""

RECORDED = re.compile("recorded in slot ([0-9]+)")
"""Where an answer has the slot of an undoing."""

Wanted = tuple[int, tuple[str, ...]]
"""The slot of a REPLACE, and output partitions, if not all of it is to be undone."""


class Undoing:
    """One who asks; the driver may be dead before it answers.

    Attributes:
        done: how many REPLACEs were undone by the answers.
        stuck: refusals that name nothing to do.
    """

    def __init__(self, schedule: "PairSchedule") -> None:
        self._schedule = schedule
        self._wanted: list[Wanted] = []
        self._answer: Future[Answer] | None = None
        self.done = 0
        self.stuck: list[str] = []
        self._own: set[int] = set()
        """Slots of the undoings that were recorded since the first REPLACE was chosen."""

    def ask(self) -> None:
        """Ask a driver, if there is one, and take the answer to what was asked before."""
        schedule = self._schedule
        if self._answer is not None and self._answer.done():
            self._take(self._answer.result())
        drivers = [p.contender._driver for p in schedule.processes if not (p.dead or p.ended)]
        owners = [driver for driver in drivers if driver]
        if not self._wanted:
            self._choose()
        if not (self._wanted and owners):
            return
        slot, some = self._wanted[-1]
        request = UndoRequest(who="on call", why="a test", slot=slot, output_partitions=some)
        pending = schedule.dice.choice(owners)._requests.pending
        schedule.say(f"a driver is asked to undo slot {slot} {some or ''}")
        pending.submit(request, timedelta(0))
        answers = (each.answer for each in pending.waiting() if each.request == request)
        self._answer = next(answers, None)

    def _choose(self) -> None:
        schedule = self._schedule
        with schedule.judging():
            slots = [r.header.seq for _, r in folded_records(schedule) if isinstance(r, Replace)]
        if slots:
            is_last = schedule.dice.random() < LAST
            self._wanted = [(slots[-1] if is_last else schedule.dice.choice(slots), ())]
            self._own.clear()

    def _take(self, answer: Answer) -> None:
        self._answer = None
        self._schedule.say(f"the answer: {answer}")
        match answer.outcome:
            case Outcome.DONE:
                self.done += 1
                self._wanted.pop()
                self._own |= {int(slot) for slot in RECORDED.findall(answer.message)}
            case Outcome.REFUSED if remedy := REMEDY.search(answer.message):
                first: Wanted = int(remedy[1]), (remedy[2],) if remedy[2] else ()
                if first in self._wanted or first[0] in self._own:
                    self.stuck.append(f"undo is refused, and its remedy leads back: {answer}")
                    self._wanted = []
                else:
                    self._wanted.append(first)
            case Outcome.REFUSED:
                if not any(text in answer.message for text in FINAL):
                    self.stuck.append(f"undo is refused, and nothing helps: {answer.message}")
                self._wanted = []
            case _:
                pass  # asked again
