"""Finds visible objects by a look at them, where the ledger does not record it yet.

A record states what was visible when it was written. So the last COMMIT of a driver that idles, was
killed, or waits after a REPLACE is not *confirmed*, which does not concern its objects: they may
all be there. Who must not take "not known to be visible" for "absent" asks here.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor

from landfall.errors import LettersUnreachable
from landfall.ledger import State
from landfall.ledger.task_results import LandedObject
from landfall.objects import ObjectStat, is_made_by

PARALLEL_LOOKS = 16
"""Objects looked up at the same time."""

Stat = Callable[[str], ObjectStat | None]
"""The type of ``Objects.stat``."""


class SeenObjects:
    """The objects that were found where their records place them. For one thread.

    What was seen once is not looked up again: it stays until a REPLACE lets it retire, which the
    ledger records.
    """

    def __init__(
        self, stat: Stat, new_pool: Callable[[int], Executor] = ThreadPoolExecutor
    ) -> None:
        """Look nothing up yet; ``new_pool`` makes the pool that does."""
        self._stat = stat
        self._new_pool = new_pool
        self._seen = set[tuple[str, str]]()

    def look(self, objects: Iterable[LandedObject]) -> None:
        """Look up those that were not seen before.

        Raises:
            Retry: the store does not answer.
        """
        unseen = [object_ for object_ in objects if not self.has(object_)]
        if not unseen:
            return
        with self._new_pool(min(PARALLEL_LOOKS, len(unseen))) as pool:
            stats = pool.map(self._found, [object_.upload.key for object_ in unseen])
            for object_, stat in zip(unseen, stats, strict=True):
                if is_made_by(object_.upload, stat):
                    self._seen.add(_name(object_))

    def _found(self, key: str) -> ObjectStat | None:
        """The visible object; None also for one that cannot be seen from here."""
        try:
            return self._stat(key)
        except LettersUnreachable:
            return None  # the ledger confirms it, if its driver continues or when it ends

    def has(self, landed: LandedObject) -> bool:
        """Return whether the object was seen."""
        return _name(landed) in self._seen

    def through(self, state: State) -> int:
        """The slot up to which everything is visible, by the ledger and by a look at the objects.

        It ends before a REPLACE that is not confirmed: new objects that are visible do not show
        that the old ones have retired.

        Raises:
            Retry: the store does not answer.
        """
        for slot in sorted({*state.unapplied, *state.replacing}):
            due = state.unapplied.get(slot, ())
            if slot not in state.replacing:
                self.look(due)
            if slot in state.replacing or not all(map(self.has, due)):
                return slot - 1
        return max(state.seq, state.applied_through)

    def forget_all_but(self, objects: Iterable[LandedObject]) -> None:
        """Keep only what was seen of these."""
        self._seen &= {_name(object_) for object_ in objects}


def _name(landed: LandedObject) -> tuple[str, str]:
    return landed.key, landed.upload.token
