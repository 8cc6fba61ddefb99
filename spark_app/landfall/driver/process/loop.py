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
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from landfall.api.contract import DriverPhase, ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.api.values import plural
from landfall.api.verbs import Answer, Request
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.draining import Draining
from landfall.driver.core.parts import DriverPart
from landfall.driver.feeds.feeds import Feeds
from landfall.driver.feeds.leases import Leases
from landfall.driver.http.status import DriverProgress
from landfall.driver.landing.commits import BackgroundWork, BatchCommitter, LaneAppender
from landfall.driver.landing.completer import Completer
from landfall.driver.landing.dead_letter_expiry import DeadLetterExpiry
from landfall.driver.landing.existing_objects import ExistingObjects
from landfall.driver.landing.goals import Endless, GoalParts, GoalType
from landfall.driver.landing.housekeeping import Housekeeping
from landfall.driver.landing.in_flight import InFlightBatches
from landfall.driver.landing.lost_uploads import LostUploads, Recording
from landfall.driver.landing.membership_sync import MembershipSync
from landfall.driver.landing.segment_rolling import SegmentRolling
from landfall.driver.process.passes import (
    BatchStarts,
    DriverParts,
    GoalCheck,
    LaneUpkeep,
    LogLooks,
    StoreUpkeep,
)
from landfall.driver.process.publishing import publishers_of
from landfall.driver.replacing.replacements import Replacements
from landfall.driver.requests.driver_requests import DriverLane, DriverRequests
from landfall.driver.requests.executor import RequestExecutor
from landfall.driver.requests.pending_requests import PendingRequests
from landfall.driver.requests.replay import Replayer
from landfall.errors import Fenced, Retry, Stalled
from landfall.lane import LaneWriter, Read
from landfall.ledger.offsets import TopicPartition

log = logging.getLogger(__name__)


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
    phase: DriverPhase = DriverPhase.STARTING

    def __post_init__(self) -> None:
        group = self.group
        writer = self.writer
        deps = self.deps
        self.counters: DriverCounters = deps.counters
        self._newer_owner: str | None = None
        self._notifier = deps.background.notifier()
        wake = self._notifier.notify
        self._draining = Draining(group.spec.upgrade.drain_timeout)
        self._batches = InFlightBatches(group, deps, wake)
        self._housekeeping = Housekeeping(deps, writer.is_fenced, wake)
        self._rolling = SegmentRolling(
            writer, deps.background, group.spec.tuning.segment_every, wake
        )
        self._completer = Completer(deps, wake)
        append = LaneAppender(writer, self._completer).append
        self._feeds = Feeds(group, deps, append, wake, retries_own=not self.until_caught_up)
        self._replacements = Replacements(
            writer=writer,
            deps=deps,
            append=append,
            completer=self._completer,
            wake=wake,
            abort=self._housekeeping.abort,
            draining=self._draining,
            retain=group.spec.tuning.retain_replaced,
            keep=group.spec.keeps_replaced,
            publishers=publishers_of(group, deps.store),
        )
        planner = self._replacements.planner
        self._committer = BatchCommitter(
            group=group,
            writer=writer,
            deps=deps,
            batches=self._batches,
            background=BackgroundWork(self._completer, self._housekeeping),
            append=append,
            park=self._feeds.park,
            is_awaited=lambda: planner.is_awaited,
            merged_first=planner.merged_first,
        )
        self._lost = LostUploads(
            group=group,
            deps=deps,
            recording=Recording(writer, append, self._committer.recreated_topics),
            completer=self._completer,
            abort=self._housekeeping.abort,
            wake=wake,
        )
        self._membership = MembershipSync(
            source=group.spec.source,
            observer=deps.observer,
            append=append,
            existing=ExistingObjects(group, deps.store, deps.background),
            lost_ranges=self._batches.lost_ranges,
        )
        self._goal = self.goal(
            GoalParts(
                group=group,
                deps=deps,
                append=append,
                wake=wake,
                merged_first=planner.merged_first,
            )
        )
        replays = deps.background.pool(1, "replay")
        self._requests = DriverRequests(
            executor=RequestExecutor(
                leases=Leases(group, deps.store),
                replayer=Replayer(group, deps.store, deps.runner, deps.new_name),
            ),
            lane=DriverLane(
                group=group,
                writer=writer,
                append=append,
                observer=deps.observer,
                committer=self._committer,
                membership=self._membership,
                lost_ranges=self._batches.lost_ranges,
                completer=self._completer,
                feeds=self._feeds,
                replacements=self._replacements,
                pool=replays,
            ),
            batches=self._batches,
            pending=PendingRequests(wake),
        )
        expiry = DeadLetterExpiry(
            store=deps.store,
            lane=writer.lane,
            retain=group.spec.bad_records.retain,
            replaying=replays,
            ended=deps.background.notifier(),
        )
        parts = self._parts = DriverParts(
            group=group,
            writer=writer,
            deps=deps,
            draining=self._draining,
            batches=self._batches,
            committer=self._committer,
            completer=self._completer,
            lost=self._lost,
            membership=self._membership,
            feeds=self._feeds,
            replacements=self._replacements,
            goal=self._goal,
            requests=self._requests,
            rolling=self._rolling,
            housekeeping=self._housekeeping,
            expiry=expiry,
        )
        self._starts = BatchStarts(parts, self._is_stopping, self.until_caught_up)
        self._store_upkeep = StoreUpkeep(parts)
        # In the order of a pass: what a step appends or frees is seen by those after it.
        self._steps: tuple[DriverPart, ...] = (
            LogLooks(parts),
            self._feeds,
            self._committer,
            self._lost,
            self._replacements,
            GoalCheck(parts),
            self._completer,  # counts what was refused to the steps before
            self._requests,
            self._starts,  # after the requests, which keep topic partitions from being landed
            LaneUpkeep(parts),
            self._store_upkeep,
        )

    # -------------------------------------------------------------------------- from other threads

    def stop(self, reason: str) -> None:
        """Drain and yield, from any thread or a signal handler; only the first reason is kept."""
        self._draining.ask(reason)
        self._notifier.notify()

    def decide(self, request: Request) -> Answer:
        """Let the driver carry a request out; returns its answer. From any thread."""
        return self._requests.pending.submit(request)

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
            return self._stalled(stalled)
        except Retry as error:
            return self._unavailable(str(error))
        finally:
            self._requests.close(f"the driver has stopped: {self.phase}")
            for step in self._steps:
                step.stop()
            # The last ones do what the earlier ones have left to them, such as aborting uploads.
            for step in reversed(self._steps):
                step.finish()
            self._report()

    def _recover(self) -> None:
        """Roll every COMMIT forward that may not be applied; nothing is planned before that.

        What is lost, or seems so, is not waited for: it is found and made again alongside landing.
        """
        self.phase = DriverPhase.RECOVERING
        self._completer.roll_forward(self.writer.state.unapplied, self._report, self._wait)
        self._replacements.recover(self._report, self._wait)
        self._list_fenced_uploads()
        self.phase = DriverPhase.RUNNING

    def _list_fenced_uploads(self) -> None:
        """Begin to abort every open upload; uploads of COMMITs are complete, or not open."""

        def tell() -> None:
            self.counters.message = "looking for uploads that former drivers left"
            self._report()

        self._store_upkeep.begin_first_sweep(self.deps.clock())
        self._housekeeping.await_first_listing(self._wait, tell)
        self.counters.message = ""

    def _pass(self, now: datetime) -> None:
        for step in self._steps:
            step.advance(now)
        self.counters.message = self._message()
        self._report()

    def _wait(self) -> None:
        """Return when something happened, or when it is time to look at the log again.

        Raises:
            Fenced: another driver has opened the lane; raised only here, between whole passes.
        """
        self._notifier.wait(self.group.spec.tuning.poll_interval)
        if self._newer_owner:
            raise Fenced(self._newer_owner)

    # ---------------------------------------------------------------------------- draining, ending

    @property
    def has_ended(self) -> bool:
        """True if a driver with an end has reached it, or has landed as much as can be."""
        return (self.until_caught_up and self.caught_up) or self._goal.is_done

    def _is_stopping(self, now: datetime) -> bool:
        draining = self._draining
        if self.until_caught_up and draining.reason is None and self.caught_up:
            draining.reason = "caught up"
        if self._goal.is_done and draining.reason is None:
            draining.reason = "what was due is landed"
        if draining.begins(now):
            self.phase = DriverPhase.DRAINING
        return draining.reason is not None

    def _is_drained(self, now: datetime) -> bool:
        if not self._is_stopping(now):
            return False
        lands = self._batches and not self._draining.is_futile(now, self.deps.runner.settle())
        is_free = not self._draining.must_end  # nothing waits for the end
        works = self._replacements.finish_merging(merges=is_free)
        works = works or (is_free and self._rolling.is_due(now))
        # What is lost is left to the next driver: Kafka may be away for long.
        return self._draining.is_over(now) or not (lands or works or self._completer.completing)

    def _yield_lane(self) -> ExitCode:
        assert self._draining.reason is not None, "only a driver that drains yields"
        self._committer.hand_over(self._draining.reason, self.deps.clock())
        self._store_upkeep.mirror()
        self.phase = DriverPhase.STOPPED
        stalled = (error for _, error in sorted(self.stalled_partitions().items()))
        files = self._feeds.problems(self.writer.state)
        unlanded = (*self._membership.absent, *stalled, *self._goal.problems, *files)
        if (self.until_caught_up and unlanded) or self._goal.left:
            self.counters.message = _not_landed(unlanded, self._goal.left)
            return ExitCode.STALLED
        return ExitCode.OK

    def _stalled(self, stalled: Stalled) -> ExitCode:
        # A successor may have caused what stopped us: for example, it repaired an object.
        try:
            if self._is_fenced():
                return self._fenced(f"another driver has opened the lane; seen before: {stalled}")
        except Retry as error:
            return self._unavailable(
                f"{error}; so it is not known whether another driver has opened the lane, which "
                f"may be the cause of: {stalled.reason}: {stalled}"
            )
        self._end(DriverPhase.STALLED, f"{stalled.reason}: {stalled}")
        log.error("driver stalled", extra={"reason": stalled.reason, "why": str(stalled)})
        return ExitCode.STALLED

    def _is_fenced(self) -> bool:
        try:
            return self.writer.is_fenced()
        except Stalled:  # this driver has a reason of its own to stop
            return False

    def _unavailable(self, why: str) -> ExitCode:
        self._end(DriverPhase.STOPPED, why)
        log.error("dependency unavailable", extra={"why": why})
        return ExitCode.UNAVAILABLE

    def _fenced(self, why: str) -> ExitCode:
        self._end(DriverPhase.FENCED, why)
        log.warning("driver fenced", extra={"why": why})
        return ExitCode.FENCED

    def _end(self, phase: DriverPhase, why: str) -> None:
        self.phase = phase
        self.counters.message = why

    # ------------------------------------------------------------------------------------ reporting

    def stalled_partitions(self) -> Mapping[TopicPartition, Stalled]:
        """Topic partitions that are not landed until a user acts, and why."""
        return self._parts.stalled_partitions()

    @property
    def unapplied(self) -> int:
        """COMMITs whose objects are not all visible yet."""
        return self._completer.unapplied

    @property
    def caught_up(self) -> bool:
        """True if all that the first look saw is landed and visible, except what is stalled."""
        return self._parts.caught_up

    def progress(self) -> DriverProgress:
        """Return the driver's progress; on the driver's thread."""
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
            is_at_rest=self._parts.is_at_rest,
            repairing=self._lost.count,
            held=self._committer.finalizing.held,
            due=self._goal.due,
            feeds=self._feeds.statuses(self.writer.state),
            compaction=self._replacements.planner.status,
            replacing=self._replacements.status,
            read_from=self._membership.lost_ranges.reading,
            requests=len(self._parts.requests.pending.waiting()),
        )

    def _report(self) -> None:
        self.report(self.progress())

    def _message(self) -> str:
        """Return lines on what is wrong, and on what is under way."""
        wrong = (*self._membership.absent, *self._feeds.problems(self.writer.state))
        lines = (
            _list_errors(wrong),
            self.counters.warning,
            *self._feeds.notes,
            _work_beside_landing(self._housekeeping.orphans, self._lost.count),
            self._replacements.note,
            self._membership.note,
        )
        return "\n".join(filter(None, lines))


def _list_errors(errors: Iterable[Stalled]) -> str:
    """Return a line for each error; empty if there is none."""
    return "\n".join(f"{error.reason}: {error}" for error in errors)


def _work_beside_landing(orphans: int, lost: int) -> str:
    """Return a line on the work alongside landing; empty if there is none.

    Args:
        orphans: uploads that are being aborted.
        lost: lost objects that are being made again.
    """
    messages = list[str]()
    if orphans:
        messages.append(f"aborting {plural(orphans, 'upload')} that former drivers left")
    if lost:
        objects = plural(lost, "committed object")
        messages.append(f"making {objects} again whose uploads the store has lost")
    return "\n".join(messages)


def _not_landed(errors: Iterable[Stalled], topics: Collection[str]) -> str:
    """Return what a driver that ends has not landed, and the topics that a closed range leaves."""
    left = f"not landed up to the end of the range: {', '.join(topics)}" if topics else ""
    return "\n".join(filter(None, (_list_errors(errors), left)))
