"""Merges small objects alongside landing, by ``spec.compact``, up to a plan to be recorded.

A thread follows the ledger (``compaction_folders``). Once an output partition is complete, it plans
which of its objects are merged (``decide.compaction``) and lets tasks merge them. The result is a
plan: objects that retire, and uploads that replace them. The driver records it with a REPLACE, or
refuses it: then its uploads are aborted, and what is in the ledger by then is planned again. While
a REPLACE is not applied, nothing is planned: so no object can be in two plans.

Merges take at most a quarter of Spark's task slots, and at least one, so that landing continues. A
process that ends loses what it has merged and not recorded; the uploads are aborted as orphans.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain
from threading import Lock

from landfall.api.compaction_status import CompactionStatus
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.merged_first import DEADLINE, MergedFirst
from landfall.driver.core.planned_replacement import NoPlanner, PlannedReplacement, Planner
from landfall.driver.replacing.compaction_planner import CompactionPlanner
from landfall.errors import LandfallError
from landfall.lane import Lane
from landfall.ledger import State
from landfall.ledger.names.object_names import is_system_key, parse_key
from landfall.objects import Upload
from landfall.publish.finished import Calendars

log = logging.getLogger(__name__)

INTERVAL = timedelta(minutes=1)
"""Between two looks at the ledger, where the one before has found nothing to merge."""
AWAITED_INTERVAL = timedelta(seconds=5)
"""The same where topics are called complete once something is merged."""
RETRY_PAUSE = timedelta(minutes=5)
"""After something failed, or a plan was refused."""


@dataclass
class _MergeCounts:
    """Counts of recorded merges and of failures."""

    objects: int = 0
    new: int = 0
    bytes: int = 0
    duplicates: int = 0
    failures: int = 0

    def add(self, plan: PlannedReplacement) -> None:
        """Count a plan that was recorded."""
        self.objects += len(plan.listed.retire)
        self.new += len(plan.listed.objects)
        self.bytes += sum(upload.size for upload in plan.uploads)
        self.duplicates += plan.duplicates


def planner_of(
    group: ConsumerGroup, deps: DriverDeps, lane: Lane, wake: Callable[[], object]
) -> Planner:
    """Return the planner that merges the objects of a group, if it is to."""
    return Compacting(group, deps, lane, wake) if group.spec.compacts else NoPlanner()


class Compacting:
    """Prepares replacements by merged objects, for a driver whose thread uses it."""

    def __init__(
        self, group: ConsumerGroup, deps: DriverDeps, lane: Lane, wake: Callable[[], object]
    ) -> None:
        """Read nothing yet; ``wake`` is called, from any thread, when a plan is ready."""
        self._deps = deps
        self._wake = wake
        self._pool = deps.background.pool(1, "compact")
        self._planner = CompactionPlanner(group, deps, lane)
        self._pass: Future[None] | None = None
        self._lock = Lock()
        self._ready: PlannedReplacement | None = None
        self._taken: PlannedReplacement | None = None
        self._seen = -1
        self._looked = -1
        self._next = deps.clock()
        self._counts = _MergeCounts()
        self._problem = ""
        self._specs = TopicSpecs.of(group.spec)
        self._first = MergedFirst(DEADLINE + group.spec.keeps_replaced)
        self._keep = group.spec.keeps_replaced
        self._calendars = Calendars(group.spec)
        compact = group.spec.compact
        self._are_listed = compact is None or compact.readers == "Listing"

    def reserve(self, folders: frozenset[str]) -> None:
        """See ``Planner``."""
        self._planner.reserved, self._seen = folders, -1  # what is free again is looked at

    def observe(self, state: State) -> None:
        """Take note of the ledger, in every pass of the driver: perhaps there is something to do.

        Merging begins only after this, so not before the sweep for the orphans of other drivers has
        ended.
        """
        if state.replacing or self._is_busy:
            return
        now = self._deps.clock()
        is_due = self._planner.next_due is not None and now >= self._planner.next_due
        if now >= self._next and (state.seq > self._seen or is_due):
            self._look(state)

    def finish(self, state: State) -> bool:
        """See ``Planner``: what is complete by now is merged, and nothing is tried again."""
        if not (state.replacing or self._is_busy) and state.seq > self._looked:
            self._look(state)
        return self._is_busy

    def _look(self, state: State) -> None:
        self._seen = self._looked = state.seq
        self._pass = self._pool.submit(self._run)
        self._pass.add_done_callback(lambda _: self._wake())

    @property
    def is_awaited(self) -> bool:
        """See ``Planner``."""
        return bool(self._planner.expected)

    def merged_first(
        self,
        state: State,
        wanted: Mapping[str, int],
        *,
        ends: bool = False,
        until_deleted: bool = True,
    ) -> Mapping[str, int]:
        """See ``Planner``: topics whose folders are not listed, or not merged, wait for nothing."""
        if not self._are_listed:
            return wanted
        merged = {
            topic: until for topic, until in wanted.items() if self._specs.for_topic(topic).compact
        }
        waits = until_deleted or not self._keep
        ready = self._first.ready(
            state,
            merged,
            self._deps.clock(),
            self._planner.progress,
            ends=ends,
            has_old=partial(self._has_old, state) if waits else lambda *_: False,
        )
        if self._first.expected != self._planner.expected:
            self._planner.expected = self._first.expected
            if self._planner.expected:
                self._seen, self._looked, self._next = -1, -1, self._deps.clock()
        return {topic: until for topic, until in wanted.items() if topic not in merged} | ready

    def _has_old(self, state: State, topic: str, until: int) -> bool:
        """Return whether replaced objects are left in a topic's complete folders up to then."""
        after, calendar = state.decided_horizons.get(topic, -1), self._calendars.of(topic)
        names = (
            parse_key(f"{folder}/0_0_{0:020d}")
            for folder, slot in state.replaced.items()
            if slot in state.retiring and not is_system_key(f"{folder}/")
        )
        periods = (
            tuple(calendar.periods(name.output_partition))[-1:]
            for name in names
            if name.topic == topic
        )
        return any(after < period.end <= until for period in chain.from_iterable(periods))

    def take(self) -> PlannedReplacement | None:
        """Return the plan that is ready; the caller calls ``recorded`` or ``refused`` later."""
        with self._lock:
            if self._ready is not None:
                self._taken = self._ready
                self._ready = None
                return self._taken
            return None

    def recorded(self, plan: PlannedReplacement, slot: int) -> None:
        """A REPLACE in a slot has the plan."""
        log.info(
            "merge recorded",
            extra={
                "slot": slot,
                "retired": len(plan.listed.retire),
                "objects": len(plan.listed.objects),
            },
        )
        self._counts.add(plan)
        self._taken, self._next, self._seen = None, self._deps.clock(), -1
        self._pool.submit(self._planner.settle, plan)

    def refused(self, _: PlannedReplacement, why: str) -> None:
        """The plan is not recorded, and never will be; the caller aborts its uploads."""
        log.warning("merge refused", extra={"why": why})
        self._taken = None
        self._problem = why
        self._counts.failures += 1
        self._next = self._deps.clock() + RETRY_PAUSE
        self._seen = -1

    def gave_way(self, _: PlannedReplacement) -> None:
        """See ``Planner``: what is not reserved is looked at again at once."""
        self._taken = None
        self._seen = -1

    @property
    def protected(self) -> frozenset[str]:
        """Ids of uploads that no record names yet, and that must not be aborted as orphans.

        Uploads that tasks write to now are not included, as with landing: they are young.
        """
        with self._lock:
            plans = [plan for plan in (self._ready, self._taken) if plan]
        return frozenset(upload.upload_id for plan in plans for upload in plan.uploads)

    def stop(self) -> Iterable[Upload]:
        """Do nothing more; return the uploads of the plan that was not taken, to be aborted."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            ready = self._ready
            self._ready = None
        return ready.uploads if ready else ()

    @property
    def status(self) -> CompactionStatus:
        """The status of compaction."""
        counts, (folders, objects) = self._counts, self._planner.waiting
        return CompactionStatus(
            waiting_folders=folders,
            waiting_objects=objects,
            merged_objects=counts.objects,
            new_objects=counts.new,
            merged_bytes=counts.bytes,
            duplicates=counts.duplicates,
            uncompared=self._planner.uncompared,
            unmerged=self._first.unmerged,
            awaited_topics=len(self._first.expected),
            failures=counts.failures,
            problem=self._problem,
        )

    @property
    def _is_busy(self) -> bool:
        with self._lock:
            has_plan = self._ready is not None or self._taken is not None
        return has_plan or (self._pass is not None and not self._pass.done())

    def _run(self) -> None:
        """Look for something to merge, and merge it; in the thread of the pool."""
        plan, problem = None, ""
        try:
            plan, problem = self._planner.plan()
        except LandfallError as error:
            problem = str(error)
            log.warning("compaction failed", extra={"why": problem})
        except Exception as error:  # no thread may end by it, and landing continues
            problem = f"{type(error).__name__}: {error}"
            log.exception("compaction failed unexpectedly")
        if problem:
            self._seen = -1
            self._counts.failures += 1
        if problem or plan:
            self._problem = problem
        interval = AWAITED_INTERVAL if self.is_awaited else INTERVAL
        self._next = self._deps.clock() + (RETRY_PAUSE if problem else interval)
        with self._lock:
            self._ready = plan
