"""Lists a namespace whole before its groups are reconciled.

A pass over a group whose objects are not all in the cache would make them again. The watches
deliver existing objects one by one, in no order that would help. So what they see goes into the
cache at once and wakes nothing; once everything has been listed, every group is woken.
"""

import asyncio
import logging
from collections.abc import Callable

from landfall.errors import Retry
from landfall_operator.core.cache import Key, ObjectCache
from landfall_operator.runtime import watcher
from landfall_operator.runtime.kube_client import KubeClient

log = logging.getLogger(__name__)

REPEAT_SECONDS = 60.0
"""Time to a second list, which finds what was deleted after the first one and before the watch."""
RETRY_SECONDS = 2.0
_ALL = ""
"""Stands for all namespaces."""


class FirstLists:
    """Which namespaces have been listed since their watch began.

    Attributes:
        listed: the namespaces whose groups are reconciled.
    """

    def __init__(self, kube: KubeClient, cache: ObjectCache, wake: Callable[[Key], None]) -> None:
        """Nothing is listed; ``wake`` is called for each group that is to be reconciled."""
        self._kube = kube
        self._cache = cache
        self._wake = wake
        self.listed: frozenset[str] = frozenset()
        self._watched: frozenset[str] = frozenset()

    @property
    def complete(self) -> bool:
        """Whether all that is watched has been listed."""
        return bool(self._watched) and self._watched <= self.listed

    def wake(self, key: Key) -> None:
        """Wake a group, unless objects of it may be missing in the cache."""
        if self.listed & {_ALL, key[0]}:
            self._wake(key)

    def forget(self, namespace: str) -> None:
        """Make a namespace that is not watched any more be listed whole when it comes back."""
        self.listed -= {namespace}

    async def list(self, namespaces: tuple[str, ...]) -> None:
        """List what was not watched before, wake its groups, and list it once more; does not end.

        Args:
            namespaces: what is watched from now on; empty for the whole cluster.

        Raises:
            RequestRejected: A right is missing.
        """
        self._watched = frozenset(namespaces or {_ALL})
        self.listed &= self._watched
        if new := self._watched - self.listed:
            await self._resync(new, RETRY_SECONDS)
            self.listed |= new
            for key in tuple(self._cache.groups):
                self.wake(key)
            await asyncio.sleep(REPEAT_SECONDS)
            for key in await self._resync(new, REPEAT_SECONDS):
                self.wake(key)
        await asyncio.Event().wait()

    async def _resync(self, namespaces: frozenset[str], pause: float) -> set[Key]:
        """List namespaces, again after a pause while the API server cannot answer."""
        names = tuple(sorted(namespaces - {_ALL}))
        while True:
            try:
                return await watcher.resync(self._kube, self._cache, names)
            except Retry as error:
                log.warning("cannot list all objects yet: %s", error)
                await asyncio.sleep(pause)
