"""Brings the Backfills that try a revision into the cache, and wakes their groups.

They are listed with all others (``landfall_operator.runtime.backfills``). What the operator itself
creates or deletes is in the cache at once.
"""

from collections.abc import Callable, Iterable

from landfall_operator.api.backfill import KIND as BACKFILL
from landfall_operator.core.cache import Key, ObjectCache
from landfall_operator.objects.overlay import Json


class TrialLists:
    """Takes each list of Backfills."""

    def __init__(self, cache: ObjectCache, wake: Callable[[Key], None]) -> None:
        """``wake`` is called for each group with a trial that has changed."""
        self._cache = cache
        self._wake = wake

    def take(self, namespace: str | None, bodies: Iterable[Json], version: str) -> None:
        """Take a complete list of a namespace, or of the cluster, and its resourceVersion.

        Where Backfills cannot be listed at all, an empty list of version 0 says that there is no
        use in waiting for one.
        """
        listed = list(bodies)
        put = (self._cache.put(BACKFILL, body) for body in listed)
        changed = {key for key in put if key}
        uids = {body["metadata"]["uid"] for body in listed}
        is_first = namespace not in self._cache.trials_listed
        self._cache.trials_listed.add(namespace)
        if is_first:  # what waited for it goes on
            changed |= {key for key in self._cache.groups if namespace in {None, key[0]}}
        for key in sorted(changed | self._cache.drop_missing(BACKFILL, namespace, uids, version)):
            self._wake(key)
