"""Task slots in simulated time, and what a driver's threads do beside its own.

A task takes as long as its slices have bytes, times a cost for each byte and a random factor that
depends on the slice alone. Slots are shared as by Spark's fair scheduler: a slot that is free takes
the next task of the batch that has the fewest running.
"""

import heapq
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from landfall.api.contract import Workers
from landfall.driver.core.runner import Bin
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind, SliceResult
from landfall.objects import Part, Upload
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.counting import Miscounted, ObjectsOfSpec
from landfall.task.merging import MergeResult, MergeShare
from tests.bench.simulated.timeline import Timeline

PART_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Costs:
    """What landing costs, measured; CPU time and latencies in seconds.

    Attributes:
        message_bytes: payload bytes of an offset.
        ratio: payload bytes for each byte of an object.
        byte: a slot's time for a payload byte.
        spread: the standard deviation of the logarithm of a slice's time.
        piece: a slot's time for a slice, whatever it holds.
        task: a slot's time from one task to the next.
        job: from the start of a batch until its first task runs.
        completion: the driver's CPU time for an object that is completed.
        answer: until Kafka or the store has answered a request.
    """

    message_bytes: int = 250
    ratio: float = 2.63
    byte: float = 1e-8
    spread: float = 0.1
    piece: float = 0.02
    task: float = 0.02
    job: float = 0.05
    completion: float = 0.003
    answer: float = 0.03


COSTS = Costs()


@dataclass(slots=True)
class _Job:
    """A batch whose tasks run; ``pending`` are those that do not yet."""

    pending: list[tuple[Batch, Bin]]
    done: Future[list[SliceResult]]
    unfinished: int
    running: int = 0
    results: list[SliceResult] = field(default_factory=list)


class SimulatedExecutors:
    """A ``Runner`` of so many slots.

    Attributes:
        slots: how many tasks run at the same time.
        busy_seconds: that slots were busy, all together.
        tasks: how many have ended.
    """

    def __init__(self, timeline: Timeline, slots: int, costs: Costs) -> None:
        self.slots, self.busy_seconds, self.tasks = slots, 0.0, 0
        self._timeline, self._costs, self._free = timeline, costs, slots
        self._jobs: list[_Job] = []

    def begin(self, batch: Batch, bins: Sequence[Bin]) -> Future[list[SliceResult]]:
        """Run a batch; its future has the results once the last task has ended."""
        timeline, done = self._timeline, Future[list[SliceResult]]()
        done.set_running_or_notify_cancel()
        job = _Job([(batch, pieces) for pieces in reversed(bins)], done, len(bins))
        # PySpark writes down what each task gets, and the function with the batch once.
        sent = timeline.compute(timeline.now, self._seconds(lambda: pickle.dumps([*bins])))
        timeline.at(sent + self._costs.job, partial(self._enter, job, sent + self._costs.job))
        return done

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        """Never called: nothing may wait here."""
        raise NotImplementedError

    def _enter(self, job: _Job, now: float) -> None:
        self._jobs.append(job)
        self._fill(now)

    def _fill(self, now: float) -> None:
        while self._free and (waiting := [job for job in self._jobs if job.pending]):
            job = min(waiting, key=lambda each: each.running)
            batch, pieces = job.pending.pop()
            job.running, self._free = job.running + 1, self._free - 1
            results = [self._land(batch, piece) for piece in pieces]
            seconds = self._costs.task + sum(result.seconds for result in results)
            self.busy_seconds += seconds
            self._timeline.at(now + seconds, partial(self._end, job, results, now + seconds))

    def _end(self, job: _Job, results: list[LandedSlice], now: float) -> None:
        self._free, self.tasks = self._free + 1, self.tasks + 1
        job.running, job.unfinished = job.running - 1, job.unfinished - 1
        job.results += results
        if not job.unfinished:
            self._jobs.remove(job)
            body = pickle.dumps(job.results)
            seconds = self._seconds(lambda: pickle.loads(body))  # it was made here
            read = self._timeline.compute(now, seconds)
            self._timeline.at(read, lambda: job.done.set_result(job.results))
        self._fill(now)

    def _land(self, batch: Batch, piece: Slice) -> LandedSlice:
        costs, tp, records = self._costs, piece.topic_partition, len(piece.offsets)
        dice = random.Random(f"{tp} {piece.offsets.start}")  # it only has to differ
        size = records * costs.message_bytes
        seconds = costs.piece + size * costs.byte * dice.lognormvariate(0, costs.spread)
        landed_bytes = max(1, int(size / costs.ratio))
        sizes = [PART_BYTES] * (landed_bytes // PART_BYTES) + [landed_bytes % PART_BYTES or 1]
        parts = tuple(Part(f"{dice.getrandbits(128):032x}", size) for size in sizes)
        start, generation = piece.offsets.start, batch.group.spec.generation
        name = object_names.ObjectName(tp.topic, "all", generation, tp.partition, start, ".gz")
        upload = Upload(name.key, f"{dice.getrandbits(128):032x}", parts, batch.token)
        last = piece.offsets.end - 1
        landed = LandedObject(upload, ObjectKind.DATA, records, start, last, dice.getrandbits(32))
        return LandedSlice(piece, (landed,), records, 0, 0, 0, size, (), 0, last, seconds, seconds)

    def read_back(self, shares: Sequence[ObjectsOfSpec]) -> list[Miscounted]:  # noqa: ARG002  # the protocol's
        """Nobody reads back."""
        return []

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:  # noqa: ARG002  # the protocol's
        """Nobody merges."""
        return []

    def warm_up(self) -> None:
        """All slots are warm."""

    def want(self, executors: int) -> None:
        """Ignored: the number stays."""

    def settle(self) -> Workers:
        """All slots are there."""
        return Workers(1, 1, self.slots)

    def _seconds(self, do: Callable[[], object]) -> float:
        """The CPU time of a thread of the driver's process."""
        before = self._timeline.cpu()
        do()
        return self._timeline.cpu() - before


class SimulatedBackground:
    """``Background`` in simulated time: batches take it, and completions; all else none."""

    def __init__(self, timeline: Timeline, executors: SimulatedExecutors, costs: Costs) -> None:
        self._timeline, self._executors, self._costs = timeline, executors, costs

    def pool(self, threads: int = 1, name: str = "pool") -> Executor:
        """See ``Background``."""
        if name == "batch":
            return _BatchPool(self._executors)
        if name == "complete":
            return _SlowPool(self._timeline, threads, self._costs)
        return _QuickPool()

    def notifier(self) -> "_Notifier":
        """See ``Background``."""
        return _Notifier(self._timeline)


class _QuickPool(Executor):
    """Does everything at once, on the driver's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Future[Any]()
        future.set_result(fn(*args, **kwargs))
        return future

    def map(self, fn: Callable[..., Any], *iterables: Iterable[Any], **_: Any) -> Iterator[Any]:
        return map(fn, *iterables)


class _BatchPool(Executor):
    """Starts batches; ``submit`` gets the runner's method ``run`` with its arguments."""

    def __init__(self, executors: SimulatedExecutors) -> None:
        self._executors = executors

    def submit(self, fn: Callable[..., Any], /, *args: Any, **_: Any) -> Future[Any]:
        assert fn == self._executors.run, fn
        return self._executors.begin(*args)


class _SlowPool(Executor):
    """Threads that each compute a little and wait for the store's answer."""

    def __init__(self, timeline: Timeline, threads: int, costs: Costs) -> None:
        self._timeline, self._costs = timeline, costs
        self._free = [0.0] * threads

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future, timeline = Future[Any](), self._timeline
        begun = max(heapq.heappop(self._free), timeline.now)
        ended = timeline.compute(begun, self._costs.completion) + self._costs.answer
        heapq.heappush(self._free, ended)
        timeline.at(ended, lambda: future.set_result(fn(*args, **kwargs)))
        return future


class _Notifier:
    """Wakes the driver in simulated time."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline, self._is_notified = timeline, False

    def notify(self) -> None:
        self._is_notified = True

    def wait(self, timeout: timedelta) -> None:
        self._timeline.wait(timeout.total_seconds(), lambda: self._is_notified)
        self._is_notified = False


class SlowStore(MemoryStore):
    """A store that answers after a while; it forgets objects, and keeps the ledger.

    Attributes:
        completed: the objects that are visible.
    """

    def __init__(self, timeline: Timeline, costs: Costs) -> None:
        super().__init__()
        self._timeline, self._costs = timeline, costs
        self.completed = 0
        self.created = Counter[str]()

    def create(self, key: str, body: bytes) -> Any:
        """A slot of the ledger, or a snapshot."""
        self._timeline.pause(self._costs.answer)
        self.created["requests"] += 1
        self.created["bytes"] += len(body)
        return super().create(key, body)

    def complete(self, upload: Upload, *, is_fresh: bool = False) -> None:  # noqa: ARG002  # the protocol's
        """Nothing is stored, so there is nothing to do."""
        self.completed += 1
