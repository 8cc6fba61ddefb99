"""``python -m tests.bench.keyed``: what a pass over the index of a keyed table costs.

Builds an index of so many keys in a folder, by batches of a million new ones, and then plays passes
of a publisher: changes of some of the keys, chosen at random, which is the worst that an index can
be asked. Printed are CPU seconds of this process, bytes that were read and written, and the most
memory that it had. Reading the keys of files is measured by itself.
"""

import argparse
import io
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.publish.keyed.fold import Fold
from landfall.publish.keyed.index import FOLDER, KeyIndex
from landfall.publish.keyed.rows import ROW, KeyedRows, KeySettings, keyed_rows
from landfall.store import Created
from landfall.store.file import FileStore

BATCH = 1_000_000
"""How many keys or changes come in at once."""
PASSES = (1_000, 100_000, 1_000_000)
"""How many keys a pass changes."""


class CountingStore(FileStore):
    """Counts the bytes of files that are read and written.

    Attributes:
        read_bytes: in all.
        written_bytes: in all.
        requests: how many.
    """

    read_bytes = written_bytes = requests = 0

    def read(self, key: str) -> bytes | None:
        """See ``Slots``."""
        body = super().read(key)
        self.read_bytes += len(body or b"")
        self.requests += 1
        return body

    def create(self, key: str, body: bytes) -> Created:
        """See ``Slots``."""
        self.written_bytes += len(body)
        self.requests += 1
        return super().create(key, body)


@dataclass
class Measured:
    """One line of the table.

    Attributes:
        what: was done.
        cpu: seconds of CPU.
        seconds: of the clock.
        store: what it read and wrote.
    """

    what: str
    cpu: float
    seconds: float
    store: tuple[int, int, int]

    def __str__(self) -> str:
        read, written, requests = self.store
        moved = f"{read / 1e6:9.1f} MB read {written / 1e6:9.1f} MB written {requests:6} requests"
        return f"{self.what:<32} {self.cpu:8.2f} CPU-s {self.seconds:8.2f} s {moved}"


def rows_of(keys: Any, first: int) -> KeyedRows:
    """Changes of keys, at offsets from ``first`` on; the hash of a number is mixed bits of it."""
    rows = np.zeros(len(keys), ROW)
    mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    rows["high"] = mixed ^ (mixed >> np.uint64(32))
    rows["low"] = rows["high"] * np.uint64(0x94D049BB133111EB)
    rows["row"] = rows["order"] = first + np.arange(len(keys))
    return KeyedRows(rows["row"].copy(), rows, np.ones(len(rows), bool))


def measured(what: str, store: CountingStore, do: Any) -> Any:
    """Do something, print what it cost, and return what it returns."""
    before = store.read_bytes, store.written_bytes, store.requests
    cpu, clock = time.process_time(), time.monotonic()
    found = do()
    after = store.read_bytes, store.written_bytes, store.requests
    spent = tuple(b - a for a, b in zip(before, after, strict=True))
    took = time.process_time() - cpu, time.monotonic() - clock
    print(Measured(what, *took, spent), flush=True)  # type: ignore[arg-type]  # three numbers
    return found


def built(store: CountingStore, keys: int) -> KeyIndex:
    """Fold so many keys, each once."""
    fold = Fold(KeyIndex(store))
    for first in range(0, keys, BATCH):
        fold.add(rows_of(np.arange(first, min(first + BATCH, keys)), first))
    return fold.index.written()


def changed(index: KeyIndex, changes: Iterator[KeyedRows]) -> KeyIndex:
    """Play a pass, with the index as a version names it."""
    fold = Fold(KeyIndex(index.slots).named(index.text))
    for part in changes:
        fold.add(part)
    return fold.index.written()


def hashed(keys: int) -> None:
    """Read a file of a million rows with text as keys."""
    ids = [f"customer-{number:012}" for number in range(keys)]
    columns = {
        "id": ids,
        "_partition": pa.array(np.zeros(keys, np.int32)),
        "_offset": pa.array(np.arange(keys)),
    }
    body = io.BytesIO()
    pq.write_table(pa.table(columns), body)
    cpu = time.process_time()
    assert sum(len(part.ids) for part in keyed_rows(body, KeySettings(("id",)))) == keys
    print(f"{'keys of a million rows':<32} {time.process_time() - cpu:8.2f} CPU-s", flush=True)


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.keyed", description=__doc__)
    parser.add_argument("--keys", type=float, default=1e7, help="how many keys the index has")
    keys = int(parser.parse_args().keys)
    chosen = np.random.default_rng(1)
    hashed(1_000_000)
    with TemporaryDirectory() as folder:
        store = CountingStore(Path(folder))
        index = measured(f"{keys:,} keys", store, lambda: built(store, keys))
        named = {f"{FOLDER}/{name}" for name in index.names}
        size = sum(stat.size for stat in store.list_after(f"{FOLDER}/") if stat.key in named)
        print(f"the index: {size / 1e6:,.0f} MB in {len(named)} files, {len(index.runs)} runs")
        for changes in PASSES:
            some = chosen.integers(0, keys, changes)
            measured(
                f"a pass of {changes:,} changes",
                store,
                lambda some=some: changed(index, iter([rows_of(some, 10**12)])),
            )
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory: {most:,.0f} MiB at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
