"""Checks a ledger from its first slot on: invariants I1, I2, I3, I4, I7 and I8. Pure.

Of I3 and I4 it checks what one record shows: upload tokens and keys within a COMMIT. Checking ends
at the first slot that violates an invariant, because later slots build on a broken state.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from landfall import ledger, untrusted_json
from landfall.checks import Finding, Invariant
from landfall.checks.leases import LeaseCounts
from landfall.errors import Stalled
from landfall.ledger import Add, Commit, Drop, Hole, Open, Record, Replace, Replay, Snapshot, State
from landfall.ledger.feeds import miscounted
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.snapshot import decode_state
from landfall.ledger.task_results import (
    LandedObject,
    LandedSlice,
    ObjectKind,
    PartRows,
    ReplayedSlice,
    wrong_parts,
)

NO_ANCHORS: Mapping[int, str] = MappingProxyType({})


class Chain:
    """A ledger as far as it was checked without a finding.

    Attributes:
        state: the state after the last good slot.
        slots, commits, slices, snapshots, replaces: how many of each were checked.
        leases: leases of parts of files, and their outcomes.
        anchors: the hashes that slots must have, by their number.
    """

    def __init__(self, group: str, anchors: Mapping[int, str] = NO_ANCHORS) -> None:
        """Start before slot 0 of this group's ledger."""
        self._group = group
        self.anchors = anchors
        self.state = State()
        self.slots = self.commits = self.slices = self.snapshots = self.replaces = 0
        self.leases = LeaseCounts()
        self._missing_snapshot: Snapshot | None = None
        self._start: dict[TopicPartition, int] = {}
        self._counted: Counter[TopicPartition] = Counter()

    def append(self, body: bytes) -> Record | Finding:
        """Check the next slot and return its record, or what is wrong with it.

        After a finding the state is unchanged.
        """
        checked = _check(self._group, self.state, body)
        if isinstance(checked, Finding):
            return checked
        try:
            after = ledger.fold(self.state, body)
        except Stalled as error:
            # The checks above found nothing, so this is a rule that only the fold knows.
            expected = "a record that may follow here"
            return Finding(Invariant.I1, expected, str(error), slot=self.state.seq + 1)
        expected = self.anchors.get(after.seq, after.tip)
        if after.tip != expected:
            return _of_anchor(after.seq, expected, f"hash {after.tip[:12]}")
        self.state = after
        self.slots += 1
        self._count(checked)
        return checked

    def check_snapshot(
        self, before: State, record: Snapshot, stored: bytes | None
    ) -> Finding | None:
        """Compare the object that a SNAPSHOT points to with the state folded up to it."""
        self.snapshots += 1
        # Only the last few stored states are kept: whether the last one is there, the end shows.
        self._missing_snapshot = record if stored is None else None
        if stored is None:
            return None
        if ledger.digest(stored) != record.sha256:
            got = f"SHA-256 {ledger.digest(stored)[:12]}"
            return Finding(
                Invariant.I1,
                f"SHA-256 {record.sha256[:12]}",
                got,
                slot=record.header.seq,
                key=record.key,
            )
        if decode_state(stored) != before:
            return Finding(
                Invariant.I8,
                "the state folded from slot 0",
                "another state",
                slot=record.header.seq,
                key=record.key,
            )
        return None

    def check_end(self, head_slot: int) -> Finding | None:
        """Check the whole ledger: it reaches the slot that the head names, and counters add up."""
        if head_slot > self.state.seq:
            return Finding(
                Invariant.I1,
                f"slot {head_slot}, which the head names",
                "no such slot",
                slot=self.state.seq + 1,
            )
        last = max(self.anchors, default=-1)
        if last > self.state.seq:
            return _of_anchor(last, self.anchors[last], "no such slot")
        if self._missing_snapshot:
            return Finding(
                Invariant.I1,
                f"SHA-256 {self._missing_snapshot.sha256[:12]}",
                "nothing",
                slot=self._missing_snapshot.header.seq,
                key=self._missing_snapshot.key,
            )
        for tp, start in sorted(self._start.items()):
            counted, checkpoint = self._counted[tp], self.state.checkpoint[tp]
            if checkpoint != start + counted:
                return Finding(
                    Invariant.I8,
                    f"checkpoint {start + counted}, from start {start} and {counted} counted",
                    f"checkpoint {checkpoint}",
                    topic_partition=tp,
                )
        return self.leases.check(sorted(self.state.feeds.items()))

    def _count(self, record: Record) -> None:
        self.leases.count(record)
        match record:
            case Add():
                self._start |= {e.topic_partition: e.start for e in record.entries}
            case Drop():
                for tp in record.topic_partitions:
                    del self._start[tp]
                    del self._counted[tp]
            case Replace():
                self.replaces += 1
            case Hole():
                self._counted[record.piece.topic_partition] += len(record.piece.offsets)
            case Commit():
                self.commits += 1
                self.slices += len(record.slices)
                for s in record.slices:
                    counted = s.landed + s.filtered + s.dead_lettered + s.invisible
                    self._counted[s.piece.topic_partition] += counted
            case _:
                pass


def _of_anchor(slot: int, sha256: str, got: str) -> Finding:
    return Finding(Invariant.I1, f"hash {sha256[:12]}, which the anchor names", got, slot=slot)


class _Header(msgspec.Struct):
    """The fields of a record's header that chain it to the slot before."""

    seq: int
    prev: str


class _ChainRecord(msgspec.Struct):
    header: _Header


class _Counters(msgspec.Struct):
    """A ``LandedSlice`` that accepts counters that do not add up, so that they can be reported."""

    piece: Slice
    objects: tuple[LandedObject, ...]
    landed: int
    filtered: int
    dead_lettered: int
    invisible: int
    parts: tuple[PartRows, ...] | msgspec.UnsetType = msgspec.UNSET


class _CommitCounters(msgspec.Struct):
    slices: tuple[_Counters, ...]


def _check(group: str, state: State, body: bytes) -> Record | Finding:
    seq = state.seq + 1
    try:
        header = untrusted_json.decode(body, type=_ChainRecord).header
    except (msgspec.DecodeError, ValueError) as error:
        return Finding(Invariant.I1, "a ledger record", str(error), slot=seq)
    if header.seq != seq:
        return Finding(
            Invariant.I1, f"slot {seq}", f"a record whose header names slot {header.seq}", slot=seq
        )
    if header.prev != state.tip:
        return Finding(
            Invariant.I1, f"hash {state.tip[:12]} of the slot before", header.prev[:12], slot=seq
        )
    try:
        record = ledger.decode(seq, body)
    except Stalled as error:
        # Wrong counters make a record undecodable; they deserve a better finding than that.
        return _check_raw_counters(seq, body) or Finding(
            Invariant.I1, "a ledger record", str(error), slot=seq
        )
    checks = (
        _check_writer(state, record),
        _check_ranges(state, record),
        _check_names(group, state, record),
        _check_sums(record),
        _check_parts(state, record),
    )
    return next((finding for finding in checks if finding), record)


def _check_raw_counters(seq: int, body: bytes) -> Finding | None:
    try:
        slices = untrusted_json.decode(body, type=_CommitCounters).slices
    except (msgspec.DecodeError, ValueError):
        return None
    return next((finding for s in slices if (finding := _check_counters(seq, s))), None)


def _check_writer(state: State, record: Record) -> Finding | None:
    header = record.header
    if not isinstance(record, ledger.MAY_FOLLOW[state.holding]):
        expected = " or ".join(kind.__name__ for kind in ledger.MAY_FOLLOW[state.holding])
        return Finding(
            Invariant.I7, f"{expected} ({state.holding})", type(record).__name__, slot=header.seq
        )
    if isinstance(record, Open):
        if header.epoch != state.epoch + 1:
            return Finding(
                Invariant.I7, f"epoch {state.epoch + 1}", f"epoch {header.epoch}", slot=header.seq
            )
    elif (header.epoch, header.writer) != (state.epoch, state.writer):
        expected, got = (
            f"epoch {state.epoch} by {state.writer}",
            f"epoch {header.epoch} by {header.writer}",
        )
        return Finding(Invariant.I7, expected, got, slot=header.seq)
    return None


def _check_ranges(state: State, record: Record) -> Finding | None:
    seq, advanced = record.header.seq, dict[TopicPartition, int]()
    for slice_ in sorted(_slices(record)):
        tp, offsets = slice_.topic_partition, slice_.offsets
        if tp not in state.checkpoint:
            return Finding(
                invariant=Invariant.I2,
                expected="a topic partition that an ADD added",
                got=str(tp),
                slot=seq,
                topic_partition=tp,
                offsets=offsets,
            )
        expected = advanced.get(tp, state.checkpoint[tp])
        if expected != offsets.start:
            kind = "an overlap" if offsets.start < expected else "a gap"
            return Finding(
                invariant=Invariant.I2,
                expected=f"start {expected}",
                got=f"{offsets.start}, {kind}",
                slot=seq,
                topic_partition=tp,
                offsets=offsets,
            )
        advanced[tp] = offsets.end
    return None


def _slices(record: Record) -> Iterator[Slice]:
    """The slices that a record covers; ``piece`` is the ledger's name of the field."""
    match record:
        case Commit():
            yield from (s.piece for s in record.slices)
        case Hole():
            yield record.piece
        case _:
            return


def _check_names(group: str, state: State, record: Record) -> Finding | None:
    """Check upload tokens and keys.

    A key contains an offset of its slice's range. Ranges are disjoint, so no other COMMIT can name
    the same key.
    """
    if isinstance(record, Add):
        return _check_added_again(state, record)
    if not isinstance(record, Commit | Replay):
        return None
    seen: set[str] = set()
    for slice_, o in ((s.piece, o) for s in record.slices for o in s.objects):
        key = o.upload.key
        tp = slice_.topic_partition
        at = record.header.seq
        if o.upload.token != record.token:
            return Finding(
                invariant=Invariant.I3,
                expected=f"token {record.token}",
                got=o.upload.token or "none",
                slot=at,
                topic_partition=tp,
                key=key,
            )
        if key in seen:
            return Finding(
                invariant=Invariant.I4,
                expected="a new key",
                got="one that this record names twice",
                slot=at,
                topic_partition=tp,
                key=key,
            )
        if not _is_named_after(group, o, slice_, state.generation):
            return Finding(
                invariant=Invariant.I4,
                expected=f"a key of generation {state.generation} for {slice_}",
                got=key,
                slot=at,
                topic_partition=tp,
                key=key,
            )
        seen.add(key)
    return None


def _check_added_again(state: State, record: Add) -> Finding | None:
    """Check that a recreated topic gets a new generation.

    Its offsets start from 0 again, so under the old generation its keys would repeat.
    """
    for tp in (entry.topic_partition for entry in record.entries):
        if state.generation <= state.retired.get(tp, -1):
            expected, got = (
                f"a generation above {state.retired[tp]}",
                f"generation {state.generation}",
            )
            return Finding(
                invariant=Invariant.I4,
                expected=expected,
                got=got,
                slot=record.header.seq,
                topic_partition=tp,
            )
    return None


def _is_named_after(group: str, landed: LandedObject, slice_: Slice, generation: int) -> bool:
    """Return whether the key names the slice's first object, or a later one of the slice.

    The first is named by the start of the slice, later ones by the first offset inside.
    """
    tp = slice_.topic_partition
    try:
        origin = object_names.origin(group, landed.key)
    except ValueError:
        return False
    is_ours = (origin.topic, origin.generation, origin.partition) == (
        tp.topic,
        generation,
        tp.partition,
    )
    # What a task that ended early has not read belongs to the next slice, and so do its names.
    is_inside = origin.start in slice_.offsets
    return is_ours and is_inside and origin.start in {slice_.offsets.start, landed.first_offset}


def _check_sums(record: Record) -> Finding | None:
    if isinstance(record, Replay):  # its counters are checked when it is decoded
        rows = (_check_rows(record.header.seq, s) for s in record.slices)
        return next((finding for finding in rows if finding), None)
    slices = record.slices if isinstance(record, Commit) else ()
    return next(
        (finding for s in slices if (finding := _check_counters(record.header.seq, s))), None
    )


def _check_rows(seq: int, s: "_Counters | LandedSlice | ReplayedSlice") -> Finding | None:
    tp, offsets = s.piece.topic_partition, s.piece.offsets
    for o in s.objects:
        width = o.last_offset - o.first_offset + 1
        is_inside = o.first_offset in offsets and o.last_offset in offsets
        if not is_inside or not 0 < o.rows <= width:
            got = f"{o.rows} rows from {o.first_offset} to {o.last_offset}"
            return Finding(
                invariant=Invariant.I8,
                expected="rows inside the range",
                got=got,
                slot=seq,
                topic_partition=tp,
                offsets=offsets,
                key=o.upload.key,
            )
    return None


def _check_counters(seq: int, s: "_Counters | LandedSlice") -> Finding | None:
    if finding := _check_rows(seq, s):
        return finding
    tp, offsets = s.piece.topic_partition, s.piece.offsets
    rows = dict.fromkeys(ObjectKind, 0)
    for o in s.objects:
        rows[o.kind] += o.rows
    counted = s.landed + s.filtered + s.dead_lettered + s.invisible
    for expected, actual, of in (
        (len(offsets), counted, "offsets counted"),
        (s.landed, rows[ObjectKind.DATA], "rows in data objects"),
        (s.dead_lettered, rows[ObjectKind.DEAD_LETTERS], "rows in dead-letter objects"),
    ):
        if expected != actual:
            return Finding(
                invariant=Invariant.I8,
                expected=f"{expected} {of}",
                got=str(actual),
                slot=seq,
                topic_partition=tp,
                offsets=offsets,
            )
    if why := wrong_parts((s.landed, s.filtered, s.dead_lettered), s.parts):
        return Finding(
            invariant=Invariant.I8,
            expected="counters by part that add up",
            got=why,
            slot=seq,
            topic_partition=tp,
            offsets=offsets,
        )
    return None


def _check_parts(state: State, record: Record) -> Finding | None:
    """Check that no part of a file has more records in a slice than offsets."""
    slices = record.slices if isinstance(record, Commit | Replay) else ()
    for s in slices:
        if why := miscounted(state.feeds, s.piece, s.parts):
            at, tp = record.header.seq, s.piece.topic_partition
            return Finding(
                invariant=Invariant.I8,
                expected="records of the slice's parts",
                got=why,
                slot=at,
                topic_partition=tp,
                offsets=s.piece.offsets,
            )
    return None
