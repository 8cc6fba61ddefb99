"""A person who has drivers undo REPLACEs of a schedule, and first undoes what a refusal names.

The person is a thread of the schedule, with one request at a time: asks a driver, waits for its
answer, and asks another driver under the same id if the first one dies or freezes. What a refusal
names is asked for next, of a driver that runs by then. In the end, when nothing goes wrong any
more, a driver stays until the person has its answers: so in each schedule that has replaced
anything, undos are carried out together with all that they refuse.

What a refusal names must work: a refusal that names no command, one whose command leads back to
itself, and one that names the undoing that was just done by its command, are stuck. So is, in the
end, what fails again and again.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING

from landfall.api.contract import ExitCode
from landfall.api.verbs import Answer, Outcome, UndoRequest
from landfall.driver.process.loop import Driver
from landfall.ledger import Replace
from tests.crashes.judge import expired_letters, folded_records
from tests.crashes.process import Process
from tests.crashes.scheduler import Owner
from tests.support.ledger.undoable import REMEDY

if TYPE_CHECKING:
    from tests.crashes.pairs import PairSchedule

LAST = 0.3
"""How often the last REPLACE is to be undone, and not any one."""
FINAL = (
    "nothing to undo",
    "whole",
    "were replayed since",
    "has left the lane",
    "is no REPLACE",
)
"""What refusals say to which there is no command: nothing is stuck by them."""

NO_COPY = re.compile(r"the copy of (\S+) is gone")
"""What a refusal says where the way back has expired."""
RECORDED = re.compile("recorded in slot ([0-9]+)")
"""Where an answer has the slot of an undoing."""

TRIES = 20
"""How often a driver is asked again for what has failed."""
ASKS_AGAIN = 0.05
"""How often it is asked again between two steps."""
Wanted = tuple[int, tuple[str, ...]]
"""The slot of a REPLACE, and output partitions, if not all of it is to be undone."""


class Undoing:
    """The person.

    Attributes:
        answers: how drivers have answered, if not FAILED.
        remedies: how many undos were carried out that a refusal had named.
        stuck: refusals that name nothing to do.
    """

    def __init__(self, schedule: "PairSchedule") -> None:
        self._schedule = schedule
        self._wanted: list[Wanted] = []
        self.answers = Counter[Outcome]()
        self.remedies = 0
        self.stuck: list[str] = []
        self._own: set[int] = set()
        """Slots of the undoings that were recorded since the first REPLACE was chosen."""
        self._person: Owner | None = None
        self._names, self._ids = count(1), count(1)
        self._asked: Process | None = None

    def begin(self) -> None:
        """Let the person undo something, unless that is under way already."""
        if self._person is None:
            self._spawn(self._undo)

    def end(self) -> None:
        """Let the person undo more, while nothing goes wrong, with a driver that stays for it.

        Raises:
            Wrong: the driver has ended without being stopped.
        """
        schedule = self._schedule
        if self._person:
            schedule.kill(self._person)
        with schedule.judging():
            has_replaced = any(self._slots())
        if not has_replaced:
            return
        driver = schedule.start("", stays=True)

        def work() -> None:
            self._undo()
            schedule.send(driver, lambda: driver.contender.stop("SIGTERM"), "stop")

        self._spawn(work)
        schedule.scheduler.play()
        driver.must_end_with(ExitCode.OK)

    def waits_for(self, process: Process) -> bool:
        """Whether a driver has not answered yet."""
        return self._asked is process

    def _spawn(self, work: Callable[[], None]) -> None:
        person = self._person = Owner(f"U{next(self._names)}")

        def run() -> None:
            try:
                work()
            finally:
                if self._person is person:
                    self._person = self._asked = None

        self._schedule.scheduler.spawn(person, "undo", run)

    def _undo(self) -> None:
        """Undo a REPLACE, and before that what refusals name."""
        if not self._wanted:
            self._choose()
        failures = 0
        while self._wanted:
            id_ = f"undo-{next(self._ids)}"
            while (answer := self._ask(self._wanted[-1], id_)).outcome is Outcome.FAILED:
                failures += self._schedule.calm
                if failures == TRIES:
                    self.stuck.append(f"undo fails {TRIES} times: {answer.message}")
                    self._wanted = []
                    return
                self._schedule.pause(ASKS_AGAIN)
            self._take(answer)

    def _ask(self, wanted: Wanted, id_: str) -> Answer:
        """Return the answer of a driver, which may be dead before it comes: then another is asked.

        FAILED if it has ended meanwhile.
        """
        schedule, (slot, some) = self._schedule, wanted
        request = UndoRequest(
            who="on call", why="a test", slot=slot, output_partitions=some, id=id_
        )
        while True:
            schedule.scheduler.wait(lambda: any(self._running()))
            if not (running := [*self._running()]):
                continue  # it has died before this step
            process, driver = schedule.dice.choice(running)
            pending = driver._requests.pending
            schedule.say(f"{process.name} is asked to undo slot {slot} {some or ''}")
            answer = pending.submit(request, timedelta(0))
            waiting = (each.answer for each in pending.waiting() if each.request == request)
            if (found := next(waiting, None)) is None:
                return answer
            self._asked = process
            self._await(found)
            self._asked = None
            if found.done():
                return found.result()

    def _await(self, answer: Future[Answer]) -> None:
        """Wait for an answer, or until the driver that is asked can give none."""
        asked = self._asked
        self._schedule.scheduler.wait(lambda: answer.done() or not (asked and _runs(asked)))

    def _running(self) -> Iterator[tuple[Process, Driver]]:
        """The drivers that can answer."""
        for process in self._schedule.processes:
            driver = process.contender._driver
            if _runs(process) and driver:
                yield process, driver

    def _has_expired(self, answer: Answer) -> bool:
        """Whether there is no copy because dead letters have expired: docs/adr/0056."""
        if (found := NO_COPY.search(answer.message)) is None:
            return False
        with self._schedule.judging():
            return found[1] in expired_letters(self._schedule)

    def _slots(self) -> list[int]:
        return [r.header.seq for _, r in folded_records(self._schedule) if isinstance(r, Replace)]

    def _choose(self) -> None:
        schedule = self._schedule
        with schedule.judging():
            slots = self._slots()
        if slots:
            is_last = schedule.dice.random() < LAST
            self._wanted = [(slots[-1] if is_last else schedule.dice.choice(slots), ())]
            self._own.clear()

    def _take(self, answer: Answer) -> None:
        self._schedule.say(f"the answer: {answer}")
        self.answers[answer.outcome] += 1
        match answer.outcome:
            case Outcome.DONE:
                self._wanted.pop()
                self.remedies += bool(self._wanted)
                self._own |= {int(slot) for slot in RECORDED.findall(answer.message)}
            case Outcome.REFUSED if remedy := REMEDY.search(answer.message):
                first: Wanted = int(remedy[1]), (remedy[2],) if remedy[2] else ()
                if first in self._wanted or first[0] in self._own:
                    self.stuck.append(f"undo is refused, and its remedy leads back: {answer}")
                    self._wanted = []
                else:
                    self._wanted.append(first)
            case Outcome.REFUSED:
                is_final = any(text in answer.message for text in FINAL)
                if not (is_final or self._has_expired(answer)):
                    self.stuck.append(f"undo is refused, and nothing helps: {answer.message}")
                self._wanted = []
            case _:
                pass  # asked again


def _runs(process: Process) -> bool:
    return not (process.dead or process.ended or process.frozen)
