"""Ranges that a backfill landed again, which replace ranges of COMMITs.

After its REPLACE, a range is as its list records: the slices of the backfill, with the objects that
have their rows. The former ranges, pieces and rows that merges left out are kept under the slot,
and restored if it is undone. The objects are restored as copies under other names.
"""

import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from landfall_audit import Fault, FaultKind
from landfall_audit.ledger.corrections import topic_of, topic_partition
from landfall_audit.ledger.replaced_lists import (
    AgainRange,
    ListedObject,
    ReplacedList,
    ReplacementObject,
)

_SCHEMA = """
CREATE TABLE former_ranges (swap INTEGER, topic, partition, lifetime, start, until, slot, filtered,
                            counted, objects, parts);
CREATE TABLE former_pieces (swap INTEGER, topic, partition, lifetime, start, key, run, rows, first,
                            last, at, content);
CREATE TABLE former_left_out (swap INTEGER, topic, partition, lifetime, start, place, rows);
CREATE TABLE former_merged (swap INTEGER, key, place, rows, crc32, mixed);
"""
_OBJECTS = """
SELECT objects FROM ranges
WHERE (topic, partition, lifetime) = (?, ?, ?) AND start >= ? AND start < ?
"""
_PIECES = """
SELECT DISTINCT key FROM pieces
WHERE (topic, partition, lifetime) = (?, ?, ?) AND start >= ? AND start < ?
"""
_COPY = (
    """
INSERT INTO former_ranges SELECT ?, * FROM ranges
WHERE (topic, partition, lifetime) = (?, ?, ?) AND start >= ? AND start < ?
""",
    """
INSERT INTO former_pieces SELECT ?, * FROM pieces
WHERE (topic, partition, lifetime) = (?, ?, ?) AND start >= ? AND start < ?
""",
    """
INSERT INTO former_left_out SELECT ?, * FROM left_out
WHERE (topic, partition, lifetime) = (?, ?, ?) AND start >= ? AND start < ?
""",
)
_DELETE = (
    """
DELETE FROM ranges
WHERE (topic, partition, lifetime) = (?, ?, ?) AND start >= ? AND start < ?
""",
    """
DELETE FROM pieces
WHERE (topic, partition, lifetime) = (?, ?, ?) AND start >= ? AND start < ?
""",
    """
DELETE FROM left_out
WHERE (topic, partition, lifetime) = (?, ?, ?) AND start >= ? AND start < ?
""",
)
_BRING_BACK = (
    """
INSERT INTO ranges
SELECT topic, partition, lifetime, start, until, slot, filtered, counted, objects, parts
FROM former_ranges WHERE swap = ?
""",
    """
INSERT INTO pieces
SELECT topic, partition, lifetime, start, key, run, rows, first, last, at, content
FROM former_pieces WHERE swap = ?
""",
    """
INSERT INTO left_out
SELECT topic, partition, lifetime, start, place, rows
FROM former_left_out WHERE swap = ?
""",
    """
INSERT OR IGNORE INTO merged
SELECT key, place, rows, crc32, mixed FROM former_merged WHERE swap = ?
""",
)


class Lifetime(NamedTuple):
    """Offset range, and lifetime of a topic partition, that a REPLACE concerns."""

    topic: str
    partition: int
    lifetime: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Swap:
    """A REPLACE that changes the rows of ranges: of a backfill, or its undo.

    Attributes:
        slot: of it.
        ranges: which.
        undoes: the slot that it undoes; -1 for a backfill.
    """

    slot: int
    ranges: Sequence[Lifetime]
    undoes: int


class RangeReplacer:
    """Replaces ranges, in the tables of ``Replacements`` and ``Inventory``."""

    def __init__(self, rows: sqlite3.Connection) -> None:
        """Keep the former state in tables of this database."""
        self._rows = rows
        rows.executescript(_SCHEMA)

    def lifetimes(self, slices: Iterable[Any]) -> list[Lifetime]:
        """The ranges of a record, in the lifetimes that their topic partitions have now."""
        found = []
        for slice_ in slices:
            tp, offsets = slice_["topic_partition"], slice_["offsets"]
            query = "SELECT max(lifetime) FROM lifetimes WHERE (topic, partition) = (?, ?)"
            identity = tp["topic"], tp["partition"]
            lifetime = self._rows.execute(query, identity).fetchone()[0]
            if lifetime is not None:
                found.append(Lifetime(*identity, lifetime, offsets["start"], offsets["end"]))
        return found

    def swap(self, swap: Swap, listed: ReplacedList) -> Iterator[Fault]:
        """Apply a REPLACE; the objects that retire have not yet."""
        retire = {object_.landed.key for object_ in listed.retire}
        yield from self._staying(swap, retire)
        self._put_aside(swap, retire)
        if swap.undoes == -1:
            yield from self._land(swap, listed)
        else:
            self._bring_back(swap)

    def rename(self, old: ListedObject, new: str) -> None:
        """Replace an object with its copy, in every table that names it."""
        self._rows.execute("UPDATE pieces SET key = ? WHERE key = ?", (new, old.key))
        row = self._rows.execute("SELECT * FROM merged WHERE key = ?", (old.key,)).fetchone()
        if row:
            self._rows.execute("DELETE FROM merged WHERE key = ?", (old.key,))
            self._rows.execute("INSERT INTO merged VALUES (?, ?, ?, ?, ?)", (new, *row[1:]))
        query = "UPDATE named SET run = (SELECT run FROM named WHERE key = ?) WHERE key = ?"
        self._rows.execute(query, (old.key, new))
        for row, objects in self._naming(old):
            values = (_renamed(objects, old.key, new), row)
            self._rows.execute("UPDATE ranges SET objects = ? WHERE rowid = ?", values)
        (run,) = self._rows.execute("SELECT run FROM named WHERE key = ?", (new,)).fetchone()
        query = "SELECT letters, objects FROM replays WHERE slot = ?"
        for letters, objects in self._rows.execute(query, (run,)).fetchall() if run else ():
            values = (_renamed(objects, old.key, new), letters)
            self._rows.execute("UPDATE replays SET objects = ? WHERE letters = ?", values)

    # ------------------------------------------------------------------------------- what changes

    def _staying(self, swap: Swap, retire: set[str]) -> Iterator[Fault]:
        """Objects with rows of the ranges that do not retire."""
        for name in swap.ranges:
            found = self._rows.execute(_OBJECTS, name).fetchall()
            keys = {key for (objects,) in found for key in self._counting(objects, swap.slot)}
            keys |= {key for (key,) in self._rows.execute(_PIECES, name).fetchall()}
            for key in sorted(keys - retire):
                message = f"its rows were landed again in slot {swap.slot}, and it stays"
                yield Fault(FaultKind.REPLACED, key, message)

    def _counting(self, objects: str | None, slot: int) -> Iterator[str]:
        """Yield which of these objects count at a slot, or the outcome of replayed ones."""
        waiting = msgspec.json.decode(objects or "[]", type=list[str])
        while waiting:
            key = waiting.pop()
            query = "SELECT objects FROM replays WHERE letters = ? AND slot < ?"
            replayed = self._rows.execute(query, (key, slot)).fetchone()
            query = "SELECT 1 FROM named WHERE key = ? AND lost = 0 AND retired = -1"
            if replayed:
                waiting += msgspec.json.decode(replayed[0], type=list[str])
            elif self._rows.execute(query, (key,)).fetchone():
                yield key

    def _put_aside(self, swap: Swap, retire: Iterable[str]) -> None:
        for name in swap.ranges:
            for copy in _COPY:
                self._rows.execute(copy, (swap.slot, *name))
            for delete in _DELETE:
                self._rows.execute(delete, name)
        query = "INSERT INTO former_merged SELECT ?, * FROM merged WHERE key = ?"
        self._rows.executemany(query, [(swap.slot, key) for key in retire])

    def _bring_back(self, swap: Swap) -> None:
        for query in _BRING_BACK:
            self._rows.execute(query, (swap.undoes,))

    def _land(self, swap: Swap, listed: ReplacedList) -> Iterator[Fault]:
        """Add the ranges of a backfill, with the objects that have their rows."""
        slot = f"slot {swap.slot}"
        if wrong := _uncovered(swap.ranges, listed.landed_again):
            yield Fault(FaultKind.REPLACED, slot, f"{wrong} was not landed again as a whole")
        lifetimes = {(name.topic, name.partition): name.lifetime for name in swap.ranges}
        landed = [_Landed(again) for again in listed.landed_again]
        yield from _assign(landed, listed.objects, slot)
        for range_ in landed:
            yield from range_.faults(slot)
            lifetime = lifetimes.get(range_.identity, 0)
            query = "INSERT INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)"
            self._rows.execute(query, (*range_.identity, lifetime, *range_.row(swap.slot)))

    # ------------------------------------------------------------------------------------- names

    def _naming(self, old: ListedObject) -> Iterator[tuple[int, str]]:
        """The ranges that may name an object: rows of the table, and their objects."""
        topic, partition = topic_partition(old.key)
        query = "SELECT lifetime FROM lifetimes WHERE (topic, partition) = (?, ?)"
        for (lifetime,) in self._rows.execute(query, (topic, partition)).fetchall():
            query = (
                "SELECT rowid, objects FROM ranges WHERE (topic, partition, lifetime) = (?, ?, ?) "
                "AND start <= ? AND objects IS NOT NULL ORDER BY start DESC LIMIT 1"
            )
            values = (topic, partition, lifetime, old.first_offset)
            yield from self._rows.execute(query, values).fetchall()


class _Landed:
    """A range of a backfill, and the objects that have its rows."""

    def __init__(self, again: AgainRange) -> None:
        self.again, self.rows = again, 0
        self.identity = again.topic, again.partition
        self._keys = set[str]()

    def add(self, key: str, rows: int) -> None:
        """Add rows of an object."""
        self._keys.add(key)
        self.rows += rows

    def row(self, slot: int) -> tuple[object, ...]:
        """Return the columns of the table of ranges, after the lifetime."""
        again, keys = self.again, msgspec.json.encode(sorted(self._keys)).decode()
        return again.start, again.end, slot, again.filtered, self.rows, keys

    def faults(self, slot: str) -> Iterator[Fault]:
        """Counts that do not add up."""
        again = self.again
        name = f"{again.topic}/{again.partition} [{again.start}, {again.end})"
        if self.rows != again.landed + again.dead_lettered:
            expected = again.landed + again.dead_lettered
            message = f"{name} has {self.rows} rows in objects, not {expected}"
            yield Fault(FaultKind.REPLACED, slot, message)
        if again.counted != again.end - again.start:
            yield Fault(FaultKind.REPLACED, slot, f"{name} counts {again.counted} offsets")


def _assign(
    landed: Sequence[_Landed], objects: Iterable[ReplacementObject], slot: str
) -> Iterator[Fault]:
    """Add the rows of objects to the ranges that they are of."""
    starts = [(*range_.identity, range_.again.start) for range_ in landed]
    for new in objects:
        key = new.landed.key
        for section in new.sections:
            identity = topic_of(key), section.partition
            place = bisect_right(starts, (*identity, section.first_offset)) - 1
            found = landed[place] if place >= 0 else None
            is_inside = found and found.identity == identity
            if found and is_inside and section.last_offset < found.again.end:
                found.add(key, section.rows)
            else:
                first, last = section.first_offset, section.last_offset
                message = f"{slot}: has rows from {first} to {last}, of no range"
                yield Fault(FaultKind.REPLACED, key, message)


def _uncovered(ranges: Sequence[Lifetime], landed_again: Sequence[AgainRange]) -> str:
    """Return the first range that is not covered without a gap; empty if all are."""
    for name in ranges:
        at = name.start
        for again in landed_again:
            if (again.topic, again.partition, again.start) == (name.topic, name.partition, at):
                at = again.end
        if at != name.end:
            return f"{name.topic}/{name.partition} from offset {at} on"
    return ""


def _renamed(objects: str, old: str, new: str) -> str:
    keys = msgspec.json.decode(objects, type=list[str])
    return msgspec.json.encode(sorted(new if key == old else key for key in keys)).decode()
