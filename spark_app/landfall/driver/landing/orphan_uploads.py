"""Aborts uploads that no COMMIT names: leftovers of dead tasks and dead drivers.

There may be ten thousand of them after an outage, so they are listed and aborted in the background.
Two rules keep everything that is still needed:

- A driver that was fenced and does not know it yet would abort its successor's uploads. So the
  ledger is read after the listing: if no other driver had opened the lane by then, no listed upload
  is a successor's.
- A driver must not abort what its own tasks upload. Either the filter takes only uploads of ranges
  that were landed before, and older than any that a task may still write to; or the listing is
  *closed* before the first task starts: it then takes no more uploads, so all that it has taken
  were begun by other drivers. Age alone would not do: it compares the clocks of driver and store.
"""

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from landfall.driver.core.background import Background
from landfall.errors import LandfallError
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Checkpoint, TopicPartition
from landfall.objects import OpenUpload
from landfall.store import Uploads

log = logging.getLogger(__name__)

MAX_ORPHANS = 100_000
"""How many uploads a sweep aborts at most; later ones are left to the next, an hour later."""
THREADS = 16
GRACE = timedelta(seconds=30)
"""How long a driver that ends continues to abort."""


def is_ours(group: str, members: Collection[TopicPartition], key: str) -> bool:
    """Return whether a key is named like the group's objects; another's root may lie inside ours.

    Args:
        group: the name of the group.
        members: its topic partitions.
        key: the key.
    """
    try:
        origin = object_names.origin(group, key)
    except ValueError:
        return False
    return TopicPartition(origin.topic, origin.partition) in members


def is_of_landed_range(group: str, checkpoint: Checkpoint, key: str) -> bool:
    """Return whether a key is named like an object of the group of a range that was landed before.

    Args:
        group: the name of the group.
        checkpoint: up to where its topic partitions were landed.
        key: the key.
    """
    try:
        origin = object_names.origin(group, key)
    except ValueError:
        return False
    tp = TopicPartition(origin.topic, origin.partition)
    return tp in checkpoint and origin.start < checkpoint[tp]


@dataclass(frozen=True, slots=True)
class OrphanFilter:
    """Decides which open uploads are orphans.

    Attributes:
        is_ours: whether a key is named like this group's objects; another group's root may lie
            inside ours.
        begun_before: younger uploads may still be written to; None if age does not matter.
        decided: ids of uploads that a COMMIT names; aborting one would lose what is committed.
    """

    is_ours: Callable[[str], bool]
    begun_before: datetime | None
    decided: frozenset[str] = frozenset()

    def takes(self, upload: OpenUpload) -> bool:
        """Return whether the upload is an orphan."""
        return (
            (self.begun_before is None or upload.begun <= self.begun_before)
            and upload.upload_id not in self.decided
            and self.is_ours(upload.key)
        )


class OrphanSweep:
    """Lists open uploads once, and aborts the orphans, both in the background."""

    def __init__(
        self,
        uploads: Uploads,
        is_fenced: Callable[[], bool],
        background: Background,
        clock: Callable[[], datetime],
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """Nothing is requested before ``start``.

        Args:
            uploads: the store.
            is_fenced: whether another driver has opened the lane by now.
            background: makes the pools of threads.
            clock: the current time.
            wake: called, from any thread, when the listing has ended.
        """
        self._uploads = uploads
        self._is_fenced = is_fenced
        self._clock = clock
        self._wake = wake
        self._lister = background.pool(1, "list-orphans")
        self._aborters = background.pool(THREADS, "abort-orphans")
        self._closed = threading.Event()
        self._until: datetime | None = None
        self._lock = threading.Lock()
        self._remaining = 0
        self.is_listing = False

    @property
    def remaining(self) -> int:
        """How many orphans are still to be aborted, of those found so far."""
        return self._remaining

    def start(self, *filters: OrphanFilter) -> None:
        """List the open uploads and abort the ones that one of the filters takes."""
        self.is_listing = True
        self._lister.submit(self._run, filters)

    def close(self) -> None:
        """Take no more uploads: the ones begun from now are kept."""
        self._closed.set()

    def stop(self) -> None:
        """Return when all are aborted or ``GRACE`` is over; the next driver aborts what remains."""
        self._closed.set()
        self._until = self._clock() + GRACE
        self._lister.shutdown(wait=True)
        self._aborters.shutdown(wait=True)

    @property
    def _is_over(self) -> bool:
        return self._until is not None and self._clock() > self._until

    def _run(self, filters: tuple[OrphanFilter, ...]) -> None:
        try:
            found = self._list(filters)
            if found and not self._is_fenced():
                self._abort_all(found)
        except LandfallError as error:
            log.warning("sweep failed", extra={"why": str(error)})
        finally:
            self.is_listing = False
            self._wake()

    def _list(self, filters: tuple[OrphanFilter, ...]) -> list[OpenUpload]:
        found: list[OpenUpload] = []
        for upload in self._uploads.open_uploads(""):
            # Looked at after each page was answered, and for each upload of it: an upload that was
            # begun after ``close`` can only be in an answer that came after it.
            if self._closed.is_set() or len(found) >= MAX_ORPHANS:
                break
            if any(filter_.takes(upload) for filter_ in filters):
                found.append(upload)
        return found

    def _abort_all(self, found: list[OpenUpload]) -> None:
        log.info("orphan uploads found", extra={"count": len(found)})
        with self._lock:
            self._remaining += len(found)
        for upload in found:
            self._aborters.submit(self._abort, upload)

    def _abort(self, upload: OpenUpload) -> None:
        try:
            if not self._is_over:
                self._uploads.abort(upload.key, upload.upload_id)
        except LandfallError as error:
            log.warning("orphan not aborted", extra={"key": upload.key, "why": str(error)})
        finally:
            with self._lock:
                self._remaining -= 1
