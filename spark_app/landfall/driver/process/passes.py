"""Steps of the driver's loop that concern several rooms, and what all of them query.

``landfall.driver.process.loop`` makes them and defines in which order they are taken.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from landfall.api.spec import ConsumerGroup
from landfall.driver.backfill.side_leftovers import DiscardedLanes
from landfall.driver.core.deps import DriverDeps, record_failure
from landfall.driver.core.draining import Draining
from landfall.driver.core.parts import DriverPart
from landfall.driver.decide.catch_up import has_caught_up, reached
from landfall.driver.feeds.feeds import Feeds
from landfall.driver.landing.commits import BatchCommitter, blocked_partitions
from landfall.driver.landing.completer import Completer
from landfall.driver.landing.dead_letter_expiry import DeadLetterExpiry
from landfall.driver.landing.goals import Goal
from landfall.driver.landing.housekeeping import Housekeeping
from landfall.driver.landing.in_flight import InFlightBatches
from landfall.driver.landing.lost_uploads import LostUploads
from landfall.driver.landing.membership_sync import MembershipSync
from landfall.driver.landing.orphan_uploads import is_of_landed_range, is_ours
from landfall.driver.landing.segment_rolling import SegmentRolling
from landfall.driver.replacing.replacements import Replacements
from landfall.driver.requests.driver_requests import DriverRequests
from landfall.errors import Retry, Stalled, cause
from landfall.lane import LaneWriter
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition

STARTUP_PATIENCE = timedelta(minutes=2)
"""A driver ends if the source has not answered once in this time: its address may be wrong."""
LOST_FACTOR = 10
"""Landing waits if so many times ``maxUnapplied`` COMMITs wait for lost uploads."""
HELD_FACTOR = 1000
"""Landing waits if so many times ``maxUnapplied`` COMMITs cannot be called applied, since something
before them is not visible: each is a part of every snapshot.
"""


@dataclass
class DriverParts:
    """The parts of a driver, and answers that need all of them.

    Attributes:
        group: the resource.
        writer: the right to append to the lane; has its state.
        deps: the driver's dependencies.
        draining: why and since when the driver ends.
        batches: the ones in flight.
        committer: commits them, and appends what is due between COMMITs.
        completer: makes committed objects visible.
        lost: makes objects again whose uploads are lost.
        membership: keeps the members in step with the log's topics.
        feeds: find files.
        replacements: replace objects.
        goal: what to land before the driver ends.
        requests: carries out requests.
        rolling: rolls up old slots.
        housekeeping: mirrors offsets and aborts uploads.
        expiry: deletes dead letters that have expired.
    """

    group: ConsumerGroup
    writer: LaneWriter
    deps: DriverDeps
    draining: Draining
    batches: InFlightBatches
    committer: BatchCommitter
    completer: Completer
    lost: LostUploads
    membership: MembershipSync
    feeds: Feeds
    replacements: Replacements
    goal: Goal
    requests: DriverRequests
    rolling: SegmentRolling
    housekeeping: Housekeeping
    expiry: DeadLetterExpiry

    @property
    def state(self) -> State:
        """The lane's, after the last record."""
        return self.writer.state

    @property
    def _active(self) -> tuple[DriverPart, ...]:
        """Parts with something under way."""
        return (
            self.membership,
            self.committer,
            self.lost,
            self.completer,
            self.replacements,
        )

    def stalled_partitions(self) -> Mapping[TopicPartition, Stalled]:
        """Topic partitions that are not landed until a user acts, and why."""
        recorded = blocked_partitions(self.state)
        return {**self.membership.blocked_by_source, **self.committer.blocked, **recorded}

    @property
    def is_at_rest(self) -> bool:
        """True if nothing is in flight, and no more of what is committed will be visible soon."""
        return all(part.is_at_rest for part in self._active)

    @property
    def protected_uploads(self) -> frozenset[str]:
        """Ids of open uploads that are no orphans."""
        return frozenset().union(*(part.protected_uploads for part in self._active))

    @property
    def caught_up(self) -> bool:
        """True if all that the first look saw is landed and visible, except what is stalled."""
        return self.is_at_rest and has_caught_up(
            self.state.checkpoint, self.membership.targets, self.stalled_partitions()
        )

    @property
    def has_landed_all(self) -> bool:
        """True if everything that the last look saw is landed and visible."""
        observer = self.deps.observer
        ends = {tp: observer.watermarks[tp].end for tp in observer.unsettled}
        if ends.keys() != reached(self.state.checkpoint, ends):
            return False
        is_landing = self.batches or self.completer.unapplied
        return not (is_landing or self.stalled_partitions())

    @property
    def has_too_much_unapplied(self) -> bool:
        """True if the COMMITs so far must become visible before there are more.

        COMMITs that wait only for lost uploads hold nothing up, unless there are very many: what is
        unapplied is a part of every snapshot.
        """
        allowed = self.group.spec.tuning.max_unapplied
        is_held = len(self.state.unapplied) >= HELD_FACTOR * allowed
        is_lost = self.completer.unapplied >= LOST_FACTOR * allowed
        return self.completer.completing >= allowed or is_lost or is_held


@dataclass
class LogLooks(DriverPart):
    """Looks at the log, or at the files of feeds, when it is time."""

    parts: DriverParts

    def __post_init__(self) -> None:
        self._began = self.parts.deps.clock()

    def advance(self, now: datetime) -> None:
        """Look if it is time, and take in what the look has shown.

        Raises:
            Retry: the source has not answered once for ``STARTUP_PATIENCE``.
        """
        parts = self.parts
        counters = parts.deps.counters
        try:
            if parts.deps.observer.is_due(now):
                self._look(now)
            if counters.consecutive_failures and parts.has_landed_all:
                # Only a COMMIT resets the count otherwise, and there is nothing to commit.
                counters.consecutive_failures = 0
        except Retry as error:
            record_failure(parts.deps, cause(error, "SourceUnavailable"), error)
            if parts.membership.targets is None and now - self._began > STARTUP_PATIENCE:
                raise

    def _look(self, now: datetime) -> None:
        parts = self.parts
        in_flight = parts.batches.in_flight()
        waiting = parts.completer.topic_partitions
        at_rest = parts.committer.is_at_rest and parts.completer.is_at_rest
        state = parts.feeds.look(parts.state, now, parts.goal.due.until)
        parts.membership.look(state, now, in_flight, waiting, at_rest=at_rest)
        parts.membership.forget_targets(unless=parts.feeds.are_found)
        stalled = parts.stalled_partitions()
        grown = parts.deps.observer.grown
        arrived = (parts.feeds.arrived(tp, n) for tp, n in grown.items() if tp not in stalled)
        parts.deps.counters.arrived += sum(arrived)
        parts.goal.look(parts.state, now)


@dataclass
class GoalCheck(DriverPart):
    """Finds out whether the driver has landed what it was to land."""

    parts: DriverParts

    def advance(self, now: datetime) -> None:  # noqa: ARG002  # of every part
        """Let the goal record its end; the next pass does if the store does not answer."""
        parts = self.parts
        state = parts.state
        applied = parts.completer.applied_through
        is_held = any(slot > applied for slot in state.unapplied)  # by a REPLACE
        waits = parts.completer.unapplied or is_held or parts.membership.awaits_deleted
        is_landed = parts.is_at_rest and not waits
        try:
            stalled, waiting = parts.stalled_partitions(), parts.feeds.waiting
            parts.goal.advance(state, stalled, waiting, is_landed=is_landed)
        except Retry as error:
            record_failure(parts.deps, cause(error, "RunFailed"), error)

    def stop(self) -> None:
        """End what the goal does in the background."""
        self.parts.goal.stop()


@dataclass
class BatchStarts(DriverPart):
    """Starts the batches that are due.

    Attributes:
        is_stopping: whether the driver is to end, so that nothing is started.
        until_caught_up: what arrives after the first look is left to a later run.
    """

    parts: DriverParts
    is_stopping: Callable[[datetime], bool]
    until_caught_up: bool

    def advance(self, now: datetime) -> None:
        """Start them, unless the driver is to end."""
        if not self.is_stopping(now):
            self._start(now)

    def _start(self, now: datetime) -> None:
        parts = self.parts
        is_waiting = parts.has_too_much_unapplied or parts.membership.leaving
        if parts.batches.is_full or is_waiting:
            return
        checkpoint = parts.state.checkpoint
        targets = parts.membership.targets or {}
        parts.batches.follow(parts.state)
        # With until_caught_up, records that arrive after the first look are left to a later run.
        skip = reached(checkpoint, targets) if self.until_caught_up else ()
        backlogs = parts.goal.due.within(parts.deps.observer.backlogs(checkpoint, skip, now))
        backlogs = parts.feeds.with_parts(parts.state, backlogs)
        flush = self.until_caught_up or parts.goal.due.is_closing
        stalled = parts.stalled_partitions().keys() | parts.requests.held
        parts.batches.start(backlogs, stalled, now, flush=flush)


@dataclass
class LaneUpkeep(DriverPart):
    """Appends the records that no batch needs: snapshots, FINALIZE, APPLIED and segments."""

    parts: DriverParts

    def advance(self, now: datetime) -> None:
        """Append what is due, unless the driver must end."""
        parts = self.parts
        if parts.draining.must_end:
            return
        parts.committer.append_if_due(now, at_once=parts.draining.reason is not None)
        try:
            parts.rolling.advance(now, parts.completer.applied_through)
        except Retry as error:  # the next pass tries again
            record_failure(parts.deps, cause(error, "SnapshotFailed"), error)

    def finish(self) -> None:
        """Return when no segment is being stored."""
        self.parts.rolling.stop()


@dataclass
class StoreUpkeep(DriverPart):
    """Mirrors offsets, aborts uploads that will never be committed, and expires dead letters."""

    parts: DriverParts

    def begin_first_sweep(self, now: datetime) -> None:
        """Begin to abort every open upload of former drivers; uploads of COMMITs stay."""
        parts = self.parts
        parts.housekeeping.begin_first_sweep(
            is_ours=self.is_ours,
            decided=parts.protected_uploads,
            now=now,
            is_discarded=self._discarded_lanes().have,
        )

    def advance(self, now: datetime) -> None:
        """Begin what is due, in the background."""
        parts = self.parts
        self.mirror()
        checkpoint = parts.state.checkpoint
        parts.housekeeping.abort_orphans_if_due(
            is_ours=partial(is_of_landed_range, parts.group.metadata.name, checkpoint),
            decided=parts.protected_uploads,
            now=now,
            age=parts.group.spec.tuning.orphan_age,
            is_discarded=self._discarded_lanes().have,
        )
        is_replaying = parts.requests.is_carrying_out
        parts.expiry.start_if_due(parts.state, now, is_replaying=is_replaying)

    def mirror(self) -> None:
        """Commit offsets to Kafka of what is visible: its tools must not show more as read."""
        parts = self.parts
        parts.housekeeping.mirror(parts.completer.applied_through, parts.lost.missing)

    def is_ours(self, key: str) -> bool:
        """Return whether an upload with this key is of this lane."""
        parts = self.parts
        return is_ours(parts.group.metadata.name, parts.state.members, key)

    def _discarded_lanes(self) -> DiscardedLanes:
        parts = self.parts
        return DiscardedLanes(parts.deps.store, parts.group.metadata.name)

    def finish(self) -> None:
        """Return when what is being deleted, aborted or mirrored is."""
        parts = self.parts
        parts.expiry.stop()
        parts.housekeeping.finish()
