"""The index of known files: merged from lists, shared by pieces, looked up by name."""

from collections.abc import Iterable
from datetime import UTC, datetime

import pytest

from landfall.discovery import index, part_lists, stored
from landfall.discovery.feed_keys import FeedKeys
from landfall.discovery.known import (
    PIECE_TEXT_BYTES,
    VERSION,
    FileState,
    IndexPiece,
    KnownFile,
    Manifest,
    cut_into_pieces,
    decode_manifest,
    decode_piece,
    encode_manifest,
    encode_piece,
    state_of,
)
from landfall.errors import Stalled
from landfall.ledger import KnownFiles, PartList
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.objects import ListedFile
from landfall.store.memory import MemoryStore

MODIFIED = datetime(2026, 11, 21, tzinfo=UTC)
KEYS = FeedKeys("shop", "0", "orders")


def part(name: str, etag: str = "e", **more: int) -> ListedPart:
    return ListedPart(name, etag, 8, 0, more.get("start", 0), more.get("end", 8))


def file(name: str, number: int, etag: str = "e", first: int | None = None) -> KnownFile:
    return KnownFile(name, etag, 8, 8, number, number if first is None else first)


class Feed:
    """A store, and what the ledger names of it."""

    def __init__(self, *lists: Iterable[ListedPart]) -> None:
        self.store, self.lists = MemoryStore(), list[PartList]()
        self.known: KnownFiles | None = None
        for parts in lists:
            self.adds(parts)

    def adds(self, parts: Iterable[ListedPart]) -> None:
        first = self.lists[-1].end if self.lists else 0
        self.lists.append(part_lists.write(self.store, KEYS, first, [*parts]))

    def merges(self) -> KnownFiles:
        self.known = index.merge(self.store, KEYS, self.known, self.lists)
        return self.known

    def pieces(self) -> list[tuple[str, str, int]]:
        manifest = index.read_manifest(self.store, self.known)
        return [(piece.first, piece.last, piece.files) for piece in manifest.pieces]

    def opened(self) -> index.KnownIndex:
        return index.open_index(self.store, KEYS, self.known, self.lists)


def test_a_name_is_found_in_lists_and_in_the_index_made_of_them() -> None:
    feed = Feed([part("b"), part("d")], [part("a"), part("b", "e2")])

    before = [feed.opened().find(name) for name in "abcd"]
    known = feed.merges()

    assert before == [file("a", 2), file("b", 3, "e2"), None, file("d", 1)]
    assert [feed.opened().find(name) for name in "abcd"] == before
    assert (known.through, known.files, len(feed.opened().recent)) == (4, 3, 0)


def test_lists_after_the_index_count_more() -> None:
    feed = Feed([part("a", end=4)])
    feed.merges()
    feed.adds([part("a", start=4)])

    assert feed.opened().find("a") == file("a", 1, first=0)
    assert len(feed.opened().recent) == 1
    feed.merges()
    assert feed.opened().find("a") == file("a", 1, first=0)


def test_a_version_that_is_left_out_is_known() -> None:
    feed = Feed([part("a"), part("b")], [part("a", "new", start=8)])

    found = feed.opened().find("a")

    assert found == KnownFile("a", "new", 8, 8, 2, 2, is_left_out=True)
    assert state_of(ListedFile("a", "new", 8, MODIFIED), found) is FileState.KNOWN
    before = [*feed.opened().files()]
    feed.merges()
    assert [*feed.opened().files()] == before == [found, file("b", 1)]


def test_a_part_that_gets_another_number_makes_no_version_known() -> None:
    again = ListedPart("a", "old", 8, 0, 0, 8, former=0, attempt=1)
    feed = Feed([part("a", "old")], [part("a", "new")], [again])

    assert feed.opened().find("a") == file("a", 1, "new")


def test_only_pieces_with_changes_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.discovery.known.PIECE_FILES", 4)
    feed = Feed([part(f"{n:02d}") for n in range(10)])
    feed.merges()
    assert feed.pieces() == [("00", "03", 4), ("04", "07", 4), ("08", "09", 2)]
    first = index.read_manifest(feed.store, feed.known).pieces

    feed.adds([part("05x"), part("99")])
    feed.merges()

    assert feed.pieces() == [("00", "03", 4), ("04", "05x", 3), ("06", "07", 2), ("08", "99", 3)]
    assert index.read_manifest(feed.store, feed.known).pieces[0] == first[0]


def test_names_before_all_others_are_of_the_first_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.discovery.known.PIECE_FILES", 2)
    feed = Feed([part("b"), part("c"), part("d")])
    feed.merges()

    feed.adds([part("a")])
    feed.merges()

    assert feed.pieces() == [("a", "b", 2), ("c", "c", 1), ("d", "d", 1)]


def test_a_piece_of_long_names_has_fewer() -> None:
    files = [file(f"{n:05d}" + "x" * 1019, n) for n in range(20_000)]

    sizes = [len(some) for some in cut_into_pieces(files, is_last=True)]

    assert sizes == [PIECE_TEXT_BYTES // 1025, PIECE_TEXT_BYTES // 1025, 3632]
    assert [len(some) for some in cut_into_pieces(files, is_last=False)] == [6667, 6667, 6666]


def test_one_lookup_of_each_name_in_order_reads_each_piece_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("landfall.discovery.known.PIECE_FILES", 4)
    names = [f"{n:02d}" for n in range(20)]
    feed = Feed([part(name) for name in names])
    feed.merges()
    opened = feed.opened()
    before = feed.store.requests["read"]

    assert all(opened.find(name) for name in names)

    assert feed.store.requests["read"] - before == 5


def test_a_merge_takes_a_limited_number_of_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "MAX_MERGED", 2)
    feed = Feed([part("a")], [part("b")], [part("c")])

    assert feed.merges().through == 2
    assert feed.opened().find("c") == file("c", 2)
    assert feed.merges().through == 3
    with pytest.raises(ValueError, match="nothing to merge into the index below 3"):
        feed.merges()


def test_lists_with_a_gap_are_refused() -> None:
    feed = Feed([part("a")], [part("b")], [part("c")])

    with pytest.raises(ValueError, match="parts from 2, expected 1"):
        index.merge(feed.store, KEYS, None, [feed.lists[0], feed.lists[2]])


def test_what_the_last_two_indexes_have_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("landfall.discovery.known.PIECE_FILES", 2)
    feed = Feed([part("a"), part("b"), part("c")])
    first = feed.merges()
    pieces = index.read_manifest(feed.store, first).pieces
    feed.adds([part("d")])
    second = feed.merges()
    feed.adds([part("e")])
    third = feed.merges()
    feed.adds([part("f")])
    # Nothing names it yet, so it may become the next one.
    index.merge(feed.store, KEYS, third, feed.lists)

    found = [*index.unneeded(feed.store, KEYS, third, second)]

    assert found == [first.key, pieces[1].key]
    feed.store.delete_slots(found)
    assert [feed.opened().find(name) for name in "abcdef"] == [
        file(name, n) for n, name in enumerate("abcdef")
    ]


def test_an_index_that_is_damaged_is_named() -> None:
    feed = Feed([part("a")])
    known = feed.merges()
    piece = index.read_manifest(feed.store, known).pieces[0]
    other = KnownFiles(known.key, known.sha256, 1, 2)
    feed.store.delete(piece.key)

    with pytest.raises(Stalled, match=rf"{piece.key}: is named by the ledger, but gone"):
        feed.opened().find("a")
    with pytest.raises(Stalled, match=rf"{known.key}: has 1 files of parts below 1, .* 2 below 1"):
        index.read_manifest(feed.store, other)


def test_bytes_that_are_no_index_are_refused() -> None:
    piece = IndexPiece("a", "b", "the/key", "", 2)
    two = [file("a", 0), file("b", 1)]
    wrong_version = stored.packed(b'{"version":2,"through":1,"files":[["a","",1,1,0]]}')
    overlapping = encode_manifest(1, [piece, piece])

    assert decode_piece(piece, encode_piece(1, two)) == tuple(two)
    assert decode_manifest("k", encode_manifest(1, [piece])) == Manifest(VERSION, 1, (piece,))
    for body, problem in (
        (b"?", "damaged"),
        (wrong_version, "version 2 is not supported"),
        (encode_piece(1, two[:1]), "has 1 files from 'a' to 'a', not as its index records"),
        (encode_piece(1, [two[0], two[0], two[1]]), "has 3 files"),
        (stored.packed(b'{"files":3}'), "not a piece of an index"),
    ):
        with pytest.raises(Stalled, match=f"^the/key: .*{problem}"):
            decode_piece(piece, body)
    with pytest.raises(Stalled, match="k: has pieces that are not in the order of names"):
        decode_manifest("k", overlapping)
    with pytest.raises(Stalled, match="k: not an index of known files"):
        decode_manifest("k", stored.packed(b"[]"))


def test_equal_indexes_are_equal_bytes() -> None:
    one, other = Feed([part("a"), part("b")]), Feed([part("a"), part("b")])

    assert one.merges() == other.merges()
