"""Reads a lane's ledger from the store, and appends to it.

Exactly one record wins each slot, no matter how many append, and a driver learns for certain
whether the record is its own. The slots of an epoch are numbered from 0 under a prefix of their
own; only its owner appends there, and the OPEN of the next epoch takes its first free slot, which
seals it. Slots of sealed epochs may go once a segment holds their bytes, but never the first of an
epoch nor the one that seals it: a driver that was frozen may create a slot again that is gone, and
then finds the next epoch's first slot taken.

``reading`` has ``Lane``, ``writing`` has ``LaneWriter``, ``segments`` what is rolled up,
``locating`` finds an offset there.
"""

from landfall.lane.locating import last_records, records_in_segments
from landfall.lane.reading import Lane, Read
from landfall.lane.segments import (
    StoredSegment,
    delete_old_snapshots,
    delete_rolled_slots,
    sealed_through,
    store_segment,
)
from landfall.lane.writing import (
    Clock,
    LaneWriter,
    OnRetry,
    OpenRequest,
    claim,
    claim_output_root,
    output_owner,
)

__all__ = [
    "Clock",
    "Lane",
    "LaneWriter",
    "OnRetry",
    "OpenRequest",
    "Read",
    "StoredSegment",
    "claim",
    "claim_output_root",
    "delete_old_snapshots",
    "delete_rolled_slots",
    "last_records",
    "output_owner",
    "records_in_segments",
    "sealed_through",
    "store_segment",
]
