"""Deletes the old objects of applied REPLACEs, while nothing waits (docs/adr/0066).

New objects count from the record that calls their REPLACE applied. What is left to do is to keep a
copy of each old object and to delete it, and to delete what a REPLACE that was given up had
decided. That may take hours, or be refused for ever: by a policy, a lock, a key that is disabled.
What cannot be deleted is named in the status and tried again, after everything else. RETIRED
records that nothing is left, so that the next driver need not look.

Nothing begins before ``landfall.driver.replacing.grace_period`` allows it. If the way back has
expired by then, no copy is kept.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby

from landfall.api.values import plural
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.retry_backoff import wait_after
from landfall.errors import LandfallError, Stalled, StoreDenied
from landfall.lane import Lane
from landfall.lane.replacements import applied_by, read_replaced
from landfall.ledger import PendingReplacement, State
from landfall.ledger.names import object_names
from landfall.ledger.replace.replacement_lists import ReplacementList
from landfall.ledger.task_results import DecidedObject
from landfall.objects import Upload, UploadLost, is_made_by
from landfall.store import Store
from landfall.store.copying import copied_unseen

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
    """The remaining deletions of a REPLACE.

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

        ``copies``: whether a copy is kept of each old object.
        """
        self._deps = deps
        self._lane = lane
        self._wake = wake
        self._copies = copies
        self.pool = deps.background.pool(THREADS, "retire")
        self._begun: dict[int, _CleanUp] = {}
        self._foreign: list[str] = []

    def begin(self, slot: int, pending: PendingReplacement) -> None:
        """Begin to clean up after a REPLACE whose new objects count, if that has not begun."""
        if slot not in self._begun:
            self._begun[slot] = _CleanUp(self._read(slot, pending))

    def advance(self, now: datetime, pending: "dict[int, PendingReplacement]") -> list[int]:
        """Continue everything; return the slots of REPLACEs with nothing left."""
        for slot, one in self._begun.items():
            self._collect(slot, one, now)
            if one.wait_until is None or now >= one.wait_until:
                one.wait_until = None
                if one.todo is None and one.reading is None:
                    one.reading = self._read(slot, pending[slot])
                self._try(one)
        return [slot for slot, one in self._begun.items() if one.is_done]

    def forget(self, slots: Iterable[int]) -> None:
        """Forget REPLACEs with nothing left, now that the ledger records it."""
        for slot in slots:
            del self._begun[slot]
            log.info("replaced objects deleted", extra={"slot": slot})

    def is_advancing(self, deletable: Iterable[int]) -> bool:
        """Return whether more will be gone soon; what the store has refused does not count.

        ``deletable`` are the slots of REPLACEs that may have objects left to be deleted now.
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
        """A line on what is left and what is refused; empty if nothing."""
        lines = []
        if self.problem:
            lines.append(
                f"{plural(self.left, 'replaced object')} not deleted yet, which is tried again; "
                f"nothing waits for it: {self.problem}"
            )
        elif self._begun:
            lines.append(f"deleting replaced objects: {self.left}")
        if self._foreign:
            objects = plural(len(self._foreign), "replaced object")
            why = "kept, as another program has overwritten them"
            lines.append(f"{objects} {why}: {self._foreign[-1]}")
        return "\n".join(lines)

    def stop(self) -> None:
        """Leave what is not done to the next driver."""
        self.pool.shutdown(wait=False, cancel_futures=True)

    def _collect(self, slot: int, one: _CleanUp, now: datetime) -> None:
        if one.reading is not None and one.reading.done():
            reading = one.reading
            one.reading = None
            try:
                one.todo = reading.result()
            except LandfallError as error:
                self._pause(slot, one, now, str(error))
        for pair in [pair for pair in one.running if pair[1].done()]:
            one.running.remove(pair)
            deletion, done = pair
            try:
                done.result()
            except LandfallError as error:
                if not one.failed:
                    one.problem = f"{deletion.key}: {error}"
                one.failed.append(deletion)
        if one.failed and not (one.todo or one.running):
            one.todo = one.failed
            one.failed = []
            self._pause(slot, one, now, one.problem)
        elif one.is_done:
            one.problem = ""

    def _pause(self, slot: int, one: _CleanUp, now: datetime, problem: str) -> None:
        one.problem, one.failures = problem, one.failures + 1
        one.wait_until = now + wait_after(one.failures)
        why = {"slot": slot, "left": one.left, "why": problem}
        log.warning("replaced objects not deleted yet", extra=why)

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
        """Return the deletions to do, in reverse order.

        Raises:
            Retry: the store does not answer.
            Stalled: a list is missing or damaged.
        """
        named = (pending.listed, *pending.given_up)
        listed, *given_up = [
            read_replaced(self._lane.slots, slot, reference) for reference in named
        ]
        return [*self.deletions(slot, listed, given_up)][::-1]

    def deletions(
        self, slot: int, listed: ReplacementList, given_up: Iterable[ReplacementList]
    ) -> Iterator[Deletion]:
        """Return what a REPLACE, and the ones that it supersedes, leave to be deleted."""
        lane, left = self._lane, self._foreign.append
        retiring = ObjectRetirement(
            store=self._deps.store,
            group=lane.group,
            lane=lane.name,
            slot=slot,
            left=left,
            copies=self._copies,
        )
        for other in given_up:
            for new in other.objects:
                upload = new.landed.upload
                yield Deletion(upload.key, partial(retiring.give_up, upload))
        kept = self._kept(slot) if self._copies else frozenset[str]()
        for object_ in listed.retire:
            is_kept = object_names.retired_key(lane.group, lane.name, slot, object_.key) in kept
            yield Deletion(object_.key, partial(retiring.retire, object_, is_kept=is_kept))

    def _kept(self, slot: int) -> frozenset[str]:
        """Return the copies that former drivers have kept: a listing asks for a thousand at once.

        Raises:
            Retry: the store does not answer.
        """
        prefix = object_names.retired_key(self._lane.group, self._lane.name, slot, "")
        return frozenset(stat.key for stat in self._deps.store.list_after(prefix))


# Copies of replaced objects, which are kept for a while, so that a REPLACE can be undone.

MAX_DELETED = 1000
"""Copies that are deleted by one request."""


def delete_expired(lane: Lane, state: State, retain: timedelta, now: datetime) -> int:
    """Delete copies of old objects of REPLACEs that were applied longer than ``retain`` ago.

    Copies of a REPLACE with old objects left stay. Returns how many are deleted.

    Raises:
        Retry: the store does not answer.
        Stalled: LEDGER_BROKEN, the REPLACE is missing.
    """
    deleted = 0
    prefix = object_names.retired_prefix(lane.group, lane.name)
    keys = (stat.key for stat in lane.slots.list_after(prefix))
    for slot, kept in groupby(keys, key=lambda key: object_names.slot_of(prefix, key)):
        if slot is None:
            continue
        if not _is_over(lane, state, slot, now - retain):
            break  # copies are listed by slot, and later slots are not over, either
        for some in _chunks(kept):
            lane.slots.delete_slots(some)
            deleted += len(some)
    if deleted:
        log.info("copies of replaced objects expired", extra={"objects": deleted})
    return deleted


def _is_over(lane: Lane, state: State, slot: int, before: datetime) -> bool:
    if slot > state.applied_through or slot in state.retiring:
        return False
    return applied_by(lane, state, slot).time < before


def _chunks(keys: Iterator[str]) -> Iterator[list[str]]:
    some = list[str]()
    for key in keys:
        some.append(key)
        if len(some) == MAX_DELETED:
            yield some
            some = []
    if some:
        yield some


# Deletes replaced objects, once their replacements are visible.
#
# After any interruption, each step may be taken again, by any number of drivers at once: a copy has
# one name and one content, and what is deleted has a name that is never given again.


@dataclass(frozen=True)
class ObjectRetirement:
    """Retires the objects of a REPLACE.

    Attributes:
        store: where they are.
        group: the group's name.
        lane: the lane's name.
        slot: of the REPLACE.
        left: called, from any thread, with the key of a foreign object that stays.
        copies: whether a copy is kept of what retires.
    """

    store: Store
    group: str
    lane: str
    slot: int
    left: Callable[[str], object] = lambda _: None
    copies: bool = True

    def retire(self, retiring: DecidedObject, *, is_kept: bool = False) -> None:
        """Keep a copy of an object, and delete it; afterwards no former driver can bring it back.

        An object with which another program has overwritten it stays, and no copy is kept of it: it
        is not ours to delete, and what readers of the ledger read is visible elsewhere by now.

        Args:
            retiring: the object.
            is_kept: whether a copy is there. One more is the same: it has one name and one content.

        Raises:
            Retry: the store does not answer.
        """
        upload = retiring.landed.upload
        if self.copies and not is_kept and not self._is_foreign(upload):
            kept = object_names.retired_key(self.group, self.lane, self.slot, upload.key)
            self._keep(upload, kept)
        self._delete(upload)

    def _delete(self, upload: Upload) -> None:
        """Delete the object of an upload, unless it is another one's by now."""
        try:
            self.store.retire(upload)
        except Stalled:
            if not self._is_foreign(upload):
                raise
            log.warning("overwritten object kept", extra={"key": upload.key})
            self.left(upload.key)

    def _is_foreign(self, upload: Upload) -> bool:
        """Return whether another program has overwritten the object of an upload."""
        for _ in range(2):  # while another driver deletes it, it may have lost its token already
            found = self.store.stat(upload.key)
            if found is None or is_made_by(upload, found):
                return False
        return True

    def _keep(self, upload: Upload, kept: str) -> None:
        try:
            copy = copied_unseen(
                store=self.store, source=upload.key, size=upload.size, key=kept, token=upload.token
            )
        except FileNotFoundError:
            # A driver before this one may have gone on from here, and ended.
            if self.store.stat(kept) is None:
                log.warning(
                    "replaced object lost: it is gone, and no copy is kept", extra={"key": kept}
                )
            return
        self.store.complete(copy, is_fresh=True)

    def give_up(self, upload: Upload) -> None:
        """Delete a new object that is not needed, whether it is visible by now or not.

        Raises:
            Retry: as ``retire``.
        """
        self.store.abort(upload.key, upload.upload_id)
        # Where uploads cannot be aborted, it is completed: what is left of it would stay else.
        try:
            self.store.complete(upload)
        except UploadLost:
            pass
        except StoreDenied:
            if not self.store.discards_uploads:  # else it is aborted, and never completed
                raise
        except Stalled:
            if not self._is_foreign(upload):
                raise
        self._delete(upload)
