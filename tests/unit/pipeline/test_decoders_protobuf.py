import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.protobuf import FixedProtobufDecoder
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.payloads.decoded import as_list
from tests.support.payloads.protobuf_payloads import LEGACY, descriptors, inline, message

AT = datetime(2026, 11, 21, 4, 0, 0, 123_000, tzinfo=UTC)
PLAIN = {
    "id": "Int64",
    "user": "String",
    "amount": "Float64",
    "ok": "Boolean",
    "agent": "String",
    "raw": "Binary",
    "kind": "String",
    "meta.host": "String",
    "meta.ts": "Timestamp",
    "fix": "Int64",
    "signed": "Int32",
    "ratio": "Float64",
    "at": "Timestamp",
    "far": "Int64",
    "meta.kind": "Int32",
}
ONE_BY_ONE = {"number": "Int32", "text": "String", "tree.inner.v": "Int32"}


def schema(columns: dict[str, str]) -> Any:
    return schema_of(
        [Column(name=path, type=kind, field=path) for path, kind in columns.items()]  # type: ignore[arg-type]  # pydantic converts the text
    )


def event(**values: Any) -> bytes:
    made = message()(**values)
    payload: bytes = made.SerializeToString()
    return payload


FULL = event(
    id=7, user="é", amount=1.5, ok=True, agent="", raw=b"\xfb\xff", kind=5, fix=2**32 - 1,
    meta={"host": "h", "ts": 9, "kind": 1}, signed=-3, ratio=0.5, far=-(2**63), text="t",
    tree={"inner": {"v": 2}}, at=AT, big=2**64 - 1, numbers=[1, 2], by={"a": 1},
)  # fmt: skip
EMPTY = {**dict.fromkeys(PLAIN), "id": 0, "user": "", "amount": 0.0, "ok": False, "raw": b""}
EMPTY |= {"kind": "NONE", "fix": 0, "signed": 0, "ratio": 0.0, "far": 0}
FILLED = {
    "id": 7,
    "user": "é",
    "amount": 1.5,
    "ok": True,
    "agent": "",
    "raw": b"\xfb\xff",
    "kind": "BUY",
    "meta.host": "h",
    "meta.ts": datetime.fromtimestamp(0.009, UTC),
    "fix": 2**32 - 1,
    "signed": -3,
    "ratio": 0.5,
    "at": AT,
    "far": -(2**63),
    "meta.kind": 1,
}


def decode(values: list[bytes | None], wanted: Wanted, **options: Any) -> Decoded:
    given = {"message": "shop.Event", "descriptors": inline(), **options}
    decoder = FixedProtobufDecoder.of({k: v for k, v in given.items() if v is not None}, wanted)
    return decoder.decode(filled(TopicPartition("t", 0), range(len(values)), values))


def errors_of(decoded: Decoded) -> dict[int, str]:
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


@pytest.mark.parametrize("more", [{}, ONE_BY_ONE], ids=["columns", "one by one"])
def test_typed_columns_are_read(more: dict[str, str]) -> None:
    decoder = FixedProtobufDecoder.of(
        {"message": "shop.Event", "descriptors": inline()}, Wanted(schema=schema(PLAIN | more))
    )
    assert (decoder.batches is None) == bool(more)

    got = decoder.decode(filled(TopicPartition("t", 0), range(4), [FULL, None, b"", b"\x08"]))

    absent = dict.fromkeys(more)
    assert got.columns is not None
    assert got.columns.to_pylist() == [
        FILLED | ({"number": None, "text": "t", "tree.inner.v": 2} if more else {}),
        dict.fromkeys(PLAIN) | absent,
        EMPTY | absent,
    ]
    assert errors_of(got) == {3: "protobuf: Wire format was corrupt"}


def test_fields_are_numbers_text_and_names() -> None:
    paths = (("id",), ("kind",), ("raw",), ("at",), ("meta", "host"), ("big",), ("number",))

    got = decode([FULL, event(kind=9), None], Wanted(paths))

    assert [as_list(got.fields[path]) for path in paths] == [
        *([7, 0, None], ["BUY", "9", None], ["+/8=", "", None]),
        *(["2026-11-21T04:00:00.123000Z", None, None], ["h", None, None], [2**64 - 1, 0, None]),
        [None] * 3,
    ]


def test_of_a_oneof_the_last_member_counts() -> None:
    payload = event(number=5) + event(text="t")

    got = decode([payload], Wanted((("number",), ("text",))))

    assert [as_list(values) for values in got.fields.values()] == [[None], ["t"]]


@pytest.mark.parametrize("seconds", [2**62, -(2**62), 10**11, 9_223_372_037, -9_223_372_037])
def test_a_timestamp_that_nanoseconds_cannot_hold_is_not_cut(seconds: int) -> None:
    payload = event(at={"seconds": seconds})

    got = decode([FULL, payload], Wanted(schema=schema({"at": "Timestamp"})))

    if abs(seconds) <= 10**11:
        assert got.columns is not None
        assert got.columns.to_pylist()[1]["at"].timestamp() == seconds
    else:
        assert list(errors_of(got)) == [1]


def test_json_is_protobufs_own() -> None:
    got = decode([FULL, None, b""], Wanted(json=True))

    assert [value and orjson.loads(value) for value in got.records.values.to_pylist()] == [
        {
            "id": "7",
            "user": "é",
            "amount": 1.5,
            "ok": True,
            "agent": "",
            "raw": "+/8=",
            "kind": "BUY",
            "meta": {"host": "h", "ts": "9", "kind": "VIEW"},
            "numbers": [1, 2],
            "by": {"a": "VIEW"},
            "tree": {"inner": {"v": 2}},
            "big": str(2**64 - 1),
            "fix": 2**32 - 1,
            "signed": -3,
            "ratio": 0.5,
            "at": "2026-11-21T04:00:00.123Z",
            "text": "t",
            "far": str(-(2**63)),
        },
        None,
        {},
    ]


@pytest.mark.parametrize(("proto_names", "name"), [(True, "note_text"), (False, "noteText")])
def test_json_has_either_names(proto_names: bool, name: str) -> None:
    got = decode([event(note_text={"value": "n"})], Wanted(json=True), protoNames=proto_names)

    assert got.records.values.to_pylist() == [f'{{"{name}":"n"}}'.encode()]


MAPS = """
syntax = "proto3";
package maps;
import "google/protobuf/struct.proto";
message Deep { map<int32, Deep> by = 1; repeated Deep list = 2; google.protobuf.Struct any = 3; }
"""


def test_the_keys_of_maps_are_in_order_in_json() -> None:
    deep = message("maps.Deep", MAPS)
    numbers = [7, 1, 12, 5, 3, 11, 2, 9]
    one = deep(any={f"k{number}": {"b": 1, "a": 2} for number in numbers})
    made = deep(by=dict.fromkeys(numbers, one), list=[deep(by={2: one, 1: one})])

    options = {"message": "maps.Deep", "descriptors": inline(MAPS)}
    whole = decode([made.SerializeToString()], Wanted(json=True), **options)
    column = decode([made.SerializeToString()], Wanted(schema=schema({"by": "Json"})), **options)

    (text,) = whole.records.values.to_pylist()
    found = orjson.loads(text)
    assert list(found["by"]) == sorted(map(str, numbers))
    assert list(found["list"][0]["by"]) == ["1", "2"]
    for each in (*found["by"].values(), *found["list"][0]["by"].values()):
        assert list(each["any"]) == sorted(f"k{number}" for number in numbers)
        assert all(list(inner) == ["a", "b"] for inner in each["any"].values())
    assert column.columns is not None
    assert list(orjson.loads(column.columns.column("by")[0].as_py())) == sorted(map(str, numbers))


def test_json_columns_hold_messages_lists_and_maps() -> None:
    columns = {"tree": "Json", "by": "Json", "numbers": "Json", "note_text": "Json", "at": "Json"}

    got = decode([FULL, event(note_text={"value": "n"}), b""], Wanted(schema=schema(columns)))

    assert got.columns is not None
    assert got.columns.to_pylist() == [
        {
            "tree": '{"inner":{"v":2}}',
            "by": '{"a":"VIEW"}',
            "numbers": "[1,2]",
            "note_text": None,
            "at": '"2026-11-21T04:00:00.123Z"',
        },
        {**dict.fromkeys(columns), "note_text": '"n"'},
        dict.fromkeys(columns),
    ]


def test_proto2_has_presence_and_no_required_field_is_checked() -> None:
    order = message("old.Order", LEGACY)

    got = decode(
        [order(id=1).SerializeToString(), b"", order(id=0, user="").SerializeToString()],
        Wanted((("id",), ("user",))),
        message="old.Order",
        descriptors=inline(LEGACY),
    )

    assert errors_of(got) == {}
    assert [as_list(values) for values in got.fields.values()] == [[1, None, 0], [None, None, ""]]


def _nested(levels: int) -> bytes:
    node = b""
    for _ in range(levels):
        node = b"\x12" + _varint(len(node)) + node
    return b"\x5a" + _varint(len(node)) + node


def _varint(number: int) -> bytes:
    return bytes([number & 0x7F | 0x80]) + _varint(number >> 7) if number > 127 else bytes([number])


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"\x08", "Wire format was corrupt"),
        (b"\x12\x05abc", "Wire format was corrupt"),
        (b"\x12\x01\xff", "String field had bad UTF-8"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "Wire format was corrupt"),
        (b"\x02\x01a", "Wire format was corrupt"),
        (b"\x83\x08", "Wire format was corrupt"),
        (b"\x0b\x24", "Wire format was corrupt"),  # a group that another one ends
    ],
)
@pytest.mark.parametrize("path", ["id", "text"])
def test_a_malformed_payload_is_rejected_alone(payload: bytes, error: str, path: str) -> None:
    got = decode([FULL, payload, FULL, FULL], Wanted(((path,), ("user",))))

    assert errors_of(got) == {1: f"protobuf: {error}"}
    assert as_list(got.fields["user",]) == ["é"] * 3


@pytest.mark.parametrize("levels", [200, 20_000])
def test_nesting_is_limited(levels: int) -> None:
    got = decode([_nested(levels), FULL], Wanted(json=True))

    assert list(errors_of(got)) == [0]
    assert "MaxDepth" in errors_of(got)[0]


def test_a_timestamp_out_of_range_has_no_json() -> None:
    got = decode([event(at={"seconds": 2**40}), FULL], Wanted(json=True))

    assert list(errors_of(got)) == [0]
    assert errors_of(got)[0].startswith("protobuf: no JSON: ")


HEADER = b"\x00\x00\x00\x00\x2a"


@pytest.mark.parametrize(
    ("name", "indexes"),
    [
        ("shop.Meta", b"\x00"),
        ("shop.Meta", b"\x02\x00"),
        ("shop.Event", b"\x02\x04"),
        ("shop.Event.Inner", b"\x04\x04\x02"),
        ("shop.Event.Inner.Innermost", b"\x06\x04\x02\x00"),
        ("shop.Other", b"\x02\x06"),
    ],
)
def test_confluents_header_names_the_message(name: str, indexes: bytes) -> None:
    wanted = Wanted(json=True)

    got = decode(
        [HEADER + indexes, None, HEADER + b"\x02\x08"], wanted, message=name, framing="Confluent"
    )

    assert got.records.values.to_pylist() == [b"{}", None]
    assert list(errors_of(got)) == [2]
    assert errors_of(got)[2].startswith("protobuf: message indexes [4] in place of [")


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", "no Confluent header"),
        (HEADER, "no Confluent header"),
        (b"\x01" + HEADER[1:] + b"\x00", "no Confluent header"),
        (HEADER + b"\x00", "message indexes [0] in place of [2]"),
        (HEADER + b"\x02", "malformed message indexes"),
        (HEADER + b"\x01", "malformed message indexes"),
        (HEADER + b"\x02\x01", "malformed message indexes"),
        (HEADER + b"\xfe\xff\xff\xff\x0f", "malformed message indexes"),
        (HEADER + b"\xff" * 9, "malformed message indexes"),
        (HEADER + b"\x02\x04\x08", "Wire format was corrupt"),
    ],
)
def test_a_bad_header_is_rejected_alone(payload: bytes, error: str) -> None:
    good = HEADER + b"\x02\x04" + FULL

    got = decode([good, payload, good], Wanted((("id",),)), framing="Confluent")

    assert errors_of(got) == {1: f"protobuf: {error}"}
    assert as_list(got.fields["id",]) == [7, 7]


def test_descriptors_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "shop.bin"
    file.write_bytes(descriptors())

    wanted = Wanted((("id",),), read_file=lambda path: Path(path).read_bytes())
    got = decode([FULL], wanted, descriptors=None, file=str(file))

    assert as_list(got.fields["id",]) == [7]


@pytest.mark.parametrize(
    ("options", "wanted", "error"),
    [
        ({"message": None}, Wanted(), "missing required field `message`"),
        ({"descriptors": None}, Wanted(), "give the descriptors as descriptors or as file"),
        ({"file": "x"}, Wanted(), "give the descriptors as descriptors or as file"),
        ({"descriptors": "%"}, Wanted(), "options: descriptors: "),
        ({"descriptors": "AA=="}, Wanted(), "are no FileDescriptorSet"),
        ({"descriptors": None, "file": "/none.bin"}, Wanted(), "options: file: /none.bin"),
        ({"message": "shop.Evnt"}, Wanted(), "shop.Event, shop.Meta, shop.Node, shop.Other"),
        ({"framing": "Glue"}, Wanted(), "framing"),
        ({}, Wanted((("nme",),)), "message shop.Event has no field 'nme'; its fields are id, user"),
        ({}, Wanted((("meta",),)), "field 'meta' is not a single value"),
        ({}, Wanted((("id", "x"),)), "field 'id.x' is inside of something that is no message"),
        ({}, Wanted((("numbers", "x"),)), "is inside of something that is no message"),
        ({}, Wanted(schema=schema({"user": "Int64"})), "user: Int64 cannot be read from string"),
        ({}, Wanted(schema=schema({"by": "String"})), "only Json holds a message, a list or a map"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], wanted: Wanted, error: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the message is what counts
        decode([], wanted, **options)

    assert error in str(refused.value)


def test_a_descriptor_set_must_hold_what_it_imports() -> None:
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors())
    del files.file[0]

    with pytest.raises(ValueError, match=r"message 'shop\.Event' cannot be made"):
        decode([], Wanted(), descriptors=base64.b64encode(files.SerializeToString()).decode())
