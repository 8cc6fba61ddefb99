"""Giving up uploads that nobody decided: what dead tasks and dead drivers left behind."""

import logging
from collections.abc import Callable, Collection
from datetime import datetime

from landfall.store import Uploads

log = logging.getLogger(__name__)


def abort_orphan_uploads(
    uploads: Uploads,
    ours: Callable[[str], bool],
    decided: Collection[str],
    begun_before: datetime,
    is_fenced: Callable[[], bool] = lambda: False,
) -> int:
    """Abort open uploads begun before a time, and return how many.

    A driver that was fenced and does not know it yet would abort its successor's. So the ledger is
    looked at after the
    listing: if nobody had opened it by then, nothing that is listed is a successor's.

    Args:
        uploads: the store.
        ours: whether a key is named as this group's objects are; another group's root may lie
            inside this one.
        decided: ids of uploads that a COMMIT names; aborting one would lose what is committed.
        begun_before: younger uploads may still be written to.
        is_fenced: whether the lane is another driver's by now.
    """
    orphans = [
        upload
        for upload in uploads.open_uploads("")
        if upload.begun <= begun_before and upload.upload_id not in decided and ours(upload.key)
    ]
    if not orphans or is_fenced():
        return 0
    for upload in orphans:
        uploads.abort(upload.key, upload.upload_id)
    log.info("orphan uploads aborted", extra={"count": len(orphans)})
    return len(orphans)
