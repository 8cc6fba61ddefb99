"""Changes that Debezium's own classes made (``debezium/``) land as the rows they are."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from landfall import registry
from landfall.api.spec import parse_group
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.records import of_columns
from tests.support.kubernetes.groups import document

FILE = Path(__file__).parent / "debezium/changes-3.6.1.jsonl"
CHANGES = [json.loads(line) for line in FILE.read_text().splitlines()]
SUFFIXES = pytest.mark.parametrize("suffix", ["", "_with_schema"])
PLACE = [
    *({"name": name, "type": "Float64"} for name in ("x", "y")),
    {"name": "wkb", "type": "Binary"},
    {"name": "srid", "type": "Int32"},
]
COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": "Int64", "nullable": False},
    {"name": "price", "type": "Decimal", "precision": 9, "scale": 2, "encoding": "Base64"},
    {"name": "day", "type": "Date", "unit": "Days"},
    {"name": "ms", "type": "Timestamp"},
    {"name": "us", "type": "Timestamp", "unit": "Microseconds"},
    {"name": "ns", "type": "Timestamp", "unit": "Nanoseconds"},
    {"name": "zoned", "type": "Timestamp"},
    {"name": "state", "type": "String"},
    {"name": "flags", "type": "Binary"},
    {"name": "place", "type": "Struct", "fields": PLACE},
    {"name": "uid", "type": "String"},
    {"name": "note", "type": "String"},
    {"name": "_op", "type": "String"},
    {"name": "lsn", "type": "Int64", "field": "_source.lsn"},
    {"name": "_unavailable", "type": "List", "items": {"type": "String"}},
]
AT = datetime(2026, 11, 21, 4, 0, 0, 123_456, UTC)
MILLIS = timedelta(microseconds=456)
ROW = {
    "id": 1,
    "price": Decimal("-123.45"),
    "day": date(1970, 1, 1) + timedelta(days=20_778),
    "ms": AT - MILLIS,
    "us": AT,
    "ns": AT,
    "zoned": AT,
    "state": "paid",
    "flags": b"\x05\x02",
    "uid": "00000000-0000-4000-8000-000000000001",
    "note": 'é\n"q"',
    "lsn": 24_023_128,
    "_unavailable": None,
}


def decoded(suffix: str, columns: list[dict[str, Any]]) -> Decoded:
    made = document("cdc")
    key = {"format": "Json"}
    made["spec"] |= {
        "decode": {"format": "Json", "envelope": "Debezium", "key": key, "columns": columns},
        "route": {"pattern": "all"},
        "output": {"url": "file:///tmp/out", "format": "Parquet"},
    }
    return registry.pipeline(parse_group(made).spec).decoder.decode(
        of_columns(
            TopicPartition("shop.public.orders", 0),
            np.arange(len(CHANGES)),
            column(f"value{suffix}"),
            keys=column(f"key{suffix}"),
        )
    )


def column(name: str) -> pa.BinaryArray:
    values = [change[name] for change in CHANGES]
    return pa.array([None if v is None else json.dumps(v).encode() for v in values], pa.binary())


@SUFFIXES
def test_each_change_is_the_row_that_it_was_made_of(suffix: str) -> None:
    found = decoded(suffix, COLUMNS)
    assert found.columns is not None
    names = [CHANGES[offset]["name"] for offset in found.records.offsets.tolist()]
    rows = dict(zip(names, found.columns.to_pylist(), strict=True))

    place = rows["create"].pop("place")
    for name in ("read", "delete"):
        assert rows[name].pop("place") == place
    assert (place["x"], place["y"], len(place["wkb"]), place["srid"]) == (1.5, -2.0, 21, None)
    for name, letter in (("create", "c"), ("read", "r"), ("delete", "d")):
        assert rows[name] == {**ROW, "_op": letter}, name
    assert [rows["update"][of] for of in ("id", "price", "_op")] == [1, None, "u"]
    assert rows["update without before"] == rows["update"]
    assert rows["update of another value"] == {**rows["update"], "_unavailable": ["note"]}
    assert [rows["delete without before"][of] for of in ("id", "price", "_op")] == [1, None, "d"]
    assert len(rows) == 7


@SUFFIXES
def test_tombstones_and_heartbeats_are_skipped_and_a_truncation_is_bad(suffix: str) -> None:
    found = decoded(suffix, COLUMNS)

    assert [CHANGES[row]["name"] for row in found.bad.rows.tolist()] == ["truncate"]
    assert found.filtered == 2


@pytest.mark.parametrize(
    ("name", "declared", "remedy"),
    [
        ("us", {"unit": "Milliseconds"}, "io.debezium.time.MicroTimestamp: set unit: Microseconds"),
        ("ns", {"unit": None}, "io.debezium.time.NanoTimestamp: set unit: Nanoseconds"),
        ("price", {"scale": 3}, "org.apache.kafka.connect.data.Decimal: set scale: 2"),
    ],
)
def test_the_schema_refuses_a_column_in_another_unit(
    name: str, declared: dict[str, Any], remedy: str
) -> None:
    columns = [each | (declared if each["name"] == name else {}) for each in COLUMNS]

    found = decoded("_with_schema", columns)

    assert f"debezium: column {name}: its schema names {remedy}" in found.bad.errors
    assert len(found.records) == 0
