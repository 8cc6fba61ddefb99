"""Names of the objects that hold an upload's parts. Pure.

    _landfall/_parts/<key of the object>/<upload id>/<number:05d>-<MD5>
    _landfall/_parts/<key of the object>/<upload id>/joined-<level>-<number:05d>-<digest>

They name the object and upload of a part, so that a listing finds the open uploads below a
prefix. No ledger can be there, as the name of a group cannot begin with an underscore.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from landfall.objects import Part, Upload

PARTS = "_landfall/_parts/"
"""Prefix of all parts."""
MAX_SOURCES = 32
"""How many objects Google joins by one request."""
_NAME = re.compile(rf"{PARTS}(?P<key>.+)/(?P<upload_id>[0-9a-f]{{32}})/[^/]+", re.DOTALL)
_UPLOAD_ID = re.compile(r"[0-9a-f]{32}")


def folder_of(key: str, upload_id: str) -> str:
    """The prefix of an upload's parts, with a slash at its end."""
    if not _UPLOAD_ID.fullmatch(upload_id):
        raise ValueError(f"not an upload id of a store in Google Cloud Storage: {upload_id!r}")
    return f"{PARTS}{key}/{upload_id}/"


def part_name(key: str, upload_id: str, number: int, part: Part) -> str:
    """The name of a part. The MD5 in it keeps a repeated part with other bytes apart."""
    return f"{folder_of(key, upload_id)}{number:05d}-{part.etag}"


def part_names(upload: Upload) -> list[str]:
    """The names of all parts, in order."""
    return [part_name(upload.key, upload.upload_id, n, p) for n, p in enumerate(upload.parts, 1)]


def joins(upload: Upload) -> Iterator[tuple[str, Sequence[str]]]:
    """How to make the object: the names to join, and the name of what they become, in order.

    The last is the object itself. What comes before are parts joined to larger ones, if there are
    more than ``MAX_SOURCES``. They have the same names for every process that completes the upload.
    """
    names = part_names(upload)
    level = 0
    folder = folder_of(upload.key, upload.upload_id)
    while len(names) > MAX_SOURCES:
        level = level + 1
        before = names
        names = []
        for first in range(0, len(before), MAX_SOURCES):
            group = before[first : first + MAX_SOURCES]
            digest = hashlib.md5("\n".join(group).encode(), usedforsecurity=False).hexdigest()
            names.append(f"{folder}joined-{level}-{len(names) + 1:05d}-{digest}")
            yield names[-1], group
    yield upload.key, names


def upload_of(name: str) -> tuple[str, str] | None:
    """The key and the upload id in the name of a part; None if it is not one."""
    match = _NAME.fullmatch(name)
    return (match["key"], match["upload_id"]) if match else None


def upload_lifetime(rules: Iterable[Mapping[str, Any]], root: str) -> timedelta | None:
    """The shortest time after which a bucket's lifecycle rules delete parts below ``root``.

    Args:
        rules: as in ``lifecycle.rule`` of the bucket.
        root: prefix of all keys; empty, or with a slash at its end.
    """
    days = [
        rule["condition"]["age"]
        for rule in rules
        if rule["action"]["type"] == "Delete"
        and "age" in rule["condition"]
        and _concerns(rule["condition"].get("matchesPrefix") or [""], root + PARTS)
    ]
    return timedelta(days=min(days)) if days else None


def of(bucket: Mapping[str, Any]) -> Sequence[str]:
    """Return what to change of a bucket, given its resource in Google's JSON API."""
    found = []
    soft = timedelta(
        seconds=int(bucket.get("softDeletePolicy", {}).get("retentionDurationSeconds", 0))
    )
    if soft:
        found.append(
            f"the bucket keeps deleted objects for {soft.days} d (soft delete): every landed byte "
            "is stored twice for this time; set its soft delete policy to 0"
        )
    if bucket.get("versioning", {}).get("enabled"):
        found.append(
            "the bucket keeps old versions of objects: every landed byte is stored twice until a "
            f"lifecycle rule deletes those below {PARTS}"
        )
    if "retentionPolicy" in bucket:
        found.append(
            "the bucket has a retention policy: parts of objects cannot be deleted until it ends"
        )
    return found


def _concerns(prefixes: Iterable[str], parts: str) -> bool:
    return any(parts.startswith(prefix) or prefix.startswith(parts) for prefix in prefixes)
