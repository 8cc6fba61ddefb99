"""The algebra of ranges and checkpoints: cuts join exactly, advancing never loses or repeats an
offset.
"""

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
def test_a_cut_joins_exactly(whole: OffsetRange, most: int) -> None:
    pieces = whole.cut(most)

    assert all(a.end == b.start for a, b in pairwise(pieces))
    assert not pieces or (pieces[0].start, pieces[-1].end) == (whole.start, whole.end)
    assert sum(map(len, pieces)) == len(whole)


@given(ranges, st.integers(1, 20_000))
def test_a_cut_is_even_and_small_enough(whole: OffsetRange, most: int) -> None:
    lengths = [len(piece) for piece in whole.cut(most)]

    assert all(0 < length <= most for length in lengths)
    assert not lengths or max(lengths) - min(lengths) <= 1
    assert len(lengths) == -(-len(whole) // most)


@given(
    st.dictionaries(topic_partitions, st.tuples(offsets, st.integers(0, 500), st.integers(1, 50))),
    st.randoms(),
)
def test_advancing_over_the_pieces_of_a_range_is_advancing_over_it(
    lanes: dict[TopicPartition, tuple[int, int, int]], random: object
) -> None:
    start = Checkpoint({tp: first for tp, (first, _, _) in lanes.items()})
    pieces = [
        Slice(tp, piece)
        for tp, (first, length, most) in lanes.items()
        for piece in OffsetRange(first, first + length).cut(most)
    ]
    random.shuffle(pieces)

    assert start.advance(pieces) == Checkpoint(
        {tp: first + length for tp, (first, length, _) in lanes.items()}
    )


@given(offsets, ranges)
def test_a_checkpoint_moves_only_over_ranges_that_start_where_it_stands(
    at: int, offset_range: OffsetRange
) -> None:
    assume(at != offset_range.start)
    tp = TopicPartition("a", 0)

    with pytest.raises(ValueError, match="expected offset"):
        Checkpoint({tp: at}).advance([Slice(tp, offset_range)])


@given(st.lists(st.integers(1, 50), min_size=2), st.data())
def test_a_missing_or_repeated_piece_is_always_noticed(
    lengths: list[int], data: st.DataObject
) -> None:
    tp, at, pieces = TopicPartition("a", 0), 0, []
    for length in lengths:
        pieces.append(Slice(tp, OffsetRange(at, at + length)))
        at += length
    odd = data.draw(st.integers(0, len(pieces) - 2))
    repeated = [*pieces, pieces[odd]]
    missing = pieces[:odd] + pieces[odd + 1 :]

    for wrong in (repeated, missing):
        with pytest.raises(ValueError, match="expected offset"):
            Checkpoint({tp: 0}).advance(wrong)
