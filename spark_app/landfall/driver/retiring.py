"""Takes objects out of readers' sight whose place others have taken, once those are visible.

Whatever comes in between, each step may be taken again, by any number of drivers at once: a copy
has one name and one content, and what is deleted has a name that is never given again.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass

from landfall.ledger import retired_names
from landfall.ledger.replacement_lists import RetiringObject
from landfall.objects import Upload, UploadLost
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
    """

    store: Store
    group: str
    lane: str
    slot: int

    def retire(self, retiring: RetiringObject) -> None:
        """Keep a copy of an object, and delete it; afterwards nobody can bring it back.

        Raises:
            Retry: the store does not answer.
            Stalled: a foreign object is at its key.
        """
        upload = retiring.landed.upload
        kept = retired_names.retired_key(self.group, self.lane, self.slot, upload.key)
        if self.store.stat(kept) is None:
            self._keep(upload, kept)
        self.store.retire(upload)

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
            Retry, Stalled: as ``retire``.
        """
        self.store.abort(upload.key, upload.upload_id)
        # Where nobody can abort an upload, it is completed: what is left of it would stay else.
        with suppress(UploadLost):
            self.store.complete(upload)
        self.store.retire(upload)
