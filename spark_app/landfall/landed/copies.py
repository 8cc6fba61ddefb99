"""Finds landed objects by their keys, also those that have retired since, as long as copies last.

Where an object is replaced, a copy of it is kept before it is deleted
(docs/adr/0029). So a scan that was made before reads on, and a scan of an earlier slot finds what
was visible there, until the copies expire.
"""

import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO

from landfall.errors import Reason, Stalled
from landfall.ledger.names import object_names
from landfall.store import Store


@dataclass
class WithCopies:
    """Landed objects, under their keys or as copies. Thread-safe if the store is.

    Attributes:
        store: has the objects and the copies.
        lane: the group and the lane whose objects they are.
        known: the keys of copies, by the keys of objects that are known to have retired.
    """

    store: Store
    lane: tuple[str, str]
    known: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: list[int] = []

    def read(self, key: str) -> bytes:
        """All bytes of an object.

        Raises:
            Stalled: OBJECT_LOST, neither it nor a copy is there.
            Retry: the store does not answer.
        """
        found = self.store.read(self._place(key))
        if found is None:
            found = self.store.read(self._copy(key))
        return self._there(key, found)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from byte ``start`` on.

        Raises:
            Stalled, Retry: as ``read``.
        """
        found = self.store.read_range(self._place(key), start, length)
        if found is None:
            found = self.store.read_range(self._copy(key), start, length)
        return self._there(key, found)

    def open(self, key: str) -> AbstractContextManager[BinaryIO]:
        """A stream of an object's bytes.

        Raises:
            Stalled, Retry: as ``read``.
        """
        try:
            return self.store.open(self._place(key))
        except FileNotFoundError:
            copy = self._copy(key)
        try:
            return self.store.open(copy)
        except FileNotFoundError:
            raise self._gone(key) from None

    def _place(self, key: str) -> str:
        return self.known.get(key, key)

    def _copy(self, key: str) -> str:
        """The key of the copy of an object that is not there.

        Raises:
            Stalled: OBJECT_LOST, there is none.
            Retry: the store does not answer.
        """
        copy = None if key in self.known else self.copy_of(key)
        if copy is None:
            raise self._gone(key)
        return copy

    def copy_of(self, key: str) -> str | None:
        """The key of the copy of an object that has retired; None if there is none.

        Raises:
            Retry: the store does not answer.
        """
        for slot in reversed(self._replacements()):
            copy = object_names.retired_key(*self.lane, slot, key)
            if self.store.stat(copy) is not None:
                return copy
        return None

    def _replacements(self) -> list[int]:
        """The slots of the REPLACEs whose old objects have copies, in order."""
        prefix = object_names.retired_prefix(*self.lane)
        with self._lock:
            while True:
                # After all copies of a slot: "0" sorts after "/".
                after = f"{prefix}{self._slots[-1]:020d}0" if self._slots else ""
                stat = next(iter(self.store.list_after(prefix, after)), None)
                if stat is None:
                    return [*self._slots]
                self._slots.append(int(stat.key.removeprefix(prefix).partition("/")[0]))

    def _there(self, key: str, found: bytes | None) -> bytes:
        if found is None:
            raise self._gone(key)
        return found

    def _gone(self, key: str) -> Stalled:
        if key in self.known:
            return Stalled(
                Reason.OBJECT_LOST,
                f"{key}: another object has replaced it, and its copy has expired: there is no "
                f"{self.known[key]}; scan a later slot",
            )
        return Stalled(
            Reason.OBJECT_LOST,
            f"{key}: the ledger calls it visible, but it is not there, and there is no copy of it "
            "from a REPLACE: copies expire; scan a later slot if another object has replaced it",
        )
