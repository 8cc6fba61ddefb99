"""Folding takes time in proportion to what a record says, not to its square."""

from collections.abc import Callable
from dataclasses import replace

from landfall import ledger
from landfall.ledger import Header, Member, State
from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition
from tests.support.work import growth, lines_run

FEW, MANY = 1_000, 10_000
PROPORTIONAL, SQUARE = MANY / FEW, (MANY / FEW) ** 2
BOUND = (PROPORTIONAL * SQUARE) ** 0.5
"""As far from growth in proportion as from growth by the square: a factor of three each."""

TPS = [TopicPartition(f"topic-{i // 16}", i % 16) for i in range(MANY)]
HEADER = Header(1, "", 1, "w", "2026-11-21T12:00:00+00:00")
OPENED = State(seq=0, tip="", epoch=1, writer="w", holding=ledger.LaneOwnership.HELD)


def lane_of(count: int) -> State:
    return replace(
        OPENED,
        checkpoint=Checkpoint(dict.fromkeys(TPS[:count], 5)),
        members={tp: Member("id", 1) for tp in TPS[:count]},
    )


def folding(state: State, record: ledger.Record) -> Callable[[], State]:
    body = ledger.encode(record)
    return lambda: ledger.fold(state, body)


def test_topic_partitions_enter_in_time_that_grows_as_they_do() -> None:
    def entering(count: int) -> Callable[[], State]:
        entries = tuple(ledger.Entry(tp, "id", 0) for tp in TPS[:count])
        return folding(OPENED, ledger.Add(header=HEADER, entries=entries))

    after = entering(MANY)()
    assert len(after.members) == len(after.checkpoint.next_offsets) == MANY
    assert growth(entering(FEW), entering(MANY)) < BOUND


def test_topic_partitions_leave_in_time_that_grows_as_they_do() -> None:
    def leaving(count: int) -> Callable[[], State]:
        gone = tuple(TPS[:count])
        return folding(
            lane_of(count), ledger.Drop(header=HEADER, topic_partitions=gone, reason="deleted")
        )

    after = leaving(MANY)()
    assert not after.members
    assert len(after.retired) == MANY
    assert growth(leaving(FEW), leaving(MANY)) < BOUND


def test_a_small_record_costs_no_more_in_a_lane_of_ten_thousand() -> None:
    hole = ledger.Hole(header=HEADER, piece=Slice(TPS[7], OffsetRange(5, 9)), reason="expired")

    in_large, in_small = (lines_run(folding(lane_of(count), hole)) for count in (MANY, FEW))

    assert in_large == in_small
