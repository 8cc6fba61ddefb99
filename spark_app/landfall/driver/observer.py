"""Looking at the log: what is there, how far it goes, and since when its records wait."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.driver.decide.arrival_times import ArrivalTimes
from landfall.ledger.offsets import Checkpoint, OffsetRange, TopicPartition
from landfall.plan import Backlog
from landfall.source import Log, Topic, Watermarks


@dataclass
class Observer:
    """Keeps the last picture of the log.

    Attributes:
        log: the log.
        discovery_interval: how often to look for new topics and partitions.
        topics: of the last discovery.
        watermarks: of the last look; only of topic partitions the spec names.
        last_ends: end offsets seen last, also of topic partitions gone since.
        grown: offsets that topic partitions grew by between the last two looks; none if the last
            one failed.
    """

    log: Log
    discovery_interval: timedelta
    topics: tuple[Topic, ...] = ()
    watermarks: Mapping[TopicPartition, Watermarks] = field(default_factory=dict)
    last_ends: dict[TopicPartition, int] = field(default_factory=dict)
    grown: Mapping[TopicPartition, int] = field(default_factory=dict)
    _arrivals: dict[TopicPartition, ArrivalTimes] = field(default_factory=dict)
    _discovered: datetime | None = None

    def look(self, now: datetime) -> None:
        """Take a new picture.

        Raises:
            Retry: the log cannot answer; the last picture stays.
        """
        self.grown = {}
        if self._discovered is None or now - self._discovered >= self.discovery_interval:
            self.topics = self.log.topics()
            self._discovered = now
        named = [TopicPartition(t.name, p) for t in self.topics for p in range(t.partitions)]
        self.watermarks = self.log.watermarks(named)
        ends = {tp: marks.end for tp, marks in self.watermarks.items()}
        self.grown = {tp: max(0, end - self.last_ends.get(tp, end)) for tp, end in ends.items()}
        self.last_ends.update(ends)

    def force_discovery(self) -> None:
        """Let the next look discover topics, however recent the last discovery is."""
        self._discovered = None

    def note(self, checkpoint: Checkpoint, now: datetime) -> None:
        """Date what is unlanded; what was there before this driver is dated by Kafka's timestamps, once."""
        strangers = {
            tp: checkpoint[tp]
            for tp, marks in self.watermarks.items()
            if tp in checkpoint and tp not in self._arrivals and marks.end > checkpoint[tp]
        }
        times = self.log.record_times(strangers) if strangers else {}
        for tp in self.watermarks.keys() & checkpoint.next_offsets.keys():
            seen = self._arrivals.get(tp, ArrivalTimes()).landed(checkpoint[tp])
            at = min(times.get(tp, now), now) if tp in strangers else now
            self._arrivals[tp] = seen.see(self.watermarks[tp].end, at)

    def backlogs(
        self, checkpoint: Checkpoint, skip: Collection[TopicPartition], now: datetime
    ) -> tuple[Backlog, ...]:
        """What is unlanded of every topic partition that is not skipped."""
        return tuple(
            Backlog(
                tp,
                OffsetRange(checkpoint[tp], max(marks.end, checkpoint[tp])),
                self.age(tp, checkpoint[tp], now),
            )
            for tp, marks in sorted(self.watermarks.items())
            if tp in checkpoint and tp not in skip
        )

    def age(self, tp: TopicPartition, checkpoint: int, now: datetime) -> timedelta:
        """How long the oldest unlanded record of a topic partition has waited; zero when there is none."""
        since = self._arrivals.get(tp, ArrivalTimes()).since(checkpoint)
        return max(now - since, timedelta(0)) if since else timedelta(0)
