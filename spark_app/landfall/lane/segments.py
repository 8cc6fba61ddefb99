"""Reads segments by ranges, stores new ones, and deletes the slots that they hold."""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

from landfall import ledger
from landfall.errors import Stalled
from landfall.ledger import Record, Replace, Rolled, State, segments
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.segments import NAMED_KINDS, Directory, SegmentEntry, tag_of
from landfall.store import Slots

TAIL_BYTES = 64 * 1024
"""How much of a segment's end is read at first: its directory, unless there are many blocks."""
READ_BYTES = 4 * 2**20
"""How many bytes of blocks are read with one request, at least one block."""
KEPT_SNAPSHOTS = 3
"""How many stored states stay, the last ones."""


class StoredSegment:
    """A segment in the store; its directory is read once."""

    def __init__(self, slots: Slots, key: str) -> None:
        """Refer to the segment ``key``; nothing is read yet."""
        self.slots = slots
        self.key = key
        self._directory: Directory | None = None

    @property
    def directory(self) -> Directory:
        """Where the segment's parts are.

        Raises:
            Stalled: LEDGER_BROKEN, the segment is gone or damaged.
        """
        # No ``cached_property``: in Python 3.11 that holds a lock of all instances while it reads.
        if self._directory is None:
            self._directory = self._read_directory()
        return self._directory

    def _read_directory(self) -> Directory:
        tail = self._read(-TAIL_BYTES, TAIL_BYTES)
        try:
            size = segments.directory_bytes(tail[-segments.TRAILER_BYTES :])
            whole = size + segments.TRAILER_BYTES
            if whole > len(tail):
                tail = self._read(-whole, whole)
            return segments.read_directory(tail[-whole : -segments.TRAILER_BYTES])
        except ValueError as error:
            raise self._error(str(error)) from error

    def bodies(self, start: int) -> Iterator[tuple[int, bytes]]:
        """Numbers and bytes of its slots from ``start`` on; a few megabytes are held at a time.

        Raises:
            Stalled: LEDGER_BROKEN, the segment is gone or damaged.
        """
        for seq, body in self._bodies([b for b, end in self._blocks() if end > start]):
            if seq >= start:
                yield seq, body

    def bodies_of(self, seqs: Collection[int]) -> Iterator[tuple[int, bytes]]:
        """Numbers and bytes of some of its slots, in order; blocks without any are not read.

        Raises:
            Stalled: LEDGER_BROKEN, the segment is gone or damaged.
        """
        wanted, in_order = frozenset(seqs), sorted(seqs)
        blocks = [
            block
            for block, end in self._blocks()
            if bisect_left(in_order, block.first) < bisect_left(in_order, end)
        ]
        for seq, body in self._bodies(blocks):
            if seq in wanted:
                yield seq, body

    def slots_about(self, ranges: Mapping[TopicPartition, OffsetRange]) -> Collection[int]:
        """The slots that concern these offsets, or may concern any range.

        All of them if software wrote the segment that did not list the latter.
        """
        if (kinds := self.directory.kinds) is None:
            return range(self.directory.first, self.directory.last + 1)
        # A REPLACE names its ranges, as COMMITs do.
        anywhere = [tag_of(kind) for kind in NAMED_KINDS if kind is not Replace]
        found = {seq for tag in anywhere for seq in kinds.get(tag, ())}
        for number in {segments.bucket_of(tp.topic, tp.partition) for tp in ranges}:
            for entry in self._bucket(self.directory.index[number]):
                own = ranges.get(TopicPartition(entry.topic, entry.partition))
                if own is not None and entry.start < own.end and own.start < entry.end:
                    found.add(entry.at)
        return found

    def slots_of(self, kinds: Collection[type[Record]]) -> Collection[int]:
        """The slots of records of these types, which are of ``NAMED_KINDS``.

        All of them if software wrote the segment that did not list them.
        """
        if (known := self.directory.kinds) is None:
            return range(self.directory.first, self.directory.last + 1)
        return {seq for kind in kinds for seq in known.get(tag_of(kind), ())}

    def _blocks(self) -> Iterator[tuple[segments.SegmentBlock, int]]:
        """Its blocks, each with the number of the slot that follows it."""
        blocks, last = self.directory.blocks, self.directory.last
        yield from zip(blocks, (*(b.first for b in blocks[1:]), last + 1), strict=True)

    def _bodies(self, blocks: Sequence[segments.SegmentBlock]) -> Iterator[tuple[int, bytes]]:
        """Numbers and bytes of the slots in some of its blocks, which are in order."""
        wanted = [*blocks]
        while wanted:
            some = [wanted.pop(0)]
            while (
                wanted
                and wanted[0].start == some[-1].start + some[-1].length
                and wanted[0].start + wanted[0].length - some[0].start <= READ_BYTES
            ):
                some.append(wanted.pop(0))
            for block, packed in self._packed(some):
                yield from enumerate(self._block(packed), block.first)

    def bodies_back(self, last: int) -> Iterator[tuple[int, bytes]]:
        """Numbers and bytes of its slots from ``last`` down to its first, as ``bodies``.

        Raises:
            Stalled: LEDGER_BROKEN, the segment is gone or damaged.
        """
        wanted = [block for block in self.directory.blocks if block.first <= last]
        while wanted:
            some = [wanted.pop()]
            while wanted and some[0].start + some[0].length - wanted[-1].start <= READ_BYTES:
                some.append(wanted.pop())
            for block, packed in reversed(self._packed(some[::-1])):
                for seq, body in reversed([*enumerate(self._block(packed), block.first)]):
                    if seq <= last:
                        yield seq, body

    def _packed(
        self, blocks: Sequence[segments.SegmentBlock]
    ) -> list[tuple[segments.SegmentBlock, bytes]]:
        """Blocks that follow each other, with their bytes, read with one request."""
        start, last = blocks[0].start, blocks[-1]
        read = self._read(start, last.start + last.length - start)
        return [(b, read[b.start - start : b.start - start + b.length]) for b in blocks]

    def body(self, seq: int) -> bytes:
        """The bytes of one of its slots."""
        block = next(b for b in reversed(self.directory.blocks) if b.first <= seq)
        return self._block(self._read(block.start, block.length))[seq - block.first]

    def index(self, tp: TopicPartition) -> list[SegmentEntry]:
        """Return its slots with entries of a topic partition."""
        return self._entries(self.directory.index, tp)

    def catalog(self, tp: TopicPartition) -> list[SegmentEntry]:
        """The segments of its group, up to this one, that concern a topic partition."""
        return self._entries(self.directory.catalog, tp)

    def catalog_bucket(self, number: int) -> tuple[SegmentEntry, ...]:
        """The entries of the catalog in a bucket."""
        return self._bucket(self.directory.catalog[number])

    def _entries(self, spans: tuple[segments.Span, ...], tp: TopicPartition) -> list[SegmentEntry]:
        found = self._bucket(spans[segments.bucket_of(tp.topic, tp.partition)])
        return [entry for entry in found if entry.concerns(tp)]

    def _bucket(self, span: segments.Span) -> tuple[SegmentEntry, ...]:
        packed = self._read(span.start, span.length) if span.length else b""
        try:
            return segments.read_entries(packed)
        except ValueError as error:
            raise self._error(str(error)) from error

    def _block(self, packed: bytes) -> list[bytes]:
        try:
            return segments.read_block(packed)
        except ValueError as error:
            raise self._error(str(error)) from error

    def _read(self, start: int, length: int) -> bytes:
        found = self.slots.read_range(self.key, start, length)
        if found is None:
            raise self._error("listed or named, but gone when read")
        return found

    def _error(self, problem: str) -> Stalled:
        name = self.key.rpartition("/")[2]
        return ledger.ledger_error(int(name[:20]), f"segment {self.key}: {problem}")


def sealed_through(state: State, most: int) -> int:
    """The last slot that a new segment may hold: it seals an epoch, and all before it is applied.

    At most ``most`` slots, but at least one epoch; -1 if no epoch may be rolled up yet.
    """
    pending = min(state.unapplied, default=state.seq + 1)
    last = -1
    for first in state.epochs[1:]:
        if first > pending or (last >= 0 and first - state.epochs[0] > most):
            break
        last = first - 1
    return last


def store_segment(slots: Slots, group: str, lane: str, state: State, bodies: list[bytes]) -> Rolled:
    """Store the slots that follow the last segment, read the segment back, and describe it.

    Raises:
        Stalled: LEDGER_BROKEN, the slots are not the ledger's, or what was read back is not
            what was stored.
        Retry: the store failed.
    """
    before = state.segments[-1] if state.segments else None
    earlier = StoredSegment(slots, before.key) if before else None
    built = segments.build(
        group=group,
        first=state.epochs[0],
        ordinal=len(state.segments),
        bodies=bodies,
        catalog=earlier.catalog_bucket if earlier else lambda _: (),
    )
    where, sha256 = built.directory, ledger.digest(built.body)
    name = object_names.SegmentName(where.first, where.last, where.epoch, sha256[:16])
    key = object_names.segment_key(group, lane, name)
    # "Taken" is as good as "won": the key has the bytes' hash, and they are compared.
    slots.create(key, built.body)
    if slots.read(key) != built.body:
        raise ledger.ledger_error(where.first, f"segment {key} is not what was stored")
    after_before = before.after if before else ledger.GENESIS_HASH
    return Rolled(
        first=where.first,
        last=where.last,
        epoch=where.epoch,
        key=key,
        sha256=sha256,
        before=after_before,
        after=built.after,
    )


def delete_rolled_slots(slots: Slots, group: str, lane: str, rolled: Rolled) -> int:
    """Delete the slots that a recorded segment holds, except firsts and seals; return how many.

    To be called only for a segment that a SEGMENT record in the ledger names.

    Raises:
        Retry: the store failed; calling again is safe.
    """
    places = StoredSegment(slots, rolled.key).directory.deletable()
    keys = [object_names.slot_key(group, lane, epoch, index) for epoch, index in places]
    slots.delete_slots(keys)
    return len(keys)


def delete_old_snapshots(slots: Slots, group: str, lane: str, state: State) -> int:
    """Delete all stored states but the last few; return how many.

    Raises:
        Retry: the store failed; calling again is safe.
    """
    prefix = object_names.snapshots_prefix(group, lane)
    last = object_names.snapshot_key(group, lane, max(state.snapshot_seq, 0))
    keys = [stat.key for stat in slots.list_after(prefix) if stat.key <= last]
    old = keys[:-KEPT_SNAPSHOTS]
    slots.delete_slots(old)
    return len(old)
