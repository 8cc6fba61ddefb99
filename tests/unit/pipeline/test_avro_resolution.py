"""Payloads of Avro read as the reader's schema has them."""

from typing import Any

import pytest

from landfall.pipeline.decoders.avro.leaves import IncompatibleError
from tests.support.payloads.avro import Declared, columns, encoded, plain, reference


def record(**fields: Declared) -> Declared:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": type_} for name, type_ in fields.items()],
    }


def read_one(schema: Declared, value: object, reader: Declared = None) -> Any:
    column, _, errors = columns(schema, [encoded(schema, value)], reader)
    assert errors == {}
    return column[0].as_py()


OLD = record(id="int", price="float", name="string", gone={"type": "array", "items": "string"})
NEW = {
    "type": "record",
    "name": "other.R",
    "fields": [
        {"name": "title", "aliases": ["name"], "type": ["null", "bytes"], "default": None},
        {"name": "id", "type": "double"},
        {"name": "price", "type": "double"},
        {"name": "tags", "type": {"type": "array", "items": "long"}, "default": [1, -2]},
        {
            "name": "meta",
            "type": record(a="string", b=["int", "null"]),
            "default": {"a": "é", "b": 4},
        },
        {"name": "raw", "type": "bytes", "default": "\u00ff\u0000"},
        {"name": "map", "type": {"type": "map", "values": "float"}, "default": {"k": 0.5}},
    ],
}
NEW["fields"][4]["type"]["name"] = "Meta"  # type: ignore[index]


def test_a_row_is_read_as_the_readers_schema_has_it() -> None:
    value = {"id": 7, "price": 0.5, "name": "x", "gone": ["a", "b"]}

    found = plain(NEW, read_one(OLD, value, NEW))

    of_fastavro = reference(OLD, encoded(OLD, value), NEW)[0]
    assert isinstance(of_fastavro, dict)
    # fastavro leaves the default of bytes as the text in the schema.
    assert found == {**of_fastavro, "raw": of_fastavro["raw"].encode("latin-1")}
    assert found == {
        "title": b"x",
        "id": 7.0,
        "price": 0.5,
        "tags": [1, -2],
        "meta": {"a": "é", "b": 4},
        "raw": b"\xff\x00",
        "map": {"k": 0.5},
    }


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "long", 7, 7),
        ("int", "float", 7, 7.0),
        ("long", "float", 2**40, float(2**40)),
        ("long", "double", -3, -3.0),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", b"x", "x"),
        ("int", ["null", "long"], 7, 7),
        (["null", "int"], "long", 7, 7),
        (["int", "long"], "double", 7, 7.0),
        ("long", ["double", "long"], 7, {"double": None, "long": 7}),
        (["int", "string"], ["null", "bytes"], "x", b"x"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "long", 5, 5),
    ],
)
def test_promotions(writer: Declared, reader: Declared, value: object, expected: object) -> None:
    assert read_one(writer, value, reader) == expected


def test_an_unknown_symbol_is_the_readers_default_or_bad() -> None:
    writer = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    reader = {"type": "enum", "name": "E", "symbols": ["X", "A"]}

    column, _, errors = columns(writer, [b"\x00", b"\x02"], reader)
    defaulted, _, none = columns(writer, [b"\x00", b"\x02"], {**reader, "default": "X"})

    assert (column[0].as_py(), list(errors)) == ("A", [1])
    assert (defaulted.to_pylist(), none) == (["A", "X"], {})


def test_a_branch_that_the_reader_does_not_have_makes_its_rows_bad() -> None:
    writer = ["null", "long", "string"]
    rows = [encoded(writer, value) for value in (7, "x", None)]

    column, _, errors = columns(writer, rows, ["long", "null"])

    assert column.to_pylist()[0] == 7
    assert errors == {1: "avro: schema: string is not in the reader's union"}


@pytest.mark.parametrize(
    ("writer", "reader", "error"),
    [
        ("long", "int", "schema: long cannot be read as int"),
        (record(a="long"), record(a="string"), "a: long cannot be read as string"),
        (record(a="long"), record(a="long", b="long"), "b: the writer has no such field"),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            "fixed F",
        ),
        (record(a="long"), {**record(a="long"), "name": "Other"}, "record R cannot be read as"),
    ],
)
def test_schemas_that_do_not_resolve(writer: Declared, reader: Declared, error: str) -> None:
    with pytest.raises(IncompatibleError, match=error):
        columns(writer, [], reader)
