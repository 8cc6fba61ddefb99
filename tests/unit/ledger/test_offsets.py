"""Offset ranges and checkpoints reject gaps, overlaps and impossible values."""

import pickle

import pytest

from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition

CLICKS = TopicPartition("clicks", 3)
VIEWS = TopicPartition("views", 0)


def test_a_topic_partition_reads_as_a_path() -> None:
    assert str(CLICKS) == "clicks/3"


@pytest.mark.parametrize(("topic", "partition"), [("", 0), ("clicks", -1)])
def test_a_topic_partition_needs_a_name_and_a_number(topic: str, partition: int) -> None:
    with pytest.raises(ValueError, match="not a topic partition"):
        TopicPartition(topic, partition)


def test_a_range_is_half_open() -> None:
    offsets = OffsetRange(5, 8)

    assert (len(offsets), [o for o in range(10) if o in offsets], str(offsets)) == (
        3,
        [5, 6, 7],
        "[5, 8)",
    )


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (4, 3)])
def test_a_range_never_runs_backwards(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="not an offset range"):
        OffsetRange(start, end)


def test_a_cut_gives_ranges_of_nearly_equal_length() -> None:
    assert OffsetRange(10, 20).cut(4) == (
        OffsetRange(10, 13),
        OffsetRange(13, 16),
        OffsetRange(16, 20),
    )


def test_an_empty_range_cuts_into_nothing() -> None:
    assert OffsetRange(7, 7).cut(1) == ()


def test_a_cut_into_empty_ranges_is_refused() -> None:
    with pytest.raises(ValueError, match=r"cannot cut \[0, 3\) into ranges of 0 offsets"):
        OffsetRange(0, 3).cut(0)


def test_a_gap_is_refused() -> None:
    checkpoint = Checkpoint({CLICKS: 40})

    with pytest.raises(ValueError, match="clicks/3: expected offset 40, got 42"):
        checkpoint.advance([Slice(CLICKS, OffsetRange(42, 50))])


def test_an_overlap_is_refused() -> None:
    checkpoint = Checkpoint({CLICKS: 40})

    with pytest.raises(ValueError, match="clicks/3: expected offset 50, got 45"):
        checkpoint.advance([Slice(CLICKS, OffsetRange(40, 50)), Slice(CLICKS, OffsetRange(45, 60))])


def test_an_unknown_topic_partition_cannot_advance() -> None:
    with pytest.raises(ValueError, match="views/0: expected offset None, got 0"):
        Checkpoint({CLICKS: 0}).advance([Slice(VIEWS, OffsetRange(0, 1))])


def test_slices_advance_in_any_order() -> None:
    checkpoint = Checkpoint({CLICKS: 40, VIEWS: 0})

    advanced = checkpoint.advance(
        [
            Slice(CLICKS, OffsetRange(50, 60)),
            Slice(VIEWS, OffsetRange(0, 5)),
            Slice(CLICKS, OffsetRange(40, 50)),
        ]
    )

    assert advanced == Checkpoint({CLICKS: 60, VIEWS: 5})
    assert checkpoint == Checkpoint({CLICKS: 40, VIEWS: 0})


def test_a_topic_partition_enters_once() -> None:
    checkpoint = Checkpoint().add({CLICKS: 7})

    assert checkpoint[CLICKS] == 7
    with pytest.raises(ValueError, match="cannot enter at offset 0, checkpoint has 7"):
        checkpoint.add({CLICKS: 0})
    with pytest.raises(ValueError, match="cannot enter at offset -1"):
        checkpoint.add({VIEWS: -1})


def test_a_topic_partition_leaves_once() -> None:
    checkpoint = Checkpoint({CLICKS: 7, VIEWS: 1}).drop([CLICKS])

    assert checkpoint == Checkpoint({VIEWS: 1})
    with pytest.raises(ValueError, match="clicks/3: cannot leave, it is not in the checkpoint"):
        checkpoint.drop([CLICKS])


def test_a_checkpoint_keeps_its_own_copy_of_the_offsets() -> None:
    offsets = {CLICKS: 7}
    checkpoint = Checkpoint(offsets)

    offsets[CLICKS] = 8

    assert checkpoint[CLICKS] == 7


@pytest.mark.parametrize("value", [CLICKS, OffsetRange(1, 2), Slice(CLICKS, OffsetRange(1, 2))])
def test_values_survive_pickling_between_driver_and_task(value: object) -> None:
    assert pickle.loads(pickle.dumps(value)) == value
