"""Giving up uploads that nobody decided: what dead tasks and dead drivers left behind."""

import logging
from collections.abc import Callable, Collection
from datetime import datetime

from landfall.store import Uploads

log = logging.getLogger(__name__)


def sweep(uploads: Uploads, ours: Callable[[str], bool], decided: Collection[str], begun_before: datetime) -> int:
    """Abort open uploads begun before a time, and return how many.

    Only the lane's owner may call this.

    Args:
        uploads: the store.
        ours: whether a key is named as this group's objects are; another group's root may lie inside this one.
        decided: ids of uploads that a COMMIT names; aborting one would lose what is committed.
        begun_before: younger uploads may still be written to.
    """
    aborted = 0
    for upload in uploads.open_uploads(""):
        if upload.begun <= begun_before and upload.upload_id not in decided and ours(upload.key):
            uploads.abort(upload.key, upload.upload_id)
            aborted += 1
    if aborted:
        log.info("orphan uploads aborted", extra={"count": aborted})
    return aborted
