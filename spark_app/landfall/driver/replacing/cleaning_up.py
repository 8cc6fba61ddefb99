"""Deletes what has retired by REPLACEs that are applied; nobody waits for it (docs/adr/0066).

New objects count from the record on that calls their REPLACE applied. What is left to do is to keep
a copy of each old object and to delete it, and to delete what a REPLACE that was given up had
decided. That may take hours, or be refused for ever: by a policy, a lock, a key that is disabled.
What cannot be deleted is named in the status and tried again, after everything else. RETIRED says
that nothing is left, so that the next driver need not look.

Nothing begins before ``landfall.driver.replacing.grace_period`` allows it. If the way back has
expired by then, no copy is kept.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from landfall.api.values import plural
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.retry_backoff import wait_after
from landfall.driver.replacing.retiring import Retiring
from landfall.errors import LandfallError
from landfall.lane import Lane
from landfall.lane.replacements import read_replaced
from landfall.ledger import PendingReplacement
from landfall.ledger.replace.replacement_lists import Replaced

log = logging.getLogger(__name__)

THREADS = 8
"""Objects that retire at once: a store that cannot copy by itself has 32 MiB of each in memory."""
AHEAD = 256
"""Deletions that are begun per REPLACE before the first of them is waited for."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object that is to be gone, and what sees to that; it may be done again."""

    key: str
    work: Callable[[], None]


@dataclass(slots=True)
class _CleanUp:
    """What is left of a REPLACE.

    Attributes:
        reading: reads what there is to do.
        todo: what was not tried since the last pause; None before it is known.
        running: what is tried now.
        failed: what could not be deleted since the last pause.
        problem: the first of these, and why; empty if nothing was refused at the last try.
        failures: how often in a row something could not be done.
        wait_until: nothing is tried before this time.
    """

    reading: "Future[list[Deletion]] | None" = None
    todo: list[Deletion] | None = None
    running: "list[tuple[Deletion, Future[None]]]" = field(default_factory=list)
    failed: list[Deletion] = field(default_factory=list)
    problem: str = ""
    failures: int = 0
    wait_until: datetime | None = None

    @property
    def is_done(self) -> bool:
        return self.todo == [] and not (self.running or self.failed)

    @property
    def left(self) -> int:
        return len(self.todo or ()) + len(self.running) + len(self.failed)


class CleaningUp:
    """Used by the driver's thread alone; the work is done in threads of its own."""

    def __init__(
        self, deps: DriverDeps, lane: Lane, wake: Callable[[], object], *, copies: bool = True
    ) -> None:
        """``wake`` is called, from any thread, when something has ended.

        ``copies`` says whether a copy is kept of each old object.
        """
        self._deps, self._lane, self._wake, self._copies = deps, lane, wake, copies
        self.pool = deps.background.pool(THREADS, "retire")
        self._begun: dict[int, _CleanUp] = {}
        self._foreign: list[str] = []

    def begin(self, slot: int, pending: PendingReplacement) -> None:
        """Begin to clean up after a REPLACE whose new objects count, if that has not begun."""
        if slot not in self._begun:
            self._begun[slot] = _CleanUp(self._read(slot, pending))

    def advance(self, now: datetime, pending: "dict[int, PendingReplacement]") -> list[int]:
        """Go on with everything; returns the slots of REPLACEs of which nothing is left."""
        for slot, one in self._begun.items():
            self._collect(slot, one, now)
            if one.wait_until is None or now >= one.wait_until:
                one.wait_until = None
                if one.todo is None and one.reading is None:
                    one.reading = self._read(slot, pending[slot])
                self._try(one)
        return [slot for slot, one in self._begun.items() if one.is_done]

    def forget(self, slots: Iterable[int]) -> None:
        """Forget REPLACEs of which nothing is left, as the ledger says it now."""
        for slot in slots:
            del self._begun[slot]
            log.info("replaced objects are gone", extra={"slot": slot})

    def is_advancing(self, deletable: Iterable[int]) -> bool:
        """Whether more will be gone soon; what the store has refused does not count.

        ``deletable`` are the slots of REPLACEs of which something may be left to be deleted now.
        """
        is_new = any(slot not in self._begun for slot in deletable)
        return is_new or any(not (one.is_done or one.failures) for one in self._begun.values())

    @property
    def left(self) -> int:
        """How many objects are not deleted yet, as far as it is known."""
        return sum(one.left for one in self._begun.values())

    @property
    def problem(self) -> str:
        """An object whose deletion was refused at the last try, and why; empty if none was."""
        return next((one.problem for one in self._begun.values() if one.problem), "")

    @property
    def note(self) -> str:
        """What is left and what is refused; empty if nothing."""
        lines = []
        if self.problem:
            lines.append(
                f"{plural(self.left, 'replaced object')} not deleted yet, which is tried again; "
                f"nobody waits for it: {self.problem}"
            )
        elif self._begun:
            lines.append(f"deleting replaced objects: {self.left}")
        if self._foreign:
            objects = plural(len(self._foreign), "replaced object")
            why = "left as somebody has overwritten them"
            lines.append(f"{objects} {why}: {self._foreign[-1]}")
        return "\n".join(lines)

    def stop(self) -> None:
        """Leave what is not done to the next driver."""
        self.pool.shutdown(wait=False, cancel_futures=True)

    def _collect(self, slot: int, one: _CleanUp, now: datetime) -> None:
        if one.reading is not None and one.reading.done():
            reading, one.reading = one.reading, None
            try:
                one.todo = reading.result()
            except LandfallError as error:
                self._pause(slot, one, now, str(error))
        for each in [each for each in one.running if each[1].done()]:
            one.running.remove(each)
            deletion, done = each
            try:
                done.result()
            except LandfallError as error:
                if not one.failed:
                    one.problem = f"{deletion.key}: {error}"
                one.failed.append(deletion)
        if one.failed and not (one.todo or one.running):
            one.todo, one.failed = one.failed, []
            self._pause(slot, one, now, one.problem)
        elif one.is_done:
            one.problem = ""

    def _pause(self, slot: int, one: _CleanUp, now: datetime, problem: str) -> None:
        one.problem, one.failures = problem, one.failures + 1
        one.wait_until = now + wait_after(one.failures)
        why = {"slot": slot, "left": one.left, "why": problem}
        log.warning("replaced objects are not deleted yet", extra=why)

    def _try(self, one: _CleanUp) -> None:
        while one.todo and len(one.running) < AHEAD:
            deletion = one.todo.pop()
            one.running.append((deletion, self._submit(deletion.work)))

    def _read(self, slot: int, pending: PendingReplacement) -> "Future[list[Deletion]]":
        return self._submit(partial(self._deletions, slot, pending))

    def _submit(self, work: Callable[[], object]) -> "Future":  # type: ignore[type-arg]  # of its result
        future = self.pool.submit(work)
        future.add_done_callback(lambda _: self._wake())
        return future

    def _deletions(self, slot: int, pending: PendingReplacement) -> list[Deletion]:
        """What there is to do; the last comes first.

        Raises:
            Retry: the store does not answer.
            Stalled: a list is missing or damaged.
        """
        named = (pending.listed, *pending.given_up)
        listed, *given_up = [read_replaced(self._lane.slots, slot, each) for each in named]
        return [*self.deletions(slot, listed, given_up)][::-1]

    def deletions(
        self, slot: int, listed: Replaced, given_up: Iterable[Replaced]
    ) -> Iterator[Deletion]:
        """What a REPLACE leaves to be deleted, and those that it was recorded instead of."""
        lane, left = self._lane, self._foreign.append
        retiring = Retiring(
            self._deps.store, lane.group, lane.name, slot, left, copies=self._copies
        )
        for other in given_up:
            for new in other.objects:
                upload = new.landed.upload
                yield Deletion(upload.key, partial(retiring.give_up, upload))
        for each in listed.retire:
            yield Deletion(each.landed.upload.key, partial(retiring.retire, each))
