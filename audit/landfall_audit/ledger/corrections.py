"""Later records about objects that a COMMIT named: lost, missing, replayed, or expired.

LOST gives objects up: their records are not expected any more, and the objects must not be visible.
BLOCK names objects as missing: their records are expected all the same, until a LOST, or until the
topic partition leaves the lane, which gives them up, too. REPLAY lands the records of a dead-letter
object again, so that they are in its objects instead. Dead letters expire after a while: it does
not matter then whether they are visible.
"""

import sqlite3
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import msgspec

from landfall_audit import basenames

_SCHEMA = """
CREATE TABLE named (key TEXT PRIMARY KEY, rows INTEGER, slot INTEGER, lost INTEGER DEFAULT 0,
                    run INTEGER DEFAULT 0, retired INTEGER DEFAULT -1, expired INTEGER DEFAULT 0)
    WITHOUT ROWID;
CREATE TABLE missing (key TEXT PRIMARY KEY, topic TEXT, partition INTEGER) WITHOUT ROWID;
CREATE TABLE replays (letters TEXT PRIMARY KEY, slot INTEGER, filtered INTEGER, objects TEXT)
    WITHOUT ROWID;
"""


class Content(IntEnum):
    """How the rows of a piece lie in its object."""

    PLAIN = 0
    """One after the other, as in the object that they come from."""
    MIXED = 1
    """Among the rows of other pieces."""


@dataclass(frozen=True, slots=True)
class CorrectedRows:
    """Rows of a replacement, all from one range.

    Attributes:
        key: of the object.
        run: the run of the object that they come from, see ``Range.runs``.
        rows: how many there are.
        first: the offset of the first record.
        last: the offset of the last record.
        at: how many rows of the object are before them.
        content: how they lie there.
    """

    key: str
    run: int
    rows: int
    first: int
    last: int
    at: int
    content: Content

    @property
    def place(self) -> str:
        """The folder of its object."""
        return self.key.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets ``start <= o < end`` that COMMIT ``slot`` landed, or that a HOLE skipped.

    Attributes:
        filtered: records that a transform left out.
        counted: records in objects, dead letters included.
        objects: keys of data objects and dead letters, sorted; None for a HOLE.
        lost: records in objects that were given up, which are not among ``objects``.
        dead_letters_expired: records in expired dead letters, which are not among ``objects``.
        replayed: keys of dead letters whose records are in other objects, too, and the slots of
            the REPLAYs that landed these.
        runs: of objects of REPLAYs, the slot of the REPLAY. Their rows are in order among
            themselves, but not with the COMMIT's rows.
        pieces: rows of it that are in replacements.
        parts: of a feed, how many records of each part the COMMIT counts as landed, filtered and
            dead-lettered, by the part's number; None if it does not.
    """

    slot: int
    start: int
    end: int
    filtered: int
    counted: int
    objects: tuple[str, ...] | None
    lost: int = 0
    dead_letters_expired: int = 0
    replayed: dict[str, int] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    pieces: tuple[CorrectedRows, ...] = ()
    parts: dict[int, tuple[int, int, int]] | None = None


class CorrectedObjects:
    """The objects that a ledger names, and their outcomes. Used from one thread only."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        """Keep them in tables of this database."""
        self._rows = rows
        rows.executescript(_SCHEMA)
        self._any = False

    def name(self, landed: Any, slot: int, run: int = 0) -> None:
        """Add an object that a COMMIT in a slot names, or the REPLAY in slot ``run``."""
        row = (landed["upload"]["key"], landed["rows"], slot, run)
        query = "INSERT OR IGNORE INTO named (key, rows, slot, run) VALUES (?, ?, ?, ?)"
        self._rows.execute(query, row)

    def expire(self, through: int) -> None:
        """Let the dead letters that slots up to this one name have expired."""
        expired = self._rows.execute(
            "UPDATE named SET expired = 1 WHERE slot <= ? AND retired = -1 "
            "AND key GLOB '_landfall/*/dead-letters[/@]*'",
            (through,),
        )
        self._any = self._any or expired.rowcount > 0

    def add(self, record: Any) -> None:
        """Take a record into account; records of other types change nothing here."""
        match record["type"]:
            case "REPAIR":
                keys = [(o["upload"]["key"],) for o in record["objects"]]
                self._rows.executemany("DELETE FROM missing WHERE key = ?", keys)
            case "LOST":
                self._give_up([o["upload"]["key"] for o in record["objects"]])
            case "BLOCK":
                self._rows.executemany(
                    "INSERT OR IGNORE INTO missing VALUES (?, ?, ?)",
                    [
                        (key, *topic_partition(key))
                        for gone in record.get("missing", ())
                        for key in gone["keys"]
                    ],
                )
            case "DROP":
                self._give_up([key for tp in record["topic_partitions"] for key in self._gone(tp)])
            case "REPLAY":
                self._add_replays(record["header"]["seq"], record["slices"])
            case _:
                pass

    def apply(self, range_: Range, replayed_through: int) -> Range:
        """The range as corrected by later records about its objects and REPLAYs up to a slot."""
        if not self._any or range_.objects is None:
            return range_
        waiting = list(range_.objects)
        kept: list[str] = []
        replayed: dict[str, int] = {}
        while waiting:
            key = waiting.pop()
            rows, is_lost, is_expired = self._found(key)
            if is_lost:
                range_ = replace(range_, lost=range_.lost + rows, counted=range_.counted - rows)
                continue
            replay = self._replay(key, replayed_through)
            if not is_expired:
                kept.append(key)
            elif not replay:
                expired, counted = range_.dead_letters_expired + rows, range_.counted - rows
                range_ = replace(range_, dead_letters_expired=expired, counted=counted)
            if replay:
                slot, filtered, objects = replay
                if not is_expired:
                    replayed[key] = slot
                waiting += objects
                more = sum(self._found(o)[0] for o in objects) - rows
                range_ = replace(
                    range_,
                    filtered=range_.filtered + filtered,
                    counted=range_.counted + more,
                    runs=range_.runs | dict.fromkeys(objects, slot),
                )
        return replace(range_, objects=tuple(sorted(kept)), replayed=replayed)

    def _give_up(self, keys: list[str]) -> None:
        self._any = self._any or bool(keys)
        rows = [(key,) for key in keys]
        self._rows.executemany("UPDATE named SET lost = 1 WHERE key = ?", rows)
        self._rows.executemany("DELETE FROM missing WHERE key = ?", rows)

    def _gone(self, tp: Any) -> list[str]:
        """Keys of objects of a topic partition that are missing now."""
        query = "SELECT key FROM missing WHERE (topic, partition) = (?, ?)"
        found = self._rows.execute(query, (tp["topic"], tp["partition"]))
        return [key for (key,) in found.fetchall()]

    def _add_replays(self, slot: int, slices: Any) -> None:
        self._any = True
        for s in slices:
            for landed in s["objects"]:
                self.name(landed, slot, slot)
            keys = msgspec.json.encode([o["upload"]["key"] for o in s["objects"]]).decode()
            row = (s["dead_letters"], slot, s["filtered"], keys)
            self._rows.execute("INSERT OR IGNORE INTO replays VALUES (?, ?, ?, ?)", row)

    def _found(self, key: str) -> tuple[int, bool, bool]:
        """How many rows an object has, whether it was given up, and whether it has expired."""
        query = "SELECT rows, lost, expired FROM named WHERE key = ?"
        row = self._rows.execute(query, (key,)).fetchone()
        return (row[0], bool(row[1]), bool(row[2])) if row else (0, False, False)

    def _replay(self, key: str, through: int) -> tuple[int, int, list[str]] | None:
        """Slot, filtered records and objects of the REPLAY that read these dead letters."""
        query = "SELECT slot, filtered, objects FROM replays WHERE letters = ? AND slot <= ?"
        row = self._rows.execute(query, (key, through)).fetchone()
        return (row[0], row[1], msgspec.json.decode(row[2], type=list[str])) if row else None


def topic_of(key: str) -> str:
    """The topic in an object's key: the first folder without ``=``; of dead letters the fourth."""
    parts = key.split("/")
    return parts[3] if parts[0] == "_landfall" else next((p for p in parts if "=" not in p), "")


def topic_partition(key: str) -> tuple[str, int]:
    """The topic in a key, and the Kafka partition in its name."""
    return topic_of(key), basenames.named(key).partition
