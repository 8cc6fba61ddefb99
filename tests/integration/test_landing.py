"""Whole drivers on real Kafka, real S3 and local Spark land every kind of input exactly once."""

import time
from collections import Counter

import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from landfall.errors import Reason
from tests.support.audit.independent_audit import (
    EXACT,
    audit,
    data_keys,
    events,
    in_bucket,
    in_kafka,
    parquet_rows,
)
from tests.support.kafka.broker import Message
from tests.support.landing.group import Scene, land, landing
from tests.support.waiting import wait_for

pytestmark = pytest.mark.xdist_group("spark")


def exact(scene: Scene) -> bool:
    """Assert that every record has landed exactly once and that fsck finds nothing."""
    assert scene.audit() == EXACT
    assert scene.faults() == []
    return True


def test_a_restarted_driver_continues_where_the_last_one_stopped(
    scene: Scene, context: SparkContext
) -> None:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(topic, [*events(range(1000), 0), *events(range(1000, 1700), 1)])
    assert land(scene.group(), context).code is ExitCode.OK
    before = set(data_keys(scene.bucket))
    scene.kafka.produce(topic, events(range(2000, 2500), 1))

    again = land(scene.group(), context)

    assert (again.code, again.now.rates.landed_records) == (ExitCode.OK, 500)
    assert before < set(data_keys(scene.bucket))
    assert exact(scene)


def test_aborted_transactions_are_invisible(scene: Scene, context: SparkContext) -> None:
    topic = scene.topic()
    for n in range(4):
        scene.kafka.produce_transaction(
            topic, events(range(n * 100, n * 100 + 100)), commit=n % 2 == 0
        )
    scene.kafka.produce(topic, events(range(900, 950)))
    scene.kafka.produce_transaction(topic, events(range(400, 500)), commit=False)

    assert land(scene.group(), context).code is ExitCode.OK

    totals = scene.state().totals
    # Invisible are 300 aborted records and a marker for each of 5 transactions.
    assert (totals.landed, totals.invisible) == (250, 305)
    assert exact(scene)


def test_records_after_an_open_transaction_are_not_landed_before_it_ends(
    scene: Scene, context: SparkContext
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(100)))
    transaction = scene.kafka.transaction()
    scene.kafka.send(transaction, topic, events(range(100, 200)))
    scene.kafka.flush(transaction)
    scene.kafka.produce(topic, events(range(200, 300)))

    held = land(scene.group(), context)
    assert (held.code, held.now.lag_records, held.now.rates.landed_records) == (ExitCode.OK, 0, 100)
    transaction.commit_transaction()

    assert land(scene.group(), context).code is ExitCode.OK
    assert exact(scene)


def test_a_compacted_topic_is_landed_without_the_compacted_records(
    scene: Scene, context: SparkContext
) -> None:
    topic = scene.topic(
        cleanup_policy="compact",
        segment_bytes=1_048_576,
        min_cleanable_dirty_ratio=0.01,
        segment_ms=1000,
    )
    padding = b" " * 200
    keyed = [
        Message(m.value + padding, b"%d" % (n % 50))
        for n, m in enumerate(events(range(10_000)))
        if m.value
    ]
    scene.kafka.produce(topic, keyed)
    # The active segment is never cleaned. It must be a second old, so that the next
    # record rolls it.
    time.sleep(1.1)
    scene.kafka.produce(topic, (Message(m.value, b"last") for m in events(range(10_000, 10_001))))
    wait_for(lambda: sum(in_kafka(scene.kafka, topic).values()) < 1000, "the log is compacted")

    assert land(scene.group(), context).code is ExitCode.OK

    totals = scene.state().totals
    assert (totals.landed + totals.invisible, totals.invisible > 9000) == (10_001, True)
    assert exact(scene)


def test_new_topics_and_partitions_are_landed_from_their_first_record(
    scene: Scene, context: SparkContext
) -> None:
    """``startingOffsets: Latest`` applies only to what existed when the group began."""
    first = scene.topic("first")
    scene.kafka.produce(first, events(range(1_000_000, 1_000_100)))
    before = in_kafka(scene.kafka, first)

    with landing(scene.group(kafka={"startingOffsets": "Latest"}), context) as driver:
        driver.wait_until_landed()
        second = scene.topic("second", 2)
        scene.kafka.produce(second, [*events(range(300), 0), *events(range(300, 500), 1)])
        scene.kafka.add_partitions(first, 3)
        wait_for(
            lambda: len(scene.kafka.admin.list_topics(first).topics[first].partitions) == 3,
            "3 partitions",
        )
        scene.kafka.produce(first, [*events(range(100), 2), *events(range(100, 200), 0)])
        driver.wait_until(lambda s: len(s.partitions) == 5, "new Kafka partitions are discovered")
        driver.wait_until_landed()

    assert audit(in_kafka(scene.kafka, *scene.topics) - before, in_bucket(scene.bucket)) == EXACT
    assert scene.faults() == []


def test_expired_offsets_stop_their_topic_partition_until_they_may_be_skipped(
    scene: Scene, context: SparkContext
) -> None:
    lossy, sound = scene.topic("lossy"), scene.topic("sound")
    scene.kafka.produce(lossy, events(range(100)))
    land(scene.group(), context)
    scene.kafka.produce(lossy, events(range(100, 300)))
    scene.kafka.produce(sound, events(range(100)))
    kept = in_kafka(scene.kafka, lossy, sound)
    scene.kafka.expire_before(lossy, 0, 160)
    gone = Counter({(lossy, 0, n): 1 for n in range(100, 160)})

    stalled = land(scene.group(), context)

    message = (
        f"{lossy}/0: offsets [100, 160) expired before they were landed; onDataLoss: SkipAndRecord"
        " would skip them"
    )
    assert (stalled.code, stalled.now.message) == (ExitCode.STALLED, f"DataLoss: {message}")
    assert [(p.blocked, p.message) for p in stalled.now.partitions] == [
        (Reason.DATA_LOSS, message),
        (None, ""),
    ]
    assert audit(in_kafka(scene.kafka, sound), in_bucket(scene.bucket)).missing == {}

    assert land(scene.group(kafka={"onDataLoss": "SkipAndRecord"}), context).code is ExitCode.OK
    assert scene.state().totals.skipped == 60
    assert audit(kept - gone, in_bucket(scene.bucket)) == EXACT
    assert scene.faults() == []


def test_a_recreated_topic_is_landed_by_the_next_generation(
    scene: Scene, context: SparkContext
) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(100)))
    with landing(scene.group(), context) as driver:
        driver.wait_until_landed()
        former = in_kafka(scene.kafka, topic)
        scene.kafka.delete_topic(topic)
        wait_for(lambda: topic not in scene.topics, "the topic is deleted")
        assert scene.topic() == topic
        scene.kafka.produce(topic, events(range(100, 250)))
        status = driver.wait_until(
            lambda s: any(p.blocked for p in s.partitions), "the new topic is noticed"
        )

    assert [p.blocked for p in status.partitions] == [Reason.TOPIC_RECREATED]
    assert "raise spec.generation above 1 to land it from its start" in status.partitions[0].message
    assert audit(former, in_bucket(scene.bucket)) == EXACT

    assert land(scene.group(generation=2), context).code is ExitCode.OK
    assert audit(former + in_kafka(scene.kafka, topic), in_bucket(scene.bucket)) == EXACT
    assert scene.faults() == []


BAD_PAYLOADS = [b"", b"{", b'{"id": 1}', b'{"id": 2, "ts": "yesterday"}', b"\xff", None]
"""Empty, incomplete JSON, no timestamp, an invalid timestamp, invalid UTF-8, a tombstone."""


def test_a_few_bad_records_become_dead_letters(scene: Scene, context: SparkContext) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(500)))
    good = in_kafka(scene.kafka, topic)
    scene.kafka.produce(topic, BAD_PAYLOADS)

    assert land(scene.group(badRecords={"maxRatio": "0.02"}), context).code is ExitCode.OK

    assert audit(good, in_bucket(scene.bucket)) == EXACT
    assert dead_letters(scene) == [
        (topic, 0, 500 + n, value) for n, value in enumerate(BAD_PAYLOADS)
    ]
    assert scene.state().totals.dead_lettered == len(BAD_PAYLOADS)
    assert scene.faults() == []


def test_too_many_bad_records_stop_their_topic_partition_and_no_other(
    scene: Scene, context: SparkContext
) -> None:
    poisoned, good = scene.topic("poisoned", 2), scene.topic("sound")
    scene.kafka.produce(poisoned, events(range(100, 200), 1))
    scene.kafka.produce(good, events(range(300)))
    others = in_kafka(scene.kafka, poisoned, good)
    scene.kafka.produce(poisoned, [*events(range(100)), *BAD_PAYLOADS])

    stalled = land(scene.group(badRecords={"maxRatio": "0.02", "minCount": 6}), context)

    assert stalled.code is ExitCode.STALLED
    message = (
        f"{poisoned}/0: 6 of 106 records within 3600s are bad, 6 of them in [0, 106), "
        "more than maxRatio 0.02 allows; first: offset 100: "
    )
    assert stalled.now.message.startswith(f"BadRecordsOverLimit: {message}decode: ")
    assert [p.blocked for p in stalled.now.partitions] == [Reason.BAD_RECORDS, None, None]
    assert audit(others, in_bucket(scene.bucket)) == EXACT
    assert dead_letters(scene) == []
    assert scene.faults() == []


def test_late_records_of_many_dates_land_under_their_dates(
    scene: Scene, context: SparkContext
) -> None:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(
        topic, [*events(range(3000), 0, days=120), *events(range(3000, 5000), 1, days=120)]
    )

    assert land(scene.group(), context).code is ExitCode.OK

    assert len({key.split("/")[1] for key in data_keys(scene.bucket)}) == 120
    assert exact(scene)


def test_empty_topics_land_nothing(scene: Scene, context: SparkContext) -> None:
    scene.topic("empty", 3)

    empty = land(scene.group(), context)

    assert (empty.code, [p.lag_records for p in empty.now.partitions]) == (ExitCode.OK, [0, 0, 0])
    assert (data_keys(scene.bucket), scene.state().totals.commits, scene.faults()) == ([], 0, [])


def dead_letters(scene: Scene) -> list[tuple[object, ...]]:
    """Return the topic, Kafka partition, offset and value of each dead letter."""
    keys = scene.bucket.keys("_landfall/scene/dead-letters/")
    return sorted(
        parquet_rows(scene.bucket, keys, 'topic, partition, "offset", value'),
        key=lambda row: row[:3],
    )
