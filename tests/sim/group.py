"""A simulated group: records arrive, wait for their upload policy, are landed by executors that
take
time to come.

Each Kafka partition's records become due together, at a stable phase of ``maxAge``, as the planner
does it; due work is done in order, by all executors at once. Nothing here knows of the policies
that are tried on it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from landfall_operator.core.autoscaler import Sample

START = datetime(2026, 11, 21, tzinfo=UTC)
STEP = 5.0
"""Seconds of a step."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is simulated.

    Attributes:
        arrival: records per second, by the second.
        down: whether the broker is away, by the second; what producers keep arrives afterwards.
        poisoned: from when on the first Kafka partition cannot be landed.
        seconds: how long it lasts.
        partitions: Kafka partitions, all with the same share.
        max_age: seconds of the upload policy.
        speed: records per second of an executor.
        start_delay: seconds until an executor that was asked for works.
    """

    arrival: Callable[[float], float]
    down: Callable[[float], bool] = lambda _: False
    poisoned: float = float("inf")
    seconds: int = 3 * 3600
    partitions: int = 32
    max_age: float = 300.0
    speed: float = 2000.0
    start_delay: float = 10.0


@dataclass
class Due:
    """Records of one Kafka partition that are to be landed."""

    partition: int
    records: float
    oldest: float


@dataclass
class Group:
    """The state of a simulated group."""

    setting: Setting
    wanted: int
    time: float = 0.0
    ready: float = 0.0
    starting: list[tuple[float, int]] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    oldest: list[float | None] = field(default_factory=list)
    due: deque[Due] = field(default_factory=deque)
    kept_back: float = 0.0
    arrived: float = 0.0
    landed: float = 0.0
    task_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.ready = self.wanted
        self.waiting = [0.0] * self.setting.partitions
        self.oldest = [None] * self.setting.partitions

    def ask(self, wanted: int) -> None:
        """For so many executors."""
        more = wanted - self.wanted
        if more > 0:
            self.starting.append((self.time + self.setting.start_delay, more))
        elif more < 0:
            self.starting.clear()
            self.ready = min(self.ready, wanted)
        self.wanted = wanted

    def step(self) -> None:
        """Let ``STEP`` seconds go by."""
        self.ready += sum(n for at, n in self.starting if at <= self.time)
        self.starting = [(at, n) for at, n in self.starting if at > self.time]
        if self.away:
            self.kept_back += self.setting.arrival(self.time) * STEP
        else:
            self._arrive(self.setting.arrival(self.time) * STEP + self.kept_back)
            self.kept_back = 0.0
            self._land(self.ready * self.setting.speed * STEP)
        self.time += STEP

    @property
    def away(self) -> bool:
        """Whether nobody can tell the lag."""
        return self.setting.down(self.time)

    @property
    def now(self) -> datetime:
        return START + timedelta(seconds=self.time)

    @property
    def lag(self) -> float:
        """Records not landed yet, poisoned ones too."""
        return sum(self.waiting) + sum(work.records for work in self.due)

    @property
    def overdue(self) -> float:
        """Seconds by which the oldest record is late, without poisoned ones."""
        return max(0.0, self._age() - self.setting.max_age)

    def sample(self) -> Sample:
        """What the driver would tell."""
        stuck = sum(w.records for w in self.due if self._stuck(w.partition))
        stuck += self.waiting[0] if self._stuck(0) else 0
        return Sample(
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
        waiting = [at for p, at in enumerate(self.oldest) if at is not None and not self._stuck(p)]
        due = [work.oldest for work in self.due if not self._stuck(work.partition)]
        return self.time - min([*waiting, *due], default=self.time)

    def _stuck(self, partition: int) -> bool:
        return partition == 0 and self.time >= self.setting.poisoned

    def _arrive(self, records: float) -> None:
        count = self.setting.partitions
        healthy = count - 1 if self._stuck(0) else count
        self.arrived += records * healthy / count
        for p in range(count):
            self.waiting[p] += records / count
            if records and self.oldest[p] is None:
                self.oldest[p] = self.time
            began = self.oldest[p]
            phase = self.setting.max_age * p / count
            at_its_turn = (self.time - phase) % self.setting.max_age < STEP
            if began is not None and (at_its_turn or self.time - began >= self.setting.max_age):
                self.due.append(Due(p, self.waiting[p], began))
                self.waiting[p], self.oldest[p] = 0.0, None

    def _land(self, capacity: float) -> None:
        left = capacity
        stuck: list[Due] = []
        while self.due and left > 0:
            work = self.due.popleft()
            if self._stuck(work.partition):
                stuck.append(work)
                continue
            done = min(left, work.records)
            left -= done
            if done < work.records:
                self.due.appendleft(Due(work.partition, work.records - done, work.oldest))
        self.due.extendleft(reversed(stuck))
        self.landed += capacity - left
        self.task_seconds += (capacity - left) / self.setting.speed
