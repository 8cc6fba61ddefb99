"""The driver's loop: plan → run → check → COMMIT → complete → mirror, after recovery.

One thread decides, and it alone appends to the ledger. Batches run in threads of their own and
objects are completed in the background; both only wake this thread. So everything that matters
happens in the order of this file and of ``landfall.driver.landing.commits``:

    open      OPEN fences the driver that owned the lane before (``process.handover``)
    recover   COMMITs that may not be applied are rolled forward, before anything is planned
    pass      look at the log, commit finished batches, start batches that are due, report
    drain     on SIGTERM or when caught up: start nothing, commit what finishes in time, then YIELD;
              only when caught up, roll up first the old slots that are due

``landfall.errors`` has the three kinds of errors. After ``Retry`` the loop leaves things as they
are and tries again. ``Fenced`` ends the driver at once. ``Stalled`` stops one topic partition or,
if it concerns the ledger or the store, the driver.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from landfall.api.contract import ExitCode, Phase
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import Answer, Request
from landfall.driver.backfill.side_leftovers import DiscardedLanes
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps, record_failure
from landfall.driver.core.draining import Draining
from landfall.driver.core.messages import list_errors, not_landed, work_beside_landing
from landfall.driver.decide.catch_up import has_caught_up, reached
from landfall.driver.feeds.feeds import Feeds
from landfall.driver.http.status import DriverProgress
from landfall.driver.landing.commits import BackgroundWork, BatchCommitter, blocked_partitions
from landfall.driver.landing.completer import Completer
from landfall.driver.landing.dead_letter_expiry import DeadLetterExpiry
from landfall.driver.landing.existing_objects import ExistingObjects
from landfall.driver.landing.goals import Endless, GoalParts, GoalType
from landfall.driver.landing.housekeeping import Housekeeping
from landfall.driver.landing.in_flight import InFlightBatches
from landfall.driver.landing.lost_uploads import LostUploads, Recording
from landfall.driver.landing.membership_sync import MembershipSync
from landfall.driver.landing.orphan_uploads import is_of_landed_range, is_ours
from landfall.driver.landing.segment_rolling import SegmentRolling
from landfall.driver.process.publishing import published_positions
from landfall.driver.replacing.replacements import Replacements
from landfall.driver.requests.decisions import Decisions, DriverParts
from landfall.driver.requests.pending_requests import PendingRequests
from landfall.driver.requests.replay import Replayer
from landfall.errors import Fenced, LandfallError, Retry, Stalled, cause
from landfall.lane import LaneWriter, Read
from landfall.ledger.offsets import TopicPartition

log = logging.getLogger(__name__)
STARTUP_PATIENCE = timedelta(minutes=2)
"""A driver ends if the source has not answered once in this time: its address may be wrong."""
LOST_FACTOR = 10
"""Landing waits if so many times ``maxUnapplied`` COMMITs wait for lost uploads."""
HELD_FACTOR = 1000
"""Landing waits if so many times ``maxUnapplied`` COMMITs cannot be called applied, since something
before them is not visible: each is a part of every snapshot.
"""


@dataclass
class Driver:
    """Lands one group's topics, from its OPEN until it is stopped, caught up, fenced or stalled.

    Attributes:
        group: the resource.
        writer: the right to append to the lane, from ``LaneWriter.open``.
        deps: store, log, runner, clock and the rest that a driver works with.
        report: called with the driver's progress after every pass, on the driver's thread.
        until_caught_up: stop once everything that the log held at the first look is landed and
            visible.
        goal: what to land before the driver ends.
        phase: what the driver is doing.
    """

    group: ConsumerGroup
    writer: LaneWriter
    deps: DriverDeps
    report: Callable[[DriverProgress], None]
    until_caught_up: bool = False
    goal: GoalType = Endless
    phase: Phase = Phase.STARTING

    def __post_init__(self) -> None:
        deps, source = self.deps, self.group.spec.source
        self.counters: DriverCounters = deps.counters
        self._began, self._newer_owner = deps.clock(), ""
        self._notifier = deps.background.notifier()
        wake, every = self._notifier.notify, self.group.spec.tuning.segment_every
        self._batches = InFlightBatches(self.group, deps, wake)
        self._housekeeping = Housekeeping(deps, self.writer.is_fenced, wake)
        self._rolling = SegmentRolling(self.writer, deps.background, every, wake)
        self._completer = Completer(deps, wake)
        work = BackgroundWork(self._completer, self._housekeeping)
        self._committer = BatchCommitter(self.group, self.writer, deps, self._batches, work)
        append, observer = self._committer.append, deps.observer
        recording = Recording(self.writer, append, self._committer.recreated_topics)
        abort, completer = self._housekeeping.abort, self._completer
        self._lost = LostUploads(self.group, deps, recording, completer, abort, wake)
        parts = (self.writer, deps, append, completer, wake, abort)
        self._replacements = Replacements(
            *parts,
            retain=self.group.spec.tuning.retain_replaced,
            keep=self.group.spec.keeps_replaced,
            positions=published_positions(self.group, deps.store),
        )
        planner = self._replacements.planner
        self._committer.finalizing.merged_first = planner.merged_first
        self._committer.is_awaited = lambda: planner.is_awaited
        existing = ExistingObjects(self.group, deps.store, deps.background)
        lost = self._batches.lost_ranges
        self._membership = MembershipSync(source, observer, append, existing, lost)
        self._feeds = Feeds(self.group, deps, append, wake, retries_own=not self.until_caught_up)
        self._committer.park = self._feeds.park
        self._goal = self.goal(GoalParts(self.group, deps, append, wake, planner.merged_first))
        own = (self._committer, self._membership, completer, self._feeds, self._replacements)
        replayer = Replayer(self.group, deps.store, deps.runner, deps.new_name)
        pool = deps.background.pool(1, "replay")
        retain = self.group.spec.bad_records.retain
        ended = deps.background.notifier()
        self._expiry = DeadLetterExpiry(deps.store, self.writer.lane, retain, pool, ended)
        self._decisions = Decisions(
            DriverParts(observer, *own), replayer, pool, PendingRequests(wake)
        )
        self._draining = Draining(self.group.spec.upgrade.drain_timeout)

    # -------------------------------------------------------------------------- from other threads

    def stop(self, reason: str) -> None:
        """Drain and yield, from any thread or a signal handler; only the first reason is kept."""
        self._draining.ask(reason)
        self._notifier.notify()

    def decide(self, request: Request) -> Answer:
        """Let the driver carry a request out; returns its answer. From any thread."""
        return self._decisions.pending.submit(request)

    def check_owner(self, read: Read) -> None:
        """End the driver soon if another one has opened the lane; from any thread.

        This only saves time: a driver that misses it finds out at its next append.

        Raises:
            Retry: the store does not answer.
        """
        if newer_owner := self.writer.newer_owner(read):
            self._newer_owner = newer_owner
            self._notifier.notify()

    # -------------------------------------------------------------------------------------- running

    def run(self) -> ExitCode:
        """Land until stopped, caught up, fenced or stalled."""
        try:
            self._recover()
            while not self._is_drained(self.deps.clock()):
                self._pass(self.deps.clock())
                self._wait()
            return self._yield_lane()
        except Fenced as fenced:
            return self._fenced(str(fenced))
        except Stalled as stalled:
            # A successor may have caused what stopped us: for example, it repaired an object.
            if self._is_fenced():
                return self._fenced(f"another driver has opened the lane; seen before: {stalled}")
            self.phase, self.counters.message = Phase.STALLED, f"{stalled.reason}: {stalled}"
            log.error("driver stalled", extra={"reason": stalled.reason, "why": str(stalled)})  # noqa: TRY400  # the message says all that a trace would
            return ExitCode.STALLED
        except Retry as error:
            self.phase, self.counters.message = Phase.STOPPED, str(error)
            log.error("dependency unavailable", extra={"why": str(error)})  # noqa: TRY400  # as above
            return ExitCode.UNAVAILABLE
        finally:
            self._decisions.close(f"the driver has stopped: {self.phase}")
            # No COMMIT names these batches and none ever will, so their uploads are aborted now.
            for results in self._batches.stop():
                self._housekeeping.abort_results(results)
            self._housekeeping.abort(self._lost.stop())
            parts = (self._replacements, self._completer, self._goal, self._feeds, self._expiry)
            for part in parts:
                part.stop()
            self._housekeeping.finish()
            self._rolling.stop()
            self._report()

    def _recover(self) -> None:
        """Roll every COMMIT forward that may not be applied; nothing is planned before that.

        What is lost, or seems so, is not waited for: it is found and made again beside landing.
        """
        self.phase = Phase.RECOVERING
        self._completer.roll_forward(self.writer.state.unapplied, self._report, self._wait)
        self._replacements.recover(self._report, self._wait)
        self._list_fenced_uploads()
        self.phase = Phase.RUNNING

    def _list_fenced_uploads(self) -> None:
        """Begin to abort every open upload; those of COMMITs are complete, or not open."""

        def tell() -> None:
            self.counters.message = "looking for uploads that former drivers left behind"
            self._report()

        self._housekeeping.begin_first_sweep(
            self._is_ours, self._decided, self.deps.clock(), self._discarded_lanes().have
        )
        self._housekeeping.await_first_listing(self._wait, tell)
        self.counters.message = ""

    def _pass(self, now: datetime) -> None:
        try:
            if self.deps.observer.is_due(now):
                self._look_at_log(now)
            if self.counters.consecutive_failures and self._has_landed_all():
                # Only a COMMIT resets the count otherwise, and there is nothing to commit.
                self.counters.consecutive_failures = 0
        except Retry as error:
            record_failure(self.deps, cause(error, "SourceUnavailable"), error)
            if not self.offsets_known and now - self._began > STARTUP_PATIENCE:
                raise
        self._committer.commit_finished(now)
        self._lost.advance(now)
        self._replacements.advance(now, begins=not self._draining.must_end)
        self._end_goal()
        self._committer.count_refusal()  # what is done now may have been refused before
        self._decisions.carry_out(lambda: self.writer.state, self._batches.in_flight(), now)
        if not self._is_stopping(now):
            self._start_batches(now)
        if not self._draining.must_end:
            self._committer.append_if_due(now, at_once=bool(self._draining.reason))
            roll = partial(self._rolling.advance, now, self._completer.applied_through)
            self._unless_away("SnapshotFailed", roll)
        # Only what is visible is mirrored: Kafka's tools must not show records as read too early.
        self._housekeeping.mirror(self._completer.applied_through, self._lost.missing)
        name, checkpoint = self.group.metadata.name, self.writer.state.checkpoint
        self._housekeeping.abort_orphans_if_due(
            partial(is_of_landed_range, name, checkpoint),
            self._decided,
            now,
            self.group.spec.tuning.orphan_age,
            self._discarded_lanes().have,
        )
        is_replaying = self._decisions.is_carrying_out
        self._expiry.start_if_due(self.writer.state, now, is_replaying=is_replaying)
        beside = work_beside_landing(self._housekeeping.orphans, self._lost.count)
        wrong = (*self._membership.absent, *self._feeds.problems(self.writer.state))
        notes = (*self._feeds.notes, beside, self._replacements.note, self._membership.note)
        messages = [list_errors(wrong), self.counters.warning, *notes]
        self.counters.message = "\n".join(filter(None, messages))
        self._report()

    def _unless_away(self, reason: str, step: Callable[[], object]) -> None:
        """Take a step that the next pass takes if what it needs is away."""
        try:
            step()
        except Retry as error:
            record_failure(self.deps, cause(error, reason), error)

    def _look_at_log(self, now: datetime) -> None:
        in_flight, unapplied = self._batches.in_flight(), self._completer.topic_partitions
        at_rest = not (self._batches or self._awaits(self._completer.awaited))
        state = self._feeds.look(self.writer.state, now, self._goal.due.until)
        self._membership.look(state, now, in_flight, unapplied, at_rest=at_rest)
        self._membership.forget_targets(unless=self._feeds.are_found)
        stalled, grown = self.stalled_partitions(), self.deps.observer.grown
        arrived = (self._feeds.arrived(tp, n) for tp, n in grown.items() if tp not in stalled)
        self.counters.arrived += sum(arrived)
        self._goal.look(self.writer.state, now)

    def _end_goal(self) -> None:
        applied, state = self._completer.applied_through, self.writer.state
        is_held = any(slot > applied for slot in state.unapplied)  # by a REPLACE
        is_landed = self._is_at_rest and not (self.unapplied or is_held)
        at = (self.writer.state, self.stalled_partitions())
        self._unless_away("RunFailed", partial(self._goal.advance, *at, is_landed=is_landed))

    def _start_batches(self, now: datetime) -> None:
        if self._batches.is_full or self._has_too_much_unapplied or self._membership.leaving:
            return
        checkpoint, targets = self.writer.state.checkpoint, self._membership.targets or {}
        self._batches.follow(self.writer.state)
        # With until_caught_up, records that arrive after the first look are left to a later run.
        skip = reached(checkpoint, targets) if self.until_caught_up else ()
        backlogs = self._goal.due.within(self.deps.observer.backlogs(checkpoint, skip, now))
        backlogs = self._feeds.with_parts(self.writer.state, backlogs)
        flush = self.until_caught_up or self._goal.due.is_closing
        stalled = self.stalled_partitions().keys() | self._decisions.held
        self._batches.start(backlogs, stalled, now, flush=flush)

    # ------------------------------------------------------------------------------------ reporting

    def progress(self) -> DriverProgress:
        """How far the driver is now; on the driver's thread."""
        return DriverProgress(
            time=self.deps.clock(),
            phase=self.phase,
            state=self.writer.state,
            log=self.deps.observer.view,
            stalled=self.stalled_partitions(),
            in_flight=frozenset(self._batches.in_flight()),
            batches=len(self._batches),
            unapplied=self.unapplied,
            targets=self._membership.targets,
            is_at_rest=self._is_at_rest,
            repairing=self._lost.count,
            held=self._committer.finalizing.held,
            due=self._goal.due,
            feeds=self._feeds.statuses(self.writer.state),
            compaction=self._replacements.planner.status,
            replacing=self._replacements.status,
            read_from=self._membership.lost_ranges.reading,
        )

    def _report(self) -> None:
        self.report(self.progress())

    def _is_ours(self, key: str) -> bool:
        return is_ours(self.group.metadata.name, self.writer.state.members, key)

    def _discarded_lanes(self) -> DiscardedLanes:
        return DiscardedLanes(self.deps.store, self.group.metadata.name)

    @property
    def _decided(self) -> frozenset[str]:
        return self._completer.decided | self._replacements.protected

    def _is_fenced(self) -> bool:
        try:
            return self.writer.is_fenced()
        except LandfallError:
            return False

    def _fenced(self, why: str) -> ExitCode:
        self.phase, self.counters.message = Phase.FENCED, why
        log.warning("driver fenced", extra={"why": why})
        return ExitCode.FENCED

    def stalled_partitions(self) -> Mapping[TopicPartition, Stalled]:
        """Topic partitions that are not landed until somebody acts, and why."""
        recorded = blocked_partitions(self.writer.state)
        return {**self._membership.blocked_by_source, **self._committer.blocked, **recorded}

    @property
    def _has_too_much_unapplied(self) -> bool:
        """Whether the COMMITs so far must become visible before there are more.

        Those that wait only for lost uploads hold nothing up, unless there are very many: what is
        unapplied is a part of every snapshot.
        """
        allowed = self.group.spec.tuning.max_unapplied
        is_held = len(self.writer.state.unapplied) >= HELD_FACTOR * allowed
        is_lost = self.unapplied >= LOST_FACTOR * allowed
        return self._completer.completing >= allowed or is_lost or is_held

    @property
    def unapplied(self) -> int:
        """COMMITs whose objects are not all visible yet."""
        return self._completer.unapplied

    @property
    def offsets_known(self) -> bool:
        """Whether the driver has seen the log, so that it knows its lag."""
        return self._membership.targets is not None

    @property
    def caught_up(self) -> bool:
        """Whether all that the first look saw is landed and visible, except what is stalled."""
        return self._is_at_rest and has_caught_up(
            self.writer.state.checkpoint, self._membership.targets, self.stalled_partitions()
        )

    @property
    def has_ended(self) -> bool:
        """Whether a driver with an end has reached it, or has landed as much as can be."""
        return (self.until_caught_up and self.caught_up) or self._goal.is_done

    @property
    def _is_at_rest(self) -> bool:
        lost = self._completer.awaited.union(self._lost.topic_partitions)
        is_old = self.deps.observer.must_discover  # what was missing may be there again
        return not (is_old or self._batches or self._membership.leaving or self._awaits(lost))

    def _awaits(self, lost: frozenset[TopicPartition]) -> bool:
        """Whether more objects will be visible before a Kafka partition answers that does not."""
        away = self.deps.observer.view.unavailable.keys()
        return self._completer.completing > 0 or not lost <= away

    def _has_landed_all(self) -> bool:
        """Whether everything that the last look saw is landed and visible."""
        observer, checkpoint = self.deps.observer, self.writer.state.checkpoint
        ends = {tp: observer.watermarks[tp].end for tp in observer.unsettled}
        landed = ends.keys() == reached(checkpoint, ends)
        return landed and not (self._batches or self.unapplied or self.stalled_partitions())

    # ------------------------------------------------------------------------ waiting and draining

    def _wait(self) -> None:
        """Return when something happened, or when it is time to look at the log again.

        Raises:
            Fenced: another driver has opened the lane; raised only here, between whole passes.
        """
        self._notifier.wait(self.group.spec.tuning.poll_interval)
        if self._newer_owner:
            raise Fenced(self._newer_owner)

    def _is_stopping(self, now: datetime) -> bool:
        if self.until_caught_up and not self._draining.reason and self.caught_up:
            self._draining.reason = "caught up"
        if self._goal.is_done and not self._draining.reason:
            self._draining.reason = "what was due is landed"
        if self._draining.begins(now):
            self.phase = Phase.DRAINING
        return bool(self._draining.reason)

    def _is_drained(self, now: datetime) -> bool:
        if not self._is_stopping(now):
            return False
        lands = self._batches and not self._draining.is_futile(now, self.deps.runner.settle())
        is_free = not self._draining.must_end  # nobody waits for the end
        works = self._replacements.finish(merges=is_free) or (is_free and self._rolling.is_due(now))
        # What is lost is left to the next driver: Kafka may be away for long.
        return self._draining.is_over(now) or not (lands or works or self._completer.completing)

    def _yield_lane(self) -> ExitCode:
        self._committer.hand_over(self._draining.reason, self.deps.clock())
        self._housekeeping.mirror(self._completer.applied_through, self._lost.missing)
        self.phase = Phase.STOPPED
        stalled = (error for _, error in sorted(self.stalled_partitions().items()))
        files = self._feeds.problems(self.writer.state)
        unlanded = (*self._membership.absent, *stalled, *self._goal.problems, *files)
        if (self.until_caught_up and unlanded) or self._goal.left:
            self.counters.message = not_landed(unlanded, self._goal.left)
            return ExitCode.STALLED
        return ExitCode.OK
