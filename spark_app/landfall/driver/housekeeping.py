"""What a driver does aside, in the background: nothing that counts waits for it or depends on its success."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

from landfall.driver.orphan_uploads import abort_orphan_uploads
from landfall.errors import LandfallError
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice, SliceResult
from landfall.objects import Upload
from landfall.source import Log
from landfall.store import Store
from landfall.store.probe import PREFIX as PROBES

log = logging.getLogger(__name__)

SWEEP_INTERVAL = timedelta(hours=1)

PROBE_AGE = timedelta(hours=1)
"""What a driver that died while it probed the store left behind; a younger one may be a driver that
is starting now.
"""

Offsets = Mapping[TopicPartition, int]


class Housekeeping:
    """Mirrors offsets, aborts uploads that lost their meaning, sweeps up after the dead."""

    def __init__(self, store: Store, source: Log, is_fenced: Callable[[], bool]) -> None:
        """Work on this store and this log, and sweep only while the lane is ours."""
        self._store, self._log, self._is_fenced = store, source, is_fenced
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="chores")
        self._unmirrored: deque[tuple[int, Offsets]] = deque()
        self._swept: datetime | None = None

    def committed(self, seq: int, next_offsets: Offsets) -> None:
        """Note how far the checkpoint is after a COMMIT, for the mirror."""
        self._unmirrored.append((seq, next_offsets))

    def mirror(self, applied_through: int) -> None:
        """Tell Kafka's tools how far everything visible reaches."""
        visible: Offsets = {}
        while self._unmirrored and self._unmirrored[0][0] <= applied_through:
            visible = self._unmirrored.popleft()[1]
        if visible:
            self._pool.submit(_quietly, "offset mirror", partial(self._log.mirror, visible))

    def abort(self, uploads: Iterable[Upload]) -> None:
        """Give up uploads that will never be committed."""
        for upload in uploads:
            self._pool.submit(
                _quietly, "abort", partial(self._store.abort, upload.key, upload.upload_id)
            )

    def abort_results(self, results: Iterable[SliceResult]) -> None:
        """Give up all that a round uploaded."""
        landed = (result for result in results if isinstance(result, LandedSlice))
        self.abort(o.upload for result in landed for o in result.objects)

    def sweep_dead_drivers(self, ours: Callable[[str], bool], now: datetime) -> None:
        """Abort every open upload of this group, whatever its age.

        Right after recovery, when all that is decided is visible and nothing is begun: what is open
        then belongs to drivers that the OPEN fenced, and can never be committed.
        """
        self._swept = now
        _quietly(
            "sweep", partial(abort_orphan_uploads, self._store, ours, (), now, self._is_fenced)
        )
        _quietly(
            "sweep of probes",
            partial(abort_orphan_uploads, self._store, _is_probe, (), now - PROBE_AGE),
        )

    def sweep_if_due(
        self, ours: Callable[[str], bool], decided: Collection[str], now: datetime, age: timedelta
    ) -> None:
        """Once in a while, abort what tasks that died left behind: old, and named by no COMMIT."""
        if self._swept is not None and now - self._swept >= SWEEP_INTERVAL:
            self._swept = now
            self._pool.submit(
                _quietly,
                "sweep",
                partial(
                    abort_orphan_uploads, self._store, ours, decided, now - age, self._is_fenced
                ),
            )

    def finish(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(wait=True)


def _is_probe(key: str) -> bool:
    return key.startswith(PROBES)


def _quietly(what: str, do: Callable[[], object]) -> None:
    try:
        do()
    except LandfallError as error:
        log.warning("failed, nothing depends on it", extra={"what": what, "why": str(error)})
