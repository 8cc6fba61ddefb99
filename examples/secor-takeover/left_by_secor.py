"""Leaves what two Secor processes leave: objects in a bucket, and committed offsets in Kafka.

The topic goes on behind these offsets, as it does while Secor is stopped.

One process has kept a backup, as SequenceFiles with an offset beside each message; the other one
has written lines of text in folders of hours. Names and bytes are those that Secor gives them: an
upload has one object in each folder, and all its objects are called by the offset at which the
upload begins.

Run ``python examples/secor-takeover/left_by_secor.py KAFKA S3``. Needs confluent-kafka and boto3.
"""

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import md5
from itertools import pairwise
from struct import pack

import boto3
from botocore.config import Config
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, BUCKET = "shop.clicks", "acme-logs"
BEGIN = datetime(2026, 11, 20, 21, tzinfo=UTC)
COUNT = 400
"""How many messages each Kafka partition has, one a minute: they are of two days."""
UPLOADS: Mapping[int, Sequence[int]] = {0: (0, 100, 200, 300), 1: (0, 150, 260)}
"""By Kafka partition, where each upload of Secor begins, and at last what Secor has committed."""
Rows = Sequence[tuple[int, bytes]]


def message(partition: int, offset: int) -> bytes:
    """A click, as its producer sent it."""
    at = BEGIN + timedelta(minutes=offset)
    click = {"ts": int(at.timestamp() * 1000), "user": f"u{offset % 7}", "page": f"/{partition}"}
    return json.dumps(click).encode()


# ------------------------------------------------------------------------------ objects of Secor


def sequence_file(rows: Rows) -> bytes:
    """A SequenceFile of Hadoop, version 6, with GzipCodec by blocks: Secor's with that codec."""
    names = ("LongWritable", "BytesWritable")
    codec = b"org.apache.hadoop.io.compress.GzipCodec"
    sync = md5(rows[0][1], usedforsecurity=False).digest()
    head = b"SEQ\x06" + b"".join(_text(f"org.apache.hadoop.io.{name}".encode()) for name in names)
    head += b"\x01\x01" + _text(codec) + pack(">i", 0) + sync
    keys = [pack(">q", offset) for offset, _ in rows]
    values = [pack(">i", len(payload)) + payload for _, payload in rows]
    buffers = (b"".join(_vint(len(x)) for x in keys), b"".join(keys))
    buffers += (b"".join(_vint(len(x)) for x in values), b"".join(values))
    packed = (gzip.compress(buffer, mtime=0) for buffer in buffers)
    block = _vint(len(rows)) + b"".join(_text(part) for part in packed)
    return head + b"\xff\xff\xff\xff" + sync + block


def _vint(number: int) -> bytes:
    """A number that is not negative, as Hadoop's ``WritableUtils.writeVInt`` writes it."""
    if number <= 127:
        return pack("b", number)
    body = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return pack("b", -112 - len(body)) + body


def _text(text: bytes) -> bytes:
    return _vint(len(text)) + text


def lines(rows: Rows) -> bytes:
    """Messages, each behind it a line break, packed by gzip: no offset is stored."""
    return gzip.compress(b"".join(payload + b"\n" for _, payload in rows), mtime=0)


@dataclass(frozen=True)
class Process:
    """A Secor process.

    Attributes:
        name: of its folder in the bucket; its consumer group is ``secor_NAME``.
        folder: of a message, in the notation of strftime.
        body: the bytes of an object.
    """

    name: str
    folder: str
    body: Callable[[Rows], bytes]

    def objects(self, topic: str) -> Iterator[tuple[str, bytes]]:
        """Keys and bodies of everything that it has uploaded."""
        for partition, starts in UPLOADS.items():
            for start, end in pairwise(starts):
                by_folder: dict[str, list[tuple[int, bytes]]] = {}
                for offset in range(start, end):
                    folder = (BEGIN + timedelta(minutes=offset)).strftime(self.folder)
                    row = (offset, message(partition, offset))
                    by_folder.setdefault(folder, []).append(row)
                for folder, rows in by_folder.items():
                    name = f"1_{partition}_{start:020}.gz"
                    yield f"{self.name}/{topic}/{folder}/{name}", self.body(rows)


PROCESSES = (
    Process("backup", "dt=%Y-%m-%d", sequence_file),
    Process("partition", "dt=%Y-%m-%d/hr=%H", lines),
)


# --------------------------------------------------------------------------------- what it leaves


def produce(kafka: str, topic: str) -> None:
    """Make the topic, with all its messages."""
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 3})
    admin.create_topics([NewTopic(topic, len(UPLOADS), 1)])[topic].result()
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True, "log_level": 3})
    for partition in UPLOADS:
        for offset in range(COUNT):
            producer.produce(topic, message(partition, offset), partition=partition)
    producer.flush()


def commit(kafka: str, group: str, topic: str) -> None:
    """Commit as Secor does: the last offset that is uploaded, plus one."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group, "log_level": 3})
    offsets = [TopicPartition(topic, partition, ends[-1]) for partition, ends in UPLOADS.items()]
    consumer.commit(offsets=offsets, asynchronous=False)
    consumer.close()


def upload(s3: str, bucket: str, topic: str) -> None:
    """Upload the objects; keys come from where boto3 looks for them."""
    config = Config(s3={"addressing_style": "path"})
    client = boto3.client("s3", endpoint_url=s3, config=config)
    if bucket not in {entry["Name"] for entry in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=bucket)
    for process in PROCESSES:
        for key, body in process.objects(topic):
            client.put_object(Bucket=bucket, Key=key, Body=body)


def main(kafka: str, s3: str, bucket: str = BUCKET, topic: str = TOPIC) -> None:
    """Leave everything."""
    produce(kafka, topic)
    for process in PROCESSES:
        commit(kafka, f"secor_{process.name}", topic)
    upload(s3, bucket, topic)


if __name__ == "__main__":
    main(*sys.argv[1:])
