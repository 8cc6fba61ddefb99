"""One feed as the driver sees it: what goes on with it, and when it is looked at next."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.api import spec
from landfall.discovery.looker import FeedLooker, Look
from landfall.driver.left_out import LeftOut
from landfall.driver.wakeups import Wakeups
from landfall.ledger import KnownFiles, PartList
from landfall.ledger.part_lists import ListedPart

EVENT_PAUSE = timedelta(seconds=5)
"""How long after a look the next one begins at the earliest because of notifications."""


@dataclass
class OpenFeed:
    """A feed, and what is going on with it.

    Attributes:
        spec: of the feed.
        looker: used by the job alone while there is one.
        left_out: files that get no numbers.
        wakeups: notifications of new files; None if nobody sends any.
        job: a look or a merge that is going on.
        looked: when the last look or merge was begun.
        hurries: the next look need not wait.
        waits: the last look found files that had not settled.
        parked: when this driver has parked a part.
        read: the lists whose parts are planned.
    """

    spec: spec.Feed
    looker: FeedLooker
    left_out: LeftOut
    wakeups: Wakeups | None = None
    job: Future[Look | KnownFiles] | None = None
    looked: datetime | None = None
    hurries: bool = False
    waits: bool = False
    parked: dict[int, datetime] = field(default_factory=dict)
    read: dict[PartList, tuple[ListedPart, ...]] = field(default_factory=dict)

    def is_due(self, now: datetime) -> bool:
        """Whether it is time for the next look."""
        if self.job is not None:
            return False
        if self.looked is None or self.hurries:
            return True
        return now - self.looked >= self._pause

    @property
    def _pause(self) -> timedelta:
        """How long after a look the next one is due."""
        interval = self.spec.discovery_interval
        if self.wakeups and self.wakeups.has_hints:
            return min(interval, EVENT_PAUSE)
        if self.wakeups and self.waits:  # there was a hint, but it had not settled
            return min(interval, max(self.spec.settle, EVENT_PAUSE))
        return interval
