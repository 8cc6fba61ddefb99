"""Making decided objects visible, in the background, and knowing through which COMMIT all of them are.

Only uploads that a COMMIT or REPAIR in the ledger names are ever handed in. Completing is
idempotent and unconditional, so a successor that rolls the same COMMIT forward at the same time
does no harm. A store that cannot answer is asked again for ever: what is decided must happen.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import stamina

from landfall import ledger
from landfall.errors import Retry
from landfall.ledger.task_results import LandedObject
from landfall.objects import UploadLost
from landfall.store import Uploads

THREADS = 32


class Completer:
    """Completes the objects of COMMITs; used from one thread, works in many."""

    def __init__(self, uploads: Uploads, wake: Callable[[], None]) -> None:
        """Call ``wake`` from any thread when the last object handed in together is done, or one failed."""
        self._uploads, self._wake = uploads, wake
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="apply")
        self._stopped = Event()
        self._waiting: dict[int, dict[str, tuple[LandedObject, Future[None]]]] = {}
        self._highest = -1

    def apply(self, commit: int, objects: Iterable[LandedObject]) -> None:
        """Hand in objects of a COMMIT; a key handed in again (a repair) replaces the one before."""
        futures = {landed: self._pool.submit(self._complete, landed) for landed in objects}
        self._waiting.setdefault(commit, {}).update(
            {landed.upload.key: (landed, f) for landed, f in futures.items()}
        )
        self._highest = max(self._highest, commit)
        unfinished = [*futures]

        def finished(future: Future[None]) -> None:
            unfinished.pop()  # by number only; a pop is atomic
            if not unfinished or future.cancelled() or future.exception():
                self._wake()

        for future in futures.values():
            future.add_done_callback(finished)

    def _complete(self, landed: LandedObject) -> None:
        for attempt in stamina.retry_context(
            on=self._worth_retrying, attempts=None, timeout=None, wait_max=30
        ):
            with attempt:
                self._uploads.complete(landed.upload)

    def _worth_retrying(self, error: Exception) -> bool:
        return isinstance(error, Retry) and not self._stopped.is_set()

    def lost(self) -> dict[int, list[LandedObject]]:
        """Objects whose uploads are gone, per COMMIT: they must be made again.

        Raises:
            Stalled: the store refused for a reason that needs a person, or holds a foreign object
                at the key.
        """
        lost: dict[int, list[LandedObject]] = {}
        for commit, waiting in list(self._waiting.items()):
            for key, (landed, done) in list(waiting.items()):
                if not done.done():
                    continue
                error = done.exception()
                if error is None:
                    del waiting[key]
                elif isinstance(error, UploadLost):
                    lost.setdefault(commit, []).append(landed)
                elif not isinstance(error, Retry):
                    raise error
            if not waiting:
                del self._waiting[commit]
        return lost

    @property
    def decided(self) -> frozenset[str]:
        """Ids of uploads that a COMMIT names and that may still be open."""
        return frozenset(
            o.upload.upload_id for waiting in self._waiting.values() for o, _ in waiting.values()
        )

    @property
    def unapplied(self) -> int:
        """COMMITs with objects that are not known to be visible; call ``lost`` first."""
        return len(self._waiting)

    @property
    def applied_through(self) -> int:
        """Every COMMIT handed in up to this slot is applied; call ``lost`` first."""
        return ledger.applied_through(self._waiting, self._highest)

    def stop(self) -> None:
        """Let go of what is still waiting; the next driver rolls it forward."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
