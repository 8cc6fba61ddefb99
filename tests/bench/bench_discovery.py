"""What finding new files among ten million known ones costs: memory, time, and objects.

    .venv/bin/python -m tests.bench.bench_discovery [--files 10000000] [--new 10000] [--spread]
        [--dedupe]

Names are as an hourly export writes them; with ``--spread`` they begin with a hash, so that new
names are everywhere. Stored objects are in a folder. A first index is made as a driver makes it:
lists of 10,000 parts each, ``MAX_MERGED`` of them per merge. With ``--spread`` that would rewrite
each piece each time, so the first index is then made of names in order, too; what is measured is
the look that comes after. With ``--dedupe`` files that have the contents of others are left out,
and a tenth of the new files are such. Memory is the peak resident set, less that after the imports;
a driver does no more at a time.
"""

import argparse
import hashlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from landfall.discovery import index, part_lists
from landfall.discovery.contents import KnownContents
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.looking import LookPosition, look
from landfall.discovery.rules import DiscoveryRules
from landfall.formats.readers import reader_of
from landfall.ledger import KnownFiles, PartList
from landfall.ledger.feeds import MAX_LISTED
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile
from landfall.store import Created
from landfall.store.file import FileStore
from tests.bench.memory import peak_mb

KEYS = FeedKeys("bench", "0", "files")
SIZE = 50_000_000
NOW = datetime(2026, 11, 24, tzinfo=UTC)
MODIFIED = NOW - timedelta(days=1)
Name = Callable[[int], str]


class Counted(FileStore):
    """Counts objects that are read and written, and their bytes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.counts: Counter[str] = Counter()

    def create(self, key: str, body: bytes) -> Created:
        self.counts += Counter(written=1, written_bytes=len(body))
        return super().create(key, body)

    def read(self, key: str) -> bytes | None:
        body = super().read(key)
        self.counts += Counter(read=1, read_bytes=len(body or b""))
        return body


def dated(number: int) -> str:
    """A name in the order of numbers: 500 files an hour."""
    hours, rest = divmod(number, 500)
    days, hour = divmod(hours, 24)
    day = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=days)
    return f"exports/orders/dt={day:%Y-%m-%d}/hr={hour:02d}/part-{rest:05d}-{number:012x}.json.gz"


def spread(number: int) -> str:
    """A name in the order of numbers, between any two of which new names are."""
    return f"exports/{number * 429 % 2**32:08x}/{number:012d}/orders-part-00000.json.gz"


def etag(name: str) -> str:
    return f'"{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"'


def listed(name: str, contents: str = "") -> ListedFile:
    return ListedFile(name, etag(contents or name), SIZE, MODIFIED)


def make_lists(store: FileStore, names: Iterator[str], first: int, count: int) -> list[PartList]:
    """Store lists of the next names; the last one ends with the last of ``count`` names."""
    made = []
    for start in range(first, first + count, MAX_LISTED):
        end = min(start + MAX_LISTED, first + count)
        parts = [
            ListedPart(name, etag(name), SIZE, 0, 0, SIZE) for name in islice(names, end - start)
        ]
        made.append(part_lists.write(store, KEYS, start, parts))
    return made


def build(store: Counted, name: Name, files: int) -> KnownFiles:
    """An index of so many files, as a driver comes to it."""
    known: KnownFiles | None = None
    names = map(name, range(files))
    for first in range(0, files, MAX_LISTED * index.MAX_MERGED):
        count = min(MAX_LISTED * index.MAX_MERGED, files - first)
        before = known
        lists = make_lists(store, names, first, count)
        known = index.merge(store, KEYS, known, lists)
        store.delete_slots([*index.unneeded(store, KEYS, known, before)])
    assert known
    return known


def bucket(name: Name, files: int, new: int) -> Iterator[ListedFile]:
    """All files in the order of names, those that are new among them or at the end.

    Each tenth of these has the contents of a file somewhere else.
    """
    every = files // new if name is spread else files + 1
    for number in range(files):
        yield listed(name(number))
        if number % every == every - 1:
            yield listed(f"{name(number)}.new", copied(name, number // every, files))
    if name is not spread:
        for number in range(new):
            yield listed(name(files + number), copied(name, number, files))


def copied(name: Name, number: int, files: int) -> str:
    """The name of the file that a new one is a copy of; empty if it is none."""
    return "" if number % 10 else name(number * 7919 % files)


class Step:
    """Prints what happened since the one before."""

    def __init__(self, store: Counted, idle_mb: float) -> None:
        self.store, self.idle_mb, self.begun = store, idle_mb, time.monotonic()
        self.cpu = time.process_time()

    def ends(self, text: str) -> None:
        counts, self.store.counts = self.store.counts, Counter()
        seconds, cpu = time.monotonic() - self.begun, time.process_time() - self.cpu
        print(
            f"{text:32} {seconds:7.1f} s {cpu:7.1f} s CPU  peak +{peak_mb() - self.idle_mb:4.0f} MB"
            f"  read {counts['read']:5} ({counts['read_bytes'] / 1e6:7.1f} MB)"
            f"  written {counts['written']:5} ({counts['written_bytes'] / 1e6:7.1f} MB)",
            flush=True,
        )
        self.begun, self.cpu = time.monotonic(), time.process_time()


def main(files: int, new: int, name: Name, *, dedupe: bool) -> None:
    idle_mb = peak_mb()
    rules = DiscoveryRules(reader_of("JsonLines", {}).parts, settle=timedelta(minutes=1))
    with tempfile.TemporaryDirectory() as folder:
        store = Counted(Path(folder))
        step = Step(store, idle_mb)
        known = build(store, name, files)
        step.ends(f"index of {known.files:,} files")

        opened = index.open_index(store, KEYS, known, ())
        contents = KnownContents(store)
        if dedupe:
            contents.follow(opened)
            rules = replace(rules, same_contents=contents.other_name)
            step.ends("contents of all files")

        found = look(bucket(name, files, new), opened.find, LookPosition(), rules, NOW)
        left_out = -(-new // 10) if dedupe else 0
        assert found.skipped.duplicates == left_out
        assert sum(len(each.parts) for each in found.files) == new - left_out
        step.ends(f"relist, {len(found.files):,} new")

        named = part_lists.write(store, KEYS, known.through, found.parts())
        opened.learn(named.first, found.parts())
        step.ends("their list")

        after = found.position.start_after(rules, NOW)
        again = look(
            (file for file in [listed("zz")] if file.name > after),
            opened.find,
            found.position,
            rules,
            NOW,
        )
        assert [each.file.name for each in again.files] == ["zz"]
        step.ends("look, 1 new")

        merged = index.merge(store, KEYS, known, [named])
        assert merged.files == files + new - left_out
        step.ends("merge of the list")

        if dedupe:
            contents.follow(index.open_index(store, KEYS, merged, ()))
            step.ends("contents of the new pieces")
        unneeded = [*index.unneeded(store, KEYS, merged)]
        step.ends(f"{len(unneeded)} objects to delete")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000_000)
    parser.add_argument("--new", type=int, default=MAX_LISTED)
    parser.add_argument("--spread", action="store_true", help="new names are everywhere")
    parser.add_argument("--dedupe", action="store_true", help="leave out copies of other files")
    options = parser.parse_args(sys.argv[1:])
    main(options.files, options.new, spread if options.spread else dated, dedupe=options.dedupe)
