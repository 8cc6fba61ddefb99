"""Feeds as a ``source.Log``: their offsets are what DISCOVERs have handed out.

What is new in a bucket is not asked for here: ``landfall.driver.feeds.feeds`` finds it, and appends
it to the ledger. Only then is it in the log.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from landfall.api import spec
from landfall.errors import Stalled
from landfall.ledger import State
from landfall.ledger.feeds import SPAN
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, DatedOffset, FoundOffsets, FoundTopics, Topic


def topic_id(feed: spec.Feed) -> str:
    """Return a hash of a feed's location, which differs for another feed of the same name."""
    return hashlib.sha256(feed.url.rstrip("/").encode()).hexdigest()[:22]


@dataclass(frozen=True, slots=True)
class Listed:
    """A listing of all names that has ended: all files it had have numbers, or wait.

    Attributes:
        began: when it began.
        waits_since: when the first of the files was written that still wait, or was first seen as
            it is; None if none waits.
    """

    began: datetime
    waits_since: datetime | None = None

    def closes(self, time: datetime) -> bool:
        """Return whether all files have numbers that were there, as they are, before this time.

        A file that waits is either left alone until it has settled, or is written later. So this
        comes to hold at the latest when a listing ends that began ``settle`` after the time, by the
        later one of our clock and the store's.
        """
        return self.began >= time and (self.waits_since is None or self.waits_since >= time)


class FilesLog:
    """The feeds of a group. Used by the driver's thread alone.

    Attributes:
        listed: by feed, the last listing of all names.
        stopped: feeds that must not be landed until a person acts, and why.
    """

    def __init__(self, group: spec.ConsumerGroup) -> None:
        feeds = sorted(group.spec.source.files, key=lambda feed: feed.topic)
        self._topics = tuple(Topic(feed.topic, topic_id(feed), 1) for feed in feeds)
        self._ends: dict[TopicPartition, int] = {}
        self.listed: dict[TopicPartition, Listed] = {}
        self.stopped: dict[TopicPartition, Stalled] = {}

    def take_in(self, state: State) -> None:
        """Take in what DISCOVERs have handed out, but for feeds that have not landed anything."""
        self._ends = {
            tp: feed.end * SPAN for tp, feed in state.feeds.items() if feed.leasing is None
        }

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        """The feeds in the spec."""
        del known
        return FoundTopics(self._topics, {})

    def describe(self, names: Collection[str]) -> FoundTopics:
        """Return the feeds in the spec with these names."""
        return FoundTopics(tuple(topic for topic in self._topics if topic.name in names), {})

    def offsets(self, tps: Collection[TopicPartition], bound: Bound) -> FoundOffsets:
        """The end of a feed is where the last numbered part ends; it starts at 0."""
        is_start = bound is Bound.LOG_START
        found = {
            tp: 0 if is_start else self._ends.get(tp, 0) for tp in tps if tp not in self.stopped
        }
        return FoundOffsets(found, {tp: self.stopped[tp] for tp in tps if tp in self.stopped})

    def offsets_at(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, int]:
        """Nothing: parts are not in the order of a time."""
        del tps, time
        return {}

    def first_from(
        self, tps: Collection[TopicPartition], time: datetime
    ) -> Mapping[TopicPartition, DatedOffset | None]:
        """Return the end of each feed in which every file written before ``time`` has a number.

        Feeds without such an end are left out: they may have more. Files that were written later
        may have numbers, too; what gets one from now on was found by a listing that began at or
        after ``time``.
        """
        closed = {tp: self.listed[tp] for tp in tps if tp in self.listed}
        return {
            tp: DatedOffset(self._ends.get(tp, 0), int(listed.began.timestamp() * 1000))
            for tp, listed in closed.items()
            if listed.closes(time)
        }

    def record_times(
        self, positions: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, datetime]:
        """Nothing: how long a part waits counts from when the driver first saw its number."""
        del positions
        return {}

    def mirror(self, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Do nothing: no tool of Kafka knows feeds."""

    def close(self) -> None:
        """Do nothing: there is no connection."""
