"""Keeps the lane's members, its topic partitions, in step with the topics of the log.

``landfall.driver.decide.membership`` decides what should change. This module writes it to the
ledger, in an order that matters: a topic that was deleted and created again leaves before the new
topic of that name enters, and neither happens while a batch of the old topic is in flight.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import partial

from landfall import ledger
from landfall.api.spec import Kafka
from landfall.driver.decide import membership
from landfall.driver.observer import Observer
from landfall.errors import Stalled
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition

log = logging.getLogger(__name__)

Append = Callable[[Callable[..., ledger.Record]], State]


class MembershipSync:
    """Used by the driver's thread alone.

    Attributes:
        absent: what the spec asks for and the log does not have.
        blocked_by_source: topic partitions that the state of the log keeps from being landed, and
            why.
        leaving: topic partitions of recreated topics that leave as soon as no batch is in flight.
        targets: the end offsets at the first look; None before it, and again after a topic was
            recreated until the next look.
    """

    def __init__(self, kafka: Kafka, observer: Observer, append: Append) -> None:
        self._kafka, self._observer, self._append = kafka, observer, append
        self.absent: tuple[Stalled, ...] = ()
        self.blocked_by_source: Mapping[TopicPartition, Stalled] = {}
        self.leaving: tuple[TopicPartition, ...] = ()
        self.targets: Mapping[TopicPartition, int] | None = None

    def look(
        self, state: State, now: datetime, in_flight: Collection[TopicPartition], *, at_rest: bool
    ) -> None:
        """Look at the log, and append the membership changes and HOLEs that follow to the ledger.

        Args:
            state: of the lane.
            now: the time.
            in_flight: topic partitions that are being landed.
            at_rest: no batch is in flight, and all that is committed is visible.

        Raises:
            Retry: the log does not answer.
        """
        observer = self._observer
        observer.look(now)
        self.absent = membership.absent(self._kafka, observer.topics, state)
        changes = membership.changes(state, observer.topics)
        # A batch in flight belongs to the old topic. It must end before the new topic takes the old
        # one's place in the ledger.
        self.leaving = () if at_rest else changes.leave
        if changes.leave and not self.leaving:
            state = self._append(
                partial(ledger.Drop, topic_partitions=changes.leave, reason="topic recreated")
            )
            self.targets = None  # the new topic has other end offsets
        state = self._enter(state, tuple(tp for tp in changes.enter if tp not in self.leaving))
        checks = membership.check_source(
            state, self._kafka, observer.watermarks, observer.last_ends
        )
        for hole in checks.holes:
            # A batch in flight starts at this checkpoint, which the HOLE would move.
            if hole.topic_partition not in in_flight:
                state = self._append(
                    partial(ledger.Hole, piece=hole, reason="expired before it was landed")
                )
                log.warning("lost range skipped", extra={"slice": str(hole)})
        self.blocked_by_source = {**checks.blocked, **changes.recreated}
        observer.record_arrivals(state.checkpoint, now)
        if self.targets is None:
            self.targets = {tp: marks.end for tp, marks in observer.watermarks.items()}

    def _enter(self, state: State, entering: tuple[TopicPartition, ...]) -> State:
        if not entering:
            return state
        observer = self._observer
        time = membership.starting_time(self._kafka)
        is_first_open = not (state.members or state.retired)
        at_time = observer.log.offsets_at(entering, time) if time and is_first_open else {}
        starts = membership.first_offsets(
            self._kafka, entering, observer.watermarks, at_time, is_first_open=is_first_open
        )
        ids = {topic.name: topic.topic_id for topic in observer.topics}
        entries = tuple(
            ledger.Entry(tp, ids[tp.topic], start) for tp, start in sorted(starts.items())
        )
        return self._append(partial(ledger.Add, entries=entries)) if entries else state
