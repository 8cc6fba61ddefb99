"""Completes committed uploads in the background, and knows which COMMITs are visible as a whole.

It is given only uploads that a COMMIT or REPAIR in the ledger names. Completing is idempotent and
unconditional, so it does no harm if a successor rolls the same COMMIT forward at the same time. A
store that does not answer is tried again without limit: what is committed must become visible.

New objects of a REPLACE are completed by threads of their own, and one that the store refuses is
tried again after a growing pause, in which no thread waits for it, and landing does not either.

An upload that seems lost may only be hidden by the completion of another driver. It is *doubtful*
then, and looked up again after each of the store's pauses, a minute in all. Nothing waits for that:
a start with thousands of lost uploads lands at once.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from threading import Event

import stamina

from landfall import ledger
from landfall.driver.core.deps import DriverDeps, record_failure
from landfall.driver.core.parts import DriverPart
from landfall.driver.core.retry_backoff import wait_after
from landfall.errors import AccessDenied, LettersDenied, Retry, StoreDenied, cause
from landfall.ledger.decisions import topic_partition
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject
from landfall.objects import UploadLost

THREADS = 32
REPLACING_THREADS = 8
"""For REPLACEs, whose many objects must not keep a COMMIT waiting."""
LONGEST_WAIT = 5.0
"""Seconds between two attempts at most: a start lands nothing before all COMMITs are applied, so it
should continue soon after the store is back.
"""


@dataclass(slots=True)
class _Completion:
    """An object that is not known to be visible.

    Attributes:
        landed: the object.
        done: the last attempt to complete it.
        looks: how often it was looked up again because its upload seems lost.
        due: when it is tried again; None while it is, and once it is lost.
        refusals: how often in a row the store refused an object of a REPLACE.
        refused_before: why the store refused the attempt before the last one.
    """

    landed: LandedObject
    done: Future[None]
    looks: int = 0
    due: datetime | None = None
    refusals: int = 0
    refused_before: AccessDenied | None = None

    @property
    def refused(self) -> AccessDenied | None:
        """Why the store refused the last attempt; while that runs, the one before it."""
        done = self.done
        if not done.done():
            return self.refused_before
        error = None if done.cancelled() else done.exception()
        return error if isinstance(error, AccessDenied) else None

    @property
    def seems_lost(self) -> bool:
        """True if the last attempt found neither the upload nor its object."""
        done = self.done
        return done.done() and not done.cancelled() and isinstance(done.exception(), UploadLost)


class Completer(DriverPart):
    """Completes the objects of COMMITs; called from one thread, works in many."""

    def __init__(self, deps: DriverDeps, wake: Callable[[], None]) -> None:
        """``wake`` is called, from any thread, when one ``apply`` is done or an object failed."""
        self._deps = deps
        self._uploads = deps.store
        self._clock = deps.clock
        self._wake = wake
        self._pool = deps.background.pool(THREADS, "complete")
        self._replacing_pool = deps.background.pool(REPLACING_THREADS, "complete-replacing")
        self._stopped = Event()
        self._pending: dict[int, dict[str, _Completion]] = {}
        """By COMMIT's slot and by key."""
        self._held = set[int]()
        """Slots of REPLACEs that are not done once their objects are complete."""
        self._highest = -1
        self._refused: AccessDenied | None = None

    def apply(
        self, commit: int, objects: Iterable[LandedObject], *, is_fresh: bool = False
    ) -> None:
        """Complete objects of the COMMIT in this slot; fresh ones were committed just now.

        A key that was given before, and now comes from a REPAIR, replaces the former object.
        """
        futures = {o: self._submit(commit, o, is_fresh=is_fresh) for o in objects}
        self._pending.setdefault(commit, {}).update(
            {landed.key: _Completion(landed, f) for landed, f in futures.items()}
        )
        self._highest = max(self._highest, commit)
        unfinished = [*futures]

        def finished(future: Future[None]) -> None:
            unfinished.pop()  # only the number counts, and a pop is atomic
            if not unfinished or future.cancelled() or future.exception():
                self._wake()

        for future in futures.values():
            future.add_done_callback(finished)

    def roll_forward(
        self,
        unapplied: Mapping[int, Iterable[LandedObject]],
        report: Callable[[], None],
        wait: Callable[[], None],
    ) -> None:
        """Complete what former drivers have committed, and wait until all of it is, or is lost."""
        for commit, objects in sorted(unapplied.items()):
            self.apply(commit, objects)
        while True:
            self.lost()  # forgets what is complete
            if not self.completing:
                return
            report()
            wait()

    def _submit(self, slot: int, landed: LandedObject, *, is_fresh: bool) -> Future[None]:
        if slot in self._held:
            should_retry = self._should_retry_unrefused
            work = partial(self._complete, landed, is_fresh=is_fresh, should_retry=should_retry)
            return self._replacing_pool.submit(work)
        work = partial(self._complete, landed, is_fresh=is_fresh, should_retry=self._should_retry)
        return self._pool.submit(work)

    def _complete(
        self,
        landed: LandedObject,
        *,
        is_fresh: bool,
        should_retry: Callable[[Exception], bool],
    ) -> None:
        for attempt in stamina.retry_context(
            on=should_retry, attempts=None, timeout=None, wait_max=LONGEST_WAIT
        ):
            with attempt:
                try:
                    # Only the first attempt: after another one, an answer may be about that one.
                    is_first = attempt.num == 1
                    self._uploads.complete(landed.upload, is_fresh=is_fresh and is_first)
                except (StoreDenied, LettersDenied) as denied:
                    if should_retry(denied):  # else its object is asked
                        self._refused = denied
                    raise

    def _should_retry_unrefused(self, error: Exception) -> bool:
        return self._should_retry(error) and not isinstance(error, AccessDenied)

    def _should_retry(self, error: Exception) -> bool:
        return isinstance(error, Retry) and not self._stopped.is_set()

    def advance(self, now: datetime) -> None:  # noqa: ARG002  # of every part
        """Count the last refusal since the pass before; it is tried again meanwhile."""
        refused = self._refused
        self._refused = None
        if refused:
            record_failure(self._deps, cause(refused, "Complete"), refused)

    def lost(self) -> dict[int, list[LandedObject]]:
        """Forget what is complete, and return the objects whose uploads are gone, by COMMIT's slot.

        Doubtful uploads whose pause is over are looked up again.

        Raises:
            Stalled: the store cannot do what is needed, or a foreign object is at the key.
        """
        lost: dict[int, list[LandedObject]] = {}
        now = self._clock()
        for commit, pending in list(self._pending.items()):
            for key, completion in list(pending.items()):
                if not completion.done.done():
                    continue
                error = completion.done.exception()
                if error is None:
                    del pending[key]
                elif not isinstance(error, UploadLost | Retry):
                    raise error
                elif self._is_lost(commit, completion, now):
                    lost.setdefault(commit, []).append(completion.landed)
            if not pending:
                del self._pending[commit]
        return lost

    def _is_lost(self, slot: int, completion: _Completion, now: datetime) -> bool:
        """Return whether an upload is gone for certain; one that may exist is retried in time."""
        if not completion.refused:
            return completion.seems_lost and not self._is_doubtful(slot, completion, now)
        if completion.due is None:
            completion.refusals += 1
            completion.due = now + wait_after(completion.refusals)
        elif now >= completion.due:
            self._try_again(slot, completion)
        return False

    def _try_again(self, slot: int, completion: _Completion) -> None:
        completion.due = None
        completion.refused_before = completion.refused
        completion.done = self._submit(slot, completion.landed, is_fresh=False)
        completion.done.add_done_callback(lambda _: self._wake())

    def _is_doubtful(self, slot: int, completion: _Completion, now: datetime) -> bool:
        """Return whether what seems lost is to be looked up again; if it is time, it is now."""
        pauses = self._uploads.pauses_before_lost
        if completion.due is None:  # it was looked up just now
            if completion.looks == len(pauses):
                return False
            completion.due = now + timedelta(seconds=pauses[completion.looks])
        elif now >= completion.due:
            completion.looks += 1
            self._try_again(slot, completion)
        return True

    def forget(self, keys: AbstractSet[str]) -> None:
        """Do not wait for lost objects with these keys any more: a LOST or a BLOCK names them."""
        for commit, pending in list(self._pending.items()):
            for key in keys & pending.keys():
                del pending[key]
            if not pending:
                del self._pending[commit]

    def hold(self, slot: int) -> None:
        """Do not call a slot applied before it is released, even if it is complete."""
        self._held.add(slot)
        self._highest = max(self._highest, slot)

    def release(self, slot: int) -> None:
        """Call a slot applied once its objects are complete, if there are any."""
        self._held.discard(slot)

    def give_up(self, slot: int) -> None:
        """Do not wait for the objects of a slot any more: another record decides instead of it."""
        self._pending.pop(slot, None)
        self._held.discard(slot)

    def decide_again(self, slot: int, later: int) -> None:
        """Move the objects of a REPLACE to a later slot, which decides the same."""
        if slot in self._pending:
            self._pending[later] = self._pending.pop(slot)
        self._held.discard(slot)
        self.hold(later)

    def refused(self, slot: int) -> AccessDenied | None:
        """Why the store refused an object of a REPLACE the last time; None if it refuses none."""
        found = (completion.refused for completion in self._pending.get(slot, {}).values())
        return next((refused for refused in found if refused), None)

    def is_complete(self, slot: int) -> bool:
        """Return whether every object given for a slot is visible, as of the last ``lost``."""
        return slot not in self._pending

    @property
    def protected_uploads(self) -> frozenset[str]:
        """Ids of uploads that a COMMIT names and that may still be open."""
        return frozenset(
            c.landed.upload.upload_id
            for pending in self._pending.values()
            for c in pending.values()
        )

    @property
    def unapplied(self) -> int:
        """COMMITs with objects that are not known to be visible, as of the last ``lost``."""
        return len(self._pending.keys() - self._held)

    @property
    def completing(self) -> int:
        """COMMITs among them with an object that neither is lost nor seems so."""
        return sum(
            not all(completion.seems_lost for completion in pending.values())
            for slot, pending in self._pending.items()
            if slot not in self._held
        )

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """Topic partitions of objects that are not known to be visible, as of the last ``lost``.

        The ledger may name more of them as unapplied, until a record calls them applied.
        """
        return frozenset(map(topic_partition, chain.from_iterable(self._pending.values())))

    @property
    def awaited(self) -> frozenset[TopicPartition]:
        """The same for COMMITs alone: nothing waits for a REPLACE."""
        of_commits = (p for slot, p in self._pending.items() if slot not in self._held)
        return frozenset(map(topic_partition, chain.from_iterable(of_commits)))

    @property
    def is_at_rest(self) -> bool:
        """True if no object will be visible before a silent Kafka partition answers."""
        away = self._deps.observer.view.unavailable.keys()
        return self.completing == 0 and self.awaited <= away

    @property
    def applied_through(self) -> int:
        """The highest slot up to which everything is applied, as of the last ``lost``."""
        return ledger.applied_through(self._pending.keys() | self._held, self._highest)

    def stop(self) -> None:
        """Drop what is still pending; the next driver rolls it forward."""
        self._stopped.set()
        for pool in (self._pool, self._replacing_pool):
            pool.shutdown(wait=False, cancel_futures=True)
