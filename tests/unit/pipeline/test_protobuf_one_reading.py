"""Columns of the message, declared columns and JSON hold the same, whatever a schema may say."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from landfall.api.spec import Column
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.protobuf import FixedProtobufDecoder, admission, batches
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.payloads.protobuf_payloads import descriptors, inline, message

OWN = Wanted(columns=True, own_columns=True)
JSON = Wanted(json=True)


def declared(**columns: str) -> Wanted:
    return Wanted(
        schema=schema_of(
            [Column(name=name, type=type_) for name, type_ in columns.items()]  # type: ignore[arg-type]  # pydantic converts the text
        )
    )


def decoder(proto: str, wanted: Wanted, **options: Any) -> FixedProtobufDecoder:
    return FixedProtobufDecoder.of(
        {"message": "a.M", "descriptors": inline(proto), **options}, wanted
    )


def decode(of: FixedProtobufDecoder, *payloads: bytes) -> Decoded:
    return of.decode(filled(TopicPartition("t", 0), range(len(payloads)), list(payloads)))


def rows_of(decoded: Decoded) -> list[Any]:
    """The rows that are kept: of the message's columns, of declared ones, or of JSON."""
    if decoded.by_schema:
        (part,) = decoded.by_schema
        assert part.columns is not None
        return part.columns.to_pylist()
    if decoded.columns is not None:
        return decoded.columns.to_pylist()
    return [json.loads(value) for value in decoded.records.values.to_pylist()]


def errors_of(decoded: Decoded) -> dict[int, str]:
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


GROUPS = """
syntax = "proto2"; package a;
message M {
  optional int32 n = 1;
  optional group G = 3 { optional int32 x = 4; }
  repeated group H = 5 { optional string y = 6; }
}
"""
DELIMITED = """
edition = "2023"; package a;
message In { int32 x = 4; }
message Of { string y = 6; }
message M {
  int32 n = 1;
  In g = 3 [features.message_encoding = DELIMITED];
  repeated Of h = 5 [features.message_encoding = DELIMITED];
}
"""


@pytest.mark.parametrize("proto", [GROUPS, DELIMITED], ids=["proto2", "editions"])
def test_groups_land(proto: str) -> None:
    payload = bytes.fromhex("0801 1b2007 1c 2b320171 2c")
    row = {"n": 1, "g": {"x": 7}, "h": [{"y": "q"}]}

    assert rows_of(decode(decoder(proto, OWN), payload)) == [row]
    assert rows_of(decode(decoder(proto, JSON), payload)) == [row]
    of_columns = decode(decoder(proto, declared(n="Int64", g="Json", h="Json")), payload)
    assert rows_of(of_columns) == [{"n": 1, "g": '{"x":7}', "h": '[{"y":"q"}]'}]


UNCHECKED = """
package a;
message In { OPT string t = 1; }
message M {
  OPT int32 n = 1; OPT string s = 2; repeated string r = 3; map<string, string> m = 4;
  oneof o { string os = 5; int32 oi = 6; }
  OPT In i = 7; map<int32, In> mi = 8; map<string, int32> mn = 9; map<string, bytes> mb = 10;
  MORE
}
"""
LATIN = UNCHECKED.replace("OPT", "optional")
EXTENDED = 'syntax = "proto2";' + LATIN.replace(
    "MORE", "extensions 100; optional group G = 11 { optional string u = 12; }"
)
EXTENDED += "\nextend M { optional string x = 100; }"
TEXTS = {
    "s": "1201e9",
    "r": "1a016b 1a01e9",
    "m": "2203 0a01e9",
    "m ": "2206 0a016b 1201e9",
    "os": "2a01e9",
    "i.t": "3a03 0a01e9",
    "mi.t": "4207 0801 1203 0a01e9",
    "mn": "4a05 0a01e9 1001",
}
PLAIN = 'syntax = "proto2";' + LATIN.replace("MORE", "")
NONE = 'edition = "2023"; option features.utf8_validation = NONE;' + UNCHECKED.replace(
    "OPT", ""
).replace("MORE", "")


@pytest.mark.parametrize(
    ("proto", "text", "field"),
    [
        *(
            (proto, text, field)
            for proto in (PLAIN, EXTENDED, NONE)
            for field, text in TEXTS.items()
        ),
        (EXTENDED, "a20601e9", "a.x"),
        (EXTENDED, "5b 6201e9 5c", "g.u"),
    ],
)
@pytest.mark.parametrize("wanted", [OWN, JSON, declared(n="Int64"), declared(n="Int64", mb="Json")])
def test_text_that_is_not_utf8_is_a_dead_letter_that_names_the_field(
    proto: str, text: str, field: str, wanted: Wanted
) -> None:
    good = bytes.fromhex("0801 1201 6b 5206 0a016b 1201e9")  # "mb" holds bytes

    decoded = decode(decoder(proto, wanted), good, bytes.fromhex(f"0802 {text}"), good)

    assert errors_of(decoded) == {1: f"protobuf: {field.strip()}: not UTF-8"}
    assert [row["n"] for row in rows_of(decoded)] == [1, 1]


@pytest.mark.parametrize(
    "fields",
    ["int32 user_id = 1; int32 userid = 2;", "int32 ID = 1; int32 id = 2;"],
)
def test_names_that_differ_in_little_land(fields: str) -> None:
    proto = f'syntax = "proto3"; package a; message M {{ {fields} }}'
    names = [part.split()[1] for part in fields.rstrip(";").split(";")]

    payload = b"\x08\x01\x10\x02"

    assert rows_of(decode(decoder(proto, OWN), payload)) == [dict(zip(names, (1, 2), strict=True))]
    (of_json,) = rows_of(decode(decoder(proto, JSON), payload))
    assert list(of_json.values()) == [1, 2]


@pytest.mark.parametrize("edition", ["2023", "2024"])
def test_editions_land(edition: str) -> None:
    proto = f'edition = "{edition}"; package a; message M {{ int32 n = 1; string s = 4; }}'

    for wanted in (OWN, JSON, declared(n="Int64", s="String")):
        decoded = decode(decoder(proto, wanted), bytes.fromhex("0801 220161"), b"\x22\x01\xff")

        assert rows_of(decoded) == [{"n": 1, "s": "a"}]
        assert errors_of(decoded) == {1: "protobuf: String field had bad UTF-8"}


CLOSED = """
syntax = "proto2"; package a;
enum E { A = 0; B = 1; }
message M { optional int32 n = 1; optional E e = 2; repeated E r = 3; map<int32, E> m = 4; }
"""


def test_an_unknown_value_of_a_closed_enum_is_an_unknown_field() -> None:
    payloads = [
        bytes.fromhex(text)
        for text in ("1009", "1001 1009", "1800 1809 1801", "2204 0801 1009 2204 0802 1001")
    ]

    own = rows_of(decode(decoder(CLOSED, OWN), *payloads))
    of_json = rows_of(decode(decoder(CLOSED, JSON), *payloads))
    columns = rows_of(decode(decoder(CLOSED, declared(e="Int64")), *payloads))

    assert decoder(CLOSED, OWN).own.handler is not None  # type: ignore[union-attr]  # wanted above
    assert [row["e"] for row in own] == [None, "B", None, None]
    assert [row["r"] for row in own] == [[], [], ["A", "B"], []]
    assert [row["m"] for row in own] == [[], [], [], [(2, "B")]]
    assert of_json == [{}, {"e": "B"}, {"r": ["A", "B"]}, {"m": {"2": "B"}}]
    assert [row["e"] for row in columns] == [None, 1, None, None]


def test_extensions_are_in_json_and_have_no_columns() -> None:
    payload = bytes.fromhex("0801 a2060178")

    assert rows_of(decode(decoder(EXTENDED, JSON), payload)) == [{"n": 1, "[a.x]": "x"}]
    (row,) = rows_of(decode(decoder(EXTENDED, OWN), payload))
    assert list(row) == ["n", "s", "r", "m", "os", "oi", "i", "mi", "mn", "mb", "g"]


def test_the_maps_of_extensions_are_in_order_in_json() -> None:
    proto = """
    syntax = "proto2"; package a;
    message In { map<int32, int32> by = 1; }
    message M { extensions 100; }
    extend M { optional In x = 100; }
    """
    entries = b"".join(b"\x0a\x04\x08%c\x10\x01" % key for key in range(9, 0, -1))
    payload = b"\xa2\x06" + bytes([len(entries)]) + entries

    (row,) = rows_of(decode(decoder(proto, JSON), payload))

    assert list(row["[a.x]"]["by"]) == [str(key) for key in range(1, 10)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2206 0801 1001 1801", {1: "B"}),  # field 3 of an entry
        ("2206 0801 1001 1801 2204 0801 1000", {1: "A"}),  # the last one of a key counts
        ("2204 0801 1000 2206 0801 1001 1801", {1: "B"}),
        ("2206 0801 1009 1801", {}),  # an unknown value of a closed enum
    ],
)
def test_an_entry_of_a_map_with_an_unknown_field_lands(text: str, expected: dict[int, str]) -> None:
    payload = bytes.fromhex(f"0801 {text}")

    (own,) = rows_of(decode(decoder(CLOSED, OWN), payload))
    (of_json,) = rows_of(decode(decoder(CLOSED, JSON), payload))

    assert dict(own["m"]) == expected
    assert {int(key): name for key, name in of_json.get("m", {}).items()} == expected


PARTS = """
syntax = "proto3"; package a;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message M {
  google.protobuf.Timestamp at = 1; google.protobuf.Int64Value n = 2;
  map<int32, google.protobuf.Timestamp> by = 3;
  oneof o { google.protobuf.Int64Value m = 4; int32 k = 5; }
  optional google.protobuf.Timestamp maybe = 6;
}
"""
AT = datetime(1970, 1, 1, 0, 0, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0a020805 0a0310e807", {"at": AT}),
        ("0a03 10e807 0a0208050a00", {"at": AT}),
        ("12020807 1200", {"n": 7}),
        ("12020807 12024801", {"n": 7}),
        ("1a0b 0801 12020805 120310e807", {"by": [(1, AT)]}),
        ("22020807 2200", {"m": 7}),
        ("32020805 3200", {"maybe": AT.replace(microsecond=0)}),
    ],
)
def test_timestamps_and_wrappers_may_come_in_parts(text: str, expected: dict[str, Any]) -> None:
    of = decoder(PARTS, OWN)
    assert of.own is not None
    assert of.own.handler is not None

    (row,) = rows_of(decode(of, bytes.fromhex(text)))

    assert {name: row[name] for name in expected} == expected


def test_a_declared_timestamp_may_come_in_parts() -> None:
    of = decoder(PARTS, declared(at="Timestamp"))
    assert of.batches is not None

    (row,) = rows_of(decode(of, bytes.fromhex("0a020805 0a0410c0843d")))

    assert row["at"].timestamp() == 5.001


def test_bytes_in_a_message_inside_itself_are_not_that_message() -> None:
    proto = 'syntax = "proto3"; package a; message M { int32 n = 1; bytes raw = 2; M in = 3; }'
    wanted = Wanted(schema=schema_of([Column(name="c", type="Binary", field="in.raw")]))

    decoded = decode(decoder(proto, wanted), bytes.fromhex("1a05 0801 120178"), b"\x1a\x00")

    assert rows_of(decoded) == [{"c": b"x"}, {"c": b""}]


ANY = """
syntax = "proto2"; package a;
import "google/protobuf/any.proto";
message In { optional string t = 1; map<int32, google.protobuf.Any> by = 2; }
message M { optional int32 n = 1; repeated google.protobuf.Any any = 2; }
"""


def any_of(url: str, value: bytes) -> Any:
    return {"type_url": url, "value": value}


def any_json(*values: Any) -> Any:
    made = message("a.M", ANY)(n=1, any=values).SerializeToString()
    decoded = decode(decoder(ANY, JSON), made)
    return errors_of(decoded) or rows_of(decoded)[0].get("any")


def test_an_any_of_an_unknown_type_lands_as_base64() -> None:
    inner = message("a.In", ANY)(t="x", by={1: any_of("un/known", b"\xff"), 2: any_of("", b"")})

    assert any_json(any_of("type.googleapis.com/un.known", b"abc"), any_of("", b"\x01")) == [
        {"@type": "type.googleapis.com/un.known", "value": "YWJj"},
        {"@type": "", "value": "AQ=="},
    ]
    assert any_json(any_of("t/a.In", inner.SerializeToString())) == [
        {"@type": "t/a.In", "by": {"1": {"@type": "un/known", "value": "/w=="}, "2": {}}, "t": "x"}
    ]


def test_an_any_with_text_that_is_not_utf8_has_no_json() -> None:
    assert any_json(any_of("t/a.In", b"\x0a\x01\xe9")) == {0: "protobuf: t: not UTF-8"}


def test_fields_may_have_the_names_of_methods_of_google_protobuf() -> None:
    names = sorted(dir(message("shop.Other")))
    fields = "".join(f"optional string {name} = {i};" for i, name in enumerate(names, 1))
    proto = f'syntax = "proto2"; package a; message M {{ {fields} }}'
    made = b"".join(_text(i, name.encode()) for i, name in enumerate(names, 1))

    expected = {name: name for name in names}
    assert rows_of(decode(decoder(proto, OWN), made)) == [expected]
    assert rows_of(decode(decoder(proto, JSON, protoNames=True), made)) == [expected]
    (of_json,) = rows_of(decode(decoder(proto, JSON), made))
    assert sorted(of_json.values()) == names
    assert "DESCRIPTOR" in of_json
    columns = declared(DESCRIPTOR="String", ListFields="Json")
    assert rows_of(decode(decoder(proto, columns), made)) == [
        {"DESCRIPTOR": "DESCRIPTOR", "ListFields": '"ListFields"'}
    ]


def _text(number: int, text: bytes) -> bytes:
    from landfall.pipeline.decoders.protobuf.together import varint

    return varint(number << 3 | 2) + varint(len(text)) + text


SAME = "optional int32 foo_bar = 1; optional int32 fooBar = 2; optional int32 is_it = 3;"
ALLOWED = "option deprecated_legacy_json_field_conflicts = true;"


@pytest.mark.parametrize(
    "proto",
    [
        f'syntax = "proto2"; package a; message M {{ {SAME} }}',
        f'syntax = "proto3"; package a; message M {{ {ALLOWED} {SAME} }}',
    ],
    ids=["proto2", "proto3"],
)
def test_fields_with_the_same_name_in_json_have_their_own(proto: str) -> None:
    payload = bytes.fromhex("0801 1002 1803")
    row = {"foo_bar": 1, "fooBar": 2, "is_it": 3}

    assert rows_of(decode(decoder(proto, OWN), payload)) == [row]
    assert rows_of(decode(decoder(proto, JSON, protoNames=True), payload)) == [row]
    assert rows_of(decode(decoder(proto, JSON), payload)) == [
        {"foo_bar": 1, "fooBar": 2, "isIt": 3}
    ]


def test_a_message_without_fields_has_no_columns_and_its_json_is_empty() -> None:
    proto = 'syntax = "proto3"; package a; message M {}'

    with pytest.raises(ValueError, match=r"^message a\.M has no fields, so no columns"):
        decoder(proto, OWN)
    assert rows_of(decode(decoder(proto, JSON), b"")) == [{}]


# --------------------------------------------------------------------------------- what ptars reads

WITH_EXTENSION = """
syntax = "proto2"; package a;
message M { extensions 4; }
extend M { optional int32 x = 4; }
"""
SET = """
syntax = "proto2"; package a;
message M { option message_set_wire_format = true; extensions 4 to max; }
"""


@pytest.mark.parametrize(
    ("proto", "why"),
    [
        (GROUPS, "a.M: g is a group"),
        (DELIMITED, "it.proto: editions"),
        (WITH_EXTENSION, "a.M: extensions"),
        (SET, "a.M: a message set"),
        (PLAIN, None),
        (CLOSED, None),
        (PARTS, None),
        (
            'syntax = "proto3"; package a; message M {} message N { int32 a_b = 1; int32 ab = 2; }',
            "it.proto: N: names that differ in case or underscores only",
        ),
    ],
)
def test_ptars_reads_only_what_is_admitted(proto: str, why: str | None) -> None:
    descriptor = message("a.M", proto).DESCRIPTOR

    assert admission.refusal(descriptor) == why
    assert (batches.handler_of(descriptor) is None) == (why is not None)


@pytest.mark.parametrize("wanted", [OWN, JSON, declared(n="Int64")])
def test_text_of_an_extension_is_checked_where_no_group_is(wanted: Wanted) -> None:
    proto = WITH_EXTENSION.replace("extensions 4", "optional int32 n = 1; extensions 4")
    proto = proto.replace("optional int32 x", "optional string x")

    decoded = decode(decoder(proto, wanted), bytes.fromhex("0801 2201e9"))

    assert errors_of(decoded) == {0: "protobuf: a.x: not UTF-8"}


def test_an_entry_without_a_value_is_zero_whatever_number_its_enum_has_first() -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors(CLOSED))
    values = files.file[0].enum_type[0].value
    values[0].name, values[0].number, values[1].name, values[1].number = "B", 1, "A", 0
    given = base64.b64encode(files.SerializeToString()).decode()

    for wanted in (OWN, JSON):
        (row,) = rows_of(
            decode(decoder(CLOSED, wanted, descriptors=given), bytes.fromhex("2202 0801"))
        )
        assert {str(key): name for key, name in dict(row["m"]).items()} == {"1": "A"}


@pytest.mark.parametrize(
    "proto",
    [
        'edition = "2023"; package a; message M { int32 n = 1; }',
        'syntax = "proto3"; package a; message M { int32 n = 1; int32 a_b = 2; int32 ab = 3; }',
    ],
    ids=["editions", "names"],
)
def test_a_schema_that_ptars_panics_about_is_read_without_it(
    proto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "refusal", lambda _: None)

    assert rows_of(decode(decoder(proto, declared(n="Int64")), b"\x08\x01")) == [{"n": 1}]
