"""The last known state of the log: topics, watermarks, and how long records have waited."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.driver.decide.arrival_times import ArrivalTimes
from landfall.ledger.offsets import Checkpoint, OffsetRange, TopicPartition
from landfall.plan import Backlog
from landfall.source import Log, Topic, Watermarks


@dataclass
class Observer:
    """Looks at the log and remembers what it saw; used by the driver's thread alone.

    Attributes:
        log: the log.
        discovery_interval: how often to look for new topics and partitions.
        topics: found by the last discovery.
        watermarks: as of the last look, of the topic partitions that the spec names.
        last_ends: the last known end offsets, also of topic partitions that are gone since.
        grown: offsets by which topic partitions grew between the last two looks; empty if the last
            look failed.
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
        """Ask the log for its watermarks, and for its topics if discovery is due.

        Raises:
            Retry: the log does not answer; what was known before is kept.
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

    def record_arrivals(self, checkpoint: Checkpoint, now: datetime) -> None:
        """Remember when unlanded records were first seen.

        Records that were there before this driver are dated by their Kafka timestamps, once.

        Raises:
            Retry: the log does not answer.
        """
        undated = {
            tp: checkpoint[tp]
            for tp, marks in self.watermarks.items()
            if tp in checkpoint and tp not in self._arrivals and marks.end > checkpoint[tp]
        }
        times = self.log.record_times(undated) if undated else {}
        for tp in self.watermarks.keys() & checkpoint.next_offsets.keys():
            arrivals = self._arrivals.get(tp, ArrivalTimes()).landed(checkpoint[tp])
            # A producer may write any timestamp; one in the future must not make an age negative.
            at = min(times.get(tp, now), now) if tp in undated else now
            self._arrivals[tp] = arrivals.record(self.watermarks[tp].end, at)

    def backlogs(
        self, checkpoint: Checkpoint, skip: Collection[TopicPartition], now: datetime
    ) -> tuple[Backlog, ...]:
        """What is unlanded of the topic partitions that are in the log and not skipped."""
        return tuple(
            self.backlog(tp, checkpoint[tp], now)
            for tp in sorted(self.watermarks)
            if tp in checkpoint and tp not in skip
        )

    def backlog(self, tp: TopicPartition, checkpoint: int, now: datetime) -> Backlog:
        """What is unlanded of one topic partition, by its last known end offset."""
        end = max(self.last_ends.get(tp, checkpoint), checkpoint)
        return Backlog(tp, OffsetRange(checkpoint, end), self._age(tp, checkpoint, now))

    def _age(self, tp: TopicPartition, checkpoint: int, now: datetime) -> timedelta:
        """How long the oldest unlanded record has waited; zero if there is none."""
        oldest_at = self._arrivals.get(tp, ArrivalTimes()).oldest_at(checkpoint)
        return max(now - oldest_at, timedelta(0)) if oldest_at else timedelta(0)
