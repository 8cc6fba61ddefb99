"""Rows of files, as COMMITs, DISCOVERs and REPLAYs count them."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from landfall.discovery.file_rows import FeedRows, FileRows
from landfall.ledger import Add, Commit, Decision, Discover, Entry, Header, PartList, Record, Replay
from landfall.ledger.feeds import SPAN
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import (
    LandedObject,
    LandedSlice,
    ObjectKind,
    PartRows,
    ReplayedSlice,
)
from landfall.objects import Part, Upload

FEED = TopicPartition("hits", 0)
HEADER = Header(1, "", 1, "w", "t")
ASKED = Decision("replay", "kim", "mended", "t")


def objects(data: int, letters: int) -> tuple[LandedObject, ...]:
    upload = Upload("k", "u", (Part("e", 1),), "t")
    rows = (ObjectKind.DATA, data), (ObjectKind.DEAD_LETTERS, letters)
    return tuple(LandedObject(upload, kind, count, 0, 0, 0) for kind, count in rows if count)


def commit(first: int, end: int, *parts: PartRows, tp: TopicPartition = FEED) -> Commit:
    data, filtered = sum(p.landed for p in parts), sum(p.filtered for p in parts)
    bad = sum(p.dead_lettered for p in parts)
    piece = Slice(tp, OffsetRange(first, end))
    rest = end - first - data - filtered - bad
    counted = LandedSlice(piece, objects(data, bad), data, filtered, bad, rest, 0, parts=parts)
    return Commit(header=HEADER, token="t", slices=(counted,))


def uncounted(first: int, end: int) -> Commit:
    landed = LandedSlice(Slice(FEED, OffsetRange(first, end)), (), 0, 0, 0, end - first, 0)
    return Commit(header=HEADER, token="t", slices=(landed,))


def replay(first: int, end: int, parts: Any, landed: int, bad: int) -> Replay:
    piece = Slice(FEED, OffsetRange(first, end))
    again = ReplayedSlice(
        "k", piece, landed + bad, objects(landed, bad), landed, 0, bad, parts=parts
    )
    return Replay(header=HEADER, token="t", slices=(again,), decision=ASKED)


def tried_again(first: int, *formers: int) -> tuple[Discover, dict[int, Sequence[ListedPart]]]:
    listed = PartList(str(first), "", first, first + len(formers), 1, 0)
    parts = [ListedPart("a", "e", 8, 0, 0, 8, former, 1, 0) for former in formers]
    again = Discover(header=HEADER, topic_partition=FEED, listed=listed, again=formers)
    return again, {first: parts}


def rows_after(*records: Record, lists: dict[int, Sequence[ListedPart]] | None = None) -> FeedRows:
    found = FeedRows(FEED, lambda listed: (lists or {})[listed.first])
    for record in records:
        found.take(record)
    return found


def test_files_that_share_a_slice_have_rows_of_their_own() -> None:
    found = rows_after(commit(0, 3 * SPAN, PartRows(0, 5, 1, 0), PartRows(2, 0, 0, 2)))

    assert [found.of(n, n) for n in range(3)] == [
        FileRows(5, 1, 0),
        FileRows(0, 0, 0),
        FileRows(0, 0, 2),
    ]


def test_a_file_has_the_rows_of_all_its_parts_and_slices() -> None:
    found = rows_after(
        commit(0, SPAN + 3, PartRows(0, 5, 0, 0), PartRows(1, 3, 0, 0)),
        commit(SPAN + 3, 3 * SPAN, PartRows(1, 4, 0, 1), PartRows(2, 7, 0, 0)),
        commit(0, 9, PartRows(1, 9, 0, 0), tp=TopicPartition("other", 0)),
    )

    assert (found.of(0, 1), found.of(2, 2)) == (FileRows(12, 0, 1), FileRows(7, 0, 0))


def test_what_is_not_landed_yet_has_no_rows() -> None:
    found = rows_after(commit(0, SPAN, PartRows(0, 5, 0, 0)))

    assert found.of(1, 4) == FileRows(0, 0, 0)


def test_a_part_that_is_tried_again_and_again_belongs_to_its_file() -> None:
    first, lists = tried_again(2, 0)
    second, more = tried_again(3, 2)

    found = rows_after(
        commit(0, 4, PartRows(0, 4, 0, 0)),
        commit(SPAN, 2 * SPAN, PartRows(1, 1, 0, 0)),
        first,
        commit(2 * SPAN, 2 * SPAN + 7, PartRows(2, 3, 0, 0)),
        second,
        commit(3 * SPAN, 4 * SPAN, PartRows(3, 2, 0, 1)),
        lists=lists | more,
    )

    assert found.of(0, 0) == FileRows(9, 0, 1)
    assert found.of(1, 1) == FileRows(1, 0, 0)


def test_what_nobody_counted_is_unknown_and_the_rest_is_known() -> None:
    found = rows_after(
        uncounted(0, SPAN + 5),
        commit(SPAN + 5, 3 * SPAN, PartRows(1, 5, 0, 0), PartRows(2, 3, 0, 0)),
    )

    assert [found.of(n, n) for n in range(3)] == [None, None, FileRows(3, 0, 0)]
    assert found.of(1, 2) is None


def test_dead_letters_that_are_replayed_are_where_the_replay_put_them() -> None:
    letters = commit(0, 2 * SPAN, PartRows(0, 5, 0, 2), PartRows(1, 0, 0, 3))
    again = PartRows(0, 1, 0, 1), PartRows(1, 3, 0, 0)

    counted = rows_after(letters, replay(1, SPAN + 3, again, 4, 1))
    former = rows_after(letters, replay(1, SPAN + 3, UNSET, 4, 1))

    assert (counted.of(0, 0), counted.of(1, 1)) == (FileRows(6, 0, 1), FileRows(3, 0, 0))
    assert (former.of(0, 0), former.of(1, 1)) == (None, None)


def test_a_feed_that_enters_again_begins_again() -> None:
    entered = Add(header=HEADER, entries=(Entry(FEED, "id", 0, feed=True),))

    found = rows_after(commit(0, SPAN, PartRows(0, 5, 0, 0)), entered)

    assert found.of(0, 0) == FileRows(0, 0, 0)
