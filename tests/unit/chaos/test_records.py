"""The load's records: each one names itself."""

import json
import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.chaos.records import (
    DAY,
    DAYS_BACK,
    TOPICS,
    Identity,
    Record,
    Topic,
    event_now,
    identity,
    record,
)

NOW = int(datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp() * 1000)
CLICKS = TOPICS[0]


def make_records(count: int, topic: Topic = CLICKS) -> list[Record]:
    rng = random.Random(1)
    return [record(Identity("x.clicks", n), topic, rng, NOW) for n in range(count)]


def test_every_record_is_identified() -> None:
    records = make_records(20_000)

    assert [identity(r.value, r.key) for r in records] == [
        Identity("x.clicks", n) for n in range(len(records))
    ]


def test_a_tombstone_is_identified_by_its_key_even_with_an_empty_value() -> None:
    key = next(r.key for r in make_records(20_000) if r.value is None)

    assert identity(b"", key) == identity(None, key) is not None


def test_the_load_has_records_of_all_kinds() -> None:
    records = make_records(20_000)

    assert any(r.value is None for r in records)
    assert any(r.key is None for r in records)
    assert any(r.headers for r in records)
    assert {100 <= r.size <= 1_000_000 for r in records if r.value} == {True}
    assert any(r.size == 1_000_000 for r in records)
    assert Counter(r.partition for r in records)[0] > len(records) * CLICKS.hot
    assert {r.partition for r in records} == set(range(CLICKS.partitions))


def test_event_times_jump_by_days_and_touch_midnight() -> None:
    times = [json.loads(r.value)["ts"] for r in make_records(5_000) if r.value]

    assert {at // DAY - NOW // DAY for at in times} == {-3, -2, -1, 0, 1, 2}
    assert {(at + 3) % DAY for at in times} >= set(range(6))
    assert sum(NOW - 5000 < at <= NOW for at in times) > len(times) * 0.8


def test_a_day_of_event_times_passes_in_two_minutes() -> None:
    began = NOW / 1000

    assert event_now(began, began) == NOW - DAYS_BACK * DAY
    assert event_now(began, began + 120) == event_now(began, began) + DAY


def test_the_shares_of_the_topics_add_up_to_one() -> None:
    assert sum(topic.share for topic in TOPICS) == pytest.approx(1)


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b"{}", b"k"),
        (b"[]", None),
        (b"\xff", None),
        (b"null", None),
        (b"", None),
        (None, None),
        (None, b"k"),
    ],
)
def test_a_record_of_other_producers_is_not_identified(
    value: bytes | None, key: bytes | None
) -> None:
    assert identity(value, key) is None
