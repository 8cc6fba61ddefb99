"""Background work that nothing waits for: the offset mirror, and aborting uploads."""

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from landfall.driver.core.deps import DriverDeps
from landfall.driver.landing.orphan_uploads import OrphanFilter, OrphanSweep
from landfall.errors import LandfallError
from landfall.ledger.names import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice, SliceResult
from landfall.objects import Upload
from landfall.store.probe import PREFIX as PROBES

log = logging.getLogger(__name__)

SWEEP_INTERVAL = timedelta(hours=1)

LISTING_PATIENCE = timedelta(minutes=1)
"""How long landing waits for the list of uploads that former drivers left."""

PROBE_AGE = timedelta(hours=1)
"""Older probe uploads belong to a driver that died while it probed the store. A younger one may
belong to a driver that is starting now.
"""

COPY_AGE = timedelta(days=1)
"""Older uploads of copies of replaced objects belong to a driver that died while it copied. Into a
younger one this driver may copy.
"""

Offsets = Mapping[TopicPartition, int]


class Housekeeping:
    """Mirrors offsets to Kafka and aborts uploads that will never be committed.

    An error here is logged and otherwise ignored: neither landing nor exactly-once depends on it.
    """

    def __init__(
        self, deps: DriverDeps, is_fenced: Callable[[], bool], wake: Callable[[], None]
    ) -> None:
        """``is_fenced`` returns whether another driver has opened the lane: orphans are kept then.

        ``wake`` is called, from any thread, when the first listing has ended.
        """
        self._store = deps.store
        self._log = deps.observer.log
        self._clock = deps.clock
        self._pool = deps.background.pool(4, "housekeeping")
        self._first_sweep = OrphanSweep(
            uploads=deps.store,
            is_fenced=is_fenced,
            background=deps.background,
            clock=deps.clock,
            wake=wake,
        )
        self._later_sweeps = OrphanSweep(deps.store, is_fenced, deps.background, deps.clock)
        self._unmirrored: deque[tuple[int, Offsets]] = deque()
        self._last_sweep: datetime | None = None

    def committed(self, seq: int, next_offsets: Offsets) -> None:
        """Remember the checkpoint after the COMMIT in slot ``seq``, for ``mirror``."""
        self._unmirrored.append((seq, next_offsets))

    def mirror(
        self, applied_through: int, missing: Collection[TopicPartition] = frozenset()
    ) -> None:
        """Commit to Kafka, for its own tools, the offsets below which all objects are visible.

        Topic partitions with a missing object are left out.
        """
        visible: Offsets = {}
        while self._unmirrored and self._unmirrored[0][0] <= applied_through:
            visible = self._unmirrored.popleft()[1]
        if missing:
            visible = {tp: offset for tp, offset in visible.items() if tp not in missing}
        if visible:
            self._pool.submit(_log_errors, "offset mirror", partial(self._log.mirror, visible))

    def abort(self, uploads: Iterable[Upload]) -> None:
        """Abort uploads that will never be committed."""
        for upload in uploads:
            self._pool.submit(
                _log_errors, "abort", partial(self._store.abort, upload.key, upload.upload_id)
            )

    def abort_results(self, results: Iterable[SliceResult]) -> None:
        """Abort everything that a batch uploaded."""
        landed = (result for result in results if isinstance(result, LandedSlice))
        self.abort(o.upload for result in landed for o in result.objects)

    def begin_first_sweep(
        self,
        is_ours: Callable[[str], bool],
        decided: Collection[str],
        now: datetime,
        is_discarded: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Begin to list this group's open uploads, of any age, and to abort them.

        To be called right after recovery, when everything committed is visible and no task of this
        driver has started: what is open then belongs to drivers that our OPEN fenced, so it can
        never be committed. ``end_first_listing`` must be called before the first task starts.
        Uploads for which ``is_discarded`` is true are in a side lane that is not landed in any
        more.
        """
        self._last_sweep = now
        fenced = OrphanFilter(is_ours, None, frozenset(decided))
        probes = OrphanFilter(_is_probe, now - PROBE_AGE)
        kept, discarded = _kept(now), OrphanFilter(is_discarded, None)
        self._first_sweep.start(fenced, probes, kept, discarded)

    def await_first_listing(self, wait: Callable[[], None], tell: Callable[[], None]) -> None:
        """Return once the first listing has ended, or has taken too long; tasks may start then.

        ``wait`` returns when something happened; ``tell`` is called while it runs.
        """
        began = self._clock()
        while self.is_listing and self._clock() - began < LISTING_PATIENCE:
            wait()
            if self.is_listing:  # one that ends at once is not worth a message
                tell()
        self.end_first_listing()

    @property
    def is_listing(self) -> bool:
        """True if the first listing is under way."""
        return self._first_sweep.is_listing

    def end_first_listing(self) -> None:
        """Leave what is not listed by now to later sweeps; tasks may start afterwards."""
        self._first_sweep.close()

    @property
    def orphans(self) -> int:
        """How many orphan uploads are still to be aborted, of those found so far."""
        return self._first_sweep.remaining + self._later_sweeps.remaining

    def abort_orphans_if_due(
        self,
        is_ours: Callable[[str], bool],
        decided: Collection[str],
        now: datetime,
        age: timedelta,
        is_discarded: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Abort uploads of dead tasks, once per ``SWEEP_INTERVAL``.

        They are in no COMMIT and older than ``age``; younger ones may still be written to.
        """
        if self._last_sweep is not None and now - self._last_sweep >= SWEEP_INTERVAL:
            self._last_sweep = now
            tasks = OrphanFilter(is_ours, now - age, frozenset(decided))
            self._later_sweeps.start(tasks, _kept(now), OrphanFilter(is_discarded, None))

    def finish(self) -> None:
        """Return when all work under way has ended; orphans that remain are for the next driver."""
        self._first_sweep.stop()
        self._later_sweeps.stop()
        self._pool.shutdown(wait=True)


def _is_probe(key: str) -> bool:
    return key.startswith(PROBES)


def _kept(now: datetime) -> OrphanFilter:
    return OrphanFilter(_is_kept, now - COPY_AGE)


def _is_kept(key: str) -> bool:
    return object_names.ANY_RETIRED.match(key) is not None


def _log_errors(what: str, do: Callable[[], object]) -> None:
    try:
        do()
    except LandfallError as error:
        log.warning("background task failed", extra={"task": what, "why": str(error)})
