"""Folding takes time in proportion to what a record says, not to its square."""

import time
from dataclasses import replace

from landfall import ledger
from landfall.ledger import Header, Member, State
from landfall.ledger.offsets import Checkpoint, OffsetRange, Slice, TopicPartition

MANY = 10_000
TPS = [TopicPartition(f"topic-{i // 16}", i % 16) for i in range(MANY)]
HEADER = Header(1, "", 1, "w", "2026-11-21T12:00:00+00:00")
OPENED = State(seq=0, tip="", epoch=1, writer="w", holding=ledger.LaneOwnership.HELD)
FULL = replace(
    OPENED,
    checkpoint=Checkpoint(dict.fromkeys(TPS, 5)),
    members={tp: Member("id", 1) for tp in TPS},
)


def cpu_seconds(state: State, record: ledger.Record) -> tuple[float, State]:
    body = ledger.encode(record)
    before = time.process_time()
    after = ledger.fold(state, body)
    return time.process_time() - before, after


def test_ten_thousand_topic_partitions_enter_in_half_a_second() -> None:
    entries = tuple(ledger.Entry(tp, "id", 0) for tp in TPS)

    seconds, after = cpu_seconds(OPENED, ledger.Add(header=HEADER, entries=entries))

    assert len(after.members) == len(after.checkpoint.next_offsets) == MANY
    assert seconds < 0.5


def test_ten_thousand_topic_partitions_leave_in_half_a_second() -> None:
    record = ledger.Drop(header=HEADER, topic_partitions=tuple(TPS), reason="deleted")

    seconds, after = cpu_seconds(FULL, record)

    assert not after.members
    assert len(after.retired) == MANY
    assert seconds < 0.5


def test_a_small_record_costs_little_in_a_lane_of_ten_thousand() -> None:
    hole = ledger.Hole(header=HEADER, piece=Slice(TPS[7], OffsetRange(5, 9)), reason="expired")

    seconds = min(cpu_seconds(FULL, hole)[0] for _ in range(20))

    assert seconds < 0.002
