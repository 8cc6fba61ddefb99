"""Reads the past of a group from its ledger, for the charts of its driver's page.

Times, records and bytes are in the COMMITs, so the charts do not begin with each restart. The
ledger does not record lag, which stays unknown for that time. It is read once, backwards and in
a thread of its own, when this process first owns the lane: a day of it, within bounds. If the store
does not answer, there is no past, and nothing else is wrong.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice

from landfall.driver.http.history import LONGEST_SECONDS, REACH, Point, StatusHistory
from landfall.errors import LandfallError
from landfall.lane import Lane
from landfall.ledger import Record, State, time_of
from landfall.ledger.effects import RangeLanded, effects
from landfall.ledger.task_results import LandedSlice, ObjectKind

log = logging.getLogger(__name__)

MOST_RECORDS = 2_000
"""Records that are read: of a COMMIT every 43 seconds, a day's."""
MOST_SECONDS = 20.0
"""For how long they are read."""


@dataclass
class PastReader:
    """Reads the past of a group once.

    Attributes:
        lane: of the group, in a store that is soon given up if it does not answer.
        history: gets the points.
        clock: the current time.
    """

    lane: Lane
    history: StatusHistory
    clock: Callable[[], datetime]
    _thread: threading.Thread | None = field(default=None, repr=False)

    def observe(self, state: State) -> None:
        """Begin to read, at the first state of a lane that this process owns."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._read, args=(state, self.clock()), name="past", daemon=True
            )
            self._thread.start()

    def join(self) -> None:
        """Return when the past is read."""
        if self._thread:
            self._thread.join()

    def _read(self, state: State, now: datetime) -> None:
        try:
            with closing(self.lane.records_back(state)) as records:
                recent = _within(records, MOST_SECONDS)
                points = points_before(now, state.totals.commits, islice(recent, MOST_RECORDS))
        except (LandfallError, OSError) as error:
            log.info("past not read for the page", extra={"why": str(error)})
            return
        self.history.take_past(points)


def _within(records: Iterable[Record], seconds: float) -> Iterator[Record]:
    until = time.monotonic() + seconds
    for record in records:
        yield record
        if time.monotonic() > until:
            return


def points_before(now: datetime, commits: int, records: Iterable[Record]) -> list[Point]:
    """The points of the time before ``now``, one each ``LONGEST_SECONDS``, in order.

    Counters are relative to ``now``, and so negative.

    Args:
        now: up to which they reach.
        commits: in the ledger at that time.
        records: of the ledger, the last one first; no more are taken than of a day.
    """
    step, begin = timedelta(seconds=LONGEST_SECONDS), now - REACH
    points: list[Point] = []
    edge, landed, landed_bytes, input_bytes, dead_lettered = now, 0, 0, 0, 0
    for record in records:
        try:
            written = time_of(record.header.seq, record.header.time)
        except LandfallError:
            continue
        while edge >= max(written, begin):
            points.append(
                Point(
                    time=int(edge.timestamp() * 1000),
                    lag_records=None,
                    lag_seconds=None,
                    overdue_seconds=None,
                    landed_records=-landed,
                    landed_bytes=-landed_bytes,
                    input_bytes=-input_bytes,
                    dead_lettered=-dead_lettered,
                    commits=commits,
                    failures=None,
                )
            )
            edge -= step
        if written < begin:
            break
        slices = [effect.landed for effect in effects(record) if isinstance(effect, RangeLanded)]
        commits -= bool(slices)
        landed += sum(slice_.landed for slice_ in slices)
        input_bytes += sum(slice_.input_bytes for slice_ in slices)
        dead_lettered += sum(slice_.dead_lettered for slice_ in slices)
        landed_bytes += sum(_data_bytes(slices))
    return points[::-1]


def _data_bytes(slices: Iterable[LandedSlice]) -> Iterator[int]:
    objects = (landed for slice_ in slices for landed in slice_.objects)
    return (landed.upload.size for landed in objects if landed.kind is ObjectKind.DATA)
