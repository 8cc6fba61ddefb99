"""Following a ledger from its first slot: invariants I1, I2, I4 (within a COMMIT and by name), I7, I8. Pure.

The first slot that breaks an invariant ends it: what comes after a broken slot follows from
nothing.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from landfall import ledger
from landfall.checks import Finding, Invariant
from landfall.errors import Stalled
from landfall.ledger import Add, Commit, Drop, Hole, Open, Record, Snapshot, State, object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.snapshot import decode_state
from landfall.ledger.task_results import LandedObject, LandedSlice, ObjectKind


class Chain:
    """A ledger as far as it was followed without a fault.

    Attributes:
        state: after the last good slot.
        slots, commits, slices, snapshots: how many were looked at.
    """

    def __init__(self, group: str) -> None:
        """Begin before slot 0 of this group's ledger."""
        self._group = group
        self.state = State()
        self.slots = self.commits = self.slices = self.snapshots = 0
        self._entered: dict[TopicPartition, int] = {}
        self._counted: Counter[TopicPartition] = Counter()

    def take(self, body: bytes) -> Record | Finding:
        """Go over the next slot, and return its record, or what is wrong with it; then the state stays as it was."""
        judged = _judge(self._group, self.state, body)
        if isinstance(judged, Finding):
            return judged
        try:
            after = ledger.fold(self.state, body)
        except Stalled as error:
            return Finding(
                Invariant.I1, "a record that follows", str(error), slot=self.state.seq + 1
            )
        self.state = after
        self.slots += 1
        self._count(judged)
        return judged

    def snapshot(self, before: State, record: Snapshot, stored: bytes | None) -> Finding | None:
        """Compare what a SNAPSHOT points to with the state that was folded up to it."""
        self.snapshots += 1
        if stored is None or ledger.digest(stored) != record.sha256:
            got = "nothing" if stored is None else f"SHA-256 {ledger.digest(stored)[:12]}"
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
                "the state folded from the start",
                "another",
                slot=record.header.seq,
                key=record.key,
            )
        return None

    def end(self, hinted: int) -> Finding | None:
        """Judge the whole: nothing was cut off before the slot that the head hints at, and the counters add up."""
        if hinted > self.state.seq:
            return Finding(
                Invariant.I1,
                f"slot {hinted}, which the head names",
                "no such slot",
                slot=self.state.seq + 1,
            )
        for tp, start in sorted(self._entered.items()):
            if self.state.checkpoint[tp] != start + self._counted[tp]:
                return Finding(
                    Invariant.I8,
                    f"checkpoint {start + self._counted[tp]}, entered at {start} and counted {self._counted[tp]}",
                    f"checkpoint {self.state.checkpoint[tp]}",
                    topic_partition=tp,
                )
        return None

    def _count(self, record: Record) -> None:
        match record:
            case Add():
                self._entered |= {e.topic_partition: e.start for e in record.entries}
            case Drop():
                for tp in record.topic_partitions:
                    del self._entered[tp]
                    del self._counted[tp]
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


class _Place(msgspec.Struct):
    seq: int
    prev: str


class _Slot(msgspec.Struct):
    header: _Place


class _Counters(msgspec.Struct):
    """A ``LandedSlice`` that does not refuse counters that do not add up."""

    piece: Slice
    objects: tuple[LandedObject, ...]
    landed: int
    filtered: int
    dead_lettered: int
    invisible: int


class _Counted(msgspec.Struct):
    slices: tuple[_Counters, ...]


def _judge(group: str, state: State, body: bytes) -> Record | Finding:
    seq = state.seq + 1
    try:
        place = msgspec.json.decode(body, type=_Slot).header
    except (msgspec.DecodeError, ValueError) as error:
        return Finding(Invariant.I1, "a ledger record", str(error), slot=seq)
    if place.seq != seq:
        return Finding(
            Invariant.I1, f"slot {seq}", f"a record that says it is slot {place.seq}", slot=seq
        )
    if place.prev != state.tip:
        return Finding(
            Invariant.I1, f"hash {state.tip[:12]} of the slot before", place.prev[:12], slot=seq
        )
    try:
        record = ledger.decode(seq, body)
    except Stalled as error:
        return _uncounted(seq, body) or Finding(
            Invariant.I1, "a ledger record", str(error), slot=seq
        )
    checks = (
        _writer(state, record),
        _ranges(state, record),
        _names(group, state, record),
        _sums(record),
    )
    return next((finding for finding in checks if finding), record)


def _uncounted(seq: int, body: bytes) -> Finding | None:
    try:
        slices = msgspec.json.decode(body, type=_Counted).slices
    except (msgspec.DecodeError, ValueError):
        return None
    return next((finding for s in slices if (finding := _counters(seq, s))), None)


def _writer(state: State, record: Record) -> Finding | None:
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


def _ranges(state: State, record: Record) -> Finding | None:
    seq, moved = record.header.seq, dict[TopicPartition, int]()
    for piece in sorted(_pieces(record)):
        tp, offsets = piece.topic_partition, piece.offsets
        if tp not in state.checkpoint:
            return Finding(
                Invariant.I2, "a topic partition that entered", str(tp), seq, tp, offsets
            )
        expected = moved.get(tp, state.checkpoint[tp])
        if expected != offsets.start:
            kind = "an overlap" if offsets.start < expected else "a gap"
            return Finding(
                Invariant.I2, f"start {expected}", f"{offsets.start}, {kind}", seq, tp, offsets
            )
        moved[tp] = offsets.end
    return None


def _pieces(record: Record) -> Iterator[Slice]:
    match record:
        case Commit():
            yield from (s.piece for s in record.slices)
        case Hole():
            yield record.piece
        case _:
            return


def _names(group: str, state: State, record: Record) -> Finding | None:
    """A key that names its slice's range cannot be named by another COMMIT, because ranges are disjoint."""
    if isinstance(record, Add):
        return _reentry(state, record)
    if not isinstance(record, Commit):
        return None
    seen: set[str] = set()
    for piece, o in ((s.piece, o) for s in record.slices for o in s.objects):
        key, tp, at = o.upload.key, piece.topic_partition, record.header.seq
        if o.upload.token != record.token:
            return Finding(
                Invariant.I3, f"token {record.token}", o.upload.token or "none", at, tp, key=key
            )
        if key in seen:
            return Finding(
                Invariant.I4, "a key of its own", "one named twice in this COMMIT", at, tp, key=key
            )
        if not _is_named_after(group, o, piece, state.generation):
            return Finding(
                Invariant.I4,
                f"a key of generation {state.generation} for {piece}",
                key,
                at,
                tp,
                key=key,
            )
        seen.add(key)
    return None


def _reentry(state: State, record: Add) -> Finding | None:
    """A recreated topic counts from 0 again, so its objects need a generation that never named any of it."""
    for tp in (entry.topic_partition for entry in record.entries):
        if state.generation <= state.retired.get(tp, -1):
            expected, got = (
                f"a generation above {state.retired[tp]}",
                f"generation {state.generation}",
            )
            return Finding(Invariant.I4, expected, got, record.header.seq, tp)
    return None


def _is_named_after(group: str, landed: LandedObject, piece: Slice, generation: int) -> bool:
    tp, start = piece.topic_partition, piece.offsets.start
    try:
        named = object_names.origin(group, landed.upload.key)
    except ValueError:
        return False
    return named == object_names.Origin(tp.topic, generation, tp.partition, start)


def _sums(record: Record) -> Finding | None:
    slices = record.slices if isinstance(record, Commit) else ()
    return next((finding for s in slices if (finding := _counters(record.header.seq, s))), None)


def _counters(seq: int, s: "_Counters | LandedSlice") -> Finding | None:
    tp, offsets = s.piece.topic_partition, s.piece.offsets
    rows = dict.fromkeys(ObjectKind, 0)
    for o in s.objects:
        rows[o.kind] += o.rows
        spread = o.last_offset - o.first_offset + 1
        if (
            o.first_offset not in offsets
            or o.last_offset not in offsets
            or not 0 < o.rows <= spread
        ):
            got = f"{o.rows} rows from {o.first_offset} to {o.last_offset}"
            return Finding(
                Invariant.I8, "rows inside the range", got, seq, tp, offsets, o.upload.key
            )
    counted = s.landed + s.filtered + s.dead_lettered + s.invisible
    for expected, found, of in (
        (len(offsets), counted, "offsets counted"),
        (s.landed, rows[ObjectKind.DATA], "rows in data objects"),
        (s.dead_lettered, rows[ObjectKind.DEAD_LETTERS], "rows in dead-letter objects"),
    ):
        if expected != found:
            return Finding(Invariant.I8, f"{expected} {of}", str(found), seq, tp, offsets)
    return None
