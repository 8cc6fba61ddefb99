"""Rows of files as records: their offsets, where a slice begins and ends, what is unreadable."""

import gzip
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain
from random import randbytes

import numpy as np
import pytest

from landfall.discovery import part_lists
from landfall.discovery.feed_keys import FeedKeys
from landfall.errors import PartUnreadable, Reason, Stalled, StoreAway, StoreDenied
from landfall.formats.parts import FileBytes, FilePart, FileRecords
from landfall.formats.readers import reader_of
from landfall.ledger.feeds import SPAN
from landfall.ledger.feeds.part_lists import ListedPart
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.objects import ListedFile
from landfall.pipeline.records import Records
from landfall.source import EndsEarly
from landfall.store.memory import MemoryFiles, MemoryStore
from landfall.task.feed_reader import FeedReader, ReadableFeed

KEYS = FeedKeys("clicks", "0", "in")
TP = TopicPartition("in", 0)
WRITTEN = datetime(2026, 11, 24, 12, tzinfo=UTC)
WRITTEN_MS = int(WRITTEN.timestamp() * 1000)


class Feed:
    """A feed with some files, numbered from 0 on in two lists."""

    def __init__(
        self, files: dict[str, bytes], reader: str = "Lines", part_bytes: int = 10**6
    ) -> None:
        self.source, self.store = MemoryFiles(lambda: WRITTEN), MemoryStore()
        self.reader = reader_of(reader, {})
        for name, body in files.items():
            self.source.write(name, body)
        self.parts = [
            ListedPart(f.name, f.etag, f.size, WRITTEN_MS, part.start, part.end)
            for f in self.source.files()
            for part in self.reader.parts(f.name, f.size, part_bytes)
        ]

    def read(self, start: int, end: int) -> list[Records]:
        return list(self.iterate(start, end))

    def iterate(self, start: int, end: int) -> Iterator[Records]:
        half = max(len(self.parts) // 2, 1)
        lists = [
            part_lists.write(self.store, KEYS, first, parts)
            for first, parts in ((0, self.parts[:half]), (half, self.parts[half:]))
            if parts
        ]
        reader = FeedReader(
            self.store, "clicks", "0", {"in": ReadableFeed(self.source, self.reader)}
        )
        reader.expect([(TP, listed) for listed in lists])
        return reader.read(Slice(TP, OffsetRange(start, end)))

    def until_it_fails(self, start: int, end: int) -> tuple[list[Records], Exception]:
        found: list[Records] = []
        records = self.iterate(start, end)
        with pytest.raises((EndsEarly, PartUnreadable)) as raised:
            found.extend(records)  # those before the error stay
        return found, raised.value


def rows(found: Sequence[Records]) -> list[tuple[int, bytes]]:
    offsets = chain.from_iterable(records.offsets.tolist() for records in found)
    values = chain.from_iterable(records.values.to_pylist() for records in found)
    return list(zip(offsets, values, strict=True))


def test_an_offset_is_the_number_of_the_part_and_the_row_in_it() -> None:
    feed = Feed({"a": b"one\ntwo\n", "b": b"", "c": b"three\n"})

    found = feed.read(0, 3 * SPAN)

    assert rows(found) == [(0, b"one"), (1, b"two"), (2 * SPAN, b"three")]


def test_small_parts_make_one_chunk_with_all_columns() -> None:
    feed = Feed({"a": b"one\n", "b": b"two\n"})

    (chunk,) = feed.read(0, 2 * SPAN)

    assert chunk.timestamps.tolist() == [WRITTEN_MS] * 2
    assert chunk.keys.to_pylist() == [None] * 2
    assert chunk.headers.to_pylist() == [[]] * 2


def test_a_slice_begins_inside_of_a_part_and_ends_inside_of_another() -> None:
    feed = Feed({"a": b"1\n2\n3\n", "b": b"4\n5\n6\n"})

    found = feed.read(2, SPAN + 1)

    assert rows(found) == [(2, b"3"), (SPAN, b"4")]


def test_parts_of_one_file_have_each_row_once() -> None:
    lines = [b"line %d" % i for i in range(100)]
    feed = Feed({"a": b"\n".join(lines)}, part_bytes=100)

    found = feed.read(0, len(feed.parts) * SPAN)

    assert len(feed.parts) > 5
    assert [value for _, value in rows(found)] == lines


def test_rows_that_are_landed_under_a_former_number_are_left_out() -> None:
    feed = Feed({"a": b"1\n2\n3\n", "b": b"4\n"})
    again = feed.parts[0]
    feed.parts.append(
        ListedPart(*(getattr(again, f) for f in again.__struct_fields__[:6]), 0, attempt=1, skip=2)
    )

    found = feed.read(2 * SPAN, 3 * SPAN)

    assert rows(found) == [(2 * SPAN + 2, b"3")]


def test_a_part_that_is_damaged_ends_the_slice_before_it() -> None:
    feed = Feed({"a": b"1\n", "b.gz": b"not gzip", "c": b"2\n"})

    found, error = feed.until_it_fails(0, 3 * SPAN)

    assert rows(found) == [(0, b"1")]
    assert isinstance(error, EndsEarly)
    assert error.offset == SPAN


def test_a_slice_that_begins_with_a_damaged_part_says_what_is_wrong() -> None:
    feed = Feed({"a": b"1\n", "b.gz": b"not gzip", "c": b"2\n"})

    found, error = feed.until_it_fails(SPAN, 3 * SPAN)

    assert not found
    assert isinstance(error, PartUnreadable)
    assert "in/0: part 1: b.gz" in str(error)


class Denied(MemoryFiles):
    """Files of which the store refuses some."""

    def __init__(self, *names: str) -> None:
        super().__init__(lambda: WRITTEN)
        self.names = names

    def read(self, file: ListedFile, start: int, end: int) -> bytes:
        if file.name in self.names:
            raise StoreDenied(f"read {file.name}: AccessDenied (403)")
        return super().read(file, start, end)


def denied(*names: str) -> Feed:
    """A feed of three files, some of which the store refuses."""
    feed, source = Feed({"a": b"1\n", "b": b"2\n", "c": b"3\n"}), Denied(*names)
    for name, body in (("a", b"1\n"), ("b", b"2\n"), ("c", b"3\n")):
        source.write(name, body)
    feed.source = source
    return feed


@pytest.mark.parametrize("names", [("b",), ("c",), ("b", "c"), ("a", "b")])
def test_a_file_that_is_refused_alone_holds_up_no_other(names: tuple[str, ...]) -> None:
    feed, at = denied(*names), ord(names[0]) - ord("a")

    found, error = feed.until_it_fails(at * SPAN, 3 * SPAN)

    assert not found
    assert isinstance(error, PartUnreadable)
    assert str(error) == (
        f"in/0: part {at}: {names[0]}: at 0: the store refuses this file, but not other ones: "
        f"read {names[0]}: AccessDenied (403)"
    )


def test_a_store_that_refuses_every_file_is_waited_for() -> None:
    """The right to read is lacking: nobody wants each file to be parked for that."""
    feed = denied("a", "b", "c")

    with pytest.raises(StoreDenied, match="read a: AccessDenied"):
        feed.read(0, 3 * SPAN)


def test_a_store_that_does_not_answer_is_waited_for() -> None:
    class Away(Denied):
        def files(self, prefix: str = "", after: str = "") -> Iterator[ListedFile]:
            raise StoreAway(f"list after {prefix}{after}: timed out")

    feed, source = denied("a"), Away("a")
    feed.source = source

    with pytest.raises(StoreAway, match="timed out"):
        feed.read(0, 3 * SPAN)


class Strange:
    """A reader of somebody else, which fails at files as it likes."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def parts(self, name: str, size: int, part_bytes: int) -> tuple[FilePart, ...]:
        return reader_of("Lines", {}).parts(name, size, part_bytes)

    def read(self, file: FileBytes, part: FilePart) -> Iterator[FileRecords]:
        if file.name == "b":
            raise self.error
        yield from reader_of("Lines", {}).read(file, part)


def strange(error: Exception) -> Feed:
    feed = Feed({"a": b"1\n", "b": b"2\n", "c": b"3\n"})
    feed.reader = Strange(error)
    return feed


@pytest.mark.parametrize("error", [TypeError("no such field"), OSError("bad footer")])
def test_whatever_a_reader_raises_is_about_its_file_alone(error: Exception) -> None:
    _, raised = strange(error).until_it_fails(SPAN, 3 * SPAN)

    assert isinstance(raised, PartUnreadable)
    name = type(error).__name__
    assert str(raised) == f"in/0: part 1: b: at 0: the reader failed: {name}"


@pytest.mark.parametrize("error", [MemoryError(), OSError(28, "No space left on device")])
def test_what_fails_around_a_reader_is_no_fault_of_its_file(error: Exception) -> None:
    with pytest.raises(type(error)):
        strange(error).read(SPAN, 3 * SPAN)


def test_rows_before_the_damage_are_landed_and_not_read_again() -> None:
    lines = [randbytes(50).hex().encode() for _ in range(200_000)]
    feed = Feed({"a.gz": gzip.compress(b"\n".join(lines), 1)[:-1000]})

    found, error = feed.until_it_fails(0, SPAN)

    assert isinstance(error, EndsEarly)
    assert error.offset > 1000
    assert rows(found) == list(enumerate(lines[: error.offset]))
    nothing, error = feed.until_it_fails(error.offset, SPAN)
    assert not nothing
    assert isinstance(error, PartUnreadable)


def test_a_version_that_is_left_out_has_no_row_whatever_is_there_now() -> None:
    feed = Feed({"a": b"1\n", "b": b"2\n", "c": b"3\n"})
    feed.parts[1] = ListedPart("b", "other", 7, WRITTEN_MS, 7, 7)

    assert feed.parts[1].is_left_out
    assert rows(feed.read(0, 3 * SPAN)) == [(0, b"1"), (2 * SPAN, b"3")]


def test_a_file_that_was_written_anew_is_not_read() -> None:
    feed = Feed({"a": b"1\n", "b": b"2\n"})
    feed.source.write("b", b"3\n")

    found, error = feed.until_it_fails(0, 2 * SPAN)

    assert rows(found) == [(0, b"1")]
    assert isinstance(error, EndsEarly)
    with pytest.raises(PartUnreadable, match="b: the file with ETag"):
        feed.read(SPAN, 2 * SPAN)


def test_what_a_reader_finds_wrong_with_a_row_stays_with_the_row() -> None:
    feed = Feed({"a": b"x,y\n1,2\n", "b": b"x,y\n3,4\n5,6,7\n8,9\n"}, "Csv")

    (chunk,) = feed.read(0, 2 * SPAN)
    (later,) = feed.read(SPAN + 1, 2 * SPAN)

    assert chunk.values.to_pylist()[2] == b"5,6,7"
    assert [*chunk.unreadable] == [2]
    assert [*later.unreadable] == [0]
    assert [*chunk.take(np.array([0, 2])).unreadable] == [1]


def test_a_list_that_is_gone_stalls_the_feed() -> None:
    feed = Feed({"a": b"1\n"})
    records = feed.iterate(0, SPAN)
    feed.store.delete_slots([stat.key for stat in feed.store.list_after("")])

    with pytest.raises(Stalled) as raised:
        list(records)

    assert raised.value.reason is Reason.LEDGER_BROKEN
