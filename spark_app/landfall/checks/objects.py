"""Comparing the objects a ledger names with the objects that are visible: invariants I3, I5, I6. Pure.

A listing tells size and ETag. Where the ETag is the MD5 of the parts' MD5s that is proof enough;
where it is not (SSE-KMS, some stores), the object has to be asked for its token: ``is_proven`` says
which.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from landfall.checks import Finding, Invariant
from landfall.ledger import object_names
from landfall.ledger.task_results import LandedObject
from landfall.objects import ObjectStat, Upload, etag_contradicts, multipart_etag


@dataclass(frozen=True, slots=True)
class Named:
    """An object as COMMIT (or a later REPAIR) ``slot`` names it; ``applied`` when it must be visible."""

    slot: int
    landed: LandedObject
    applied: bool

    @property
    def key(self) -> str:
        """Of the object."""
        return self.landed.upload.key


def merge_by_key(
    named: Iterable[Named], visible: Iterable[ObjectStat]
) -> Iterator[tuple[Named | None, ObjectStat | None]]:
    """Join both, each in order of its keys' UTF-8 bytes, as stores list them; memory holds one of each."""
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


def is_proven(upload: Upload, etag: str) -> bool:
    """Whether this ETag alone proves that the object is the upload's."""
    return bool(expected := multipart_etag(upload.parts)) and etag.strip('"') == expected


def judge(named: Named, found: ObjectStat | None) -> Finding | None:
    """What is wrong with the object found under a name. An empty token was not asked for; one not applied may be missing."""
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


def judge_bytes(named: Named, crc32: int) -> Finding | None:
    """What is wrong with an object's bytes, by their checksum."""
    expected = named.landed.crc32
    if crc32 == expected:
        return None
    return Finding(Invariant.I5, f"crc32 {expected:08x}", f"{crc32:08x}", named.slot, key=named.key)


def is_ours(key: str, group: str) -> bool:
    """Whether only a landing could have made a key: a data object's, or one of this group's dead letters."""
    try:
        object_names.origin(group, key)
    except ValueError:
        return False
    return True


def stray(found: ObjectStat) -> Finding:
    """A visible object of ours that no record names."""
    return Finding(
        Invariant.I3,
        "an object that a COMMIT or REPAIR names",
        f"{found.size} bytes nobody named",
        key=found.key,
    )
