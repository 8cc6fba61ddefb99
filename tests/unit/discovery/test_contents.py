"""Which file has the contents of another: by ETag and size in full, whatever the fingerprints."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from landfall.discovery import contents, index, known, part_lists
from landfall.discovery.contents import KnownContents
from landfall.discovery.feed_keys import FeedKeys
from landfall.ledger import KnownFiles, PartList
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile
from landfall.store.memory import MemoryStore

KEYS = FeedKeys("shop", "0", "orders")
NOW = datetime(2026, 11, 25, tzinfo=UTC)


def part(name: str, etag: str, size: int = 8, end: int | None = None) -> ListedPart:
    return ListedPart(name, etag, size, 0, 0, size if end is None else end)


def file(name: str, etag: str, size: int = 8) -> ListedFile:
    return ListedFile(name, etag, size, NOW)


class Known:
    """A store, what the ledger names of it, and the contents that follow."""

    def __init__(self, *parts: ListedPart) -> None:
        self.store = MemoryStore()
        self.lists = list[PartList]()
        self.known: KnownFiles | None = None
        self.contents = KnownContents(self.store)
        self.adds(parts)

    def adds(self, parts: Iterable[ListedPart]) -> None:
        first = self.lists[-1].end if self.lists else 0
        self.lists.append(part_lists.write(self.store, KEYS, first, [*parts]))
        self.opens()

    def merges(self) -> None:
        self.known = index.merge(self.store, KEYS, self.known, self.lists)
        self.opens()

    def opens(self) -> None:
        self.contents.follow(index.open_index(self.store, KEYS, self.known, self.lists))

    def reads(self) -> int:
        return self.store.requests["read"]


@pytest.fixture(params=[False, True], ids=["in lists", "in pieces"])
def kept(request: pytest.FixtureRequest) -> Known:
    """Files that are known by a list, or by an index."""
    made = Known(part("a", "e1"), part("b", "e2"), part("c", "e3", end=4), part("d", "e4", 0))
    if request.param:
        made.merges()
    return made


def test_contents_are_the_same_if_etag_and_size_are(kept: Known) -> None:
    other = kept.contents.other_name

    assert other(file("x", "e2")) == "b"
    assert other(file("x", "e2", size=9)) is None
    assert other(file("x", "e9")) is None


def test_a_file_is_not_its_own_copy(kept: Known) -> None:
    assert kept.contents.other_name(file("b", "e2")) is None


def test_a_file_of_which_not_all_parts_have_numbers_does_not_count(kept: Known) -> None:
    assert kept.contents.other_name(file("x", "e3")) is None


def test_a_file_without_a_byte_has_no_copies(kept: Known) -> None:
    assert kept.contents.other_name(file("x", "e4", size=0)) is None


def test_a_version_that_was_overwritten_does_not_count(kept: Known) -> None:
    kept.adds([part("a", "new")])

    assert kept.contents.other_name(file("x", "e1")) is None
    assert kept.contents.other_name(file("x", "new")) == "a"


def test_what_a_caller_does_not_count_is_left_out(kept: Known) -> None:
    assert kept.contents.other_name(file("x", "e1"), lambda other: other.name != "a") is None


def test_of_several_with_the_same_contents_one_that_counts_is_found() -> None:
    kept = Known(part("a", "e"), part("b", "e"), part("c", "e"))
    kept.merges()

    assert kept.contents.other_name(file("x", "e"), lambda other: other.name == "c") == "c"


def test_what_a_list_adds_is_known_at_once(kept: Known) -> None:
    opened = index.open_index(kept.store, KEYS, kept.known, kept.lists)
    kept.contents.follow(opened)
    parts = [part("y", "e7"), ListedPart("z", "e8", 8, 0, 0, 8, former=0, attempt=1)]

    opened.learn(4, parts)
    kept.contents.learn(parts)

    assert kept.contents.other_name(file("x", "e7")) == "y"
    assert kept.contents.other_name(file("x", "e8")) is None


def test_a_collision_of_fingerprints_leaves_no_file_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "fingerprint", lambda *_: 7)
    kept = Known(part("a", "e1"), part("b", "e2"))
    kept.merges()
    kept.adds([part("c", "e3")])

    assert kept.contents.other_name(file("x", "other")) is None
    assert kept.contents.other_name(file("x", "e2")) == "b"
    assert kept.contents.other_name(file("x", "e3")) == "c"


def test_only_pieces_that_a_merge_made_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "PIECE_FILES", 4)
    kept = Known(*(part(f"{n:02d}", f"e{n}") for n in range(12)))
    kept.merges()
    kept.adds([part("05x", "new")])

    kept.known = index.merge(kept.store, KEYS, kept.known, kept.lists)
    opened = index.open_index(kept.store, KEYS, kept.known, kept.lists)
    before = kept.reads()
    kept.contents.follow(opened)
    kept.contents.follow(opened)

    assert kept.reads() - before == 2  # of four: one was split
    assert kept.contents.other_name(file("x", "e11")) == "11"
    assert kept.contents.other_name(file("x", "new")) == "05x"


def test_a_copy_that_was_confirmed_is_not_read_again_while_its_piece_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known, "PIECE_FILES", 2)
    kept = Known(*(part(f"{n}", f"e{n}") for n in range(6)))
    kept.merges()
    copies = [file("x", "e0"), file("y", "e2"), file("z", "e4")]
    names = [kept.contents.other_name(copy) for copy in copies]
    before = kept.reads()

    assert [kept.contents.other_name(copy) for copy in copies] == names == ["0", "2", "4"]
    assert kept.reads() == before
    kept.adds([part("2", "anew")])
    assert [kept.contents.other_name(copy) for copy in copies] == ["0", None, "4"]
