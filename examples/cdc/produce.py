"""Produces the changes of ``changes.py`` as PostgreSQL's connector sends them, over two hours.

There is one every half minute of the last two full hours and of the quarter after them, in three
Kafka partitions by their keys. Kafka dates each record as if it had been produced then.

Run ``python examples/cdc/produce.py KAFKA`` in the folder of this file; it prints when the first
hour begins, as a variable of the shell. Needs confluent-kafka.
"""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zlib import crc32

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "shop.orders"
PARTITIONS = 3
HOUR, STEP = timedelta(hours=1), timedelta(seconds=30)
Record = tuple[bytes | None, bytes | None]


def first_hour(now: datetime) -> datetime:
    """When the first of the hours begins; the quarter after them is over by now."""
    ended = (now - HOUR / 4).replace(minute=0, second=0, microsecond=0)
    return ended - 2 * HOUR


def dated(records: Iterator[Record], first: datetime) -> Iterator[tuple[datetime, int, Record]]:
    """Yield records with times and Kafka partitions."""
    for number, (key, value) in enumerate(records):
        yield first + number * STEP, crc32(key or b"") % PARTITIONS, (key, value)


def produce(kafka: str, topic: str, records: Iterator[Record], first: datetime) -> None:
    """Make the topic, with these records.

    The records are of the past, so that retention is off: it goes by their time.
    """
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 3})
    config = {"retention.ms": "-1"}
    made = admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])
    if error := made[topic].exception():
        sys.stdout.write("false\n")  # so that `eval` of what this prints fails, too
        raise SystemExit(f"{topic}: {error}")
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 3})
    for moment, partition, (key, value) in dated(records, first):
        millis = int(moment.timestamp() * 1000)
        producer.produce(topic, value, key, partition=partition, timestamp=millis)
    producer.flush()


def texts(records: Iterator[tuple[object, object]]) -> Iterator[Record]:
    """Yield keys and values as JSON; a tombstone has no value."""
    for key, value in records:
        yield (
            None if key is None else json.dumps(key).encode(),
            None if value is None else json.dumps(value).encode(),
        )


def main(kafka: str) -> None:
    """Produce everything."""
    import changes  # noqa: PLC0415  # beside this file

    first = first_hour(datetime.now(UTC))
    produce(kafka, TOPIC, texts(changes.records("postgres")), first)
    sys.stdout.write(f"export HOUR={first:%Y-%m-%dT%H}\n")


if __name__ == "__main__":
    main(sys.argv[1])
