"""Decides that topics are complete up to a time, and appends FINALIZE.

``landfall.driver.decide.completeness`` has the rule. This keeps what it needs from the log: since
when each topic partition is idle. A driver that has just started knows from the ledger that nothing
was written to a topic partition which ends at its checkpoint since the last record of a driver that
looked, whose clock may be slow. Otherwise drivers that only look now and then would never
complete the hours of an idle group.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from landfall import ledger
from landfall.api.spec import ConsumerGroup
from landfall.driver.core.merged_first import ReadyTopics, all_at_once
from landfall.driver.core.observer import Observer
from landfall.driver.decide.completeness import HeldTopic, LogLook, horizons
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition
from landfall.publish.finished import Calendars
from landfall.source import Topic
from landfall.source.membership import former_members

log = logging.getLogger(__name__)

INTERVAL = timedelta(minutes=1)
"""How often topics are looked at: all that are complete then are in one record."""
WAITING_INTERVAL = timedelta(seconds=5)
"""The same while something is merged first."""
CLOCKS_APART = timedelta(minutes=30)
"""How far the clocks of two drivers are apart at most: object stores refuse requests of a clock
that is off by more than a quarter of an hour.
"""
_MILLISECOND = timedelta(milliseconds=1)


Append = Callable[[Callable[..., ledger.Record]], State]


class Finalizing:
    """Used by the driver's thread alone.

    Attributes:
        held: the topics that are not complete though their time has come, and why.
        merged_first: see ``Planner``; topics with objects to be merged wait for that.
    """

    def __init__(
        self,
        group: ConsumerGroup,
        observer: Observer,
        append: Append,
        merged_first: ReadyTopics = all_at_once,
    ) -> None:
        """Nothing is decided for a group without ``spec.completeness``, or without a delay.

        Without one, only the ends of closed ranges show when an hour is over: a topic partition
        that is idle at the full hour may get records of that hour a second later. So it is with
        files: one whose parts are all landed does not show that the bucket has no other one.
        """
        completeness = group.spec.completeness
        decides = completeness and completeness.delay and not group.spec.source.files
        self._completeness = completeness if decides else None
        self._observer = observer
        self._append = append
        self._calendars = Calendars(group.spec)
        self._idle_since: dict[TopicPartition, datetime] = {}
        self._topics: tuple[Topic, ...] = ()
        self._topic_ids: dict[str, str] = {}
        self._seen: Mapping[TopicPartition, int] | None = None
        self._decided_at: datetime | None = None
        self._waits = False
        self.held: tuple[HeldTopic, ...] = ()
        self.merged_first = merged_first

    def _note_look(self, state: State, now: datetime) -> None:
        """Remember what the last look at the log showed, if it was after the last pass."""
        if self._observer.grown is self._seen:
            return
        self._seen = self._observer.grown
        for tp in self._observer.grown:
            self._idle_since[tp] = now
        if len(self._observer.last_ends) != len(self._idle_since):
            former = former_members(state, self._observer.topics)
            for tp, end in self._observer.last_ends.items():
                known = now if tp in former else _idle_since(state, tp, end, now)
                self._idle_since.setdefault(tp, known)
        if self._observer.topics is not self._topics:
            self._note_topics(now)

    def _note_topics(self, now: datetime) -> None:
        """A topic that was created again has just been written, wherever its log ends."""
        self._topics = self._observer.topics
        for topic in self._topics:
            if self._topic_ids.setdefault(topic.name, topic.topic_id) != topic.topic_id:
                self._topic_ids[topic.name] = topic.topic_id
                known = self._idle_since.keys() & {*topic.topic_partitions}
                self._idle_since.update(dict.fromkeys(known, now))

    def advance(
        self, state: State, now: datetime, *, at_once: bool = False, ends: bool = False
    ) -> None:
        """Append FINALIZE if topics are complete up to a later time; called in every pass.

        Args:
            state: of the lane.
            now: the current time.
            at_once: look at the topics even if that was done a moment ago.
            ends: the driver ends, so nothing is merged first.

        Raises:
            Retry: the store does not answer; the next pass tries again.
            Fenced: another driver has opened the lane.
        """
        looked_at = self._observer.seen_whole_at
        if self._completeness is None or looked_at is None:
            return
        self._note_look(state, now)
        pause = WAITING_INTERVAL if self._waits else INTERVAL
        is_early = self._decided_at is not None and now - self._decided_at < pause
        if is_early and not at_once:
            return
        delay = self._completeness.delay
        look = LogLook(
            _millis(looked_at),
            self._idle_ends(looked_at, now - delay),
            {tp for topic in self._observer.topics for tp in topic.topic_partitions},
            former_members(state, self._observer.topics),
        )
        complete, self.held = horizons(state, look, delay // _MILLISECOND, self._boundary)
        wanted = {horizon.topic: horizon.until for horizon in complete}
        ready = self.merged_first(state, wanted, ends=ends)
        self._waits = len(ready) < len(wanted)
        later = tuple(
            replace(horizon, until=ready[horizon.topic])
            for horizon in complete
            if horizon.topic in ready
        )
        if later:
            made = partial(
                ledger.Finalize, delay=delay // _MILLISECOND, looked=look.at, entries=later
            )
            self._append(made)
            log.info("topics completed", extra={"topics": len(later)})
        self._decided_at = now

    def _boundary(self, topic: str, until: int) -> int:
        return self._calendars.of(topic).boundary(until)

    def _idle_ends(self, looked_at: datetime, before: datetime) -> Mapping[TopicPartition, int]:
        """Return end offsets that were also the high watermarks, unchanged since ``before``.

        Records after the end offset, in a transaction that is open, are older than the look.
        """
        marks, high = self._observer.watermarks, self._observer.high
        since = min(looked_at, before)
        return {
            tp: mark.end
            for tp, mark in marks.items()
            if high.get(tp) == mark.end
            and tp not in self._observer.view.unavailable
            and (idle := self._idle_since.get(tp)) is not None
            and idle <= since
        }


def _idle_since(state: State, tp: TopicPartition, end: int, now: datetime) -> datetime:
    """Return since when a topic partition is known to be idle that is seen for the first time."""
    if state.looked_at is None or tp not in state.members or state.checkpoint[tp] != end:
        return now
    return min(now, datetime.fromisoformat(state.looked_at) + CLOCKS_APART)


def _millis(time: datetime) -> int:
    return int(time.timestamp() * 1000)
