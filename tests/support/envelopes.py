"""Payloads in envelopes, decoded as a group decodes them."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from landfall import registry
from landfall.api.spec import parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import of_columns
from tests.support.kubernetes.groups import document

TP = TopicPartition("shop.public.orders", 0)
COLUMNS = [
    {"name": "id", "type": "Int64"},
    {"name": "note", "type": "String"},
    {"name": "_op", "type": "String"},
]


def decoded(
    payloads: Sequence[object], keys: Sequence[object] = (), format_: str = "Parquet", **decode: Any
) -> Decoded:
    """Decode payloads, which are bytes, or values that JSON is made of."""
    made = document("cdc")
    made["spec"] |= {
        "decode": {"format": "Json", "envelope": "Debezium", **decode},
        "route": {"pattern": "all"},
        "output": {"url": "file:///tmp/out", "format": format_},
    }
    decoder = registry.pipeline(parse_group(made).spec).decoder
    records = of_columns(
        TP,
        np.arange(len(payloads)),
        pa.array(list(map(as_bytes, payloads)), pa.binary()),
        keys=pa.array(list(map(as_bytes, keys)) or [None] * len(payloads), pa.binary()),
    )
    return decoder.decode(records)


def as_bytes(value: object) -> bytes | None:
    """Return a payload: bytes, or JSON of a value."""
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()


def rows(*payloads: object, keys: Sequence[object] = (), **decode: Any) -> list[Any]:
    """Return the typed columns of the rows, and the errors of those that are bad."""
    found = decoded(payloads, keys, **{"columns": COLUMNS, **decode})
    assert found.columns is not None
    assert len(found.records) + len(found.bad) + found.filtered == len(payloads)
    return [*found.columns.to_pylist(), *found.bad.errors]


def documents(*payloads: object, keys: Sequence[object] = (), **decode: Any) -> list[Any]:
    """Return the rows as they are landed as JSON, and the errors of those that are bad."""
    found = decoded(payloads, keys, "Json", **decode)
    return [*map(json.loads, found.records.values.to_pylist()), *found.bad.errors]
