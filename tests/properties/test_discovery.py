"""Whatever happens to a bucket and to drivers, each version that settles is numbered once."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from landfall.discovery import index, known, looking, part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.looking import LookPosition, LookResult, look
from landfall.discovery.rules import DiscoveryRules
from landfall.formats.parts import FilePart
from landfall.ledger import KnownFiles, PartList
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile
from landfall.store.memory import MemoryStore

KEYS = FeedKeys("g", "0", "files")
SETTLE, RELIST = timedelta(seconds=10), timedelta(seconds=60)
NAMES = st.sampled_from(
    [f"{folder}/{name}" for folder in "abcé😀" for name in ("0", "1", "\n", "ü")]
)


def cut(name: str, size: int) -> tuple[FilePart, ...]:
    """Parts of at most four bytes."""
    return tuple(FilePart(at, min(at + 4, size)) for at in range(0, max(size, 1), 4))


class Discovering(RuleBasedStateMachine):
    """A bucket, a ledger's lists, and one driver at a time."""

    @initialize(
        most=st.integers(1, 6),
        ordered=st.booleans(),
        piece=st.integers(1, 4),
        page=st.sampled_from([1, 2, 1000]),
    )
    def begin(self, most: int, ordered: bool, piece: int, page: int) -> None:
        self.piece_files, known.PIECE_FILES = known.PIECE_FILES, piece
        self.page_files, looking.PAGE_FILES = looking.PAGE_FILES, page
        self.rules = DiscoveryRules(
            cut, settle=SETTLE, relist=RELIST, most_parts=most, ordered_names=ordered
        )
        self.now, self.versions = datetime(2026, 1, 1, tzinfo=UTC), 0
        self.bucket: dict[str, ListedFile] = {}
        self.written: dict[str, tuple[ListedFile, datetime]] = {}
        self.store = MemoryStore()
        self.lists: list[PartList] = []
        self.known: KnownFiles | None = None
        self.known_before: KnownFiles | None = None
        self.listed: list[str] = []
        self.starts()

    def teardown(self) -> None:
        if hasattr(self, "piece_files"):
            known.PIECE_FILES = self.piece_files
            looking.PAGE_FILES = self.page_files

    # ------------------------------------------------------------------------- what others do

    @rule(name=NAMES, size=st.integers(0, 30), ahead=st.sampled_from([0, 0, 0, 10**6]))
    def writes(self, name: str, size: int, ahead: int) -> None:
        self.versions += 1
        modified = self.now + timedelta(seconds=ahead)
        file = ListedFile(name, f"e{self.versions}", size, modified)
        self.bucket[name] = file
        self.written[file.etag] = file, self.now

    @rule(name=NAMES)
    def grows(self, name: str) -> None:
        if name in self.bucket:
            self.writes(name, self.bucket[name].size + 3, 0)

    @rule(name=NAMES)
    def is_written_anew_with_as_many_bytes(self, name: str) -> None:
        if name in self.bucket:
            self.writes(name, self.bucket[name].size, 0)

    @rule(names=st.sets(NAMES, min_size=8), size=st.integers(0, 8))
    def are_written_together(self, names: set[str], size: int) -> None:
        for name in sorted(names):
            self.writes(name, size, 0)

    @rule(name=NAMES)
    def vanishes(self, name: str) -> None:
        self.bucket.pop(name, None)

    @rule(seconds=st.integers(1, 40))
    def waits(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    # ------------------------------------------------------------------------- what drivers do

    @rule()
    def starts(self) -> None:
        self.index = index.open_index(self.store, KEYS, self.known, self.lists)
        self.position = LookPosition()

    @rule(names=st.sets(NAMES))
    def is_given_hints(self, names: set[str]) -> None:
        self.position = self.position.with_hints(sorted(names))

    def late(self, after: str) -> Iterator[ListedFile]:
        for name in sorted(self.position.late, key=str.encode):
            if name.encode() <= after.encode() and name in self.bucket:
                yield self.bucket[name]

    def listing(self, after: str) -> Iterator[ListedFile]:
        for name in sorted(self.bucket, key=str.encode):
            if name.encode() > after.encode():
                self.listed.append(name)
                yield self.bucket[name]

    def finds(self) -> LookResult:
        after = self.position.start_after(self.rules, self.now)
        self.listed = []
        listing = chain(self.late(after), self.listing(after))
        return look(listing, self.index.find, self.position, self.rules, self.now)

    @rule()
    def looks(self) -> None:
        self.looks_once()

    def looks_once(self) -> LookResult:
        found = self.finds()
        if found.files:
            end = self.lists[-1].end if self.lists else 0
            parts = found.parts()
            listed = part_lists.write(self.store, KEYS, end, parts)
            self.check_settled(found)
            self.lists.append(listed)
            self.index.learn(end, parts)
        self.position = found.position
        return found

    @rule()
    def stores_a_list_that_is_not_named(self) -> None:
        found = self.finds()
        if found.files:
            end = self.lists[-1].end if self.lists else 0
            part_lists.write(self.store, KEYS, end, found.parts())

    @rule(most=st.integers(1, 4), is_named=st.booleans())
    def merges(self, most: int, is_named: bool) -> None:
        through = self.known.through if self.known else 0
        lists = [listed for listed in self.lists if listed.end > through][:most]
        if lists:
            merged = index.merge(self.store, KEYS, self.known, lists)
            if is_named:
                self.known_before, self.known = self.known, merged
                self.store.delete_slots(
                    [*index.unneeded(self.store, KEYS, merged, self.known_before)]
                )
                self.the_index_knows_what_the_lists_say()
                self.index = index.open_index(self.store, KEYS, self.known, self.lists)

    # ------------------------------------------------------------------------- what must hold

    @rule()
    def the_index_knows_what_the_lists_say(self) -> None:
        said: dict[str, known.KnownFile] = {}
        for listed in self.lists:
            known.learn(said, listed.first, part_lists.read(self.store, KEYS, listed))
        opened = index.open_index(self.store, KEYS, self.known, self.lists)
        assert {name: opened.find(name) for name in said} == said

    def check_settled(self, found: LookResult) -> None:
        for each in found.files:
            file, written = self.written[each.file.etag]
            assert file == each.file
            assert self.now - written >= SETTLE

    def numbered(self) -> dict[str, list[tuple[int, int]]]:
        """The bytes with numbers, by ETag."""
        found: dict[str, list[tuple[int, int]]] = {}
        for listed in self.lists:
            for part in part_lists.read(self.store, KEYS, listed):
                found.setdefault(part.etag, []).append((part.start, part.end))
        return found

    @invariant()
    def nothing_is_numbered_twice(self) -> None:
        for etag, parts in self.numbered().items():
            assert Counter(parts).most_common(1)[0][1] == 1
            file, _ = self.written[etag]
            assert [*cut(file.name, file.size)][: len(parts)] == [FilePart(*part) for part in parts]

    @rule()
    def everything_that_settles_is_numbered(self) -> None:
        self.now += SETTLE
        self.looks_once()
        self.now += RELIST
        for _ in range(400):
            has_more = self.looks_once().has_more
            is_due = self.position.is_relist_due(self.rules, self.now)
            if not (has_more or is_due or self.position.waiting):
                break
            self.now += SETTLE
        assert not self.position.waiting
        numbered = self.numbered()
        for file in self.bucket.values():
            expected = [(part.start, part.end) for part in cut(file.name, file.size)]
            assert numbered.get(file.etag) == expected

    @rule()
    def what_is_known_is_not_listed_again(self) -> None:
        self.everything_that_settles_is_numbered()
        last = f"😁/z{self.versions:06d}"
        self.writes(last, 3, 0)

        is_due = self.position.is_relist_due(self.rules, self.now)
        found = self.finds()

        assert found.waiting_files == 1
        assert self.listed == (sorted(self.bucket) if is_due else [last])


TestDiscovering: Any = Discovering.TestCase
TestDiscovering.settings = settings(stateful_step_count=40, deadline=None)


@given(
    lists=st.lists(st.lists(NAMES, min_size=1, max_size=12), min_size=1, max_size=8),
    merged=st.sets(st.integers(0, 7)),
    piece=st.integers(1, 5),
)
def test_an_index_says_what_its_lists_say(
    lists: list[list[str]], merged: set[int], piece: int
) -> None:
    store, named, said = MemoryStore(), list[PartList](), dict[str, known.KnownFile]()
    current: KnownFiles | None = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "PIECE_FILES", piece)
        for at, names in enumerate(lists):
            first = named[-1].end if named else 0
            parts = [ListedPart(name, f"e{n}", 4, 0, 0, 4) for n, name in enumerate(names, first)]
            named.append(part_lists.write(store, KEYS, first, parts))
            known.learn(said, first, parts)
            if at in merged:
                current = index.merge(store, KEYS, current, named)

    opened = index.open_index(store, KEYS, current, named)

    assert {name: opened.find(name) for name in said} == said
    assert opened.find("a/") is None
    manifest = index.read_manifest(store, current)
    assert all(each.files <= piece for each in manifest.pieces)
