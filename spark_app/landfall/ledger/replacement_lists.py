"""The bytes of replacement lists: which objects retire, and which take their place. Pure.

A list is an object of its own, named by the SHA-256 of its bytes, that is stored before the REPLACE
which names it (docs/adr/0029). It is gzipped text, which ``zcat`` shows: a line of JSON that says
what it is, a line for each object that retires, and a line for each new one, both in the order of
their keys.

A merged object has *sections*: the rows of the objects that it was made of, one after the other.
With them one finds where a record is, and tells which rows belong to which offsets, in formats too
whose rows do not say it. If rows were sorted or duplicates were left out, sections are mixed.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec

from landfall.ledger import object_names
from landfall.ledger.entries import Replacement
from landfall.ledger.records import digest
from landfall.ledger.replacing import MAX_OBJECTS
from landfall.ledger.task_results import LandedObject

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
        partition: the Kafka partition; the topic is that of the object's name.
        rows: how many of them there are.
        first_offset: of the first record, as in the object that retires.
        last_offset: of the last record.
    """

    partition: int
    rows: int
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class RetiringObject:
    """An object that is to retire: under which slot it was due, and as what it was decided."""

    slot: int
    landed: LandedObject


@dataclass(frozen=True, slots=True)
class NewObject:
    """An object that takes the place of others.

    Attributes:
        landed: the object; its offsets are those of the partition that its name has.
        sections: where its rows come from.
        mixed: rows do not follow each other as the sections do.
    """

    landed: LandedObject
    sections: tuple[Section, ...]
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Replaced:
    """What a list holds: objects that retire, and objects that take their place; both by key."""

    retire: tuple[RetiringObject, ...]
    objects: tuple[NewObject, ...]

    @property
    def folders(self) -> frozenset[str]:
        """The folders that any of the objects are in."""
        retired = (each.landed.upload.key for each in self.retire)
        new = (each.landed.upload.key for each in self.objects)
        return frozenset(key.rpartition("/")[0] for key in chain(retired, new))


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    retire: int
    objects: int


def list_key(group: str, lane: str, sha256: str) -> str:
    """The key of a list.

    Raises:
        ValueError: a name is not legal, or ``sha256`` is none.
    """
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError(f"not a SHA-256: {sha256!r}")
    prefix = object_names.lane_prefix(group, lane)
    return f"{prefix}-replaced/{sha256}.json.gz"


def encode_list(group: str, lane: str, listed: Replaced) -> tuple[Replacement, bytes]:
    """A list: what a REPLACE names, and its bytes. Equal lists give equal bytes.

    Raises:
        ValueError: there are too few or too many objects, they are not in order, or the rows of
            sections do not add up.
    """
    _check(listed)
    head = _Head(VERSION, len(listed.retire), len(listed.objects))
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    encoder = msgspec.json.Encoder(order="deterministic")
    lines = (head, *listed.retire, *listed.objects)
    packed = [packer.compress(encoder.encode(line) + b"\n") for line in lines]
    body = b"".join((*packed, packer.flush()))
    sha256 = digest(body)
    return _named(list_key(group, lane, sha256), sha256, listed), body


def decode_list(named: Replacement, body: bytes) -> Replaced:
    """The objects of a list that a REPLACE names.

    Raises:
        ValueError: the bytes are not what the REPLACE names.
    """
    if digest(body) != named.sha256:
        raise ValueError(f"{named.key}: not the list that the ledger names")
    try:
        lines = _unpacked(body).splitlines()
        head = _head(lines[0])
        middle = 1 + head.retire
        listed = Replaced(
            tuple(msgspec.json.decode(line, type=RetiringObject) for line in lines[1:middle]),
            tuple(msgspec.json.decode(line, type=NewObject) for line in lines[middle:]),
        )
        _check(listed)
    except (zlib.error, ValueError, IndexError) as error:
        raise ValueError(f"{named.key}: not a list of replaced objects: {error}") from None
    if _named(named.key, named.sha256, listed) != named or len(listed.objects) != head.objects:
        raise ValueError(f"{named.key}: lists other numbers of objects or rows than the ledger")
    return listed


def _head(line: bytes) -> _Head:
    head = msgspec.json.decode(line, type=_Head)
    if head.version != VERSION:
        raise ValueError(f"of version {head.version}, this software knows {VERSION}")
    return head


def _named(key: str, sha256: str, listed: Replaced) -> Replacement:
    return Replacement(
        key,
        sha256,
        len(listed.retire),
        sum(each.landed.rows for each in listed.retire),
        len(listed.objects),
        sum(each.landed.rows for each in listed.objects),
    )


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(_GZIP)
    data = unpacker.decompress(body, _MAX_BYTES)
    if unpacker.unconsumed_tail or not unpacker.eof or unpacker.unused_data:
        raise ValueError("it is cut off, too long, or has more behind it")
    return data


def _check(listed: Replaced) -> None:
    if not 0 < len(listed.retire) + len(listed.objects) <= MAX_OBJECTS:
        raise ValueError(f"{len(listed.retire)} objects and {len(listed.objects)} in their place")
    for objects in (listed.retire, listed.objects):
        _check_order(objects)
    for new in listed.objects:
        rows = sum(section.rows for section in new.sections)
        if rows != new.landed.rows or any(section.rows < 0 for section in new.sections):
            raise ValueError(
                f"{new.landed.upload.key} has {new.landed.rows} rows, its sections have {rows}"
            )
    if both := {o.landed.upload.key for o in listed.retire} & {
        o.landed.upload.key for o in listed.objects
    }:
        raise ValueError(f"{min(both)} retires, and takes the place of others")


def _check_order(objects: Sequence[RetiringObject] | Sequence[NewObject]) -> None:
    keys = [each.landed.upload.key for each in objects]
    if sorted({*keys}) != keys:
        raise ValueError("objects are not in the order of their keys, or one is named twice")
