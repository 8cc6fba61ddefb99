"""Slots that many namespaces share: none of them keeps the other namespaces waiting for long.

A namespace that makes its passes slow, such as by drivers that answer as late as they may, uses up
its own share. The next free slot goes to the waiting namespace that holds the fewest, and one
namespace never holds the last quarter of them.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSlots:
    """A number of slots, taken and returned in one event loop."""

    def __init__(self, total: int) -> None:
        """Start with ``total`` free slots, at least one."""
        self._free = total
        self._limit = total - total // 4
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Hold a slot for the block; within a namespace, in the order of the calls."""
        await self._take(namespace)
        try:
            yield
        finally:
            self._give_back(namespace)

    async def _take(self, namespace: str) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(namespace, deque()).append(turn)
        self._hand_out()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was handed out in the same turn of the loop
                self._give_back(namespace)
            raise

    def _give_back(self, namespace: str) -> None:
        self._free += 1
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and (namespace := self._next()) is not None:
            # Among namespaces that hold equally many, the one that waits longest is next.
            queue = self._waiting.pop(namespace)
            turn = queue.popleft()
            if queue:
                self._waiting[namespace] = queue
            if not turn.cancelled():  # its task is still there
                self._free -= 1
                self._held[namespace] += 1
                turn.set_result(None)

    def _next(self) -> str | None:
        """The namespace that the next free slot is for; None if none may have it."""
        waiting = (name for name in self._waiting if self._held[name] < self._limit)
        return min(waiting, key=self._held.__getitem__, default=None)
