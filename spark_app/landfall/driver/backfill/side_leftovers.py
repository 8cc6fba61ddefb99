"""Deletes what is left of side lanes that are discarded.

``side_lane.discard`` deletes the objects and uploads that it finds. Tasks of a driver that runs
elsewhere may begin uploads afterwards, and complete none: a driver of the live group aborts them
when it looks for orphans. The ledger stays for a while, so that such a driver is fenced; once
``KEPT`` is over, planning or discarding another backfill of the group deletes all that is left. The
mark stays, a few bytes: its name is not used again.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby, islice

from landfall.driver.backfill.side_lane import DISCARDED
from landfall.errors import LandfallError
from landfall.ledger.names import roots
from landfall.store import Slots
from landfall.untrusted_json import parse_document

log = logging.getLogger(__name__)

KEPT = timedelta(days=30)
"""How long the ledger of a discarded side lane stays: no driver sleeps for longer, and lands on."""
_DELETED_AT_ONCE = 1000


class DiscardedLanes:
    """Decides whether keys are in a discarded side lane; each lane is looked up once.

    For one sweep, and one thread.
    """

    def __init__(self, slots: Slots, group: str) -> None:
        """Look nothing up yet.

        Args:
            slots: of the live group.
            group: its name.
        """
        self._slots = slots
        self._group = group
        self._known: dict[str, bool] = {}

    def have(self, key: str) -> bool:
        """Return whether the side lane of this key is discarded, so that nothing lands there.

        Raises:
            Retry: the store does not answer.
        """
        root = roots.side_root_of(self._group, key)
        if root and root not in self._known:
            self._known[root] = self._slots.read(f"{root}/{DISCARDED}") is not None
        return self._known.get(root, False)


def delete_leftovers(slots: Slots, group: str, now: datetime) -> int:
    """Delete what side lanes have left that were discarded long ago; returns how many objects.

    Nothing depends on it: what the store refuses is logged, and stays.
    """
    deleted = 0
    try:
        for root in _with_leftovers(slots, group):
            if _is_over(slots.read(f"{root}/{DISCARDED}"), now - KEPT):
                deleted += _delete(slots, root)
    except LandfallError as error:
        log.warning("leftovers of discarded backfills not deleted", extra={"why": str(error)})
    return deleted


def _with_leftovers(slots: Slots, group: str) -> Iterator[str]:
    """Yield the roots of side lanes in which there is more than the mark.

    Most of the keys of large ones are not listed.
    """
    prefix, after = roots.side_prefix(group), ""
    while True:
        keys = (stat.key for stat in slots.list_after(prefix, after))
        for root, inside in groupby(keys, key=lambda key: roots.side_root_of(group, key)):
            if [*islice(inside, 2)] != [f"{root}/{DISCARDED}"]:
                yield root
                after = f"{root}0"  # after all that begins with the root and a slash
                break
        else:
            return


def _is_over(mark: bytes | None, before: datetime) -> bool:
    """Return whether a side lane was discarded before this time."""
    try:
        return mark is not None and datetime.fromisoformat(parse_document(mark)["at"]) < before
    except (ValueError, KeyError, TypeError):
        return False


def _delete(slots: Slots, root: str) -> int:
    keys = (stat.key for stat in slots.list_after(f"{root}/"))
    left = (key for key in keys if key != f"{root}/{DISCARDED}")
    deleted = 0
    while some := [*islice(left, _DELETED_AT_ONCE)]:
        slots.delete_slots(some)
        deleted += len(some)
    return deleted
