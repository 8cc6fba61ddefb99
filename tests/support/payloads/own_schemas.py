"""Groups whose columns come from the payloads' schemas, landed into a store in memory."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow.parquet as pq

from landfall.ledger.task_results import LandedSlice
from landfall.schemas.cached import registry_at
from landfall.store.memory import MemoryStore
from tests.support.driver.slice_landing import Rows, content, land_rows
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.payloads.avro import Declared, encoded

V1: Declared = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
V2: Declared = {
    **V1,
    "fields": [
        *V1["fields"],
        {"name": "cents", "type": ["null", "long"], "default": None},
        {"name": "at", "type": {"type": "record", "name": "At", "fields": [
            {"name": "x", "type": "double"},
            {"name": "by", "type": {"type": "map", "values": "int"}},
        ]}},
    ],
}  # fmt: skip


def order(schema_id: int, number: int) -> bytes:
    """An order of schema 1 or 2, with its header."""
    value: dict[str, Any] = {
        "id": number,
        "who": f"user {number}",
        "tags": ["a", "b"][: number % 3],
    }
    schema = V1
    if schema_id == 2:
        schema = V2
        value |= {
            "cents": None if number % 5 == 0 else number,
            "at": {"x": 0.5, "by": {"k": number}},
        }
    return framed(schema_id, schema, value)


def framed(schema_id: int, schema: Declared, value: object) -> bytes:
    """The value as Avro with Confluent's header."""
    return b"\0" + schema_id.to_bytes(4) + encoded(schema, value)


@contextmanager
def orders_registry() -> Iterator[FakeRegistry]:
    """A registry that knows both schemas."""
    registry_at.cache_clear()
    with schema_registry() as made:
        made.add(1, V1)
        made.add(2, V2)
        yield made


def from_registry(registry: FakeRegistry, **output: object) -> dict[str, Any]:
    """The spec of a group that lands Avro of a registry with its own schemas."""
    return {
        "decode": {"format": "Avro", "registry": {"urls": [registry.url]}},
        "route": {"pattern": "all"},
        "output": {
            "url": "s3://bucket/root",
            "columns": "FromSchema",
            "format": "Parquet",
            **output,
        },
    }


def fixed(schema: Declared, **output: object) -> dict[str, Any]:
    """The spec of a group that lands Avro of one schema."""
    return {
        "decode": {"format": "Avro", "options": {"schema": json.dumps(schema)}},
        "route": {"pattern": "all"},
        "output": {
            "url": "s3://bucket/root",
            "columns": "FromSchema",
            "format": "Parquet",
            **output,
        },
    }


def landed(
    rows: Rows, spec: Mapping[str, Any], chunk: int = 1000
) -> tuple[LandedSlice, dict[str, bytes]]:
    """The slice that these rows make, and its objects by key."""
    store = MemoryStore()
    made = land_rows(rows, store, chunk, **spec)
    assert isinstance(made, LandedSlice), made
    return made, content(made, store)


def is_data(key: str) -> bool:
    """Whether a key is not that of dead letters."""
    return not key.startswith("_landfall/")


def reasons(objects: dict[str, bytes]) -> list[str]:
    """The column ``error`` of the dead letters among objects."""
    return [
        row["error"]
        for key, body in objects.items()
        if not is_data(key)
        for row in pq.ParquetFile(io.BytesIO(body)).read().to_pylist()
    ]
