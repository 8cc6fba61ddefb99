"""What a snapshot grows by for ever: topics that are gone, and segments. docs/performance.md."""

from dataclasses import replace

from landfall.ledger import Header, Rolled, State, encode, fold, next_header
from landfall.ledger.entries import Entry
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.records import (
    Add,
    Commit,
    Drop,
    Open,
)
from landfall.ledger.snapshot import encode_state
from landfall.ledger.task_results import LandedSlice
from tests.support.work import lines_run

TEN_YEARS_OF_DAILY_TOPICS = 10 * 365 * 10
"""Topic partitions of one topic a day, with ten Kafka partitions each."""


def bytes_each(state: State, count: int) -> float:
    return (len(encode_state(state)) - len(encode_state(State()))) / count


def retired(count: int) -> dict[TopicPartition, int]:
    return {TopicPartition(f"events.day-{n // 10:05d}", n % 10): 1 for n in range(count)}


def test_a_topic_partition_that_is_gone_takes_the_bytes_that_the_page_says() -> None:
    count = TEN_YEARS_OF_DAILY_TOPICS

    assert 45 < bytes_each(State(retired=retired(count)), count) < 60


def test_a_segment_takes_the_bytes_that_the_page_says() -> None:
    key = f"_landfall/a-group/0-segments/{0:020d}-{0:020d}-{0:010d}-{'0' * 16}.seg"
    rolled = Rolled(10**6, 10**6 + 5000, 2000, key, "0" * 64, "1" * 64, "2" * 64)

    assert 350 < bytes_each(State(segments=(rolled,) * 1000), 1000) < 450


def test_ten_years_of_daily_topics_add_no_work_to_a_record() -> None:
    header = Header(0, State().tip, 1, "w", "t", -1)
    first = Open(header=header, group="g", lane="0", generation=2, software="test")
    opened = fold(State(), encode(first))
    days = retired(TEN_YEARS_OF_DAILY_TOPICS)
    tp = TopicPartition("today", 0)
    landed = LandedSlice(Slice(tp, OffsetRange(0, 10)), (), 0, 0, 0, 10, 0)

    def records(state: State) -> State:
        for make in (
            lambda h: Add(header=h, entries=(Entry(tp, "id", 0),)),
            lambda h: Commit(header=h, token="token", slices=(landed,)),
            lambda h: Drop(header=h, topic_partitions=(tp,), reason="gone"),
        ):
            state = fold(state, encode(make(next_header(state, "w", "t", -1))))
        return state

    after_years = replace(opened, retired=days)

    assert len(records(after_years).retired) == len(days) + 1
    assert lines_run(lambda: records(after_years)) == lines_run(lambda: records(opened))
