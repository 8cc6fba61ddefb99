"""Deletes versions of a Delta log in a store that are older than the table keeps them.

Readers begin at a checkpoint. So what comes before the newest checkpoint that has expired itself is
deleted, and that checkpoint stays: every version that has not expired can be read and restored.

Source: PROTOCOL.md, "Metadata Cleanup"
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from landfall.publish.delta.logs import LOG, name_of
from landfall.store import Slots

_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet", re.ASCII)
_LENGTHS = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
}
_LENGTH = re.compile(rf"\s*(\d{{1,6}})\s+({'|'.join(_LENGTHS)})s?", re.IGNORECASE | re.ASCII)
_DEFAULT = "interval 30 days"
"""Delta's own."""


def delete_expired(slots: Slots, configuration: Mapping[str, str | None], now: datetime) -> None:
    """Delete what a table's log has before its newest expired checkpoint.

    Args:
        slots: the files of the table.
        configuration: its properties.
        now: the time.

    Raises:
        Retry: the store does not answer.
    """
    kept = retention(configuration.get("delta.logRetentionDuration") or _DEFAULT)
    if kept is None or configuration.get("delta.enableExpiredLogCleanup") == "false":
        return
    listed = (stat.key.removeprefix(f"{LOG}/") for stat in slots.list_after(f"{LOG}/"))
    names = expired(listed, lambda version: time_of(slots, version), now - kept)
    slots.delete_slots([f"{LOG}/{name}" for name in names])


def expired(
    names: Iterable[str], time_of: Callable[[int], datetime | None], before: datetime
) -> list[str]:
    """Return the names that can be deleted, oldest first.

    Args:
        names: of a log's files, in order: by version, all files of one together.
        time_of: looks up the time of a version; None if it is not known.
        before: versions of an earlier time have expired.
    """
    found, passed = list[str](), list[str]()
    for name in takewhile(lambda name: name[:20].isdecimal(), names):
        if checkpoint := _CHECKPOINT.fullmatch(name):
            time = time_of(int(checkpoint[1]))
            if time is not None and time >= before:
                break
            if time is not None:
                found += passed
                passed.clear()
        passed.append(name)
    return found


def retention(text: str) -> timedelta | None:
    """Return the length of an interval as Delta's properties have it; None if it is another text.

    Such as ``interval 30 days`` or ``interval 1 week 12 hours``.
    """
    word, _, rest = text.strip().partition(" ")
    parts = [*_LENGTH.finditer(rest)]
    if word.casefold() != "interval" or not parts or _LENGTH.sub("", rest).strip():
        return None
    return sum((int(p[1]) * _LENGTHS[p[2].casefold()] for p in parts), timedelta())


def time_of(slots: Slots, version: int) -> datetime | None:
    """The time of a version, as its commit states it; None if it is not there, or states none."""
    for line in (slots.read(f"{LOG}/{name_of(version)}") or b"").splitlines():
        commit = json.loads(line).get("commitInfo", {})
        moment = commit.get("inCommitTimestamp", commit.get("timestamp"))
        if isinstance(moment, int):
            return datetime.fromtimestamp(moment / 1000, UTC)
    return None
