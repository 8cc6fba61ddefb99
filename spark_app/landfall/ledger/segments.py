"""The bytes of a segment: slots of sealed epochs, in one compressed object with an index. Pure.

A segment is a row of gzip members, then a trailer::

    blocks      the slots' bytes, one slot a line; ``zcat`` shows them
    index       per bucket of topic partitions, which slots concern which offsets
    catalog     per bucket, which segments of the same group concern which offsets
    directory   where all that is, as JSON
    trailer     ``LANDSEG1`` and the directory's length, eight bytes each

Segments form groups of ``GROUP_SIZE``. The catalog of a group's newest segment lists which segments
of the group matter for an offset, so that one need not look into each.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from landfall import untrusted_json
from landfall.ledger import records
from landfall.ledger.entries import PartList
from landfall.ledger.feeds import part_offsets
from landfall.ledger.gzip_members import unpack
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, TopicPartition
from landfall.ledger.records import (
    Add,
    Commit,
    Discover,
    Drop,
    Hole,
    Lease,
    LeaseOutcome,
    Lost,
    Open,
    Record,
    Repair,
    Replace,
    Replay,
    decode,
    digest,
)

GROUP_SIZE = 256
"""Segments whose catalog is one."""
BUCKETS = 64
"""Buckets that topic partitions are spread over, in index and catalog."""
BLOCK_BYTES = 256 * 1024
"""Bytes of slots, before compression, after which a block ends."""
TRAILER_BYTES = 16
NAMED_KINDS = (Open, Add, Drop, Repair, records.Block, Replace)
"""Records whose slots the directory lists: few, and they change what other records have decided."""
MAX_MEMBER_BYTES = 256 * 2**20
"""The most that is read of a member: a block has ``BLOCK_BYTES`` and the rest of its last slot."""

_MAGIC = b"LANDSEG1"
_GZIP = 31
"""The ``wbits`` of a gzip member."""


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A gzip member in a segment; of no bytes if it has no contents."""

    start: int
    length: int


class SegmentBlock(msgspec.Struct, frozen=True, array_like=True):
    """A member that holds slots, from slot ``first`` on."""

    first: int
    start: int
    length: int


class Directory(msgspec.Struct, frozen=True):
    """Where a segment's parts are.

    Attributes:
        first, last: numbers of its first and last slots.
        epoch: the epoch that the last slot seals.
        epochs: the first slot of each epoch in it.
        ordinal: number of the segment, counted from 0.
        blocks: its slots.
        index: per bucket, what its slots are about.
        catalog: per bucket, what the segments of its group up to this one are about.
        kinds: by the tags of records of ``NAMED_KINDS``, their slots. None if software wrote it
            that did not list them.
    """

    first: int
    last: int
    epoch: int
    epochs: tuple[int, ...]
    ordinal: int
    blocks: tuple[SegmentBlock, ...]
    index: tuple[Span, ...]
    catalog: tuple[Span, ...]
    kinds: Mapping[str, tuple[int, ...]] | None = None

    def deletable(self) -> Iterator[tuple[int, int]]:
        """Epoch and index of every slot that may go: not the first of an epoch, nor its seal."""
        ends = (*self.epochs[1:], self.last + 1)
        first_epoch = self.epoch - len(self.epochs) + 1
        for epoch, (start, end) in enumerate(zip(self.epochs, ends, strict=True), first_epoch):
            yield from ((epoch, index) for index in range(1, end - start - 1))


class SegmentEntry(msgspec.Struct, frozen=True, array_like=True):
    """Slot or segment ``at`` concerns ``offsets`` of a topic partition.

    ``begins`` means that the topic partition enters or leaves there: a recreated topic's offsets
    begin again.
    """

    topic: str
    partition: int
    at: int
    start: int
    end: int
    begins: bool = False

    def concerns(self, tp: TopicPartition) -> bool:
        """Return whether the entry is about this topic partition."""
        return (self.topic, self.partition) == (tp.topic, tp.partition)


_entries = msgspec.json.Decoder(tuple[SegmentEntry, ...])
_directory = msgspec.json.Decoder(Directory)
_encoder = msgspec.json.Encoder()

Bucket = Callable[[int], tuple[SegmentEntry, ...]]
"""What an earlier catalog has in a bucket."""


@dataclass(frozen=True, slots=True)
class Built:
    """A segment that is not stored yet.

    Attributes:
        body: its bytes.
        directory: where its parts are.
        after: SHA-256 (hex) of its last slot.
    """

    body: bytes
    directory: Directory
    after: str


def build(group: str, first: int, ordinal: int, bodies: Sequence[bytes], catalog: Bucket) -> Built:
    """The segment of slots ``first`` and following, where the last one seals an epoch.

    Args:
        group: name of the group, which the keys of its dead letters begin with.
        first: number of the first slot, which is the first of its epoch.
        ordinal: number of the segment.
        bodies: the slots' bytes.
        catalog: of the segment before in the same group.

    Raises:
        ValueError: a slot has a line break, or the last is no OPEN.
        Stalled: LEDGER_BROKEN, a slot is not a record.
    """
    out, blocks = bytearray(), list[SegmentBlock]()
    for block_first, lines in _blocks(first, bodies):
        member = _packed(b"".join(lines))
        blocks.append(SegmentBlock(block_first, len(out), len(member)))
        out += member
    buckets: list[list[SegmentEntry]] = [[] for _ in range(BUCKETS)]
    epochs, record = [first], None
    kinds: dict[str, tuple[int, ...]] = {}
    for seq, body in enumerate(bodies, first):
        record = decode(seq, body)
        for entry in entries_of(group, record):
            buckets[bucket_of(entry.topic, entry.partition)].append(entry)
        if isinstance(record, NAMED_KINDS):
            tag = tag_of(type(record))
            kinds[tag] = (*kinds.get(tag, ()), seq)
        if isinstance(record, Open):
            epochs.append(seq + 1)
    if not isinstance(record, Open):
        raise ValueError(f"slot {first + len(bodies) - 1} does not seal an epoch")  # noqa: TRY004  # the value of a slot, not the type of an argument
    index = tuple(_span(out, entries) for entries in buckets)
    earlier = catalog if ordinal % GROUP_SIZE else lambda _: ()
    summed = tuple(
        _span(out, [*earlier(number), *_summary(first, entries)])
        for number, entries in enumerate(buckets)
    )
    directory = Directory(
        first=first,
        last=first + len(bodies) - 1,
        epoch=record.header.epoch - 1,
        epochs=tuple(epochs[:-1]),
        ordinal=ordinal,
        blocks=tuple(blocks),
        index=index,
        catalog=summed,
        kinds=kinds,
    )
    packed = _packed(_encoder.encode(directory))
    out += packed + _MAGIC + struct.pack(">Q", len(packed))
    return Built(bytes(out), directory, digest(bodies[-1]))


def directory_bytes(trailer: bytes) -> int:
    """How long the directory is, by the last ``TRAILER_BYTES`` of a segment.

    Raises:
        ValueError: these are not the last bytes of a segment.
    """
    if len(trailer) != TRAILER_BYTES or not trailer.startswith(_MAGIC):
        raise ValueError("not the end of a segment")
    return int(struct.unpack(">Q", trailer[len(_MAGIC) :])[0])


def read_directory(packed: bytes) -> Directory:
    """The directory in these bytes, which precede the trailer.

    Raises:
        ValueError: the bytes are damaged.
    """
    return untrusted_json.decode_by(_directory.decode, _unpacked(packed))


def read_entries(packed: bytes) -> tuple[SegmentEntry, ...]:
    """The entries in a bucket.

    Raises:
        ValueError: the bytes are damaged.
    """
    return untrusted_json.decode_by(_entries.decode, _unpacked(packed)) if packed else ()


def read_block(packed: bytes) -> list[bytes]:
    """The slots in a block.

    Raises:
        ValueError: the bytes are damaged.
    """
    return _unpacked(packed).splitlines()


def bucket_of(topic: str, partition: int) -> int:
    """The bucket of a topic partition."""
    return zlib.crc32(f"{topic}/{partition}".encode()) % BUCKETS


def tag_of(kind: type[Record]) -> str:
    """Return the name of this record type in the ledger."""
    return str(kind.__struct_config__.tag)


def _blocks(first: int, bodies: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    lines, size = list[bytes](), 0
    for body in bodies:
        if b"\n" in body or b"\r" in body:
            raise ValueError(f"slot {first + len(lines)} has a line break")
        lines.append(body + b"\n")
        size += len(body)
        if size >= BLOCK_BYTES:
            yield first, lines
            first += len(lines)
            lines = []
            size = 0
    if lines:
        yield first, lines


def entries_of(group: str, record: Record) -> Iterator[SegmentEntry]:  # noqa: C901, PLR0912  # one arm per record type
    """The offsets that a record concerns."""
    seq = record.header.seq

    def entry(tp: TopicPartition, offsets: OffsetRange, *, begins: bool = False) -> SegmentEntry:
        return SegmentEntry(
            topic=tp.topic,
            partition=tp.partition,
            at=seq,
            start=offsets.start,
            end=offsets.end,
            begins=begins,
        )

    match record:
        case Add():
            for e in record.entries:
                yield entry(e.topic_partition, OffsetRange(e.start, e.start), begins=True)
        case Drop():
            for tp in record.topic_partitions:
                yield entry(tp, OffsetRange(0, 0), begins=True)
        case Commit() | Replay():
            for s in record.slices:
                yield entry(s.piece.topic_partition, s.piece.offsets)
        case Replace():
            for piece in record.slices:
                yield entry(piece.topic_partition, piece.offsets)
        case Hole():
            yield entry(record.piece.topic_partition, record.piece.offsets)
        case Discover(listed=PartList() as listed):
            start, end = part_offsets(listed.first).start, part_offsets(listed.end).start
            yield entry(record.topic_partition, OffsetRange(start, end))
        case Lease(numbers=numbers):
            yield entry(record.topic_partition, _span_of(numbers))
        case LeaseOutcome(done=a, failed=b, returned=c, expired=d):
            yield entry(record.topic_partition, _span_of((*a, *b, *c, *d)))
        case Lost():
            for o in record.objects:
                origin = object_names.origin(group, o.upload.key)
                tp = TopicPartition(origin.topic, origin.partition)
                yield entry(tp, OffsetRange(o.first_offset, o.last_offset + 1))
        case _:
            pass


def _span_of(numbers: Sequence[int]) -> OffsetRange:
    """The offsets from the first of these parts to the last."""
    return OffsetRange(part_offsets(min(numbers)).start, part_offsets(max(numbers)).end)


def _summary(first: int, entries: Iterable[SegmentEntry]) -> list[SegmentEntry]:
    """One entry per topic partition and life: that the segment from slot ``first`` on has them."""
    found: dict[tuple[str, int], list[SegmentEntry]] = {}
    for e in entries:
        own = found.setdefault((e.topic, e.partition), [])
        if e.begins or not own:
            own.append(
                SegmentEntry(
                    topic=e.topic,
                    partition=e.partition,
                    at=first,
                    start=e.start,
                    end=e.end,
                    begins=e.begins,
                )
            )
            continue
        last = own[-1]
        start = e.start if last.start == last.end else min(last.start, e.start)
        own[-1] = SegmentEntry(
            topic=e.topic,
            partition=e.partition,
            at=first,
            start=start,
            end=max(last.end, e.end),
            begins=last.begins,
        )
    return [e for own in found.values() for e in own]


def _span(out: bytearray, entries: Sequence[SegmentEntry]) -> Span:
    member = _packed(_encoder.encode(entries)) if entries else b""
    span = Span(len(out), len(member))
    out += member
    return span


def _packed(body: bytes) -> bytes:
    # Not ``gzip.compress``, which writes the time: equal slots give equal bytes.
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()


def _unpacked(packed: bytes) -> bytes:
    return unpack(packed, MAX_MEMBER_BYTES)
