"""Which backfills are promoted, as the REPLACEs of a ledger say. Pure.

A promotion is taken back by an UNDO of its REPLACE, and counts again once that is undone in turn.
"""

from dataclasses import dataclass, field

from landfall.ledger import Replace


@dataclass
class Promotions:
    """What the REPLACEs taken in so far say, in the order of their slots."""

    _slots: dict[str, int] = field(default_factory=dict)
    _taken_back: dict[int, str] = field(default_factory=dict)
    _pending: dict[int, Replace] = field(default_factory=dict)

    def take(self, record: Replace) -> None:
        """Take the next REPLACE in, which is not applied yet."""
        self._pending.pop(record.instead, None)
        self._pending[record.header.seq] = record

    def apply(self, through: int) -> None:
        """Take note that everything is applied through a slot."""
        for slot in sorted(slot for slot in self._pending if slot <= through):
            self._apply(slot, self._pending.pop(slot))

    def of(self, name: str) -> int:
        """The slot of the REPLACE by which a backfill is promoted, perhaps not yet applied; or -1.

        Once it is undone, and that is applied, there is none.
        """
        begun = (slot for slot, each in self._pending.items() if each.backfill == name)
        return max(begun, default=self._slots.get(name, -1))

    def _apply(self, slot: int, record: Replace) -> None:
        if record.backfill:
            self._slots[record.backfill] = slot
        elif (again := self._taken_back.get(record.undoes)) is not None:
            self._slots[again] = slot
        else:
            for name in [name for name, made in self._slots.items() if made == record.undoes]:
                del self._slots[name]
                self._taken_back[slot] = name
