"""Deliberately wrong values in landed files: the audit names record and column of each."""

import datetime as dt
import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from landfall_audit import Unchecked
from tests.support.audit.audited_payloads import AuditedPayloads, declared, payloads

Tables = Callable[[pa.Table], pa.Table]
UTC_MICROS = pa.timestamp("us", "UTC")


def rewrite(made: AuditedPayloads, change: Tables) -> None:
    """Write each file again with another table, and what its footer says."""
    for file in made.files:
        table = pq.read_table(file, partitioning=None)
        changed = change(table)
        pq.write_table(changed.replace_schema_metadata(table.schema.metadata), file)


def put(name: str, row: int, value: object, type_: pa.DataType | None = None) -> Tables:
    """Another value in a column of a row."""

    def change(table: pa.Table) -> pa.Table:
        column = table.column(name)
        values = column.to_pylist()
        values[row] = value
        at = table.schema.get_field_index(name)
        return table.set_column(at, name, pa.array(values, type_ or column.type))

    return change


def swapped(left: str, right: str) -> Tables:
    """Two columns with the values of each other."""

    def change(table: pa.Table) -> pa.Table:
        columns = {left: table.column(right), right: table.column(left)}
        return pa.table({n: columns.get(n, table.column(n)) for n in table.column_names})

    return change


def time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


JSON = declared(
    "Json",
    {"name": "i", "type": "Int32"},
    {"name": "l", "type": "Int64"},
    {"name": "f", "type": "Float64"},
    {"name": "b", "type": "Boolean"},
    {"name": "s", "type": "String"},
    {"name": "at", "type": "Timestamp", "unit": "Seconds"},
    {"name": "day", "type": "Date"},
    {"name": "raw", "type": "Binary"},
    {"name": "any", "type": "Json"},
    {"name": "price", "type": "Decimal", "precision": 10, "scale": 2},
    {"name": "tags", "type": "List", "items": {"type": "String"}},
    {"name": "who", "type": "Struct", "fields": [{"name": "id", "type": "Int64"}]},
)
ROW = {
    "i": 7, "l": 2**53 + 1, "f": 1.5, "b": True, "s": "café", "at": 1763683200.123456,
    "day": "2026-11-21", "raw": "+/8=", "any": {"a": [1, 2.50, None]}, "price": 12.34,
    "tags": ["a", None], "who": {"id": 1},
}  # fmt: skip
IN_JSON = payloads(*(json.dumps({**ROW, "l": n}).encode() for n in range(4)))
RECORD = "clicks/0 offset 2: "
OF_JSON: dict[str, tuple[Tables, str]] = {
    "text of Python's bytes": (
        put("s", 2, "b'caf\\xe9'"),
        "s is \"b'caf\\\\xe9'\", must be 'café'",
    ),
    "seconds as milliseconds": (
        put("at", 2, time("1970-01-21T09:54:43.200123+00:00")),
        "at is 1763683200123, must be 1763683200123456",
    ),
    "microseconds that are cut": (
        put("at", 2, time("2025-11-21T00:00:00.123+00:00")),
        "at is 1763683200123000, must be 1763683200123456",
    ),
    "-1": (put("i", 2, -1), "i is -1, must be 7"),
    "a number that lost digits": (put("l", 2, 3), "l is 3, must be 2"),
    "infinity": (put("f", 2, float("inf")), "f is inf, must be 1.5"),
    "minus zero": (put("f", 2, -0.0), "f is -0.0, must be 1.5"),
    "the other truth": (put("b", 2, False), "b is false, must be true"),
    "the day before": (put("day", 2, dt.date(2026, 11, 20)), "day is 20777, must be 20778"),
    "base64 as it is": (put("raw", 2, b"+/8="), r"raw is b'+/8=', must be b'\xfb\xff'"),
    "another scale": (
        put("price", 2, Decimal("123.4"), pa.decimal128(10, 2)),
        "price is 123.40, must be 12.34",
    ),
    "a null": (put("s", 2, None), "s is null, must be 'café'"),
    "JSON with another number": (
        put("any", 2, '{"a": [1, 2.51, null]}'),
        "any.a[1] is 2.51, must be 2.5",
    ),
    "an item that is lost": (put("tags", 2, ["a"]), "tags[1] is absent, must be null"),
    "a field of a struct": (put("who", 2, {"id": 2}), "who.id is 2, must be 1"),
    "another Kafka timestamp": (
        put("_timestamp", 2, time("2026-11-21T00:00:00+00:00")),
        "_timestamp is 1795219200000000, must be 1795219200002000",
    ),
}


def test_right_values_of_every_type_are_found(tmp_path: Path) -> None:
    findings = AuditedPayloads(tmp_path / "root", IN_JSON, **JSON).audit()

    result = findings.results["clicks", 0]
    assert (result.expected, result.found, result.unchecked) == (4, 4, {})
    assert (findings.faults, findings.reasons, findings.undecided) == ([], {}, {})


OF_TEXT: dict[str, tuple[dict[str, Any], str]] = {
    "Delimited": ({"columns": ["n", "s"], "quote": '"'}, '{n},"a ""{n}"", b"'),
    "Regex": ({"pattern": r"^(?P<n>\d+) [(](?P<s>.*)[)]$"}, '{n} (a "{n}", b)\n'),
    "Regex with fields": (
        {"pattern": r"([0-9]+) [^])](.*)\)", "fields": ["n", "s"]},
        '{n} (a "{n}", b)',
    ),
}


@pytest.mark.parametrize("decoder", OF_TEXT)
def test_a_wrong_value_of_text_is_named(tmp_path: Path, decoder: str) -> None:
    options, line = OF_TEXT[decoder]
    columns = [{"name": "n", "type": "Int64"}, {"name": "s", "type": "String"}]
    spec = declared(decoder.split(maxsplit=1)[0], *columns, options=options)
    rows = payloads(*(line.replace("{n}", str(n)).encode() for n in range(4)))
    made = AuditedPayloads(tmp_path, rows, **spec)
    assert made.wrong_values() == []

    rewrite(made, put("s", 2, 'a "2"'))

    assert made.wrong_values() == [RECORD + """s is 'a "2"', must be 'a "2", b'"""]
    assert made.audit().results["clicks", 0].unchecked == {}


@pytest.mark.parametrize("wrong", OF_JSON)
def test_a_wrong_value_is_named(tmp_path: Path, wrong: str) -> None:
    change, message = OF_JSON[wrong]
    made = AuditedPayloads(tmp_path / "root", IN_JSON, **JSON)
    rewrite(made, change)

    assert made.wrong_values() == [RECORD + message]
    assert made.audit().results["clicks", 0].corrupted == 1


def test_swapped_columns_are_named(tmp_path: Path) -> None:
    spec = declared("Json", {"name": "a", "type": "Int64"}, {"name": "b", "type": "Int64"})
    made = AuditedPayloads(tmp_path / "root", payloads(b'{"a": 1, "b": 2}'), **spec)
    rewrite(made, swapped("a", "b"))

    assert made.wrong_values() == ["clicks/0 offset 0: a is 2, must be 1"]


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("Int32", "0xffffffff", -1),
        ("Int64", "0x10", 16),
        ("Float64", "1e400", float("inf")),
        ("Float64", "NaN", float("nan")),
        ("Boolean", "1", True),
    ],
)
def test_text_that_is_no_value_and_landed_as_one_is_named(
    tmp_path: Path, type_: str, text: str, value: object
) -> None:
    """What a lenient cast once made of text: its record must be a dead letter."""
    spec = declared("Csv", {"name": "a", "type": type_}, options={"columns": ["a"]})
    good = {"Int32": b"1", "Int64": b"1", "Float64": b"1", "Boolean": b"true"}[type_]
    made = AuditedPayloads(tmp_path / "root", payloads(good), **spec)
    made.in_kafka(payloads(text.encode()))
    rewrite(made, put("a", 0, value))

    (found,) = made.wrong_values()

    expected = f"clicks/0 offset 0: is landed, and must be a dead letter: column a: no {type_}: "
    assert found.startswith(expected)
    assert text in found


def change_line(made: AuditedPayloads, old: bytes, new: bytes, count: int = -1) -> None:
    (file,) = made.files
    text = gzip.decompress(file.read_bytes())
    assert old in text
    file.write_bytes(gzip.compress(text.replace(old, new, count)))


def test_a_wrong_value_in_json_made_of_payloads_is_named(tmp_path: Path) -> None:
    lines = payloads(*(f"{n},caf\u00e9 {n}".encode() for n in range(4)))
    spec = {"decode": {"format": "Csv", "options": {"columns": ["n", "s"]}}}
    output = {"output": {"format": "Json", "codec": "Gzip"}}
    made = AuditedPayloads(tmp_path / "root", lines, **spec, **output)
    assert made.wrong_values() == []

    change_line(made, "caf\u00e9 2".encode(), b"b'caf' 2")

    assert made.wrong_values() == ["clicks/0 offset 2: s is \"b'caf' 2\", must be 'caf\u00e9 2'"]


def test_only_the_first_wrong_records_are_named(tmp_path: Path) -> None:
    many = payloads(*(b'{"a": %d}' % n for n in range(100)))
    made = AuditedPayloads(
        tmp_path / "root", many, **declared("Json", {"name": "a", "type": "Int64"})
    )
    rewrite(made, lambda table: put_all(table, "a", 7))

    findings = made.audit()

    assert findings.results["clicks", 0].corrupted == 99
    assert len(findings.faults) == 20


def put_all(table: pa.Table, name: str, value: object) -> pa.Table:
    at = table.schema.get_field_index(name)
    column = pa.array([value] * len(table), table.column(name).type)
    return table.set_column(at, name, column)


# ------------------------------------------------------------------------------- not compared


def unchecked(made: AuditedPayloads) -> tuple[dict[Unchecked, int], Any, Any]:
    findings = made.audit()
    assert findings.is_whole, findings
    return findings.results["clicks", 0].unchecked, findings.reasons, findings.undecided


def test_columns_without_a_decoder_are_named_and_the_others_compared(tmp_path: Path) -> None:
    key = {"format": "Thrift", "options": {"idl": "struct S { 1: i64 n }", "struct": "S"}}
    spec = declared(
        "Json",
        {"name": "a", "type": "Int64"},
        key={**key, "columns": [{"name": "k", "type": "Int64", "field": "n"}]},
    )
    made = AuditedPayloads(
        tmp_path / "root", payloads(b'{"a": 1}', record_key=b"\x0a\0\1" + bytes(8) + b"\0"), **spec
    )

    found = unchecked(made)
    rewrite(made, put("a", 0, 2))

    why = {"clicks": {"k": "the auditor has no decoder for Thrift"}}
    assert found == ({Unchecked.COLUMNS: 1}, why, {})
    assert made.wrong_values() == ["clicks/0 offset 0: a is 2, must be 1"]


def test_files_of_old_software_are_not_compared(tmp_path: Path) -> None:
    spec = declared("Json", {"name": "at", "type": "Timestamp"})
    made = AuditedPayloads(tmp_path / "root", payloads(b'{"at": 1763683200000}'), **spec)
    in_millis = put("at", 0, time("2025-11-21T00:00:00+00:00"), pa.timestamp("ms", "UTC"))
    rewrite(made, in_millis)

    why = "at is in milliseconds, as in files of old software"
    assert unchecked(made) == ({Unchecked.PAYLOAD: 1}, {}, {"clicks": {why: 1}})


def test_files_without_a_declared_column_are_not_compared(tmp_path: Path) -> None:
    spec = declared("Json", {"name": "a", "type": "Int64"}, {"name": "b", "type": "Int64"})
    made = AuditedPayloads(tmp_path / "root", payloads(b'{"a": 1}'), **spec)
    rewrite(made, lambda table: table.drop_columns(["b"]))

    why = "the file has no column b"
    assert unchecked(made) == ({Unchecked.PAYLOAD: 1}, {}, {"clicks": {why: 1}})


def test_times_that_a_double_cannot_tell_apart_are_not_compared(tmp_path: Path) -> None:
    made = AuditedPayloads(
        tmp_path / "root",
        payloads(b'{"at": 1763683200.1234567}', b'{"at": 1763683200.5}'),
        **declared("Json", {"name": "at", "type": "Timestamp", "unit": "Seconds"}),
    )

    why = "times in numbers finer than a double can represent"
    assert unchecked(made) == ({Unchecked.PAYLOAD: 1}, {}, {"clicks": {why: 1}})


def test_what_transforms_made_is_not_compared(tmp_path: Path) -> None:
    made = AuditedPayloads(
        tmp_path / "root",
        payloads(b'{"a": 1, "b": 2}'),
        **declared("Json", {"name": "a", "type": "Int64"}, {"name": "b", "type": "Int64"}),
        transforms=[{"use": "Select", "options": {"fields": ["a"]}}],
    )

    count, why = {Unchecked.PAYLOAD: 1, Unchecked.PLACE: 1}, "transforms change what is landed"
    assert unchecked(made) == (count, {"clicks": {"": why}}, {})
