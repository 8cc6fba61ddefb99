"""Drivers taking turns on a lane: standing by, landing, handing over, resting.

One process, one ``LaneContender``. Each turn at the lane is a ``Driver`` of its own, from its OPEN
to its YIELD; Spark, the source's client and the counters outlive it.

    STARTING   the lane is somebody else's, and our workers are not there yet
    STANDBY    all is warm; the lane is looked at once in a while, at the cost of one listing
    (a turn)   RECOVERING, RUNNING, DRAINING: see ``landfall.driver.loop``
    YIELDED    told to hand over, and did; stays, because whoever starts it again would find a lane that is free

The ledger alone decides who lands. A driver takes the lane unasked if it is free for its revision
(``State.can_open``), in exactly the slot it looked at: of two that stand by, one gets it and the
other sees so. Told to take over, it takes the lane whoever has it; so does a driver without a
revision, which knows no turns.
"""

import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from threading import RLock

from landfall import __version__
from landfall.api.contract import ExitCode, Phase, Status
from landfall.api.spec import ConsumerGroup
from landfall.driver.counters import DriverCounters
from landfall.driver.loop import Driver, DriverDeps
from landfall.driver.status import LaneView, driver_status, picture_without_lag
from landfall.errors import Reason, Retry, Stalled, cause
from landfall.lane import Lane, LaneWriter, OpenRequest, Read
from landfall.ledger import State, object_names
from landfall.store import Store

log = logging.getLogger(__name__)

LOOK_INTERVAL = timedelta(seconds=1)
"""How often a driver that stands by looks at the lane: what a hand-over costs at most, beside the
driver's own start.
"""
FIRST_KEYS = 1000


class PendingCommand(Enum):
    """What was said last of the lane, and is not done yet."""

    NOTHING = 0
    HAND_OVER = 1
    TAKE_OVER = 2


class StoppedBeforeOpen(Exception):  # noqa: N818  # the name is the state
    """Told to stop before the lane was opened."""


@dataclass
class LaneContender:
    """Runs the group's driver whenever it is its turn.

    Attributes:
        group: the resource.
        lane: whose turns these are.
        parts: what drivers work with.
        tally: of this process.
        post: shows a picture.
        wait_for: shows that nothing goes on until something, such as the store, is back.
        revision: ours; empty for a driver that takes the lane at once, whoever has it.
        until_caught_up: see ``Driver``.
        look_interval: between two looks at the lane.
    """

    group: ConsumerGroup
    lane: Lane
    parts: DriverDeps
    counters: DriverCounters
    post: Callable[[Status], None]
    wait_for: Callable[[str], None] = lambda _: None
    revision: str = ""
    until_caught_up: bool = False
    look_interval: timedelta = LOOK_INTERVAL
    kind: type[Driver] = Driver
    _told: PendingCommand = PendingCommand.NOTHING
    _stop_reason: str = ""
    _driver: Driver | None = None
    _lock: RLock = field(default_factory=RLock)  # a signal handler may interrupt whoever holds it
    _inbox: "queue.SimpleQueue[None]" = field(default_factory=queue.SimpleQueue)

    # --------------------------------------------------------------------------------- from outside

    def stop(self, reason: str) -> None:
        """End, after draining if it is our turn; from any thread or a signal handler."""
        with self._lock:
            self._stop_reason = self._stop_reason or reason
            if self._driver:
                self._driver.stop(reason)
        self._inbox.put(None)

    def hand_over(self, to: str) -> None:
        """If it is our turn, end it as soon as what is under way is committed, then rest; from any thread."""
        with self._lock:
            if self._driver and self._told is not PendingCommand.HAND_OVER:
                log.info("told to hand over", extra={"to": to})
                self._told = PendingCommand.HAND_OVER
                self._driver.stop(f"handed over to {to}")

    def take_over(self) -> None:
        """If it is not our turn, or is about to end, begin one whoever has the lane; from any thread."""
        with self._lock:
            if self._told is PendingCommand.TAKE_OVER or (
                self._driver and self._told is PendingCommand.NOTHING
            ):
                return
            log.info("told to take over")
            self._told = PendingCommand.TAKE_OVER
        self._inbox.put(None)

    def look(self, read: Read) -> None:
        """Return if the store answers; a driver whose lane is another's by now is told so. From any thread; decides nothing.

        Raises:
            Retry: the store cannot answer.
        """
        driver = self._driver
        if driver:
            driver.look(read)
        else:
            read(self.lane.slot_key(0))

    def run(self) -> ExitCode:
        """Stand by, land, rest, until told to stop, or a turn ends by itself.

        Raises:
            Stalled: OUTPUT_OCCUPIED, the ledger is empty but objects are there with the names this
                generation would give; LEDGER_BROKEN.
            Retry: our workers cannot be started. A store that is away is waited for: to start anew
                would take longer.
        """
        try:
            writer = self._stand_by()
            while writer:
                code = self._land(writer)
                if (
                    code is not ExitCode.OK
                    or self._told is PendingCommand.NOTHING
                    or self._stop_reason
                ):
                    return code
                writer = self._rest(writer.state)
        except StoppedBeforeOpen:
            log.info("stopped before the lane was opened")
        return ExitCode.OK

    # ----------------------------------------------------------------------------------- the phases

    def _stand_by(self) -> LaneWriter | None:
        """Wait for our turn and open the lane; None when told to stop."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="warm-up")
        try:
            state = self._first_read()
            return self._opened_in_time(state, pool) if state else None
        finally:
            pool.shutdown(wait=False)

    def _first_read(self) -> State | None:
        """The lane, once the store lets it be read; None when told to stop before that."""
        while not self._stop_reason:
            try:
                return self.lane.read()
            except Retry as error:
                self._wait_for_store(error)
        return None

    def _opened_in_time(self, state: State, pool: ThreadPoolExecutor) -> LaneWriter | None:
        warm: Future[None] | None = None
        while not self._stop_reason:
            if self._insists or state.can_open(self.revision):
                if writer := self._open(state):
                    return writer
            else:
                warm = warm or pool.submit(self.parts.runner.warm_up)
                self._wait_warm(warm, state)
            state = self._followed(state)
        return None

    def _wait_warm(self, warm: "Future[None]", state: State) -> None:
        if warm.done():
            warm.result()
        self.counters.message = (
            f"revision {state.revision or 'unknown'} has the lane, epoch {state.epoch}"
        )
        self._show(Phase.STANDBY if warm.done() else Phase.STARTING, state, 0)
        self._wait()

    def _land(self, writer: LaneWriter) -> ExitCode:
        """Our turn, from OPEN to YIELD."""
        with self._lock:
            self._told = PendingCommand.NOTHING
            self.counters.message = ""
            made = self.kind(
                self.group, writer, self.parts, self.counters, self._report, self.until_caught_up
            )
            self._driver = made
            if self._stop_reason:
                made.stop(self._stop_reason)
        try:
            return made.run()
        finally:
            with self._lock:
                self._driver = None

    def _rest(self, state: State) -> LaneWriter | None:
        """Wait after our turn; what comes next if told to take over again, None when told to stop."""
        self.counters.message = "the lane is handed over"
        while not self._stop_reason:
            if self._insists:
                return self._open(state)
            self._show(Phase.YIELDED, state, state.epoch)
            self._wait()
        return None

    # ---------------------------------------------------------------------------------------- aside

    @property
    def _insists(self) -> bool:
        return self._told is PendingCommand.TAKE_OVER or not self.revision

    def _open(self, state: State) -> LaneWriter | None:
        """Begin our turn; None if somebody wrote meanwhile and we may have to stand by."""
        if state.seq < 0 and not self._is_first():
            return None
        opener = OpenRequest(
            self.parts.name(), self.group.spec.generation, __version__, self.revision
        )
        if self._insists:
            return LaneWriter.open(self.lane, opener, self.parts.clock, self._away, state)
        return LaneWriter.open_after(self.lane, state, opener, self.parts.clock, self._away)

    def _is_first(self) -> bool:
        """Whether the lane is still empty; the objects of whoever opened it since are no strangers."""
        try:
            refuse_strangers(self.group, self.parts.store)
        except Retry as error:
            self._wait_for_store(error)
            return False
        except Stalled:
            if self.lane.read().seq < 0:
                raise
            return False
        return True

    def _followed(self, state: State) -> State:
        try:
            return self.lane.follow(state)
        except Retry as error:
            self._wait_for_store(error)
            return state

    def _wait_for_store(self, error: Retry) -> None:
        log.warning("the lane cannot be looked at", extra={"why": str(error)})
        self.wait_for(f"store: {error}")
        self._wait()

    def _away(self, error: Retry) -> None:
        """The store is away; whoever calls this asks it again."""
        if self._stop_reason and self._driver is None:
            raise StoppedBeforeOpen from error
        self.counters.failed(cause(error, "StoreUnavailable"), str(error), self.parts.clock())
        if self._driver:
            self._report(self._driver)
        self.wait_for(f"store: {error}")

    def _report(self, driver: Driver) -> None:
        self.post(driver_status(driver, self.parts.clock(), self.parts.runner.settle()))

    def _show(self, phase: Phase, state: State, epoch: int) -> None:
        lane_view = LaneView(self.group, self.lane.name, self.revision, phase, state, epoch)
        self.post(
            picture_without_lag(
                lane_view, self.counters, self.parts.clock(), self.parts.runner.settle()
            )
        )

    def _wait(self) -> None:
        """Until something is told, or it is time to look again."""
        try:
            self._inbox.get(timeout=self.look_interval.total_seconds())
        except queue.Empty:
            return


def refuse_strangers(group: ConsumerGroup, store: Store) -> None:
    """A new ledger must not give names that something else (Secor, a deleted ledger) has given already."""
    for _, stat in zip(range(FIRST_KEYS), store.list_after(""), strict=False):
        try:
            name = object_names.parse_key(stat.key)
        except ValueError:
            continue
        if name.generation == group.spec.generation:
            raise Stalled(
                Reason.OUTPUT_OCCUPIED,
                f"{group.spec.output.url} has no ledger of {group.metadata.name}, but holds {stat.key}: "
                f"raise spec.generation above {name.generation}, or choose an empty output root",
            )
