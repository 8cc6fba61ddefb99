"""Records that no Kafka client would send, but a broker accepts, land or become dead letters."""

from typing import Any

import pytest

from landfall.api.contract import ExitCode
from tests.support.audit.independent_audit import parquet_rows
from tests.support.kafka.broker import Message
from tests.support.kafka.raw_batches import RawRecord, produce_raw
from tests.support.landing.group import Scene, land

YEAR_1, YEAR_9999, NEVER = -62_135_596_800_000, 253_402_300_799_999, 2**62
HOSTILE = [
    RawRecord(b'{"n": 0}', timestamp=0, headers=[(b"fine", b"1")]),
    RawRecord(
        b'{"n": 1}', timestamp=1, headers=[(b"before", b"1"), (b"\xff\xfe", b"2"), (b"after", None)]
    ),
    RawRecord(b"no json", timestamp=2, headers=[(b"\xc3", None)]),
    RawRecord(b'{"n": 3}', timestamp=YEAR_1),
    RawRecord(b'{"n": 4}', timestamp=YEAR_9999),
    RawRecord(b'{"n": 5}', timestamp=NEVER),
    RawRecord(b'{"n": 6}', timestamp=-NEVER),
    RawRecord(b'{"n": 7}', timestamp=-1),
    RawRecord(b'{"n": 8}', timestamp=-2),
    RawRecord(b'{"n": 9}', b"k" * 100_000, timestamp=3, headers=[(b"", b"")] * 100_000),
    RawRecord(b'{"n": 10}', timestamp=4),
]
WITHOUT_VALID_TIME = {3, 5, 6, 7, 8}
WITH_UNREADABLE_HEADERS = {1, 2}


def produce_hostile_records(scene: Scene) -> str:
    any_time = {
        "message_timestamp_before_max_ms": 2**63 - 1,
        "message_timestamp_after_max_ms": 2**63 - 1,
    }
    topic = scene.topic(max_message_bytes=16_000_000, **any_time)
    produce_raw(scene.kafka, topic, HOSTILE)
    return topic


def dead_letter_errors(scene: Scene) -> dict[int, str]:
    keys = scene.bucket.keys("_landfall/scene/dead-letters/")
    return dict(parquet_rows(scene.bucket, keys, '"offset", error'))


@pytest.mark.parametrize("format_", ["Json", "Parquet"])
def test_hostile_records_do_not_affect_other_records(scene: Scene, format_: str) -> None:
    produce_hostile_records(scene)
    spec: dict[str, Any] = {
        "decode": {"format": "Json"},
        "output": {"format": format_},
        "badRecords": {"maxRatio": "1"},
        "uploadPolicy": {"maxAge": "200ms"},
    }

    landed = land(scene.group(**spec), None)

    assert (landed.code, landed.now.lag_records) == (ExitCode.OK, 0)
    errors = dead_letter_errors(scene)
    rejected = {2} if format_ == "Json" else WITH_UNREADABLE_HEADERS
    assert errors.keys() == WITHOUT_VALID_TIME | rejected
    assert {offset: error for offset, error in errors.items() if "headers" in error} == {
        offset: error for offset, error in errors.items() if offset in WITH_UNREADABLE_HEADERS
    }
    assert scene.faults(**spec) == []


def test_a_driver_starts_on_a_backlog_with_any_kafka_timestamps(scene: Scene) -> None:
    """Kafka timestamps say how long records have waited; an invalid one is ignored."""
    for number, record in enumerate(HOSTILE[3:9]):
        topic = scene.topic(
            f"t{number}",
            message_timestamp_before_max_ms=2**63 - 1,
            message_timestamp_after_max_ms=2**63 - 1,
        )
        produce_raw(scene.kafka, topic, [record])
    spec: dict[str, Any] = {"decode": {"format": "Json"}, "badRecords": {"maxRatio": "1"}}

    assert land(scene.group(**spec), None).code is ExitCode.OK
    assert scene.faults(**spec) == []


def test_ten_megabytes_pass_through_every_stage(scene: Scene) -> None:
    topic = scene.topic(max_message_bytes=16_000_000)
    large = b'{"ts": 1767225600000, "x": "%s"}' % (b"y" * 10_000_000)
    poison = b"%s" % (b"\xff" * 10_000_000)
    records = [Message(large), Message(poison), Message(large)]
    scene.kafka.produce(topic, records, message_max_bytes=16_000_000)
    spec: dict[str, Any] = {"badRecords": {"maxRatio": "1"}}

    assert land(scene.group(**spec), None).code is ExitCode.OK
    assert dead_letter_errors(scene).keys() == {1}
    assert scene.faults() == []
