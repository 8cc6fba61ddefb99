"""Takes objects out of readers' sight whose place others have taken, once those are visible.

Whatever comes in between, each step may be taken again, by any number of drivers at once: a copy
has one name and one content, and what is deleted has a name that is never given again.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from landfall.errors import Stalled, StoreDenied
from landfall.ledger.names import object_names
from landfall.ledger.replace.replacement_lists import RetiringObject
from landfall.objects import Upload, UploadLost, is_made_by
from landfall.store import Store
from landfall.store.copying import copied

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retiring:
    """Retires the objects of a REPLACE.

    Attributes:
        store: where they are.
        group: the group's name.
        lane: the lane's name.
        slot: of the REPLACE.
        left: called, from any thread, with the key of a foreign object that stays.
        copies: whether a copy is kept of what retires.
    """

    store: Store
    group: str
    lane: str
    slot: int
    left: Callable[[str], object] = lambda _: None
    copies: bool = True

    def retire(self, retiring: RetiringObject) -> None:
        """Keep a copy of an object, and delete it; afterwards no former driver can bring it back.

        What somebody else has put in its place stays there, and no copy is kept of it: to delete it
        is not ours, and what readers of the ledger read is visible elsewhere by now.

        Raises:
            Retry: the store does not answer.
        """
        upload = retiring.landed.upload
        kept = object_names.retired_key(self.group, self.lane, self.slot, upload.key)
        if self.copies and not self._is_foreign(upload) and self.store.stat(kept) is None:
            self._keep(upload, kept)
        self._delete(upload)

    def _delete(self, upload: Upload) -> None:
        """Delete the object of an upload, unless it is another one's by now."""
        try:
            self.store.retire(upload)
        except Stalled:
            if not self._is_foreign(upload):
                raise
            log.warning("a foreign object stays in the place of another", extra={"key": upload.key})
            self.left(upload.key)

    def _is_foreign(self, upload: Upload) -> bool:
        """Whether somebody has overwritten the object of an upload."""
        for _ in range(2):  # while another driver deletes it, it may have lost its token already
            found = self.store.stat(upload.key)
            if found is None or is_made_by(upload, found):
                return False
        return True

    def _keep(self, upload: Upload, kept: str) -> None:
        try:
            copy = copied(self.store, upload.key, upload.size, kept, upload.token)
        except FileNotFoundError:
            # A driver before this one may have gone on from here, and ended.
            if self.store.stat(kept) is None:
                log.warning("a replaced object is gone, and no copy is kept", extra={"key": kept})
            return
        self.store.complete(copy)

    def give_up(self, upload: Upload) -> None:
        """Delete a new object that nobody needs, whether it is visible by now or not.

        Raises:
            Retry: as ``retire``.
        """
        self.store.abort(upload.key, upload.upload_id)
        # Where nobody can abort an upload, it is completed: what is left of it would stay else.
        try:
            self.store.complete(upload)
        except UploadLost:
            pass
        except StoreDenied:
            if not self.store.discards_uploads:  # else it is aborted, and nobody completes it
                raise
        except Stalled:
            if not self._is_foreign(upload):
                raise
        self._delete(upload)
