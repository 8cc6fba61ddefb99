"""Reads the numbers of parts of files from the lists that a ledger names.

Lists may have more parts than fit into memory, so they are in a temporary database on disk. They
are read as they are: gzipped lines of JSON, of name, ETag, size and time of a file, the bytes of
the part and, if it had another number before, that number, how often it was tried, and how many of
its rows are landed.
"""

import hashlib
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from landfall_audit import Fault, FaultKind, untrusted_json
from landfall_audit.buckets import Bucket
from landfall_audit.gzip_members import MAX_LIST_BYTES, unpacked

SPAN = 1_000_000_000
"""How many offsets a part has."""
_MAX_FAULTS = 1000
_SCHEMA = """
CREATE TABLE parts (topic TEXT, lifetime INTEGER, number INTEGER, name TEXT, etag TEXT,
                    size INTEGER, modified INTEGER, start INTEGER, until INTEGER, former INTEGER,
                    skip INTEGER, PRIMARY KEY (topic, lifetime, number)) WITHOUT ROWID;
CREATE INDEX by_name ON parts (topic, lifetime, name, number);
CREATE TABLE parked (topic TEXT, lifetime INTEGER, number INTEGER, row INTEGER,
                     PRIMARY KEY (topic, lifetime, number)) WITHOUT ROWID;
CREATE TABLE taken (topic TEXT, lifetime INTEGER, number INTEGER,
                    PRIMARY KEY (topic, lifetime, number)) WITHOUT ROWID;
"""
_IN_FILE = """
SELECT topic, number, name FROM (
    SELECT topic, number, name, etag, size, start, LAG(etag) OVER w AS before,
           LAG(until) OVER w AS ended
    FROM parts WHERE former = -1 WINDOW w AS (PARTITION BY topic, lifetime, name ORDER BY number)
) WHERE start != CASE WHEN before = etag THEN ended ELSE 0 END
    AND NOT (start = size AND before IS NOT NULL AND before != etag) LIMIT ?
"""
"""New parts of a version that do not begin where the one before ended: twice, or with a gap.

A version that a user left out has one part of no bytes, at its end.
"""
_AGAIN = """
SELECT p.topic, p.number, p.name FROM parts p
LEFT JOIN parts f ON (f.topic, f.lifetime, f.number) = (p.topic, p.lifetime, p.former)
LEFT JOIN parked h ON (h.topic, h.lifetime, h.number) = (p.topic, p.lifetime, p.former)
WHERE p.former != -1 AND (
    h.number IS NULL OR f.number IS NULL OR p.skip != MAX(f.skip, h.row)
    OR (p.name, p.etag, p.start, p.until) != (f.name, f.etag, f.start, f.until)
) LIMIT ?
"""
"""Parts with a new number that are not the rest of their former part."""
_TWICE = """
SELECT topic, MAX(number), name FROM parts WHERE former != -1
GROUP BY topic, lifetime, former HAVING COUNT(*) > 1 LIMIT ?
"""
_PARKED = """
SELECT COUNT(*) FROM parked h WHERE topic = ? AND lifetime = (
    SELECT MAX(lifetime) FROM parked WHERE topic = h.topic
) AND NOT EXISTS (SELECT 1 FROM taken t
    WHERE (t.topic, t.lifetime, t.number) = (h.topic, h.lifetime, h.number))
"""


@dataclass(frozen=True, slots=True)
class FeedFilePart:
    """A part of a file: the bytes ``start <= b < end`` of a version.

    Attributes:
        modified: when the version was written, in milliseconds since 1970-01-01 UTC.
        skip: how many of its rows were landed under former numbers.
    """

    name: str
    etag: str
    size: int
    modified: int
    start: int
    end: int
    skip: int


class FeedLists:
    """All parts that have numbers. Thread-safe once the ledger is read."""

    def __init__(self, bucket: Bucket) -> None:
        """Know nothing yet."""
        self._bucket = bucket
        self._lock = threading.Lock()
        # SQLite keeps a nameless database in a temporary file.
        self._rows = sqlite3.connect("", check_same_thread=False)
        self._rows.executescript(_SCHEMA)
        self._lifetimes: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._of_files: set[str] = set()
        self._faults: list[Fault] = []

    def close(self) -> None:
        """Delete the database."""
        self._rows.close()

    def add(self, record: Any) -> None:
        """Take a record of the ledger into account; records of other types change nothing."""
        match record["type"]:
            case "ADD":
                for entry in record["entries"]:
                    topic = entry["topic_partition"]["topic"]
                    if entry["topic_partition"]["partition"] == 0:
                        self._lifetimes[topic] = self._lifetimes.get(topic, -1) + 1
                        self._ends[topic] = 0
                        if entry.get("feed"):
                            self._of_files.add(topic)
            case "DISCOVER":
                self._add_discover(record)
            case "HOLE":
                self._add_hole(record)
            case _:
                pass

    def lifetime(self, topic: str) -> int:
        """The present lifetime of a topic, counted from 0; -1 if it was never added."""
        return self._lifetimes.get(topic, -1)

    def end(self, topic: str) -> int:
        """The number after the last one that a DISCOVER has given."""
        return self._ends.get(topic, 0)

    def part(self, topic: str, lifetime: int, number: int) -> FeedFilePart | None:
        """The part with this number; None if no list has it."""
        query = (
            "SELECT name, etag, size, modified, start, until, skip FROM parts "
            "WHERE (topic, lifetime, number) = (?, ?, ?)"
        )
        with self._lock:
            row = self._rows.execute(query, (topic, lifetime, number)).fetchone()
        return FeedFilePart(*row) if row else None

    def versions(self, topic: str, name: str) -> set[str]:
        """The ETags of a file that have numbers."""
        query = "SELECT DISTINCT etag FROM parts WHERE (topic, lifetime, name) = (?, ?, ?)"
        with self._lock:
            found = self._rows.execute(query, (topic, self.lifetime(topic), name))
            return {etag for (etag,) in found.fetchall()}

    def parked(self, topic: str) -> int:
        """How many parts are parked now."""
        with self._lock:
            count: int = self._rows.execute(_PARKED, (topic,)).fetchone()[0]
        return count

    def faults(self) -> Iterator[Fault]:
        """Lists that are not as they were stored, and parts that are numbered wrongly."""
        yield from self._faults
        for query, what in (
            (_IN_FILE, "does not begin where the file's last part ended"),
            (_AGAIN, "is not what was left of the part with the number before"),
            (_TWICE, "has the former number of another part"),
        ):
            for topic, number, name in self._rows.execute(query, (_MAX_FAULTS,)):
                yield Fault(FaultKind.LIST, f"{topic}/0 part {number}", f"{name}: {what}")

    @staticmethod
    def _place(slice_: Any) -> tuple[str, int]:
        topic: str = slice_["topic_partition"]["topic"]
        return topic, int(slice_["offsets"]["start"])

    def _add_hole(self, record: Any) -> None:
        topic, start = self._place(record["piece"])
        if topic not in self._of_files:
            return
        row = (topic, self._lifetimes[topic], start // SPAN, start % SPAN)
        self._rows.execute("INSERT OR IGNORE INTO parked VALUES (?, ?, ?, ?)", row)
        if record.get("decision"):  # it is given up, and may still be landed after all
            self._rows.execute("INSERT OR IGNORE INTO taken VALUES (?, ?, ?)", row[:3])

    def _add_discover(self, record: Any) -> None:
        topic = record["topic_partition"]["topic"]
        lifetime = self._lifetimes[topic]
        taken = [n for of in ("again", "replaced", "ignored") for n in record.get(of, ())]
        rows = [(topic, lifetime, number) for number in taken]
        self._rows.executemany("INSERT OR IGNORE INTO taken VALUES (?, ?, ?)", rows)
        listed = record.get("listed")
        if not listed:
            return
        slot, first, end = record["header"]["seq"], listed["first"], listed["end"]
        if first != self._ends[topic]:
            message = f"numbers {topic} from {first}, expected {self._ends[topic]}"
            self._faults.append(Fault(FaultKind.LIST, f"slot {slot}", message))
        self._ends[topic] = end
        try:
            parts = self._read(listed)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            message = f"slot {slot} names it: {error}"
            self._faults.append(Fault(FaultKind.LIST, listed["key"], message))
            return
        if len(parts) != end - first:
            message = f"slot {slot} records {end - first} parts, the list has {len(parts)}"
            self._faults.append(Fault(FaultKind.LIST, listed["key"], message))
        self._rows.executemany(
            "INSERT OR IGNORE INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (topic, lifetime, number, *part[:6], part[6], part[8])
                for number, part in enumerate(parts, first)
            ],
        )

    def _read(self, listed: Any) -> list[list[Any]]:
        """The parts in a list, each with all of its fields."""
        with self._bucket.open(listed["key"]) as stream:
            body = stream.read()
        if (found := hashlib.sha256(body).hexdigest()) != listed["sha256"]:
            raise ValueError(f"has SHA-256 {found[:12]}")
        lines = unpacked(body, MAX_LIST_BYTES).splitlines()[1:]
        parts = [untrusted_json.decode(line, type=list[Any]) for line in lines]
        # Of what a part had before, only as much is written as it needs.
        return [[*part, *_NEW[len(part) - 6 :]] for part in parts]


_NEW = (-1, 0, 0)
"""Former number, attempts and landed rows of a part that is new."""
