"""A driver process that takes turns on a lane, between twins: ``LaneContender`` in a thread, that
looks at the lane when it is let.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

from landfall.api.contract import LANE, ExitCode, Phase, Status
from landfall.api.spec import ConsumerGroup
from landfall.driver.counters import DriverCounters
from landfall.driver.handover import LaneContender
from landfall.driver.loop import Driver, DriverDeps
from landfall.driver.observer import Observer
from landfall.driver.runner import Runner
from landfall.lane import Lane
from landfall.store import Store
from tests.support.fakes import FakeLog, FakeRunner, group, ticking
from tests.support.landing import wait_for

_names = count()


@dataclass
class Player:
    """A driver of a revision.

    Attributes:
        look_interval: it looks at the lane by itself so often, or when a test says ``look``.
        error: what ended it, if it did not end by itself.
    """

    store: Store
    log: FakeLog
    revision: str = ""
    of: ConsumerGroup = field(default_factory=group)
    runner: Runner | None = None
    kind: type[Driver] = Driver
    look_interval: timedelta = timedelta(hours=1)
    statuses: list[Status] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)
    code: ExitCode | None = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        name, clock = f"{self.revision}-{next(_names)}", ticking()
        batches = count()
        runner = self.runner or FakeRunner(self.store)
        parts = DriverDeps(
            self.store,
            Observer(self.log, timedelta(0)),
            runner,
            clock,
            lambda: f"{name}-{next(batches)}",
        )
        lane = Lane(self.store, self.of.metadata.name, LANE)
        self.turns = LaneContender(
            self.of,
            lane,
            parts,
            DriverCounters(clock()),
            self.statuses.append,
            self.waits_for.append,
            self.revision,
            look_interval=self.look_interval,
            kind=self.kind,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.code = self.turns.run()
        except BaseException as error:  # noqa: BLE001  # the test that waits for this thread is told
            self.error = error

    def start(self) -> "Player":
        self._thread.start()
        return self

    @property
    def ended(self) -> bool:
        """Whether it runs no more, for whatever reason."""
        return not self._thread.is_alive()

    @property
    def phase(self) -> Phase:
        return self.statuses[-1].phase if self.statuses else Phase.STARTING

    def look(self) -> None:
        """Let it look at the lane once more, if it waits for its turn."""
        self.turns._inbox.put(None)

    def until(self, condition: Callable[[Status], object], what: str) -> Status:
        """Wait for a picture of which this holds; the last one counts, too."""
        seen = max(0, len(self.statuses) - 1)

        def holds() -> bool:
            assert not self.ended or any(map(condition, self.statuses[seen:])), (
                f"{what}: {self.code} {self.error!r}"
            )
            return any(map(condition, self.statuses[seen:]))

        wait_for(holds, what)
        return next(filter(condition, self.statuses[seen:]))

    def until_phase(self, phase: Phase) -> Status:
        return self.until(lambda status: status.phase is phase, f"{self.revision} is {phase}")

    def until_landed(self) -> Status:
        """Until nothing that the log holds now is left to do."""
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
        self.turns.stop("SIGTERM")
        return self.end()
