"""RUN: what must be so before a driver may be gone until the next range is due."""

import pytest
from msgspec.structs import replace

from landfall.errors import Reason
from landfall.ledger import Block, Blocked, ClosedTopic, EndedRun, Missing, Run, State, Totals, Work
from landfall.ledger.feeds import SPAN
from landfall.ledger.offsets import OffsetRange
from landfall.ledger.snapshot import decode_state, encode_state
from landfall.ledger.state import KEPT_RUNS
from tests.unit.ledger.test_completeness import (
    OTHER,
    blocked_for,
    data_object,
    finalize,
    folded,
    slice_until,
    with_two_members,
)
from tests.unit.ledger.test_feeds import discover, landed, listed, with_parked, with_parts
from tests.unit.ledger.test_ledger import committed, entered, header, refused

HOUR = 3_600
BEGAN = "2026-11-21T00:00:00+00:00"


def clicks(*ends: tuple[int, int], complete: int = -1) -> tuple[ClosedTopic, ...]:
    return (ClosedTopic("clicks", ends, complete),)


def run(
    state: State,
    until: int = HOUR,
    topics: tuple[ClosedTopic, ...] = (),
    left: tuple[str, ...] = (),
    applied: int | None = None,
) -> Run:
    at = header(state, state.seq if applied is None else applied)
    return Run(header=at, until=until, began=BEGAN, topics=topics, left=left, delay=10)


def with_one_member() -> State:
    return committed(entered(), slice_until(100))


def test_a_run_says_what_has_landed_since_the_one_before() -> None:
    state = with_one_member()
    first = folded(state, run(state, HOUR, clicks((0, 5))))
    landed = committed(first, slice_until(100, 5, 8))
    second = folded(landed, run(landed, 2 * HOUR, clicks((0, 7))))

    assert second.runs == (
        EndedRun(HOUR, BEGAN, BEGAN, (), Totals(1, 1, 5, landed_bytes=10), 3),
        EndedRun(2 * HOUR, BEGAN, BEGAN, (), Totals(1, 1, 3, landed_bytes=10), 5, Work(1)),
    )
    assert second.run_totals == second.totals
    assert decode_state(encode_state(second)) == second


def test_from_the_second_run_on_it_says_what_tasks_did() -> None:
    state = with_one_member()
    first = folded(state, run(state, HOUR, clicks((0, 5))))
    slow = replace(slice_until(100, 5, 8), seconds=2.0)
    quick = replace(slice_until(100, 8, 9), seconds=0.25)
    landed = committed(committed(first, slow), quick)
    second = folded(landed, run(landed, 2 * HOUR, clicks((0, 9))))

    assert landed.run_work == Work(slices=2, task_ms=2250, longest_ms=2000)
    assert [each.work for each in second.runs] == [Work(), landed.run_work]
    assert second.run_work == Work()
    assert decode_state(encode_state(landed)) == landed


def test_a_run_ends_when_all_that_is_committed_is_visible() -> None:
    state = with_one_member()

    assert "objects of slot 2 are not visible" in refused(
        state, run(state, HOUR, clicks((0, 5)), applied=1)
    )
    assert folded(state, run(state, HOUR, clicks((0, 5)), applied=2)).runs


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ((), "clicks/0 is neither landed nor left"),
        (clicks((0, 5)), "clicks/1 is neither landed nor left"),
        (clicks((0, 6), (1, 7)), "clicks/0 at 6, but it is blocked or its checkpoint is 5"),
        (clicks((0, 5), (1, 7), (2, 0)), "clicks/2, which is not in the lane"),
        (clicks((0, 5), (1, 7), (1, 7)), "a topic partition twice"),
    ],
)
def test_each_topic_partition_has_reached_the_end(
    topics: tuple[ClosedTopic, ...], message: str
) -> None:
    state = with_two_members()

    assert message in refused(state, run(state, HOUR, topics))


def test_a_topic_is_left_as_a_whole() -> None:
    state = with_two_members()
    partly = run(state, HOUR, clicks((0, 5)), ("clicks",))

    assert folded(state, run(state, HOUR, (), ("clicks",))).runs[-1].left == ("clicks",)
    assert "ends a run of clicks, and leaves it" in refused(state, partly)


def test_a_blocked_topic_partition_has_not_reached_the_end() -> None:
    state = with_two_members()
    entry = Blocked(OTHER, Reason.DATA_LOSS, "truncated", OffsetRange(0, 7))
    state = folded(state, Block(header=header(state), entries=(entry,)))

    assert "it is blocked" in refused(state, run(state, HOUR, clicks((0, 5), (1, 7))))


def test_a_topic_with_missing_objects_is_left() -> None:
    state = with_one_member()
    missing = blocked_for(state, Missing(2, (data_object(state).upload.key,)))

    assert "is blocked" in refused(missing, run(missing, HOUR, clicks((0, 5))))
    assert folded(missing, run(missing, HOUR, (), ("clicks",))).runs


def test_a_topic_is_complete_from_the_slot_of_its_run_on() -> None:
    state = with_two_members()
    complete = clicks((0, 5), (1, 7), complete=HOUR - 10)

    assert folded(state, run(state, HOUR, complete)).horizons == {"clicks": HOUR - 10}


@pytest.mark.parametrize(
    ("complete", "message"),
    [
        (HOUR - 9, "less than the delay before the end of the range, 3600"),
        (90, "which is not after 90"),
        (80, "which is not after 90"),
    ],
)
def test_a_horizon_of_a_run_is_later_and_within_the_range(complete: int, message: str) -> None:
    state = with_two_members()
    state = folded(state, finalize(state, 90, ((1, 7),)))

    assert message in refused(state, run(state, HOUR, clicks((0, 5), (1, 7), complete=complete)))


@pytest.mark.parametrize("until", [HOUR - 1, HOUR])
def test_runs_follow_each_other_in_the_order_of_their_ranges(until: int) -> None:
    state = with_one_member()
    state = folded(state, run(state, HOUR, clicks((0, 5))))

    assert f"ends a run until {until}, after one until {HOUR}" in refused(
        state, run(state, until, clicks((0, 5)))
    )


def test_a_run_is_repeated_once_fewer_topics_are_left() -> None:
    state = with_two_members()
    partly = folded(state, run(state, HOUR, (), ("clicks", "gone")))

    again = folded(partly, run(partly, HOUR, (), ("clicks",)))

    assert [each.left for each in again.runs] == [("clicks", "gone"), ("clicks",)]
    for left in (("clicks",), ("clicks", "gone")):
        assert "after one until" in refused(again, run(again, HOUR, (), left))


def test_a_state_remembers_the_last_runs() -> None:
    state = entered()
    for number in range(1, KEPT_RUNS + 3):
        state = folded(state, run(state, number, (), ("clicks",)))

    assert [state.runs[0].until, state.runs[-1].until] == [3, KEPT_RUNS + 2]
    assert [state.runs[0].slot, state.runs[-1].slot] == [4, KEPT_RUNS + 3]


def files_run(state: State, end: int, left: tuple[str, ...] = ()) -> Run:
    topics = () if left else (ClosedTopic("files", ((0, end * SPAN),)),)
    return run(state, HOUR, (*clicks((0, 0)), *topics), left)


def test_a_run_of_a_feed_ends_where_its_numbers_do() -> None:
    state = with_parts(2)
    state = committed(state, landed(0, 2 * SPAN))
    more = folded(state, discover(state, listed=listed(2, 3)))

    assert folded(state, files_run(state, 2)).runs
    assert f"ends a run of files/0 at {2 * SPAN}, but its files end at {3 * SPAN}" in refused(
        more, files_run(more, 2)
    )


def test_a_run_leaves_a_feed_of_which_parts_are_parked() -> None:
    state = with_parked(0, 1, 2, 3)

    assert "4 parts are parked" in refused(state, files_run(state, 4))
    assert folded(state, files_run(state, 4, left=("files",))).runs
