"""Deletes the files of keyed tables that no version names any more: of indexes, and of vectors.

A pass writes such files before its version. Most are named by later versions, until newer files
have their keys; after a pass that died, files are never named. Earlier versions need theirs for as
long as they can be read and restored. So a file is deleted once looks at the table have found it
unnamed for that long; when that began is in a file of the index's folder. If it is lost, the time
begins again.

What no look has found unnamed is never deleted, so a pass that is under way keeps its files.
"""

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from landfall.publish.delta.vectors import PREFIX
from landfall.publish.keyed.index import FOLDER
from landfall.store import Slots

MARKS = f"{FOLDER}/unnamed.json"
"""Since when files are unnamed: a JSON object of times (ISO 8601, UTC) by name."""


def delete_unnamed(
    slots: Slots, named: Collection[str | None], now: datetime, kept: timedelta
) -> Mapping[str, str]:
    """Delete files that have been unnamed for long; return since when the remaining ones are.

    Args:
        slots: the files of the table.
        named: the files that its newest version names, such as ``_landfall_index/….parquet``.
        now: the time, UTC.
        kept: how long earlier versions have their files.

    Raises:
        Retry: the store does not answer.
    """
    found = [
        stat.key
        for prefix in (f"{FOLDER}/", PREFIX)
        for stat in slots.list_after(prefix)
        if stat.key != MARKS
    ]
    before = _marks(slots)
    since = {key: before.get(key, now.isoformat()) for key in found if key not in named}
    due = [key for key, begun in since.items() if datetime.fromisoformat(begun) + kept <= now]
    left = {key: begun for key, begun in since.items() if key not in due}
    slots.delete_slots(due)
    if left != before:
        slots.overwrite(MARKS, json.dumps(left).encode())
    return left


def _marks(slots: Slots) -> dict[str, str]:
    try:
        marks = json.loads(slots.read(MARKS) or b"{}")
        return {str(key): datetime.fromisoformat(time).isoformat() for key, time in marks.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
