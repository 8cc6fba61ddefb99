"""Which records open transactions hold back, and since when."""

from datetime import UTC, datetime, timedelta

from landfall.driver.decide.held_back import HeldBack, held_back
from landfall.ledger.offsets import TopicPartition

NOW = datetime(2126, 11, 21, tzinfo=UTC)
LATER = NOW + timedelta(minutes=20)
A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)


def test_records_from_the_last_stable_offset_to_the_high_watermark_are_held_back() -> None:
    assert held_back({}, {A0: 13, B0: 5}, {A0: 10, B0: 5}, NOW) == {A0: HeldBack(10, 3, NOW)}


def test_the_time_counts_from_when_the_last_stable_offset_stopped() -> None:
    before = {A0: HeldBack(10, 3, NOW)}

    assert held_back(before, {A0: 20}, {A0: 10}, LATER) == {A0: HeldBack(10, 10, NOW)}
    assert held_back(before, {A0: 20}, {A0: 15}, LATER) == {A0: HeldBack(15, 5, LATER)}
    assert held_back(before, {A0: 20}, {A0: 20}, LATER) == {}


def test_an_end_that_grew_since_the_high_watermark_was_read_holds_nothing_back() -> None:
    assert held_back({}, {A0: 13}, {A0: 20}, NOW) == {}


def test_a_topic_partition_without_an_end_is_left_out() -> None:
    assert held_back({}, {A0: 13}, {}, NOW) == {}
