"""The recent past of a driver, for the charts of its page: some numbers of its status over time.

It has a bound: once there are too many points, every second one is dropped, and from then on points
are taken half as often, until the oldest is a day old. What the ledger shows of the time before the
process is in front of them (``landfall.driver.http.past``); the rest of it is in the metrics that
Prometheus keeps.
"""

import threading
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta

from landfall.api.contract import Status
from landfall.api.status_summary import totals_of

MOST_POINTS = 480
SHORTEST_SECONDS = 15.0
"""Between two points at first: two hours of them."""
LONGEST_SECONDS = 240.0
"""Between two points in the end: a day and a third of them."""
REACH = timedelta(days=1)
"""How far back the ledger's points reach."""


@dataclass(frozen=True, slots=True)
class Point:
    """The numbers of a time. Counters of the time before the driver's start are negative.

    Attributes:
        time: in milliseconds since 1970.
        lag_records: offsets not landed yet; None while the driver does not know.
        lag_seconds: the age of the oldest of them; None while the driver does not know.
        overdue_seconds: the longest wait beyond the upload policy; None likewise.
        landed_records: since the driver's start.
        landed_bytes: of objects, since the driver's start.
        input_bytes: of payloads, since the driver's start.
        dead_lettered: since the driver's start.
        commits: in the ledger since its first slot.
        failures: since the driver's start; None before it.
    """

    time: int
    lag_records: int | None
    lag_seconds: float | None
    overdue_seconds: float | None
    landed_records: int
    landed_bytes: int
    input_bytes: int
    dead_lettered: int
    commits: int
    failures: int | None

    @classmethod
    def of(cls, status: Status, now: datetime) -> "Point":
        """The point of a status that is shown now, however old it is."""
        totals, rates, is_known = totals_of(status), status.rates, status.lag_known
        return cls(
            time=int(now.timestamp() * 1000),
            lag_records=totals.lag_records if is_known else None,
            lag_seconds=round(totals.lag_seconds, 3) if is_known else None,
            overdue_seconds=round(totals.overdue_seconds, 3) if is_known else None,
            landed_records=rates.landed_records,
            landed_bytes=rates.landed_bytes,
            input_bytes=rates.input_bytes,
            dead_lettered=rates.dead_lettered,
            commits=status.commits.total,
            failures=status.commits.failures,
        )


@dataclass
class StatusHistory:
    """The points of a driver, in the order of time; any thread may add and ask.

    Attributes:
        seconds: between two points, at least.
    """

    seconds: float = SHORTEST_SECONDS
    _points: list[Point] = field(default_factory=list)
    _past: list[Point] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, point: Point) -> None:
        """Keep a point, unless it is too early for one.

        A clock that was set back takes the points after its time with it.
        """
        with self._lock:
            while self._points and self._points[-1].time > point.time:
                self._points.pop()
            if self._points and point.time < self._points[-1].time + self.seconds * 1000:
                return
            self._points.append(point)
            if len(self._points) > MOST_POINTS:
                self._thin()

    def _thin(self) -> None:
        if self.seconds >= LONGEST_SECONDS:
            del self._points[0]
            return
        self.seconds *= 2
        self._points = self._points[::2]

    def take_past(self, past: list[Point]) -> None:
        """Keep the ledger's points, in order, of the time before this process has seen a lag.

        Points without one before their end are dropped: a process that stood by counted nothing.
        """
        if not past:
            return
        with self._lock:
            until = past[-1].time
            self._points = [p for p in self._points if p.time > until or p.lag_records is not None]
            self._past = past

    def columns(self) -> dict[str, list[float | None]]:
        """The points, as a list for each of their fields."""
        with self._lock:
            points = [*self._before(), *self._points]
        names = [column.name for column in fields(Point)]
        return {name: [getattr(point, name) for point in points] for name in names}

    def _before(self) -> list[Point]:
        """The ledger's points that are before this process's, and of the last day."""
        if not self._points:
            return self._past
        oldest = self._points[-1].time - REACH.total_seconds() * 1000
        return [p for p in self._past if oldest <= p.time < self._points[0].time]
