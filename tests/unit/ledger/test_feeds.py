"""DISCOVER: numbers for parts of files, which are the offsets of a feed."""

from dataclasses import replace

import pytest

from landfall.ledger import (
    Add,
    Commit,
    Decision,
    Discover,
    Drop,
    Entry,
    FeedState,
    Hole,
    KnownFiles,
    ParkedPart,
    PartList,
    State,
    feeds,
)
from landfall.ledger.feeds import MAX_IGNORED, MAX_LISTED, MAX_PARKED, MAX_PARTS, SPAN
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.ledger.task_results import LandedSlice, PartRows
from tests.unit.ledger.test_completeness import folded
from tests.unit.ledger.test_ledger import CLICKS, committed, entered, header, refused

FEED = TopicPartition("files", 0)
ASKED = Decision("ignore", "kim", "it is broken", "2026-11-21T00:00:00Z", "r1")


def with_feed() -> State:
    state = entered()
    return folded(state, Add(header=header(state), entries=(Entry(FEED, "id", 0, feed=True),)))


def listed(first: int, end: int, files: int | None = None) -> PartList:
    return PartList(
        f"list-{first}", "0" * 64, first, end, end - first if files is None else files, 9
    )


def known(through: int) -> KnownFiles:
    return KnownFiles("known", "0" * 64, through, through)


def discover(state: State, **fields: object) -> Discover:
    return Discover(header=header(state), topic_partition=FEED, **fields)  # type: ignore[arg-type]  # of any field


def with_parts(count: int) -> State:
    state = with_feed()
    return folded(state, discover(state, listed=listed(0, count)))


def landed(start: int, end: int) -> LandedSlice:
    """Offsets of which none has a row."""
    return LandedSlice(Slice(FEED, OffsetRange(start, end)), (), 0, 0, 0, end - start, 0)


def hole(state: State, start: int, end: int, **fields: object) -> Hole:
    piece = Slice(FEED, OffsetRange(start, end))
    return Hole(header=header(state), piece=piece, reason="broken", **fields)  # type: ignore[arg-type]


def with_parked(*numbers: int, skip: int = 0) -> State:
    """A feed of four parts, the first of which are parked."""
    state = with_parts(4)
    for number in numbers:
        if skip:
            state = committed(state, landed(number * SPAN, number * SPAN + skip))
        parked = hole(state, number * SPAN + skip, (number + 1) * SPAN, attempt=1)
        state = folded(state, parked)
    return state


def test_a_row_of_a_part_has_an_offset_that_shows_both() -> None:
    assert feeds.part_offsets(123) == OffsetRange(123_000_000_000, 124_000_000_000)
    assert feeds.number_of(123_000_000_042) == 123


def test_a_feed_is_landed_as_far_as_it_is_discovered() -> None:
    state = with_parts(2)

    assert committed(state, landed(0, 2 * SPAN)).checkpoint[FEED] == 2 * SPAN
    beyond = discovered_refusal(state, 2 * SPAN + 1)
    assert "files/0: landed up to 2000000001, but its files end at 2000000000" in beyond


def discovered_refusal(state: State, end: int) -> str:
    with pytest.raises(Exception, match="files/0") as error:
        committed(state, landed(0, end))
    return str(error.value)


def test_numbers_are_given_once_and_without_a_gap() -> None:
    state = with_parts(2)
    after = folded(state, discover(state, listed=listed(2, 5)))

    assert after.feeds[FEED] == FeedState(5, (listed(0, 2), listed(2, 5)))
    for first in (0, 1, 3):
        problem = refused(state, discover(state, listed=listed(first, 9)))
        assert f"numbers parts from {first}, expected 2" in problem


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (listed(0, 0), "numbers 0 parts"),
        (listed(0, MAX_LISTED + 1), f"numbers {MAX_LISTED + 1} parts"),
        (listed(0, 2, files=0), "2 parts of 0 files"),
        (listed(0, 2, files=3), "2 parts of 3 files"),
        (PartList("k", "0" * 64, 0, 1, 1, -1), "-1 bytes"),
    ],
)
def test_a_list_has_as_many_parts_as_it_says(wrong: PartList, problem: str) -> None:
    state = with_feed()

    assert problem in refused(state, discover(state, listed=wrong))


def test_a_feed_ends_where_offsets_do() -> None:
    state = with_feed()
    full = replace(state, feeds={FEED: FeedState(MAX_PARTS - 1)})

    assert folded(full, discover(full, listed=listed(MAX_PARTS - 1, MAX_PARTS)))
    beyond = discover(full, listed=listed(MAX_PARTS - 1, MAX_PARTS + 1))
    assert f"up to {MAX_PARTS + 1}" in refused(full, beyond)


def test_lists_are_named_until_they_are_known_and_landed() -> None:
    state = with_parts(2)
    state = folded(state, discover(state, listed=listed(2, 4), known=known(2)))
    assert state.feeds[FEED].lists == (listed(0, 2), listed(2, 4)), "nothing is landed"

    state = committed(state, landed(0, 3 * SPAN))
    state = folded(state, discover(state, known=known(3)))

    assert state.feeds[FEED] == FeedState(4, (listed(2, 4),), known(3))


@pytest.mark.parametrize("through", [1, 2, 5])
def test_what_is_known_grows_and_is_numbered(through: int) -> None:
    state = with_parts(4)
    state = folded(state, discover(state, known=known(2)))

    problem = refused(state, discover(state, known=known(through)))

    assert f"knows the files below {through}, not above 2 and up to 4" in problem


def test_a_hole_parks_what_is_left_of_a_part() -> None:
    state = with_parked(0, 1, skip=7)

    assert state.checkpoint[FEED] == 2 * SPAN
    assert state.feeds[FEED].parked == {
        0: ParkedPart(1, 7, "broken", listed(0, 4)),
        1: ParkedPart(1, 7, "broken", listed(0, 4)),
    }
    assert state.totals.skipped == 2 * SPAN - 14
    assert decode_state(encode_state(state)) == state


def test_a_decision_gives_a_part_up() -> None:
    state = with_parts(1)

    after = folded(state, hole(state, 0, SPAN, decision=ASKED))

    assert (after.checkpoint[FEED], after.feeds[FEED].parked) == (SPAN, {})
    assert after.feeds[FEED].ignored == {0: ParkedPart(0, 0, "broken", listed(0, 1))}


def test_what_a_decision_gives_up_is_remembered_and_not_counted_as_landed() -> None:
    state = with_parked(0, 1)
    state = committed(state, landed(2 * SPAN, 3 * SPAN))

    after = folded(state, discover(state, ignored=(1,), decision=ASKED))

    part = ParkedPart(1, 0, "broken", listed(0, 4))
    assert (after.feeds[FEED].parked, after.feeds[FEED].ignored) == ({0: part}, {1: part})
    assert feeds.landed_parts(after.feeds[FEED], after.checkpoint[FEED]) == 1
    assert decode_state(encode_state(after)) == after


def test_what_was_given_up_may_be_landed_after_all() -> None:
    state = with_parked(0, 1)
    state = folded(state, discover(state, ignored=(0, 1), decision=ASKED))

    again = discover(state, listed=listed(4, 5), again=(0,), replaced=(1,), decision=ASKED)

    assert folded(state, again).feeds[FEED].ignored == {}
    undecided = discover(state, listed=listed(4, 5), again=(0,))
    assert "lands what was given up without a decision: (0,)" in refused(state, undecided)
    twice = discover(state, ignored=(0,), decision=ASKED)
    assert "gives up what is given up: [0]" in refused(state, twice)


def test_no_more_parts_are_given_up_than_a_state_can_hold() -> None:
    state = with_parked(0)
    part = ParkedPart(1, 0, "", listed(0, 4))
    full = dict.fromkeys(range(10, 10 + MAX_IGNORED), part)
    state = replace(state, feeds={FEED: replace(state.feeds[FEED], ignored=full)})

    problem = refused(state, discover(state, ignored=(0,), decision=ASKED))

    assert f"more than {MAX_IGNORED} parts would be given up" in problem


@pytest.mark.parametrize(
    ("start", "end", "attempt", "problem"),
    [
        (0, 2 * SPAN, 1, "not what is left of one part"),
        (0, SPAN - 1, 1, "not what is left of one part"),
        (0, 0, 1, "not what is left of one part"),
        (0, SPAN, 0, "parked without an attempt"),
    ],
)
def test_a_hole_is_the_rest_of_one_part(start: int, end: int, attempt: int, problem: str) -> None:
    state = with_parts(4)

    assert problem in refused(state, hole(state, start, end, attempt=attempt))


def test_only_feeds_have_attempts() -> None:
    state = entered()
    piece = Slice(CLICKS, OffsetRange(0, 3))

    problem = refused(state, Hole(header=header(state), piece=piece, reason="gone", attempt=1))

    assert "clicks/0: counts attempts, but it is no feed" in problem


def test_no_more_parts_are_parked_than_a_state_can_hold() -> None:
    state = with_parts(1)
    full = {number: ParkedPart(1, 0, "", listed(0, 4)) for number in range(MAX_PARKED)}
    state = replace(state, feeds={FEED: replace(state.feeds[FEED], parked=full)})

    assert f"more than {MAX_PARKED} parts" in refused(state, hole(state, 0, SPAN, attempt=1))


def test_parked_parts_get_other_numbers_or_are_taken_out() -> None:
    state = with_parked(0, 1, 2)
    record = discover(
        state, listed=listed(4, 6), again=(0,), replaced=(1,), ignored=(2,), decision=ASKED
    )

    after = folded(state, record)

    assert (after.feeds[FEED].parked, after.feeds[FEED].end) == ({}, 6)
    assert after.feeds[FEED].ignored.keys() == {2}
    assert decode_state(encode_state(after)) == after
    assert after.decision_ids == ("r1",)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"replaced": (3,)}, "takes parts that are not parked: [3]"),
        ({"replaced": (0, 0)}, "takes parts that are not parked: [0, 0]"),
        ({"again": (0,), "replaced": (0,), "listed": listed(4, 5)}, "not parked: [0, 0]"),
        ({"again": (0,)}, "1 parts get other numbers in a list of 0"),
        ({"again": (0, 1), "listed": listed(4, 5)}, "2 parts get other numbers in a list of 1"),
        ({"ignored": (0,)}, "gives parts up without a decision: [0]"),
        ({}, "discovers nothing"),
    ],
)
def test_parts_are_taken_out_for_a_reason(fields: dict[str, object], problem: str) -> None:
    state = with_parked(0, 1)

    assert problem in refused(state, discover(state, **fields))


def test_files_are_discovered_for_a_feed_of_the_lane() -> None:
    state = with_feed()
    of_kafka = Discover(header=header(state), topic_partition=CLICKS, listed=listed(0, 1))
    assert "clicks/0: is no feed" in refused(state, of_kafka)

    dropped = folded(state, Drop(header=header(state), topic_partitions=(FEED,), reason="gone"))

    assert dropped.feeds == {}
    assert "files/0: is no feed" in refused(dropped, discover(dropped, listed=listed(0, 1)))


def test_a_feed_begins_with_its_first_file() -> None:
    state = entered()
    entry = Entry(FEED, "id", 5, feed=True)

    problem = refused(state, Add(header=header(state), entries=(entry,)))

    assert "files/0: the feed enters at offset 5, not at 0" in problem


def counted(start: int, end: int, *parts: PartRows) -> LandedSlice:
    """A slice of which a transform has left all rows out."""
    rows = sum(part.filtered for part in parts)
    piece = Slice(FEED, OffsetRange(start, end))
    return LandedSlice(piece, (), 0, rows, 0, end - start - rows, 0, parts=parts)


def commit_of(state: State, landed_: LandedSlice) -> Commit:
    return Commit(header=header(state), token="token", slices=(landed_,))


def test_a_slice_counts_the_rows_of_each_of_its_parts() -> None:
    rows = PartRows(0, 0, 20, 0), PartRows(1, 0, 5, 0)
    state = committed(with_parts(2), landed(0, SPAN - 20))

    after = folded(state, commit_of(state, counted(SPAN - 20, SPAN + 20, *rows)))

    assert after.checkpoint[FEED] == SPAN + 20


@pytest.mark.parametrize(
    ("end", "part", "why"),
    [
        (SPAN - 10, PartRows(1, 0, 1, 0), "counts 1 records of part 1, which has 0"),
        (SPAN + 20, PartRows(0, 0, 21, 0), "counts 21 records of part 0, which has 20"),
    ],
)
def test_a_slice_counts_no_row_of_what_it_has_not_read(end: int, part: PartRows, why: str) -> None:
    state = committed(with_parts(2), landed(0, SPAN - 20))

    assert why in refused(state, commit_of(state, counted(SPAN - 20, end, part)))


def test_a_topic_of_kafka_has_no_parts() -> None:
    state = entered()
    piece = Slice(CLICKS, OffsetRange(0, 10))
    wrong = LandedSlice(piece, (), 0, 1, 0, 9, 0, parts=(PartRows(0, 0, 1, 0),))

    found = refused(state, commit_of(state, wrong))

    assert "counts parts of files, but it is no feed" in found
