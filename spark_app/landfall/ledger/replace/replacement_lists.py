"""The bytes of replacement lists: which objects retire, and which replace them. Pure.

A list is an object of its own, named by the SHA-256 of its bytes, that is stored before the REPLACE
which names it (docs/adr/0029). It is gzipped text, which ``zcat`` shows: a header line of JSON, a
line for each object that retires, and a line for each new one, both in the order of their keys.

A merged object has *sections*: the rows of the objects that it was made of, one after the other.
With them one finds where a record is, and which rows belong to which offsets, also in formats whose
rows do not contain it. If rows were sorted or duplicates were left out, sections are mixed.

The list of a backfill also has a line for each range that it landed again, with the counts that a
COMMIT has of a range: how many records are in its objects, were filtered or could not be decoded.
"""

import re
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

import msgspec

from landfall import untrusted_json
from landfall.ledger.entries import Replacement
from landfall.ledger.gzip_members import unpack
from landfall.ledger.names import object_names
from landfall.ledger.offsets import Slice, TopicPartition
from landfall.ledger.records import digest
from landfall.ledger.replace.replacing import MAX_OBJECTS
from landfall.ledger.task_results import (
    DecidedObject,
    LandedObject,
    LandedSlice,
    ObjectKind,
    check_schemas,
)

VERSION = 1
"""The version of the format that this software writes."""
_GZIP = 31
"""The ``wbits`` of a gzip member."""
_MAX_BYTES = 512 * 2**20
"""How large the lines of a list are at most."""


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of a new object that come from the same range of a topic partition.

    Attributes:
        partition: the Kafka partition; the topic is in the object's name.
        rows: how many of them there are.
        first_offset: of the first record, as in the object that retires.
        last_offset: of the last record.
    """

    partition: int
    rows: int
    first_offset: int
    last_offset: int

    @classmethod
    def of(cls, partition: int, landed: LandedObject) -> "Section":
        """Return all rows of an object whose records are of one Kafka partition."""
        return cls(partition, landed.rows, landed.first_offset, landed.last_offset)


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object that replaces other objects.

    Attributes:
        landed: the object; its offsets belong to the partition in its name.
        sections: where its rows come from.
        mixed: rows do not follow each other as the sections do.
        sorted: they were sorted, so that it is unknown which of them come from which section.
    """

    landed: LandedObject
    sections: tuple[Section, ...]
    mixed: bool = False
    sorted: bool = False

    @property
    def key(self) -> str:
        """The object's key."""
        return self.landed.key

    @property
    def folder(self) -> str:
        """The folder that the object is in."""
        return self.landed.folder


@dataclass(frozen=True, slots=True)
class LandedAgain:
    """A range that a backfill landed again. It has the counters of a ``LandedSlice``.

    The new objects hold its rows: those with a section inside of it.

    Attributes:
        piece: the range.
        landed: records in data objects.
        filtered: records that a transform dropped on purpose.
        dead_lettered: records in dead-letter objects.
        invisible: offsets without a record that a consumer can see.
        input_bytes: payload bytes read.
        schemas: SHA-256 (hex) of the stored schemas that its payloads were decoded with, sorted.

    Raises:
        ValueError: the counters do not add up, or the schemas are no sorted SHA-256s.
    """

    piece: Slice  # named as in LandedSlice
    landed: int
    filtered: int
    dead_lettered: int
    invisible: int
    input_bytes: int
    schemas: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_schemas(self.schemas)
        counters = (self.landed, self.filtered, self.dead_lettered, self.invisible)
        if sum(counters) != len(self.piece.offsets) or min(counters) < 0:
            raise ValueError(
                f"{self.piece}: {len(self.piece.offsets)} offsets, but landed {self.landed} + "
                f"filtered {self.filtered} + dead-lettered {self.dead_lettered} + "
                f"invisible {self.invisible}"
            )

    @classmethod
    def of(cls, landed: LandedSlice) -> "LandedAgain":
        """A slice, without its objects."""
        return cls(
            piece=landed.piece,
            landed=landed.landed,
            filtered=landed.filtered,
            dead_lettered=landed.dead_lettered,
            invisible=landed.invisible,
            input_bytes=landed.input_bytes,
            schemas=landed.schemas,
        )


@dataclass(frozen=True, slots=True)
class MadeBy:
    """By what a backfill landed: the generation, and the stored spec as the live lane names it."""

    generation: int
    spec: str


@dataclass(frozen=True, slots=True)
class ReplacementList:
    """The contents of a list; nothing if a REPLACE only gives another one up.

    Attributes:
        retire: objects that retire, by key.
        objects: objects that replace them, by key.
        landed_again: the ranges that a backfill landed again, in order; empty for other purposes.
        made_by: by what it landed them; None for other purposes.
    """

    retire: tuple[DecidedObject, ...]
    objects: tuple[NewObject, ...]
    landed_again: tuple[LandedAgain, ...] = ()
    made_by: MadeBy | None = None

    @property
    def folders(self) -> frozenset[str]:
        """The folders that any of the objects are in."""
        retired = (object_.key for object_ in self.retire)
        new = (object_.key for object_ in self.objects)
        return frozenset(key.rpartition("/")[0] for key in chain(retired, new))


class _ReplacementHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    retire: int
    objects: int
    landed_again: int = 0
    made_by: MadeBy | None = None


def list_key(group: str, lane: str, sha256: str) -> str:
    """The key of a list.

    Raises:
        ValueError: a name is not legal, or ``sha256`` is none.
    """
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"not a SHA-256: {sha256!r}")
    prefix = object_names.lane_prefix(group, lane)
    return f"{prefix}-replaced/{sha256}.json.gz"


def encode_list(group: str, lane: str, listed: ReplacementList) -> tuple[Replacement, bytes]:
    """A list: what a REPLACE names, and its bytes. Equal lists give equal bytes.

    Raises:
        ValueError: there are too few or too many objects, they are not in order, or the rows of
            sections or of ranges do not add up.
    """
    _check(listed)
    lengths = len(listed.retire), len(listed.objects), len(listed.landed_again)
    head = _ReplacementHead(VERSION, *lengths, listed.made_by)
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    encoder = msgspec.json.Encoder(order="deterministic")
    lines = (head, *listed.retire, *listed.objects, *listed.landed_again)
    packed = [packer.compress(encoder.encode(line) + b"\n") for line in lines]
    body = b"".join((*packed, packer.flush()))
    sha256 = digest(body)
    return _named(list_key(group, lane, sha256), sha256, listed), body


def decode_list(named: Replacement, body: bytes | None) -> ReplacementList:
    """The objects of a list that a REPLACE names, by the bytes under its key; None if it is gone.

    Raises:
        ValueError: it is gone, or the bytes are not what the REPLACE names.
    """
    if body is None:
        raise ValueError(f"names {named.key}, which is not there")
    if digest(body) != named.sha256:
        raise ValueError(f"{named.key}: not the list that the ledger names")
    try:
        lines = unpack(body, _MAX_BYTES).splitlines()
        head = _head(lines[0])
        middle, end = 1 + head.retire, 1 + head.retire + head.objects
        listed = ReplacementList(
            tuple(untrusted_json.decode(line, type=DecidedObject) for line in lines[1:middle]),
            tuple(untrusted_json.decode(line, type=NewObject) for line in lines[middle:end]),
            tuple(untrusted_json.decode(line, type=LandedAgain) for line in lines[end:]),
            head.made_by,
        )
        _check(listed)
    except (ValueError, IndexError) as error:
        raise ValueError(f"{named.key}: not a list of replaced objects: {error}") from None
    lengths = len(listed.objects), len(listed.landed_again)
    is_whole = lengths == (head.objects, head.landed_again)
    if _named(named.key, named.sha256, listed) != named or not is_whole:
        raise ValueError(f"{named.key}: lists other numbers of objects or rows than the ledger")
    return listed


def _head(line: bytes) -> _ReplacementHead:
    head = untrusted_json.decode(line, type=_ReplacementHead)
    if head.version != VERSION:
        raise ValueError(f"of version {head.version}, this software knows {VERSION}")
    return head


def _named(key: str, sha256: str, listed: ReplacementList) -> Replacement:
    return Replacement(
        key=key,
        sha256=sha256,
        retired=len(listed.retire),
        retired_rows=sum(object_.landed.rows for object_ in listed.retire),
        objects=len(listed.objects),
        rows=sum(object_.landed.rows for object_ in listed.objects),
    )


def _check(listed: ReplacementList) -> None:
    if not len(listed.retire) + len(listed.objects) <= MAX_OBJECTS:
        raise ValueError(f"{len(listed.retire)} objects and {len(listed.objects)} in their place")
    for objects in (listed.retire, listed.objects):
        _check_order(objects)
    for new in listed.objects:
        rows = sum(section.rows for section in new.sections)
        if rows != new.landed.rows or any(section.rows < 0 for section in new.sections):
            raise ValueError(
                f"{new.landed.key} has {new.landed.rows} rows, its sections have {rows}"
            )
    if both := {o.landed.key for o in listed.retire} & {o.landed.key for o in listed.objects}:
        raise ValueError(f"{min(both)} retires, and is a new object of the same list")
    if bool(listed.landed_again) != (listed.made_by is not None):
        raise ValueError("ranges that were landed again without made_by, or made_by without ranges")
    if listed.landed_again:
        _check_ranges(listed)


def _check_ranges(listed: ReplacementList) -> None:
    """Raise ``ValueError`` unless the new objects have just the rows of the ranges."""
    pieces = [again.piece for again in listed.landed_again]
    if any(
        one.topic_partition == other.topic_partition and one.offsets.end > other.offsets.start
        for one, other in pairwise(sorted(pieces))
    ) or pieces != sorted(pieces):
        raise ValueError("ranges that were landed again overlap, or are not in order")
    counted = Counter[tuple[Slice, ObjectKind]]()
    for new in listed.objects:
        for section, piece in _sections_by_range(new, pieces):
            counted[piece, new.landed.kind] += section.rows
    for again in listed.landed_again:
        found = tuple(counted[again.piece, kind] for kind in ObjectKind)
        if found != (again.landed, again.dead_lettered):
            raise ValueError(
                f"{again.piece}: {again.landed} records landed and {again.dead_lettered} "
                f"dead-lettered, and the objects have {found[0]} and {found[1]}"
            )


def _sections_by_range(new: NewObject, pieces: Sequence[Slice]) -> Iterable[tuple[Section, Slice]]:
    """Each section with the range that it is in."""
    for section in new.sections:
        tp = TopicPartition(_topic(new.landed.key), section.partition)
        place = bisect_right(pieces, (tp, section.first_offset), key=_start) - 1
        piece = pieces[place] if place >= 0 else None
        if piece is None or piece.topic_partition != tp or section.last_offset >= piece.offsets.end:
            raise ValueError(
                f"{new.landed.key} has rows of {tp} from {section.first_offset} to "
                f"{section.last_offset}, which are in no range that was landed again"
            )
        yield section, piece


def _start(piece: Slice) -> tuple[TopicPartition, int]:
    return piece.topic_partition, piece.offsets.start


def _topic(key: str) -> str:
    """The topic of a data object, or of a dead-letter object of any group."""
    parts = key.split("/")
    group = parts[1] if parts[0] == object_names.SYSTEM else "none"
    return object_names.origin(group, key).topic


def _check_order(objects: Sequence[DecidedObject] | Sequence[NewObject]) -> None:
    keys = [object_.key for object_ in objects]
    if sorted({*keys}) != keys:
        raise ValueError("objects are not in the order of their keys, or one is named twice")
