"""Takes the lane, lands, and hands the lane over: a driver process from start to end.

A process has one ``LaneContender``. Each time it owns the lane, from OPEN to YIELD, a ``Driver`` of
its own lands; Spark, the source's client and the counters outlive that driver.

    STARTING    another revision owns the lane, and this process's executors are not ready yet
    STANDBY     executors are ready; the lane is looked at every second, which costs one listing
    (driver)    RECOVERING, RUNNING, DRAINING: see ``landfall.driver.process.loop``
    YIELDED     the lane was handed over on command; the process stays, because a restarted one
                would find a lane that is free and take it back

The ledger alone decides who lands. A process takes the lane without being asked if it is free for
its revision (``State.can_open``), in exactly the slot that it looked at: of two that stand by, one
gets the slot, and the other sees that. On the command to take over, it opens the lane
unconditionally. So does a process without a revision, which never stands by.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from threading import RLock

from landfall import __version__
from landfall.api.contract import LANE, DriverPhase, ExitCode, LedgerAnchor, LedgerPosition
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import Answer, LeaseRequest, Outcome, Request
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.stored_specs import check_files, store_spec
from landfall.driver.http.status import (
    DriverProgress,
    LaneView,
    StatusReport,
    driver_report,
    standby_status,
)
from landfall.driver.landing.existing_objects import check_root_free
from landfall.driver.landing.letters_places import check_letters_places
from landfall.driver.process.known_ledger import check_anchor, check_known
from landfall.driver.process.loop import Driver
from landfall.errors import Retry, Stalled, cause
from landfall.lane import Lane, LaneWriter, OpenRequest, Read
from landfall.ledger import LaneOwnership, State

log = logging.getLogger(__name__)

LOOK_INTERVAL = timedelta(seconds=1)
"""How often a process that stands by looks at the lane. This is the longest pause that a handover
causes, apart from the new driver's recovery.
"""

NewDriver = Callable[[LaneWriter, Callable[[DriverProgress], None]], Driver]
"""Makes the driver that lands with this writer and reports its progress to this callable."""


class PendingCommand(Enum):
    """The last command about the lane, until it is carried out."""

    NOTHING = 0
    HAND_OVER = 1
    TAKE_OVER = 2


class StoppedBeforeOpen(Exception):  # noqa: N818  # the name is the state
    """The process was stopped before it opened the lane."""


@dataclass(frozen=True, slots=True)
class ContenderOptions:
    """How a process takes the lane.

    Attributes:
        revision: of its software and spec; empty to open the lane at once, unconditionally.
        look_interval: between two looks at a lane that another process owns.
        known_ledger: what the ledger has reached at least; None if nothing is known.
        anchor: a slot that the ledger has, with its hash; likewise.
        is_owner_working: whether another process shows that it owns the lane and makes progress.
    """

    revision: str = ""
    look_interval: timedelta = LOOK_INTERVAL
    known_ledger: LedgerPosition | None = None
    anchor: LedgerAnchor | None = None
    is_owner_working: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class StatusReporter:
    """Where a process shows what it is doing.

    Attributes:
        post: takes each new status, which it completes if it needs more than the summary.
        wait_for: takes what the process waits for and cannot continue without, such as the store.
    """

    post: Callable[[StatusReport], None]
    wait_for: Callable[[str], None] = lambda _: None


@dataclass
class LaneContender:
    """Runs a driver whenever this process owns the lane.

    Attributes:
        group: the resource.
        deps: what drivers work with.
        new_driver: makes the driver for a lane that this process has just opened.
        reporter: where to show the status.
        options: how to take the lane.
        has_ended: whether its last driver had an end and has reached it.
    """

    group: ConsumerGroup
    deps: DriverDeps
    new_driver: NewDriver
    reporter: StatusReporter
    options: ContenderOptions = ContenderOptions()
    has_ended: bool = False
    _command: PendingCommand = PendingCommand.NOTHING
    _stop_reason: str = ""
    _driver: Driver | None = None
    _spec: str = ""
    # Reentrant: a signal handler runs on the main thread, which may hold the lock already.
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        background = self.deps.background
        self._notifier = background.notifier()
        self._lane = Lane(
            self.deps.store,
            self.group.metadata.name,
            LANE,
            lambda threads: background.pool(threads, "ledger"),
        )

    # -------------------------------------------------------------------------- from other threads

    def stop(self, reason: str) -> None:
        """End; a driver that owns the lane drains first. From any thread or a signal handler."""
        with self._lock:
            self._stop_reason = self._stop_reason or reason
            if self._driver:
                self._driver.stop(reason)
        self._notifier.notify()

    def hand_over(self, to: str) -> None:
        """Drain, append YIELD, then rest; nothing happens without the lane. From any thread."""
        with self._lock:
            if self._driver and self._command is not PendingCommand.HAND_OVER:
                log.info("handover requested", extra={"to": to})
                self._command = PendingCommand.HAND_OVER
                self._driver.stop(f"handed over to {to}")

    def take_over(self) -> None:
        """Open the lane unconditionally. From any thread.

        Nothing happens if this process owns the lane and is not handing it over.
        """
        with self._lock:
            is_landing = self._driver and self._command is PendingCommand.NOTHING
            if is_landing or self._command is PendingCommand.TAKE_OVER:
                return
            log.info("takeover requested")
            self._command = PendingCommand.TAKE_OVER
        self._notifier.notify()

    def decide(self, request: Request) -> Answer:
        """Let this process's driver carry a request out, and wait for it. From any thread."""
        driver = self._driver
        if driver is None:
            # A Service leads takers to either driver of a rollout: let them ask again.
            outcome = Outcome.FAILED if isinstance(request, LeaseRequest) else Outcome.REFUSED
            return Answer(
                outcome, message="this process does not have the lane: ask the one that has"
            )
        return driver.decide(request)

    def check_store(self, read: Read) -> None:
        """Return if the store answers; a driver that has lost the lane learns that it did.

        From any thread. Only the ledger's appends decide who owns the lane, this check does not.

        Raises:
            Retry: the store does not answer.
        """
        driver = self._driver
        if driver:
            driver.check_owner(read)
        else:
            read(self._lane.slot_key(0, 0))

    # -------------------------------------------------------------------------------------- running

    def run(self) -> ExitCode:
        """Stand by, land and rest, until stopped or until a driver ends by itself.

        Raises:
            Stalled: OUTPUT_OCCUPIED, the ledger is empty but the output root holds data objects;
                LEDGER_BEHIND, LEDGER_REWRITTEN, it is not the ledger that this group had;
                LEDGER_BROKEN.
            Retry: no executor can run tasks. An unavailable store is waited for instead, because a
                restarted process would take longer than most outages.
        """
        try:
            writer = self._stand_by()
            while writer:
                code = self._land(writer)
                if (
                    code is not ExitCode.OK
                    or self._command is PendingCommand.NOTHING
                    or self._stop_reason
                ):
                    return code
                writer = self._rest(writer.state)
        except StoppedBeforeOpen:
            log.info("driver stopped before it opened the lane")
        return ExitCode.OK

    def _stand_by(self) -> LaneWriter | None:
        """Wait for the lane and open it; None if stopped first."""
        pool = self.deps.background.pool(1, "warm-up")
        try:
            state = self._first_read()
            return self._wait_for_lane(state, pool) if state else None
        finally:
            pool.shutdown(wait=False)

    def _first_read(self) -> State | None:
        """Return the lane's state, as soon as the store lets it be read; None if stopped first."""
        while not self._stop_reason:
            try:
                state = self._lane.read()
                root = self.group.spec.ledger_root
                check_known(state, self.options.known_ledger, root)
                check_anchor(self._lane, state, self.options.anchor, root)
            except Retry as error:
                self._wait_for_store(error)
            else:
                return state
        return None

    def _wait_for_lane(self, state: State, pool: Executor) -> LaneWriter | None:
        warm_up: Future[None] | None = None
        deadline = self.deps.clock() + self.group.spec.upgrade.drain_timeout
        while not self._stop_reason:
            may_open = state.can_open(self.options.revision)
            is_draining = may_open and self._is_owner_draining(state, deadline)
            if self._must_open or (may_open and not is_draining):
                if writer := self._open(state):
                    return writer
            else:
                # Only a process that stands by warms up: one that may land at once starts tasks
                # anyway.
                warm_up = warm_up or pool.submit(self.deps.runner.warm_up)
                self._show_standby(warm_up, state, is_draining=is_draining)
            state = self._follow(state)
        return None

    def _is_owner_draining(self, state: State, deadline: datetime) -> bool:
        """Return whether the process that this one replaces still works: then it will hand over.

        It is given the time in which it must drain. One that was killed answers no more, so the
        lane is opened at once.
        """
        return (
            state.holding is LaneOwnership.HELD
            and self.deps.clock() < deadline
            and self.options.is_owner_working()
        )

    def _show_standby(self, warm_up: "Future[None]", state: State, *, is_draining: bool) -> None:
        if warm_up.done():
            warm_up.result()  # raises what warming up met
        revision = f"revision {state.revision or 'unknown'}"
        owner = "the driver before this one still" if is_draining else revision
        self.deps.counters.message = f"{owner} has the lane, epoch {state.epoch}"
        # The operator commands a driver in STANDBY to take the lane. This one must not do that yet.
        is_ready = warm_up.done() and not is_draining
        self._show(DriverPhase.STANDBY if is_ready else DriverPhase.STARTING, state, 0)
        self._wait()

    def _land(self, writer: LaneWriter) -> ExitCode:
        """Run a driver from OPEN to its end."""
        with self._lock:
            # The command to take over, if there was one, is carried out by this OPEN.
            self._command = PendingCommand.NOTHING
            self.deps.counters.message = ""
            driver = self._driver = self.new_driver(writer, self._report)
            if self._stop_reason:
                driver.stop(self._stop_reason)
        try:
            return driver.run()
        finally:
            self.has_ended = driver.has_ended
            with self._lock:
                self._driver = None

    def _rest(self, state: State) -> LaneWriter | None:
        """Wait after a handover; open the lane again on command, return None if stopped."""
        self.deps.counters.message = "the lane is handed over"
        while not self._stop_reason:
            if self._must_open:
                return self._open(state)
            self._show(DriverPhase.YIELDED, state, state.epoch)
            self._wait()
        return None

    # ------------------------------------------------------------------------------------ the lane

    @property
    def _must_open(self) -> bool:
        """True if the lane is opened unconditionally."""
        return self._command is PendingCommand.TAKE_OVER or not self.options.revision

    def _open(self, state: State) -> LaneWriter | None:
        """Append OPEN; None if another process wrote first and this one may have to stand by."""
        if state.seq < 0 and not self._may_start_ledger():
            return None
        request = OpenRequest(
            writer=self.deps.new_name(),
            generation=self.group.spec.generation,
            software=__version__,
            revision=self.options.revision,
            spec=self._stored_spec(state),
        )
        clock, on_retry = self.deps.clock, self._on_retry
        if self._must_open:
            return LaneWriter.open(
                lane=self._lane, request=request, clock=clock, on_retry=on_retry, state=state
            )
        return LaneWriter.open_after(
            lane=self._lane, state=state, request=request, clock=clock, on_retry=on_retry
        )

    def _stored_spec(self, state: State) -> str:
        """Return the digest of what objects are made by; it is stored before an OPEN names it.

        Raises:
            Stalled: SPEC_INVALID, this revision began with another file for a decoder, or dead
                letters are due in a place that the spec does not name.
        """
        check_letters_places(state, self.group.spec)
        while True:
            try:
                self._spec = self._spec or store_spec(self.deps.store, self.group, self._lane.name)
                if self.options.revision and state.revision == self.options.revision:
                    check_files(self.deps.store, self.group, self._lane.name, state)
            except Retry as error:
                if self._stop_reason:
                    raise StoppedBeforeOpen from error
                self._wait_for_store(error)
            else:
                return self._spec

    def _may_start_ledger(self) -> bool:
        """Return whether the lane is still empty, and no data objects are in the way.

        Raises:
            Stalled: OUTPUT_OCCUPIED, such objects exist and the lane is still empty. Otherwise they
                are the objects of the driver that opened the lane meanwhile.
        """
        try:
            check_root_free(self.group, self.deps.store)
        except Retry as error:
            self._wait_for_store(error)
            return False
        except Stalled:
            if self._lane.read().seq < 0:
                raise
            return False
        return True

    def _follow(self, state: State) -> State:
        try:
            return self._lane.follow(state)
        except Retry as error:
            self._wait_for_store(error)
            return state

    def _wait_for_store(self, error: Retry) -> None:
        log.warning("lane not read", extra={"why": str(error)})
        self.reporter.wait_for(f"store: {error}")
        self._wait()

    def _on_retry(self, error: Retry) -> None:
        """Show that an append waits for the store; its caller tries the same record again."""
        if self._stop_reason and self._driver is None:
            raise StoppedBeforeOpen from error
        # Only counted: the retry itself is logged already, see ``landfall.driver.process.run``.
        reason = cause(error, "StoreUnavailable")
        self.deps.counters.failed(reason, str(error), self.deps.clock())
        if self._driver:
            self._report(self._driver.progress())
        self.reporter.wait_for(f"store: {error}")

    def _wait(self) -> None:
        """Return on a command, or when it is time to look at the lane again."""
        self._notifier.wait(self.options.look_interval)

    # ------------------------------------------------------------------------------------ reporting

    def _report(self, progress: DriverProgress) -> None:
        workers = self.deps.runner.settle()
        self.reporter.post(
            driver_report(
                group=self.group,
                lane=self._lane.name,
                progress=progress,
                counters=self.deps.counters,
                workers=workers,
            )
        )

    def _show(self, phase: DriverPhase, state: State, epoch: int) -> None:
        view = LaneView(
            group=self.group,
            lane=self._lane.name,
            revision=self.options.revision,
            phase=phase,
            state=state,
            epoch=epoch,
        )
        now, workers = self.deps.clock(), self.deps.runner.settle()
        status = standby_status(view, self.deps.counters, now, workers)
        self.reporter.post(StatusReport(status))
