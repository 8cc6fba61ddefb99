"""Decides from when the old objects of a REPLACE may be deleted (docs/adr/0076).

A reader that lists folders page by page, and opens later what was listed, needs the old objects for
a while after the new ones are visible; else rows are in no listed object, or in one that is gone.
So nothing is deleted before a grace period is over, by the time of the record that called the
REPLACE applied. Nor is anything deleted before every publisher of the group has come to that
record: the current version of a table never names a file that is gone. A publisher may hold old
objects longer, for earlier versions of its tables that name them (docs/adr/0095).

REPLACEs are applied in the order of their slots, so only the first that stays is looked at. One
that a publisher holds keeps no later one from being deleted.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from landfall.api.values import plural
from landfall.driver.core.deps import DriverDeps
from landfall.errors import LandfallError
from landfall.lane import Lane
from landfall.lane.replacements import applied_by, read_replaced
from landfall.ledger import State
from landfall.publish import DueObjects, Hold, HoldsObjects, Publisher

log = logging.getLogger(__name__)

LOOK_AGAIN = timedelta(minutes=1)
"""When a publisher is asked again that has not followed a REPLACE yet, and what readers of its
table's former version have until old objects are deleted; or the grace period, if that is shorter.
"""

ASK_AGAIN = timedelta(minutes=10)
"""When a publisher is asked again that has failed to answer whether it holds old objects."""

Publishers = Mapping[str, Callable[[], Publisher]]
"""By the names of publishers, what builds each."""


@dataclass(frozen=True, slots=True)
class _GraceLook:
    """The result of a look at a REPLACE.

    Attributes:
        wait_until: nothing may be deleted before this time; None if it may be now.
        problem: the publisher that has not followed, or that holds old objects; empty if none is
            waited for.
        is_held: whether every publisher has followed, and one holds old objects.
    """

    wait_until: datetime | None = None
    problem: str = ""
    is_held: bool = False


class GracePeriod:
    """Used by the driver's thread alone; it reads in a thread of its own."""

    def __init__(
        self,
        deps: DriverDeps,
        lane: Lane,
        keep: timedelta,
        publishers: Publishers,
        wake: Callable[[], object],
    ) -> None:
        """Read nothing yet.

        Args:
            deps: what the driver works with.
            lane: the lane whose REPLACEs they are.
            keep: the grace period.
            publishers: that are waited for.
            wake: called, from any thread, when something is known.
        """
        self._deps = deps
        self._lane = lane
        self._keep = keep
        self._wake = wake
        self._publishers = publishers
        self._pool = deps.background.pool(1, "grace")
        self._over: set[int] = set()
        self._looking: tuple[int, Future[_GraceLook]] | None = None
        self._found: dict[int, _GraceLook] = {}
        self.problem = ""
        """The publisher that has not followed yet, with its position; empty if all have."""

    @property
    def held(self) -> str:
        """A line on what publishers hold, and why; empty if they hold nothing."""
        held = [look.problem for _, look in sorted(self._found.items()) if look.is_held]
        return f"replaced objects of {plural(len(held), 'REPLACE')} stay: {held[0]}" if held else ""

    def over(self, state: State, now: datetime) -> frozenset[int]:
        """Return the slots of REPLACEs whose old objects may be deleted now."""
        self._over &= state.retiring.keys()
        self._collect(now)
        for slot in sorted(state.retiring):
            if slot in self._over or self._is_held(slot, now):
                continue
            if not self._keep and not self._publishers:
                self._over.add(slot)
                continue
            self._look(slot, state, now)
            break
        else:
            self.problem = ""
        return frozenset(self._over)

    def is_looking(self, state: State) -> bool:
        """Return whether it is known soon that more may be deleted."""
        held = {slot for slot, look in self._found.items() if look.is_held}
        kept = sorted(state.retiring.keys() - self._over - held)
        return self._looking is not None or (bool(kept) and kept[0] not in self._found)

    def stop(self) -> None:
        """Look at nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _is_held(self, slot: int, now: datetime) -> bool:
        """Return whether a publisher holds the old objects of a REPLACE, and is not asked yet."""
        found = self._found.get(slot)
        return bool(found and found.is_held and found.wait_until and now < found.wait_until)

    def _look(self, slot: int, state: State, now: datetime) -> None:
        found = self._found.get(slot)
        is_due = found is None or found.wait_until is None or now >= found.wait_until
        if self._looking is None and is_due:
            future = self._pool.submit(partial(self._find, slot, state, now, found))
            self._looking = slot, future
            future.add_done_callback(lambda _: self._wake())

    def _collect(self, now: datetime) -> None:
        if self._looking is None or not self._looking[1].done():
            return
        (slot, future), self._looking = self._looking, None
        try:
            found = future.result()
        except LandfallError as error:
            log.warning("replaced objects kept longer", extra={"slot": slot, "why": str(error)})
            found = _GraceLook(now + LOOK_AGAIN, str(error))
        self.problem = "" if found.is_held else found.problem
        if found.is_held and not self._is_same(slot, found):
            extra = {"slot": slot, "why": found.problem, "until": str(found.wait_until)}
            log.info("replaced objects kept for readers", extra=extra)
        if found.wait_until is None:
            self._over.add(slot)
            self._found.pop(slot, None)
        else:
            self._found[slot] = found

    def _is_same(self, slot: int, found: _GraceLook) -> bool:
        before = self._found.get(slot)
        return before is not None and before.problem == found.problem

    def _find(
        self, slot: int, state: State, now: datetime, before: _GraceLook | None
    ) -> _GraceLook:
        """Look at a REPLACE.

        Raises:
            Retry: the store or a destination does not answer.
            Stalled: LEDGER_BROKEN, a slot or a list is missing; or a publisher cannot be built.
        """
        applied = applied_by(self._lane, state, slot)
        if now < (until := applied.time + self._keep):
            return _GraceLook(until)
        pause = min(self._keep, LOOK_AGAIN)
        built = {name: build() for name, build in self._publishers.items()}
        for name, publisher in built.items():
            if (through := publisher.position()) < applied.slot:
                problem = f"publisher {name} is at slot {through} and has not followed slot {slot}"
                return _GraceLook(now + LOOK_AGAIN, problem)
        if before is not None and before.problem and not before.is_held and pause:
            return _GraceLook(now + pause)  # queries of the table's former version may be running
        holding = {name: p for name, p in built.items() if isinstance(p, HoldsObjects)}
        if not holding:
            return _GraceLook()
        listed = read_replaced(self._lane.slots, slot, state.retiring[slot].listed)
        due = DueObjects(applied.slot, applied.time, listed.retire)
        holds = [(name, _hold(publisher, due, now)) for name, publisher in holding.items()]
        found = [(hold.until, f"publisher {name}: {hold.why}") for name, hold in holds if hold]
        return _GraceLook(*max(found), is_held=True) if found else _GraceLook()


def _hold(publisher: HoldsObjects, due: DueObjects, now: datetime) -> Hold | None:
    """Return why a publisher holds objects; one that does not answer holds these for a while."""
    try:
        return publisher.hold(due, now)
    except LandfallError as error:
        return Hold(now + ASK_AGAIN, str(error))
