"""The floor of ``make bench``: what Python needs at least to land a topic of JSON by date.

One process reads librdkafka's batches, decodes the time field with msgspec, groups lines by date,
compresses by ISA-L at level 1 and puts objects of 64 MB of lines. It checks nothing else, starts no
Spark, keeps no record of what it landed, and is exactly once for nobody.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import boto3
import msgspec
from botocore.config import Config
from confluent_kafka import Consumer, TopicPartition
from isal import isal_zlib

OBJECT_BYTES = 64 * 2**20
_DAY_MS = 86_400_000
Put = Callable[[str, bytes], object]
"""Keeps an object: its name and its bytes."""


class _Dated(msgspec.Struct):
    ts: int


def land(properties: Mapping[str, Any], topic: str, put: Put) -> None:
    """Land all Kafka partitions of a topic as gzip objects of lines, ``2025-11-21-….gz``.

    Args:
        properties: of librdkafka; offsets are never committed.
        topic: payloads are JSON objects with the milliseconds ``ts``.
        put: called with each object.
    """
    decode = msgspec.json.Decoder(_Dated).decode
    consumer = Consumer({**properties, "group.id": "floor", "enable.auto.commit": False})
    lines: dict[int, list[bytes]] = defaultdict(list)
    sizes: dict[int, int] = defaultdict(int)

    def close(date: int) -> None:
        body = isal_zlib.compressobj(1, isal_zlib.DEFLATED, 31)
        packed = body.compress(b"\n".join([*lines.pop(date), b""])) + body.flush()
        put(f"{datetime.fromtimestamp(date * 86400, UTC):%Y-%m-%d}-{uuid4().hex}.gz", packed)
        sizes.pop(date)

    for partition in consumer.list_topics(topic).topics[topic].partitions:
        place = TopicPartition(topic, partition)
        place.offset, end = consumer.get_watermark_offsets(place)
        consumer.assign([place])
        left = end - place.offset
        while left:
            values = [m.value() or b"" for m in consumer.consume(min(10_000, left), 1.0)]
            left -= len(values)
            for value in values:
                date = decode(value).ts // _DAY_MS
                lines[date].append(value)
                sizes[date] += len(value)
            for date in [date for date, size in sizes.items() if size >= OBJECT_BYTES]:
                close(date)
    for date in list(lines):
        close(date)
    consumer.close()


def main() -> None:
    """Land a topic into a bucket, below ``out/``."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--bootstrap", "--topic", "--endpoint", "--bucket"):
        parser.add_argument(option, required=True)
    options = parser.parse_args()
    client = boto3.client(
        "s3",
        endpoint_url=options.endpoint,
        region_name="us-east-1",
        config=Config(s3={"addressing_style": "path"}),
    )
    land(
        {"bootstrap.servers": options.bootstrap},
        options.topic,
        lambda name, body: client.put_object(Bucket=options.bucket, Key=f"out/{name}", Body=body),
    )


if __name__ == "__main__":
    main()
