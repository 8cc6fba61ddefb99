"""Produces orders of the last two full hours, and of a quarter of an hour after them.

There is one a minute, in three Kafka partitions by turns. Every tenth order is sent twice: the shop
has not heard that Kafka had it, and sends it again five minutes later, with ``"attempt": 2``. Kafka
dates each record as if it had been produced then.

Run ``python examples/compaction/produce.py KAFKA``; it prints when the two hours begin, as
variables of the shell. Needs confluent-kafka.
"""

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC = "tidy.orders"
PARTITIONS = 3
MINUTES = 2 * 60 + 15
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
Record = tuple[datetime, int, bytes]
"""The time that Kafka dates it with, the Kafka partition, and the payload."""


def first_hour(now: datetime) -> datetime:
    """When the first of the hours begins; the quarter after them is over by now."""
    ended = (now - 15 * MINUTE).replace(minute=0, second=0, microsecond=0)
    return ended - 2 * HOUR


def order(number: int, at: datetime, attempt: int) -> bytes:
    """An order; a second attempt has the id and the time of the first one."""
    fields = {
        "order_id": f"o{number}",
        "at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
        "cents": 1000 + 7 * number,
        "attempt": attempt,
    }
    return json.dumps(fields).encode()


def orders(first: datetime) -> Iterator[Record]:
    """Every order, and the second attempts, in no order."""
    for number in range(MINUTES):
        at = first + number * MINUTE
        yield at, number % PARTITIONS, order(number, at, 1)
        if number % 10 == 7:
            yield at + 5 * MINUTE, number % PARTITIONS, order(number, at, 2)


def produce(kafka: str, topic: str, first: datetime) -> None:
    """Make the topic, with these records in the order of time.

    The records are of the past, so that retention is off: it goes by their time.
    """
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 3})
    config = {"retention.ms": "-1"}
    made = admin.create_topics([NewTopic(topic, PARTITIONS, 1, config=config)])
    if error := made[topic].exception():
        sys.stdout.write("false\n")  # so that `eval` of what this prints fails, too
        raise SystemExit(f"{topic}: {error}")
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 3})
    for time, partition, payload in sorted(orders(first)):
        millis = int(time.timestamp() * 1000)
        producer.produce(topic, payload, partition=partition, timestamp=millis)
    producer.flush()


def main(kafka: str) -> None:
    """Produce everything."""
    first = first_hour(datetime.now(UTC))
    produce(kafka, TOPIC, first)
    begins = (first, first + HOUR)
    sys.stdout.write("export HOUR={:%Y-%m-%dT%H} NEXT={:%Y-%m-%dT%H}\n".format(*begins))


if __name__ == "__main__":
    main(sys.argv[1])
