"""Slots below a folder of other slots, as the ledger of a side lane is in the root of its group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from landfall.objects import ObjectStat
from landfall.store import Created, Slots


@dataclass(frozen=True, slots=True)
class SlotsBelow:
    """``Slots`` whose keys are relative to a folder.

    Attributes:
        slots: have the values.
        root: the folder, without a slash at its end.
    """

    slots: Slots
    root: str

    def create(self, key: str, body: bytes) -> Created:
        """See ``Slots``."""
        return self.slots.create(self._key(key), body)

    def read(self, key: str) -> bytes | None:
        """See ``Slots``."""
        return self.slots.read(self._key(key))

    def list_after(self, prefix: str, after: str = "") -> Iterator[ObjectStat]:
        """See ``Slots``."""
        start = len(self._key(""))
        found = self.slots.list_after(self._key(prefix), self._key(after) if after else "")
        return (replace(stat, key=stat.key[start:]) for stat in found)

    def overwrite(self, key: str, body: bytes) -> None:
        """See ``Slots``."""
        self.slots.overwrite(self._key(key), body)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """See ``Slots``."""
        return self.slots.read_range(self._key(key), start, length)

    def delete_slots(self, keys: Sequence[str]) -> None:
        """See ``Slots``."""
        self.slots.delete_slots([self._key(key) for key in keys])

    def _key(self, key: str) -> str:
        return f"{self.root}/{key}"
