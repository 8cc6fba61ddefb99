"""Readers that look all the time while objects take the place of others, and what they must see.

A record of these runs is ``{"p": PARTITION, "n": NUMBER, …}``, and the numbers of a Kafka partition
count up from 0. So whoever reads by the ledger must see, of each partition, the first so many
numbers, each once: one that is missing in between is in neither the old nor the new object, one
that is there twice is in both. Who lists may see a number in both for a moment, but must see each
that was visible before.
"""

import gzip
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

import landfall
from landfall.errors import LandfallError
from landfall.reading import Scan
from tests.support.stores.s3 import Bucket

COLUMNS = pa.schema([("p", pa.int64()), ("n", pa.int64())])
REREAD = 10.0
"""Seconds after which a scan is read again; by then, objects have retired that it has read."""

Prefixes = Mapping[int, int]
"""By Kafka partition, how many records are visible."""


@dataclass
class Readings:
    """What the readers have done and found.

    Attributes:
        scans: how often all rows were read by the ledger.
        rereads: how often those of an earlier slot were read once more.
        from_copies: objects that these read from copies.
        listings: how often all objects were listed.
        both: listings that had rows in old and new objects.
        torn: listings without some rows that the very next one had: this server does not list a
            folder in one moment.
        wrong: what must not be.
    """

    scans: int = 0
    rereads: int = 0
    from_copies: int = 0
    listings: int = 0
    both: int = 0
    torn: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class Readers:
    """Two threads that read until they are stopped.

    Attributes:
        file: the group's, with the store's own address.
        bucket: where it lands.
        topic: what it lands.
    """

    file: Path
    bucket: Bucket
    topic: str
    found: Readings = field(default_factory=Readings)
    visible: Prefixes = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._contents: dict[str, Counter[tuple[int, int]]] = {}
        self._threads = [
            threading.Thread(target=self._repeat, args=(look,), daemon=True)
            for look in (self.scan, self.list)
        ]

    def start(self) -> None:
        """Begin to read."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Return once both have ended their last look."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, look: "Readers.Look") -> None:  # type: ignore[name-defined]
        while not self._stopped.wait(0.2):
            try:
                look()
            except LandfallError as error:
                self.found.wrong.append(f"a reader fails: {type(error).__name__}: {error}")
            except Exception as error:  # noqa: BLE001  # a thread that dies would see nothing any more
                self.found.wrong.append(f"a reader dies: {type(error).__name__}: {error}")
                return

    # -------------------------------------------------------------------------------- by the ledger

    def scan(self) -> None:
        """Read all rows by the ledger, and those of an earlier scan again."""
        group = landfall.open(self.file)
        if self.topic not in group.topics():
            return
        scan = group.scan(self.topic)
        seen = rows(scan)
        prefixes = {p: n + 1 for p, n in _last(seen).items()}
        self._check_prefixes(f"slot {scan.slot}", seen, prefixes)
        for p, count in self.visible.items():
            if prefixes.get(p, 0) < count:
                self.found.wrong.append(f"slot {scan.slot}: rows of partition {p} are gone")
        self.visible = prefixes
        self.found.scans += 1
        self._read_again(scan, seen)

    def _check_prefixes(self, what: str, seen: Counter[tuple[int, int]], ends: Prefixes) -> None:
        wanted = Counter((p, n) for p, end in ends.items() for n in range(end))
        if seen != wanted:
            twice, none = sorted(seen - wanted)[:3], sorted(wanted - seen)[:3]
            self.found.wrong.append(f"{what}: twice: {twice}, not at all: {none}")

    def _read_again(self, scan: Scan, seen: Counter[tuple[int, int]]) -> None:
        """Read an earlier scan again, whose objects may have retired by now."""
        before = getattr(self, "_before", None)
        if before is None:
            self._before = (scan, seen, time.monotonic())
            return
        old, rows_then, at = before
        if time.monotonic() - at < REREAD:
            return
        group = landfall.open(self.file)
        again = group.scan(self.topic, slot=old.slot)
        if rows(again) != rows_then:
            self.found.wrong.append(f"slot {old.slot}: other rows than {REREAD:g} s before")
        self.found.rereads += 1
        self.found.from_copies += sum("/0-retired/" in url for url in again.urls())
        self._before = (scan, seen, time.monotonic())

    # ---------------------------------------------------------------------------------- by listings

    def list(self) -> None:
        """List all objects; rows that were visible before must be in one of them."""
        wanted = self.visible
        if not wanted:
            return
        missing = self._missing(wanted)
        self.found.listings += 1
        if missing:
            again = self._missing(wanted)
            if again & missing:
                self.found.wrong.append(
                    f"a listing has no object with {sorted(again & missing)[:3]}"
                )
            else:
                self.found.torn += 1

    def _missing(self, wanted: Prefixes) -> set[tuple[int, int]]:
        listed = Counter[tuple[int, int]]()
        for key in self.bucket.keys(f"{self.topic}/"):
            listed += self._rows(key)
        self.found.both += any(count > 1 for count in listed.values())
        return {(p, n) for p, end in wanted.items() for n in range(end) if (p, n) not in listed}

    def _rows(self, key: str) -> Counter[tuple[int, int]]:
        """What an object has; a name never has other rows, and where one has retired, its copy."""
        if key not in self._contents:
            body = self._body(key)
            found = map(json.loads, gzip.decompress(body).splitlines())
            self._contents[key] = Counter((row["p"], row["n"]) for row in found)
        return self._contents[key]

    def _body(self, key: str) -> bytes:
        missing = self.bucket.server.client.exceptions.NoSuchKey
        try:
            return self.bucket.read(key)
        except missing:
            kept = (each for each in self.bucket.keys("_landfall/") if each.endswith(f"/{key}"))
            return self.bucket.read(next(kept))


def rows(scan: Scan) -> Counter[tuple[int, int]]:
    """How often each record is in a scan."""
    found = Counter[tuple[int, int]]()
    for batch in scan.with_schema(COLUMNS).to_batches():
        found.update(zip(batch["p"].to_pylist(), batch["n"].to_pylist(), strict=True))
    return found


def _last(seen: Counter[tuple[int, int]]) -> dict[int, int]:
    found = dict[int, int]()
    for p, n in seen:
        found[p] = max(n, found.get(p, 0))
    return found
