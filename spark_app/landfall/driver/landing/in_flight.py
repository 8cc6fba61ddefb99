"""Batches in flight: what is due is planned and started, each batch in a thread of its own.

Used by the driver's thread alone. Nothing here commits. A batch that the loop has removed may be
named by a COMMIT from then; a batch that is still here when the loop ends certainly is not.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta

from landfall.api.spec import ConsumerGroup
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.retry_backoff import RetryBackoff
from landfall.driver.decide.batch_size import BatchSizeLimit, max_batch_bytes, slice_bytes
from landfall.driver.landing.lost_ranges import LostRanges
from landfall.estimates import SizeEstimates
from landfall.ledger import FeedState, Member, State
from landfall.ledger.feeds import lists_of
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice, SliceResult
from landfall.plan import Backlog, BatchPlan, Capacity, Policy, plan
from landfall.source import LastRead
from landfall.task import Batch, SliceLimits


@dataclass
class InFlightBatch:
    """A batch that tasks are landing, or have landed and that is not committed yet.

    Attributes:
        batch: what tasks are given.
        planned: its slices, in bins.
        started: when it was started.
        results: a result for each slice, once the tasks have ended.
        is_retry: whether it tries what failed before.
    """

    batch: Batch
    planned: BatchPlan
    started: datetime
    results: Future[list[SliceResult]]
    is_retry: bool = False


class InFlightBatches:
    """Plans and starts batches, and keeps them until they are removed.

    Attributes:
        backoff: topic partitions that failed, and when they are tried again.
        permitted: below which offset bad records are allowed in any number.
        members: of the lane, which know where reading must continue.
        feeds: of the lane, which name the lists of parts.
        lost_ranges: knows what the log has lost, and where it is read instead.
    """

    def __init__(self, group: ConsumerGroup, deps: DriverDeps, wake: Callable[[], object]) -> None:
        """``wake`` is called, from any thread, when a batch has finished or more can be read."""
        self._group = group
        self._runner = deps.runner
        self._new_name = deps.new_name
        self._wake = wake
        self._tuning = group.spec.tuning
        self._pool = deps.background.pool(self._tuning.max_rounds, "batch")
        self._batches: dict[str, InFlightBatch] = {}
        self._sizes = SizeEstimates()
        self._limit = BatchSizeLimit()
        self._policy = Policy.of(group.spec.upload_policy)
        self.backoff = RetryBackoff()
        self.permitted: Mapping[TopicPartition, int] = {}
        self.members: Mapping[TopicPartition, Member] = {}
        self.feeds: Mapping[TopicPartition, FeedState] = {}
        self.lost_ranges = LostRanges(group.spec.source, deps.backup, deps.background, wake)

    def follow(self, state: State) -> None:
        """Plan by this state of the lane from now."""
        self.permitted = state.permitted
        self.members = state.members
        self.feeds = state.feeds

    def __len__(self) -> int:
        """How many are in flight."""
        return len(self._batches)

    @property
    def is_full(self) -> bool:
        """True if no more batches may be started now."""
        return len(self._batches) >= self._tuning.max_rounds

    def in_flight(self) -> set[TopicPartition]:
        """Topic partitions that are being landed now."""
        return {tp for batch in self._batches.values() for tp in batch.planned.topic_partitions}

    def start(
        self,
        backlogs: Sequence[Backlog],
        stalled: Collection[TopicPartition],
        now: datetime,
        *,
        flush: bool,
    ) -> None:
        """Start batches for what is due, as many as may be in flight at once.

        Args:
            backlogs: what is unlanded.
            stalled: topic partitions that must not be landed.
            now: the time.
            flush: land every backlog, due or not.
        """
        backlogs = [
            _up_to_permission(backlog, self.permitted)
            for backlog in self.lost_ranges.readable(backlogs)
        ]
        running = self.in_flight() | set(stalled)
        if not self.is_full and not any(batch.is_retry for batch in self._batches.values()):
            self._retry(backlogs, running, now, flush=flush)
        while not self.is_full:
            busy = self.in_flight() | set(stalled) | self.backoff.apart()
            slots = self._runner.slots
            capacity = Capacity(
                slots,
                max_batch_bytes(self._tuning.max_round_bytes, slots),
                busy,
                max_offsets=self._limit.offsets,
            )
            planned = plan(backlogs, self._policy, self._sizes, capacity, flush=flush)
            if planned is None:
                return
            self._run(planned, now, is_retry=False)

    def _retry(
        self, backlogs: Sequence[Backlog], busy: set[TopicPartition], now: datetime, *, flush: bool
    ) -> None:
        """Start one batch of what failed before, if it is time; half of the slots at most."""
        for group in self.backoff.next_groups(now):
            due = [b for b in backlogs if b.topic_partition in group.topic_partitions]
            slots = max(1, self._runner.slots // 2)
            capacity = Capacity(
                slots,
                self._tuning.max_round_bytes,
                busy,
                # One that waits for a time-out ends its task, so more tasks try more of them.
                min_tasks=slots if group.is_new else max(1, self._runner.slots // 5),
                max_offsets=self._limit.offsets,
            )
            planned = plan(due, self._policy, self._sizes, capacity, flush=flush)
            if planned is not None:
                self._run(planned, now, is_retry=True)
                return

    def _run(self, planned: BatchPlan, now: datetime, *, is_retry: bool) -> None:
        most = slice_bytes(planned.slices, self._sizes, planned.file_bytes)
        limits = SliceLimits(most, self._limit.slice_objects)
        batch = Batch(
            group=self._group,
            token=self._new_name(),
            limits=limits,
            permitted=dict(self.permitted),
            last_read=self._last_read(planned),
            lists=lists_of(self.feeds, planned.slices),
            from_backup=self.lost_ranges.sources(planned.slices),
        )
        results = self._pool.submit(self._runner.run, batch, planned.bins)
        self._batches[batch.token] = InFlightBatch(
            batch=batch, planned=planned, started=now, results=results, is_retry=is_retry
        )
        results.add_done_callback(lambda _: self._wake())

    def _last_read(self, planned: BatchPlan) -> tuple[tuple[TopicPartition, LastRead], ...]:
        members = ((tp, self.members.get(tp)) for tp in sorted(planned.topic_partitions))
        return tuple(
            (tp, LastRead(member.epoch_offset, member.leader_epoch))
            for tp, member in members
            if member and member.leader_epoch >= 0
        )

    def finished(self) -> list[InFlightBatch]:
        """Batches whose tasks have all ended."""
        return [batch for batch in self._batches.values() if batch.results.done()]

    def remove(self, batch: InFlightBatch) -> None:
        """Forget a batch: ``stop`` does not return it, so its uploads are not aborted."""
        del self._batches[batch.batch.token]

    def learn(self, landed: Iterable[LandedSlice], took: timedelta) -> None:
        """Let the next plans estimate by what these slices of a batch were, and how long it took.

        With every batch that was committed, the next may be larger.
        """
        self._sizes = self._sizes.learn(landed)
        self._limit = self._limit.committed(took)

    def stop(self) -> list[list[SliceResult]]:
        """Start no more, and return the results of finished batches that were not removed.

        Tasks that still run are not waited for: the next driver aborts what they upload.
        """
        self.lost_ranges.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)
        finished = (batch.results for batch in self.finished())
        return [results.result() for results in finished if not results.cancelled()]


def _up_to_permission(backlog: Backlog, permitted: Mapping[TopicPartition, int]) -> Backlog:
    """The backlog up to where bad records are allowed, so that no slice lies on both sides."""
    offsets, end = backlog.offsets, permitted.get(backlog.topic_partition, -1)
    if offsets.start < end < offsets.end:
        return backlog.up_to(end)
    return backlog
