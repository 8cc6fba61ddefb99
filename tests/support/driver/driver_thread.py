"""A driver process on fakes: a ``LaneContender`` in a thread, which a test wakes."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

from msgspec import structs

from landfall.api.contract import DriverPhase, ExitCode, LedgerAnchor, LedgerPosition, Status
from landfall.api.spec import ConsumerGroup
from landfall.api.verbs import Answer, Outcome, Request
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DECIDE_AGAIN_AFTER, DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.core.planned_replacement import NoPlanner, Planner
from landfall.driver.core.runner import BinRunner
from landfall.driver.http.status import StatusReport
from landfall.driver.process.handover import ContenderOptions, LaneContender, StatusReporter
from landfall.driver.process.loop import Driver
from landfall.lane import Lane
from landfall.store import Store
from tests.support.driver import fakes
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, ticking
from tests.support.waiting import wait_for

_names = count()


@dataclass
class DriverThread:
    """A driver process with a revision.

    Attributes:
        look_interval: how often it looks at the lane by itself; a test says ``wake`` otherwise.
        known_ledger: what it knows of the group's ledger.
        anchor: likewise.
        is_owner_working: whether it finds the process that owns the lane at work.
        new_planner: makes what plans REPLACEs.
        decide_again_after: how long a refused REPLACE may hold up later records.
        statuses: all that it has posted.
        waits_for: what it has waited for.
        start_time: what its clock says when it starts.
        code: its exit code, if it has ended by itself.
        error: what it has raised otherwise.
    """

    store: Store
    log: FakeLog
    revision: str = ""
    group: ConsumerGroup = field(default_factory=fakes.group)
    runner: BinRunner | None = None
    look_interval: timedelta = timedelta(hours=1)
    known_ledger: LedgerPosition | None = None
    anchor: LedgerAnchor | None = None
    is_owner_working: Callable[[], bool] = lambda: False
    new_planner: Callable[[Lane, Callable[[], object]], Planner] = lambda *_: NoPlanner()
    decide_again_after: timedelta = DECIDE_AGAIN_AFTER
    statuses: list[Status] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)
    start_time: datetime = NOW
    code: ExitCode | None = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        name, clock = f"{self.revision}-{next(_names)}", ticking(self.start_time)
        batches = count()
        runner = self.runner or FakeRunner(self.store)
        deps = DriverDeps(
            self.store,
            Observer(self.log, timedelta(0)),
            runner,
            clock,
            lambda: f"{name}-{next(batches)}",
            DriverCounters(clock()),
            new_planner=self.new_planner,
            decide_again_after=self.decide_again_after,
        )
        self.contender = LaneContender(
            self.group,
            deps,
            lambda writer, report: Driver(self.group, writer, deps, report),
            StatusReporter(self._post, self.waits_for.append),
            ContenderOptions(
                self.revision,
                self.look_interval,
                self.known_ledger,
                self.anchor,
                self.is_owner_working,
            ),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _post(self, report: StatusReport) -> None:
        self.statuses.append(report.status)

    def _run(self) -> None:
        try:
            self.code = self.contender.run()
        except BaseException as error:  # noqa: BLE001  # the test that waits for this thread raises it
            self.error = error

    def start(self) -> "DriverThread":
        self._thread.start()
        return self

    @property
    def ended(self) -> bool:
        """Whether it has ended, by itself or not."""
        return not self._thread.is_alive()

    @property
    def phase(self) -> DriverPhase:
        return self.statuses[-1].phase if self.statuses else DriverPhase.STARTING

    def wake(self) -> None:
        """Let it look at the lane once more, if it stands by or rests."""
        self.contender._notifier.notify()

    def decide(self, request: Request) -> Answer:
        """The answer of its driver, whose time on a busy machine is not that of the request."""
        named = structs.replace(request, id=request.id or f"request-{next(_names)}")
        answers = [self.contender.decide(named)]

        def is_final() -> bool:
            if answers[-1].outcome is Outcome.WAITING:
                answers.append(self.contender.decide(named))
            return answers[-1].outcome is not Outcome.WAITING

        wait_for(is_final, f"an answer to {request}")
        return answers[-1]

    def until(self, condition: Callable[[Status], object], what: str) -> Status:
        """Return the first status for which this holds, of the last one and those to come."""
        seen = max(0, len(self.statuses) - 1)

        def holds() -> bool:
            assert not self.ended or any(map(condition, self.statuses[seen:])), (
                f"{what}: {self.code} {self.error!r}"
            )
            return any(map(condition, self.statuses[seen:]))

        wait_for(holds, what)
        return next(filter(condition, self.statuses[seen:]))

    def until_phase(self, phase: DriverPhase) -> Status:
        return self.until(lambda status: status.phase is phase, f"{self.revision} is {phase}")

    def until_landed(self) -> Status:
        """Return when everything that the log holds now is landed and visible."""
        ends = {
            (topic, n): marks.end
            for topic, all_marks in self.log.partitions.items()
            for n, marks in enumerate(all_marks)
        }

        def landed(status: Status) -> bool:
            there = {(p.topic, p.partition): p.checkpoint for p in status.partitions}
            return there == ends and not status.commits.unapplied

        return self.until(landed, f"{self.revision} has landed {ends}")

    def end(self) -> ExitCode:
        """Wait for it to end by itself."""
        wait_for(lambda: self.ended, f"{self.revision} ends")
        if self.error:
            raise self.error
        assert self.code is not None
        return self.code

    def stop(self) -> ExitCode:
        """What SIGTERM does."""
        self.contender.stop("SIGTERM")
        return self.end()
