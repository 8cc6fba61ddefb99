"""Landed objects contain as many rows as the ledger says, and all that their format can store."""

import json
from collections import Counter
from operator import itemgetter
from pathlib import Path

import msgpack
import pytest
from pyspark import SparkContext

from landfall.api.contract import ExitCode
from landfall.errors import Reason, Stalled
from landfall.lane import claim_output_root
from landfall.store.urls import open_store
from tests.support.audit.independent_audit import (
    data_keys,
    events,
    kafka_messages,
    landed_lines,
    parquet_rows,
)
from tests.support.kafka.broker import Message
from tests.support.landing.group import Scene, land

pytestmark = pytest.mark.xdist_group("spark")


# ---------------------------------------------------------------------------------- numbers of rows


def rows_by_ledger(scene: Scene) -> dict[str, int]:
    """Return how many rows each object has according to the COMMITs."""
    slots = [json.loads(scene.bucket.read(key)) for key in scene.bucket.keys("_landfall/scene/0/")]
    slices = [slice_ for slot in slots if slot["type"] == "COMMIT" for slice_ in slot["slices"]]
    return {
        landed["upload"]["key"]: landed["rows"] for slice_ in slices for landed in slice_["objects"]
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


# ------------------------------------------------------------------------------------ other groups


def test_nothing_is_landed_into_the_output_root_of_another_group(
    scene: Scene, context: SparkContext
) -> None:
    scene.kafka.produce(
        scene.topic(), [Message(b'{"app":"%s"}' % app) for app in (b"a", b"b", b"a", b"c")]
    )
    spec = {
        "decode": {"format": "Json"},
        "route": {"pattern": "all", "topicPath": "db={field:app}/{topic}"},
        "badRecords": {"maxRatio": "1"},
    }
    inner, outer = ({"output": {"url": f"{scene.bucket.url}/db={app}"}} for app in "ab")
    claim_output_root(open_store(scene.group("inner", **inner).spec.output), "default/inner")

    landed = land(scene.group(**spec), context)
    with pytest.raises(Stalled, match="belongs to default/scene, not to default/other") as refused:
        claim_output_root(open_store(scene.group("other", **outer).spec.output), "default/other")

    assert landed.code is ExitCode.OK
    assert refused.value.reason is Reason.OUTPUT_OCCUPIED
    assert {key.partition("/")[0] for key in rows_by_ledger(scene)} == {"_landfall", "db=b", "db=c"}
    assert scene.findings(**spec) == []
    assert [key for key in data_keys(scene.bucket) if key.endswith("owner.json")] == [
        f"db={app}/_landfall/owner.json" for app in "abc"
    ]


# ------------------------------------------------------------------------------ contents of records

TIME = 1_767_225_600_000
WHOLE = [
    Message(b"plain", b"k", timestamp=TIME, headers=[("a", b"1"), ("a", None), ("b", b"\xff")]),
    Message(None, b"tombstone", timestamp=TIME + 1),
    Message(b"", b"", timestamp=TIME + 2),
    Message(b"no key", timestamp=TIME + 3),
    Message(b"line\nline\x00", b"\x00\n", timestamp=TIME + 4),
    *(Message(b"%d " % n * 2_500_000, b"large", timestamp=TIME + n) for n in (10, 11, 12)),
]
"""Headers with a repeated name and a null, a tombstone, an empty key and value, no key, line
breaks, and large payloads.
"""


def produced(
    scene: Scene,
) -> list[tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]:
    """Produce ``WHOLE``; returns what Kafka has of it: offset, timestamp, key, value, headers."""
    topic = scene.topic(max_message_bytes=16_000_000, retention_ms=-1)
    scene.kafka.produce(topic, WHOLE, message_max_bytes=16_000_000)
    return [
        (m.offset(), m.timestamp()[1], m.key(), m.value(), list(m.headers() or []))
        for m in kafka_messages(scene.kafka, topic)
    ]


def test_parquet_stores_everything_of_a_record(scene: Scene, context: SparkContext) -> None:
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
def test_a_sequence_file_stores_what_its_keys_can_hold(
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
