"""The ledger: the append-only chain of records of what is landed, and its fold. Pure.

A lane's ledger is a chain of small JSON records, one per slot. A slot is created once and never
changed. ``fold`` takes a lane's state over the next slot or raises; the state folded from the start
contains everything: which offsets are landed, which objects are decided but perhaps not visible
yet, and who may write next. Appending a COMMIT is the commit point: before it nothing is landed,
after it everything it names is.

``records`` has the record types and their bytes, ``entries`` what they list, ``state`` what they
add up to, ``totals`` its counters, ``folding``, ``decisions``, ``completeness`` and ``runs`` the
fold, ``effects`` what each record does, as events for all other readers, ``opened`` by which spec
objects were made, ``snapshot`` a state as bytes, ``segments`` closed stretches as bytes,
``offsets`` the arithmetic of ranges, ``task_results`` what tasks return. Three rooms: ``feeds`` has
files as a source, with the lists of their parts and the leases of these; ``replace`` the objects
that replace older ones; ``names`` the keys of all that is stored. Reading the chain from a store
and appending to it is in ``landfall.lane``, outside this package: nothing here does I/O, reads a
clock or logs.
"""

from landfall.ledger.entries import (
    Blocked,
    ClosedTopic,
    Decision,
    Entry,
    Horizon,
    KnownFiles,
    Missing,
    PartList,
    Permission,
    Purpose,
    Replacement,
    Rolled,
)
from landfall.ledger.folding import Visible, fold, fold_applied
from landfall.ledger.header import VERSION, Header
from landfall.ledger.records import (
    GENESIS_HASH,
    Add,
    Applied,
    Block,
    Commit,
    Discover,
    Drop,
    Extend,
    Finalize,
    Hole,
    Lease,
    LeaseOutcome,
    Lost,
    Open,
    Record,
    Repair,
    Replace,
    Replay,
    Retired,
    Run,
    Segment,
    Snapshot,
    Unblock,
    Yield,
    decode,
    digest,
    encode,
    ledger_error,
    time_of,
)
from landfall.ledger.state import (
    MAY_FOLLOW,
    EndedRun,
    FeedState,
    LaneOwnership,
    LeasedPart,
    Leasing,
    Member,
    OpenLease,
    ParkedPart,
    PendingHorizon,
    PendingReplacement,
    State,
    applied_through,
    next_header,
)
from landfall.ledger.totals import Totals, Work

__all__ = [
    "GENESIS_HASH",
    "MAY_FOLLOW",
    "VERSION",
    "Add",
    "Applied",
    "Block",
    "Blocked",
    "ClosedTopic",
    "Commit",
    "Decision",
    "Discover",
    "Drop",
    "EndedRun",
    "Entry",
    "Extend",
    "FeedState",
    "Finalize",
    "Header",
    "Hole",
    "Horizon",
    "KnownFiles",
    "LaneOwnership",
    "Lease",
    "LeaseOutcome",
    "LeasedPart",
    "Leasing",
    "Lost",
    "Member",
    "Missing",
    "Open",
    "OpenLease",
    "ParkedPart",
    "PartList",
    "PendingHorizon",
    "PendingReplacement",
    "Permission",
    "Purpose",
    "Record",
    "Repair",
    "Replace",
    "Replacement",
    "Replay",
    "Retired",
    "Rolled",
    "Run",
    "Segment",
    "Snapshot",
    "State",
    "Totals",
    "Unblock",
    "Visible",
    "Work",
    "Yield",
    "applied_through",
    "decode",
    "digest",
    "encode",
    "fold",
    "fold_applied",
    "ledger_error",
    "next_header",
    "time_of",
]
