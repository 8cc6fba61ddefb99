"""The numbers, times and decimals of Debezium and Connect land as their source has them.

What lands is read by pyarrow and by DuckDB.
"""

import io
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from landfall.errors import Stalled
from landfall.ledger.task_results import LandedSlice
from landfall.registry import pipeline
from landfall.store.memory import MemoryStore
from tests.support.driver.slice_landing import content, land_rows
from tests.support.driver.slice_landing import group as slice_group
from tests.support.payloads.avro import Declared, encoded
from tests.support.payloads.own_schemas import fixed, is_data, landed

AT = datetime(2026, 11, 21, 4, 0, 0, 1, tzinfo=UTC)
SOURCE = {"price": Decimal("123.45"), "at": AT, "day": date(2026, 11, 21), "zoned": AT}
NUMBERS = {"at": 1795233600000001, "day": 20778, "zoned": "2026-11-21T04:00:00.000001Z"}
COLUMNS: list[dict[str, object]] = [
    {"name": "price", "type": "Decimal", "precision": 10, "scale": 2},
    {"name": "at", "type": "Timestamp", "unit": "Microseconds"},
    {"name": "day", "type": "Date", "unit": "Days"},
    {"name": "zoned", "type": "Timestamp"},
]
BASE64 = [{**COLUMNS[0], "encoding": "Base64"}, *COLUMNS[1:]]


def connect(precision: int) -> Declared:
    """The schema of Connect's Avro converter; 64 digits are what it names by itself."""
    price = {"type": "bytes", "logicalType": "decimal", "scale": 2, "precision": precision}
    times = (
        ("at", "long", "io.debezium.time.MicroTimestamp"),
        ("day", "int", "io.debezium.time.Date"),
        ("zoned", "string", "io.debezium.time.ZonedTimestamp"),
    )
    fields = [
        {"name": name, "type": {"type": kind, "connect.name": of}} for name, kind, of in times
    ]
    row = {"type": "record", "name": "Value", "fields": [{"name": "price", "type": price}, *fields]}
    return {
        "type": "record",
        "name": "Envelope",
        "fields": [{"name": "after", "type": ["null", row]}, {"name": "op", "type": "string"}],
    }


def group(decode: Mapping[str, object], columns: list[dict[str, object]]) -> dict[str, Any]:
    after = [{**column, "field": f"after.{column['name']}"} for column in columns]
    return {
        "decode": {**decode, "columns": after},
        "route": {"pattern": "all"},
        "output": {"url": "s3://bucket/root", "format": "Parquet", "options": {"envelope": False}},
    }


def payload(price: object) -> bytes:
    return json.dumps({"after": {"price": price, **NUMBERS}, "op": "c"}).encode()


def the_object(rows: list[tuple[int, bytes]], spec: Mapping[str, Any]) -> bytes:
    _, objects = landed(rows, spec)
    (body,) = (body for key, body in objects.items() if is_data(key))
    return body


def by_duckdb(body: bytes, folder: Path) -> list[dict[str, Any]]:
    file = folder / "rows.parquet"
    file.write_bytes(body)
    with duckdb.connect() as engine:
        engine.execute("set timezone = 'UTC'")
        rows = engine.read_parquet(str(file)).to_arrow_table()
    return list(rows.to_pylist())


JSON = {"format": "Json"}
AVRO = {"format": "Avro", "options": {"schema": json.dumps(connect(64))}}
IN_AVRO = encoded(connect(64), {"after": {"price": Decimal("123.45"), **NUMBERS}, "op": "c"})


@pytest.mark.parametrize(
    ("decode", "columns", "body"),
    [
        pytest.param(JSON, BASE64, payload("MDk="), id="precise"),
        pytest.param(JSON, BASE64, payload({"scale": 2, "value": "MDk="}), id="variable"),
        pytest.param(JSON, COLUMNS, payload("123.45"), id="string"),
        pytest.param(JSON, COLUMNS, payload(123.45), id="double"),
        pytest.param(AVRO, COLUMNS, IN_AVRO, id="avro"),
    ],
)
def test_declared_columns_hold_what_the_source_has(
    decode: Mapping[str, object], columns: list[dict[str, object]], body: bytes, tmp_path: Path
) -> None:
    made = the_object([(100, body)], group(decode, columns))

    assert pq.read_table(io.BytesIO(made)).to_pylist() == [SOURCE]
    assert by_duckdb(made, tmp_path) == [SOURCE]


def test_decimals_of_64_digits_are_decimals_of_38_on_demand(tmp_path: Path) -> None:
    spec = fixed(connect(64), options={"envelope": False})
    spec["decode"]["options"]["maxPrecision"] = 38
    wide = {"after": {"price": Decimal(10**38), **NUMBERS}, "op": "c"}
    store = MemoryStore()

    made = land_rows([(100, IN_AVRO), (101, encoded(connect(64), wide))], store, **spec)

    assert isinstance(made, LandedSlice)
    objects = content(made, store)
    (body,) = (body for key, body in objects.items() if is_data(key))
    (row,) = by_duckdb(body, tmp_path)
    assert row["after"]["price"] == Decimal("123.45")
    assert str(pq.read_schema(io.BytesIO(body)).field("after").type.field("price").type) == (
        "decimal128(38, 2)"
    )
    assert any(b"after.price: not a decimal of 38 digits" in each for each in objects.values())


NAIVE = AT.replace(tzinfo=None)
OF_DEBEZIUM, OF_CONNECT = "io.debezium.time", "org.apache.kafka.connect.data"
MICROS = 1795233600000001
DECIMAL = {"connect.parameters": {"scale": "2", "connect.decimal.precision": "10"}}
NAMED: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("int", {"connect.name": f"{OF_DEBEZIUM}.Date"}, 20778, AT.date()),
    ("int", {"connect.name": f"{OF_DEBEZIUM}.Time"}, 61_001, time(0, 1, 1, 1000)),
    ("long", {"connect.name": f"{OF_DEBEZIUM}.MicroTime"}, 61_000_001, time(0, 1, 1, 1)),
    (
        "long",
        {"connect.name": f"{OF_DEBEZIUM}.Timestamp"},
        MICROS // 1000,
        NAIVE.replace(microsecond=0),
    ),
    ("long", {"connect.name": f"{OF_DEBEZIUM}.MicroTimestamp"}, MICROS, NAIVE),
    ("long", {"connect.name": f"{OF_DEBEZIUM}.NanoTimestamp"}, MICROS * 1000, NAIVE),
    ("int", {"connect.name": f"{OF_CONNECT}.Date"}, 20778, AT.date()),
    ("int", {"connect.name": f"{OF_CONNECT}.Time"}, 61_001, time(0, 1, 1, 1000)),
    (
        "long",
        {"connect.name": f"{OF_CONNECT}.Timestamp"},
        MICROS // 1000,
        AT.replace(microsecond=0),
    ),
    ("bytes", {"connect.name": f"{OF_CONNECT}.Decimal", **DECIMAL}, b"\x30\x39", Decimal("123.45")),
    # No type of that kind, or one that a logical type names better: as without the option.
    ("string", {"connect.name": f"{OF_DEBEZIUM}.ZonedTimestamp"}, "x", "x"),
    ("long", {"connect.name": f"{OF_DEBEZIUM}.NanoTime"}, 7, 7),
    ("long", {"connect.name": f"{OF_DEBEZIUM}.Date"}, 7, 7),
    ("bytes", {"connect.name": f"{OF_CONNECT}.Decimal"}, b"\x30", b"\x30"),
    (
        "long",
        {"connect.name": f"{OF_DEBEZIUM}.Timestamp", "logicalType": "timestamp-micros"},
        MICROS,
        AT,
    ),
]


def named_rows() -> tuple[Declared, bytes]:
    """The schema of all of ``NAMED``, and a payload."""
    fields = [
        {"name": f"f{n}", "type": ["null", {"type": kind, **more}]}
        for n, (kind, more, _, _) in enumerate(NAMED)
    ]
    schema = {"type": "record", "name": "Row", "fields": fields}
    plain = json.loads(json.dumps(schema).replace("logicalType", "was"))
    return schema, encoded(plain, {f"f{n}": row[2] for n, row in enumerate(NAMED)})


def test_names_of_connect_are_types_of_columns_on_demand(tmp_path: Path) -> None:
    schema, body = named_rows()
    spec = fixed(schema, options={"envelope": False})
    spec["decode"]["options"]["connectTypes"] = True

    made = the_object([(100, body)], spec)

    expected = {f"f{n}": row[3] for n, row in enumerate(NAMED)}
    (row,) = by_duckdb(made, tmp_path)
    row["f5"] = datetime.fromisoformat(str(row["f5"]))  # pandas has the nanoseconds
    assert row == expected


def test_without_the_option_they_are_numbers() -> None:
    schema, body = named_rows()

    made = the_object([(100, body)], fixed(schema, options={"envelope": False}))

    (row,) = pq.read_table(io.BytesIO(made)).to_pylist()
    assert row == {f"f{n}": row[2] for n, row in enumerate(NAMED[:-1])} | {"f14": AT}


def test_names_of_connect_change_no_copied_payload() -> None:
    spec = fixed(named_rows()[0], format="Avro", columns="Declared")
    spec["decode"]["options"]["connectTypes"] = True

    with pytest.raises(Stalled, match=r"options\.connectTypes: a format that copies payloads"):
        pipeline(slice_group(**spec).spec)


CONNECT_18 = {"type": "bytes", "logicalType": "decimal", "scale": 18}


def test_without_the_option_they_are_text_of_digits_without_an_exponent() -> None:
    schema: Declared = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": {**CONNECT_18, "precision": 64}}],
    }
    rows = [(100, encoded(schema, {"n": Decimal("0E-18")}))]

    made = the_object(rows, fixed(schema, options={"envelope": False}))

    assert pq.read_table(io.BytesIO(made)).to_pylist() == [{"n": "0.000000000000000000"}]


@pytest.mark.parametrize("steps", [[], [{"use": "Cast", "options": {"n": "String"}}]])
def test_json_has_no_exponent_either(steps: list[dict[str, object]]) -> None:
    declared: list[dict[str, object]] = [
        {"name": "n", "type": "Decimal", "precision": 38, "scale": 18}
    ]
    schema: Declared = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "n", "type": {**CONNECT_18, "precision": 20}}],
    }
    decode = {"format": "Avro", "options": {"schema": json.dumps(schema)}}
    spec = {
        "decode": {**decode, "columns": declared} if steps else decode,
        "transforms": steps,
        "route": {"pattern": "all"},
        "output": {"url": "s3://bucket/root", "format": "Json", "codec": "None"},
    }

    made = the_object([(100, encoded(schema, {"n": Decimal("1E-18")}))], spec)

    assert made == b'{"n":"0.000000000000000001"}\n'


SUM = {"type": "Decimal", "precision": 10, "scale": 2}
NESTED = [
    {"name": "price", "type": "Decimal", "precision": 10, "scale": 2},
    {"name": "tags", "type": "List", "items": {"type": "String"}},
    {
        "name": "geo",
        "type": "Struct",
        "fields": [
            {"name": "lat", "type": "Float64"},
            {"name": "at", "type": "Timestamp", "unit": "Seconds"},
            {"name": "sums", "type": "List", "items": SUM},
        ],
    },
]
NESTED_PAYLOAD = b'{"price":1.5,"tags":["a",null],"geo":{"lat":1,"at":1795233600,"sums":[0.1,"2"]}}'
NESTED_ROW = {
    "price": Decimal("1.50"),
    "tags": ["a", None],
    "geo": {
        "lat": 1.0,
        "at": AT.replace(microsecond=0),
        "sums": [Decimal("0.10"), Decimal("2.00")],
    },
}


@pytest.mark.parametrize("format_", ["Parquet", "Orc"])
def test_columnar_files_hold_decimals_lists_and_structs(format_: str, tmp_path: Path) -> None:
    spec = {
        "decode": {"format": "Json", "columns": NESTED},
        "route": {"pattern": "all"},
        "output": {"url": "s3://bucket/root", "format": format_, "options": {"envelope": False}},
    }
    rows = [(100, NESTED_PAYLOAD), (101, b"{}")]

    made = the_object(rows, spec)

    table = (
        pq.read_table(io.BytesIO(made))
        if format_ == "Parquet"
        else orc.read_table(io.BytesIO(made))
    )
    nothing = dict.fromkeys(NESTED_ROW)
    assert table.to_pylist() == [NESTED_ROW, nothing]
    if format_ == "Parquet":
        assert by_duckdb(made, tmp_path) == [NESTED_ROW, nothing]


def test_json_of_columns_holds_decimals_lists_and_structs() -> None:
    spec = {
        "decode": {"format": "Json", "columns": NESTED},
        "transforms": [{"use": "Rename", "options": {"price": "cost"}}],
        "route": {"pattern": "all"},
        "output": {"url": "s3://bucket/root", "format": "Json", "codec": "None"},
    }

    made = json.loads(the_object([(100, NESTED_PAYLOAD)], spec))

    assert made == {
        "cost": "1.50",
        "tags": ["a", None],
        "geo": {"lat": 1.0, "at": "2026-11-21T04:00:00Z", "sums": ["0.10", "2.00"]},
    }
