"""Appends a driver's records for batches to its ledger: COMMITs and snapshots.

The order of steps is what makes landing exactly-once: results are checked, the topics' ids are
asked for after the records were read, the COMMIT is appended, and only then are objects completed.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

from landfall import ledger
from landfall.api.spec import ConsumerGroup
from landfall.driver.core.deps import Append, DriverDeps, record_failure
from landfall.driver.core.merged_first import ReadyTopics, all_at_once
from landfall.driver.core.parts import DriverPart
from landfall.driver.decide.bad_records import BadRecordHistory
from landfall.driver.decide.batch_results import (
    CommitDecision,
    check_results,
    failure_messages,
)
from landfall.driver.landing.completer import Completer
from landfall.driver.landing.finalizing import Finalizing
from landfall.driver.landing.housekeeping import Housekeeping
from landfall.driver.landing.in_flight import InFlightBatch, InFlightBatches
from landfall.errors import (
    Fenced,
    LandfallError,
    LogTruncated,
    PartUnreadable,
    Reason,
    Retry,
    Stalled,
    cause,
)
from landfall.lane import LaneWriter
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.source import membership

log = logging.getLogger(__name__)

Park = Callable[[ledger.State, Mapping[TopicPartition, PartUnreadable]], ledger.State]

DENIED_PAUSE = timedelta(minutes=1)
"""How long a topic partition rests that the source denied, before it is tried again."""


@dataclass(frozen=True)
class BackgroundWork:
    """Work in threads other than the driver's.

    Attributes:
        completer: makes committed objects visible.
        housekeeping: mirrors offsets and aborts uploads that will never be committed.
    """

    completer: Completer
    housekeeping: Housekeeping


@dataclass(frozen=True)
class LaneAppender:
    """Appends records, each with the slot up to which everything is visible.

    Attributes:
        writer: the right to append to the lane.
        completer: knows what is visible.
    """

    writer: LaneWriter
    completer: Completer

    def append(self, record: Callable[..., ledger.Record]) -> ledger.State:
        """Append the record that ``record(header=…)`` makes; see ``LaneWriter.append``."""
        applied_through = self.completer.applied_through
        return self.writer.append(lambda header: record(header=header), applied_through)


@dataclass
class BatchCommitter(DriverPart):
    """Commits finished batches; used by the driver's thread alone.

    Attributes:
        group: the resource.
        writer: the right to append to the lane.
        deps: the driver's dependencies.
        batches: the ones in flight.
        background: completes what is committed, and aborts what is not.
        append: appends a record.
        blocked: topic partitions whose batches cannot be committed until a user acts, and why.
        park: moves the checkpoint past parts of files that could not be read.
        is_awaited: whether something waits for what is visible to be recorded as that.
        merged_first: see ``Planner``; topics with objects to be merged wait for that.
    """

    group: ConsumerGroup
    writer: LaneWriter
    deps: DriverDeps
    batches: InFlightBatches
    background: BackgroundWork
    append: Append
    blocked: dict[TopicPartition, Stalled] = field(default_factory=dict)
    park: Park = lambda state, _: state
    is_awaited: Callable[[], bool] = lambda: False
    merged_first: ReadyTopics = all_at_once

    def __post_init__(self) -> None:
        self._bad_records = BadRecordHistory(self.group.spec.bad_records)
        self._denied: dict[TopicPartition, datetime] = {}
        self._unreadable: dict[TopicPartition, PartUnreadable] = {}
        self.finalizing = Finalizing(self.group, self.deps.observer, self.append, self.merged_first)
        self._unrecorded_since: datetime | None = None

    @property
    def is_at_rest(self) -> bool:
        """True if no batch is in flight."""
        return not self.batches

    def advance(self, now: datetime) -> None:
        """Commit what came back from every finished batch, as far as it may be committed.

        Raises:
            Fenced: another driver has opened the lane.
        """
        self._try_denied_again(now)
        finished = self.batches.finished()
        try:
            recreated = self.recreated_topics(
                {tp for batch in finished for tp in batch.planned.topic_partitions}
            )
        except Retry as error:
            # Without topic ids from the log nothing may be committed: the batches stay in flight.
            record_failure(self.deps, "SourceUnavailable", error)
            return
        if recreated:
            self.deps.observer.force_discovery()
        for batch in finished:
            # Removed before the COMMIT is tried, because from then the ledger may name the batch's
            # uploads, and the uploads of batches in flight when the driver ends are aborted.
            self.batches.remove(batch)
            self._commit(batch, recreated, now)
        self._park()

    def _park(self) -> None:
        unreadable = self._unreadable
        self._unreadable = {}
        try:
            self.park(self.writer.state, unreadable)
        except Retry as error:  # what cannot be read fails again
            record_failure(self.deps, cause(error, "ParkFailed"), error)

    def stop(self) -> None:
        """Abort the uploads of batches in flight: no COMMIT names them, and none ever will."""
        for results in self.batches.stop():
            self.background.housekeeping.abort_results(results)

    def hand_over(self, reason: str, now: datetime) -> None:
        """Append YIELD, and before it what topics are complete up to, as far as it is known.

        Raises:
            Retry: the store does not answer.
        """
        self._finalize(now, at_once=True, ends=True)
        self.append(partial(ledger.Yield, reason=reason))

    def append_if_due(self, now: datetime, *, at_once: bool) -> None:
        """Append what is due: a snapshot after ``snapshotEvery`` records, FINALIZE, APPLIED.

        With ``at_once``, what topics are complete up to is due as soon as it is known.
        """
        state = self.writer.state
        if state.seq - max(state.snapshot_seq, 0) >= self.group.spec.tuning.snapshot_every:
            try:
                self.writer.snapshot(self.background.completer.applied_through)
            except Retry as error:  # the next pass tries again, in the slot that is next then
                record_failure(self.deps, cause(error, "SnapshotFailed"), error)
        self._finalize(now, at_once=at_once)
        self._record_applied_if_due(now)

    def _finalize(self, now: datetime, *, at_once: bool = False, ends: bool = False) -> None:
        try:
            self.finalizing.advance(self.writer.state, now, at_once=at_once, ends=ends)
        except Retry as error:  # the next pass, or the next driver, tries again
            record_failure(self.deps, cause(error, "FinalizeFailed"), error)

    def _record_applied_if_due(self, now: datetime) -> None:
        """Append APPLIED if no other record will soon name what has become visible.

        Another record carries it for free, so a group that is busy needs none of these: one comes
        after the last COMMIT before a pause. Without it, readers of an idle group would not see its
        last COMMIT before a producer writes to one of its topics. Replacements do not wait: copies
        of the old objects expire. Nor does what is merged before an hour is called complete. That a
        topic partition entered or left is confirmed, too: who undoes a backfill must know of it.
        """
        applied, state = self.background.completer.applied_through, self.writer.state
        replaced = any(seq <= applied for seq in state.replacing)
        is_settled = state.settled_through <= state.applied_through
        if not replaced and is_settled and not any(seq <= applied for seq in state.unapplied):
            self._unrecorded_since = None
            return
        self._unrecorded_since = self._unrecorded_since or now
        intervals = (entry.min_interval for entry in self.group.spec.publish)
        wait = min((self.deps.confirm_after, *intervals))
        if replaced or self.is_awaited() or now - self._unrecorded_since >= wait:
            try:
                self.append(ledger.Applied)
            except Retry as error:  # the next pass tries again, in the slot that is next then
                record_failure(self.deps, cause(error, "AppliedFailed"), error)

    def recreated_topics(
        self, tps: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, LandfallError]:
        """Return the ones read from a topic that is not, or not certainly, the ledger's.

        Must be asked after reading and before COMMIT.

        Raises:
            Retry: the log does not answer.
        """
        if not tps:
            return {}
        found = self.deps.observer.log.describe({tp.topic for tp in tps})
        return membership.recreated_topics(self.writer.state, tps, found)

    def _commit(
        self, batch: InFlightBatch, recreated: Mapping[TopicPartition, LandfallError], now: datetime
    ) -> None:
        self._bad_records.permitted = self.writer.state.permitted
        excluded = {**recreated, **blocked_partitions(self.writer.state)}
        decision = check_results(
            batch.planned.slices,
            batch.results.result(),
            lambda tp, slices: self._bad_records.error(tp, slices, now),
            excluded,
        )
        completer, housekeeping = self.background.completer, self.background.housekeeping
        if decision.commit:
            commit = partial(ledger.Commit, token=batch.batch.token, slices=decision.commit)
            state = self._append_or_abort(commit, batch)
            # After the COMMIT: an object that is visible without one would be landed twice.
            objects = chain.from_iterable(s.objects for s in decision.commit)
            completer.apply(state.seq, objects, is_fresh=True)
            housekeeping.committed(state.seq, state.checkpoint.next_offsets)
            self.batches.learn(decision.commit, now - batch.started)
            self._bad_records.landed(decision.commit, now)
            self.deps.counters.committed(decision.commit, now - batch.started, now)
            log.info("batch committed", extra=_commit_fields(state.seq, decision.commit))
        self._block_truncated(decision)
        self._note_failures(batch, decision, now)
        housekeeping.abort(decision.discard)

    def _append_or_abort(
        self, commit: Callable[..., ledger.Record], batch: InFlightBatch
    ) -> ledger.State:
        """Append a COMMIT; abort its uploads only if it certainly lost its slot.

        After any other error the COMMIT may be in the ledger, and what it names must be kept.
        """
        try:
            return self.append(commit)
        except Fenced:
            self.background.housekeeping.abort_results(batch.results.result())
            raise

    def _block_truncated(self, decision: CommitDecision) -> None:
        """Append a BLOCK for logs that were truncated below what is landed.

        It outlives this driver: once the log has grown past the checkpoint again, nothing but the
        leader epochs shows that it was truncated.
        """
        checkpoint = self.writer.state.checkpoint
        entries = tuple(
            membership.truncated(tp, error.diverges_at, checkpoint[tp])
            for tp, error in sorted(decision.failed.items())
            if isinstance(error, LogTruncated) and error.diverges_at < checkpoint[tp]
        )
        if entries:
            self.append(partial(ledger.Block, entries=entries))
            for entry in entries:
                log.warning("truncated log blocked", extra={"why": entry.message})

    def _note_failures(self, batch: InFlightBatch, decision: CommitDecision, now: datetime) -> None:
        retried: dict[TopicPartition, LandfallError] = {}
        # What was blocked since the batch was started is no failure: the ledger records why.
        stopped = self.writer.state.blocked
        failed = {tp: error for tp, error in decision.failed.items() if tp not in stopped}
        for tp, error in failed.items():
            if isinstance(error, Stalled) and not self._may_pass(error):
                self.blocked[tp] = error
                if error.reason is Reason.SOURCE_DENIED:
                    self._denied[tp] = now
            elif isinstance(error, PartUnreadable):
                self._unreadable[tp] = error
            else:
                retried[tp] = error
        landed = {landed.piece.topic_partition for landed in decision.commit}
        took = now - batch.started if batch.is_retry else timedelta(0)
        self.batches.backoff.settle(landed | self._unreadable.keys(), retried, now, took)
        messages = failure_messages(failed)
        self.deps.counters.batch_failed(messages, now)
        for reason, why in messages.items():
            log.warning("landing failed", extra={"reason": reason, "why": why})

    def try_again(self, tp: TopicPartition) -> None:
        """Forget why a topic partition is stopped or waits, as far as no record holds it."""
        self.blocked.pop(tp, None)
        self.batches.backoff.forget()

    def try_all_again(self) -> int:
        """Forget it for every topic partition; returns how many were stopped or waiting."""
        waiting = {*self.blocked, *self.batches.backoff.apart()}
        self.blocked.clear()
        self.batches.backoff.forget()
        return len(waiting)

    def _try_denied_again(self, now: datetime) -> None:
        """Free what the source denied a while ago: no event reports when access is granted."""
        for tp in [tp for tp, since in self._denied.items() if now - since >= DENIED_PAUSE]:
            del self._denied[tp]
            error = self.blocked.get(tp)
            if error is not None and error.reason is Reason.SOURCE_DENIED:
                del self.blocked[tp]

    def _may_pass(self, error: Stalled) -> bool:
        """Return whether trying again may help.

        It may if a custom store refuses, whose keys or rights can come back. It does if the next
        look appends a HOLE for the lost range, so that the rest can land, or finds it elsewhere.
        """
        source = self.group.spec.source
        is_settled = bool(source.skips_lost_ranges or source.read_from)
        may_be_lost = error.reason is Reason.DATA_LOSS and is_settled
        return error.reason is Reason.STORE_DENIED or may_be_lost


def blocked_partitions(state: ledger.State) -> dict[TopicPartition, Stalled]:
    """Topic partitions that the ledger keeps from being landed until a decision, and why."""
    return {tp: Stalled(entry.reason, entry.message) for tp, entry in state.blocked.items()}


def _commit_fields(seq: int, slices: tuple[LandedSlice, ...]) -> dict[str, int]:
    return {
        "slot": seq,
        "slices": len(slices),
        "landed": sum(s.landed for s in slices),
        "dead_lettered": sum(s.dead_lettered for s in slices),
        "objects": sum(len(s.objects) for s in slices),
    }
