"""The lists of objects that take the place of others, read independently of what writes them.

A list is gzipped lines of JSON: what it is, an object a line that retires, then an object a line
that takes their place. An object has a name, rows, the offsets of its first and last record, the
sizes of its parts and a CRC-32. A new one has sections, too: how many of its rows come from which
range, one after the other, or mixed.
"""

import gzip
import hashlib
from typing import Any

import msgspec

from landfall.audit.buckets import Bucket


class _Part(msgspec.Struct, frozen=True):
    size: int


class _Upload(msgspec.Struct, frozen=True):
    key: str
    parts: tuple[_Part, ...]


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
        """What a copy of it has in common with it."""
        return self.size, self.crc32, self.rows, self.first_offset, self.last_offset


class Section(msgspec.Struct, frozen=True):
    """Rows of a new object that come from one range of a topic partition."""

    partition: int
    rows: int
    first_offset: int
    last_offset: int


class RetiringObject(msgspec.Struct, frozen=True):
    """An object whose place others take."""

    landed: ListedObject


class NewObject(msgspec.Struct, frozen=True):
    """An object that takes the place of others, and from where its rows are.

    If it is mixed, its rows are not in the order of its sections.
    """

    landed: ListedObject
    sections: tuple[Section, ...]
    mixed: bool = False


class ReplacedList(msgspec.Struct, frozen=True):
    """The objects of a list."""

    retire: tuple[RetiringObject, ...]
    objects: tuple[NewObject, ...]


def read_list(bucket: Bucket, named: Any) -> ReplacedList:
    """The list that a REPLACE names.

    Raises:
        OSError, ValueError, EOFError, zlib.error: it is not there, or not as the REPLACE says.
    """
    with bucket.open(named["key"]) as stream:
        body = stream.read()
    if (found := hashlib.sha256(body).hexdigest()) != named["sha256"]:
        raise ValueError(f"has SHA-256 {found[:12]}")
    head, *lines = gzip.decompress(body).splitlines()
    middle = msgspec.json.decode(head)["retire"]
    listed = ReplacedList(
        tuple(msgspec.json.decode(line, type=RetiringObject) for line in lines[:middle]),
        tuple(msgspec.json.decode(line, type=NewObject) for line in lines[middle:]),
    )
    _check(listed, named)
    return listed


def _check(listed: ReplacedList, named: Any) -> None:
    """Raise ValueError if the numbers of objects and rows do not add up."""
    counts = {
        "retired": len(listed.retire),
        "retired_rows": sum(each.landed.rows for each in listed.retire),
        "objects": len(listed.objects),
        "rows": sum(each.landed.rows for each in listed.objects),
    }
    for name, count in counts.items():
        if count != named[name]:
            raise ValueError(f"has {count} {name.replace('_', ' ')}, not {named[name]}")
    for new in listed.objects:
        if (rows := sum(section.rows for section in new.sections)) != new.landed.rows:
            raise ValueError(f"{new.landed.key} has {new.landed.rows} rows, its sections {rows}")
