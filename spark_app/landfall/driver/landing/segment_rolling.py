"""Rolls old slots of the ledger up into segments, so that the ledger does not grow without end.

The driver's thread seals epochs and appends records; a background thread stores segments and
deletes slots. Nothing waits for it: if the store refuses, slots stay as they are, that is logged
once, and the next attempt comes a minute later. See
docs/adr/0009-slots-go-once-a-segment-holds-them.md.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta

from landfall import ledger
from landfall.driver.core.background import Background
from landfall.errors import LandfallError
from landfall.lane import (
    Lane,
    LaneWriter,
    delete_old_snapshots,
    delete_rolled_slots,
    sealed_through,
    store_segment,
)
from landfall.ledger import Rolled, State

log = logging.getLogger(__name__)

RETRY_INTERVAL = timedelta(minutes=1)
MAX_SEGMENTS_AT_ONCE = 4
"""A segment holds at most this many times ``segmentEvery`` slots, if epochs are not longer."""


@dataclass
class SegmentRolling:
    """Used by the driver's thread alone.

    Attributes:
        writer: the right to append to the lane.
        background: makes the thread that stores and deletes.
        every: the number of slots of a segment.
        notify: called from that thread when ``advance`` has something to do.
    """

    writer: LaneWriter
    background: Background
    every: int
    notify: Callable[[], None]

    def __post_init__(self) -> None:
        self._pool = self.background.pool(1, "segments")
        self._running: Future[Rolled] | None = None
        self._not_before: datetime | None = None
        self._failure: type[Exception] | None = None
        # A driver before this one may have died between its SEGMENT record and the deletion. Its
        # slots are deleted again when the next segment is due, not at every start.
        self._may_delete = True
        self._has_recorded = False

    def advance(self, now: datetime, applied_through: int) -> None:
        """Seal, record or start what is due.

        Raises:
            Fenced: another driver has opened the lane.
            Retry: the snapshot after a seal or before a deletion was not stored.
        """
        if self._running:
            if self._running.done():
                self._finish(self._result(self._running), now, applied_through)
            return
        if self.writer.state.next_index >= self.every:
            self.writer.seal()
            # In the first slot of its epoch, which is never deleted: the head then names no slot
            # that is gone.
            self.writer.snapshot(applied_through)
        if self._may_start(now):
            self._start(now, applied_through)

    def is_due(self, now: datetime) -> bool:
        """Return whether something runs or can start, so that a driver should not end yet."""
        if self._running:
            return True
        return self._may_start(now) and (self._is_deletion_due or self._is_segment_due)

    def stop(self) -> None:
        """Return when what was started has ended; a segment that no record names does no harm."""
        self._pool.shutdown(wait=True)

    def _may_start(self, now: datetime) -> bool:
        return self._not_before is None or now >= self._not_before

    @property
    def _last(self) -> int:
        """The last slot of the segment that is stored next."""
        return sealed_through(self.writer.state, MAX_SEGMENTS_AT_ONCE * self.every)

    @property
    def _is_segment_due(self) -> bool:
        state, last = self.writer.state, self._last
        return last + 1 - state.epochs[0] >= self.every and state.seq > last

    @property
    def _is_deletion_due(self) -> bool:
        owes = self.writer.state.segments and self._may_delete
        return bool(owes) and (self._has_recorded or self._is_segment_due)

    @property
    def _has_later_snapshot(self) -> bool:
        return self.writer.state.snapshot_seq > self.writer.state.segments[-1].last

    def _start(self, now: datetime, applied_through: int) -> None:
        lane = self.writer.lane
        if self._is_deletion_due:
            self._not_before = now + RETRY_INTERVAL
            # Only once a snapshot came after the segment, so that no driver needs the slots to
            # open.
            if not self._has_later_snapshot:
                self.writer.snapshot(applied_through)
            if not self._has_later_snapshot:
                return  # the key was taken: in a minute, it is another one
            self._running = self._pool.submit(_delete, lane, self.writer.state)
        elif self._is_segment_due:
            self._not_before = now + RETRY_INTERVAL
            self._running = self._pool.submit(_store, lane, self.writer.state, self._last)
        if self._running:
            self._running.add_done_callback(lambda _: self.notify())

    def _result(self, done: "Future[Rolled]") -> Rolled | None:
        """Return what was stored or deleted; None if that failed, which is logged once."""
        try:
            rolled = done.result()
        except (LandfallError, ValueError) as error:
            if type(error) is not self._failure:  # a store that denies does so every minute
                log.warning("old slots not deleted: the ledger grows", extra={"why": str(error)})
            self._failure = type(error)
            return None
        self._failure = None
        return rolled

    def _finish(self, rolled: Rolled | None, now: datetime, applied_through: int) -> None:
        self._running = None
        if rolled is None:
            return
        self._not_before = now
        state = self.writer.state
        if state.segments and rolled == state.segments[-1]:
            self._may_delete = False
            return
        state = self.writer.append(
            lambda header: ledger.Segment(header=header, rolled=rolled), applied_through
        )
        slots = rolled.last + 1 - rolled.first
        log.info("segment recorded", extra={"slot": state.seq, "slots": slots})
        self._may_delete = True
        self._has_recorded = True


def _delete(lane: Lane, state: State) -> Rolled:
    """Delete the slots of the last segment, and old snapshots.

    Raises:
        LandfallError: the store does not delete slots.
    """
    rolled = state.segments[-1]
    delete_rolled_slots(lane.slots, lane.group, lane.name, rolled)
    try:
        delete_old_snapshots(lane.slots, lane.group, lane.name, state)
    except LandfallError as error:  # tried again with the next segment, which must not wait
        log.warning("old snapshots not deleted", extra={"why": str(error)})
    return rolled


def _store(lane: Lane, state: State, last: int) -> Rolled:
    """Store a segment through slot ``last``.

    Raises:
        LandfallError, ValueError: it is not stored, or not known to be.
    """
    bodies = lane.slots_to_roll(state, last)
    return store_segment(
        slots=lane.slots, group=lane.group, lane=lane.name, state=state, bodies=bodies
    )
