"""Columns from Avro: logical types, unions, recursive types, hostile bytes."""

import datetime as dt
import json
import re
import struct
import uuid
import warnings
from decimal import Decimal
from typing import Any

import pytest

from landfall.pipeline.decoders.avro.node import MAX_EMPTY_ITEMS, MAX_LEVELS
from landfall.pipeline.decoders.avro.plan import compile_schema
from landfall.pipeline.decoders.avro.schema import parse_schema
from landfall_audit.readers.avro_json import AvroJson
from tests.support.payloads.avro import EVENT, Declared, columns, encoded, plain, reference

NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "value", "type": "int"},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "children", "type": {"type": "array", "items": "Node"}},
    ],
}


def record(**fields: Declared) -> Declared:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": type_} for name, type_ in fields.items()],
    }


def logical(base: Declared, name: str, **more: object) -> Declared:
    declared = base if isinstance(base, dict) else {"type": base}
    return {**declared, "logicalType": name, **more}


def read_one(schema: Declared, value: object, reader: Declared = None) -> Any:
    column, _, errors = columns(schema, [encoded(schema, value)], reader)
    assert errors == {}
    return column[0].as_py()


def read_json(schema: Declared, value: object) -> Any:
    return json.loads(columns(schema, [encoded(schema, value)])[1][0].as_py())


def error_of(schema: Declared, payload: bytes, reader: Declared = None) -> str:
    return columns(schema, [payload], reader)[2][0]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (logical("int", "date"), dt.date(2026, 11, 21)),
        (logical("int", "time-millis"), dt.time(23, 59, 59, 999000)),
        (logical("long", "time-micros"), dt.time(23, 59, 59, 999999)),
        (logical("long", "timestamp-millis"), dt.datetime(2026, 11, 21, 4, tzinfo=dt.UTC)),
        (logical("long", "timestamp-micros"), dt.datetime(1914, 1, 1, 4, 0, 1, 7, dt.UTC)),
        (logical("bytes", "decimal", precision=6, scale=2), Decimal("-1234.56")),
        (logical("bytes", "decimal", precision=38, scale=10), Decimal(10**27) + Decimal("1e-10")),
        (logical("bytes", "decimal", precision=60, scale=0), Decimal("-" + 60 * "9")),
        (
            logical({"type": "fixed", "name": "F", "size": 12}, "decimal", precision=20, scale=3),
            Decimal("-12345678901234567.891"),
        ),
    ],
)
def test_logical_types_are_those_of_fastavro(schema: Declared, value: object) -> None:
    assert read_one(schema, value) == value


def test_nanoseconds_and_local_timestamps() -> None:
    nanos = logical("long", "timestamp-nanos")
    local = logical("long", "local-timestamp-micros")

    column, _, _ = columns(nanos, [encoded("long", 1_763_700_000_123_456_789)])
    local_column, _, _ = columns(local, [encoded("long", -1)])

    assert (str(column.type), column.cast("int64")[0].as_py()) == (
        "timestamp[ns, tz=UTC]",
        1_763_700_000_123_456_789,
    )
    assert local_column[0].as_py() == dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001


def test_uuids_are_text() -> None:
    made = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    fixed = {"type": "fixed", "name": "U", "size": 16}

    assert read_one(logical("string", "uuid"), made) == str(made)
    column, _, _ = columns(logical(fixed, "uuid"), [made.bytes, bytes(16)])
    assert column.to_pylist() == [str(made), str(uuid.UUID(int=0))]


@pytest.mark.parametrize("content", ["bytes", "string", {"type": "array", "items": "bytes"}])
def test_an_item_that_is_wrong_does_not_hide_those_after_it(content: Declared) -> None:
    schema = {"type": "map", "values": content}
    value = bytes.fromhex("02 02 78 00" if isinstance(content, dict) else "02 78")
    wrong = b"\x04" + b"\x02\xff" + value + b"\x02a" + value + b"\0"
    good = b"\x02\x02a" + value + b"\0"

    for payloads in ([good, wrong], [wrong]):
        column, _, errors = columns(schema, payloads)
        assert errors == {len(payloads) - 1: "avro: not UTF-8"}
    assert len(column) == 1


TWICE = bytes.fromhex("02 0261 02 04 0262 04 0261 06 00")
"""The map ``{"a": 1, "b": 2, "a": 3}``, in two blocks."""


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        ({"type": "map", "values": "int"}, TWICE),
        ({"type": "array", "items": {"type": "map", "values": "int"}}, b"\x04\0" + TWICE + b"\0"),
    ],
)
def test_of_a_key_that_comes_twice_the_last_value_counts(schema: Declared, payload: bytes) -> None:
    expected = reference(schema, payload)[0]

    column, texts, errors = columns(schema, [payload])
    by_auditor, end = AvroJson(schema).payload(payload, 0)

    assert errors == {}
    assert column.to_pylist(maps_as_pydicts="strict") == [expected]
    assert json.loads(texts[0].as_py()) == expected
    assert (by_auditor, end) == (b'{"value":%b}' % texts[0].as_py().encode(), len(payload))


@pytest.mark.parametrize(
    "schema",
    [
        logical("string", "timestamp-millis"),
        logical("bytes", "decimal", precision=2, scale=3),
        logical("bytes", "decimal"),
        logical("bytes", "mine"),
    ],
)
def test_a_logical_type_that_fits_not_is_ignored(schema: Declared) -> None:
    payload = encoded(schema["type"], "x" if schema["type"] == "string" else b"x")

    column, _, errors = columns(schema, [payload])

    assert (column[0].as_py(), errors) == ("x" if schema["type"] == "string" else b"x", {})


@pytest.mark.parametrize(
    ("schema", "payload", "error"),
    [
        (logical("bytes", "decimal", precision=2, scale=0), b"\x02\x64", "not a decimal of 2"),
        (logical("bytes", "decimal", precision=2, scale=0), b"\x00", "not a decimal of 2 digits"),
        (
            logical("bytes", "decimal", precision=18, scale=0),
            b"\x10\x80" + bytes(7),
            "not a decimal of 18 digits",
        ),
        (logical("bytes", "decimal", precision=30, scale=0), b"\x1a\x7f" + bytes(12), "of 30"),
        (logical("int", "time-millis"), encoded("int", 86_400_000), "not a time of day"),
        ("int", encoded("long", 2**31), "an int of more than 32 bits"),
        ("long", b"\xff" * 9 + b"\x02", "a number of more than 64 bits"),
        ("long", b"\xff" * 11, "a number of more than 64 bits"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        ("string", b"\x02\xff", "not UTF-8"),
        ("string", b"\x01", "negative length"),
        ("string", encoded("long", 2**62), "ends inside a value"),
        ("double", bytes(7), "ends inside a value"),
        ("double", bytes(9), "bytes left over"),
        ("long", b"", "ends inside a value"),
        (["null", "long"], b"\x04\x02", "unknown branch of a union"),
        (["null", "long"], b"\x01", "unknown branch of a union"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "unknown symbol"),
        ({"type": "fixed", "name": "F", "size": 2**31 - 1}, b"12", "ends inside a value"),
        ({"type": "array", "items": "long"}, encoded("long", 2**40) + b"\0", "more items than"),
        ({"type": "array", "items": "long"}, b"\x01\x03\x02\x02\x00", "negative length"),
        ({"type": "array", "items": "long"}, b"\x01\x06\x02\x00", "ends inside|not as long"),
    ],
)
def test_a_bad_row_says_why(schema: Declared, payload: bytes, error: str) -> None:
    assert re.search(error, error_of(schema, payload))


def test_a_row_that_is_short_harms_no_other() -> None:
    rows = [
        {"id": i, "user": f"u{i}", "ts": 0, "amount": 1.5, "country": "DE", "url": "/"}
        | {"agent": None, "status": 200, "ok": True, "meta": {"host": "h", "ts": i}}
        for i in range(1000)
    ]
    payloads = [encoded(EVENT, row) for row in rows]
    payloads[500] = payloads[500][:-3]

    column, _, errors = columns(EVENT, payloads)

    assert list(errors) == [500]
    ids = column.field("id").to_pylist()
    assert ids[:500] + ids[501:] == [i for i in range(1000) if i != 500]


def test_blocks_with_sizes_are_checked_and_never_jumped_over() -> None:
    schema = record(a={"type": "array", "items": "long"}, b="long")
    whole = b"\x03\x04\x02\x04\x02\x06\x00\x0e"  # two items in 2 bytes, one more, then b
    lying = b"\x03\x06\x02\x04\x02\x06\x00\x0e"

    for times in (1, 100):
        column, _, errors = columns(schema, [whole, lying] * times)

        assert column[0].as_py() == {"a": [1, 2, 3], "b": 7}
        assert errors == dict.fromkeys(
            range(1, 2 * times, 2), "avro: a: a block of another length than it states"
        )
        assert columns(schema, [lying] * times, wanted={"b": None})[2].keys() == set(range(times))


SYMBOLS = {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}
FIXED = {"type": "fixed", "name": "F", "size": 3}
CENTS = logical({"type": "fixed", "name": "D", "size": 2}, "decimal", precision=4, scale=2)
NUMBERS = (0, 1, -1, 63, 64, -64, -65, 300, 2**31 - 1, -(2**31))
LONGS = (*NUMBERS, 2**63 - 1, -(2**63), 2**56, -(2**55) - 1, 2**62)


@pytest.mark.parametrize("counts", [(1000,), (300, 0, 1, 7, 256), (5,) * 100, (0,) * 60])
@pytest.mark.parametrize(
    ("items", "values"),
    [
        ("int", NUMBERS),
        ("long", LONGS),
        ("boolean", (True, False)),
        ("float", (0.0, 1.5, -2.25)),
        ("double", (0.1, -1e300)),
        (SYMBOLS, "ABC"),
        (FIXED, (b"abc", b"\xff\xff\xff")),
        (CENTS, (Decimal("12.34"), Decimal("-0.01"))),
    ],
    ids=str,
)
def test_arrays_are_read_however_many_items_they_have(
    items: Declared, values: tuple[object, ...], counts: tuple[int, ...]
) -> None:
    schema = record(a={"type": "array", "items": items}, b="long")
    rows = [{"a": [values[n % len(values)] for n in range(m)], "b": m} for m in counts]
    payloads = [encoded(schema, row) for row in rows]

    column, _, errors = columns(schema, payloads)
    rest, _, of_rest = columns(schema, payloads, wanted={"b": None})

    assert (column.to_pylist(), errors) == (rows, {})
    assert (rest.to_pylist(), of_rest) == ([{"b": m} for m in counts], {})


@pytest.mark.parametrize("items", [1, 2, 299, 1000])
def test_arrays_in_many_blocks_are_read(items: int) -> None:
    schema = record(a={"type": "array", "items": "long"}, b="long")
    block = b"".join(encoded("long", n) for n in range(items))
    plain_block = encoded("long", items) + block
    sized_block = encoded("long", -items) + encoded("long", len(block)) + block
    payload = plain_block + 2 * sized_block + plain_block + b"\x00\x0e"

    for times in (1, 100):
        column, _, errors = columns(schema, [payload] * times)

        assert errors == {}
        assert column[times - 1].as_py() == {"a": [*range(items)] * 4, "b": 7}
        rest, _, errors = columns(schema, [payload] * times, wanted={"b": None})
        assert (rest.to_pylist(), errors) == ([{"b": 7}] * times, {})


@pytest.mark.parametrize(
    ("items", "good", "bad", "error"),
    [
        ("int", b"\x02", encoded("long", 2**31), "an int of more than 32 bits"),
        ("long", b"\x02", b"\xff" * 9 + b"\x02", "a number of more than 64 bits"),
        ("long", b"\x02", b"\xff" * 11 + b"\x00", "a number of more than 64 bits"),
        ("boolean", b"\x01", b"\x02", "neither 0 nor 1"),
        (SYMBOLS, b"\x02", b"\x06", "unknown symbol of an enum"),
        (SYMBOLS, b"\x02", b"\x01", "unknown symbol of an enum"),
    ],
)
def test_an_item_that_is_wrong_makes_its_row_bad(
    items: Declared, good: bytes, bad: bytes, error: str
) -> None:
    schema = record(a={"type": "array", "items": items}, b="long")

    def row(*parts: bytes) -> bytes:
        return encoded("long", len(parts)) + b"".join(parts) + b"\x00\x0e"

    for place in (0, 150, 299):
        wrong = row(*[good] * place, bad, *[good] * (299 - place))
        rows = [row(*[good] * 300), wrong, row(*[good] * 300)]

        for wanted in (None, {"b": None}):
            column, _, errors = columns(schema, rows, wanted=wanted)

            assert errors.keys() == {1}
            assert error in errors[1]
            assert [column[n].as_py()["b"] for n in (0, 2)] == [7, 7]


@pytest.mark.parametrize(
    ("items", "item"),
    [
        ("int", b"\x80\x01"),
        ("long", b"\x80\x80\x01"),
        ("float", bytes(4)),
        ("double", bytes(8)),
        ("boolean", b"\x00"),
        (SYMBOLS, b"\x02"),
        (FIXED, bytes(3)),
    ],
)
def test_items_are_not_taken_from_the_next_row(items: Declared, item: bytes) -> None:
    schema = record(a={"type": "array", "items": items})
    good = encoded("long", 300) + item * 300 + b"\x00"

    for cut in (1, 2, len(item) + 1, 100):
        for wanted in (None, {}):
            column, _, errors = columns(schema, [good, good[:-cut], good], wanted=wanted)

            assert errors.keys() == {1}
            assert column[0] == column[2]


def test_a_hostile_count_takes_neither_memory_nor_time() -> None:
    schema = record(a={"type": "array", "items": "long"}, b={"type": "array", "items": "double"})
    for count in (2**20, 2**40, 2**62, 2**63 - 1, -(2**63)):
        head = encoded("long", count)
        payloads = [head + bytes(1000), b"\x00" + head + bytes(1000)] * 30

        for wanted in (None, {}):
            assert len(columns(schema, payloads, wanted=wanted)[2]) == 60


def test_items_that_take_no_bytes_are_few() -> None:
    schema = {"type": "array", "items": "null"}
    most, more = ([None] * MAX_EMPTY_ITEMS, [None] * (MAX_EMPTY_ITEMS + 1))

    assert read_one(schema, most) == most
    for times in (1, 100):
        _, _, errors = columns(schema, [encoded(schema, more)] * times)
        assert set(errors.values()) == {"avro: more items than there are bytes for"} or all(
            "more items than there are bytes for" in error for error in errors.values()
        )
        assert len(errors) == times


def test_unions_of_several_types_are_structs() -> None:
    schema = record(u=["null", "long", "string", {"type": "array", "items": "int"}])
    rows = [None, 7, "x", [1, 2]]

    column, texts, errors = columns(schema, [encoded(schema, {"u": row}) for row in rows])

    assert errors == {}
    assert [plain(schema, row)["u"] for row in column.to_pylist()] == rows  # type: ignore[index]
    assert column[1].as_py() == {"u": {"long": 7, "string": None, "array": None}}
    assert [json.loads(text)["u"] for text in texts.to_pylist()] == [
        None,
        {"long": 7},
        {"string": "x"},
        {"array": [1, 2]},
    ]


def test_recursive_types_are_json() -> None:
    leaf = {"value": 3, "next": None, "children": []}
    value = {"value": 1, "next": {"value": 2, "next": leaf, "children": [leaf]}, "children": [leaf]}

    found = read_one(NODE, value)

    assert found["value"] == 1
    assert json.loads(found["next"]) == value["next"]
    assert [json.loads(child) for child in found["children"]] == [leaf]
    assert read_json(NODE, value) == value


def test_recursion_is_bounded() -> None:
    def nested(times: int) -> dict[str, object]:
        made: dict[str, object] = {"value": 0, "next": None, "children": []}
        for time in range(times):
            inner = (
                {"next": made, "children": []} if time % 2 else {"next": None, "children": [made]}
            )
            made = {"value": 0, **inner}
        return made

    bomb = b"\x00\x02" * 500_000
    rows = [encoded(NODE, nested(60)), encoded(NODE, nested(110)), bomb]

    for wanted in (None, {"value": None}):
        _, texts, errors = columns(NODE, rows, wanted=wanted)

        assert errors.keys() == {1, 2}
        assert all(f"nested more than {MAX_LEVELS} levels deep" in e for e in errors.values())
        if wanted is None:
            assert json.loads(texts[0].as_py()) == nested(60)


@pytest.mark.parametrize("kind", ["array", "map", "union", "record"])
def test_a_schema_that_is_nested_as_deep_as_may_be_is_read(kind: str) -> None:
    def nested(levels: int) -> Declared:
        schema: Declared = "long"
        for level in range(levels - 1):
            schema = {
                "array": {"type": "array", "items": schema},
                "map": {"type": "map", "values": schema},
                "record": {**record(f=schema), "name": f"R{level}"},
                "union": [{**record(f=schema), "name": f"R{level}"}, "null"],
            }[kind]
        return schema

    step = {"array": b"\x02", "map": b"\x02\x00", "union": b"\x00", "record": b""}[kind]
    levels = MAX_LEVELS // 2 if kind == "union" else MAX_LEVELS
    end = bytes(levels - 1) if kind in {"array", "map"} else b""

    _, texts, errors = columns(nested(levels), [step * (levels - 1) + b"\x0e" + end, b""])

    assert errors.keys() == {1}
    assert texts[0].as_py().count("7") == 1
    with pytest.raises(ValueError, match="nested"):
        columns(nested(levels + 20), [])


def test_a_schema_bomb_is_refused() -> None:
    inner: Declared = record(a="int")
    for i in range(30):
        fields = [{"name": "x", "type": inner}, {"name": "y", "type": inner["name"]}]
        inner = {"type": "record", "name": f"R{i}", "fields": fields}

    with pytest.raises(ValueError, match="more than 20000 types"):
        compile_schema(parse_schema(json.dumps(inner)))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "not JSON"),
        ('"nothing"', "unknown type 'nothing'"),
        ("[]", "without branches"),
        ('["int", "int"]', "two branches of one type"),
        ('{"type": "record", "name": "R"}', "without fields"),
        ('{"type": "fixed", "name": "F", "size": -1}', "needs a size"),
        ('{"type": "enum", "name": "E", "symbols": []}', "needs symbols"),
        ("7", "not a type: 7"),
        ("[" * 100_000, "not JSON|nested"),
    ],
)
def test_what_is_no_schema(text: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_schema(text)


def test_numbers_of_apaches_specification() -> None:
    """The table of zigzag numbers, and the examples of "Complex Types"."""
    written = {0: "00", -1: "01", 1: "02", -2: "03", 2: "04", -64: "7f", 64: "8001"}
    test = record(a="long", b="string")

    column, _, errors = columns("long", [bytes.fromhex(each) for each in written.values()])

    assert (column.to_pylist(), errors) == (list(written), {})
    assert columns(test, [bytes.fromhex("3606666f6f")])[0].to_pylist() == [{"a": 27, "b": "foo"}]
    items = columns({"type": "array", "items": "long"}, [bytes.fromhex("04063600")])[0]
    assert items.to_pylist() == [[3, 27]]
    either = columns(["null", "string"], [b"\x00", bytes.fromhex("020261")])[0]
    assert either.to_pylist() == [None, "a"]


def test_numbers_that_json_has_not_are_text() -> None:
    payloads = [struct.pack("<d", value) for value in (float("nan"), float("-inf"), -0.0)]

    assert columns("double", payloads)[1].to_pylist() == ['"NaN"', '"-Infinity"', "-0.0"]


def test_a_nan_that_signals_is_one_like_others() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, texts, errors = columns("float", [b"\x01\x00\x80\x7f"])

    assert (texts.to_pylist(), errors) == (['"NaN"'], {})
