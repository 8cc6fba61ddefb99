"""The examples of the formats' own specifications: their bytes, typed in, and their values.

| format | source |
|---|---|
| Avro | Apache Avro 1.12 Specification, "Binary Encoding", "Object Container Files" |
| Protobuf | protobuf.dev, "Encoding" |
| Thrift | Apache Thrift, ``doc/specs/thrift-binary-protocol.md``, ``thrift-compact-protocol.md`` |
| MessagePack | ``msgpack/msgpack``, ``spec.md``, and the example of msgpack.org |
| Confluent | docs.confluent.io, "Formats, Serializers, and Deserializers", "Wire format" |
"""

import json
from typing import Any

import orjson
import pytest

from landfall.api.spec import Decode
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.records import filled
from landfall.registry import decoder
from tests.support.payloads.own_schemas import fixed, landed
from tests.support.payloads.protobuf_payloads import inline


def decoded(format_: str, options: dict[str, Any], *payloads: str) -> Decoded:
    """What the decoder makes of payloads in hexadecimal, as JSON."""
    made = decoder(Decode(format=format_, options=options), Wanted(json=True))
    values = [bytes.fromhex(payload) for payload in payloads]
    return made.decode(filled(TopicPartition("t", 0), range(len(values)), values))


def value(format_: str, options: dict[str, Any], payload: str) -> object:
    """The one object that a payload is."""
    (found,) = decoded(format_, options, payload).records.values.to_pylist()
    return orjson.loads(found)


# ----------------------------------------------------------------------------------------- Avro

LONGS = {0: "00", -1: "01", 1: "02", -2: "03", 2: "04", -64: "7f", 64: "8001"}


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


def avro(**fields: object) -> dict[str, Any]:
    declared = [{"name": name, "type": type_} for name, type_ in fields.items()]
    return {"schema": json.dumps({"type": "record", "name": "test", "fields": declared})}


@pytest.mark.parametrize(
    ("type_", "payload", "found"),
    [
        *(("long", written, number) for number, written in LONGS.items()),
        *(("int", written, number) for number, written in LONGS.items()),
        ("boolean", "01", True),
        ("boolean", "00", False),
        ("float", "0000803f", 1.0),  # little-endian IEEE 754
        ("double", "000000000000f0bf", -1.0),
        ("string", "06666f6f", "foo"),
        ("bytes", "0400ff", "\x00\xff"),
        ({"type": "fixed", "name": "md5", "size": 2}, "00ff", "\x00\xff"),
        ({"type": "enum", "name": "Foo", "symbols": ["A", "B", "C", "D"]}, "06", "D"),
        ({"type": "array", "items": "long"}, "04063600", [3, 27]),
        ({"type": "array", "items": "long"}, "0304063600", [3, 27]),  # with its size
        ({"type": "map", "values": "long"}, "0202613600", {"a": 27}),
        (["null", "string"], "00", None),
        (["null", "string"], "020261", "a"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "04ff85",
            "-1.23",
        ),
        ({"type": "int", "logicalType": "date"}, "02", 1),
    ],
)
def test_avro_binary_encoding(type_: object, payload: str, found: object) -> None:
    assert value("Avro", avro(a=type_), payload) == {"a": found}


def test_avro_record_of_the_specification() -> None:
    assert value("Avro", avro(a="long", b="string"), "3606666f6f") == {"a": 27, "b": "foo"}


def test_avro_object_container_file() -> None:
    """Magic, metadata, sync marker; then count, size, objects, and the marker again."""
    record = avro(a="long", b="string")["schema"]
    output = {"format": "Avro", "columns": "Declared", "codec": "None"}
    spec = fixed(json.loads(record), **output, options={"envelope": False})

    _, objects = landed([(100, bytes.fromhex("3606666f6f")), (101, bytes.fromhex("0000"))], spec)

    (body,) = objects.values()
    assert body[:4].hex() == "4f626a01"
    assert bytes.fromhex("146176726f2e636f646563086e756c6c") in body  # avro.codec: null
    assert bytes.fromhex("166176726f2e736368656d61") in body  # avro.schema
    sync = body[-16:]
    assert body.endswith(sync + bytes.fromhex("04" + "0e" + "3606666f6f" + "0000") + sync)


def test_avro_single_object_encoding_is_not_guessed() -> None:
    """C3 01 and a fingerprint are no part of a value whose schema is given."""
    made = decoded("Avro", avro(a="long"), "c301" + "00" * 8 + "36")

    assert made.bad.errors == ["avro: bytes left over after the value"]


# ------------------------------------------------------------------------------------- Protobuf

PROTO = """
syntax = "proto3";
message Test1 { int32 a = 1; }
message Test2 { string b = 2; }
message Test3 { Test1 c = 3; }
message Test4 { string d = 4; repeated int32 e = 6; }
message Signed { sint32 s = 1; sint64 l = 2; }
message Fixed { fixed32 f = 1; sfixed64 g = 2; double d = 3; float x = 4; }
message Test6 { map<string, int32> g = 7; }
"""


@pytest.mark.parametrize(
    ("name", "payload", "found"),
    [
        ("Test1", "089601", {"a": 150}),
        ("Test1", "08feffffffffffffffff01", {"a": -2}),
        ("Test1", "0801089601", {"a": 150}),  # the last one wins
        ("Test1", "12026869089601", {"a": 150}),  # a field that it does not have
        ("Test1", "13087b14089601", {"a": 150}),  # a group, which is deprecated
        ("Test2", "120774657374696e67", {"b": "testing"}),
        ("Test3", "1a03089601", {"c": {"a": 150}}),
        ("Test4", "220568656c6c6f300130023003", {"d": "hello", "e": [1, 2, 3]}),
        ("Test4", "3206038e029ea705", {"e": [3, 270, 86942]}),  # packed
        ("Test4", "3001320202033004", {"e": [1, 2, 3, 4]}),  # both
        ("Signed", "0801", {"s": -1}),
        ("Signed", "0802", {"s": 1}),
        ("Signed", "0803", {"s": -2}),
        ("Signed", "08feffffff0f", {"s": 2**31 - 1}),
        ("Signed", "08ffffffff0f", {"s": -(2**31)}),
        ("Fixed", "0d01000000", {"f": 1}),
        ("Fixed", "11ffffffffffffffff", {"g": "-1"}),
        ("Fixed", "19000000000000f0bf250000803f", {"d": -1.0, "x": 1.0}),
        ("Test6", "3a050a016b1001", {"g": {"k": 1}}),
    ],
)
def test_protobuf_encoding(name: str, payload: str, found: object) -> None:
    options = {"message": name, "descriptors": inline(PROTO)}

    assert value("Protobuf", options, payload) == found


@pytest.mark.parametrize(
    ("name", "indexes"),
    [("Test1", "00"), ("Test1", "0200"), ("Test2", "0202"), ("Test3", "0204")],
)
def test_confluents_wire_format_of_protobuf(name: str, indexes: str) -> None:
    """Zigzag numbers: how many indexes, and these; a lone 0 is the short form of ``[0]``."""
    options = {"message": name, "descriptors": inline(PROTO), "framing": "Confluent"}

    assert value("Protobuf", options, "00" + "0000002a" + indexes) == {}


# --------------------------------------------------------------------------------------- Thrift

IDL = """
enum Color { RED = 1 }
struct In { 1: bool yes, 2: bool no }
struct All {
  1: bool b, 2: byte tiny, 3: double d, 4: i16 small, 6: i32 medium, 7: i64 large, 8: binary raw,
  9: string s, 10: In inner, 11: map<string, i32> by, 12: set<i32> few, 13: list<bool> flags,
  14: Color color, 300: i32 far
}
"""


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ("00", {}),
        ("0200010100", {"b": True}),
        ("030002ff00", {"tiny": -1}),
        ("040003bff000000000000000", {"d": -1.0}),  # big-endian
        ("060004800000", {"small": -(2**15)}),
        ("0800060000c4df00", {"medium": 50399}),
        ("0a0007ffffffffffffffff00", {"large": -1}),
        ("0b00080000000200ff00", {"raw": "AP8="}),
        ("0b000900000003666f6f00", {"s": "foo"}),
        ("0c000a02000101020002000000", {"inner": {"yes": True, "no": False}}),
        ("0d000b0b0800000001000000016b0000000700", {"by": {"k": 7}}),
        ("0e000c08000000010000000700", {"few": [7]}),
        ("0f000d0200000002010000", {"flags": [True, False]}),
        ("08000e0000000100", {"color": "RED"}),
        ("08012c0000000700", {"far": 7}),
    ],
)
def test_thrift_binary_protocol(payload: str, found: object) -> None:
    assert value("Thrift", {"idl": IDL, "struct": "All"}, payload) == found


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ("00", {}),
        ("1100", {"b": True}),  # a flag is in the field's type
        ("1200", {"b": False}),
        ("23ff00", {"tiny": -1}),
        ("37000000000000f0bf00", {"d": -1.0}),  # little-endian
        ("44ffff0300", {"small": -(2**15)}),
        ("65df890300", {"medium": -25200}),  # 50399 as a varint, which is zigzag
        ("65be930600", {"medium": 50399}),
        ("760100", {"large": -1}),
        ("880200ff00", {"raw": "AP8="}),
        ("9803666f6f00", {"s": "foo"}),
        ("ac11120000", {"inner": {"yes": True, "no": False}}),
        ("bb0185016b0e00", {"by": {"k": 7}}),
        ("bb0000", {"by": {}}),  # an empty map is one byte
        ("ca150e00", {"few": [7]}),
        ("d921010200", {"flags": [True, False]}),
        ("e50200", {"color": "RED"}),
        ("05d8040e00", {"far": 7}),  # the long form: the id is a zigzag varint
    ],
)
def test_thrift_compact_protocol(payload: str, found: object) -> None:
    options = {"idl": IDL, "struct": "All", "protocol": "Compact"}

    assert value("Thrift", options, payload) == found


# ---------------------------------------------------------------------------------- MessagePack


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ("00", 0),
        ("7f", 127),
        ("ff", -1),
        ("e0", -32),
        ("c0", None),
        ("c2", False),
        ("c3", True),
        ("ccff", 255),
        ("cdffff", 65535),
        ("ceffffffff", 2**32 - 1),
        ("cfffffffffffffffff", 2**64 - 1),
        ("d080", -128),
        ("d18000", -(2**15)),
        ("d280000000", -(2**31)),
        ("d38000000000000000", -(2**63)),
        ("ca3f800000", 1.0),
        ("cbbff0000000000000", -1.0),
        ("a3666f6f", "foo"),
        ("d903666f6f", "foo"),
        ("da0003666f6f", "foo"),
        ("db00000003666f6f", "foo"),
        ("c40200ff", "AP8="),
        ("c5000200ff", "AP8="),
        ("c60000000200ff", "AP8="),
        ("9201c3", [1, True]),
        ("dc000101", [1]),
        ("dd0000000101", [1]),
        ("81a16b01", {"k": 1}),
        ("de0001a16b01", {"k": 1}),
        ("df00000001a16b01", {"k": 1}),
        ("d6ff00000001", "1970-01-01T00:00:01Z"),  # timestamp 32
        ("d7ff0000000400000001", "1970-01-01T00:00:01Z"),  # timestamp 64: 1 ns
        ("c70cff00000000ffffffffffffffff", "1969-12-31T23:59:59Z"),  # timestamp 96
    ],
)
def test_messagepack_formats(payload: str, found: object) -> None:
    assert value("MessagePack", {}, "81a161" + payload) == {"a": found}


def test_messagepack_of_the_home_page() -> None:
    payload = "82a7636f6d70616374c3a6736368656d6100"

    assert value("MessagePack", {}, payload) == {"compact": True, "schema": 0}
