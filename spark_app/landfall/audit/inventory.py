"""What is visible, and what the ledger names, noted in a temporary database: on disk, as either may be larger than memory.

The listing comes first and the ledger after it: whatever is visible was committed before it became
so, and is therefore named in what is read later. The ledger is plain JSON here; of its rules only
the chain is checked (numbers and hashes), and behind a slot that breaks it nothing is believed.
``landfall fsck`` judges the rest.
"""

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from landfall.audit import Fault, Kind
from landfall.audit.bucket import Bucket

_DATA = re.compile(r"[A-Za-z0-9._-]+/.+/[0-9]+_[0-9]+_[0-9]{20}(\.[^/]*)?")
_SCHEMA = """
CREATE TABLE visible (key TEXT PRIMARY KEY, size INTEGER, basename TEXT) WITHOUT ROWID;
CREATE INDEX by_basename ON visible (basename);
CREATE TABLE named (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE lives (topic TEXT, partition INTEGER, life INTEGER, topic_id TEXT, start INTEGER,
                    PRIMARY KEY (topic, partition, life)) WITHOUT ROWID;
CREATE TABLE ranges (topic TEXT, partition INTEGER, life INTEGER, start INTEGER, until INTEGER, slot INTEGER,
                     filtered INTEGER, counted INTEGER, objects TEXT);
"""


@dataclass(frozen=True, slots=True)
class PartitionLifetime:
    """A topic partition from its entering to its leaving; a recreated topic has another id, and offsets from 0 again."""

    topic: str
    partition: int
    life: int
    topic_id: str
    start: int
    is_last: bool


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets ``start <= o < end`` that COMMIT ``slot`` landed, or that a HOLE skipped (``objects`` is then None).

    Attributes:
        filtered: records left out on purpose.
        counted: records in objects, dead letters included.
        objects: keys of data objects and dead letters, in order of names.
    """

    slot: int
    start: int
    end: int
    filtered: int
    counted: int
    objects: tuple[str, ...] | None


class Inventory:
    """One look at a group's output root. Used from one thread."""

    def __init__(self, bucket: Bucket, group: str) -> None:
        """Note what is visible, then what the ledger names."""
        self._bucket, self._group = bucket, group
        self._rows = sqlite3.connect("")  # a nameless database is a temporary file
        self._rows.executescript(_SCHEMA)
        self.faults: list[Fault] = []
        self.applied_through = -1
        self.slots = self.visible = self.strangers = 0
        self._list()
        self._read()

    def close(self) -> None:
        """Forget everything."""
        self._rows.close()

    def partitions(self) -> Iterator[PartitionLifetime]:
        """All topic partitions that ever entered, by topic and partition."""
        found = self._rows.execute(
            "SELECT topic, partition, life, topic_id, start FROM lives ORDER BY 1, 2, 3"
        ).fetchall()
        last = {(topic, partition): life for topic, partition, life, _, _ in found}
        return (
            PartitionLifetime(
                topic, partition, life, topic_id, start, last[topic, partition] == life
            )
            for topic, partition, life, topic_id, start in found
        )

    def ranges(self, life: PartitionLifetime) -> Iterator[Range]:
        """What the ledger says was landed or skipped of it, by offset; not what still waits for its objects."""
        asked = "SELECT slot, start, until, filtered, counted, objects FROM ranges WHERE (topic, partition, life) = (?, ?, ?)"
        for slot, start, end, filtered, counted, objects in self._rows.execute(
            f"{asked} ORDER BY start, slot", (life.topic, life.partition, life.life)
        ):
            keys = None if objects is None else tuple(msgspec.json.decode(objects, type=list[str]))
            yield Range(slot, start, end, filtered, counted, keys)

    def find_moved(self, key: str) -> str | None:
        """A visible object that nobody named, with the topic and the file name of a named one."""
        topic, basename = key.split("/", maxsplit=1)[0], key.rpartition("/")[2]
        asked = "SELECT key FROM visible WHERE basename = ? AND key NOT IN (SELECT key FROM named)"
        return next(
            (
                found
                for (found,) in self._rows.execute(asked, (basename,))
                if found.split("/")[0] == topic
            ),
            None,
        )

    def is_visible(self, key: str) -> bool:
        """Whether it was, when the look began."""
        return (
            self._rows.execute("SELECT 1 FROM visible WHERE key = ?", (key,)).fetchone() is not None
        )

    def unnamed(self) -> Iterator[tuple[str, int]]:
        """Visible objects that look landed and that nothing names, with sizes."""
        yield from self._rows.execute(
            "SELECT key, size FROM visible WHERE key NOT IN (SELECT key FROM named)"
        )

    # ------------------------------------------------------------------------------------ noting it

    def _list(self) -> None:
        letters = re.compile(
            f"_landfall/{re.escape(self._group)}/dead-letters/{_DATA.pattern.replace('/.+/', '/')}"
        )
        for key, size in self._bucket.visible():
            if (letters if key.startswith("_landfall/") else _DATA).fullmatch(key):
                self.visible += 1
                row = (key, size, key.rpartition("/")[2])
                self._rows.execute("INSERT OR IGNORE INTO visible VALUES (?, ?, ?)", row)
            elif not key.startswith("_landfall/"):
                self.strangers += 1

    def _read(self) -> None:
        before, prefix = "", f"_landfall/{self._group}/0/"
        for key, _ in self._bucket.visible(prefix):
            with self._bucket.open(key) as stream:
                body = stream.read()
            try:
                self._take(key.removeprefix(prefix), body, before)
            except (ValueError, KeyError, TypeError) as error:
                self.faults.append(Fault(Kind.LEDGER, f"slot {self.slots}", str(error)))
                return
            self.slots += 1
            before = hashlib.sha256(body).hexdigest()

    def _take(self, name: str, body: bytes, before: str) -> None:
        record = msgspec.json.decode(body)
        header = record["header"]
        if name != f"{self.slots:020d}.json" or header["seq"] != self.slots:
            raise ValueError(f"found {name}, which says it is slot {header['seq']}")
        if header["prev"] != before:
            raise ValueError(f"follows {header['prev'][:12]}, but the slot before is {before[:12]}")
        self.applied_through = max(self.applied_through, header["applied_through"])
        match record["type"]:
            case "ADD":
                for entry in record["entries"]:
                    self._enter(entry)
            case "COMMIT":
                for landed in record["slices"]:
                    self._land(header["seq"], landed)
            case "HOLE":
                self._range(header["seq"], record["piece"], (0, 0, None))
            case _:
                pass

    def _enter(self, entry: Any) -> None:
        tp = entry["topic_partition"]
        asked = "SELECT count(*) FROM lives WHERE (topic, partition) = (?, ?)"
        life = self._rows.execute(asked, (tp["topic"], tp["partition"])).fetchone()[0]
        row = (tp["topic"], tp["partition"], life, entry["topic_id"], entry["start"])
        self._rows.execute("INSERT INTO lives VALUES (?, ?, ?, ?, ?)", row)

    def _land(self, slot: int, landed: Any) -> None:
        keys = sorted(o["upload"]["key"] for o in landed["objects"])
        self._rows.executemany("INSERT OR IGNORE INTO named VALUES (?)", [(key,) for key in keys])
        counted = sum(o["rows"] for o in landed["objects"])
        self._range(
            slot, landed["piece"], (landed["filtered"], counted, msgspec.json.encode(keys).decode())
        )

    def _range(self, slot: int, piece: Any, rest: Sequence[object]) -> None:
        tp, offsets = piece["topic_partition"], piece["offsets"]
        place = (tp["topic"], tp["partition"])
        asked = "SELECT max(life) FROM lives WHERE (topic, partition) = (?, ?)"
        life = self._rows.execute(asked, place).fetchone()[0]
        if life is None:
            raise ValueError(f"lands {place[0]}/{place[1]}, which never entered")
        row = (*place, life, offsets["start"], offsets["end"], slot, *rest)
        self._rows.execute("INSERT INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
