"""Which short slices are fetched at once."""

import numpy as np

from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source.ahead import MAX_OFFSETS, MAX_SLICES, FetchedAhead
from landfall.source.messages import Messages

NOTHING = Messages([], np.array([], np.int64), np.array([], np.int64))


def slices(count: int, length: int = 3) -> list[Slice]:
    return [Slice(TopicPartition("t", n), OffsetRange(0, length)) for n in range(count)]


def expecting(*expected: Slice) -> FetchedAhead:
    ahead = FetchedAhead()
    ahead.expect(expected)
    return ahead


def test_short_slices_are_fetched_in_groups_and_once() -> None:
    expected = slices(MAX_SLICES + 2)
    ahead = expecting(*expected)

    assert ahead.company(expected[0]) == expected[:MAX_SLICES]
    assert ahead.company(expected[1]) == []
    assert ahead.company(expected[MAX_SLICES]) == expected[MAX_SLICES:]


def test_what_is_long_or_empty_or_not_expected_or_the_only_one_is_read_alone() -> None:
    long, other = slices(2, MAX_OFFSETS + 1)
    (short,) = slices(1)
    empty = Slice(TopicPartition("u", 0), OffsetRange(5, 5))
    ahead = expecting(long, empty, short)

    assert [ahead.company(s) for s in (long, empty, short, other)] == [[], [], [], []]


def test_long_slices_between_them_do_not_part_short_ones() -> None:
    first, second = slices(2)
    long = Slice(TopicPartition("u", 0), OffsetRange(0, MAX_OFFSETS + 1))

    assert expecting(first, long, second).company(first) == [first, second]


def test_slices_of_one_topic_partition_are_never_fetched_at_once() -> None:
    first, other = slices(2)
    second = Slice(first.topic_partition, OffsetRange(3, 6))
    ahead = expecting(first, other, second)

    assert ahead.company(first) == [first, other]
    assert ahead.company(second) == []


def test_what_was_fetched_is_taken_once_and_forgotten_with_the_next_task() -> None:
    first, second = slices(2)
    ahead = expecting(first, second)
    ahead.keep({first: NOTHING, second: NOTHING})

    assert ahead.take(first) is NOTHING
    assert ahead.take(first) is None
    ahead.expect([second])
    assert ahead.take(second) is None
