"""The state of a lane, folded from its records slot by slot. Pure.

``fold`` is the only way to a new state, for writers and readers alike: a driver folds its own
record before it appends it, so that a record which breaks a rule is never written.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from landfall.ledger.offsets import Checkpoint, TopicPartition
from landfall.ledger.records import (
    GENESIS_HASH,
    Add,
    Commit,
    Drop,
    Header,
    Hole,
    Open,
    Record,
    Repair,
    Snapshot,
    Yield,
    decode,
    digest,
    ledger_error,
)
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind


class LaneOwnership(StrEnum):
    """Whether a driver owns the lane."""

    NOBODY_YET = "nobody yet"
    HELD = "held"
    YIELDED = "yielded"


MAY_FOLLOW: Mapping[LaneOwnership, tuple[type[Record], ...]] = {
    LaneOwnership.NOBODY_YET: (Open,),
    LaneOwnership.HELD: (Open, Add, Drop, Commit, Repair, Hole, Snapshot, Yield),
    LaneOwnership.YIELDED: (Open,),
}
"""Which records may follow, by who owns the lane."""
_AFTER_LOOK = (Add, Drop, Commit, Hole)
"""Records that a driver writes only after it has looked at the log's topics."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Counters over all COMMITs and HOLEs of a lane.

    Attributes:
        commits: COMMIT records.
        objects: data objects; dead-letter objects are not counted.
        landed: records in data objects.
        filtered: records that a transform dropped on purpose.
        dead_lettered: records in dead-letter objects.
        invisible: offsets without a record, see ``LandedSlice``.
        skipped: offsets in HOLEs.
        landed_bytes: bytes of the data objects.
    """

    commits: int = 0
    objects: int = 0
    landed: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    invisible: int = 0
    skipped: int = 0
    landed_bytes: int = 0

    def with_commit(self, slices: tuple[LandedSlice, ...]) -> "Totals":
        """The counters with one more COMMIT of these slices."""
        data = [o for s in slices for o in s.objects if o.kind is ObjectKind.DATA]
        return replace(
            self,
            commits=self.commits + 1,
            objects=self.objects + len(data),
            landed=self.landed + sum(s.landed for s in slices),
            filtered=self.filtered + sum(s.filtered for s in slices),
            dead_lettered=self.dead_lettered + sum(s.dead_lettered for s in slices),
            invisible=self.invisible + sum(s.invisible for s in slices),
            landed_bytes=self.landed_bytes + sum(o.upload.size for o in data),
        )


@dataclass(frozen=True, slots=True)
class Member:
    """A topic partition of the lane.

    ``generation`` is the highest one that added or landed it.
    """

    topic_id: str
    generation: int


@dataclass(frozen=True)
class State:
    """The state of a lane after slot ``seq``.

    Attributes:
        seq: the last slot folded; -1 before the first.
        tip: SHA-256 (hex) of that slot.
        holding: whether a driver owns the lane, which decides what may follow.
        epoch: of the last OPEN.
        writer: of the last OPEN.
        generation: of the last OPEN.
        revision: of the last OPEN; empty if it named none.
        checkpoint: next offset to land per topic partition.
        members: the topic partitions in the checkpoint.
        retired: topic partitions that left, with the highest generation that ever named their
            objects. Offsets of a recreated topic start at 0 again, so only a higher generation can
            name its objects without overwriting the old ones.
        unapplied: per COMMIT slot that is not known to be applied, its decided objects, with
            REPAIRs in effect.
        applied_through: the highest ever recorded.
        snapshot_seq: the last SNAPSHOT slot; -1 for none.
        last_commit_time: of the last COMMIT, as recorded; None if there is none.
        totals: counters since the first slot.
        looked_at: when the last record was written that only a driver which had looked at the log
            writes; None if there is none.
    """

    seq: int = -1
    tip: str = GENESIS_HASH
    holding: LaneOwnership = LaneOwnership.NOBODY_YET
    epoch: int = 0
    writer: str = ""
    generation: int = 0
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    members: Mapping[TopicPartition, Member] = field(default_factory=dict)
    retired: Mapping[TopicPartition, int] = field(default_factory=dict)
    unapplied: Mapping[int, tuple[LandedObject, ...]] = field(default_factory=dict)
    applied_through: int = -1
    snapshot_seq: int = -1
    last_commit_time: str | None = None
    totals: Totals = field(default_factory=Totals)
    revision: str = ""
    looked_at: str | None = None

    def can_open(self, revision: str) -> bool:
        """Whether a driver of this revision may take the lane without asking for a handover.

        It may if no driver owns the lane, or if the owner has the same revision: that is a driver
        that restarts after a crash.
        """
        return self.holding is not LaneOwnership.HELD or self.revision == revision


def applied_through(unapplied: Collection[int], highest: int) -> int:
    """The last slot up to which every COMMIT is applied.

    Args:
        unapplied: slots of the COMMITs that are not applied yet.
        highest: the highest COMMIT slot known; the answer if all are applied.
    """
    return min(unapplied) - 1 if unapplied else highest


def next_header(state: State, writer: str, time: str, applied_through: int) -> Header:
    """The header of the record that follows ``state`` in the same epoch."""
    return Header(
        state.seq + 1,
        state.tip,
        state.epoch,
        writer,
        time,
        max(applied_through, state.applied_through),  # what was recorded as applied stays applied
    )


def fold(state: State, body: bytes) -> State:
    """The state after the next slot, whose bytes are ``body``.

    Raises:
        Stalled: LEDGER_BROKEN, with the slot and the rule it violates: hash chain, epoch, writer,
            order of records, or contiguity of ranges.
    """
    record = decode(state.seq + 1, body)
    _check_header(state, record)
    try:
        after = _apply_record(state, record)
    except ValueError as error:
        raise ledger_error(record.header.seq, str(error)) from error
    applied = max(after.applied_through, record.header.applied_through)
    return replace(
        after,
        seq=record.header.seq,
        tip=digest(body),
        applied_through=applied,
        looked_at=record.header.time if isinstance(record, _AFTER_LOOK) else after.looked_at,
        unapplied={seq: objects for seq, objects in after.unapplied.items() if seq > applied},
    )


def _check_header(state: State, record: Record) -> None:
    header = record.header
    if header.seq != state.seq + 1:
        raise ledger_error(state.seq + 1, f"says it is slot {header.seq}")
    if header.prev != state.tip:
        raise ledger_error(
            header.seq,
            f"follows a slot with hash {header.prev[:12]}, but the slot before is {state.tip[:12]}",
        )
    if not isinstance(record, MAY_FOLLOW[state.holding]):
        raise ledger_error(
            header.seq, f"{type(record).__name__} cannot follow while the lane is {state.holding}"
        )
    if isinstance(record, Open):
        if header.epoch != state.epoch + 1:
            raise ledger_error(header.seq, f"opens epoch {header.epoch} after {state.epoch}")
    # A fenced driver that lost its slot would otherwise be folded as if it still owned the lane.
    elif (header.epoch, header.writer) != (state.epoch, state.writer):
        raise ledger_error(
            header.seq,
            f"written in epoch {header.epoch} by {header.writer}, "
            f"but the lane is held in epoch {state.epoch} by {state.writer}",
        )
    if header.applied_through > state.seq:
        raise ledger_error(
            header.seq, f"applied through {header.applied_through}, which is not before this slot"
        )


def _apply_record(state: State, record: Record) -> State:  # noqa: C901, PLR0911  # one arm per record type
    match record:
        case Open():
            return replace(
                state,
                holding=LaneOwnership.HELD,
                epoch=record.header.epoch,
                writer=record.header.writer,
                generation=record.generation,
                revision=record.revision,
            )
        case Add():
            return _add(state, record)
        case Drop():
            return _drop(state, record)
        case Commit():
            return _commit(state, record)
        case Repair():
            return _repair(state, record)
        case Hole():
            skipped = state.totals.skipped + len(record.piece.offsets)
            totals = replace(state.totals, skipped=skipped)
            return replace(
                state, checkpoint=state.checkpoint.advance([record.piece]), totals=totals
            )
        case Snapshot():
            return replace(state, snapshot_seq=record.header.seq)
        case Yield():
            return replace(state, holding=LaneOwnership.YIELDED)


def _add(state: State, record: Add) -> State:
    _check_generation(state, (entry.topic_partition for entry in record.entries))
    starts = {entry.topic_partition: entry.start for entry in record.entries}
    if len(starts) != len(record.entries):
        raise ValueError("a topic partition enters twice")
    added = {
        entry.topic_partition: Member(entry.topic_id, state.generation) for entry in record.entries
    }
    return replace(
        state, checkpoint=state.checkpoint.add(starts), members={**state.members, **added}
    )


def _drop(state: State, record: Drop) -> State:
    checkpoint = state.checkpoint.drop(record.topic_partitions)
    members, retired = dict(state.members), dict(state.retired)
    for tp in record.topic_partitions:
        # The topic partition may have left before, under a higher generation than this time's.
        retired[tp] = max(members.pop(tp).generation, retired.get(tp, 0))
    return replace(state, checkpoint=checkpoint, members=members, retired=retired)


def _check_generation(state: State, tps: Iterable[TopicPartition]) -> None:
    """Raise ValueError if objects of the current generation could overwrite older ones."""
    for tp in tps:
        if state.generation <= state.retired.get(tp, -1):
            raise ValueError(
                f"{tp}: generation {state.generation} already named objects of this "
                "topic partition before it was dropped"
            )


def _commit(state: State, record: Commit) -> State:
    objects = tuple(o for s in record.slices for o in s.objects)
    keys = {o.upload.key for o in objects}
    if len(keys) != len(objects):
        raise ValueError("an object key is named twice")
    if any(o.upload.token != record.token for o in objects):
        raise ValueError(f"an object does not carry the batch token {record.token}")
    tps = {s.piece.topic_partition for s in record.slices}
    _check_generation(state, tps)
    checkpoint = state.checkpoint.advance(s.piece for s in record.slices)
    raised = {
        tp: replace(state.members[tp], generation=state.generation)
        for tp in tps
        if state.members[tp].generation < state.generation
    }
    return replace(
        state,
        checkpoint=checkpoint,
        # Not copied for each COMMIT: a lane may have ten thousand members, and few ever change.
        members={**state.members, **raised} if raised else state.members,
        unapplied={**state.unapplied, record.header.seq: objects},
        last_commit_time=record.header.time,
        totals=state.totals.with_commit(record.slices),
    )


def _repair(state: State, record: Repair) -> State:
    decided = {o.upload.key: o for o in state.unapplied.get(record.commit, ())}
    for repaired in record.objects:
        before = decided.get(repaired.upload.key)
        if before is None:
            raise ValueError(
                f"repairs {repaired.upload.key}, "
                f"which is no unapplied object of COMMIT {record.commit}"
            )
        # Made again from the same range, the object must hold the same records.
        if (before.rows, before.first_offset, before.last_offset) != (
            repaired.rows,
            repaired.first_offset,
            repaired.last_offset,
        ):
            raise ValueError(
                f"repairs {repaired.upload.key} with other rows: "
                f"{before.rows} before, {repaired.rows} now"
            )
        decided[repaired.upload.key] = repaired
    return replace(state, unapplied={**state.unapplied, record.commit: tuple(decided.values())})
