"""What the settings of a bucket mean for parts, which live for minutes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from landfall.store.gcs.parts import PARTS


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
    """What to change of a bucket, given the resource that Google's JSON API describes it by."""
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
