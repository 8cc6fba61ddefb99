import pytest

from landfall import ledger
from landfall.checks.locate import (
    BeforeStart,
    NotYet,
    Place,
    Read,
    Skipped,
    Unknown,
    place_of,
    row_of,
)
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind
from landfall.objects import Upload
from tests.support.sample_ledger import SampleLedger, bodies

TP = TopicPartition("clicks", 0)


@pytest.fixture
def book() -> SampleLedger:
    book = SampleLedger().open().add(TP, start=5)
    book.commit(book.land(TP, 5, 10))
    book.append(
        lambda h: ledger.Hole(header=h, piece=Slice(TP, OffsetRange(10, 12)), reason="expired")
    )
    return book.commit(book.land(TP, 12, 20))


def place(book: SampleLedger, offset: int, tp: TopicPartition = TP) -> Place:
    return place_of(
        (ledger.decode(seq, body) for seq, body in enumerate(bodies(book.store))), tp, offset
    )


def test_an_offset_is_in_the_commit_that_read_it(book: SampleLedger) -> None:
    early, late = place(book, 5), place(book, 19)

    assert isinstance(early, Read)
    assert isinstance(late, Read)
    assert (early.slot, late.slot) == (2, 4)
    assert [o.first_offset for o in late.candidates(19)] == [12]


def test_an_offset_can_be_before_behind_or_in_a_hole(book: SampleLedger) -> None:
    skipped = place(book, 11)

    assert place(book, 4) == BeforeStart(5)
    assert place(book, 20) == NotYet(20)
    assert isinstance(skipped, Skipped)
    assert skipped.slot == 3


def test_of_an_unknown_topic_partition_nothing_is_known(book: SampleLedger) -> None:
    assert place(book, 0, TopicPartition("orders", 0)) == Unknown()


def test_of_a_recreated_topic_the_new_one_counts(book: SampleLedger) -> None:
    book.append(lambda h: ledger.Drop(header=h, topic_partitions=(TP,), reason="recreated"))
    book.open(generation=2).add(TP)

    assert place(book, 6) == NotYet(0)


def test_the_row_follows_from_the_offset_only_without_gaps() -> None:
    upload = Upload("k", "u", (), "t")
    dense = LandedObject(upload, ObjectKind.DATA, 5, 10, 14, crc32=0)
    sparse = LandedObject(upload, ObjectKind.DATA, 4, 10, 14, crc32=0)

    assert (row_of(dense, 12), row_of(dense, 15), row_of(sparse, 12)) == (2, None, None)
