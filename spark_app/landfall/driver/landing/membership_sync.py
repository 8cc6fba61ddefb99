"""Keeps the lane's members, its topic partitions, in step with the topics of the log.

``landfall.source.membership`` decides what should change. This module writes it to the
ledger, in an order that matters: a topic that was deleted and created again leaves before the new
topic of that name enters, and neither happens while a batch of the old topic is in flight.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import compress
from operator import is_, is_not

from landfall import ledger
from landfall.api.spec import Source
from landfall.driver.core.observer import Observer
from landfall.driver.core.parts import DriverPart
from landfall.driver.decide import deleted
from landfall.driver.landing.existing_objects import ExistingObjects
from landfall.driver.landing.lost_ranges import LostRanges
from landfall.errors import Stalled
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition
from landfall.ledger.state import Member
from landfall.source import FoundTopics, membership

log = logging.getLogger(__name__)

Append = Callable[[Callable[..., ledger.Record]], State]


class MembershipSync(DriverPart):
    """Used by the driver's thread alone.

    Attributes:
        absent: what the spec asks for and the log does not have.
        blocked_by_source: topic partitions that the state of the log keeps from being landed, and
            why.
        lost_ranges: decides about offsets that Kafka has lost.
        leaving: topic partitions of recreated topics that leave as soon as no batch is in flight
            and nothing that they have committed waits to be visible.
        awaits_deleted: whether members may leave, or be blocked, as their topics are gone: that is
            recorded once they have been for a while.
        targets: the end offsets at the first look; None before it, and again after a topic was
            recreated until the next look.
    """

    def __init__(
        self,
        source: Source,
        observer: Observer,
        append: Append,
        existing: ExistingObjects,
        lost_ranges: LostRanges,
    ) -> None:
        self._source = source
        self._observer = observer
        self._append = append
        self._existing = existing
        self.lost_ranges = lost_ranges
        self.absent: tuple[Stalled, ...] = ()
        self.blocked_by_source: Mapping[TopicPartition, Stalled] = {}
        self.leaving: tuple[TopicPartition, ...] = ()
        self.awaits_deleted = False
        self.targets: Mapping[TopicPartition, int] | None = None
        self._refused: Mapping[TopicPartition, Stalled] = {}
        self._unseen: set[TopicPartition] = set()
        self._compared: tuple[object, ...] = ()
        self._members: Mapping[TopicPartition, Member] = {}
        self._changes: membership.Changes
        self._at_first_look: frozenset[TopicPartition] | None = None
        self._denied_at_first_look: frozenset[str] = frozenset()
        self._first_looked_at: datetime
        self._latest_since: datetime | None = None
        self._deleted_since: Mapping[TopicPartition, datetime] = {}

    def look(
        self,
        state: State,
        now: datetime,
        in_flight: Collection[TopicPartition],
        waiting: Collection[TopicPartition],
        *,
        at_rest: bool,
    ) -> None:
        """Look at the log, and append the membership changes and HOLEs that follow to the ledger.

        Args:
            state: of the lane.
            now: the time.
            in_flight: topic partitions that are being landed.
            waiting: topic partitions with committed objects that are not visible yet.
            at_rest: no batch is in flight, and all that is committed is visible.

        Raises:
            Retry: the log does not answer.
        """
        observer = self._observer
        observer.look(now, state.checkpoint)
        self._remember_first_look(state, now)
        changes = self._compare(state)
        # A batch in flight belongs to the old topic. It must end before the new topic takes the old
        # one's place in the ledger. What was lost of the old one would be made of the new one then.
        self.leaving = () if at_rest and not {*changes.leave} & {*waiting} else changes.leave
        if changes.leave and not self.leaving:
            state = self._append(
                partial(ledger.Drop, topic_partitions=changes.leave, reason="topic recreated")
            )
            self.targets = None  # the new topic has other end offsets
        entering = tuple(sorted({*changes.enter} - {*self.leaving, *waiting}))
        state = self._enter(state, entering, now)
        state = self._settle_deleted(state, now, {*in_flight, *waiting})
        self.awaits_deleted = any(
            now - since < deleted.PATIENCE and tp in state.members and tp not in state.blocked
            for tp, since in self._deleted_since.items()
        )
        checks = self._read_elsewhere(state, self._check_source(state), now)
        # The log of a recreated topic is another one: that it is shorter is no truncation.
        others = {*in_flight, *changes.recreated, *self.leaving}
        checks = self._without_new_topics(state, checks, others)
        state = self._record_losses(state, checks, in_flight, others)
        self.blocked_by_source = {
            **membership.unavailable(observer.view.unavailable),
            **self._stalled_by_deletion(state),
            **checks.blocked,
            **changes.recreated,
            **self._refused,
        }
        observer.record_arrivals(state.checkpoint, now)
        self._aim(state)

    @property
    def is_at_rest(self) -> bool:
        """True if the members match the log: what an old look did not find may exist now."""
        return not (self._observer.must_discover or self.leaving)

    @property
    def note(self) -> str:
        """A line for the status on lost ranges that are read elsewhere; empty if there are none."""
        return self.lost_ranges.note

    def forget_targets(self, *, unless: bool) -> None:
        """Let the next look find where the log ends, since this one could not know."""
        if not unless:
            self.targets = None

    def _check_source(self, state: State) -> membership.SourceChecks:
        """Compare the log with the members whose end offset is not their checkpoint.

        Only with topic partitions that answer: the rest are known as they were, perhaps before
        another process landed more of them.
        """
        observer = self._observer
        answering = state.checkpoint.next_offsets.keys() - observer.view.unavailable.keys()
        unsettled = [tp for tp in observer.unsettled if tp in answering]
        return membership.check_source(state, self._source, observer.watermarks, unsettled)

    def _read_elsewhere(
        self, state: State, checks: membership.SourceChecks, now: datetime
    ) -> membership.SourceChecks:
        """Return the checks with the decisions on lost ranges that another group may have."""
        settled = self.lost_ranges.look(state, checks.lost, now)
        holes, blocked = (*checks.holes, *settled.holes), {**checks.blocked, **settled.blocked}
        return replace(checks, holes=holes, blocked=blocked)

    def _without_new_topics(
        self, state: State, checks: membership.SourceChecks, known: Collection[TopicPartition]
    ) -> membership.SourceChecks:
        """Return the checks without truncations of topics recreated since the last discovery.

        Asked after the offsets, so that a topic that still has the ledger's id had it then. The
        rest are left to the next look, which discovers the new topics. ``known`` are topic
        partitions that are not recorded as truncated in any case.

        Raises:
            Retry: the log does not answer.
        """
        tps = {b.topic_partition for b in checks.truncated} - {*known}
        if not tps:
            return checks
        found = self._observer.log.describe({tp.topic for tp in tps})
        recreated = membership.recreated_topics(state, tps, found)
        if not recreated:
            return checks
        self._observer.force_discovery()
        return replace(
            checks,
            blocked={tp: why for tp, why in checks.blocked.items() if tp not in recreated},
            truncated=tuple(b for b in checks.truncated if b.topic_partition not in recreated),
        )

    def _record_losses(
        self,
        state: State,
        checks: membership.SourceChecks,
        in_flight: Collection[TopicPartition],
        not_truncated: Collection[TopicPartition],
    ) -> State:
        """Skip lost ranges that may be skipped, and block what was truncated."""
        for hole in checks.holes:
            # A batch in flight starts at this checkpoint, which the HOLE would move.
            if hole.topic_partition not in in_flight:
                reason = f"expired before it was landed{self.lost_ranges.nor_elsewhere}"
                state = self._append(partial(ledger.Hole, piece=hole, reason=reason))
                log.warning("lost range skipped", extra={"slice": str(hole)})
        truncated = tuple(b for b in checks.truncated if b.topic_partition not in not_truncated)
        return self._append(partial(ledger.Block, entries=truncated)) if truncated else state

    def _compare(self, state: State) -> membership.Changes:
        """Compare the log's topics with the ledger, unless neither has changed since last time."""
        topics, denied = self._observer.topics, self._observer.denied
        present = (topics, denied, state.generation, state.retired, state.excluded)
        is_unchanged = bool(self._compared) and all(map(is_, self._compared, present))
        if not (is_unchanged and _are_same(self._members, state.members)):
            self.absent = membership.absent(self._source, FoundTopics(topics, denied), state)
            self._changes = membership.changes(state, topics)
            self._compared = present
        # Kept even if they are the same: the next look compares with what is identical for the most
        # part.
        self._members = state.members
        return self._changes

    def _aim(self, state: State) -> None:
        """Set the targets, at the first look or as soon as the log answers after it."""
        watermarks = self._observer.watermarks
        if self.targets is None:
            self.targets = {tp: marks.end for tp, marks in watermarks.items()}
            self._unseen = self._observer.view.unavailable.keys() - watermarks.keys()
        elif answering := self._unseen & watermarks.keys():
            self.targets = {**self.targets, **{tp: watermarks[tp].end for tp in answering}}
            self._unseen -= answering
        left = {
            tp
            for tp in self.targets.keys() - state.members.keys()
            if tp in state.excluded or (tp in state.retired and tp not in self.blocked_by_source)
        }
        if left:  # they are not landed any more, so nothing must wait for them
            self.targets = {tp: end for tp, end in self.targets.items() if tp not in left}

    def _remember_first_look(self, state: State, now: datetime) -> None:
        """Keep what ``Latest`` depends on; see ``membership.first_offsets``."""
        if self._at_first_look is None:
            self._at_first_look = frozenset(
                tp for t in self._observer.topics for tp in t.topic_partitions
            )
            self._denied_at_first_look = frozenset(self._observer.denied)
            self._latest_since = membership.latest_since(self._source, state)
            self._first_looked_at = now
        elif self._latest_since is None:
            # No driver looked before this one. What the log did not answer for at the first look
            # starts where it was then.
            self._latest_since = self._first_looked_at - membership.CLOCK_MARGIN

    def _stalled_by_deletion(self, state: State) -> Mapping[TopicPartition, Stalled]:
        gone = [tp for tp in self._deleted_since if tp in state.members]
        return deleted.stalled(state, self._source, gone, self._observer.last_ends)

    def _settle_deleted(
        self, state: State, now: datetime, kept: Collection[TopicPartition]
    ) -> State:
        """Append what follows for members whose topic has been gone for a while.

        Members in ``kept`` are left to a later look: something of theirs is under way.
        """
        observer = self._observer
        topics = {topic.name for topic in observer.topics} if observer.missing else set()
        self._deleted_since = {
            tp: self._deleted_since.get(tp, now)
            for tp in sorted(observer.missing)
            if tp in state.members and tp.topic not in topics and self._source.selects(tp.topic)
        }
        gone = [tp for tp, time in self._deleted_since.items() if now - time >= deleted.PATIENCE]
        if not gone:
            return state
        gone = [tp for tp in gone if tp not in kept]
        if deleted.settle(state, self._source, gone, observer.last_ends).is_empty:
            return state  # nothing follows, and Kafka need not be asked
        # A topic that only cannot be listed is not gone: its DROP would forget its checkpoint. Nor
        # is one that is denied: whether it exists cannot be seen.
        found_now = observer.log.describe({tp.topic for tp in gone})
        present = found_now.ids.keys() | found_now.denied.keys()
        certain = [tp for tp in gone if tp.topic not in present]
        found = deleted.settle(state, self._source, certain, observer.last_ends)
        for hole, reason in found.holes:
            state = self._append(partial(ledger.Hole, piece=hole, reason=reason))
            log.warning("lost range skipped", extra={"slice": str(hole)})
        for reason in dict.fromkeys(reason for _, reason in found.drops):
            tps = tuple(tp for tp, why in found.drops if why == reason)
            state = self._append(partial(ledger.Drop, topic_partitions=tps, reason=reason))
            log.warning("deleted topics dropped", extra={"why": reason, "dropped": len(tps)})
        if found.blocks:
            state = self._append(partial(ledger.Block, entries=found.blocks))
        return state

    def _enter(self, state: State, entering: tuple[TopicPartition, ...], now: datetime) -> State:
        occupied = self._refused = self._existing.occupied(state, entering, now)
        unfinished = self._existing.unfinished
        entering = tuple(tp for tp in entering if tp not in occupied and tp.topic not in unfinished)
        if not entering:
            return state
        observer = self._observer
        # The former topic of a recreated one may have started elsewhere.
        answered = observer.look_at_starts(entering)
        # What was denied at the first look may have been there, too.
        created = {tp for tp in entering if tp.topic not in self._denied_at_first_look}
        created -= self._at_first_look or frozenset()
        time = membership.starting_time(self._source, self._latest_since)
        marks = {tp: observer.watermarks[tp] for tp in answered if tp in observer.watermarks}
        at_time = observer.log.offsets_at(marks, time) if time else {}
        starts = membership.first_offsets(
            self._source, state, membership.Entering(marks, at_time, created)
        )
        self._refused = {**starts.refused, **occupied}
        ids = {topic.name: topic.topic_id for topic in observer.topics}
        feeds = {feed.topic: feed.is_external for feed in self._source.files}
        entries = tuple(
            ledger.Entry(
                tp,
                ids[tp.topic],
                start,
                feed=tp.topic in feeds,
                external=feeds.get(tp.topic, False),
            )
            for tp, start in sorted(starts.offsets.items())
        )
        return self._append(partial(ledger.Add, entries=entries)) if entries else state


def _are_same(
    before: Mapping[TopicPartition, Member], now: Mapping[TopicPartition, Member]
) -> bool:
    """Return whether the members, their topics and generations are the same.

    A COMMIT makes another mapping, in which few members differ, and those by their last record
    only. So nothing is called for a member that is the same object: 10,000 take a millisecond.
    """
    if before is now:
        return True
    if list(before) != list(now):
        return False
    pairs = zip(before.values(), now.values(), strict=True)
    differ = compress(pairs, map(is_not, before.values(), now.values()))
    return all((a.topic_id, a.generation) == (b.topic_id, b.generation) for a, b in differ)
