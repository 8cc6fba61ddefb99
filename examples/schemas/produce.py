"""Produces orders, clicks and logins for ``shop.yaml``: a few of each, always the same.

Run ``python examples/schemas/produce.py KAFKA REGISTRY``. Needs confluent-kafka, fastavro and
protobuf.
"""

import io
import json
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FOLDER = Path(__file__).parent
BEGIN = datetime(2026, 11, 21, 22, tzinfo=UTC)
COUNT = 240
"""How many records of each kind, one a minute: they are of two days."""
TOPICS = ("orders", "clicks", "logins")
Records = Sequence[Mapping[str, Any]]

FIRST = (
    {"name": "id", "type": "long"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {
        "name": "total",
        "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    },
)
SECOND = (*FIRST, {"name": "coupon", "type": ["null", "string"], "default": None})
ITEM = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}],
}
THIRD = (*SECOND, {"name": "items", "type": {"type": "array", "items": ITEM}, "default": []})
VERSIONS: Records = [
    {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    for fields in (FIRST, SECOND, THIRD)
]


def orders() -> Records:
    """Orders, each with the fields of its version: the versions take turns."""
    return [
        {
            "id": i,
            "at": BEGIN + timedelta(minutes=i),
            "total": Decimal(i * 100_003 - 100).scaleb(-2),
            **({"coupon": f"c{i}" if i % 2 else None} if i % 3 else {}),
            **({"items": [{"sku": f"s{n}", "n": n} for n in range(i % 4)]} if i % 3 > 1 else {}),
        }
        for i in range(COUNT)
    ]


def clicks() -> Records:
    """Clicks; some bought nothing, and some do not say from which device."""
    return [
        {
            "at": millis(i),
            "user": f"u{i % 9}",
            "kind": "BUY" if i % 5 == 0 else "VIEW",
            "pages": [f"/p{n}" for n in range(i % 3)],
            "amount": i / 4 if i % 5 == 0 else None,
            "device": {"os": f"os{i % 3}", "width": 320 * i} if i % 4 else None,
            "scrolled": {f"/p{n}": n * 10 + i % 10 for n in range(i % 3)},
        }
        for i in range(COUNT)
    ]


def logins() -> Records:
    """Logins from two countries and from nowhere; those of ``probe`` are left out."""
    addresses = ("192.0.2.{}", "2001:db8::{:x}", "198.51.100.{}")
    return [
        {
            "who": "probe" if i % 8 == 0 else f"U{i % 7}",
            "ip": addresses[i % 3].format(i % 200 + 1),
            "at": millis(i),
        }
        for i in range(COUNT)
    ]


def millis(minute: int) -> int:
    """The time of the record with this number, in milliseconds since 1970."""
    return int((BEGIN + timedelta(minutes=minute)).timestamp() * 1000)


def avro_payloads(register: Callable[[Mapping[str, Any]], int]) -> Iterator[bytes]:
    """The orders behind Confluent's header: a byte 0 and the id of the schema."""
    schemas = [(register(version), fastavro.parse_schema(dict(version))) for version in VERSIONS]
    for i, order in enumerate(orders()):
        schema_id, schema = schemas[i % 3]
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, dict(order))
        yield b"\0" + schema_id.to_bytes(4, "big") + body.getvalue()


def protobuf_payloads() -> Iterator[bytes]:
    """The clicks as messages of ``clicks.proto``, which protoc has made ``clicks.bin`` of."""
    pool = descriptor_pool.DescriptorPool()
    described = (FOLDER / "clicks.bin").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(described).file:
        pool.Add(file)
    click = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Click"))
    for values in clicks():
        present = {name: value for name, value in values.items() if value is not None}
        yield click(**present).SerializeToString(deterministic=True)


def json_payloads() -> Iterator[bytes]:
    """The logins."""
    return (json.dumps(login).encode() for login in logins())


def main(kafka: str, registry: str, *, topic: Callable[[str], str] = str) -> None:
    """Register the schemas of orders, and produce everything, with one broken payload of each."""

    def register(schema: Mapping[str, Any]) -> int:
        request = urllib.request.Request(  # noqa: S310  # the user's own registry
            f"{registry}/subjects/{topic('orders')}-value/versions",
            json.dumps({"schema": json.dumps(schema)}).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request) as answer:  # noqa: S310
            return int(json.load(answer)["id"])

    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 3})
    made = admin.create_topics([NewTopic(topic(name), 1) for name in TOPICS])
    for name, future in made.items():
        if (error := future.exception()) and "already exists" not in str(error):
            raise SystemExit(f"{name}: {error}")
    producer = Producer({"bootstrap.servers": kafka, "log_level": 3})
    payloads = {
        "orders": avro_payloads(register),
        "clicks": protobuf_payloads(),
        "logins": json_payloads(),
    }
    for name, of_topic in payloads.items():
        for payload in (*of_topic, b"\xffbroken"):
            producer.produce(topic(name), payload)
    if left := producer.flush(60):
        raise SystemExit(f"{left} records were not produced")


if __name__ == "__main__":
    main(*sys.argv[1:3])
