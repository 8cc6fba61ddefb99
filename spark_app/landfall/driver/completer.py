"""Completes committed uploads in the background, and knows which COMMITs are visible as a whole.

It is given only uploads that a COMMIT or REPAIR in the ledger names. Completing is idempotent and
unconditional, so it does no harm if a successor rolls the same COMMIT forward at the same time. A
store that does not answer is tried again without limit: what is committed must become visible.

An upload that seems lost may only be hidden by the completion of another driver. It is *doubtful*
then, and looked up again after each of the store's pauses, a minute in all. No thread waits for
that, and nobody else: a start with thousands of lost uploads lands at once.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from threading import Event

import stamina

from landfall import ledger
from landfall.driver.deps import DriverDeps
from landfall.errors import Retry, StoreDenied
from landfall.ledger.decisions import topic_partition
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedObject
from landfall.objects import UploadLost

THREADS = 32
LONGEST_WAIT = 5.0
"""Seconds between two attempts at most: a start lands nothing before all COMMITs are applied, so it
should go on soon after the store is back.
"""


@dataclass(frozen=True, slots=True)
class _Doubt:
    """An upload that seems lost: how often it was looked up again, and when it is the next time.

    ``due`` is None while it is being looked up, and once it is lost.
    """

    looks: int
    due: datetime | None = None


_Pending = dict[str, tuple[LandedObject, Future[None]]]
"""Objects that are not known to be visible, by key."""


class Completer:
    """Completes the objects of COMMITs; called from one thread, works in many."""

    def __init__(self, deps: DriverDeps, wake: Callable[[], None]) -> None:
        """``wake`` is called, from any thread, when one ``apply`` is done or an object failed."""
        self._uploads, self._wake, self._clock = deps.store, wake, deps.clock
        self._pool = deps.background.pool(THREADS, "complete")
        self._stopped = Event()
        self._pending: dict[int, _Pending] = {}
        """By COMMIT's slot."""
        self._doubts: dict[str, _Doubt] = {}
        """By upload id; only of those that may not be lost."""
        self._highest = -1
        self._refused: StoreDenied | None = None

    def apply(
        self, commit: int, objects: Iterable[LandedObject], *, is_fresh: bool = False
    ) -> None:
        """Complete objects of the COMMIT in this slot; fresh ones were committed just now.

        A key that was given before, and now comes from a REPAIR, replaces the former object.
        """
        futures = {o: self._pool.submit(self._complete, o, is_fresh=is_fresh) for o in objects}
        self._pending.setdefault(commit, {}).update(
            {landed.upload.key: (landed, f) for landed, f in futures.items()}
        )
        self._highest = max(self._highest, commit)
        unfinished = [*futures]

        def finished(future: Future[None]) -> None:
            unfinished.pop()  # only the number counts, and a pop is atomic
            if not unfinished or future.cancelled() or future.exception():
                self._wake()

        for future in futures.values():
            future.add_done_callback(finished)

    def _complete(self, landed: LandedObject, *, is_fresh: bool) -> None:
        for attempt in stamina.retry_context(
            on=self._should_retry, attempts=None, timeout=None, wait_max=LONGEST_WAIT
        ):
            with attempt:
                try:
                    # Only the first attempt: after another one, an answer may be about that one.
                    is_first = attempt.num == 1
                    self._uploads.complete(landed.upload, is_fresh=is_fresh and is_first)
                except StoreDenied as denied:
                    self._refused = denied
                    raise

    def _should_retry(self, error: Exception) -> bool:
        return isinstance(error, Retry) and not self._stopped.is_set()

    def take_refusal(self) -> StoreDenied | None:
        """The last refusal since this was asked before, for the status; it is tried again."""
        refused, self._refused = self._refused, None
        return refused

    def lost(self) -> dict[int, list[LandedObject]]:
        """Forget what is complete, and return the objects whose uploads are gone, by COMMIT's slot.

        Doubtful uploads whose pause is over are looked up again.

        Raises:
            Stalled: the store cannot do what is needed, or a foreign object is at the key.
        """
        lost: dict[int, list[LandedObject]] = {}
        now = self._clock()
        for commit, pending in list(self._pending.items()):
            for key, (landed, done) in list(pending.items()):
                if not done.done():
                    continue
                error = done.exception()
                if error is None:
                    del pending[key]
                    self._doubts.pop(landed.upload.upload_id, None)
                elif not isinstance(error, UploadLost | Retry):
                    raise error
                elif isinstance(error, UploadLost) and not self._doubts_still(landed, pending, now):
                    lost.setdefault(commit, []).append(landed)
            if not pending:
                del self._pending[commit]
        return lost

    def _doubts_still(self, landed: LandedObject, pending: _Pending, now: datetime) -> bool:
        """Whether an upload that seems lost is to be looked up again; if it is time, it is now."""
        upload, pauses = landed.upload, self._uploads.pauses
        doubt = self._doubts.get(upload.upload_id, _Doubt(0))
        if doubt.due is None:  # it was looked up just now
            if doubt.looks == len(pauses):
                return False
            due = now + timedelta(seconds=pauses[doubt.looks])
            self._doubts[upload.upload_id] = _Doubt(doubt.looks + 1, due)
        elif now >= doubt.due:
            self._doubts[upload.upload_id] = _Doubt(doubt.looks)
            future = self._pool.submit(self._complete, landed, is_fresh=False)
            future.add_done_callback(lambda _: self._wake())
            pending[upload.key] = landed, future
        return True

    def forget(self, keys: AbstractSet[str]) -> None:
        """Do not wait for lost objects with these keys any more: a LOST or a BLOCK names them."""
        for commit, pending in list(self._pending.items()):
            for key in keys & pending.keys():
                self._doubts.pop(pending.pop(key)[0].upload.upload_id, None)
            if not pending:
                del self._pending[commit]

    @property
    def decided(self) -> frozenset[str]:
        """Ids of uploads that a COMMIT names and that may still be open."""
        return frozenset(
            o.upload.upload_id for pending in self._pending.values() for o, _ in pending.values()
        )

    @property
    def unapplied(self) -> int:
        """COMMITs with objects that are not known to be visible, as of the last ``lost``."""
        return len(self._pending)

    @property
    def completing(self) -> int:
        """Those of them of which an object neither is lost nor seems so."""
        return sum(
            not all(_seems_lost(done) for _, done in pending.values())
            for pending in self._pending.values()
        )

    @property
    def topic_partitions(self) -> frozenset[TopicPartition]:
        """Topic partitions of objects that are not known to be visible, as of the last ``lost``.

        The ledger may name more of them as unapplied, until a record says that they are applied.
        """
        return frozenset(map(topic_partition, chain.from_iterable(self._pending.values())))

    @property
    def applied_through(self) -> int:
        """The highest slot up to which every COMMIT is applied, as of the last ``lost``."""
        return ledger.applied_through(self._pending, self._highest)

    def stop(self) -> None:
        """Drop what is still pending; the next driver rolls it forward."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _seems_lost(done: Future[None]) -> bool:
    return done.done() and not done.cancelled() and isinstance(done.exception(), UploadLost)
