"""Collects the objects of the output root and of the ledger, in a temporary database on disk.

Either may be larger than memory. The listing is read first and the ledger after it. The order
matters: an object becomes visible only after its COMMIT, so every object in the listing is named
in the ledger that is read later.

The ledger is plain JSON here. Of its rules only the chain is checked (slot numbers and hashes), and
nothing after a slot that breaks it is used. ``landfall fsck`` checks the other rules.
"""

import hashlib
import re
import sqlite3
import sys
import threading
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from landfall_audit import Fault, FaultKind, basenames, untrusted_json
from landfall_audit.buckets import Bucket
from landfall_audit.feeds.lists import FeedLists
from landfall_audit.ledger import slots
from landfall_audit.ledger.corrections import CorrectedObjects, Range, topic_of
from landfall_audit.ledger.horizons import Horizons
from landfall_audit.ledger.old_rows import RangeName
from landfall_audit.ledger.replacements import LedgerReplacements
from landfall_audit.objects.mixed_rows import MixedSection

_DATA = re.compile(rf"([^/=]*=[^/]*/)*[A-Za-z0-9._-]+/.+/{basenames.PATTERN}")
"""Keys of data objects; a folder with ``=`` before the topic's is a destination's."""
_SYSTEM = re.compile(r"([^/=]*=[^/]*/)+_landfall/owner\.json$|_landfall/")
"""Keys of what Landfall needs besides: a destination has the name of the group that owns it."""
_EXPIRED = re.compile(r"([0-9]{20})\.json")
_FOLDERS = {FaultKind.SCHEMA: "0-schemas", FaultKind.SPEC: "0-specs"}
_ROWS = 256
"""How many rows of a query are fetched at a time."""
_SCHEMA = """
CREATE TABLE visible (key TEXT PRIMARY KEY, size INTEGER, basename TEXT,
                      generation INTEGER) WITHOUT ROWID;
CREATE INDEX by_basename ON visible (basename);
CREATE TABLE lifetimes (topic TEXT, partition INTEGER, lifetime INTEGER, topic_id TEXT,
                        start INTEGER, generation INTEGER, slot INTEGER,
                        PRIMARY KEY (topic, partition, lifetime)) WITHOUT ROWID;
CREATE TABLE ranges (topic TEXT, partition INTEGER, lifetime INTEGER, start INTEGER, until INTEGER,
                     slot INTEGER, filtered INTEGER, counted INTEGER, objects TEXT, parts TEXT);
CREATE INDEX by_start ON ranges (topic, partition, lifetime, start);
CREATE TABLE copies (key TEXT, slot INTEGER, size INTEGER, late INTEGER,
                     PRIMARY KEY (key, slot)) WITHOUT ROWID;
CREATE TABLE truncated (topic TEXT, partition INTEGER, lifetime INTEGER, start INTEGER,
                        until INTEGER);
"""


@dataclass(frozen=True, slots=True)
class PartitionLifetime:
    """A topic partition from its ADD to its DROP.

    A recreated topic has another topic id and counts its offsets from 0 again, so one topic
    partition may have several lifetimes.
    """

    topic: str
    partition: int
    lifetime: int
    topic_id: str
    start: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class MergedObject:
    """A replacement, with its folder and the counts in its list."""

    key: str
    place: str
    rows: int
    crc32: int


@dataclass(frozen=True, slots=True)
class LedgerObject:
    """An object that the ledger names.

    Attributes:
        key: of the object.
        slot: of the record that names it first.
        retired: the slot of the REPLACE by which it retires; -1 for none.
    """

    key: str
    slot: int
    retired: int

    def counts_at(self, applied: int) -> bool:
        """Return whether it counts once everything through a slot is applied, and nothing later."""
        return self.slot <= applied and not 0 <= self.retired <= applied


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """A copy of an object that retires.

    Attributes:
        key: of the copy.
        original: the object's key.
        size: of the copy in bytes.
        expected: what its size must be; None if no such object retires.
        crc32: what its CRC-32 must be.
    """

    key: str
    original: str
    size: int
    expected: int | None
    crc32: int | None


class Inventory:
    """The state of a group's output root at one time. Thread-safe once it is made.

    Attributes:
        faults: where the ledger's chain is broken.
        applied_through: the highest slot up to which every COMMIT is applied, or -1.
        slots: how many slots of the ledger were read.
        unrelated: how many visible objects do not belong to Landfall.
        markers: how many visible objects have names that readers of folders pass over.
        feeds: the parts of files that have numbers.
    """

    def __init__(self, bucket: Bucket, group: str, *, keeps_existing: bool = False) -> None:
        """List what is visible, then read the ledger.

        With ``keeps_existing``, objects of generations before the ledger's first one belong to the
        program that Landfall replaced.
        """
        self._bucket, self._group = bucket, group
        self._lock = threading.Lock()
        # SQLite keeps a nameless database in a temporary file.
        self._rows = sqlite3.connect("", check_same_thread=False)
        self._rows.executescript(_SCHEMA)
        self._corrections = CorrectedObjects(self._rows)
        self._replacements = LedgerReplacements(self._rows, bucket)
        self._horizons = Horizons()
        self.feeds = FeedLists(bucket)
        self.faults: list[Fault] = []
        self.applied_through = -1
        self._applied = array("q")
        self.slots = self.unrelated = self.markers = 0
        self._stored: dict[tuple[FaultKind, str], int] = {}
        self._specs: dict[int, str] = {}
        self._opened: list[tuple[int, int]] = []  # slots of OPENs, and their generations
        self._first_generation = sys.maxsize
        self._list_objects()
        self._read_ledger()
        if keeps_existing and self._first_generation < sys.maxsize:
            self._leave_out_existing()

    def close(self) -> None:
        """Delete the database."""
        self._rows.close()
        self.feeds.close()

    def partitions(self) -> Iterator[PartitionLifetime]:
        """Every topic partition that was ever added, by topic and partition."""
        found = self._rows.execute(
            "SELECT topic, partition, lifetime, topic_id, start FROM lifetimes ORDER BY 1, 2, 3"
        ).fetchall()
        last = {(topic, partition): lifetime for topic, partition, lifetime, _, _ in found}
        return (
            PartitionLifetime(
                topic, partition, lifetime, topic_id, start, last[topic, partition] == lifetime
            )
            for topic, partition, lifetime, topic_id, start in found
        )

    def offsets(self, names: Collection[tuple[str, int]]) -> int:
        """How many offsets the ranges of these topic partitions have."""
        found = self._select(
            "SELECT topic, partition, SUM(until - start) FROM ranges GROUP BY topic, partition"
        )
        return sum(count for topic, partition, count in found if (topic, partition) in names)

    def ranges(
        self, lifetime: PartitionLifetime, *, follow_replays: bool = True
    ) -> Iterator[Range]:
        """The ranges of a topic partition that the ledger records as landed or skipped, by offset.

        Without ``follow_replays``, dead letters are where their generation left them.
        """
        replayed_through = self.applied_through if follow_replays else -1
        query = (
            "SELECT slot, start, until, filtered, counted, objects, parts FROM ranges "
            "WHERE (topic, partition, lifetime) = (?, ?, ?) ORDER BY start, slot"
        )
        identity = (lifetime.topic, lifetime.partition, lifetime.lifetime)
        for slot, start, end, filtered, counted, objects, parts in self._select(query, identity):
            keys = (
                None if objects is None else tuple(untrusted_json.decode(objects, type=list[str]))
            )
            by_part = None if parts is None else _parts(parts)
            range_ = Range(slot, start, end, filtered, counted, keys, parts=by_part)
            with self._lock:
                corrected = self._corrections.apply(range_, replayed_through)
                replaced = self._replacements.apply(
                    corrected, RangeName(*identity, start), has_replays=follow_replays
                )
            yield replaced

    def data_objects(self) -> Iterator[LedgerObject]:
        """The objects of data that have ever counted, or will once their COMMIT is applied."""
        query = (
            "SELECT key, slot, retired FROM named WHERE NOT lost AND key NOT GLOB '_landfall/*' "
            "AND key NOT IN (SELECT key FROM missing)"
        )
        yield from (LedgerObject(*row) for row in self._select(query))

    def applied_at(self, slot: int) -> int:
        """The slot through which everything was applied when a slot was the last one."""
        return self._applied[slot] if slot >= 0 else -1

    def lifetimes_at(self, topic: str, generation: int) -> dict[int, int]:
        """The lifetime of each Kafka partition of a topic when a generation landed."""
        query = (
            "SELECT partition, max(lifetime) FROM lifetimes "
            "WHERE topic = ? AND generation <= ? GROUP BY partition"
        )
        return dict(self._select(query, (topic, generation)))

    def truncated(self, lifetime: PartitionLifetime) -> list[tuple[int, int]]:
        """Landed offsets at which Kafka now has different records, or none, by BLOCKs."""
        query = "SELECT start, until FROM truncated WHERE (topic, partition, lifetime) = (?, ?, ?)"
        return list(self._select(query, (lifetime.topic, lifetime.partition, lifetime.lifetime)))

    def spec_of(self, generation: int) -> bytes | None:
        """The stored spec by which a generation landed; None if it is not known."""
        name = self._specs.get(generation)
        if name is None:
            return None
        key = f"_landfall/{self._group}/{_FOLDERS[FaultKind.SPEC]}/{name}.json"
        try:
            with self._bucket.open(key) as stream:
                body = stream.read()
        except FileNotFoundError:
            return None
        return body if hashlib.sha256(body).hexdigest() == name else None

    def generation_at(self, slot: int) -> int | None:
        """The generation that wrote a slot; None if there is no OPEN before it."""
        place = bisect_left(self._opened, (slot,)) - 1
        return self._opened[place][1] if place >= 0 else None

    def find_moved(self, key: str) -> str | None:
        """A visible object without a name that has the topic and the file name of this key."""
        topic, basename = topic_of(key), key.rpartition("/")[2]
        query = "SELECT key FROM visible WHERE basename = ? AND key NOT IN (SELECT key FROM named)"
        found = (key for (key,) in self._select(query, (basename,)))
        return next((key for key in found if topic_of(key) == topic), None)

    def is_visible(self, key: str) -> bool:
        """Return whether an object was visible when the listing was made."""
        return any(self._select("SELECT 1 FROM visible WHERE key = ?", (key,)))

    def unnamed(self) -> Iterator[tuple[str, int]]:
        """Keys and sizes of visible objects that no record names, though named like landed ones.

        Objects that a LOST, or a REPLACE instead of theirs, gave up are among them.
        """
        yield from self._select(
            "SELECT key, size FROM visible WHERE key NOT IN (SELECT key FROM named WHERE NOT lost)"
        )

    def still_visible(self) -> Iterator[str]:
        """Keys of objects that are gone by the ledger, and were visible in the listing."""
        query = (
            "SELECT v.key, n.retired FROM visible v JOIN named n USING (key) WHERE retired != -1"
        )
        leaving = self._replacements.leaving()
        yield from (key for key, slot in self._select(query) if slot not in leaving)

    def copies(self) -> Iterator[KeptCopy]:
        """The copies that are kept of replaced objects."""
        query = (
            "SELECT c.key, c.slot, c.size, r.size, r.crc32 FROM copies c "
            "LEFT JOIN retiring r ON (r.key, r.slot) = (c.key, c.slot) WHERE NOT late"
        )
        for key, slot, size, expected, crc32 in self._select(query):
            yield KeptCopy(self._copy_key(key, slot), key, size, expected, crc32)

    def find_copy(self, key: str) -> str | None:
        """The key of the kept copy of an object that no longer exists.

        It may have retired only after the ledger was read.
        """
        query = "SELECT max(slot) FROM copies WHERE key = ?"
        ((slot,),) = self._select(query, (key,))
        if slot is None and (self.is_visible(key) or self._retires(key)):
            with self._lock:
                for copy, size in self._bucket.visible(self._copies):
                    self._add_copy(copy, size, is_late=True)
            ((slot,),) = self._select(query, (key,))
        return None if slot is None else self._copy_key(key, slot)

    def expired_through(self) -> int:
        """The slot up to which the dead letters that the ledger names have expired by now.

        An object's name records it before the first of them is deleted.
        """
        below = f"_landfall/{self._group}/0-expired/"
        names = (key.removeprefix(below) for key, _ in self._bucket.visible(below))
        found = [int(each[1]) for name in names if (each := _EXPIRED.fullmatch(name))]
        return max(found, default=-1)

    def has_expired(self, key: str) -> bool:
        """Return whether an object that is gone is dead letters that have expired by now."""
        query = "SELECT slot FROM named WHERE key = ? AND key GLOB '_landfall/*/dead-letters[/@]*'"
        named = [slot for (slot,) in self._select(query, (key,))]
        return bool(named) and named[0] <= self.expired_through()

    def _retires(self, key: str) -> bool:
        return any(self._select("SELECT 1 FROM retiring WHERE key = ?", (key,)))

    def merged(self, *, mixed: bool) -> Iterator[MergedObject]:
        """Replacements that count, by folder."""
        query = "SELECT key, place, rows, crc32 FROM merged WHERE mixed = ? ORDER BY place, key"
        yield from (MergedObject(*row) for row in self._select(query, (mixed,)))

    def mixed_sections(self, key: str) -> list[MixedSection]:
        """The sections of a mixed object, by offsets."""
        query = "SELECT partition, rows, first, last FROM pieces WHERE key = ?"
        return [MixedSection(*row) for row in self._select(query, (key,))]

    def left_out(self, place: str) -> int:
        """How many rows of the objects in a folder were left out when they were merged."""
        with self._lock:
            return self._replacements.left_out(place)

    def _select(self, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, a few at a time, so that threads can take turns."""
        with self._lock:
            cursor = self._rows.execute(query, values)
            found = cursor.fetchmany(_ROWS)
        while found:
            yield from found
            with self._lock:
                found = cursor.fetchmany(_ROWS)

    # ------------------------------------------------------------------------------- collecting

    def _list_objects(self) -> None:
        letters = re.compile(
            rf"_landfall/{re.escape(self._group)}/dead-letters(@[0-9a-f]{{16}})?/"
            rf"[A-Za-z0-9._-]+/{basenames.PATTERN}"
        )
        for key, size in self._bucket.visible():
            if (letters if key.startswith("_landfall/") else _DATA).fullmatch(key):
                row = (key, size, key.rpartition("/")[2], basenames.named(key).generation)
                self._rows.execute("INSERT OR IGNORE INTO visible VALUES (?, ?, ?, ?)", row)
            elif key.startswith(self._copies):
                self._add_copy(key, size)
            elif key.rpartition("/")[2].startswith(("_", ".")):
                # Such as _SUCCESS, of Landfall's own publisher, too: readers of folders skip it.
                self.markers += not _SYSTEM.match(key)
            elif not _SYSTEM.match(key):
                self.unrelated += 1

    @property
    def _copies(self) -> str:
        return f"_landfall/{self._group}/0-retired/"

    def _copy_key(self, key: str, slot: int) -> str:
        return f"{self._copies}{slot:020d}/{key}"

    def _add_copy(self, key: str, size: int, *, is_late: bool = False) -> None:
        slot, _, original = key.removeprefix(self._copies).partition("/")
        if slot.isdecimal():
            row = (original, int(slot), size, is_late)
            self._rows.execute("INSERT OR IGNORE INTO copies VALUES (?, ?, ?, ?)", row)

    def _read_ledger(self) -> None:
        previous_hash = ""
        try:
            for name, body in slots.slots(self._bucket, self._group):
                self._add_record(name, body, previous_hash)
                self.slots += 1
                previous_hash = hashlib.sha256(body).hexdigest()
        except (ValueError, KeyError, TypeError) as error:
            self.faults.append(Fault(FaultKind.LEDGER, f"slot {self.slots}", str(error)))
        self.faults += self._replacements.settle(self.applied_through)
        self._corrections.expire(self.expired_through())
        self._stored = self._replacements.stored | self._stored
        self._check_stored()
        self.faults += self.feeds.faults()

    def _leave_out_existing(self) -> None:
        deleted = self._rows.execute(
            "DELETE FROM visible WHERE generation < ? AND key NOT GLOB '_landfall/*'"
            " AND key NOT IN (SELECT key FROM named)",
            (self._first_generation,),
        )
        self.unrelated += deleted.rowcount

    def _check_stored(self) -> None:
        """Compare the stored schemas and specs with the SHA-256s by which the ledger names them."""
        for (kind, name), slot in sorted(self._stored.items()):
            key = f"_landfall/{self._group}/{_FOLDERS[kind]}/{name}.json"
            try:
                with self._bucket.open(key) as stream:
                    found = hashlib.sha256(stream.read()).hexdigest()
            except FileNotFoundError:
                found = "nothing"
            if found != name:
                message = f"slot {slot} names it, found {found[:12]}"
                self.faults.append(Fault(kind, key, message))

    def _add_record(self, name: str, body: bytes, previous_hash: str) -> None:
        record = untrusted_json.decode(body)
        header = record["header"]
        if header["seq"] != self.slots:
            raise ValueError(f"found {name}, which claims to be slot {header['seq']}")
        if header["prev"] != previous_hash:
            raise ValueError(
                f"follows a slot of hash {header['prev'][:12]}, "
                f"but the slot before has {previous_hash[:12]}"
            )
        self.applied_through = max(self.applied_through, header["applied_through"])
        self._applied.append(self.applied_through)
        self._corrections.add(record)
        self._replacements.add(record)
        self.faults += self._horizons.add(record)
        self.feeds.add(record)
        self._add_stored(record)
        self._add_content(record)

    def _add_stored(self, record: Any) -> None:
        slot = record["header"]["seq"]
        for part in (record, *record.get("slices", ())):
            for name in part.get("schemas", ()):
                self._stored.setdefault((FaultKind.SCHEMA, name), slot)
        if record["type"] == "OPEN":
            self._opened.append((slot, record["generation"]))
            self._first_generation = min(self._first_generation, record["generation"])
        if record["type"] == "OPEN" and record.get("spec"):
            self._stored.setdefault((FaultKind.SPEC, record["spec"]), slot)
            self._specs[record["generation"]] = record["spec"]

    def _add_content(self, record: Any) -> None:
        slot = record["header"]["seq"]
        match record["type"]:
            case "ADD":
                for entry in record["entries"]:
                    self._add_lifetime(slot, entry)
            case "COMMIT":
                for landed in record["slices"]:
                    self._add_landed(slot, landed)
            case "HOLE":
                self._add_range(slot, record["piece"], (0, 0, None, None))
            case "BLOCK":
                for entry in record["entries"]:
                    self._add_block(entry)
            case _:
                pass

    def _add_lifetime(self, slot: int, entry: Any) -> None:
        tp = entry["topic_partition"]
        query = "SELECT count(*) FROM lifetimes WHERE (topic, partition) = (?, ?)"
        lifetime = self._rows.execute(query, (tp["topic"], tp["partition"])).fetchone()[0]
        row = (tp["topic"], tp["partition"], lifetime, entry["topic_id"], entry["start"])
        query = "INSERT INTO lifetimes VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._rows.execute(query, (*row, self.generation_at(slot) or 0, slot))

    def _add_landed(self, slot: int, landed: Any) -> None:
        keys = sorted(o["upload"]["key"] for o in landed["objects"])
        for o in landed["objects"]:
            self._corrections.name(o, slot)
        counted = sum(o["rows"] for o in landed["objects"])
        objects = msgspec.json.encode(keys).decode()
        parts = landed.get("parts")
        counts = None if parts is None else msgspec.json.encode(parts).decode()
        self._add_range(slot, landed["piece"], (landed["filtered"], counted, objects, counts))

    def _add_range(self, slot: int, slice_: Any, columns: Sequence[object]) -> None:
        row = (*self._present(slice_), slot, *columns)
        self._rows.execute("INSERT INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _add_block(self, blocked: Any) -> None:
        # The ledger keeps a DataLoss only of a truncated log: what expired is a HOLE.
        if blocked["reason"] == "DataLoss":
            row = self._present(blocked)
            self._rows.execute("INSERT INTO truncated VALUES (?, ?, ?, ?, ?)", row)

    def _present(self, slice_: Any) -> tuple[str, int, int, int, int]:
        """Topic, Kafka partition, its present lifetime, and the offsets of a slice."""
        tp, offsets = slice_["topic_partition"], slice_["offsets"]
        identity = (tp["topic"], tp["partition"])
        query = "SELECT max(lifetime) FROM lifetimes WHERE (topic, partition) = (?, ?)"
        lifetime = self._rows.execute(query, identity).fetchone()[0]
        if lifetime is None:
            raise ValueError(f"lands {identity[0]}/{identity[1]}, which no ADD has added")
        return (*identity, lifetime, offsets["start"], offsets["end"])


def _parts(text: str) -> dict[int, tuple[int, int, int]]:
    """The counters of parts by number."""
    parts = untrusted_json.decode(text, type=list[tuple[int, int, int, int]])
    return {number: (landed, filtered, bad) for number, landed, filtered, bad in parts}
