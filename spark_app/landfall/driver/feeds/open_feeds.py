"""A feed of a running driver: what is known of it outside the ledger, and what is due."""

from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from landfall import ledger
from landfall.api import spec
from landfall.api.feed_status import FeedStatus
from landfall.api.next_steps import next_step
from landfall.discovery.looker import FeedLooker, Look
from landfall.driver.feeds.feed_problems import LeftOut, changed_problem
from landfall.driver.feeds.feed_status import feed_status
from landfall.driver.feeds.file_requests import AskedOfFiles, PreparedFiles
from landfall.driver.feeds.wakeups import Wakeups
from landfall.errors import Stalled
from landfall.ledger import KnownFiles, PartList
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import TopicPartition
from landfall.source.files_log import Listed

EVENT_PAUSE = timedelta(seconds=5)
"""How long after a look the next one begins at the earliest because of notifications."""
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass
class OpenFeed:
    """A feed, and its current work.

    Attributes:
        spec: of the feed.
        looker: used by the job alone while there is one.
        left_out: files that get no numbers.
        retries_own: parts that this driver parks are tried again by it.
        wakeups: notifications of new files; None if no program sends any.
        job: a look, a merge or a request that is running.
        looked: when the last look or merge was begun.
        hurries: the next look need not wait.
        parked: when this driver has parked a part.
        read: the lists whose parts are planned.
        asked: requests that wait for the job.
        relisted: when the last look at all names was begun.
        changed: files rewritten after they were landed that this look has found.
        listed: the last listing of all names that has ended.
        ended: when the last look had ended.
        waiting_files: how many files had not settled then.
    """

    spec: spec.Feed
    looker: FeedLooker
    left_out: LeftOut
    retries_own: bool = True
    wakeups: Wakeups | None = None
    job: Future[Look | KnownFiles | PreparedFiles] | None = None
    looked: datetime | None = None
    hurries: bool = False
    parked: dict[int, datetime] = field(default_factory=dict)
    read: dict[PartList, tuple[ListedPart, ...]] = field(default_factory=dict)
    asked: deque[AskedOfFiles] = field(default_factory=deque)
    relisted: datetime | None = None
    changed: set[str] = field(default_factory=set)
    listed: Listed | None = None
    ended: datetime | None = None
    waiting_files: int = 0

    def is_due(self, now: datetime, closing: datetime | None = None) -> bool:
        """Return whether background work is due, while none is running.

        Args:
            now: the time.
            closing: the end of a closed range that has come.
        """
        if self.job is not None:
            return False
        if self.looked is None or self.hurries or self.asked:
            return True
        if closing and self.looked < closing:
            return True
        if closing and self.listed and self.listed.closes(closing):
            return False
        return now - self.looked >= self._pause

    def lists_anew(self, closing: datetime | None) -> bool:
        """Return whether the next look is to list all names for the end of a closed range."""
        return closing is not None and (self.listed is None or self.listed.began < closing)

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the feed, though all is well."""
        away = self.wakeups.problem if self.wakeups else ""
        events = f"{self.spec.topic}/0: events are not received: {away}" if away else ""
        return tuple(filter(None, (events, self.left_out.note)))

    @property
    def _pause(self) -> timedelta:
        """How long after a look the next one is due."""
        interval = self.spec.discovery_interval
        if self.wakeups and self.wakeups.has_hints:
            return min(interval, EVENT_PAUSE)
        if self.wakeups and self.waiting_files:  # there was a hint, but it had not settled
            return min(interval, max(self.spec.settle, EVENT_PAUSE))
        return interval

    def to_try_again(self, feed: ledger.FeedState, now: datetime) -> tuple[int, ...]:
        """Parked parts that may be readable now; a driver that starts tries all at once."""
        if feed.leasing:
            return ()  # takers get them under the numbers that they have
        self.parked = {n: time for n, time in self.parked.items() if n in feed.parked}
        own = () if self.retries_own else self.parked
        return tuple(
            number
            for number, parked in sorted(feed.parked.items())
            if parked.attempt < self.spec.max_attempts
            and number not in own
            and now - self.parked.get(number, _NEVER) >= self.spec.retry_interval
        )

    @property
    def changed_problem(self) -> Stalled | None:
        """The problem of files that were rewritten, while the feed is landed."""
        if self.spec.on_change != "Park" or not self.changed:
            return None
        return changed_problem(TopicPartition(self.spec.topic, 0), sorted(self.changed))

    def status(
        self, feed: ledger.FeedState, checkpoint: int, stopped: Stalled | None
    ) -> FeedStatus:
        """Return the status of the files; ``stopped`` is why the feed is stopped, if it is."""
        found = feed_status(self.spec, feed, checkpoint, self.read.get)
        parked = self.changed_problem
        if wrong := stopped or parked:
            tp = f"{self.spec.topic}/0"
            found = replace(found, error=str(wrong), next_step=next_step(wrong.reason, tp))
        if parked:
            found = replace(found, parked_parts=found.parked_parts + len(self.changed))
        looked = self.ended.isoformat() if self.ended else None
        return replace(found, looked=looked, waiting_files=self.waiting_files)
