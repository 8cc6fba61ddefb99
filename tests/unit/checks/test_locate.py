import pytest
from msgspec.structs import replace

from landfall import ledger
from landfall.checks.locate import (
    BeforeStart,
    Committed,
    NotLanded,
    OffsetState,
    SkippedOffset,
    Unknown,
    find_offset,
    row_of,
)
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedObject, ObjectKind, ReplayedSlice
from landfall.objects import Upload
from tests.support.ledger.sample_ledger import GROUP, SampleLedger, bodies

TP = TopicPartition("clicks", 0)


@pytest.fixture
def sample() -> SampleLedger:
    sample = SampleLedger().open().add(TP, start=5)
    sample.commit(sample.land(TP, 5, 10))
    sample.append(
        lambda h: ledger.Hole(header=h, piece=Slice(TP, OffsetRange(10, 12)), reason="expired")
    )
    return sample.commit(sample.land(TP, 12, 20))


def state_of(sample: SampleLedger, offset: int, tp: TopicPartition = TP) -> OffsetState:
    return find_offset(
        (ledger.decode(seq, body) for seq, body in enumerate(bodies(sample.store))), tp, offset
    )


def test_an_offset_is_in_the_commit_that_read_it(sample: SampleLedger) -> None:
    early, late = state_of(sample, 5), state_of(sample, 19)

    assert isinstance(early, Committed)
    assert isinstance(late, Committed)
    assert (early.slot, late.slot) == (2, 4)
    assert [o.first_offset for o in late.candidates(19)] == [12]


def test_an_offset_can_lie_before_the_start_in_a_hole_or_after_the_checkpoint(
    sample: SampleLedger,
) -> None:
    skipped = state_of(sample, 11)

    assert state_of(sample, 4) == BeforeStart(5)
    assert state_of(sample, 20) == NotLanded(20)
    assert isinstance(skipped, SkippedOffset)
    assert skipped.slot == 3


def test_a_topic_partition_that_was_never_added_is_unknown(sample: SampleLedger) -> None:
    assert state_of(sample, 0, TopicPartition("orders", 0)) == Unknown()


def test_a_recreated_topic_is_looked_up_in_its_last_life(sample: SampleLedger) -> None:
    sample.append(lambda h: ledger.Drop(header=h, topic_partitions=(TP,), reason="recreated"))
    sample.open(generation=2).add(TP)

    assert state_of(sample, 6) == NotLanded(0)


def test_an_offset_of_a_lost_object_names_the_lost(sample: SampleLedger) -> None:
    lost = sample.state.unapplied[4][0]
    sample.append(lambda h: ledger.Lost(header=h, commit=4, objects=(lost,)))

    found = state_of(sample, 15)

    assert isinstance(found, Committed)
    assert found.lost == {lost.upload.key: 5}


def test_a_replayed_dead_letter_is_in_the_new_object() -> None:
    sample = SampleLedger().open().add(TP)
    key = object_names.dead_letter_key(GROUP, "clicks", 1, 0, 0)
    landed = sample.land(TP, 0, 10)
    data = sample.upload(landed.objects[0].upload.key, range(2, 10))
    letters = sample.upload(key, range(2), ObjectKind.DEAD_LETTERS)
    sample.commit(replace(landed, objects=(data, letters), landed=8, dead_lettered=2))
    sample.open(generation=2)
    name = object_names.ObjectName("clicks", "dt=2026-11-21", 2, 0, 0, ".json").key
    again = sample.upload(name, range(2))
    slice_ = ReplayedSlice(key, landed.piece, 2, (again,), 2, 0, 0)
    decision = ledger.Decision("replay-dead-letters", "kim", "decoder mended", "t")
    token = again.upload.token
    sample.append(
        lambda h: ledger.Replay(header=h, token=token, slices=(slice_,), decision=decision)
    )

    found = state_of(sample, 1)

    assert isinstance(found, Committed)
    assert found.candidates(1) == (again,)
    assert (found.slot_of(again), found.slot_of(data)) == (4, 2)


def test_the_row_follows_from_the_offset_only_if_the_object_has_no_gaps() -> None:
    upload = Upload("k", "u", (), "t")
    dense = LandedObject(upload, ObjectKind.DATA, 5, 10, 14, crc32=0)
    sparse = LandedObject(upload, ObjectKind.DATA, 4, 10, 14, crc32=0)

    assert (row_of(dense, 12), row_of(dense, 15), row_of(sparse, 12)) == (2, None, None)
