"""Keeps what was made of schemas, up to a number of bytes.

Who may register schemas chooses how many there are and how long they are, and a producer chooses
which of them a worker sees. So nothing that is kept by the id of a schema may grow without bound.
"""

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MAX_BYTES = 64 << 20
"""How many bytes of schemas a cache keeps: a thousand large ones, or two of the longest."""
_ENTRY_BYTES = 1_000
"""Memory of an entry in addition to its schema."""


class BoundedCache(Generic[K, V]):
    """The values that were used last. One thread may use it at a time.

    Args:
        max_bytes: of all entries together; the entry that was added last is always kept.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        """Keep nothing yet."""
        self._max_bytes = max_bytes
        self._entries: dict[K, tuple[V, int]] = {}
        self._bytes = 0

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return a value, which is then the one that was used last; None if it is not kept."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._entries[key] = entry
        return entry[0]

    def add(self, key: K, value: V, size: int) -> V:
        """Keep a value made of a schema of ``size`` bytes, and return it.

        Entries that have not been used for longest are dropped for it.
        """
        self._bytes -= self._entries.pop(key, (value, 0))[1]
        self._entries[key] = (value, size + _ENTRY_BYTES)
        self._bytes += size + _ENTRY_BYTES
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            self._bytes -= self._entries.pop(next(iter(self._entries)))[1]
        return value

    def newest(self) -> K | None:
        """Return the key that was used last; None if nothing is kept."""
        return next(reversed(self._entries), None)
