"""The real driver on a feed whose files are in memory. Each part has one row, its first offset."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from landfall import ledger
from landfall.api.spec import ConsumerGroup
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.driver.landing.goals import GoalType
from landfall.driver.process.loop import Driver
from landfall.errors import PartUnreadable
from landfall.lane import Lane
from landfall.ledger import State, feeds
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.source.files_log import FilesLog
from landfall.store import Store
from landfall.store.memory import MemoryFiles
from landfall.task import Batch
from tests.support.driver.fakes import FakeRunner, driver, group, landed_offsets, ticking

HITS = TopicPartition("hits", 0)
FEED = {"topic": "hits", "url": "s3://bucket/in", "reader": "JsonLines", "settle": "1m"}
DAMAGED = b"damaged"


def feed_group(**spec: object) -> ConsumerGroup:
    """A group with one feed."""
    return group(source={"files": [FEED]}, **spec)


@dataclass
class FeedRunner(FakeRunner):
    """Lands the first offset of each part, unless its file is damaged."""

    damaged: Callable[[int], bool] = lambda _: False

    def _landed(self, batch: Batch, slice_: Slice, bad: int) -> LandedSlice:
        tp, offsets = slice_.topic_partition, self._kept(slice_, bad)
        end = next((o for o in offsets if self.damaged(feeds.number_of(o))), slice_.offsets.end)
        if end == slice_.offsets.start:
            raise PartUnreadable(end, f"{slice_}: damaged")
        before = Slice(tp, OffsetRange(slice_.offsets.start, end))
        return super()._landed(batch, before, bad)

    def _kept(self, slice_: Slice, bad: int) -> list[int]:
        return list(range(slice_.offsets.start + bad, slice_.offsets.end, feeds.SPAN))


@dataclass
class FeedWorld:
    """A bucket, and the store that a group lands it in.

    Attributes:
        group: the resource.
        store: has the ledger and what is landed.
        written: when the next file is written.
    """

    store: Store
    written: datetime
    group: ConsumerGroup = field(default_factory=feed_group)

    def __post_init__(self) -> None:
        self.files = MemoryFiles(lambda: self.written)

    def write(self, name: str, at: datetime, body: bytes = b"{}\n") -> None:
        """Write a file, as another program does at this time."""
        self.written = at
        self.files.write(name, body)

    def driver(self, goal: GoalType, start: datetime, writer: str = "w") -> Driver:
        """A driver of the group."""
        log, runner = FilesLog(self.group), FeedRunner(self.store, damaged=self._is_damaged)
        log.take_in(Lane(self.store, "fake", "0").read())
        made = driver(self.group, self.store, log, runner, goal=goal, writer=writer, start=start)  # type: ignore[arg-type]  # another log than the fake
        deps = replace(made.deps, open_files=lambda _: self.files, clock=ticking(start))
        return Driver(self.group, made.writer, deps, made.report, goal=goal)

    @property
    def state(self) -> State:
        """What the ledger says."""
        return Lane(self.store, "fake", "0").read()

    def numbered(self) -> dict[int, ListedPart]:
        """The part of each number, by all DISCOVERs."""
        keys, found = FeedKeys("fake", "0", HITS.topic), dict[int, ListedPart]()
        for slot, body in Lane(self.store, "fake", "0").bodies():
            record = ledger.decode(slot, body)
            if isinstance(record, ledger.Discover) and record.listed:
                found |= enumerate(part_lists.read(self.store, keys, record.listed), len(found))
        return found

    def _is_damaged(self, number: int) -> bool:
        part = self.numbered()[number]
        there = self.files.find(part.name)
        if there is None or there.etag != part.etag:
            return True
        return self.files.read(there, 0, there.size) == DAMAGED

    def landed(self) -> Counter[str]:
        """How often each file is landed, whose parts are visible."""
        parts = self.numbered()
        return Counter(
            parts[feeds.number_of(offset)].name
            for (_, _, offset), count in landed_offsets(self.store).items()
            for _ in range(count)
        )
