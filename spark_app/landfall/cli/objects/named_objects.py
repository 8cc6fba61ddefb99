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
            "CREATE TABLE named (key TEXT PRIMARY KEY, slot INTEGER, landed BLOB,"
            " retired INTEGER DEFAULT -1) WITHOUT ROWID"
        )  # landed is NULL for an object that was given up

    def __len__(self) -> int:
        query = "SELECT count(*) FROM named WHERE landed IS NOT NULL AND retired = -1"
        count: int = self._rows.execute(query).fetchone()[0]
        return count

    def add(self, slot: int, landed: LandedObject) -> int | None:
        """Add an object of the COMMIT or REPLAY in this slot.

        Returns:
            None, or the slot that named the same key before; then nothing is added.
        """
        key = landed.key
        row = (key, slot, _encode(landed))
        insert = "INSERT OR IGNORE INTO named (key, slot, landed) VALUES (?, ?, ?)"
        if self._rows.execute(insert, row).rowcount:
            return None
        named_by = self._rows.execute("SELECT slot FROM named WHERE key = ?", (key,))
        earlier_slot: int = named_by.fetchone()[0]
        return earlier_slot

    def repair(self, landed: LandedObject) -> None:
        """Replace the upload of an object: a REPAIR recreates it under the same key."""
        self._rows.execute(
            "UPDATE named SET landed = ? WHERE key = ?", (_encode(landed), landed.key)
        )

    def give_up(self, key: str) -> None:
        """No longer expect the object; its key stays taken."""
        self._rows.execute("UPDATE named SET landed = NULL WHERE key = ?", (key,))

    def retire(self, key: str, slot: int) -> None:
        """No longer expect the object once the REPLACE in this slot is applied."""
        self._rows.execute("UPDATE named SET retired = ? WHERE key = ?", (slot, key))

    def decide_again(self, key: str, slot: int) -> None:
        """Expect the object once the REPLACE in this slot is applied, and not an earlier one."""
        self._rows.execute("UPDATE named SET slot = ? WHERE key = ?", (slot, key))

    def find(self, key: str) -> LandedObject | None:
        """The object of this key; None if there is none, or it was given up or replaced."""
        query = "SELECT landed FROM named WHERE key = ? AND retired = -1"
        row = self._rows.execute(query, (key,)).fetchone()
        return _decode(row[0]) if row and row[0] is not None else None

    def in_order(
        self,
        due: Container[str],
        replacing: Container[int] = (),
        retiring: Container[int] = (),
    ) -> Iterator[NamedObject]:
        """All objects that may be visible, in byte order of their keys.

        Objects with a key in ``due`` are not applied, and neither are the new objects of REPLACEs
        in the slots ``replacing``. Objects replaced by these, or in the slots ``retiring``, may be
        gone.
        """
        query = "SELECT slot, landed, retired FROM named WHERE landed IS NOT NULL ORDER BY key"
        for slot, landed, retired in self._rows.execute(query):
            is_leaving = retired in replacing or retired in retiring
            if retired == -1 or is_leaving:
                found = _decode(landed)
                is_due = found.upload.key in due or slot in replacing or is_leaving
                yield NamedObject(slot, found, applied=not is_due, retires=is_leaving)

    def changed(self, key: str) -> int:
        """The last slot that named or replaced the object; -1 for none."""
        query = "SELECT max(slot, retired) FROM named WHERE key = ?"
        row = self._rows.execute(query, (key,)).fetchone()
        return int(row[0]) if row else -1

    def close(self) -> None:
        """Delete the table."""
        self._rows.close()
