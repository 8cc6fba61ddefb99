"""Compares the objects that a ledger names with the visible ones: invariants I3, I5, I6. Pure.

A listing reports size and ETag. If the ETag is the MD5 of the parts' MD5s, it proves that the
object is the right upload. If it is something else (SSE-KMS, some stores), only the token in the
object's metadata proves that: ``is_proven`` decides whether it must be requested.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from landfall.checks import Finding, Invariant
from landfall.ledger.names import object_names
from landfall.ledger.task_results import DecidedObject
from landfall.objects import ObjectStat, etag_contradicts, multipart_etag


@dataclass(frozen=True, slots=True)
class NamedObject(DecidedObject):
    """An object as the ledger names it.

    Attributes:
        applied: whether the object must be visible.
        retires: whether a REPLACE is about to delete it, perhaps once its grace period is over.
    """

    applied: bool
    retires: bool = False


def merge_by_key(
    named: Iterable[NamedObject], visible: Iterable[ObjectStat]
) -> Iterator[tuple[NamedObject | None, ObjectStat | None]]:
    """Pair named and visible objects by key; None where one of them is missing.

    Both must be sorted by the UTF-8 bytes of their keys, as stores list them. Memory holds one of
    each at a time.
    """
    names, stats = iter(named), iter(visible)
    name, stat = next(names, None), next(stats, None)
    while name or stat:
        if stat is None or (name and name.key.encode() < stat.key.encode()):
            yield name, None
            name = next(names, None)
        elif name is None or stat.key.encode() < name.key.encode():
            yield None, stat
            stat = next(stats, None)
        else:
            yield name, stat
            name, stat = next(names, None), next(stats, None)


def check_object(named: NamedObject, found: ObjectStat | None) -> Finding | None:
    """Return what is wrong with the object found under a key, or None.

    An empty token was not requested and is not compared. An object that is not applied yet may be
    missing.
    """
    upload, slot = named.landed.upload, named.slot
    if found is None:
        missing = Finding(
            Invariant.I6, f"an object of {upload.size} bytes", "nothing", slot, key=upload.key
        )
        return missing if named.applied else None
    if found.token and found.token != upload.token:
        return Finding(
            Invariant.I3, f"token {upload.token}", f"token {found.token}", slot, key=upload.key
        )
    if found.size != upload.size:
        return Finding(
            Invariant.I5, f"{upload.size} bytes", f"{found.size} bytes", slot, key=upload.key
        )
    if etag_contradicts(upload, found.etag):
        return Finding(
            Invariant.I5, f"ETag {multipart_etag(upload.parts)}", found.etag, slot, key=upload.key
        )
    return None


def check_bytes(named: NamedObject, crc32: int) -> Finding | None:
    """Return what is wrong with an object's bytes, given their checksum, or None."""
    expected = named.landed.crc32
    if crc32 == expected:
        return None
    return Finding(Invariant.I5, f"crc32 {expected:08x}", f"{crc32:08x}", named.slot, key=named.key)


def is_landfall_object(key: str, group: str) -> bool:
    """Return whether a key names a data object, or dead letters, of this group."""
    try:
        object_names.origin(group, key)
    except ValueError:
        return False
    return True


def unnamed_object(found: ObjectStat) -> Finding:
    """The finding for a visible data object or dead letters that no record names."""
    return Finding(
        Invariant.I3,
        "an object that a COMMIT or REPAIR names",
        f"{found.size} bytes that no record names",
        key=found.key,
    )
