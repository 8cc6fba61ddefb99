"""Cuts of a range adjoin exactly; advancing a checkpoint never loses or repeats an offset."""

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition

offsets = st.integers(min_value=0, max_value=2**62)
ranges = st.builds(
    lambda start, length: OffsetRange(start, start + length), offsets, st.integers(0, 10_000)
)
topic_partitions = st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d"]), st.integers(0, 3))


@given(ranges, st.integers(1, 20_000))
def test_the_parts_of_a_cut_adjoin_exactly(whole: OffsetRange, max_length: int) -> None:
    parts = whole.cut(max_length)

    assert all(a.end == b.start for a, b in pairwise(parts))
    assert not parts or (parts[0].start, parts[-1].end) == (whole.start, whole.end)
    assert sum(map(len, parts)) == len(whole)


@given(ranges, st.integers(1, 20_000))
def test_a_cut_is_even_and_small_enough(whole: OffsetRange, max_length: int) -> None:
    lengths = [len(part) for part in whole.cut(max_length)]

    assert all(0 < length <= max_length for length in lengths)
    assert not lengths or max(lengths) - min(lengths) <= 1
    assert len(lengths) == -(-len(whole) // max_length)


@given(
    st.dictionaries(topic_partitions, st.tuples(offsets, st.integers(0, 500), st.integers(1, 50))),
    st.randoms(),
)
def test_advancing_over_the_parts_of_a_range_equals_advancing_over_the_range(
    partitions: dict[TopicPartition, tuple[int, int, int]], random: object
) -> None:
    start = Checkpoint({tp: first for tp, (first, _, _) in partitions.items()})
    slices = [
        Slice(tp, part)
        for tp, (first, length, max_length) in partitions.items()
        for part in OffsetRange(first, first + length).cut(max_length)
    ]
    random.shuffle(slices)

    assert start.advance(slices) == Checkpoint(
        {tp: first + length for tp, (first, length, _) in partitions.items()}
    )


@given(offsets, ranges)
def test_a_checkpoint_advances_only_over_ranges_that_start_at_it(
    at: int, offset_range: OffsetRange
) -> None:
    assume(at != offset_range.start)
    tp = TopicPartition("a", 0)

    with pytest.raises(ValueError, match="expected offset"):
        Checkpoint({tp: at}).advance([Slice(tp, offset_range)])


@given(st.lists(st.integers(1, 50), min_size=2), st.data())
def test_a_missing_or_repeated_slice_is_always_refused(
    lengths: list[int], data: st.DataObject
) -> None:
    tp, at, slices = TopicPartition("a", 0), 0, []
    for length in lengths:
        slices.append(Slice(tp, OffsetRange(at, at + length)))
        at += length
    odd = data.draw(st.integers(0, len(slices) - 2))
    repeated = [*slices, slices[odd]]
    missing = slices[:odd] + slices[odd + 1 :]

    for wrong in (repeated, missing):
        with pytest.raises(ValueError, match="expected offset"):
            Checkpoint({tp: 0}).advance(wrong)
