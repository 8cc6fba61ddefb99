"""Produces clicks and orders of a night, or lets Kafka forget the clicks.

Run ``python examples/backfill/produce.py KAFKA WHAT``. WHAT is

- ``0-1``: the clicks of the hour from 0 to 1 o'clock, or of other hours, one a minute, in two Kafka
  partitions by turns. A click is seen 90 minutes after it happened.
- ``orders``: an order a minute of the hour after midnight. From half past on, the shop writes each
  on several lines.
- ``forget``: nothing; all records of clicks are deleted, as retention does it.

Needs confluent-kafka.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

CLICKS, ORDERS = "redo.clicks", "redo.orders"
PARTITIONS = 2
MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LATE = 90 * MINUTE
"""From a click until it is seen."""
Record = tuple[int, bytes]
"""Kafka partition and payload."""


def click(number: int) -> dict[str, object]:
    """The click of a minute."""
    at = MIDNIGHT + number * MINUTE
    times = {"at": f"{at:%Y-%m-%dT%H:%M:%SZ}", "seen": f"{at + LATE:%Y-%m-%dT%H:%M:%SZ}"}
    return {"id": f"c{number}", **times, "user": f"u{number % 7}", "cents": 100 + number}


def clicks(first: int, last: int) -> Iterator[Record]:
    """Those from one hour until another."""
    for number in range(first * 60, last * 60):
        yield number % PARTITIONS, json.dumps(click(number)).encode()


def orders() -> Iterator[Record]:
    """Those of the first hour."""
    for number in range(60):
        at = f"{MIDNIGHT + number * MINUTE:%Y-%m-%dT%H:%M:%SZ}"
        order = {"id": f"o{number}", "at": at, "cents": 1000 + number}
        yield number % PARTITIONS, json.dumps(order, indent=1 if number >= 30 else None).encode()


def produce(kafka: str, topic: str, records: Iterable[Record]) -> None:
    """Append records to a topic, which is made if there is none."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 3})
    if topic not in admin.list_topics(timeout=30).topics:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 3})
    for partition, payload in records:
        producer.produce(topic, payload, partition=partition)
    producer.flush()


def forget(kafka: str, topic: str) -> None:
    """Delete the records that a topic has now."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 3})
    ends = [TopicPartition(topic, number, -1) for number in range(PARTITIONS)]
    for deleted in admin.delete_records(ends).values():
        deleted.result()


def main(kafka: str, what: str) -> None:
    """Do one of these."""
    if what == "forget":
        forget(kafka, CLICKS)
    elif what == "orders":
        produce(kafka, ORDERS, orders())
    else:
        first, _, last = what.partition("-")
        produce(kafka, CLICKS, clicks(int(first), int(last)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
