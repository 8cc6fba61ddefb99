"""Which topic partitions the lane has, held against the log again and again, and what of it stands still.

What should be is decided by ``membership``; here it is written into the ledger, in an order that
matters: a topic that was recreated leaves before its namesake enters, and neither while something
of it is under way.
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
        absent: topics that are named and not there.
        gated: topic partitions that the log or the ledger does not let go on.
        leaving: those that wait for what is under way to end, before they leave.
        targets: where each ended at the first look; None before it, and again when a topic was
            recreated.
    """

    def __init__(self, kafka: Kafka, observer: Observer, append: Append) -> None:
        """Nothing is looked at yet."""
        self._kafka, self._observer, self._append = kafka, observer, append
        self.absent: tuple[Stalled, ...] = ()
        self.blocked_by_source: Mapping[TopicPartition, Stalled] = {}
        self.leaving: tuple[TopicPartition, ...] = ()
        self.targets: Mapping[TopicPartition, int] | None = None

    def look(
        self, state: State, now: datetime, in_flight: Collection[TopicPartition], *, at_rest: bool
    ) -> None:
        """Look at the log, and let the ledger follow.

        Args:
            state: of the lane.
            now: the time.
            in_flight: topic partitions that are being landed.
            at_rest: nothing is under way, and all that is committed is visible.

        Raises:
            Retry: the log cannot answer.
        """
        observer = self._observer
        observer.look(now)
        self.absent = membership.absent(self._kafka, observer.topics, state)
        changes = membership.changes(state, observer.topics)
        # what is under way belongs to the old topic: it ends before the new one takes its place in
        # the ledger
        self.leaving = () if at_rest else changes.leave
        if changes.leave and not self.leaving:
            state = self._append(
                partial(ledger.Drop, topic_partitions=changes.leave, reason="topic recreated")
            )
            self.targets = None  # the new one's ends are others
        state = self._enter(state, tuple(tp for tp in changes.enter if tp not in self.leaving))
        gates = membership.gates(state, self._kafka, observer.watermarks, observer.last_ends)
        for piece in gates.holes:
            if piece.topic_partition not in in_flight:
                state = self._append(
                    partial(ledger.Hole, piece=piece, reason="expired before it was landed")
                )
                log.warning("lost range skipped", extra={"slice": str(piece)})
        self.blocked_by_source = {**gates.blocked, **changes.recreated}
        observer.note(state.checkpoint, now)
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
