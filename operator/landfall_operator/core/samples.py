"""A driver's measurements over time, and what they add up to in a span of time. Pure."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from itertools import pairwise

LONGEST_GAP = timedelta(seconds=60)
"""The longest time between two samples for which the time between them counts as measured."""
MEASURED_SHARE = 0.8
"""Share of a span that must be measured."""


@dataclass(frozen=True, slots=True)
class DriverSample:
    """A driver's measurements at one moment. Its counters start at zero with each driver process.

    Attributes:
        time: when the driver answered.
        driver: identifies whose counters these are; changes whenever a driver starts.
        arrived: counter of records that the topics grew by.
        landed: counter of records in committed objects.
        task_seconds: counter of the seconds that tasks occupied slots to land them.
        lag_records: records not landed yet, without records of blocked topic partitions.
        lag_seconds: age of the oldest of them.
        overdue_seconds: the part of that age that the upload policy does not explain.
        executors: registered executors.
        wanted: executors that the driver was asked for.
    """

    time: datetime
    driver: str
    arrived: int
    landed: int
    task_seconds: float
    lag_records: int
    lag_seconds: float
    overdue_seconds: float
    executors: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Throughput:
    """The throughput of a driver in a span of time.

    Attributes:
        landing: records per second.
        executors: registered executors on average.
        task_share: tasks that ran at the same time, on average, per executor.
        always_late: whether records were overdue all the time, so that only the driver and what
            it depends on limited the throughput, and not the load.
    """

    landing: float
    executors: float
    task_share: float
    always_late: bool

    @property
    def speed(self) -> float | None:
        """Records per second that one slot lands; None if nothing was landed."""
        slots = self.executors * self.task_share
        return self.landing / slots if self.landing > 0 and slots > 0 else None


def of_present_driver(samples: Sequence[DriverSample]) -> list[DriverSample]:
    """The samples of the driver of the latest sample."""
    return [sample for sample in samples if sample.driver == samples[-1].driver]


def throughput(own: Sequence[DriverSample], start: datetime, end: datetime) -> Throughput | None:
    """Return a driver's throughput from ``start`` to ``end``; None if too little is measured."""
    inside = [sample for sample in own if start <= sample.time <= end]
    spans = [(a, b) for a, b in pairwise(inside) if b.time - a.time <= LONGEST_GAP]
    seconds = sum((b.time - a.time).total_seconds() for a, b in spans)
    if seconds < MEASURED_SHARE * (end - start).total_seconds():
        return None
    executor_seconds = sum(a.executors * (b.time - a.time).total_seconds() for a, b in spans)
    task_seconds = sum(b.task_seconds - a.task_seconds for a, b in spans)
    return Throughput(
        landing=sum(b.landed - a.landed for a, b in spans) / seconds,
        executors=executor_seconds / seconds,
        task_share=task_seconds / executor_seconds if executor_seconds else 0.0,
        always_late=all(sample.overdue_seconds > 0 for sample in inside),
    )


KEPT = timedelta(minutes=30)
"""How long samples are kept."""
INTERVAL = timedelta(seconds=5)
"""The shortest time between two samples."""

_NUMBERS = tuple((f.name, f.type) for f in fields(DriverSample) if f.type in {int, float})
_WIDTH = 1 + len(_NUMBERS)


class SampleHistory:
    """The samples of the last half hour, oldest first."""

    def __init__(self) -> None:
        """There are no samples."""
        # Of each sample, its time and its numbers. Doubles hold integers up to 9e15 exactly.
        self._rows = array("d")
        self._drivers: list[str] = []

    def __len__(self) -> int:
        return len(self._drivers)

    def __iter__(self) -> Iterator[DriverSample]:
        return map(self._sample, range(len(self)))

    def add(self, sample: DriverSample) -> None:
        """Add a sample, unless it comes too soon after the last one."""
        if self._drivers and sample.time - self._time(-1) < INTERVAL:
            return
        self._rows.append(sample.time.timestamp())
        self._rows.extend(float(getattr(sample, name)) for name, _ in _NUMBERS)
        same = self._drivers and self._drivers[-1] == sample.driver
        self._drivers.append(self._drivers[-1] if same else sample.driver)

    def expire(self, now: datetime) -> None:
        """Drop the samples that are too old."""
        old = 0
        while old < len(self) and now - self._time(old) > KEPT:
            old += 1
        del self._rows[: old * _WIDTH]
        del self._drivers[:old]

    def _time(self, at: int) -> datetime:
        return datetime.fromtimestamp(self._rows[at * _WIDTH], UTC)

    def _sample(self, at: int) -> DriverSample:
        row = self._rows[at * _WIDTH : (at + 1) * _WIDTH]
        numbers = {name: kind(value) for (name, kind), value in zip(_NUMBERS, row[1:], strict=True)}
        return DriverSample(time=self._time(at), driver=self._drivers[at], **numbers)
