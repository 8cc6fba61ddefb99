"""Looks at one bucket: what a look stores, which copies it leaves out, and names in hints."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from landfall.discovery.contents import KnownContents
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.looker import FeedLooker, Look
from landfall.discovery.rules import DiscoveryRules, OnChange
from landfall.errors import Reason, Stalled, StoreAway, StoreDenied
from landfall.formats.parts import FilePart
from landfall.ledger import FeedState, ParkedPart
from landfall.ledger.feeds import list_of
from landfall.objects import ListedFile
from landfall.store.memory import MemoryFiles, MemoryStore

KEYS = FeedKeys("shop", "0", "orders")


def cut(name: str, size: int) -> tuple[FilePart, ...]:
    del name
    return tuple(FilePart(at, min(at + 4, size)) for at in range(0, max(size, 1), 4))


class Bucket:
    """A bucket, the ledger's view of it, and a looker whose looks are all adopted."""

    def __init__(
        self,
        *,
        dedupe: bool = False,
        settle: float = 0,
        on_change: OnChange = OnChange.LAND,
    ) -> None:
        self.now = datetime(2026, 11, 25, tzinfo=UTC)
        self.files, self.store = MemoryFiles(lambda: self.now), MemoryStore()
        self.rules = DiscoveryRules(
            cut,
            settle=timedelta(seconds=settle),
            exclude=(r".*\.tmp",),
            on_change=on_change,
        )
        self.dedupe, self.feed = dedupe, FeedState()
        self.begun = 0
        self.starts()

    def starts(self) -> None:
        contents = KnownContents(self.store) if self.dedupe else None
        self.looker = FeedLooker(self.store, KEYS, self.files, self.rules, contents)

    def looks(self, *, after: float = 1, again: tuple[int, ...] = ()) -> Look:
        self.now += timedelta(seconds=after)
        seen = self.looker.look(self.feed, again, self.now, begun=self.begun)
        if seen.listed:
            lists = (*self.feed.lists, seen.listed)
            self.feed = replace(self.feed, end=seen.listed.end, lists=lists)
        self.looker.adopt(seen)
        return seen

    def finds(self, *, after: float = 1) -> list[str]:
        return [each.file.name for each in self.looks(after=after).found.files]

    def parks(self, number: int) -> None:
        parked = ParkedPart(1, 0, "damaged", list_of(self.feed, number))
        self.feed = replace(self.feed, parked={number: parked})

    def merges(self) -> None:
        known = self.looker.merge(self.feed)
        self.feed = replace(self.feed, known=known)
        self.looker.adopt_index(known, None)


def test_a_copy_is_left_out_and_named() -> None:
    bucket = Bucket(dedupe=True)
    bucket.files.write("a", b"rows")
    assert bucket.finds() == ["a"]
    bucket.files.write("b", b"rows")
    bucket.files.write("c", b"other")

    seen = bucket.looks()

    assert [each.file.name for each in seen.found.files] == ["c"]
    assert seen.found.skipped.duplicates == 1
    ((name, why),) = seen.found.skipped.reasons
    assert (name, why.partition(", by")[0]) == ("b", "has the contents of 'a'")


def test_without_dedupe_a_copy_is_a_file_like_others() -> None:
    bucket = Bucket()
    bucket.files.write("a", b"rows")
    bucket.files.write("b", b"rows")

    assert bucket.finds() == ["a", "b"]


def test_a_copy_of_a_file_that_could_not_be_read_is_found_by_the_next_listing_of_all() -> None:
    bucket = Bucket(dedupe=True)
    bucket.files.write("a", b"rows, and more rows")
    bucket.finds()
    bucket.files.write("b", b"rows, and more rows")
    assert bucket.finds() == []
    bucket.files.delete("a")

    bucket.parks(3)

    assert bucket.finds(after=3600) == ["b"]


def test_a_copy_of_a_file_that_somebody_gave_up_is_found() -> None:
    bucket = Bucket(dedupe=True)
    bucket.files.write("a", b"rows, and more rows")
    bucket.finds()
    bucket.files.write("b", b"rows, and more rows")

    bucket.feed = replace(
        bucket.feed, ignored={2: ParkedPart(1, 0, "damaged", list_of(bucket.feed, 2))}
    )
    bucket.starts()

    assert bucket.finds() == ["b"]


def test_a_driver_that_starts_knows_the_contents_that_others_have_listed() -> None:
    bucket = Bucket(dedupe=True)
    bucket.files.write("a", b"rows")
    bucket.files.write("m", b"more")
    bucket.finds()
    bucket.merges()
    bucket.files.write("b", b"more")
    bucket.files.write("c", b"new")

    bucket.starts()

    assert bucket.finds() == ["c"]


def test_a_late_name_is_found_at_once_by_a_hint() -> None:
    bucket = Bucket()
    bucket.files.write("m", b"1")
    bucket.finds()
    bucket.files.write("a", b"2")
    assert bucket.finds() == []

    bucket.looker.add_hints(["a", "gone", "x.tmp", "", "\ud800", "n" * 1025])

    assert bucket.finds() == ["a"]
    assert bucket.files.requests["find"] == 2
    assert bucket.finds() == []
    assert bucket.files.requests["find"] == 2


def test_a_late_file_is_landed_once_it_has_settled() -> None:
    bucket = Bucket(settle=60)
    bucket.files.write("m", b"1")
    assert bucket.finds(after=90) == ["m"]
    bucket.files.write("a", b"2")

    bucket.looker.add_hints(["a"])

    assert [bucket.finds(after=30) for _ in range(4)] == [[], ["a"], [], []]


def test_a_file_that_waits_far_back_is_looked_up_instead_of_listing_all_after_it() -> None:
    bucket = Bucket(settle=60)
    for n in range(5_000):
        bucket.files.write(f"m{n:04}", b"1")
    assert len(bucket.finds(after=90)) == 5_000
    bucket.now += timedelta(hours=1)
    bucket.files.write("a", b"2")
    before = bucket.files.requests.copy()

    found = [bucket.finds(after=after) for after in (1, 30, 30, 30)]

    assert found == [[], [], ["a"], []]
    # All names once, by pages of 1,000; then what is after the last one, and this name.
    assert bucket.files.requests - before == {"files": 6 + 3, "find": 2}


class Refusing(MemoryFiles):
    """A bucket that refuses, or does not answer for, some names."""

    refused: tuple[str, ...] = ()
    away: tuple[str, ...] = ()

    def find(self, name: str) -> ListedFile | None:
        if name in self.refused:
            raise StoreDenied(name)
        if name in self.away:
            raise StoreAway(name)
        return super().find(name)


def test_a_name_that_the_store_refuses_stops_nothing() -> None:
    bucket = Bucket()
    bucket.files = Refusing(lambda: bucket.now)
    bucket.starts()
    bucket.files.write("m", b"1")
    bucket.finds()
    for name in "abcn":
        bucket.files.write(name, b"2")
    bucket.files.refused, bucket.files.away = ("a",), ("b",)

    bucket.looker.add_hints("abc")
    assert bucket.finds() == ["c", "n"]
    bucket.files.refused = bucket.files.away = ()

    assert bucket.finds() == ["b"]
    assert bucket.finds(after=3600) == ["a"]


def test_a_file_that_is_written_again_before_it_is_read_waits_until_it_is() -> None:
    bucket = Bucket(on_change=OnChange.IGNORE)
    bucket.files.write("a", b"1")
    bucket.files.write("b", b"1")
    bucket.finds()
    bucket.files.write("a", b"22")

    waits = bucket.looks(after=3600).found
    assert (waits.files, waits.skipped.changed, waits.waiting_files) == ((), (), 1)

    bucket.begun = 1  # it was landed before it was written again
    assert bucket.looks().found.skipped.changed == ("a",)

    bucket.parks(0)
    assert bucket.finds(after=3600) == ["a"]


def test_a_file_that_is_written_again_before_it_is_tried_again_waits_until_it_is() -> None:
    bucket = Bucket(on_change=OnChange.IGNORE)
    bucket.files.write("a", b"1")
    bucket.finds()
    bucket.begun = 1
    bucket.parks(0)
    bucket.looks(again=(0,))
    bucket.feed = replace(bucket.feed, parked={})
    bucket.files.write("a", b"22")

    waits = bucket.looks(after=3600).found
    assert (waits.files, waits.skipped.changed, waits.waiting_files) == ((), (), 1)

    bucket.begun = 2
    bucket.parks(1)
    assert bucket.finds() == ["a"]


def test_a_reader_that_fails_at_a_file_that_a_user_names_is_an_answer() -> None:
    def fails(name: str, size: int) -> tuple[FilePart, ...]:
        if size > 1:
            raise KeyError("secret")
        return cut(name, size)

    bucket = Bucket()
    bucket.rules = replace(bucket.rules, cut=fails)
    bucket.starts()
    bucket.files.write("a", b"1")
    bucket.finds()
    bucket.files.write("a", b"22")

    named = bucket.looker.named(bucket.feed, ["a"])

    assert named.unreadable == {"a": "the reader failed: KeyError"}


class Disordered(MemoryFiles):
    """A store that does not list names in order."""

    def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
        return iter(sorted(super().files(prefix, after), key=lambda file: file.name, reverse=True))


def test_a_store_that_lists_in_no_order_is_refused() -> None:
    bucket = Bucket()
    bucket.files = Disordered()
    bucket.starts()
    bucket.files.write("a", b"1")
    bucket.files.write("b", b"1")

    with pytest.raises(Stalled, match="lists 'a' after 'b'") as refused:
        bucket.looks()
    assert refused.value.reason is Reason.STORE_UNSAFE
