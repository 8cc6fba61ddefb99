"""Feeds as a ``source.Log``: their offsets are what DISCOVERs have handed out.

What is new in a bucket is not asked for here: ``landfall.driver.feeds`` finds it, and appends it to
the ledger. Only then is it in the log.
"""

import hashlib
from collections.abc import Collection, Mapping
from datetime import datetime

from landfall.api import spec
from landfall.errors import Stalled
from landfall.ledger import State
from landfall.ledger.feeds import SPAN
from landfall.ledger.offsets import TopicPartition
from landfall.source import Bound, DatedOffset, FoundOffsets, FoundTopics, Topic


def topic_id(feed: spec.Feed) -> str:
    """What tells a feed from another one of the same name: a hash of where its files are."""
    return hashlib.sha256(feed.url.rstrip("/").encode()).hexdigest()[:22]


class FilesLog:
    """The feeds of a group. Used by the driver's thread alone.

    Attributes:
        stopped: feeds that must not be landed until somebody acts, and why.
    """

    def __init__(self, group: spec.ConsumerGroup) -> None:
        feeds = sorted(group.spec.source.files, key=lambda feed: feed.topic)
        self._topics = tuple(Topic(feed.topic, topic_id(feed), 1) for feed in feeds)
        self._ends: dict[TopicPartition, int] = {}
        self.stopped: dict[TopicPartition, Stalled] = {}

    def take_in(self, state: State) -> None:
        """Take in what DISCOVERs have handed out, but for feeds of which nothing is landed."""
        self._ends = {
            tp: feed.end * SPAN for tp, feed in state.feeds.items() if feed.leasing is None
        }

    def topics(self, known: Collection[str] = ()) -> FoundTopics:
        """The feeds in the spec."""
        del known
        return FoundTopics(self._topics, {})

    def describe(self, names: Collection[str]) -> FoundTopics:
        """Those of these feeds that are in the spec."""
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
        """Nothing, as ``offsets_at``."""
        del tps, time
        return {}

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
