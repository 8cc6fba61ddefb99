"""All objects that a ledger names, sorted by key.

They are kept in a temporary database on disk, because a ledger may name more objects than fit in
memory.
"""

import sqlite3
from collections.abc import Iterator

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
        )

    def __len__(self) -> int:
        count: int = self._rows.execute("SELECT count(*) FROM named").fetchone()[0]
        return count

    def add(self, slot: int, landed: LandedObject) -> int | None:
        """Add an object of the COMMIT in this slot.

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

    def in_order(self, applied_through: int) -> Iterator[NamedObject]:
        """All objects in byte order of their keys; those of slots up to this one are applied."""
        for slot, landed in self._rows.execute("SELECT slot, landed FROM named ORDER BY key"):
            yield NamedObject(slot, _decode(landed), slot <= applied_through)

    def close(self) -> None:
        """Delete the table."""
        self._rows.close()
