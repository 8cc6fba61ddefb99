"""A simulated group: records arrive, become due by the upload policy, and executors land them.

As in the planner, the records of a Kafka partition become due together, at a fixed phase of
``maxAge``. Due work is done in order by all executors at once, and new executors take time to
start. Nothing here depends on the policies that are compared.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from landfall_operator.core.samples import DriverSample

START = datetime(2026, 11, 21, tzinfo=UTC)
STEP = 5.0
"""The length of a step in seconds."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is simulated.

    Attributes:
        arrival: records per second at a time in seconds.
        down: whether the broker is down at that time; producers hold their records until it is up.
        poisoned_from: the time from which the first Kafka partition cannot be landed.
        seconds: how long the simulation lasts.
        partitions: the number of Kafka partitions, which all get the same share.
        max_age: ``maxAge`` of the upload policy in seconds.
        speed: records per second that an executor lands.
        start_delay: seconds until a requested executor works.
        bound: records per second at a time in seconds that all executors together land at most.
        is_driver_bound: whether tasks are as fast as ever at this bound, and there are fewer.
        available: the executors that the cluster has room for.
    """

    arrival: Callable[[float], float]
    down: Callable[[float], bool] = lambda _: False
    poisoned_from: float = float("inf")
    seconds: int = 3 * 3600
    partitions: int = 32
    max_age: float = 300.0
    speed: float = 2000.0
    start_delay: float = 10.0
    bound: Callable[[float], float] = lambda _: math.inf
    is_driver_bound: bool = False
    available: float = math.inf


@dataclass
class Due:
    """Records of one Kafka partition that must be landed."""

    partition: int
    records: float
    oldest: float


@dataclass
class Group:
    """The state of a simulated group."""

    scenario: Scenario
    wanted: int
    time: float = 0.0
    ready: float = 0.0
    starting: list[tuple[float, int]] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    oldest: list[float | None] = field(default_factory=list)
    due: deque[Due] = field(default_factory=deque)
    held_by_producers: float = 0.0
    arrived: float = 0.0
    landed: float = 0.0
    task_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.ready = self.wanted
        self.waiting = [0.0] * self.scenario.partitions
        self.oldest = [None] * self.scenario.partitions

    def request(self, wanted: int) -> None:
        """Request this many executors in total."""
        more = wanted - self.wanted
        if more > 0:
            self.starting.append((self.time + self.scenario.start_delay, more))
        elif more < 0:
            self.starting.clear()
            self.ready = min(self.ready, wanted)
        self.wanted = wanted

    def step(self) -> None:
        """Advance by ``STEP`` seconds."""
        self.ready += sum(n for at, n in self.starting if at <= self.time)
        self.ready = min(self.ready, self.scenario.available)
        self.starting = [(at, n) for at, n in self.starting if at > self.time]
        if self.broker_is_down:
            self.held_by_producers += self.scenario.arrival(self.time) * STEP
        else:
            self._arrive(self.scenario.arrival(self.time) * STEP + self.held_by_producers)
            self.held_by_producers = 0.0
            self._land()
        self.time += STEP

    @property
    def broker_is_down(self) -> bool:
        """Whether the broker is down, so that the lag is unknown."""
        return self.scenario.down(self.time)

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.time)

    @property
    def lag(self) -> float:
        """Records not landed yet, including those that cannot be landed."""
        return sum(self.waiting) + sum(work.records for work in self.due)

    @property
    def overdue(self) -> float:
        """Seconds by which the oldest record is late, without records that cannot be landed."""
        return max(0.0, self._age() - self.scenario.max_age)

    def sample(self) -> DriverSample:
        """Return what the driver would report."""
        stuck = sum(w.records for w in self.due if self._is_stuck(w.partition))
        stuck += self.waiting[0] if self._is_stuck(0) else 0
        return DriverSample(
            time=self.now,
            driver="g1/1",
            arrived=int(self.arrived),
            landed=int(self.landed),
            task_seconds=self.task_seconds,
            lag_records=int(self.lag - stuck),
            lag_seconds=self._age(),
            overdue_seconds=self.overdue,
            executors=int(self.ready),
            wanted=self.wanted,
        )

    def _age(self) -> float:
        waiting = [
            at for p, at in enumerate(self.oldest) if at is not None and not self._is_stuck(p)
        ]
        due = [work.oldest for work in self.due if not self._is_stuck(work.partition)]
        return self.time - min([*waiting, *due], default=self.time)

    def _is_stuck(self, partition: int) -> bool:
        return partition == 0 and self.time >= self.scenario.poisoned_from

    def _arrive(self, records: float) -> None:
        count = self.scenario.partitions
        healthy = count - 1 if self._is_stuck(0) else count
        self.arrived += records * healthy / count
        for p in range(count):
            self.waiting[p] += records / count
            if records and self.oldest[p] is None:
                self.oldest[p] = self.time
            began = self.oldest[p]
            phase = self.scenario.max_age * p / count
            is_due = (self.time - phase) % self.scenario.max_age < STEP
            if began is not None and (is_due or self.time - began >= self.scenario.max_age):
                self.due.append(Due(p, self.waiting[p], began))
                self.waiting[p], self.oldest[p] = 0.0, None

    def _land(self) -> None:
        bound, free = self.scenario.bound(self.time), self.ready * self.scenario.speed
        capacity = min(free, bound) * STEP
        left = capacity
        stuck: list[Due] = []
        while self.due and left > 0:
            work = self.due.popleft()
            if self._is_stuck(work.partition):
                stuck.append(work)
                continue
            done = min(left, work.records)
            left -= done
            if done < work.records:
                self.due.appendleft(Due(work.partition, work.records - done, work.oldest))
        self.due.extendleft(reversed(stuck))
        self.landed += capacity - left
        is_waiting = bound < free and not self.scenario.is_driver_bound
        speed = bound / self.ready if is_waiting else self.scenario.speed
        self.task_seconds += (capacity - left) / speed
