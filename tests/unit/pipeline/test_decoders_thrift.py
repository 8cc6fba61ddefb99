import struct
from pathlib import Path

import orjson
import pytest

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.thrift import ThriftDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.payloads.decoded import as_list
from tests.support.payloads.thrift_payloads import IDL, packed

PROTOCOLS = pytest.mark.parametrize("protocol", ["Binary", "Compact"])
FLAT = {
    "id": 7,
    "user": "é",
    "amount": 1.5,
    "ok": True,
    "tiny": -3,
    "small": -300,
    "medium": 70_000,
    "raw": b"\xfb\xff",
    "color": 5,
    "meta": {"host": "h", "ts": 9},
    "numbers": [1, 2],
    "far": "away",
}
FULL = {
    **FLAT,
    "by": {"a": [1, 5], "b": []},
    "tags": {"x"},
    "choice": {"text": "t"},
    "tree": {"v": 1, "inner": {"v": 2}, "kids": [{"v": 3}, {}]},
}
COLUMNS = {
    "id": "Int64",
    "user": "String",
    "amount": "Float64",
    "ok": "Boolean",
    "tiny": "Int32",
    "small": "Int64",
    "medium": "Timestamp",
    "raw": "Binary",
    "color": "String",
    "9": "Int32",
    "meta.host": "String",
    "10.2": "Float64",
    "far": "String",
}
SCHEMA = schema_of(
    [Column(name=path, type=kind, field=path) for path, kind in COLUMNS.items()]  # type: ignore[arg-type]  # pydantic converts the text
)


def decode(
    values: list[bytes | None], wanted: Wanted, protocol: str = "Binary", name: str = "Event"
) -> Decoded:
    decoder = ThriftDecoder.of({"idl": IDL, "struct": name, "protocol": protocol}, wanted)
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


def errors_of(decoded: Decoded) -> dict[int, str]:
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


@PROTOCOLS
@pytest.mark.parametrize("values", [FLAT, FULL], ids=["flat", "full"])
def test_typed_columns_and_fields_are_read_by_name_and_by_id(
    protocol: str, values: dict[str, object]
) -> None:
    payloads = [packed({"id": 1}, protocol=protocol), None, packed(values, protocol=protocol)]
    paths = (("id",), ("10", "host"), ("color",), ("8",), ("ok",))

    got = decode(payloads, Wanted(paths, SCHEMA), protocol)

    assert got.columns is not None
    rows = [
        [row[name] if name != "medium" else row[name] and row[name].timestamp() for name in COLUMNS]
        for row in got.columns.to_pylist()
    ]
    assert rows == [
        [1, *[None] * 12],
        [None] * 13,
        [7, "é", 1.5, True, -3, -300, 70.0, b"\xfb\xff", "BLUE", 5, "h", 9.0, "away"],
    ]
    assert [as_list(got.fields[path]) for path in paths] == [
        *([1, None, 7], [None, None, "h"], [None, None, "BLUE"]),
        *([None, None, "+/8="], [None, None, True]),
    ]


@PROTOCOLS
def test_a_struct_becomes_json(protocol: str) -> None:
    payloads = [packed(FULL, protocol=protocol), None, packed({}, protocol=protocol)]

    got = decode(payloads, Wanted(json=True), protocol)

    assert [value and orjson.loads(value) for value in got.records.values.to_pylist()] == [
        {
            **FULL,
            "raw": "+/8=",
            "color": "BLUE",
            "by": {"a": ["RED", "BLUE"], "b": []},
            "tags": ["x"],
        },
        None,
        {},
    ]


@PROTOCOLS
def test_json_columns_hold_structs_and_containers(protocol: str) -> None:
    names = ["tree", "by", "tags", "color", "far", "amount"]
    schema = schema_of([Column(name=name, type="Json") for name in names])
    payload = packed({**FULL, "amount": float("nan")}, protocol=protocol)

    got = decode([payload, packed({}, protocol=protocol)], Wanted(schema=schema), protocol)

    assert got.columns is not None
    assert got.columns.to_pylist() == [
        {
            "tree": '{"v":1,"inner":{"v":2},"kids":[{"v":3},{}]}',
            "by": '{"a":["RED","BLUE"],"b":[]}',
            "tags": '["x"]',
            "color": '"BLUE"',
            "far": '"away"',
            "amount": '"NaN"',
        },
        dict.fromkeys(names),
    ]


def test_a_number_that_no_symbol_has_stays_a_number() -> None:
    got = decode([packed({"color": 9})], Wanted((("color",),), json=True))

    assert as_list(got.fields["color",]) == ["9"]
    assert got.records.values.to_pylist() == [b'{"color":9}']


def _field(wire: int, id_: int, value: bytes) -> bytes:
    return struct.pack(">bh", wire, id_) + value


ID = _field(10, 1, struct.pack(">q", 5))
NESTED_LISTS = _field(15, 99, b"\x0f\x00\x00\x00\x01" * 100_000)


@pytest.mark.parametrize(
    "payload",
    [
        ID + _field(8, 2, bytes(4)) + b"\0",  # of another type than the IDL says
        ID + _field(12, 77, _field(12, 1, b"\0") + b"\0") + b"\0",
        ID + _field(13, 77, b"\x0b\x08" + struct.pack(">i", 1) + bytes(4) + bytes(4)) + b"\0",
        ID + _field(15, 77, b"\x0b" + struct.pack(">ii", 1, 2) + b"ab") + b"\0",
        ID + _field(15, 77, b"\x00" + bytes(4)) + b"\0",  # an empty list needs no type
        _field(10, 1, bytes(8)) + ID + b"\0",  # the last one counts
    ],
)
def test_what_the_idl_does_not_have_is_skipped(payload: bytes) -> None:
    got = decode([packed({"id": 5}), payload], Wanted((("id",), ("user",))))

    assert errors_of(got) == {}
    assert as_list(got.fields["id",]) == [5, 5]
    assert as_list(got.fields["user",]) == [None, None]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", "ends inside a value at byte 0"),
        (ID, "ends inside a value at byte 11"),
        (ID + b"\0\0", "1 bytes after the struct"),
        (ID[:-1], "ends inside a value at byte 10"),
        (ID + _field(11, 2, struct.pack(">i", -1)) + b"\0", "ends inside a value at byte 19"),
        (ID + _field(11, 2, struct.pack(">i", 9)) + b"\0", "ends inside a value at byte 19"),
        (ID + _field(11, 2, struct.pack(">i", 1) + b"\xff") + b"\0", "not UTF-8: invalid start"),
        (ID + _field(9, 2, b"") + b"\0", "unknown type 9"),
        (ID + _field(15, 77, b"\x00\x00\x00\x00\x01") + b"\0", "unknown type 0"),
        (ID + _field(15, 77, b"\x08\x7f\xff\xff\xff") + b"\0", "2147483647 items do not fit"),
        (ID + _field(15, 77, b"\x08\xff\xff\xff\xff") + b"\0", "-1 items do not fit"),
        (ID + _field(15, 11, b"\x0a" + struct.pack(">iq", 1, 1)) + b"\0", "a list of I64 in place"),
        (ID + NESTED_LISTS, "more than 64 levels"),
        (ID + _field(12, 14, _field(12, 2, b"") * 100_000), "more than 64 levels"),
        (ID + _field(12, 77, _field(12, 2, b"") * 100_000), "more than 64 levels"),
    ],
)
def test_a_malformed_payload_is_rejected_alone(payload: bytes, error: str) -> None:
    good = packed({"id": 5, "user": "x"})

    got = decode([good, payload, good], Wanted((("id",), ("user",))))

    assert list(errors_of(got)) == [1]
    assert errors_of(got)[1].startswith(f"thrift: {error}")
    assert as_list(got.fields["id",]) == [5, 5]
    assert as_list(got.fields["user",]) == ["x", "x"]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", "ends inside a value"),
        (b"\x16\x0a", "ends inside a value"),
        (b"\x16\x0a\x00\x00", "1 bytes after the struct"),
        (b"\x16" + b"\xff" * 10 + b"\x01\x00", "a number of more than 64 bits"),
        (b"\x1e\x00", "unknown type 14"),
        (b"\x19\x0e\x00", "unknown type 14"),
        (b"\x18\xff\xff\xff\xff\x0f\x00", "ends inside a value"),
        (b"\x19\xf5\xff\xff\xff\xff\x0f\x00", "4294967295 items do not fit"),
        (b"\x19" + b"\x19" * 100_000, "more than 64 levels"),
    ],
)
def test_a_malformed_compact_payload_is_rejected_alone(payload: bytes, error: str) -> None:
    good = packed({"id": 5}, protocol="Compact")

    got = decode([good, payload, good], Wanted((("id",),)), "Compact")

    assert list(errors_of(got)) == [1]
    assert error in errors_of(got)[1]


@PROTOCOLS
def test_a_required_field_must_be_there(protocol: str) -> None:
    payloads = [packed(row, "Strict", protocol) for row in ({"id": 1}, {"meta": {"ts": 1}})]

    got = decode([*payloads, None], Wanted((("meta", "ts"),)), protocol, "Strict")

    assert errors_of(got) == {1: "thrift: required field id is missing"}


def test_an_integer_out_of_range_makes_a_bad_row() -> None:
    schema = schema_of([Column(name="id", type="Int32")])

    got = decode([packed({"id": 2**31}), packed({"id": -(2**31)})], Wanted(schema=schema))

    assert errors_of(got) == {0: "column id: expected Int32, got 2147483648"}
    assert got.columns is not None
    assert got.columns.to_pylist() == [{"id": -(2**31)}]


def test_an_idl_in_a_file_may_include_others(tmp_path: Path) -> None:
    (tmp_path / "shared.thrift").write_text("struct Inner { 1: i64 ts }")
    file = tmp_path / "events.thrift"
    file.write_text('include "shared.thrift"\nstruct Outer { 1: shared.Inner inner }')

    decoder = ThriftDecoder.of(
        {"file": str(file), "struct": "Outer"},
        Wanted((("inner", "ts"),), read_file=lambda path: Path(path).read_bytes()),
    )
    payload = _field(12, 1, ID + b"\0") + b"\0"
    got = decoder.decode(filled(TopicPartition("t", 0), [0], [payload]))

    assert as_list(got.fields["inner", "ts"]) == [5]


@pytest.mark.parametrize(
    ("options", "wanted", "error"),
    [
        ({"idl": IDL}, Wanted(), "missing required field `struct`"),
        ({"struct": "Event"}, Wanted(), "give the IDL as idl or as file"),
        ({"struct": "Event", "idl": IDL, "file": "x"}, Wanted(), "give the IDL as idl or as file"),
        (
            {"struct": "Evnt", "idl": IDL},
            Wanted(),
            "struct 'Evnt' is not in the IDL; it has Choice",
        ),
        ({"struct": "Event", "idl": "struct {"}, Wanted(), "options: idl: Grammar error '{'"),
        ({"struct": "E", "file": "/none.thrift"}, Wanted(), "options: file: [Errno 2]"),
        ({"struct": "E", "file": "https://x/y.thrift"}, Wanted(), "must be a path"),
        ({"struct": "Event", "idl": IDL, "protocol": "Json"}, Wanted(), "protocol"),
        ({"struct": "Event", "idl": IDL}, Wanted((("nme",),)), "struct Event has no field 'nme'"),
        ({"struct": "Event", "idl": IDL}, Wanted((("meta",),)), "not a single value"),
        ({"struct": "Event", "idl": IDL}, Wanted((("id", "x"),)), "inside of something"),
        (
            {"struct": "Event", "idl": IDL},
            Wanted(schema=schema_of([Column(name="user", type="Int64")])),
            "column user: Int64 cannot be read from string",
        ),
        (
            {"struct": "Event", "idl": IDL},
            Wanted(schema=schema_of([Column(name="meta", type="String")])),
            "column meta: only Json holds a STRUCT",
        ),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], wanted: Wanted, error: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the message is what counts
        ThriftDecoder.of(options, wanted)

    assert error in str(refused.value)
