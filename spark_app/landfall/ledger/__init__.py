"""The ledger's records, what may follow what, and what they add up to.

A lane's ledger is a chain of small JSON records, one per slot, each slot created once and never
changed. ``fold`` takes a lane's state over the next slot or refuses it; a state folded from the
start is all there is to know: which offsets are landed, which objects are decided but perhaps not
visible yet, who may write next. The append of a COMMIT is the commit
point: before it nothing exists, after it everything in it happened.

Record by record: ``Open`` takes the lane (and fences whoever had it), ``Add`` and ``Drop`` let
topic partitions enter and leave, ``Commit`` lands ranges, ``Repair`` names a new upload for a
decided object whose upload was lost, ``Hole`` skips an approved loss, ``Snapshot`` points to a
stored state so that opening costs only what came after, ``Yield`` hands the lane over. Pure: no
I/O, no clock, no logging. Reading and appending are in ``landfall.lane``.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import msgspec

from landfall.errors import Reason, Stalled
from landfall.ledger.offsets import Checkpoint, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind

VERSION = 1
ORIGIN = ""
"""What the first record names as the hash of the one before."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every record carries.

    Attributes:
        seq: the slot, counted from 0.
        prev: SHA-256 (hex) of the slot before, so that no slot can be changed or swapped unseen.
        epoch: of the OPEN under which it was written.
        writer: random name of the driver process that wrote it.
        time: when, ISO-8601 UTC; for people, never for deciding.
        applied_through: every COMMIT up to this slot has all its objects visible and verified; -1
            for none.
    """

    seq: int
    prev: str
    epoch: int
    writer: str
    time: str
    applied_through: int = -1
    version: int = VERSION


class _Base(
    msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, kw_only=True
):
    header: Header


class Open(_Base, frozen=True, tag="OPEN", omit_defaults=True):
    """A driver takes the lane: epoch + 1 fences every driver before it.

    ``revision`` names software and spec where several drivers take turns; it is not written where
    it is empty.
    """

    group: str
    lane: str
    generation: int
    software: str
    revision: str = ""


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic partition that enters at ``start``; the topic id tells a recreated topic from its namesake."""

    topic_partition: TopicPartition
    topic_id: str
    start: int


class Add(_Base, frozen=True, tag="ADD"):
    """Topic partitions enter."""

    entries: tuple[Entry, ...]


class Drop(_Base, frozen=True, tag="DROP"):
    """Topic partitions leave: their topic is gone for good, or another lane takes them."""

    topic_partitions: tuple[TopicPartition, ...]
    reason: str


class Commit(_Base, frozen=True, tag="COMMIT"):
    """Ranges are landed and their objects decided. ``token`` is in every object's metadata."""

    token: str
    slices: tuple[LandedSlice, ...]


class Repair(_Base, frozen=True, tag="REPAIR"):
    """Decided objects of COMMIT ``commit`` whose uploads were lost, made again from the same ranges."""

    commit: int
    objects: tuple[LandedObject, ...]


class Hole(_Base, frozen=True, tag="HOLE"):
    """Lost data that the spec allows to skip, with its exact range."""

    piece: Slice
    reason: str


class Snapshot(_Base, frozen=True, tag="SNAPSHOT"):
    """The state after the slot before this one, stored under ``key``."""

    key: str
    sha256: str


class Yield(_Base, frozen=True, tag="YIELD"):
    """The driver gives the lane up; only an OPEN may follow."""

    reason: str


Record = Open | Add | Drop | Commit | Repair | Hole | Snapshot | Yield


class LaneOwnership(StrEnum):
    """Who has the lane."""

    NOBODY_YET = "nobody yet"
    HELD = "held"
    YIELDED = "yielded"


MAY_FOLLOW: Mapping[LaneOwnership, tuple[type[Record], ...]] = {
    LaneOwnership.NOBODY_YET: (Open,),
    LaneOwnership.HELD: (Open, Add, Drop, Commit, Repair, Hole, Snapshot, Yield),
    LaneOwnership.YIELDED: (Open,),
}


@dataclass(frozen=True, slots=True)
class Totals:
    """Counted over all COMMITs and HOLEs."""

    commits: int = 0
    objects: int = 0
    landed: int = 0
    filtered: int = 0
    dead_lettered: int = 0
    invisible: int = 0
    skipped: int = 0
    landed_bytes: int = 0

    def with_commit(self, slices: tuple[LandedSlice, ...]) -> "Totals":
        """One more COMMIT."""
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
    """What the ledger knows of a topic partition: its topic's id, and the highest generation that let it in or landed it."""

    topic_id: str
    generation: int


@dataclass(frozen=True)
class State:
    """A lane folded up to and including slot ``seq``.

    Attributes:
        seq: the last slot folded; -1 before the first.
        tip: SHA-256 (hex) of that slot.
        holding: who may write next.
        epoch: of the last OPEN.
        writer: of the last OPEN.
        generation: of the last OPEN.
        revision: of the last OPEN; empty if it named none.
        checkpoint: next offset to land per topic partition.
        members: per topic partition in the checkpoint.
        retired: topic partitions that left, with the highest generation that ever named objects of
            theirs: offsets of a recreated topic count from 0 again, so only a higher generation can
            name its objects without overwriting.
        unapplied: decided objects per COMMIT slot that is not known to be applied, repairs
            included.
        applied_through: highest ever recorded.
        snapshot_seq: the last SNAPSHOT slot; -1 for none.
        last_commit_time: of the last COMMIT, as recorded.
        totals: counters over everything.
    """

    seq: int = -1
    tip: str = ORIGIN
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

    def can_open(self, revision: str) -> bool:
        """Whether a driver of this revision may take the lane unasked: nobody holds it, or its own kind did last."""
        return self.holding is not LaneOwnership.HELD or self.revision == revision


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """The bytes of a slot."""
    return _encoder.encode(record)


def decode(seq: int, body: bytes) -> Record:
    """The record in a slot's bytes.

    Raises:
        Stalled: LEDGER_BROKEN, these are not a record of a version we know.
    """
    try:
        record: Record = _decoder.decode(body)
    except (msgspec.DecodeError, ValueError) as error:
        raise ledger_error(seq, f"not a ledger record: {error}") from error
    if record.header.version != VERSION:
        raise ledger_error(seq, f"version {record.header.version}, this software knows {VERSION}")
    return record


def digest(body: bytes) -> str:
    """How the next slot names this one."""
    return hashlib.sha256(body).hexdigest()


def ledger_error(seq: int, what: str) -> Stalled:
    """The error for a slot that must not be as it is."""
    return Stalled(Reason.LEDGER_BROKEN, f"ledger slot {seq}: {what}")


def applied_through(unapplied: Collection[int], highest: int) -> int:
    """Through which slot every COMMIT is applied, for one who applies those up to ``highest``, these not yet."""
    return min(unapplied) - 1 if unapplied else highest


def next_header(state: State, writer: str, time: str, applied_through: int) -> Header:
    """The header of the record that may follow ``state`` within its epoch."""
    return Header(
        state.seq + 1,
        state.tip,
        state.epoch,
        writer,
        time,
        max(applied_through, state.applied_through),
    )


def fold(state: State, body: bytes) -> State:
    """The state after the next slot, whose bytes are ``body``.

    Raises:
        Stalled: LEDGER_BROKEN, naming the slot and what does not fit: chain, epoch, writer, order,
            ranges.
    """
    record = decode(state.seq + 1, body)
    _check_place(state, record)
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
        unapplied={seq: objects for seq, objects in after.unapplied.items() if seq > applied},
    )


def _check_place(state: State, record: Record) -> None:
    header = record.header
    if header.seq != state.seq + 1:
        raise ledger_error(state.seq + 1, f"says it is slot {header.seq}")
    if header.prev != state.tip:
        raise ledger_error(
            header.seq, f"follows {header.prev[:12]}, but the slot before is {state.tip[:12]}"
        )
    if not isinstance(record, MAY_FOLLOW[state.holding]):
        raise ledger_error(
            header.seq, f"{type(record).__name__} cannot follow while the lane is {state.holding}"
        )
    if isinstance(record, Open):
        if header.epoch != state.epoch + 1:
            raise ledger_error(header.seq, f"opens epoch {header.epoch} after {state.epoch}")
    elif (header.epoch, header.writer) != (state.epoch, state.writer):
        raise ledger_error(
            header.seq,
            f"epoch {header.epoch} by {header.writer}, held: {state.epoch} by {state.writer}",
        )
    if header.applied_through > state.seq:
        raise ledger_error(
            header.seq, f"applied through {header.applied_through}, which is not before it"
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
    checkpoint, members = state.checkpoint, dict(state.members)
    _check_names(state, (entry.topic_partition for entry in record.entries))
    for entry in record.entries:
        checkpoint = checkpoint.add(entry.topic_partition, entry.start)
        members[entry.topic_partition] = Member(entry.topic_id, state.generation)
    return replace(state, checkpoint=checkpoint, members=members)


def _drop(state: State, record: Drop) -> State:
    checkpoint, members, retired = state.checkpoint, dict(state.members), dict(state.retired)
    for tp in record.topic_partitions:
        checkpoint = checkpoint.drop(tp)
        retired[tp] = max(members.pop(tp).generation, retired.get(tp, 0))
    return replace(state, checkpoint=checkpoint, members=members, retired=retired)


def _check_names(state: State, tps: Iterable[TopicPartition]) -> None:
    for tp in tps:
        if state.generation <= state.retired.get(tp, -1):
            raise ValueError(
                f"{tp}: generation {state.generation} named objects of its former life already"
            )


def _commit(state: State, record: Commit) -> State:
    objects = tuple(o for s in record.slices for o in s.objects)
    keys = {o.upload.key for o in objects}
    if len(keys) != len(objects):
        raise ValueError("an object key is named twice")
    if any(o.upload.token != record.token for o in objects):
        raise ValueError(f"an object does not carry the batch token {record.token}")
    tps = {s.piece.topic_partition for s in record.slices}
    _check_names(state, tps)
    checkpoint = state.checkpoint.advance(s.piece for s in record.slices)
    risen = {
        tp: replace(state.members[tp], generation=state.generation)
        for tp in tps
        if state.members[tp].generation < state.generation
    }
    return replace(
        state,
        checkpoint=checkpoint,
        members={**state.members, **risen} if risen else state.members,
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
                f"repairs {repaired.upload.key}, which COMMIT {record.commit} has not open"
            )
        if (before.rows, before.first_offset, before.last_offset) != (
            repaired.rows,
            repaired.first_offset,
            repaired.last_offset,
        ):
            raise ValueError(
                f"repairs {repaired.upload.key} with other rows: {before.rows} before, {repaired.rows} now"
            )
        decided[repaired.upload.key] = repaired
    return replace(state, unapplied={**state.unapplied, record.commit: tuple(decided.values())})
