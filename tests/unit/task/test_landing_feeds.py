"""Landing slices of files: a slice that ends early, and records that the reader found wrong."""

from collections.abc import Iterator
from dataclasses import replace

from landfall.errors import PartUnreadable
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import FailedSlice, LandedSlice, ObjectKind
from landfall.pipeline.records import Records
from landfall.source import EndsEarly
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import SLICE, TP, FakeReader, click, group, is_empty

ROWS = [click(105), click(110), click(150)]


class EarlyReader(FakeReader):
    """Reads only what is below offset 120."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        yield from super().read(Slice(slice_.topic_partition, OffsetRange(100, 120)))
        raise EndsEarly(120)


class ReaderWithErrors(FakeReader):
    """Finds the second record of each chunk wrong."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        for records in super().read(slice_):
            yield replace(records, unreadable={1: "has too many values"})


class UnreadableReader(FakeReader):
    """Cannot read the first part."""

    def read(self, slice_: Slice) -> Iterator[Records]:
        raise PartUnreadable(100, f"{slice_}: damaged")


def test_a_slice_that_ends_early_is_landed_up_to_there() -> None:
    (result,) = land(Batch(group(), "t"), [SLICE], EarlyReader({TP: ROWS}, 1000), MemoryStore())

    assert isinstance(result, LandedSlice)
    assert result.piece == Slice(TP, OffsetRange(100, 120))
    assert (result.landed, result.invisible) == (2, 18)


def test_a_record_that_the_reader_found_wrong_is_a_dead_letter() -> None:
    reader = ReaderWithErrors({TP: ROWS}, 1000)

    (result,) = land(
        Batch(group(badRecords={"policy": "DeadLetter"}), "t"), [SLICE], reader, MemoryStore()
    )

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered, result.invisible) == (2, 1, 97)
    assert result.errors == ("offset 110: read",)
    dead = [o for o in result.objects if o.kind is ObjectKind.DEAD_LETTERS]
    assert [o.rows for o in dead] == [1]


def test_a_chunk_of_which_nothing_can_be_read_is_dead_letters_alone() -> None:
    class NoneReadable(FakeReader):
        def read(self, slice_: Slice) -> Iterator[Records]:
            for records in super().read(slice_):
                yield replace(records, unreadable=dict.fromkeys(range(len(records)), "wrong"))

    (result,) = land(Batch(group(), "t"), [SLICE], NoneReadable({TP: ROWS}, 2), MemoryStore())

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered) == (0, 3)


def test_a_part_that_cannot_be_read_fails_the_slice_with_its_error() -> None:
    store = MemoryStore()

    (result,) = land(Batch(group(), "t"), [SLICE], UnreadableReader({TP: ROWS}, 1000), store)

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, PartUnreadable)
    assert is_empty(store)
