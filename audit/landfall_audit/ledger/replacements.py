"""Objects that replaced older ones, and the ranges that their rows come from.

A REPLACE counts once it is applied, and unless another one was recorded *instead* of it. Until then
the old objects count, and either may be visible. A new object has sections; each becomes a piece of
the range that its rows come from. The replaced objects show which that is: objects of COMMITs and
REPLAYs are in a range, replacements have pieces. A backfill has ranges of its own, see
``landfall_audit.ledger.landed_again``.

The lists' claims about rows are compared with Kafka, where it still has the records. This module
only checks that numbers of rows add up, and that an undo restores copies of what had retired.
"""

import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from landfall_audit import Fault, FaultKind, basenames
from landfall_audit.buckets import Bucket
from landfall_audit.ledger.corrections import (
    Content,
    CorrectedRows,
    Range,
    topic_of,
    topic_partition,
)
from landfall_audit.ledger.landed_again import Lifetime, RangeReplacer, Swap
from landfall_audit.ledger.old_rows import OldRows, RangeName, SourcesOfRows
from landfall_audit.ledger.replaced_lists import (
    ListedObject,
    ReplacedList,
    ReplacementObject,
    read_list,
)

_SCHEMA = """
CREATE TABLE retiring (key TEXT, slot INTEGER, size INTEGER, crc32 INTEGER, rows INTEGER,
                       first INTEGER, last INTEGER,
                       PRIMARY KEY (key, slot)) WITHOUT ROWID;
CREATE INDEX retiring_by_content ON retiring (crc32);
CREATE TABLE merged (key TEXT PRIMARY KEY, place TEXT, rows INTEGER, crc32 INTEGER,
                     mixed INTEGER) WITHOUT ROWID;
CREATE INDEX mixed_by_place ON merged (place) WHERE mixed;
CREATE TABLE pieces (topic TEXT, partition INTEGER, lifetime INTEGER, start INTEGER, key TEXT,
                     run INTEGER, rows INTEGER, first INTEGER, last INTEGER, at INTEGER,
                     content INTEGER);
CREATE INDEX pieces_by_range ON pieces (topic, partition, lifetime, start, first);
CREATE INDEX pieces_by_key ON pieces (key);
CREATE TABLE left_out (topic TEXT, partition INTEGER, lifetime INTEGER, start INTEGER, place TEXT,
                       rows INTEGER, PRIMARY KEY (place, topic, partition, lifetime, start))
    WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class _ReplaceRecord:
    slot: int
    purpose: str
    listed: Any
    read_through: int
    instead: int
    duplicates: int
    ranges: list[Lifetime]
    undoes: int
    retires_later: bool
    again: bool

    @property
    def swap(self) -> Swap | None:
        """The ranges that it changes, if it is a backfill, or undoes one."""
        if self.purpose != "Backfill" and self.undoes == -1:
            return None
        return Swap(self.slot, self.ranges, self.undoes)

    @property
    def only_renames(self) -> bool:
        """Return whether each new object is a copy of one that retires."""
        return self.purpose == "Undo" and self.instead >= 0 and not self.again


class LedgerReplacements:
    """The REPLACEs of a ledger and their effects. Used from one thread at a time.

    Attributes:
        stored: schemas and specs that lists name, by their SHA-256, with the first such slot.
    """

    def __init__(self, rows: sqlite3.Connection, bucket: Bucket) -> None:
        """Keep their effects in tables of this database, next to the tables of ``Corrections``."""
        self._rows, self._bucket = rows, bucket
        rows.executescript(_SCHEMA)
        self._records: list[_ReplaceRecord] = []
        self._again = RangeReplacer(rows)
        self._retired: dict[int, list[ListedObject]] = {}
        self._gone = set[int]()
        self.stored: dict[tuple[FaultKind, str], int] = {}

    def add(self, record: Any) -> None:
        """Remember a record if it is a REPLACE or a RETIRED."""
        if record["type"] == "REPLACE":
            instead, again = record.get("instead", -1), record.get("again", False)
            before = next((r for r in self._records if again and r.slot == instead), None)
            self._records.append(
                _ReplaceRecord(
                    record["header"]["seq"],
                    record["purpose"],
                    record["listed"],
                    record["read_through"],
                    instead,
                    record.get("duplicates", 0),
                    before.ranges if before else self._again.lifetimes(record["slices"]),
                    record.get("undoes", -1),
                    record.get("retires_later", False),
                    again,
                )
            )
        if record["type"] == "RETIRED":
            self._gone.update(record["slots"])

    def settle(self, applied_through: int) -> Iterator[Fault]:
        """Apply applied REPLACEs in order; yields faults of their lists.

        Everything else must have been read before.
        """
        by_slot = {r.slot: r for r in self._records}
        given_up = {r.instead: r for r in self._records if r.instead >= 0 and not r.again}
        decided_again = {r.instead for r in self._records if r.again}
        for record in self._records:
            if record.again and (problem := _why_not_again(record, by_slot.get(record.instead))):
                yield Fault(FaultKind.REPLACED, f"slot {record.slot}", problem)
            try:
                listed = read_list(self._bucket, record.listed)
            except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error) as error:
                message = f"slot {record.slot} names it: {error}"
                yield Fault(FaultKind.REPLACED, record.listed["key"], message)
                continue
            for named in listed.stored:
                self.stored.setdefault(named, record.slot)
            yield from self._check(record, listed)
            if record.slot in decided_again:
                continue  # the later record names the same objects
            by = given_up.get(record.slot)
            is_given_up = by is not None and by.slot <= applied_through
            is_cleaned_up = by is not None and by.retires_later and is_given_up
            yield from self._name(record, listed, is_lost=is_given_up and not is_cleaned_up)
            if by is not None and is_cleaned_up:  # as what retires by the other one
                self._clean_up(by.slot, listed)
            if record.slot in given_up or record.slot > applied_through:
                self._retain(record, listed)
            else:
                yield from self._apply(record, listed)

    # ------------------------------------------------------------------------------ questions

    def leaving(self) -> frozenset[int]:
        """The slots of REPLACEs of whose old objects some may be left."""
        return frozenset(r.slot for r in self._records if r.retires_later) - self._gone

    def apply(self, range_: Range, name: RangeName, *, has_replays: bool) -> Range:
        """The range without the objects that retired, and with the pieces of new ones.

        Without ``has_replays``, pieces of what a REPLAY landed are left out.
        """
        if not self._records or range_.objects is None:
            return range_
        found = self._rows.execute(
            "SELECT key, run, rows, first, last, at, content FROM pieces "
            "WHERE (topic, partition, lifetime, start) = (?, ?, ?, ?) ORDER BY first",
            name,
        )
        pieces = tuple(map(_piece, found.fetchall()))
        if not has_replays:
            pieces = tuple(piece for piece in pieces if not piece.run)
        kept = tuple(key for key in range_.objects if not self._has_retired(key))
        return replace(range_, objects=kept, pieces=pieces)

    def left_out(self, place: str) -> int:
        """How many rows merges left out of the objects in a folder."""
        query = "SELECT coalesce(sum(rows), 0) FROM left_out WHERE place = ?"
        (rows,) = self._rows.execute(query, (place,)).fetchone()
        return int(rows)

    def _has_retired(self, key: str) -> bool:
        query = "SELECT 1 FROM named WHERE key = ? AND retired != -1"
        return self._rows.execute(query, (key,)).fetchone() is not None

    # -------------------------------------------------------------------------------- records

    def _check(self, record: _ReplaceRecord, listed: ReplacedList) -> Iterator[Fault]:
        rows, retired = record.listed["rows"], record.listed["retired_rows"]
        slot, left_out = f"slot {record.slot}", record.duplicates
        if left_out < 0 or (record.purpose == "Compact" and rows + left_out != retired):
            message = f"merges {retired} rows into {rows}, and leaves out {left_out}"
            yield Fault(FaultKind.REPLACED, slot, message)
        for new in listed.objects:
            name = basenames.parse(new.landed.key)
            if name is None or name.plan != record.read_through:
                message = f"is not named after slot {record.read_through}, but new in {slot}"
                yield Fault(FaultKind.REPLACED, new.landed.key, message)

    def _name(
        self, record: _ReplaceRecord, listed: ReplacedList, *, is_lost: bool
    ) -> Iterator[Fault]:
        for new in listed.objects:
            row = (new.landed.key, new.landed.rows, record.slot, is_lost)
            query = "INSERT OR IGNORE INTO named (key, rows, slot, lost) VALUES (?, ?, ?, ?)"
            if not self._rows.execute(query, row).rowcount:
                message = f"is new in slot {record.slot}, and was named before"
                yield Fault(FaultKind.REPLACED, new.landed.key, message)

    def _clean_up(self, slot: int, listed: ReplacedList) -> None:
        """Let new objects be there or away until the REPLACE in a slot has cleaned up."""
        rows = [(slot, new.landed.key) for new in listed.objects]
        self._rows.executemany("UPDATE named SET retired = ? WHERE key = ?", rows)

    def _retain(self, record: _ReplaceRecord, listed: ReplacedList) -> None:
        rows = (
            (object_.landed.key, record.slot, *object_.landed.content) for object_ in listed.retire
        )
        query = "INSERT OR IGNORE INTO retiring VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._rows.executemany(query, rows)

    def _apply(self, record: _ReplaceRecord, listed: ReplacedList) -> Iterator[Fault]:
        for object_ in listed.retire:
            if problem := self._problem(object_.landed):
                yield Fault(
                    FaultKind.REPLACED, object_.landed.key, f"slot {record.slot}: {problem}"
                )
        if record.swap:
            yield from self._swap(record, record.swap, listed)
        elif record.only_renames:
            self._retain(record, listed)
            yield from self._rename(record, listed, [object_.landed for object_ in listed.retire])
            self._forget(record, listed)
        else:
            yield from self._merge(record, listed)

    def _swap(self, record: _ReplaceRecord, swap: Swap, listed: ReplacedList) -> Iterator[Fault]:
        """Replace ranges."""
        self._retired[record.slot] = [object_.landed for object_ in listed.retire]
        yield from self._again.swap(swap, listed)
        self._retain(record, listed)
        self._forget(record, listed)
        if swap.undoes != -1:
            back = self._retired.get(swap.undoes, [])
            yield from self._rename(record, listed, back)
            new = {basenames.unplanned(object_.landed.key) for object_ in listed.objects}
            for gone in (old.key for old in back if basenames.unplanned(old.key) not in new):
                message = f"does not come back, though slot {record.slot} undoes slot {swap.undoes}"
                yield Fault(FaultKind.REPLACED, gone, message)

    def _rename(
        self, record: _ReplaceRecord, listed: ReplacedList, originals: Iterable[ListedObject]
    ) -> Iterator[Fault]:
        """Replace objects with their copies."""
        known = {basenames.unplanned(old.key): old for old in originals}
        for new in listed.objects:
            old = known.get(basenames.unplanned(new.landed.key))
            if old is None or old.content != new.landed.content:
                message = f"slot {record.slot}: is no copy of what retired"
                yield Fault(FaultKind.REPLACED, new.landed.key, message)
            if old is not None:
                self._again.rename(old, new.landed.key)

    def _merge(self, record: _ReplaceRecord, listed: ReplacedList) -> Iterator[Fault]:
        sources = SourcesOfRows()
        for object_ in listed.retire:
            for old in self._old(object_.landed):
                sources.add(old)
        self._retain(record, listed)
        self._forget(record, listed)
        balance = Counter[tuple[str, RangeName]]()
        for old in sources.all:
            balance[old.piece.place, old.name] += old.piece.rows
        for new in listed.objects:
            yield from self._add_object(record, new, sources, balance)
        yield from self._settle_rest(record, listed, sources, balance)

    def _problem(self, landed: ListedObject) -> str:
        """Return why an object cannot retire; empty if it can."""
        query = "SELECT rows, lost, retired FROM named WHERE key = ?"
        row = self._rows.execute(query, (landed.key,)).fetchone()
        if row is None:
            return "retires, but nothing names it"
        rows, is_lost, retired = row
        if is_lost or retired != -1:
            return "retires, but does not count any more"
        return "" if rows == landed.rows else f"retires with {landed.rows} rows, it has {rows}"

    def _forget(self, record: _ReplaceRecord, listed: ReplacedList) -> None:
        """Stop counting the objects that retire."""
        keys = [(object_.landed.key,) for object_ in listed.retire]
        retired = [(record.slot, key) for (key,) in keys]
        self._rows.executemany("UPDATE named SET retired = ? WHERE key = ?", retired)
        self._rows.executemany("DELETE FROM pieces WHERE key = ?", keys)
        self._rows.executemany("DELETE FROM merged WHERE key = ?", keys)

    def _old(self, landed: ListedObject) -> Iterator[OldRows]:
        """The rows of an object that retires, by range."""
        query = "SELECT * FROM pieces WHERE key = ?"
        found = self._rows.execute(query, (landed.key,)).fetchall()
        for row in found:
            yield OldRows(RangeName(*row[:4]), _piece(row[4:]))
        name = None if found else self._range_of(landed)
        if name:
            query = "SELECT run FROM named WHERE key = ?"
            (run,) = self._rows.execute(query, (landed.key,)).fetchone() or (0,)
            first, last = landed.first_offset, landed.last_offset
            yield OldRows(
                name, CorrectedRows(landed.key, run, landed.rows, first, last, 0, Content.PLAIN)
            )

    def _range_of(self, landed: ListedObject) -> RangeName | None:
        """The range of a COMMIT's or REPLAY's object: the COMMIT's, or the range of its offsets.

        No range names what a REPLAY has landed: it is of the lifetime of then.
        """
        topic, partition = topic_partition(landed.key)
        found = None
        lifetimes = self._rows.execute(
            "SELECT lifetime, slot < (SELECT slot FROM named WHERE key = ?) FROM lifetimes "
            "WHERE (topic, partition) = (?, ?) ORDER BY 1",
            (landed.key, topic, partition),
        )
        for lifetime, has_begun in lifetimes.fetchall():
            row = self._rows.execute(
                "SELECT start, until, objects FROM ranges WHERE (topic, partition, lifetime) = "
                "(?, ?, ?) AND start <= ? AND objects IS NOT NULL ORDER BY start DESC LIMIT 1",
                (topic, partition, lifetime, landed.first_offset),
            ).fetchone()
            if row and landed.last_offset < row[1]:
                name = RangeName(topic, partition, lifetime, row[0])
                if landed.key in msgspec.json.decode(row[2], type=list[str]):
                    return name
                found = name if has_begun else found
        return found

    # -------------------------------------------------------------------------------- objects

    def _add_object(
        self,
        record: _ReplaceRecord,
        new: ReplacementObject,
        sources: SourcesOfRows,
        balance: Counter[tuple[str, RangeName]],
    ) -> Iterator[Fault]:
        key, at = new.landed.key, 0
        place = key.rpartition("/")[0]
        if record.purpose == "Undo" and not self._is_copy(new.landed, record.slot):
            yield Fault(FaultKind.REPLACED, key, f"slot {record.slot}: is no copy of what retired")
        row = (key, place, new.landed.rows, new.landed.crc32, new.mixed)
        self._rows.execute("INSERT OR IGNORE INTO merged VALUES (?, ?, ?, ?, ?)", row)
        for section in new.sections:
            old = sources.find(key, section)
            if old is None:
                message = f"slot {record.slot}: no object that retires has the rows of {section}"
                yield Fault(FaultKind.REPLACED, key, message)
            else:
                balance[place, old.name] -= section.rows
                content = Content.MIXED if new.mixed else Content.PLAIN
                numbers = (section.rows, section.first_offset, section.last_offset, at)
                self._add_piece(old.name, CorrectedRows(key, old.piece.run, *numbers, content))
            at += section.rows

    def _is_copy(self, landed: ListedObject, slot: int) -> bool:
        """Return whether an object is a copy of one that has retired."""
        query = (
            "SELECT key FROM retiring WHERE crc32 = ? "
            "AND (size, rows, first, last) = (?, ?, ?, ?) AND slot <= ?"
        )
        size, crc32, *rest = landed.content
        found = self._rows.execute(query, (crc32, size, *rest, slot)).fetchall()
        return any(topic_of(key) == topic_of(landed.key) for (key,) in found)

    def _add_piece(self, name: RangeName, piece: CorrectedRows) -> None:
        row = (*name, piece.key, piece.run, piece.rows, piece.first, piece.last, piece.at)
        query = "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._rows.execute(query, (*row, int(piece.content)))

    def _settle_rest(
        self,
        record: _ReplaceRecord,
        listed: ReplacedList,
        sources: SourcesOfRows,
        balance: Counter[tuple[str, RangeName]],
    ) -> Iterator[Fault]:
        """Take rows into account that are in no new object."""
        by_place = {
            new.landed.key.rpartition("/")[0]: new.landed.key for new in listed.objects if new.mixed
        }
        for old in sources.all if record.purpose != "Undo" else ():
            key = by_place.get(old.piece.place)
            if not old.is_used and key:
                piece = replace(old.piece, key=key, rows=0, content=Content.MIXED)
                self._add_piece(old.name, piece)
        for (place, name), rows in balance.items():
            query = (
                "INSERT INTO left_out VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET rows = rows + excluded.rows"
            )
            self._rows.execute(query, (*name, place, rows))
            if record.purpose == "Compact" and (rows < 0 or (rows and place not in by_place)):
                more = "made up" if rows < 0 else "lost"
                where = f"{name.topic}/{name.partition} from offset {name.start} on in {place}"
                message = f"{abs(rows)} rows of {where} are {more}"
                yield Fault(FaultKind.REPLACED, f"slot {record.slot}", message)


def _why_not_again(record: _ReplaceRecord, before: _ReplaceRecord | None) -> str:
    """Return what is wrong with a record that decides another one again; empty if nothing."""
    if before is None:
        return f"decides slot {record.instead} again, which is no REPLACE"
    if replace(record, slot=before.slot, instead=before.instead, again=before.again) != before:
        return f"decides slot {record.instead} again, and is another one"
    return ""


def _piece(row: Sequence[Any]) -> CorrectedRows:
    key, run, rows, first, last, at, content = row
    return CorrectedRows(key, run, rows, first, last, at, Content(content))
