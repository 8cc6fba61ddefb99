"""Produces orders and clicks of the last three full hours, and of the hour that has begun.

Kafka dates each record as if it had been produced then. One record of each topic reaches Kafka late
in the second hour, an event of the first one, and one is broken.

Run ``python examples/hourly-etl/produce.py KAFKA``; it prints when the first two hours end, as
variables of the shell. Needs confluent-kafka.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

HOURS = 3
PARTITIONS = 2
ORDERS, CLICKS = "hour.orders", "hour.clicks"
STATUSES = ("paid", "paid", "paid", "paid", "cancelled")
HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
LATE_AT = HOUR + 10 * MINUTE
"""When the late records reach Kafka, and the broken ones, after the first hour has begun."""
Record = tuple[datetime, bytes]
"""The time that Kafka dates it with, and the payload."""


def first_hour(now: datetime) -> datetime:
    """When the first of the hours begins; the last one has ended five minutes ago at least."""
    ended = (now - 5 * MINUTE).replace(minute=0, second=0, microsecond=0)
    return ended - HOURS * HOUR


def order(number: int, at: datetime, cents: str | None = None) -> bytes:
    """An order; every fifth one is cancelled."""
    fields = {
        "id": number,
        "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "customer": f"c{number % 17}",
        "cents": cents or str(1000 + 7 * number),
        "status": STATUSES[number % len(STATUSES)],
    }
    return json.dumps(fields).encode()


def click(number: int, at: datetime) -> bytes:
    """A line of an access log."""
    ip, time = f"192.0.2.{number % 200 + 1}", at.strftime("%d/%b/%Y:%H:%M:%S +0000")
    return f'{ip} - u{number % 23} [{time}] "GET /item/{number % 40} HTTP/1.1" 200'.encode()


def orders(first: datetime) -> Iterator[Record]:
    """One a minute, the late one, and one whose amount is no number."""
    for number in range(HOURS * 60 + 1):
        at = first + number * MINUTE
        yield at, order(number, at)
    yield first + LATE_AT, order(1000, first + HOUR - MINUTE)
    yield first + LATE_AT, order(1001, first + LATE_AT, "twelve")


def clicks(first: datetime) -> Iterator[Record]:
    """Three a minute, the late one, and half a line."""
    for number in range(HOURS * 180 + 3):
        at = first + number * 20 * SECOND
        yield at, click(number, at)
    yield first + LATE_AT, click(1000, first + HOUR - MINUTE)
    yield first + LATE_AT, click(1001, first + LATE_AT)[:40]


def produce(kafka: str, topics: Mapping[str, Sequence[Record]]) -> None:
    """Make the topics, with these records in the order of time, in both Kafka partitions by turns.

    The records are of the past, so that retention is off: it goes by their time.
    """
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 3})
    config = {"retention.ms": "-1"}
    made = admin.create_topics([NewTopic(name, PARTITIONS, 1, config=config) for name in topics])
    for name, future in made.items():
        if error := future.exception():
            sys.stdout.write("false\n")  # so that `eval` of what this prints fails, too
            raise SystemExit(f"{name}: {error}")
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 3})
    for name, records in topics.items():
        for number, (time, payload) in enumerate(sorted(records)):
            millis = int(time.timestamp() * 1000)
            producer.produce(name, payload, partition=number % PARTITIONS, timestamp=millis)
    producer.flush()


def main(kafka: str) -> None:
    """Produce everything."""
    first = first_hour(datetime.now(UTC))
    produce(kafka, {ORDERS: list(orders(first)), CLICKS: list(clicks(first))})
    ends = (first + HOUR, first + 2 * HOUR)
    sys.stdout.write("export HOUR={:%Y-%m-%dT%H} NEXT={:%Y-%m-%dT%H}\n".format(*ends))


if __name__ == "__main__":
    main(sys.argv[1])
