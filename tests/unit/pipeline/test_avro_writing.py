"""Values of landed rows are written as Avro as fastavro would, or the field is named."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from landfall.pipeline.decoders.avro.schema import parse_schema
from landfall.pipeline.decoders.avro.writing import CannotHoldError, encode_value
from tests.support.payloads.avro import encoded

MOMENT = datetime(2026, 11, 21, 4, 5, 6, 789_000, UTC)
CLOCK = time(4, 5, 6, 789_000)
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
FIXED = {"type": "fixed", "name": "F", "size": 5}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


def logical(base: str, name: str) -> dict[str, str]:
    return {"type": base, "logicalType": name}


def written(schema: Any, value: object) -> bytes:
    return encode_value(parse_schema(json.dumps(schema)), value)


def record(*fields: Any) -> Any:
    return {"type": "record", "name": "R", "fields": list(fields)}


INNER = {"type": "record", "name": "S", "fields": [{"name": "b", "type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("null", None),
        ("boolean", True),
        ("int", -(2**31)),
        ("long", 2**63 - 1),
        ("float", 1.5),
        ("double", -1e300),
        ("bytes", b"\xff"),
        ("string", "\u00e4"),
        (FIXED, b"12345"),
        (ENUM, "B"),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": "int"}, {"a": 1}),
        (["null", "int"], None),
        (["null", "int"], 7),
        (logical("long", "timestamp-millis"), MOMENT),
        (logical("long", "timestamp-micros"), MOMENT),
        (logical("long", "local-timestamp-millis"), MOMENT.replace(tzinfo=None)),
        (logical("int", "date"), date(2026, 11, 21)),
        (logical("int", "time-millis"), CLOCK),
        (logical("long", "time-micros"), CLOCK),
        (PRICE, Decimal("-12.50")),
        ({**FIXED, "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-1.50")),
        (
            record({"name": "a", "type": "int"}, {"name": "b", "type": ["null", "int"]}),
            {"a": 1, "b": 2},
        ),
    ],
)
def test_a_value_is_written_as_fastavro_writes_it(schema: Any, value: object) -> None:
    assert written(schema, value) == encoded(schema, value)


@pytest.mark.parametrize(
    ("schema", "landed", "value"),
    [
        ("long", MOMENT, int(MOMENT.timestamp() * 1000)),
        ("int", 7.0, 7),
        ("double", Decimal("1.5"), 1.5),
        ("string", MOMENT, "2026-11-21T04:05:06.789000Z"),
        ("string", b"text", "text"),
        ("bytes", "text", b"text"),
        (PRICE, "12.50", Decimal("12.50")),
        (logical("int", "time-millis"), "04:05:06.789", CLOCK),
        ({"type": "array", "items": "int"}, "[1,2]", [1, 2]),
        (record({"name": "a", "type": "int"}), '{"a":1}', {"a": 1}),
        (["double", "long", "string"], 7, ("long", 7)),
        (["null", "int", "string"], {"int": None, "string": "x"}, "x"),
        (record({"name": "b", "type": "int", "aliases": ["a"]}), {"a": 1}, {"b": 1}),
        (record({"name": "a", "type": "int", "default": 5}), {}, {"a": 5}),
        (record({"name": "a", "type": ["null", "int"]}), {}, {"a": None}),
        (record({"name": "a", "type": ENUM}), {}, {"a": "A"}),
        (record({"name": "a", "type": PRICE}), {}, {"a": Decimal(0)}),
        (
            record({"name": "a", "type": record({"name": "b", "type": "string"}) | {"name": "S"}}),
            {},
            {"a": {"b": ""}},
        ),
    ],
)
def test_a_landed_value_is_written_as_the_schema_has_it(
    schema: Any, landed: object, value: object
) -> None:
    assert written(schema, landed) == encoded(schema, value)


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        ("int", 2**31, "a: 2147483648 is no int"),
        ("int", 1.5, "a: 1.5 is no int"),
        ("int", True, "a: True is no int"),
        ("long", "7", "a: '7' is no long"),
        ("string", 7, "a: 7 is no string"),
        ("string", None, "a: null is no string"),
        ("string", b"\xff", "a: b'\\xff' is no string"),
        ("float", 1e300, "a: 1e+300 is no float"),
        (["null", "int"], "x", "a: 'x' is no int"),
        (["int", "boolean"], "x", "a: 'x' is no int or boolean"),
        (ENUM, "C", "a: 'C' is no symbol of E, which has A, B"),
        (FIXED, b"1", "a: 1 bytes are no F"),
        (PRICE, Decimal("0.125"), "a: Decimal('0.125') is no decimal of 9 digits, 2 of them after"),
        (PRICE, Decimal(123456789), "a: Decimal('123456789') is no decimal of 9 digits"),
        (logical("int", "time-millis"), "x", "a: 'x' is no int (time-millis)"),
        ({"type": "array", "items": "int"}, [1, "x"], "a[1]: 'x' is no int"),
        ({"type": "map", "values": "int"}, {"k": "x"}, "a.k: 'x' is no int"),
        (record({"name": "b", "type": "int"}) | {"name": "S"}, {"b": "x"}, "a.b: 'x' is no int"),
        (record({"name": "b", "type": "int"}) | {"name": "S"}, "{", "a: '{' is no JSON"),
    ],
)
def test_a_value_that_the_schema_cannot_hold_names_its_field(
    type_: Any, value: object, message: str
) -> None:
    with pytest.raises(CannotHoldError) as refused:
        written(record({"name": "a", "type": type_}), {"a": value})

    assert str(refused.value).startswith(message)


def test_a_record_that_must_be_inside_itself_has_no_empty_value() -> None:
    endless = {"type": "record", "name": "N", "fields": [{"name": "next", "type": "N"}]}

    with pytest.raises(CannotHoldError, match=r"^a: it is inside itself without an end"):
        written(record({"name": "a", "type": endless}), {})
