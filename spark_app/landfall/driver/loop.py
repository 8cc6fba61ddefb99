"""The driver's loop: plan → run → verify → COMMIT → complete → mirror, and recovery before any of it.

One thread decides and is the only one that appends to the ledger. Rounds run in threads of their
own and objects are completed in the background; both only wake this thread. So the order of
everything that counts is the order of this file:

    open      OPEN fences whoever drove before
    recover   every COMMIT that is not known to be applied is rolled forward, before anything is planned
    pass      look at the log, commit what came back, complete, start rounds for what is due, report
    drain     on SIGTERM or when caught up: no new rounds, commit what comes back in time, YIELD

What may go wrong, and what follows, is in ``landfall.errors``: Retry leaves things as they are and
comes back, Fenced stops everything at once, Stalled stops a topic partition or, if it concerns the
ledger or the store, the driver.
"""

import logging
import queue
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import chain

from landfall import ledger
from landfall.api.contract import ExitCode, Phase
from landfall.api.spec import ConsumerGroup
from landfall.driver.completer import Completer
from landfall.driver.counters import DriverCounters
from landfall.driver.decide import membership
from landfall.driver.decide.batch_results import CommitDecision, check_results
from landfall.driver.housekeeping import Housekeeping
from landfall.driver.in_flight import InFlightBatch, InFlightBatches
from landfall.driver.membership_sync import MembershipSync
from landfall.driver.observer import Observer
from landfall.driver.recovery import remake, repair
from landfall.driver.runner import Runner
from landfall.errors import Fenced, LandfallError, Reason, Retry, Stalled, cause
from landfall.lane import LaneWriter, Read
from landfall.ledger import object_names
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.store import Store

log = logging.getLogger(__name__)

STARTUP_PATIENCE = timedelta(minutes=2)
"""A source that never answered for this long ends the driver: most likely its address is wrong."""


@dataclass(frozen=True)
class DriverDeps:
    """What a driver works with; each a protocol, so that tests run the same loop on twins."""

    store: Store
    observer: Observer
    runner: Runner
    clock: Callable[[], datetime]
    name: Callable[[], str]
    """A new name, unique for ever: for batches."""


@dataclass
class Driver:
    """Lands one group's topics until told to stop.

    Attributes:
        group: the resource.
        writer: the right to append, from ``LaneWriter.open``.
        parts: store, log, runner, clock.
        tally: what is counted and reported on the way.
        report: called with this driver after every pass.
        until_caught_up: stop when everything the log held at the first look is landed and visible.
    """

    group: ConsumerGroup
    writer: LaneWriter
    parts: DriverDeps
    counters: DriverCounters
    report: Callable[["Driver"], None]
    until_caught_up: bool = False
    phase: Phase = Phase.STARTING
    blocked: dict[TopicPartition, Stalled] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._begun = self.parts.clock()
        self._inbox: queue.SimpleQueue[None] = queue.SimpleQueue()
        observer, kafka = self.parts.observer, self.group.spec.source.kafka
        self.rounds = InFlightBatches(self.group, self.parts.runner, self.parts.name, self._wake)
        self._membership = MembershipSync(kafka, observer, self._append)
        self._housekeeping = Housekeeping(self.parts.store, observer.log, self.writer.is_fenced)
        self._completer = Completer(self.parts.store, self._wake)
        self._overtaken = ""
        self._stop_by: datetime | None = None
        self._stop_reason = ""

    def _wake(self) -> None:
        self._inbox.put(None)

    # --------------------------------------------------------------------------------- from outside

    def stop(self, reason: str) -> None:
        """Drain and yield, from any thread or a signal handler."""
        self._stop_reason = self._stop_reason or reason
        self._wake()

    def look(self, read: Read) -> None:
        """See whether the lane is another driver's by now, and if so end soon; from any thread, and nothing depends on it.

        Raises:
            Retry: the store cannot answer.
        """
        if newer_owner := self.writer.newer_owner(read):
            self._overtaken = newer_owner
            self._wake()

    def run(self) -> ExitCode:
        """Land until told to stop, caught up, fenced or stalled."""
        try:
            self._recover()
            while not self._done(self.parts.clock()):
                self._pass(self.parts.clock())
                self._wait()
            return self._drained()
        except Fenced as fenced:
            return self._fenced(str(fenced))
        except Stalled as stalled:
            if self._is_fenced():  # then what is in our way may well be the successor's doing, such as a repaired object
                return self._fenced(f"another driver has opened the lane; seen before: {stalled}")
            self.phase, self.counters.message = Phase.STALLED, f"{stalled.reason}: {stalled}"
            log.error("stalled", extra={"reason": stalled.reason, "why": str(stalled)})  # noqa: TRY400  # no trace: it is told
            return ExitCode.STALLED
        except Retry as error:
            self.phase, self.counters.message = Phase.STOPPED, str(error)
            log.error("unavailable", extra={"why": str(error)})  # noqa: TRY400  # as above
            return ExitCode.UNAVAILABLE
        finally:
            for results in self.rounds.stop():
                self._housekeeping.abort_results(results)
            self._completer.stop()
            self._housekeeping.finish()
            self.report(self)

    # ------------------------------------------------------------------------------------- recovery

    def _recover(self) -> None:
        """Roll every COMMIT forward that is not known to be applied; only then may anything be planned."""
        self.phase = Phase.RECOVERING
        for commit, objects in sorted(self.writer.state.unapplied.items()):
            self._completer.apply(commit, objects)
        while True:
            self._repair_lost()
            if not self._completer.unapplied:
                break
            self.report(self)
            self._wait()
        self._housekeeping.sweep_dead_drivers(self._is_ours, self.parts.clock())
        self.phase = Phase.RUNNING

    def _repair_lost(self) -> None:
        for commit, lost in self._completer.lost().items():
            log.warning("decided uploads are lost", extra={"commit": commit, "objects": len(lost)})
            make = partial(
                remake,
                group=self.group,
                token=self.parts.name(),
                runner=self.parts.runner,
                uploads=self.parts.store,
            )
            try:
                self._completer.apply(
                    commit, repair(lost, commit, self.writer, make, self._strangers)
                )
            except Retry as error:
                self._failed(cause(error, "Repair"), error)

    # --------------------------------------------------------------------------------------- a pass

    def _pass(self, now: datetime) -> None:
        try:
            self._look(now)
            if self.counters.consecutive_failures and self._nothing_is_left():
                self.counters.consecutive_failures = 0  # no COMMIT would tell that it is over
        except Retry as error:
            self._failed(cause(error, "SourceUnavailable"), error)
            if not self.offsets_known and now - self._begun > STARTUP_PATIENCE:
                raise
        self.counters.arrived += sum(
            more
            for tp, more in self.parts.observer.grown.items()
            if tp not in self.stalled_partitions()
        )
        self._land_finished(now)
        self._repair_lost()
        if not self._stopping(now):
            self._start_rounds(now)
            self._snapshot()
        self._housekeeping.mirror(self._completer.applied_through)
        self._housekeeping.sweep_if_due(
            self._is_ours, self._completer.decided, now, self.group.spec.tuning.orphan_age
        )
        self.report(self)

    def _look(self, now: datetime) -> None:
        at_rest = not (self.rounds or self.unapplied)
        self._membership.look(self.writer.state, now, self.rounds.in_flight(), at_rest=at_rest)
        self.counters.message = _told_all(self._membership.absent)

    def _start_rounds(self, now: datetime) -> None:
        too_much = self.rounds.is_full or self.unapplied >= self.group.spec.tuning.max_unapplied
        if too_much or self._membership.leaving:
            return
        backlogs = self.parts.observer.backlogs(
            self.writer.state.checkpoint, self._landed_enough(), now
        )
        self.rounds.start(backlogs, self.stalled_partitions(), now, flush=self.until_caught_up)

    def _land_finished(self, now: datetime) -> None:
        back = self.rounds.back()
        try:
            strangers = self._strangers(
                {tp for batch_in_flight in back for tp in batch_in_flight.round.topic_partitions}
            )
        except Retry as error:  # the log's word is needed: what came back waits for it
            self._failed("SourceUnavailable", error)
            return
        if strangers:
            self.parts.observer.force_discovery()
        for batch_in_flight in back:
            self.rounds.remove(batch_in_flight)
            self._land(batch_in_flight, strangers, now)

    def _strangers(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, Retry]:
        """Which of these were read from a topic that is not the one in the ledger; asked after reading, before COMMIT."""
        topic_ids = self.parts.observer.log.topic_ids({tp.topic for tp in tps}) if tps else {}
        return membership.recreated_topics(self.writer.state, tps, topic_ids)

    def _land(
        self,
        batch_in_flight: InFlightBatch,
        strangers: Mapping[TopicPartition, Retry],
        now: datetime,
    ) -> None:
        max_ratio = self.group.spec.bad_records.max_ratio
        decision = check_results(
            batch_in_flight.round.slices, batch_in_flight.results.result(), max_ratio, strangers
        )
        if decision.commit:
            commit = partial(
                ledger.Commit, token=batch_in_flight.batch.token, slices=decision.commit
            )
            state = self._append_or_give_up(commit, batch_in_flight)
            objects = chain.from_iterable(s.objects for s in decision.commit)
            self._completer.apply(state.seq, objects)
            self._housekeeping.committed(state.seq, state.checkpoint.next_offsets)
            self.rounds.learn(decision.commit)
            self.counters.committed(decision.commit, now - batch_in_flight.started, now)
            log.info("batch committed", extra=_told(state.seq, decision.commit))
        self._set_back(decision, now)
        self._housekeeping.abort(decision.discard)

    def _set_back(self, decision: CommitDecision, now: datetime) -> None:
        for landed in decision.commit:
            self.rounds.backoff.landed(landed.piece.topic_partition)
        for tp, error in decision.failed.items():
            if isinstance(error, Stalled) and not self._may_skip(error):
                self.blocked[tp] = error
            else:
                self.rounds.backoff.failed(tp, now)
            self._failed(cause(error, "RoundFailed"), error)

    def _may_skip(self, error: Stalled) -> bool:
        """Whether the next look makes a HOLE of it, and the rest can land."""
        return (
            error.reason is Reason.DATA_LOSS
            and self.group.spec.source.kafka.on_data_loss == "SkipAndRecord"
        )

    # ---------------------------------------------------------------------------------------- aside

    def _append(self, record: Callable[..., ledger.Record]) -> ledger.State:
        return self.writer.append(
            lambda header: record(header=header), self._completer.applied_through
        )

    def _snapshot(self) -> None:
        state = self.writer.state
        if state.seq - max(state.snapshot_seq, 0) >= self.group.spec.tuning.snapshot_every:
            try:
                self.writer.snapshot(self._completer.applied_through)
            except Retry as error:  # the next pass tries again, in the slot that is next then
                self._failed(cause(error, "SnapshotFailed"), error)

    def _is_ours(self, key: str) -> bool:
        """Whether a key is named as this group's objects are; another group's root may lie inside this one."""
        try:
            origin = object_names.origin(self.group.metadata.name, key)
        except ValueError:
            return False
        return TopicPartition(origin.topic, origin.partition) in self.writer.state.members

    def _append_or_give_up(
        self, commit: Callable[..., ledger.Record], batch_in_flight: InFlightBatch
    ) -> ledger.State:
        """Append a COMMIT. Only if it certainly lost its slot are its uploads given up; on any other error it may be there."""
        try:
            return self._append(commit)
        except Fenced:
            self._housekeeping.abort_results(batch_in_flight.results.result())
            raise

    def _fenced(self, why: str) -> ExitCode:
        self.phase, self.counters.message = Phase.FENCED, why
        log.warning("fenced", extra={"why": why})
        return ExitCode.FENCED

    def _is_fenced(self) -> bool:
        try:
            return self.writer.is_fenced()
        except LandfallError:
            return False

    def _failed(self, reason: str, error: LandfallError) -> None:
        self.counters.failed(reason, str(error), self.parts.clock())
        log.warning("failed", extra={"reason": reason, "why": str(error)})

    def _wait(self) -> None:
        """Until something happened, or it is time to look again.

        Raises:
            Fenced: a look at the lane found somebody else's record; only here, where nothing is
                half done.
        """
        with suppress(queue.Empty):
            self._inbox.get(timeout=self.group.spec.tuning.poll_interval.total_seconds())
            while True:
                self._inbox.get_nowait()
        if self._overtaken:
            raise Fenced(self._overtaken)

    # ---------------------------------------------------------------------------------------- asked

    def stalled_partitions(self) -> Mapping[TopicPartition, Stalled]:
        """Topic partitions that stand still until a person acts."""
        return {**self._membership.blocked_by_source, **self.blocked}

    @property
    def unapplied(self) -> int:
        """COMMITs whose objects are not all visible yet."""
        return self._completer.unapplied

    def _nothing_is_left(self) -> bool:
        """Whether everything that the last look saw is landed and visible."""
        checkpoint, marks = self.writer.state.checkpoint, self.parts.observer.watermarks
        landed = all(tp in checkpoint and mark.end <= checkpoint[tp] for tp, mark in marks.items())
        return landed and not (self.rounds or self.unapplied or self.stalled_partitions())

    def _landed_enough(self) -> set[TopicPartition]:
        """With ``until_caught_up``, topic partitions that reached what there was at the first look."""
        checkpoint, targets = self.writer.state.checkpoint, self._membership.targets or {}
        return {
            tp
            for tp, end in targets.items()
            if self.until_caught_up and tp in checkpoint and checkpoint[tp] >= end
        }

    @property
    def offsets_known(self) -> bool:
        """Whether it has seen the log, so that it knows how far behind it is."""
        return self._membership.targets is not None

    @property
    def caught_up(self) -> bool:
        """Whether all that was there at the first look, and may go on, is landed and visible."""
        targets, checkpoint, stalled_partitions = (
            self._membership.targets,
            self.writer.state.checkpoint,
            self.stalled_partitions(),
        )
        if targets is None or self.rounds or self.unapplied or self._membership.leaving:
            return False
        return all(
            tp in stalled_partitions or (tp in checkpoint and checkpoint[tp] >= end)
            for tp, end in targets.items()
        )

    def _stopping(self, now: datetime) -> bool:
        if self.until_caught_up and not self._stop_reason and self.caught_up:
            self._stop_reason = "caught up"
        if self._stop_reason and self._stop_by is None:
            self._stop_by = now + self.group.spec.upgrade.drain_timeout
            self.phase = Phase.DRAINING
        return bool(self._stop_reason)

    def _done(self, now: datetime) -> bool:
        if not self._stopping(now):
            return False
        assert self._stop_by is not None
        return now >= self._stop_by or not (self.rounds or self._completer.unapplied)

    def _drained(self) -> ExitCode:
        self._append(partial(ledger.Yield, reason=self._stop_reason))
        self._housekeeping.mirror(self._completer.applied_through)
        self.phase = Phase.STOPPED
        needed = (
            *self._membership.absent,
            *(error for _, error in sorted(self.stalled_partitions().items())),
        )
        if self.until_caught_up and needed:
            self.counters.message = _told_all(needed)
            return ExitCode.STALLED
        return ExitCode.OK


def _told_all(errors: Iterable[Stalled]) -> str:
    return "\n".join(f"{error.reason}: {error}" for error in errors)


def _told(seq: int, slices: tuple[LandedSlice, ...]) -> dict[str, int]:
    return {
        "slot": seq,
        "slices": len(slices),
        "landed": sum(s.landed for s in slices),
        "dead_lettered": sum(s.dead_lettered for s in slices),
        "objects": sum(len(s.objects) for s in slices),
    }
