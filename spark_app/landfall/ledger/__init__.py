"""The ledger: the append-only chain of records that says what is landed, and its fold. Pure.

A lane's ledger is a chain of small JSON records, one per slot. A slot is created once and never
changed. ``fold`` takes a lane's state over the next slot or raises; the state folded from the start
says everything: which offsets are landed, which objects are decided but perhaps not visible yet,
and who may write next. Appending a COMMIT is the commit point: before it nothing is landed, after
it everything it names is.

``records`` has the record types and their bytes, ``entries`` what they list, ``state`` what they
add up to, ``totals`` its counters, ``folding``, ``decisions``, ``completeness``, ``runs`` and
``feeds`` the fold, ``snapshot`` a state as bytes, ``part_lists`` the parts of files that a DISCOVER
names, ``offsets`` the arithmetic of ranges, ``task_results`` what tasks return, ``object_names``
the keys.
Reading the chain from a store and appending to it is in ``landfall.lane``, outside this package:
nothing here does I/O, reads a clock or logs.
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
    Rolled,
)
from landfall.ledger.folding import fold, fold_applied
from landfall.ledger.records import (
    GENESIS_HASH,
    VERSION,
    Add,
    Applied,
    Block,
    Commit,
    Discover,
    Drop,
    Finalize,
    Header,
    Hole,
    Lost,
    Open,
    Record,
    Repair,
    Replay,
    Run,
    Segment,
    Snapshot,
    Unblock,
    Yield,
    decode,
    digest,
    encode,
    ledger_error,
)
from landfall.ledger.state import (
    MAY_FOLLOW,
    EndedRun,
    Feed,
    LaneOwnership,
    Member,
    ParkedPart,
    PendingHorizon,
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
    "Feed",
    "Finalize",
    "Header",
    "Hole",
    "Horizon",
    "KnownFiles",
    "LaneOwnership",
    "Lost",
    "Member",
    "Missing",
    "Open",
    "ParkedPart",
    "PartList",
    "PendingHorizon",
    "Permission",
    "Record",
    "Repair",
    "Replay",
    "Rolled",
    "Run",
    "Segment",
    "Snapshot",
    "State",
    "Totals",
    "Unblock",
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
]
