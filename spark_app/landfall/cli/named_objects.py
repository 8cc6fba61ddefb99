"""All objects a ledger names, by key: on disk, because a ledger may name more than memory holds."""

import sqlite3
from collections.abc import Iterator

import msgspec

from landfall.checks.objects import Named
from landfall.ledger.task_results import LandedObject

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LandedObject).decode


class NamedObjects:
    """A temporary table that goes when it is closed. Used from one thread."""

    def __init__(self) -> None:
        """Begin empty."""
        self._rows = sqlite3.connect("")  # a nameless database is a temporary file
        self._rows.execute(
            "CREATE TABLE named (key TEXT PRIMARY KEY, slot INTEGER, landed BLOB) WITHOUT ROWID"
        )

    def __len__(self) -> int:
        count: int = self._rows.execute("SELECT count(*) FROM named").fetchone()[0]
        return count

    def add(self, slot: int, landed: LandedObject) -> int | None:
        """Note an object of COMMIT ``slot``; the slot that named its key before, if one did."""
        row = (landed.upload.key, slot, _encode(landed))
        if self._rows.execute("INSERT OR IGNORE INTO named VALUES (?, ?, ?)", row).rowcount:
            return None
        before: int = self._rows.execute(
            "SELECT slot FROM named WHERE key = ?", row[:1]
        ).fetchone()[0]
        return before

    def repair(self, landed: LandedObject) -> None:
        """Note that another upload makes an object now."""
        self._rows.execute(
            "UPDATE named SET landed = ? WHERE key = ?", (_encode(landed), landed.upload.key)
        )

    def in_order(self, applied_through: int) -> Iterator[Named]:
        """All of them, in order of their keys' bytes; those up to this slot are applied."""
        for slot, landed in self._rows.execute("SELECT slot, landed FROM named ORDER BY key"):
            yield Named(slot, _decode(landed), slot <= applied_through)

    def close(self) -> None:
        """Forget everything."""
        self._rows.close()
