"""Whole drivers on real Kafka, real S3 and local Spark: what comes in, however it comes in, is
landed exactly once.
"""

import json
import time
from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgpack
import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from landfall.api.spec import ConsumerGroup
from landfall.driver.loop import Driver
from landfall.errors import Reason
from landfall.store import Created
from landfall.store.s3 import S3Store
from landfall.store.urls import open_store
from tests.support.driver_mutants import CompletesFirst
from tests.support.independent_audit import (
    EXACT,
    audit,
    data_keys,
    events,
    in_bucket,
    in_kafka,
    kafka_messages,
    landed_lines,
    parquet_rows,
)
from tests.support.kafka import Message
from tests.support.landing import Landing, Scene, land, landing, wait_for

pytestmark = pytest.mark.xdist_group("spark")


def exact(scene: Scene) -> bool:
    """Whether every record is there once, and fsck finds nothing; says on the way what differs."""
    assert scene.audit() == EXACT
    assert scene.faults() == []
    return True


def test_a_restart_goes_on_where_the_last_driver_stopped(
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
    assert (totals.landed, totals.invisible) == (
        250,
        305,
    )  # aborted records, and a marker for each transaction
    assert exact(scene)


def test_an_open_transaction_holds_back_what_comes_after_it(
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


def test_a_compacted_topic_is_landed_as_it_is_left(scene: Scene, context: SparkContext) -> None:
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
    time.sleep(
        1.1
    )  # the active segment is never cleaned: it must be a second old when the next record rolls it
    scene.kafka.produce(topic, (Message(m.value, b"last") for m in events(range(10_000, 10_001))))
    wait_for(lambda: sum(in_kafka(scene.kafka, topic).values()) < 1000, "the log is compacted")

    assert land(scene.group(), context).code is ExitCode.OK

    totals = scene.state().totals
    assert (totals.landed + totals.invisible, totals.invisible > 9000) == (10_001, True)
    assert exact(scene)


def test_topics_and_partitions_that_appear_are_landed_from_their_first_record(
    scene: Scene, context: SparkContext
) -> None:
    """Also with Latest, which counts for what was there at the very beginning."""
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
        driver.wait_until(lambda s: len(s.partitions) == 5, "new Kafka partitions are seen")
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

    told = f"{lossy}/0: offsets [100, 160) expired before they were landed; onDataLoss: SkipAndRecord would skip them"
    assert (stalled.code, stalled.now.message) == (ExitCode.STALLED, f"DataLoss: {told}")
    assert [(p.blocked, p.message) for p in stalled.now.partitions] == [
        (Reason.DATA_LOSS, told),
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
            lambda s: any(p.blocked for p in s.partitions), "the other topic is noticed"
        )

    assert [p.blocked for p in status.partitions] == [Reason.TOPIC_RECREATED]
    assert "raise spec.generation above 1 to land it from its start" in status.partitions[0].message
    assert audit(former, in_bucket(scene.bucket)) == EXACT

    assert land(scene.group(generation=2), context).code is ExitCode.OK
    assert audit(former + in_kafka(scene.kafka, topic), in_bucket(scene.bucket)) == EXACT
    assert scene.faults() == []


POISON = [b"", b"{", b'{"id": 1}', b'{"id": 2, "ts": "yesterday"}', b"\xff", None]
"""Nothing, half a record, no time, no such time, no text, a tombstone."""


def test_a_little_poison_is_kept_apart(scene: Scene, context: SparkContext) -> None:
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(500)))
    sound = in_kafka(scene.kafka, topic)
    scene.kafka.produce(topic, POISON)

    assert land(scene.group(badRecords={"maxRatio": "0.02"}), context).code is ExitCode.OK

    assert audit(sound, in_bucket(scene.bucket)) == EXACT
    assert dead_letters(scene) == [(topic, 0, 500 + n, value) for n, value in enumerate(POISON)]
    assert scene.state().totals.dead_lettered == len(POISON)
    assert scene.faults() == []


def test_much_poison_stops_its_topic_partition_and_no_other(
    scene: Scene, context: SparkContext
) -> None:
    poisoned, sound = scene.topic("poisoned", 2), scene.topic("sound")
    scene.kafka.produce(poisoned, events(range(100, 200), 1))
    scene.kafka.produce(sound, events(range(300)))
    others = in_kafka(scene.kafka, poisoned, sound)
    scene.kafka.produce(poisoned, [*events(range(100)), *POISON])

    stalled = land(scene.group(badRecords={"maxRatio": "0.02"}), context)

    assert stalled.code is ExitCode.STALLED
    told = f"{poisoned}/0: 6 of 106 records in [0, 106) are bad, more than maxRatio 0.02 allows; first: offset 100: "
    assert stalled.now.message.startswith(f"BadRecordsOverLimit: {told}decode: ")
    assert [p.blocked for p in stalled.now.partitions] == [Reason.BAD_RECORDS, None, None]
    assert audit(others, in_bucket(scene.bucket)) == EXACT
    assert dead_letters(scene) == []
    assert scene.faults() == []


def test_late_records_of_400_dates_each_find_their_date(
    scene: Scene, context: SparkContext
) -> None:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(
        topic, [*events(range(3000), 0, days=400), *events(range(3000, 5000), 1, days=400)]
    )

    assert land(scene.group(), context).code is ExitCode.OK

    assert len({key.split("/")[1] for key in data_keys(scene.bucket)}) == 400
    assert exact(scene)


def test_empty_topics_are_nothing_to_do(scene: Scene, context: SparkContext) -> None:
    scene.topic("empty", 3)

    empty = land(scene.group(), context)

    assert (empty.code, [p.lag_records for p in empty.now.partitions]) == (ExitCode.OK, [0, 0, 0])
    assert (data_keys(scene.bucket), scene.state().totals.commits, scene.faults()) == ([], 0, [])


def rows_by_ledger(scene: Scene) -> dict[str, int]:
    """How many rows the COMMITs say each object has."""
    slots = [json.loads(scene.bucket.read(key)) for key in scene.bucket.keys("_landfall/scene/0/")]
    pieces = [piece for slot in slots if slot["type"] == "COMMIT" for piece in slot["slices"]]
    return {
        landed["upload"]["key"]: landed["rows"] for piece in pieces for landed in piece["objects"]
    }


def test_every_json_object_has_the_rows_the_ledger_counts(
    scene: Scene, context: SparkContext
) -> None:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(
        topic, [*events(range(1500), 0, days=20), *events(range(1500, 2000), 1, days=20)]
    )
    assert land(scene.group(), context).code is ExitCode.OK

    assert Counter(key for key, _ in landed_lines(scene.bucket)) == rows_by_ledger(scene)


def test_every_sequence_file_has_the_rows_the_ledger_counts(
    scene: Scene, context: SparkContext, tmp_path: Path
) -> None:
    topic = scene.topic(partitions=2)
    scene.kafka.produce(
        topic, [*events(range(1500), 0, days=20), *events(range(1500, 2000), 1, days=20)]
    )
    route = {
        "decode": {"format": "Json", "timestamp": {"field": "ts"}},
        "output": {"format": "SequenceFile"},
    }
    assert land(scene.group(**route), context).code is ExitCode.OK

    counted = {}
    for key in data_keys(scene.bucket):
        fetched = tmp_path / "fetched.seq"
        fetched.write_bytes(scene.bucket.read(key))
        counted[key] = context.sequenceFile(fetched.as_uri()).count()

    assert sum(counted.values()) == 2000
    assert counted == rows_by_ledger(scene)


def dead_letters(scene: Scene) -> list[tuple[object, ...]]:
    """Topic, Kafka partition, offset and value of each."""
    keys = scene.bucket.keys("_landfall/scene/dead-letters/")
    return sorted(
        parquet_rows(scene.bucket, keys, 'topic, partition, "offset", value'),
        key=lambda row: row[:3],
    )


# ------------------------------------------------------------------------- what the tests would see


class Killed(BaseException):
    """What SIGKILL is to a process: nothing catches it, and no call it makes afterwards has an
    effect.
    """


class DiesAtCommit:
    """A store whose driver is dead from the moment it would write a COMMIT, or has written it."""

    def __init__(self, group: ConsumerGroup, *, written: bool) -> None:
        self._store, self._written, self._dead = open_store(group.spec.output), written, False

    def __getattr__(self, name: str) -> Any:
        if self._dead:
            raise Killed
        return getattr(self._store, name)

    def create(self, key: str, body: bytes) -> Created:
        self._dead = b'"COMMIT"' in body
        if self._dead and not self._written:
            raise Killed
        return self._store.create(key, body)


def die_at_commit(
    group: ConsumerGroup, context: SparkContext, *, written: bool, kind: type[Driver] = Driver
) -> None:
    store = DiesAtCommit(group, written=written)
    killed = Landing(group, context, store, kind)  # type: ignore[arg-type]  # the rest is __getattr__'s
    with pytest.raises(Killed):
        killed.start().end()


@pytest.mark.parametrize(("kind", "holds"), [(Driver, True), (CompletesFirst, False)])
def test_a_driver_that_completes_first_would_be_found_out(
    scene: Scene, context: SparkContext, kind: type[Driver], holds: bool
) -> None:
    """Killed before its COMMIT, then more records come and the successor cuts elsewhere."""
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(1000)))
    finely = scene.group(uploadPolicy={"maxBytes": "100k", "maxAge": "1s"})
    die_at_commit(finely, context, written=False, kind=kind)
    scene.kafka.produce(topic, events(range(1000, 1300)))

    assert land(scene.group(), context).code is ExitCode.OK

    found = scene.audit()
    assert found.missing == {}
    assert (len(found.too_many) == 0, scene.faults() == []) == (holds, holds)


# ------------------------------------------------------------ decided uploads that somebody aborted


def lose_an_upload(scene: Scene, context: SparkContext) -> str:
    """Die with 1,000 records decided and none visible; then a lifecycle rule takes one upload.
    Returns the topic.
    """
    topic = scene.topic()
    scene.kafka.produce(topic, events(range(1000)))
    die_at_commit(scene.group(), context, written=True)
    client, name = scene.bucket.server.client, scene.bucket.name
    taken = client.list_multipart_uploads(Bucket=name)["Uploads"][1]
    client.abort_multipart_upload(Bucket=name, Key=taken["Key"], UploadId=taken["UploadId"])
    return topic


def recover(scene: Scene, context: SparkContext) -> Landing:
    """Land all there is, with a store that believes in a loss at once."""
    group = scene.group()
    fail_fast = S3Store(scene.bucket.name, "", group.spec.output.s3, pauses=(0.1,))
    recovering = Landing(group, context, fail_fast).start()
    recovering.end()
    return recovering


def test_a_decided_upload_that_is_lost_is_landed_again(scene: Scene, context: SparkContext) -> None:
    topic = lose_an_upload(scene, context)
    scene.kafka.produce(topic, events(range(1000, 1200)))

    assert recover(scene, context).code is ExitCode.OK

    slots = scene.bucket.keys("_landfall/scene/0/")
    types = [json.loads(scene.bucket.read(slot))["type"] for slot in slots]
    assert types == ["OPEN", "ADD", "COMMIT", "OPEN", "REPAIR", "COMMIT", "YIELD"]
    assert exact(scene)


def test_a_decided_upload_that_is_lost_and_expired_is_told(
    scene: Scene, context: SparkContext
) -> None:
    topic = lose_an_upload(scene, context)
    scene.kafka.expire_before(topic, 0, 10)

    stalled = recover(scene, context)

    assert stalled.code is ExitCode.STALLED
    assert stalled.now.message.startswith(f"ObjectLost: {topic}/0[0, 1000): ['{topic}/dt=2026-01-")
    assert (
        f"cannot be made again: {topic}/0: offsets [0, 1000) are not all there"
        in stalled.now.message
    )


# -------------------------------------------------------------------------------- what records hold

TIME = 1_767_225_600_000
WHOLE = [
    Message(b"plain", b"k", timestamp=TIME, headers=[("a", b"1"), ("a", None), ("b", b"\xff")]),
    Message(None, b"tombstone", timestamp=TIME + 1),
    Message(b"", b"", timestamp=TIME + 2),
    Message(b"no key", timestamp=TIME + 3),
    Message(b"line\nline\x00", b"\x00\n", timestamp=TIME + 4),
    *(Message(b"%d " % n * 2_500_000, b"large", timestamp=TIME + n) for n in (10, 11, 12)),
]
"""Headers with a repeated name and a null, tombstone, empty key and value, no key, line breaks, 10
MB.
"""


def produced(
    scene: Scene,
) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """Offset, timestamp, key, value and headers of each, as Kafka tells them."""
    topic = scene.topic(max_message_bytes=16_000_000, retention_ms=-1)
    scene.kafka.produce(topic, WHOLE, message_max_bytes=16_000_000)
    told = kafka_messages(scene.kafka, topic)
    return [
        (m.offset(), m.timestamp()[1], m.key(), m.value(), list(m.headers() or [])) for m in told
    ]


def test_parquet_keeps_all_of_a_record(scene: Scene, context: SparkContext) -> None:
    expected = produced(scene)

    parquet = {"decode": {}, "output": {"format": "Parquet"}}
    assert land(scene.group(**parquet), context).code is ExitCode.OK

    columns = '"offset", epoch_ms(timestamp), key, value, headers'
    rows = parquet_rows(scene.bucket, data_keys(scene.bucket), columns)
    landed = [
        (*row[:4], [(header["key"], header["value"]) for header in row[4]])
        for row in sorted(rows, key=itemgetter(0))
    ]
    assert landed == expected
    assert scene.faults(**parquet) == []


@pytest.mark.parametrize("mode", ["Legacy", "MessagePack"])
def test_a_sequence_file_keeps_what_its_keys_can_hold(
    scene: Scene, context: SparkContext, mode: str, tmp_path: Path
) -> None:
    expected = produced(scene)

    of = {"decode": {}, "output": {"format": "SequenceFile", "options": {"keyMode": mode}}}
    assert land(scene.group(**of), context).code is ExitCode.OK

    fetched = [tmp_path / f"{n}.seq" for n, _ in enumerate(data_keys(scene.bucket))]
    for path, key in zip(fetched, data_keys(scene.bucket), strict=True):
        path.write_bytes(scene.bucket.read(key))
    rows = context.sequenceFile(",".join(path.as_uri() for path in fetched)).collect()
    if mode == "Legacy":
        assert sorted(rows) == [(offset, value or b"") for offset, _, _, value, _ in expected]
    else:
        keys = [
            {1: offset, 3: time, 2: key} if key else {1: offset, 3: time}
            for offset, time, key, _, _ in expected
        ]
        landed = [(msgpack.unpackb(key, strict_map_key=False), bytes(value)) for key, value in rows]
        values = [value or b"" for _, _, _, value, _ in expected]
        assert sorted(landed, key=lambda row: row[0][1]) == list(zip(keys, values, strict=True))
    assert scene.faults(**of) == []
