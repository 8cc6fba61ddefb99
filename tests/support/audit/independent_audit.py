"""Compares what landed with what Kafka holds, without any of Landfall's code.

It uses confluent-kafka, boto3, gzip and json. Every record carries its own identity,
``{"id": 7, "p": 2, "ts": 1767225600000}``: a number that is unique in its topic, its Kafka
partition, and the time that determines its date.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import duckdb
from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.kafka.broker import SECONDS, Broker
from tests.support.kafka.broker import Message as Produced
from tests.support.stores.s3 import Bucket

FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)

TRANSIENT = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE"})
"""Errors that the client reports and recovers from by itself, for example from a busy broker."""

Identity: TypeAlias = tuple[str, int, int]
"""Topic, Kafka partition, id."""


def events(ids: Iterable[int], partition: int = 0, days: int = 3) -> Iterator[Produced]:
    """Records whose times alternate between so many dates."""
    for n in ids:
        when = FIRST_DAY + timedelta(days=n * 7919 % days, seconds=n % 86_400)
        event = {"id": n, "p": partition, "ts": int(when.timestamp() * 1000)}
        yield Produced(json.dumps(event).encode(), partition=partition)


def kafka_messages(broker: Broker, *topics: str) -> Iterator[Message]:
    """Every record that a ``read_committed`` consumer sees, from log start to end offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": str(broker),
            "group.id": "auditor",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    try:
        known = consumer.list_topics(timeout=SECONDS).topics
        unread = {(topic, partition) for topic in topics for partition in known[topic].partitions}
        consumer.assign(
            [
                TopicPartition(t, p, consumer.get_watermark_offsets(TopicPartition(t, p))[0])
                for t, p in unread
            ]
        )
        while unread:
            (message,) = consumer.consume(1, SECONDS)
            error = message.error()
            if error is None:
                yield message
            else:
                assert error.name() in {"_PARTITION_EOF", *TRANSIENT}, error
                if error.name() == "_PARTITION_EOF":
                    unread.discard((message.topic(), message.partition()))
    finally:
        consumer.close()


def in_kafka(broker: Broker, *topics: str) -> Counter[Identity]:
    """The identities of all events in these topics."""
    return Counter(
        _identity(m.topic() or "", m.value() or b"") for m in kafka_messages(broker, *topics)
    )


def landed_lines(bucket: Bucket) -> Iterator[tuple[str, bytes]]:
    """Every line of every visible JSON object, with the object's key."""
    for key in data_keys(bucket):
        yield from ((key, line) for line in gzip.decompress(bucket.read(key)).splitlines())


def data_keys(bucket: Bucket) -> list[str]:
    """Keys of all visible data objects: everything outside ``_landfall/``."""
    visible = bucket.keys()
    return [key for key in visible if not key.startswith("_landfall/")]


def in_bucket(bucket: Bucket) -> Counter[Identity]:
    """The identities of all events in visible objects; each must be under its own date."""
    found: Counter[Identity] = Counter()
    for key, line in landed_lines(bucket):
        topic, date, _ = key.split("/")
        day = datetime.fromtimestamp(json.loads(line)["ts"] / 1000, UTC).date()
        assert date == f"dt={day}", f"{line!r} is in {key}"
        found[_identity(topic, line)] += 1
    return found


def parquet_rows(bucket: Bucket, keys: Iterable[str], columns: str) -> list[tuple[Any, ...]]:
    """Some columns of every row of these objects, read by DuckDB."""
    rows: list[tuple[Any, ...]] = []
    with TemporaryDirectory() as folder:
        for key in keys:
            file = Path(folder) / "fetched.parquet"
            file.write_bytes(bucket.read(key))
            rows += (
                duckdb.connect()
                .execute(f"select {columns} from read_parquet('{file}', hive_partitioning = false)")
                .fetchall()
            )
    return rows


def _identity(topic: str, value: bytes) -> Identity:
    event = json.loads(value)
    return topic, event["p"], event["id"]


@dataclass(frozen=True)
class Audit:
    """How the landed events differ from the expected ones."""

    missing: Mapping[Identity, int] = field(default_factory=dict)
    too_many: Mapping[Identity, int] = field(default_factory=dict)


EXACT = Audit()
"""Nothing is missing, nothing is duplicate, nothing is foreign."""


def audit(expected: Counter[Identity], landed: Counter[Identity]) -> Audit:
    """Compare two multisets; the expected one must not be empty."""
    assert expected, "there is nothing to audit"
    return Audit(dict(expected - landed), dict(landed - expected))
