"""The real planning and retrying of batches in simulated time, on a runner that only takes time.

A slice takes ``SLICE``; one of a topic partition that times out takes ``TIMEOUT`` and fails, and a
task gives up then, as ``landfall.task.outage`` does.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from landfall.driver.core.background import Notifier, QueueNotifier
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer
from landfall.driver.core.runner import Bin
from landfall.driver.decide.batch_results import check_results
from landfall.driver.landing.in_flight import InFlightBatches
from landfall.errors import BatchFailed, LandfallError, NotTried, SourceAway
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice, SliceResult
from landfall.plan import Backlog
from landfall.store.memory import MemoryStore
from landfall.task.outage import SOURCE_FAILURES
from tests.support.driver.fakes import NOW, FakeLog, FakeRunner, group

SLICE, TIMEOUT = 0.05, 60.0
STEP = timedelta(seconds=0.5)
LOOK = timedelta(seconds=5)
"""How often to plan when no batch has ended."""


@dataclass
class SimulatedRunner(FakeRunner):
    """Lands nothing: it knows only how long a batch takes, and what comes of it.

    Attributes:
        time_out: topic partitions whose slices time out.
        poisonous: topic partitions whose slices fail the whole job.
        is_away: whether every slice fails, as with an outage.
    """

    store: Any = None
    slots: int = 8
    time_out: Collection[TopicPartition] = ()
    poisonous: Collection[TopicPartition] = ()
    is_away: bool = False

    def play(self, bins: Sequence[Bin]) -> tuple[float, list[SliceResult]]:
        """How long the bins take, and their results."""
        pieces = [piece for slices in bins for piece in slices]
        if any(piece.topic_partition in self.poisonous for piece in pieces):
            return 1.0, [FailedSlice(piece, BatchFailed("an executor died")) for piece in pieces]
        played = [self._task(slices) for slices in bins]
        return max(took for took, _ in played), [r for _, results in played for r in results]

    def _task(self, slices: Bin) -> tuple[float, list[SliceResult]]:
        took, timed_out, results = 0.0, 0, list[SliceResult]()
        for piece in slices:
            if timed_out >= SOURCE_FAILURES:
                results.append(FailedSlice(piece, NotTried("not tried")))
            elif self.is_away or piece.topic_partition in self.time_out:
                took, timed_out = took + TIMEOUT, timed_out + 1
                results.append(FailedSlice(piece, SourceAway("no progress")))
            else:
                took += SLICE
                landed = len(piece.offsets)
                results.append(LandedSlice(piece, (), 0, landed, 0, 0, landed))
        return took, results


@dataclass
class _SimulatedPool(Executor):
    """Plays batches at once, and lets them end when their time has passed."""

    simulation: "Simulation"

    def submit(self, _: Callable[..., Any], /, *args: Any, **__: Any) -> Future[Any]:
        bins = args[1]
        took, results = self.simulation.runner.play(bins)
        future: Future[Any] = Future()
        end = self.simulation.now + timedelta(seconds=took)
        self.simulation.ends.append((end, future, results))
        return future


@dataclass
class Simulation:
    """A driver's batches over time; every topic partition gets a record a second.

    Attributes:
        tps: the topic partitions.
        runner: what their slices meet.
        landed: how often each was committed.
        retries: how many batches of what had failed have ended.
    """

    tps: Sequence[TopicPartition]
    runner: SimulatedRunner = field(default_factory=SimulatedRunner)
    now: datetime = NOW
    landed: Counter[TopicPartition] = field(default_factory=Counter)
    retries: int = 0
    ends: list[tuple[datetime, Future[Any], list[SliceResult]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        names = count()
        deps = DriverDeps(
            MemoryStore(),
            Observer(FakeLog(), timedelta(0)),
            self.runner,
            lambda: self.now,
            lambda: f"b{next(names)}",
            DriverCounters(NOW),
            self,
        )
        spec = {"uploadPolicy": {"maxAge": "1m"}}
        self.in_flight = InFlightBatches(group(**spec), deps, lambda: None)
        self.checkpoint: dict[TopicPartition, int] = dict.fromkeys(self.tps, 0)

    def pool(self, _: int, __: str) -> Executor:
        return _SimulatedPool(self)

    def notifier(self) -> Notifier:
        return QueueNotifier()

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> "Simulation":
        """Let so much time pass, or less, if ``until`` holds before."""
        end, looked = self.now + timedelta(seconds=seconds), NOW
        while self.now < end and not until():
            self.now += STEP
            if self._end_batches() or self.now - looked >= LOOK:
                self.in_flight.start(self._backlogs(), (), self.now, flush=False)
                looked = self.now
        return self

    def _backlogs(self) -> list[Backlog]:
        written = int((self.now - NOW).total_seconds()) + 60
        return [
            Backlog(tp, OffsetRange(at, written), timedelta(seconds=written - at))
            for tp, at in self.checkpoint.items()
        ]

    def _end_batches(self) -> bool:
        for end, future, results in self.ends:
            if end <= self.now and not future.done():
                future.set_result(results)
        self.ends = [item for item in self.ends if not item[1].done()]
        finished = self.in_flight.finished()
        for batch in finished:
            self.in_flight.remove(batch)
            self.retries += batch.is_retry
            decision = check_results(batch.planned.slices, batch.results.result())
            for landed in decision.commit:
                self.checkpoint[landed.piece.topic_partition] = landed.piece.offsets.end
            if decision.commit:
                self.in_flight.learn(decision.commit, self.now - batch.started)
            done = {landed.piece.topic_partition for landed in decision.commit}
            self.landed.update(done)
            took = self.now - batch.started if batch.is_retry else timedelta(0)
            self._settle(done, decision.failed, took)
        return bool(finished)

    def _settle(
        self,
        done: set[TopicPartition],
        failed: Mapping[TopicPartition, LandfallError],
        took: timedelta,
    ) -> None:
        self.in_flight.backoff.settle(done, failed, self.now, took)


def topic(name: str, partitions: int) -> list[TopicPartition]:
    """The topic partitions of a topic."""
    return [TopicPartition(name, n) for n in range(partitions)]
