"""Keeps records out of destinations that belong to another group.

A destination comes from the record, so it is not known before: it may be where another group has
its output root. Objects of both could have the same name then, and the later one would replace the
earlier. So a destination, and each folder above it, is claimed before the first object in it is
begun, as an output root is when a driver starts: of two groups, one gets it, in any order
of arrival. What a group has claimed stays its own, so a range that is read again is landed as
before. See [decision 19](adr/0019-a-destination-is-claimed.md).
"""

from dataclasses import replace
from itertools import accumulate

import numpy as np

from landfall.lane import claim
from landfall.ledger.names import folders
from landfall.pipeline.records import Records
from landfall.store import Slots
from landfall.task.partitioning import BadRecord, PartitionedChunk


class Destinations:
    """The destinations that a group has asked for; may be used by one thread at a time."""

    def __init__(self, slots: Slots, owner: str) -> None:
        """Claim nothing yet; ``owner`` is the namespace and the name of the group."""
        self._slots = slots
        self._owner = owner
        self._owners: dict[str, str] = {}

    def refuse(self, chunk: PartitionedChunk, records: Records) -> PartitionedChunk:
        """The chunk with bad records in place of rows whose destination is another group's.

        Raises:
            Retry: the store failed.
        """
        occupied = [self._occupied(partition) for partition, _ in chunk.chosen]
        if not any(occupied):
            return chunk
        bad = {record.row: record for record in chunk.bad}
        for (_, rows), why in zip(chunk.chosen, occupied, strict=True):
            if why:
                for row in np.searchsorted(records.offsets, rows.offsets).tolist():
                    bad[row] = BadRecord(row, "route", why)
        kept = [not why for why in occupied]
        return replace(
            chunk,
            chosen=tuple(o for o, is_kept in zip(chunk.chosen, kept, strict=True) if is_kept),
            schemas=tuple(
                s
                for s, is_kept in zip(chunk.schemas, kept if chunk.schemas else (), strict=True)
                if is_kept
            ),
            bad=tuple(bad[row] for row in sorted(bad)),
        )

    def _occupied(self, partition: str) -> str:
        """Why no object may be in the destination of an output partition; empty if one may."""
        destination, _ = folders.directories(partition)
        if not destination:
            return ""
        for folder in accumulate(destination.split("/"), lambda above, name: f"{above}/{name}"):
            if folder not in self._owners:
                self._owners[folder] = claim(self._slots, self._owner, folder)
            if self._owners[folder] != self._owner:
                return f"{folder} belongs to {self._owners[folder]}: its output root is there"
        return ""
