"""``landfall files ls``: the files of a group's feeds, and the state of each."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import islice

import msgspec

from landfall.api import spec
from landfall.api.contract import LANE, ExitCode
from landfall.cli.feeds.file_targets import FileTarget, file_target
from landfall.cli.group_store import GroupStore
from landfall.cli.text import console
from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.file_rows import FeedRows, FileRows
from landfall.discovery.inventory import FeedInventory, FileStatus, LandingState
from landfall.ledger import State
from landfall.ledger.offsets import TopicPartition
from landfall.store import SourceFiles
from landfall.store.urls import open_files

MAX_SHOWN = 1000
"""How many files are shown by default."""
UNKNOWN = "unknown"
"""Rows that were not counted: of files processed elsewhere, or landed by an earlier release."""
CHANGED = {
    "Stall": FileStatus("", 0, LandingState.ERROR, error="was written again after it was landed"),
    "Park": FileStatus("", 0, LandingState.ERROR, error="was written again, and is parked"),
    "Ignore": FileStatus("", 0, LandingState.SUCCESS, error="was written again, which is ignored"),
    "LandAgain": FileStatus("", 0, LandingState.PENDING, error="was written again"),
}
"""The state shown for landed files whose contents changed since, by ``onChange``."""


def file_list(arguments: argparse.Namespace) -> ExitCode:
    """Print the requested files, and their number."""
    target = file_target(arguments.target, needs_feed=False)
    opened = GroupStore.of(target.path)
    state = opened.lane.read()
    if state.seq < 0:
        raise console.no_ledger(opened.name, opened.group.spec.ledger_root.url)
    feeds = _feeds(opened, state, target.feed)
    counted = _read_rows(opened, state, [feed.topic for feed in feeds])
    for feed in feeds:
        source = open_files(feed) if arguments.look else None
        files = _files(opened, state, feed, (target, source))
        if arguments.state:
            files = (file for file in files if file.state == arguments.state)
        listed = _with_rows(files, counted.get(feed.topic))
        if arguments.json:
            _print_json(feed.topic, islice(listed, arguments.limit))
        else:
            most = MAX_SHOWN if arguments.limit is None else arguments.limit
            _print(feed.topic, listed, most)
    return ExitCode.OK


@dataclass(frozen=True, slots=True)
class ListedRows:
    """A file and its rows; None if they are unknown, as in files processed elsewhere."""

    file: FileStatus
    rows: FileRows | None


def _read_rows(opened: GroupStore, state: State, topics: Iterable[str]) -> dict[str, FeedRows]:
    """The rows of the files of each landed feed, by the ledger up to this state."""
    counted = {
        topic: FeedRows(
            TopicPartition(topic, 0),
            partial(part_lists.read, opened.store, FeedKeys(opened.name, LANE, topic)),
        )
        for topic in topics
        if not state.feeds[TopicPartition(topic, 0)].leasing
    }
    for record in opened.records() if counted else ():
        if record.header.seq > state.seq:
            break
        for rows in counted.values():
            rows.take(record)
    return counted


def _with_rows(files: Iterable[FileStatus], counted: FeedRows | None) -> Iterator[ListedRows]:
    for file in files:
        if counted is None:
            yield ListedRows(file, None)
        else:
            has_number = file.last >= 0
            rows = counted.of(file.first, file.last) if has_number else FileRows(0, 0, 0)
            yield ListedRows(file, rows)


def _feeds(opened: GroupStore, state: State, named: str) -> list[spec.Feed]:
    """The feeds of the spec that the ledger has; one of them if it is named."""
    feeds = [f for f in opened.group.spec.source.files if TopicPartition(f.topic, 0) in state.feeds]
    topics = sorted(feed.topic for feed in feeds)
    if not topics:
        raise console.NothingToCheck(f"the ledger of the group {opened.name} has no feed")
    if named and named not in topics:
        raise console.NothingToCheck(
            f"the group {opened.name} has no feed {named}; it has {', '.join(topics)}"
        )
    return [feed for feed in feeds if named in {"", feed.topic}]


def _files(
    opened: GroupStore,
    state: State,
    feed: spec.Feed,
    wanted: tuple[FileTarget, SourceFiles | None],
) -> Iterator[FileStatus]:
    """The files, not filtered by state; from a bucket, too, if there is one."""
    target, source = wanted
    tp = TopicPartition(feed.topic, 0)
    keys = FeedKeys(opened.name, LANE, feed.topic)
    inventory = FeedInventory(opened.store, keys, state.feeds[tp], state.checkpoint[tp])
    if target.names:
        find = partial(_find, inventory, feed, source)
        found = {name: find(name) for name in dict.fromkeys(target.names)}
        if left_out := [n for n, file in found.items() if file is None and not feed.counts(n)]:
            raise console.NothingToCheck(
                f"the feed {feed.topic} leaves out {', '.join(left_out)}, by include and exclude"
            )
        if missing := [name for name, file in found.items() if file is None]:
            where = "" if source else "; --look also finds files without a number"
            raise console.NothingToCheck(
                f"the feed {feed.topic} has no file {', '.join(missing)}{where}"
            )
        return iter([file for file in found.values() if file])
    if source is None:
        return inventory.files()
    there = (file for file in source.files() if feed.counts(file.name))
    return inventory.with_listing(there, CHANGED[feed.on_change])


def _find(
    inventory: FeedInventory, feed: spec.Feed, source: SourceFiles | None, name: str
) -> FileStatus | None:
    there = source.find(name) if source and feed.counts(name) else None
    if there is None:
        return inventory.find(name)
    return inventory.of_listed(there, CHANGED[feed.on_change])


def _print_json(feed: str, files: Iterable[ListedRows]) -> None:
    for listed in files:
        rows = asdict(listed.rows) if listed.rows else dict.fromkeys(_ROW_FIELDS)
        line = msgspec.json.encode({"feed": feed, **asdict(listed.file), **rows}).decode()
        sys.stdout.write(f"{line}\n")


_ROW_FIELDS = tuple(field.name for field in fields(FileRows))


def _print(feed: str, files: Iterable[ListedRows], most: int) -> None:
    """Print a line for each of at most so many files, and one about all."""
    counts, sizes = Counter[LandingState](), Counter[LandingState]()
    totals = _Totals()
    for shown, listed in enumerate(files):
        file = listed.file
        counts[file.state] += 1
        sizes[file.state] += file.size
        totals.add(listed.rows)
        if shown == 0 and most:
            _print_line("state", "size", "rows", "dead letters", "parts", "attempts", "file")
        if shown < most:
            _print_line(file.state, *_cells(listed))
    states = (
        f"{state} {console.count(counts[state])} ({console.size(sizes[state])})"
        for state in LandingState
        if counts[state]
    )
    total, size = counts.total(), console.size(sizes.total())
    more = f", {console.count(most)} shown" if most < total else ""
    line = f"{feed}: {console.counted(total, 'file')}, {size}{totals}{more}"
    sys.stdout.write(f"{line}: {', '.join(states)}\n" if total else f"{line}\n")


@dataclass
class _Totals:
    """The rows of all files whose rows are known."""

    known: int = 0
    unknown: int = 0
    landed: int = 0
    dead_letters: int = 0

    def add(self, rows: FileRows | None) -> None:
        if rows is None:
            self.unknown += 1
        else:
            self.known += 1
            self.landed += rows.landed
            self.dead_letters += rows.dead_letters

    def __str__(self) -> str:
        if not self.known:
            return ""
        rows = console.counted(self.landed, "row")
        text = f", {rows}, {console.counted(self.dead_letters, 'dead letter')}"
        unknown = console.counted(self.unknown, "file")
        return f"{text} (without {unknown} of unknown rows)" if self.unknown else text


def _print_line(*cells: str) -> None:
    # Not a table, which would have to know all rows first, and would cut names.
    state, size, rows, dead_letters, parts, attempts, file = cells
    sys.stdout.write(
        f"{state:<10}  {size:>9}  {rows:>12}  {dead_letters:>12}  {parts:>12}  {attempts:>8}  "
        f"{file}\n"
    )


def _cells(listed: ListedRows) -> tuple[str, ...]:
    """Size, rows, dead letters, numbers of parts such as ``7-9``, attempts, name with error."""
    file, rows = listed.file, listed.rows
    first = str(file.first) if file.last >= 0 else ""
    parts = first if file.first == file.last else f"{first}-{file.last}"
    name = f"{_one_line(file.name)}  {_one_line(file.error)}".rstrip()
    landed = console.count(rows.landed) if rows else UNKNOWN
    letters = console.count(rows.dead_letters) if rows else UNKNOWN
    return console.size(file.size), landed, letters, parts, str(file.attempts or ""), name


def _one_line(text: str) -> str:
    """The text; with escapes if it has line breaks, as names of files may have."""
    return text if text.isprintable() else repr(text)
