"""Aborts uploads that no COMMIT names: what dead tasks and dead drivers left behind."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from landfall.store import Uploads

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OrphanFilter:
    """Which open uploads are orphans.

    Attributes:
        is_ours: whether a key is named like this group's objects; another group's root may lie
            inside ours.
        begun_before: younger uploads may still be written to.
        decided: ids of uploads that a COMMIT names; aborting one would lose what is committed.
    """

    is_ours: Callable[[str], bool]
    begun_before: datetime
    decided: frozenset[str] = frozenset()


def abort_orphan_uploads(
    uploads: Uploads, orphans: OrphanFilter, is_fenced: Callable[[], bool] = lambda: False
) -> int:
    """Abort open uploads that are orphans, and return how many there were.

    A driver that was fenced and does not know it yet would abort its successor's uploads. So the
    ledger is read after the listing: if nobody had opened the lane by then, no listed upload is a
    successor's.

    Args:
        uploads: the store.
        orphans: which uploads to abort.
        is_fenced: whether another driver has opened the lane by now.
    """
    found = [
        upload
        for upload in uploads.open_uploads("")
        if upload.begun <= orphans.begun_before
        and upload.upload_id not in orphans.decided
        and orphans.is_ours(upload.key)
    ]
    if not found or is_fenced():
        return 0
    for upload in found:
        uploads.abort(upload.key, upload.upload_id)
    log.info("orphan uploads aborted", extra={"count": len(found)})
    return len(found)
