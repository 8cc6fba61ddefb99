"""Another group's objects of a range, for the driver, which plans, and the task, which reads.

Driver and tasks ask here, so that they agree: a range can be read if what counts of it now was
landed by a spec that keeps what Kafka held; what was landed there before does not matter.
"""

from collections.abc import Sequence

from landfall.errors import Reason, Stalled
from landfall.landed import pieces
from landfall.landed.history import History, Life
from landfall.landed.pieces import Counting
from landfall.landed.specs import LandedBy, Lists
from landfall.lane.expired_letters import read_expired
from landfall.lane.replacements import read_applied
from landfall.ledger import Record
from landfall.ledger.effects import LettersReplayed, effects
from landfall.ledger.offsets import Slice


class WhatCounts:
    """The objects that count of ranges, by a history. For one thread."""

    def __init__(self, history: History, field: str) -> None:
        """Read nothing yet; ``field`` of the spec names the other group, for messages."""
        self._history = history
        self.landed_by = LandedBy(history, field)

    def of(self, slice_: Slice, life: Life) -> Counting:
        """Return what counts of a slice, in this life of its topic partition.

        Raises:
            Stalled: LEDGER_BROKEN, a segment, a list or a slot is gone or damaged.
            Retry: the store does not answer.
        """
        records = self._history.records(slice_.topic_partition, life, slice_.offsets)
        lists = self._lists(records)
        self.landed_by.take(lists)
        found = pieces.counting(
            group=self._history.lane.group,
            slice_=slice_,
            records=records,
            lists={seq: listed for seq, (_, listed) in lists.items()},
            expired=self._expired(records),
        )
        for range_ in found.ranges:
            try:
                self.landed_by.check(range_.slot, slice_.topic_partition.topic)
            except Stalled as stalled:
                if stalled.reason is not Reason.SPEC_INVALID:
                    raise
                found.faults.append((range_.offsets, stalled))
        return found

    def _expired(self, records: Sequence[Record]) -> int:
        """Dead letters that slots up to this one name have expired; asked if a REPLAY read some."""
        if not any(isinstance(effect, LettersReplayed) for r in records for effect in effects(r)):
            return -1
        lane = self._history.lane
        return read_expired(lane.slots, lane.group, lane.name).through

    def _lists(self, records: Sequence[Record]) -> Lists:
        """The lists of the REPLACEs that are applied, by slot."""
        slots, through = self._history.lane.slots, self._history.state.applied_through
        applied = read_applied(slots, records, through)
        return {record.header.seq: (record, listed) for record, listed in applied}
