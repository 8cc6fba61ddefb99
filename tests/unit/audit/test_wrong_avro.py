"""Avro payloads that fastavro wrote, landed and changed: the audit names record and field."""

import datetime as dt
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit.audited_payloads import AuditedPayloads, payloads, stored_schema
from tests.support.kafka.schema_registry import FakeRegistry
from tests.support.payloads.avro import encoded
from tests.support.payloads.own_schemas import V1, orders_registry
from tests.unit.audit.test_wrong_values import change_line, put, rewrite

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "exact", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {
            "name": "wide",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2},
        },
        {"name": "single", "type": "float"},
        {"name": "double", "type": "double"},
        {"name": "flag", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
        {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "note", "type": ["null", "string"]},
        {"name": "either", "type": ["null", "long", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {
            "name": "inner",
            "type": {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]},
        },
        {"name": "more", "type": {"type": "array", "items": "Inner"}},
    ],
}
VALUE: dict[str, Any] = {
    "id": 7, "at": dt.datetime(2026, 11, 21, 4, tzinfo=dt.UTC),
    "exact": dt.datetime(2026, 11, 21, 4, 0, 0, 123456, tzinfo=dt.UTC),
    "day": dt.date(2026, 11, 21), "clock": dt.time(4, 5, 6), "price": Decimal("12.34"),
    "wide": Decimal("-0.01"), "single": 0.1, "double": 0.1, "flag": True, "raw": b"\xfb\xff",
    "code": b"ab", "kind": "B", "note": None, "either": "x", "tags": ["a", "b"],
    "counts": {"k": 1, "a": 2}, "inner": {"n": 5}, "more": [{"n": 6}],
}  # fmt: skip
OTHERS: list[dict[str, Any]] = [
    {},
    {"note": "n", "either": None, "single": float("nan"), "double": float("-inf")},
    {"either": 2**62, "double": -0.0, "single": 1e-30, "price": Decimal(0), "wide": Decimal(0)},
    {"tags": [], "counts": {}, "more": [], "raw": b"", "day": dt.date(1, 1, 1)},
]


def landed(folder: Path, **output: Any) -> AuditedPayloads:
    values = payloads(*(encoded(SCHEMA, VALUE | other) for other in OTHERS))
    decode = {"format": "Avro", "options": {"schema": json.dumps(SCHEMA)}}
    return AuditedPayloads(folder / "root", values, decode=decode, output=output)


def in_columns(folder: Path) -> AuditedPayloads:
    return landed(folder, format="Parquet", columns="FromSchema", codec=None)


def as_json(folder: Path) -> AuditedPayloads:
    return landed(folder, format="Json", codec="Gzip")


def test_what_lands_is_whole(tmp_path: Path) -> None:
    for made in (in_columns(tmp_path / "columns"), as_json(tmp_path / "json")):
        findings = made.audit()

        result = findings.results["clicks", 0]
        assert (findings.faults, result.unchecked, findings.undecided) == ([], {}, {})
        assert result.found == len(OTHERS)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("at", dt.datetime(1970, 1, 21, tzinfo=dt.UTC), "at is 1728000000000, must be 17952336"),
        ("exact", dt.datetime(2026, 11, 21, 4, 0, 0, 123000, tzinfo=dt.UTC), "exact is 1795233600"),
        ("price", Decimal("1.23"), "price is 1.23, must be 12.34"),
        ("wide", "-1E-2", "wide is '-1E-2', must be '-0.01'"),
        ("single", 0.25, "single is 0.25, must be 0.1"),
        ("kind", "A", "kind is 'A', must be 'B'"),
        ("note", "", "note is '', must be null"),
        ("either", {"long": 1, "string": None}, "either.long is 1, must be null"),
        ("inner", {"n": -1}, "inner.n is -1, must be 5"),
        ("counts", [("k", 1)], "counts.a is absent, must be 2"),
        ("more", [{"n": 6}, {"n": 7}], "more[1] is a struct, must be absent"),
    ],
)
def test_a_wrong_column_is_named(tmp_path: Path, name: str, value: object, message: str) -> None:
    made = in_columns(tmp_path)
    rewrite(made, put(name, 0, value))

    (found,) = made.wrong_values()

    assert found.startswith(f"clicks/0 offset 0: {message}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b'"price":"12.34"', b'"price":"1234"', "price is '1234', must be '12.34'"),
        (b'"single":0.1', b'"single":0.2', "single is 0.2000000"),
        (b'{"string":"x"}', b'"x"', "either is 'x', must be an object"),
    ],
)
def test_wrong_json_is_named(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    made = as_json(tmp_path)
    change_line(made, old, new, count=1)

    (found,) = made.wrong_values()
    assert found.startswith(f"clicks/0 offset 0: {message}")


# ------------------------------------------------------------------- unions, keys that come twice

EVENTS: list[Any] = [
    "null",
    {"type": "record", "name": "Made", "fields": [{"name": "id", "type": "long"}]},
    {"type": "record", "name": "Gone", "fields": [{"name": "why", "type": "string"}]},
]


def test_json_of_a_union_is_that_of_its_branch(tmp_path: Path) -> None:
    values = payloads(
        *(encoded(EVENTS, event) for event in (("Made", {"id": 7}), ("Gone", {"why": "sold"})))
    )
    decode = {"format": "Avro", "options": {"schema": json.dumps(EVENTS)}}
    made = AuditedPayloads(
        tmp_path / "root", values, decode=decode, output={"format": "Json", "codec": "Gzip"}
    )

    whole = made.audit()
    assert (whole.faults, whole.results["clicks", 0].found, whole.undecided) == ([], 2, {})

    change_line(made, b'"sold"', b'"lost"', count=1)
    (found,) = made.wrong_values()
    assert found.startswith("clicks/0 offset 1: why is 'lost', must be 'sold'")


@pytest.mark.parametrize(
    "output",
    [
        {"format": "Json", "codec": "Gzip"},
        {"format": "Parquet", "columns": "FromSchema", "codec": None},
    ],
)
def test_of_a_key_that_comes_twice_the_last_value_counts(
    tmp_path: Path, output: dict[str, Any]
) -> None:
    counts = {"type": "map", "values": "int"}
    schema = {"type": "record", "name": "R", "fields": [{"name": "counts", "type": counts}]}
    twice = bytes([6, 2, *b"k", 2, 2, *b"a", 4, 2, *b"k", 6, 0])
    decode = {"format": "Avro", "options": {"schema": json.dumps(schema)}}
    made = AuditedPayloads(tmp_path / "root", payloads(twice), decode=decode, output=output)

    findings = made.audit()

    assert (findings.faults, findings.results["clicks", 0].found) == ([], 1)
    assert (findings.results["clicks", 0].unchecked, findings.undecided) == ({}, {})


# ------------------------------------------------------------------------------ from a registry


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with orders_registry() as made:
        yield made


@pytest.mark.parametrize("columns", ["FromSchema", "Declared"])
def test_schemas_of_a_registry_are_those_that_were_stored(
    tmp_path: Path, registry: FakeRegistry, columns: str
) -> None:
    row = {"id": 7, "who": "ann", "tags": ["a"]}
    decode: dict[str, Any] = {"format": "Avro", "registry": {"urls": [registry.url]}}
    if columns == "Declared":
        decode["columns"] = [{"name": "id", "type": "Int64"}, {"name": "who", "type": "String"}]
    output = {"format": "Parquet", "columns": columns, "codec": None}
    values = payloads(b"\0\0\0\0\x01" + encoded(V1, row))
    made = AuditedPayloads(tmp_path / "root", values, decode=decode, output=output)
    without = made.audit().undecided
    stored_schema(made, registry.url, 1, V1)

    right = made.audit()
    rewrite(made, put("who", 0, "bob"))

    assert without == {"clicks": {"schema 1 of the registry is not stored": 1}}
    assert right.results["clicks", 0].unchecked == {}
    assert made.wrong_values() == ["clicks/0 offset 0: who is 'bob', must be 'ann'"]
