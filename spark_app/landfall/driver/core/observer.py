"""The last known state of the log: topics, offsets, and how long records have waited.

Most topic partitions of a large group are idle most of the time, so a look asks for little and
compares what it got with what was known. Only *unsettled* topic partitions, whose end offset is not
the checkpoint, are looked at one by one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import attrgetter

from landfall.api.spec import UploadPolicy
from landfall.driver.decide.arrival_times import ArrivalTimes
from landfall.driver.decide.held_back import HeldBack, held_back
from landfall.errors import LandfallError, Stalled
from landfall.ledger.offsets import Checkpoint, OffsetRange, TopicPartition
from landfall.plan import Backlog
from landfall.source import Bound, Log, Topic, Watermarks

HIGH_WATERMARK_INTERVAL = timedelta(seconds=15)
"""How often to ask for high watermarks, which only serve to find open transactions."""
LOOKED_AT_PER_SECOND = 5_000
"""Topic partitions asked about per second on average, so that a large idle group costs little."""


@dataclass(frozen=True, slots=True)
class LogView:
    """The known state of the log; immutable, so that any thread may keep one and read it.

    Attributes:
        watermarks: as of the last look, of the topic partitions that the spec names. The log start
            dates from the last time at which the topic partition was unsettled.
        unavailable: topic partitions that did not answer at the last look, and why; if they did
            before, ``watermarks`` has their last known ones.
        last_ends: the last known end offsets, also of topic partitions that are gone since.
        arrivals: when records were first seen.
        held_back: topic partitions with records in transactions that are open.
    """

    watermarks: Mapping[TopicPartition, Watermarks] = field(default_factory=dict)
    unavailable: Mapping[TopicPartition, LandfallError] = field(default_factory=dict)
    last_ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    arrivals: Mapping[TopicPartition, ArrivalTimes] = field(default_factory=dict)
    held_back: Mapping[TopicPartition, HeldBack] = field(default_factory=dict)

    def backlog(self, tp: TopicPartition, checkpoint: int, now: datetime) -> Backlog:
        """Return the unlanded offsets of one topic partition, by its last known end offset."""
        end = max(self.last_ends.get(tp, checkpoint), checkpoint)
        age = self._age(tp, checkpoint, now) if end > checkpoint else timedelta(0)
        return Backlog(tp, OffsetRange(checkpoint, end), age)

    def _age(self, tp: TopicPartition, checkpoint: int, now: datetime) -> timedelta:
        """Return how long the oldest unlanded record has waited; zero if there is none."""
        oldest_at = self.arrivals.get(tp, ArrivalTimes()).oldest_at(checkpoint)
        return max(now - oldest_at, timedelta(0)) if oldest_at else timedelta(0)


@dataclass
class Observer:
    """Looks at the log and remembers what it saw; used by the driver's thread alone.

    Attributes:
        log: the log.
        discovery_interval: how often to look for new topics and partitions.
        longest_pause: the longest time between two looks, however many topic partitions there are.
        topics: found by the last discovery.
        denied: topics that the last discovery may not describe, and why. Their topic partitions
            are unavailable in ``view``.
        view: what is known of the log.
        grown: offsets by which topic partitions grew between the last two looks, for those that
            did; empty if the last look failed.
        unsettled: topic partitions in the log whose end offset is not the checkpoint; sorted.
        missing: topic partitions in the checkpoint that the log does not have.
        high: the last known high watermarks, of those that answered.
        looked_high: when they were asked for; None before.
    """

    log: Log
    discovery_interval: timedelta
    longest_pause: timedelta = timedelta(0)
    topics: tuple[Topic, ...] = ()
    denied: Mapping[str, Stalled] = field(default_factory=dict)
    view: LogView = LogView()
    grown: Mapping[TopicPartition, int] = field(default_factory=dict)
    unsettled: tuple[TopicPartition, ...] = ()
    missing: tuple[TopicPartition, ...] = ()
    high: Mapping[TopicPartition, int] = field(default_factory=dict)
    looked_high: datetime | None = None
    _named: tuple[TopicPartition, ...] = ()
    _discovered: datetime | None = None
    _looked: datetime | None = None
    _settled_for: tuple[object, ...] = ()

    @property
    def watermarks(self) -> Mapping[TopicPartition, Watermarks]:
        """See ``LogView``."""
        return self.view.watermarks

    @property
    def last_ends(self) -> Mapping[TopicPartition, int]:
        """See ``LogView``."""
        return self.view.last_ends

    def is_due(self, now: datetime) -> bool:
        """Return whether it is time for the next look."""
        if self._looked is None or self._discovered is None:
            return True
        affordable = timedelta(seconds=len(self._named) / LOOKED_AT_PER_SECOND)
        return now - self._looked >= min(affordable, self.longest_pause)

    def look(self, now: datetime, checkpoint: Checkpoint) -> None:
        """Ask the log for its offsets, and for its topics if discovery is due.

        Raises:
            Retry: the log does not answer; what was known before is kept.
        """
        self.grown = {}
        self._discover(now, checkpoint)
        high = self._look_high(now)
        ends = self.log.offsets(self._named, Bound.END)
        if len(ends.offsets) + len(ends.unavailable) < len(self._named):
            # A topic was deleted, or it is denied: only a discovery shows which.
            self._discovered = None
            self._discover(now, checkpoint)
        new = self._note_ends(ends.offsets, {**ends.unavailable, **self._denied_of(checkpoint)})
        self._settle(checkpoint)
        # Where nothing is unlanded, nothing can expire before it is landed.
        self.look_at_starts(self.unsettled)
        self._note_new(new)
        self._settle(checkpoint)
        if high is not None:
            held = held_back(self.view.held_back, high, ends.offsets, now)
            self.view = replace(self.view, held_back=held)
            self.high = high
            self.looked_high = now
        self._looked = now

    def look_at_starts(self, tps: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Ask for log start offsets; returns the topic partitions that answered.

        Raises:
            Retry: the log does not answer.
        """
        starts = self.log.offsets(tps, Bound.LOG_START).offsets if tps else {}
        known = self.view.watermarks
        moved = {
            tp: Watermarks.of(start, known[tp].end)
            for tp, start in starts.items()
            if tp in known and known[tp].log_start != start
        }
        if moved:
            self.view = replace(self.view, watermarks={**known, **moved})
        return starts.keys()

    @property
    def must_discover(self) -> bool:
        """True if the known topics are out of date."""
        return self._discovered is None

    @property
    def seen_whole_at(self) -> datetime | None:
        """The time up to which topics and high watermarks are both known; None before the first."""
        if self.looked_high is None or self._discovered is None:
            return None
        return min(self.looked_high, self._discovered)

    def discover_since(self, time: datetime) -> None:
        """Let the next look discover topics unless the last discovery was at this time or later."""
        if self._discovered is not None and self._discovered < time:
            self.force_discovery()

    def force_discovery(self) -> None:
        """Let the next look discover topics, and be at once, however recent the last one is."""
        self._discovered = None

    def record_arrivals(self, checkpoint: Checkpoint, now: datetime) -> None:
        """Remember when unlanded records were first seen.

        Records that were there before this driver are dated by their Kafka timestamps, once.

        Raises:
            Retry: the log does not answer.
        """
        settled_now = set(self.unsettled)
        self._settle(checkpoint)
        settled_now.difference_update(self.unsettled)
        known = self.view.arrivals
        undated = {
            tp: checkpoint[tp]
            for tp in self.unsettled
            if tp not in known and tp in checkpoint and self.last_ends[tp] > checkpoint[tp]
        }
        times = self.log.record_times(undated) if undated else {}
        changed: dict[TopicPartition, ArrivalTimes] = {}
        for tp in (*self.unsettled, *settled_now, *self._never_recorded()):
            if tp not in checkpoint or tp not in self.watermarks:
                continue
            arrivals = known.get(tp, ArrivalTimes()).landed(checkpoint[tp])
            # A producer may write any timestamp; one in the future must not make an age negative.
            at = min(times.get(tp, now), now) if tp in undated else now
            changed[tp] = arrivals.record(self.watermarks[tp].end, at)
        if changed:
            self.view = replace(self.view, arrivals={**known, **changed})

    def backlogs(
        self, checkpoint: Checkpoint, skip: Collection[TopicPartition], now: datetime
    ) -> tuple[Backlog, ...]:
        """Return the backlogs of unsettled topic partitions that are in the log and not skipped.

        Sorted by name.
        """
        return tuple(
            self.view.backlog(tp, checkpoint[tp], now)
            for tp in self.unsettled
            if tp in checkpoint and tp not in skip
        )

    def _discover(self, now: datetime, checkpoint: Checkpoint) -> None:
        if self._discovered is not None and now - self._discovered < self.discovery_interval:
            return
        found = self.log.topics({tp.topic for tp in checkpoint.next_offsets})
        if found.denied.keys() != self.denied.keys():
            self.denied = found.denied
        topics = found.topics
        if topics != self.topics:
            self.topics = topics
            self._named = tuple(tp for topic in topics for tp in topic.topic_partitions)
        self._discovered = now

    def _denied_of(self, checkpoint: Checkpoint) -> dict[TopicPartition, LandfallError]:
        """Topic partitions of denied topics, as far as they were ever known, and why."""
        if not self.denied:
            return {}
        known = (*checkpoint.next_offsets, *self.view.watermarks)
        return {tp: self.denied[tp.topic] for tp in known if tp.topic in self.denied}

    def _look_high(self, now: datetime) -> Mapping[TopicPartition, int] | None:
        """High watermarks if they are due, else None.

        They are asked for before the ends: records that arrive in between must not seem held back.
        """
        is_due = self.looked_high is None or now - self.looked_high >= HIGH_WATERMARK_INTERVAL
        return self.log.offsets(self._named, Bound.HIGH_WATERMARK).offsets if is_due else None

    def _note_ends(
        self,
        ends: Mapping[TopicPartition, int],
        unavailable: Mapping[TopicPartition, LandfallError],
    ) -> dict[TopicPartition, int]:
        """Record end offsets; return the ones whose topic partitions were unknown before."""
        before, known = self.view.last_ends, self.view.watermarks
        changed = {tp: end for tp, end in ends.items() if before.get(tp) != end or tp not in known}
        new = {tp: end for tp, end in changed.items() if tp not in known}
        self.grown = {
            tp: end - before[tp] for tp, end in changed.items() if end > before.get(tp, end)
        }
        if len(known) + len(new) > len(ends):
            # Topic partitions that do not answer keep their known state: they are not gone.
            known = {tp: m for tp, m in known.items() if tp in ends or tp in unavailable}
        if changed or known is not self.view.watermarks:
            moved = {
                tp: Watermarks.of(known[tp].log_start, end)
                for tp, end in changed.items()
                if tp in known
            }
            self.view = replace(
                self.view, watermarks={**known, **moved}, last_ends={**before, **changed}
            )
        if unavailable or self.view.unavailable:
            self.view = replace(self.view, unavailable=unavailable)
        return new

    def _note_new(self, ends: Mapping[TopicPartition, int]) -> None:
        """Take new topic partitions in, with their log starts; without one it is not known yet."""
        if not ends:
            return
        starts = self.log.offsets(ends, Bound.LOG_START)
        marks = {tp: Watermarks.of(start, ends[tp]) for tp, start in starts.offsets.items()}
        self.view = replace(
            self.view,
            watermarks={**self.view.watermarks, **marks},
            unavailable={**self.view.unavailable, **starts.unavailable},
        )

    def _settle(self, checkpoint: Checkpoint) -> None:
        """Find what is unsettled or missing, unless nothing has changed since the last time."""
        marks, unavailable = self.view.watermarks, self.view.unavailable
        present = (checkpoint, marks, unavailable)
        if self._settled_for and all(
            a is b for a, b in zip(self._settled_for, present, strict=True)
        ):
            return
        at = checkpoint.next_offsets
        self.unsettled = _by_name(tp for tp, m in marks.items() if at.get(tp) != m.end)
        self.missing = _by_name(tp for tp in at if tp not in marks and tp not in unavailable)
        self._settled_for = present

    def _never_recorded(self) -> Iterable[TopicPartition]:
        arrivals, marks = self.view.arrivals, self.view.watermarks
        return [tp for tp in marks if tp not in arrivals] if len(arrivals) < len(marks) else ()


def _by_name(tps: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    # Much faster than comparing the topic partitions themselves.
    return tuple(sorted(tps, key=attrgetter("topic", "partition")))


def longest_pause(policy: UploadPolicy) -> timedelta:
    """A time between two looks that hardly delays any record: a tenth of the least ``maxAge``."""
    ages = (policy.max_age, *(o.max_age for o in policy.overrides if o.max_age))
    return min(ages) / 10
