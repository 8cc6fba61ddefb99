"""Which objects took the place of others, and from which ranges their rows are.

A REPLACE counts once it is applied, and unless another one was recorded *instead* of it. Until
then the old objects count, and either may be visible. A new object has sections; each becomes a
piece of the range that its rows come from. Which that is, the objects tell that retire: those of
COMMITs and REPLAYs are in a range, others have pieces.

What lists claim about rows is compared with Kafka, where it still has them. Here it is only checked
that numbers of rows add up, and that what an undoing brings back are copies of what had retired.
"""

import re
import sqlite3
import zlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from landfall.audit import Fault, Kind
from landfall.audit.buckets import Bucket
from landfall.audit.corrections import Content, Piece, Range, topic_of, topic_partition
from landfall.audit.replaced_lists import ListedObject, NewObject, ReplacedList, Section, read_list

_PLAN = re.compile(r"[0-9]+_[0-9]+_[0-9]{20}\.r([0-9]+)(\..*)?")
_SCHEMA = """
CREATE TABLE retiring (key TEXT, slot INTEGER, size INTEGER, crc32 INTEGER, rows INTEGER,
                       first INTEGER, last INTEGER, redone INTEGER,
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
CREATE TABLE left_out (place TEXT PRIMARY KEY, rows INTEGER) WITHOUT ROWID;
"""


class RangeName(NamedTuple):
    """Which range of the ledger: of a topic partition's lifetime, the one from an offset on."""

    topic: str
    partition: int
    lifetime: int
    start: int


@dataclass(frozen=True, slots=True)
class _Record:
    slot: int
    purpose: str
    listed: Any
    read_through: int
    instead: int
    duplicates: int


@dataclass(slots=True)
class _Old:
    """Rows of a range in an object that retires."""

    name: RangeName
    piece: Piece
    is_used: bool = False


@dataclass
class _Sources:
    """What retires by a list, to look up where sections of new objects come from."""

    all: list[_Old] = field(default_factory=list)
    exact: defaultdict[tuple[str, int, int, int], deque[_Old]] = field(
        default_factory=lambda: defaultdict(deque)
    )

    def add(self, old: _Old) -> None:
        self.all.append(old)
        piece = old.piece
        self.exact[piece.place, old.name.partition, piece.first, piece.last].append(old)

    def find(self, place: str, section: Section) -> _Old | None:
        """The first that is as the section says and was not found yet, or else overlaps it."""
        same = self.exact.get((place, section.partition, section.first_offset, section.last_offset))
        overlapping = (
            old
            for old in self.all
            if (old.piece.place, old.name.partition) == (place, section.partition)
            and old.piece.first <= section.last_offset
            and section.first_offset <= old.piece.last
        )
        found = same.popleft() if same else next(overlapping, None)
        if found is not None:
            found.is_used = True
        return found


class Replacements:
    """What REPLACEs of a ledger did. Used from one thread at a time."""

    def __init__(self, rows: sqlite3.Connection, bucket: Bucket) -> None:
        """Keep what they did in tables of this database, next to those of ``Corrections``."""
        self._rows, self._bucket = rows, bucket
        rows.executescript(_SCHEMA)
        self._records: list[_Record] = []

    def add(self, record: Any) -> None:
        """Remember a record if it is a REPLACE."""
        if record["type"] == "REPLACE":
            self._records.append(
                _Record(
                    record["header"]["seq"],
                    record["purpose"],
                    record["listed"],
                    record["read_through"],
                    record.get("instead", -1),
                    record.get("duplicates", 0),
                )
            )

    def settle(self, applied_through: int) -> Iterator[Fault]:
        """Apply, in order, what is applied; yields what is wrong with the lists.

        Everything else must have been read before.
        """
        given_up = {r.instead: r.slot for r in self._records if r.instead >= 0}
        for record in self._records:
            try:
                listed = read_list(self._bucket, record.listed)
            except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error) as error:
                message = f"slot {record.slot} names it: {error}"
                yield Fault(Kind.REPLACED, record.listed["key"], message)
                continue
            yield from self._check(record, listed)
            is_lost = record.slot in given_up and given_up[record.slot] <= applied_through
            yield from self._name(record, listed, is_lost=is_lost)
            if record.slot in given_up or record.slot > applied_through:
                self._retain(record, listed)
            else:
                yield from self._apply(record, listed)

    # ------------------------------------------------------------------------------ questions

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
        row = self._rows.execute("SELECT rows FROM left_out WHERE place = ?", (place,)).fetchone()
        return row[0] if row else 0

    def _has_retired(self, key: str) -> bool:
        query = "SELECT 1 FROM named WHERE key = ? AND retired != -1"
        return self._rows.execute(query, (key,)).fetchone() is not None

    # -------------------------------------------------------------------------------- records

    def _check(self, record: _Record, listed: ReplacedList) -> Iterator[Fault]:
        rows, retired = record.listed["rows"], record.listed["retired_rows"]
        slot, left_out = f"slot {record.slot}", record.duplicates
        if left_out < 0 or (record.purpose == "Compact" and rows + left_out != retired):
            message = f"merges {retired} rows into {rows}, and leaves out {left_out}"
            yield Fault(Kind.REPLACED, slot, message)
        for new in listed.objects:
            plan = _PLAN.fullmatch(new.landed.key.rpartition("/")[2])
            if not plan or int(plan[1]) != record.read_through:
                message = f"is not named after slot {record.read_through}, but new in {slot}"
                yield Fault(Kind.REPLACED, new.landed.key, message)

    def _name(self, record: _Record, listed: ReplacedList, *, is_lost: bool) -> Iterator[Fault]:
        for new in listed.objects:
            row = (new.landed.key, new.landed.rows, is_lost)
            query = "INSERT OR IGNORE INTO named (key, rows, lost) VALUES (?, ?, ?)"
            if not self._rows.execute(query, row).rowcount:
                message = f"is new in slot {record.slot}, and was named before"
                yield Fault(Kind.REPLACED, new.landed.key, message)

    def _retain(
        self, record: _Record, listed: ReplacedList, redone: frozenset[str] = frozenset()
    ) -> None:
        rows = (
            (each.landed.key, record.slot, *each.landed.content, each.landed.key in redone)
            for each in listed.retire
        )
        query = "INSERT OR IGNORE INTO retiring VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        self._rows.executemany(query, rows)

    def _apply(self, record: _Record, listed: ReplacedList) -> Iterator[Fault]:
        sources = _Sources()
        for each in listed.retire:
            if problem := self._problem(each.landed):
                yield Fault(Kind.REPLACED, each.landed.key, f"slot {record.slot}: {problem}")
            for old in self._old(each.landed):
                sources.add(old)
        redone = {o.piece.key for o in sources.all if o.piece.content is Content.REDONE}
        self._retire(record, listed, frozenset(redone))
        balance = Counter[tuple[str, RangeName]]()
        for old in sources.all:
            balance[old.piece.place, old.name] += old.piece.rows
        for new in listed.objects:
            yield from self._add_object(record, new, sources, balance)
        yield from self._settle_rest(record, listed, sources, balance)

    def _problem(self, landed: ListedObject) -> str:
        """Why an object cannot retire; empty if it can."""
        query = "SELECT rows, lost, retired FROM named WHERE key = ?"
        row = self._rows.execute(query, (landed.key,)).fetchone()
        if row is None:
            return "retires, but nothing names it"
        rows, is_lost, retired = row
        if is_lost or retired != -1:
            return "retires, but does not count any more"
        return "" if rows == landed.rows else f"retires with {landed.rows} rows, it has {rows}"

    def _retire(self, record: _Record, listed: ReplacedList, redone: frozenset[str]) -> None:
        self._retain(record, listed, redone)
        keys = [(each.landed.key,) for each in listed.retire]
        retired = [(record.slot, key) for (key,) in keys]
        self._rows.executemany("UPDATE named SET retired = ? WHERE key = ?", retired)
        self._rows.executemany("DELETE FROM pieces WHERE key = ?", keys)
        self._rows.executemany("DELETE FROM merged WHERE key = ?", keys)

    def _old(self, landed: ListedObject) -> Iterator[_Old]:
        """The rows of an object that retires, by range."""
        query = "SELECT * FROM pieces WHERE key = ?"
        found = self._rows.execute(query, (landed.key,)).fetchall()
        for row in found:
            yield _Old(RangeName(*row[:4]), _piece(row[4:]))
        name = None if found else self._range_of(landed)
        if name:
            query = "SELECT run FROM named WHERE key = ?"
            (run,) = self._rows.execute(query, (landed.key,)).fetchone() or (0,)
            first, last = landed.first_offset, landed.last_offset
            yield _Old(name, Piece(landed.key, run, landed.rows, first, last, 0, Content.PLAIN))

    def _range_of(self, landed: ListedObject) -> RangeName | None:
        """The range of an object of a COMMIT or REPLAY: the COMMIT's, or that of its offsets."""
        topic, partition = topic_partition(landed.key)
        found = None
        lifetimes = self._rows.execute(
            "SELECT lifetime FROM lifetimes WHERE (topic, partition) = (?, ?) ORDER BY 1",
            (topic, partition),
        )
        for (lifetime,) in lifetimes.fetchall():
            row = self._rows.execute(
                "SELECT start, until, objects FROM ranges WHERE (topic, partition, lifetime) = "
                "(?, ?, ?) AND start <= ? AND objects IS NOT NULL ORDER BY start DESC LIMIT 1",
                (topic, partition, lifetime, landed.first_offset),
            ).fetchone()
            if row and landed.last_offset < row[1]:
                found = RangeName(topic, partition, lifetime, row[0])
                if landed.key in msgspec.json.decode(row[2], type=list[str]):
                    break
        return found

    # -------------------------------------------------------------------------------- objects

    def _add_object(
        self,
        record: _Record,
        new: NewObject,
        sources: _Sources,
        balance: Counter[tuple[str, RangeName]],
    ) -> Iterator[Fault]:
        key, at = new.landed.key, 0
        place = key.rpartition("/")[0]
        was_redone = None
        if record.purpose == "Undo":
            was_redone = self._copied(new.landed, record.slot)
            if was_redone is None:
                yield Fault(Kind.REPLACED, key, f"slot {record.slot}: is no copy of what retired")
        row = (key, place, new.landed.rows, new.landed.crc32, new.mixed)
        self._rows.execute("INSERT OR IGNORE INTO merged VALUES (?, ?, ?, ?, ?)", row)
        for section in new.sections:
            old = sources.find(place, section)
            if old is None and record.purpose != "Backfill":
                message = f"slot {record.slot}: no object that retires has the rows of {section}"
                yield Fault(Kind.REPLACED, key, message)
            elif old is not None:
                balance[place, old.name] -= section.rows
                content = _content(record, old, is_mixed=new.mixed, was_redone=bool(was_redone))
                numbers = (section.rows, section.first_offset, section.last_offset, at)
                self._add_piece(old.name, Piece(key, old.piece.run, *numbers, content))
            at += section.rows

    def _copied(self, landed: ListedObject, slot: int) -> bool | None:
        """Whether the object was redone of which this one is a copy; None if it is of none."""
        query = (
            "SELECT key, redone FROM retiring WHERE crc32 = ? "
            "AND (size, rows, first, last) = (?, ?, ?, ?) AND slot <= ?"
        )
        size, crc32, *rest = landed.content
        for key, redone in self._rows.execute(query, (crc32, size, *rest, slot)).fetchall():
            if topic_of(key) == topic_of(landed.key):
                return bool(redone)
        return None

    def _add_piece(self, name: RangeName, piece: Piece) -> None:
        row = (*name, piece.key, piece.run, piece.rows, piece.first, piece.last, piece.at)
        query = "INSERT INTO pieces VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._rows.execute(query, (*row, int(piece.content)))

    def _settle_rest(
        self,
        record: _Record,
        listed: ReplacedList,
        sources: _Sources,
        balance: Counter[tuple[str, RangeName]],
    ) -> Iterator[Fault]:
        """Take rows into account that are in no new object."""
        by_place = {
            new.landed.key.rpartition("/")[0]: new.landed.key for new in listed.objects if new.mixed
        }
        for old in sources.all if record.purpose != "Undo" else ():
            content = _content(record, old, is_mixed=True, was_redone=False)
            key = by_place.get(old.piece.place)
            if content is Content.REDONE and listed.objects:
                key = listed.objects[0].landed.key  # any: the whole range is left unchecked
            if not old.is_used and key:
                self._add_piece(old.name, replace(old.piece, key=key, rows=0, content=content))
        if record.purpose == "Backfill":
            return
        for (place, name), rows in balance.items():
            query = (
                "INSERT INTO left_out VALUES (?, ?) "
                "ON CONFLICT (place) DO UPDATE SET rows = rows + excluded.rows"
            )
            self._rows.execute(query, (place, rows))
            if record.purpose == "Compact" and (rows < 0 or (rows and place not in by_place)):
                more = "made up" if rows < 0 else "lost"
                where = f"{name.topic}/{name.partition} from offset {name.start} on in {place}"
                message = f"{abs(rows)} rows of {where} are {more}"
                yield Fault(Kind.REPLACED, f"slot {record.slot}", message)


def _content(record: _Record, old: _Old, *, is_mixed: bool, was_redone: bool) -> Content:
    """What rows are in an object that is new."""
    is_kept = record.purpose == "Compact" and old.piece.content is Content.REDONE
    if record.purpose == "Backfill" or is_kept or was_redone:
        return Content.REDONE
    return Content.MIXED if is_mixed else Content.PLAIN


def _piece(row: Sequence[Any]) -> Piece:
    key, run, rows, first, last, at, content = row
    return Piece(key, run, rows, first, last, at, Content(content))
