"""Closed ranges in the model of a cluster: what its drivers land of a schedule, and the RUNs."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Protocol

from landfall.api.contract import PublisherStatus, Status
from landfall.api.run_status import RunStatus, ScheduleStatus
from landfall.api.spec import Schedule

LANDING = timedelta(minutes=2)
"""How long a driver lands a range."""


@dataclass
class RunInPod:
    """What a driver's process knows of the range that it lands."""

    until: datetime
    began: datetime


class Landing(Protocol):
    """The part of a pod that lands ranges."""

    started: datetime
    run: RunInPod | None
    tried: datetime | None


@dataclass
class RunLedger:
    """The RUNs in the ledger of a group.

    Attributes:
        ended: the runs, oldest first.
        broken: ends of ranges of which a topic cannot be landed now.
        unpublished: slots that a publisher has not published yet; None without a publisher.
    """

    ended: list[RunStatus] = field(default_factory=list)
    broken: set[datetime] = field(default_factory=set)
    unpublished: int | None = None

    def advance(self, pod: Landing, schedule: Schedule, now: datetime) -> bool:
        """A driver that can land does so; returns whether it has landed anything."""
        if pod.run is None:
            until = next(iter(schedule.ends(self._after(pod), now)), None)
            pod.run = RunInPod(until, now) if until else None
        elif now - pod.run.began >= LANDING:
            self._end(pod.run, now)
            pod.tried, pod.run = pod.run.until, None
        return pod.run is not None

    def status(self, pod: Landing, schedule: Schedule, now: datetime) -> ScheduleStatus:
        """What a driver says of it."""
        until = pod.run.until.isoformat() if pod.run else None
        due = next(iter(schedule.ends(self._after(pod), now)), None)
        waits = pod.run is None and due is None
        return ScheduleStatus(until, waits, tuple(self.ended[:-11:-1]))

    def add_to(self, status: Status, pod: Landing, schedule: Schedule | None) -> Status:
        """A driver's status with where it is, and with its publisher."""
        publishers = () if self.unpublished is None else (_publisher(self.unpublished),)
        answer = replace(status, publishers=publishers)
        if schedule is None:
            return answer
        found = self.status(pod, schedule, datetime.fromisoformat(status.time))
        answer = replace(answer, schedule=found)
        if not found.waits:
            return answer
        none = (replace(p, lag_records=0, lag_seconds=0.0) for p in status.partitions)
        return replace(
            answer, lag_records=0, lag_seconds=0.0, overdue_seconds=0.0, partitions=tuple(none)
        )

    @property
    def ends(self) -> list[datetime]:
        """The ends of the ranges, in the order in which they were marked as landed."""
        return [datetime.fromisoformat(run.until) for run in self.ended]

    def _after(self, pod: Landing) -> datetime | None:
        if not self.ended:
            return None
        last = self.ended[-1]
        until = datetime.fromisoformat(last.until)
        # A new process tries again what was left, once.
        again = last.left and pod.tried is None
        return until - timedelta(milliseconds=1) if again else until

    def _end(self, run: RunInPod, now: datetime) -> None:
        left = ("clicks",) if run.until in self.broken else ()
        until, last = run.until.isoformat(), self.ended[-1] if self.ended else None
        if last and last.until == until and len(left) >= len(last.left):
            return
        slot = len(self.ended)
        self.ended.append(
            RunStatus(until, run.began.isoformat(), now.isoformat(), 100, 0, 3, 9000, left, slot)
        )


def _publisher(behind: int) -> PublisherStatus:
    time = "2026-11-21T12:00:00+00:00"
    return PublisherStatus("lake", "Success", 5, behind, 1.0, 1, 0, 0, time, None, "")


def steps(ends: Iterable[datetime]) -> set[timedelta]:
    """The steps between the ends of ranges."""
    return {later - earlier for earlier, later in pairwise(ends)}
