"""What another group has landed, as the driver's side of a log sees it."""

from datetime import UTC, datetime

import pytest

from landfall import ledger
from landfall.api.spec import LandedSource
from landfall.errors import Reason, Stalled
from landfall.landed.history import History
from landfall.landed.log import LandedLog
from landfall.lane import Lane
from landfall.ledger import Drop
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.source import Bound, Topic
from landfall.store.memory import MemoryStore
from tests.support.driver.slice_landing import TP, click
from tests.support.ledger.landed_group import PARQUET, Backup, carry_out, merge_of, within
from tests.support.ledger.sample_ledger import GROUP, LANE

ROWS = [click(o) for o in range(200)]
FIRST, SECOND, LATE = (TopicPartition("clicks", n) for n in (0, 1, 2))
VIEWS = TopicPartition("views", 0)


def log_of(store: MemoryStore, **topics: object) -> LandedLog:
    landed = LandedSource.model_validate(
        {"group": GROUP, "url": "s3://backup/root", **(topics or {"topicPattern": ".*"})}
    )
    return LandedLog(landed, History(Lane(store, GROUP, LANE), store.stat, landed.selects))


def backup() -> Backup:
    return Backup({FIRST: ROWS, SECOND: ROWS, VIEWS: ROWS})


def offsets(log: LandedLog, bound: Bound, *tps: TopicPartition) -> list[int | None]:
    found = log.offsets(tps, bound).offsets
    return [found.get(tp) for tp in tps]


def test_topics_are_those_that_are_landed_and_selected() -> None:
    landed = backup()

    clicks, views = Topic("clicks", "id", 2), Topic("views", "id", 1)
    assert log_of(landed.store).topics().topics == (clicks, views)
    assert log_of(landed.store, topics=["views"]).topics().topics == (views,)
    assert log_of(landed.store, topicPattern=".*", exclude="v.*").topics().topics == (clicks,)
    assert log_of(landed.store).describe({"views", "other"}).topics == (views,)


def test_the_log_ends_where_all_is_visible() -> None:
    landed = backup()
    log = log_of(landed.store)
    assert offsets(log, Bound.END, FIRST, SECOND, LATE) == [0, 0, None]

    landed.land(0, 10, 20, tp=FIRST, complete=False)
    assert offsets(log, Bound.END, FIRST) == [0]
    landed.complete().settle()
    assert offsets(log, Bound.END, FIRST) == [20]
    landed.land(20, 30, tp=FIRST, complete=False)

    assert offsets(log, Bound.END, FIRST, SECOND) == [20, 0]
    assert offsets(log, Bound.LOG_START, FIRST, SECOND) == [0, 0]
    assert log.offsets_at([FIRST], datetime.now(UTC)) == {}


def test_the_log_does_not_wait_for_a_record_to_confirm_what_is_visible() -> None:
    landed = backup().land(0, 10, 20, tp=FIRST)
    log = log_of(landed.store)

    assert offsets(log, Bound.END, FIRST, SECOND) == [20, 0]
    landed.land(20, 30, tp=FIRST, complete=False).land(0, 5, tp=SECOND)
    assert offsets(log, Bound.END, FIRST, SECOND) == [20, 5]
    landed.complete()
    assert offsets(log, Bound.END, FIRST, SECOND) == [30, 5]


def test_a_topic_that_kafka_forgot_is_still_in_the_log() -> None:
    landed = backup()
    landed.land(0, 10, 20, tp=FIRST).settle()
    landed.sample.append(lambda h: Drop(header=h, topic_partitions=(FIRST,), reason="deleted"))
    rolled = log_of(landed.store)

    for log in (rolled, log_of(landed.store)):
        assert offsets(log, Bound.END, FIRST) == [20]
        assert log.topics().topics[0] == Topic("clicks", "id", 2)
    landed.settle().roll()
    for log in (rolled, log_of(landed.store)):
        assert offsets(log, Bound.END, FIRST) == [20]
        assert offsets(log, Bound.LOG_START, FIRST) == [0]
    assert landed.read(5, 15, FIRST) == within(ROWS, 5, 15)


def test_a_topic_that_was_created_again_is_the_last_one() -> None:
    landed = backup()
    landed.land(0, 10, 20, tp=FIRST).settle()
    landed.sample.append(lambda h: Drop(header=h, topic_partitions=(FIRST, SECOND), reason="new"))
    landed.open(generation=2)
    entry = ledger.Entry(FIRST, "another", 5)
    landed.sample.append(lambda h: ledger.Add(header=h, entries=(entry,)))
    landed.land(5, 12, tp=FIRST).settle()
    log = log_of(landed.store)

    for is_rolled in (False, True):
        if is_rolled:
            landed.roll()
        assert log.topics().topics[0] == Topic("clicks", "another", 1)
        assert offsets(log, Bound.LOG_START, FIRST) == [5]
        assert offsets(log, Bound.END, FIRST) == [12]
        assert landed.read(5, 12, FIRST) == within(ROWS, 5, 12)


def test_a_partition_that_a_topic_had_before_it_was_created_again_is_none_of_its_own() -> None:
    landed = backup()
    landed.land(0, 10, 20, tp=FIRST).land(0, 30, tp=SECOND).settle()
    landed.sample.drop(FIRST, SECOND)
    landed.open(generation=2)
    entries = ledger.Entry(FIRST, "another", 0), ledger.Entry(LATE, "another", 0)
    landed.sample.append(lambda h: ledger.Add(header=h, entries=entries))
    landed.land(0, 12, tp=FIRST).settle()
    log = log_of(landed.store)

    assert log.topics().topics[0] == Topic("clicks", "another", 3)
    assert offsets(log, Bound.LOG_START, FIRST, SECOND, LATE) == [0, None, 0]
    assert offsets(log, Bound.END, FIRST, SECOND, LATE) == [12, None, 0]


def test_a_dropped_topic_ends_with_its_last_range_though_rows_of_a_former_life_are_merged() -> None:
    landed = Backup({TP: ROWS}).land(0, 50, 100).settle()
    landed.sample.drop(TP)
    landed.open(generation=2).sample.add(TP)
    landed.land(0, 10, 20).settle()
    whole = Slice(TP, OffsetRange(0, 100))
    carry_out(landed, merge_of(landed, generation=1), slices=(whole,))
    landed.sample.drop(TP)
    landed.settle()

    for is_rolled in (False, True):
        if is_rolled:
            landed.roll()
        assert offsets(log_of(landed.store), Bound.END, TP) == [20]
        assert landed.read(0, 20) == within(ROWS, 0, 20)


def test_ranges_are_found_in_segments_and_behind_them() -> None:
    landed = backup()
    for start in range(0, 90, 30):
        landed.land(start, start + 10, start + 20, start + 30, tp=FIRST).settle()
        landed.land(start, start + 30, tp=SECOND).settle()
        landed.roll()
    landed.land(90, 120, tp=FIRST).settle()

    for start, end in ((0, 120), (25, 26), (31, 95), (89, 91), (95, 120)):
        assert landed.read(start, end, FIRST) == within(ROWS, start, end)
    assert landed.read(10, 80, SECOND) == within(ROWS, 10, 80)


def test_a_topic_whose_objects_do_not_hold_it_is_denied_alone() -> None:
    typed = {"pattern": "views", "decode": {"columns": [{"name": "n", "type": "Int64"}]}}
    landed = Backup({FIRST: ROWS, VIEWS: ROWS}, PARQUET, {"topics": [typed]})

    found = log_of(landed.store).topics()

    assert [topic.name for topic in found.topics] == ["clicks"]
    assert found.denied["views"].reason is Reason.SPEC_INVALID
    with pytest.raises(Stalled, match="typed columns does not hold the payloads"):
        log_of(landed.store, topics=["views"]).topics()


def test_a_group_that_has_landed_nothing_is_named() -> None:
    with pytest.raises(Stalled, match="shop has landed nothing in s3://backup/root") as stalled:
        log_of(MemoryStore()).topics()

    assert stalled.value.reason is Reason.SPEC_INVALID
    assert TP.topic == "clicks"
