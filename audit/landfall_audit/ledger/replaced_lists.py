"""The lists of replaced and new objects, read independently of their writer.

A list is gzipped lines of JSON: a header, one line per object that retires, then one line per
replacement. An object has a name, rows, the offsets of its first and last record, the sizes of its
parts and a CRC-32. A new one has sections, too: how many of its rows come from which range, one
after the other, or mixed. Of a backfill, a line for each range follows that it landed again, with
the counts that a COMMIT has.
"""

import hashlib
from typing import Any

import msgspec

from landfall_audit import FaultKind, untrusted_json
from landfall_audit.buckets import Bucket
from landfall_audit.gzip_members import MAX_LIST_BYTES, unpacked


class _ListPart(msgspec.Struct, frozen=True):
    size: int


class _Upload(msgspec.Struct, frozen=True):
    key: str
    parts: tuple[_ListPart, ...]


class ListedObject(msgspec.Struct, frozen=True):
    """An object as a list names it."""

    upload: _Upload
    rows: int
    first_offset: int
    last_offset: int
    crc32: int

    @property
    def key(self) -> str:
        """Its key."""
        return self.upload.key

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return sum(part.size for part in self.upload.parts)

    @property
    def content(self) -> tuple[int, int, int, int, int]:
        """The values that a copy shares with it."""
        return self.size, self.crc32, self.rows, self.first_offset, self.last_offset


class RowSection(msgspec.Struct, frozen=True):
    """Rows of a new object that come from one range of a topic partition."""

    partition: int
    rows: int
    first_offset: int
    last_offset: int


class RetiringObject(msgspec.Struct, frozen=True):
    """An object that is replaced."""

    landed: ListedObject


class ReplacementObject(msgspec.Struct, frozen=True):
    """A replacement, and the sources of its rows.

    If it is mixed, its rows are not in the order of its sections.
    """

    landed: ListedObject
    sections: tuple[RowSection, ...]
    mixed: bool = False


class _TopicPartition(msgspec.Struct, frozen=True):
    topic: str
    partition: int


class _Offsets(msgspec.Struct, frozen=True):
    start: int
    end: int


class _ListPiece(msgspec.Struct, frozen=True):
    topic_partition: _TopicPartition
    offsets: _Offsets


class AgainRange(msgspec.Struct, frozen=True):
    """A range that a backfill landed again, and the counts of its offsets by outcome."""

    piece: _ListPiece
    landed: int
    filtered: int
    dead_lettered: int
    invisible: int
    schemas: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        """Its topic."""
        return self.piece.topic_partition.topic

    @property
    def partition(self) -> int:
        """Its Kafka partition."""
        return self.piece.topic_partition.partition

    @property
    def start(self) -> int:
        """Its first offset."""
        return self.piece.offsets.start

    @property
    def end(self) -> int:
        """The offset after its last one."""
        return self.piece.offsets.end

    @property
    def counted(self) -> int:
        """How many offsets it counts."""
        return self.landed + self.filtered + self.dead_lettered + self.invisible


class _MadeBy(msgspec.Struct, frozen=True):
    spec: str


class _ReplacedHead(msgspec.Struct, frozen=True):
    retire: int
    objects: int
    made_by: _MadeBy | None = None


class ReplacedList(msgspec.Struct, frozen=True):
    """The objects of a list; of a backfill also its ranges, and the spec that it landed them by."""

    retire: tuple[RetiringObject, ...]
    objects: tuple[ReplacementObject, ...]
    landed_again: tuple[AgainRange, ...] = ()
    spec: str = ""

    @property
    def stored(self) -> set[tuple[FaultKind, str]]:
        """The schemas and specs that it names."""
        schemas = {
            (FaultKind.SCHEMA, name) for range_ in self.landed_again for name in range_.schemas
        }
        return schemas | ({(FaultKind.SPEC, self.spec)} if self.spec else set())


def read_list(bucket: Bucket, named: Any) -> ReplacedList:
    """The list that a REPLACE names.

    Raises:
        OSError, ValueError, EOFError, zlib.error: it is absent, or differs from the REPLACE.
    """
    with bucket.open(named["key"]) as stream:
        body = stream.read()
    if (found := hashlib.sha256(body).hexdigest()) != named["sha256"]:
        raise ValueError(f"has SHA-256 {found[:12]}")
    head, *lines = unpacked(body, MAX_LIST_BYTES).splitlines()
    says = untrusted_json.decode(head, type=_ReplacedHead)
    middle, end = says.retire, says.retire + says.objects
    listed = ReplacedList(
        tuple(untrusted_json.decode(line, type=RetiringObject) for line in lines[:middle]),
        tuple(untrusted_json.decode(line, type=ReplacementObject) for line in lines[middle:end]),
        tuple(untrusted_json.decode(line, type=AgainRange) for line in lines[end:]),
        says.made_by.spec if says.made_by else "",
    )
    _check(listed, named)
    return listed


def _check(listed: ReplacedList, named: Any) -> None:
    """Raise ValueError if the numbers of objects and rows do not add up."""
    counts = {
        "retired": len(listed.retire),
        "retired_rows": sum(object_.landed.rows for object_ in listed.retire),
        "objects": len(listed.objects),
        "rows": sum(object_.landed.rows for object_ in listed.objects),
    }
    for name, count in counts.items():
        if count != named[name]:
            raise ValueError(f"has {count} {name.replace('_', ' ')}, not {named[name]}")
    for new in listed.objects:
        if (rows := sum(section.rows for section in new.sections)) != new.landed.rows:
            raise ValueError(f"{new.landed.key} has {new.landed.rows} rows, its sections {rows}")
