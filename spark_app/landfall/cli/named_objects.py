"""All objects that a ledger names, sorted by key.

They are kept in a temporary database on disk, because a ledger may name more objects than fit in
memory.
"""

import sqlite3
from collections.abc import Container, Iterator

import msgspec

from landfall.checks.objects import NamedObject
from landfall.ledger.task_results import LandedObject

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LandedObject).decode


class NamedObjects:
    """A temporary table of named objects; ``close`` deletes it. Used from one thread only."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._rows = sqlite3.connect("")  # SQLite keeps a nameless database in a temporary file
        self._rows.execute(
            "CREATE TABLE named (key TEXT PRIMARY KEY, slot INTEGER, landed BLOB) WITHOUT ROWID"
        )  # landed is NULL for an object that was given up

    def __len__(self) -> int:
        query = "SELECT count(*) FROM named WHERE landed IS NOT NULL"
        count: int = self._rows.execute(query).fetchone()[0]
        return count

    def add(self, slot: int, landed: LandedObject) -> int | None:
        """Add an object of the COMMIT or REPLAY in this slot.

        Returns:
            None, or the slot that named the same key before; then nothing is added.
        """
        key = landed.upload.key
        row = (key, slot, _encode(landed))
        if self._rows.execute("INSERT OR IGNORE INTO named VALUES (?, ?, ?)", row).rowcount:
            return None
        named_by = self._rows.execute("SELECT slot FROM named WHERE key = ?", (key,))
        earlier_slot: int = named_by.fetchone()[0]
        return earlier_slot

    def repair(self, landed: LandedObject) -> None:
        """Replace the upload of an object: a REPAIR recreates it under the same key."""
        self._rows.execute(
            "UPDATE named SET landed = ? WHERE key = ?", (_encode(landed), landed.upload.key)
        )

    def give_up(self, key: str) -> None:
        """Expect the object no more; its key stays taken."""
        self._rows.execute("UPDATE named SET landed = NULL WHERE key = ?", (key,))

    def find(self, key: str) -> LandedObject | None:
        """The object that has this key; None if none has, or if it was given up."""
        row = self._rows.execute("SELECT landed FROM named WHERE key = ?", (key,)).fetchone()
        return _decode(row[0]) if row and row[0] is not None else None

    def in_order(self, due: Container[str]) -> Iterator[NamedObject]:
        """All objects in byte order of their keys; those with a key in ``due`` are not applied."""
        query = "SELECT slot, landed FROM named WHERE landed IS NOT NULL ORDER BY key"
        for slot, landed in self._rows.execute(query):
            found = _decode(landed)
            yield NamedObject(slot, found, found.upload.key not in due)

    def close(self) -> None:
        """Delete the table."""
        self._rows.close()
