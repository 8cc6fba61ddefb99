"""One value of each logical type, as each format holds it, and what decoders make of it.

``tests/unit/pipeline/test_logical_values.py`` compares them, and makes the table of
docs/decoders/values.md. A payload is a record with one field, ``v``.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

import msgpack

from landfall.api.spec import Column, ColumnType, Decode
from landfall.errors import Stalled
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from landfall.registry import decoder
from tests.support.payloads.avro import encoded
from tests.support.payloads.decoded import as_list
from tests.support.payloads.protobuf_payloads import inline, message

MICROS = 1_795_233_600_123_456
"""2026-11-21T04:00:00.123456Z."""
SECONDS, ID = MICROS // 10**6, UUID("12345678-1234-5678-1234-567812345678")
NO_SINGLE_VALUE, BAD = "no single value", "dead letter"
COLUMNS = {
    ColumnType.STRING: {},
    ColumnType.INT32: {},
    ColumnType.INT64: {},
    ColumnType.FLOAT64: {},
    ColumnType.BOOLEAN: {},
    ColumnType.TIMESTAMP: {},
    ColumnType.DATE: {},
    ColumnType.BINARY: {},
    ColumnType.DECIMAL: {"precision": 38, "scale": 6},
}
_V = ("v",)


@dataclass(frozen=True)
class Sample:
    """A value in a format.

    Attributes:
        logical: its logical type; samples of one have the same value.
        format: the decoder.
        type: what the format calls the type.
        payload: a record whose field ``v`` has the value.
        options: of the decoder.
        field: what the field is with ``values: Common``; ``NO_SINGLE_VALUE`` for lists and such.
        json: what its JSON is with ``values: Common``, parsed; the field, if it is not given.
    """

    logical: str
    format: str
    type: str
    payload: bytes
    options: Mapping[str, str]
    field: Any
    json: Any

    @property
    def name(self) -> str:
        """For the names of tests."""
        return f"{self.logical}-{self.format}-{self.type}"

    def decoded(self, form: str, **wanted: Any) -> Decoded:
        """Return what the decoder makes of it with ``values: form``."""
        decode = Decode.model_validate(
            {"format": self.format, "options": self.options, "values": form}
        )
        built = decoder(decode, Wanted(**wanted))
        return built.decode(filled(TopicPartition("t", 0), range(1), [self.payload]))

    def as_field(self, form: str) -> object:
        """Return the field; ``BAD`` or ``NO_SINGLE_VALUE`` if there is none."""
        try:
            found = self.decoded(form, fields=(_V,))
        except Stalled as error:
            if "not a single value" in str(error):
                return NO_SINGLE_VALUE
            raise
        if len(found.bad.rows):
            return BAD
        value = as_list(found.fields[_V])[0]
        return NO_SINGLE_VALUE if isinstance(value, list | dict | tuple) else value

    def as_json(self, form: str) -> object:
        """Return its JSON, parsed; ``BAD`` if there is none."""
        found = self.decoded(form, json=True)
        if len(found.bad.rows):
            return BAD
        return json.loads(found.records.values[0].as_py()).get("v")

    @cached_property
    def columns(self) -> dict[ColumnType, object]:
        """The value in columns of those types that read it."""
        return dict(self._columns("Common"))

    def _columns(self, form: str) -> Iterator[tuple[ColumnType, object]]:
        for type_, more in COLUMNS.items():
            column = Column.model_validate({"name": "v", "type": type_, **more})
            try:
                found = self.decoded(form, schema=schema_of((column,)))
            except Stalled:  # the decoder refuses the type
                continue
            if not len(found.bad.rows):
                assert found.columns is not None
                yield type_, found.columns.column(0)[0].as_py()


def same(value: object, other: object) -> bool:
    """Whether two values are the same and of one type; NaN is NaN."""
    if isinstance(value, float) and isinstance(other, float):
        return value == other or (math.isnan(value) and math.isnan(other))
    return type(value) is type(other) and value == other


# ------------------------------------------------------------------------- records of each format


def _avro(type_: Any, value: object) -> tuple[bytes, Mapping[str, str]]:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": type_}]}
    return encoded(_plain(schema), {"v": value}), {"schema": json.dumps(schema)}


def _plain(schema: Any) -> Any:
    """Return a schema without logical types, so that values are written as they are stored."""
    if isinstance(schema, dict):
        return {k: _plain(v) for k, v in schema.items() if k not in _LOGICAL}
    return [_plain(each) for each in schema] if isinstance(schema, list) else schema


_LOGICAL = {"logicalType", "precision", "scale"}
_PROTO = """syntax = "proto3";
package logical;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Kind { NONE = 0; CLICK = 1; }
message Inner { int64 a = 1; }
"""


def _protobuf(type_: str, value: Any) -> tuple[bytes, Mapping[str, str]]:
    proto = f"{_PROTO}message R {{ {type_} v = 1; }}"
    made = message("logical.R", proto)()
    if isinstance(value, bytes) and not type_.endswith("bytes"):
        made = type(made).FromString(value)
    elif value is not None:
        made.v = value
    return made.SerializeToString(), {"message": "logical.R", "descriptors": inline(proto)}


_THRIFT = {
    "bool": (2, "?"),
    "byte": (3, "b"),
    "i32": (8, ">i"),
    "Kind": (8, ">i"),
    "i64": (10, ">q"),
    "double": (4, ">d"),
}


def _thrift(type_: str, value: Any) -> tuple[bytes, Mapping[str, str]]:
    idl = f"enum Kind {{ CLICK = 1 }}\nstruct R {{ 1: optional {type_} v }}"
    options = {"struct": "R", "idl": idl}
    if value is None:
        return b"\0", options
    if type_ in _THRIFT:
        code, form = _THRIFT[type_]
        content = struct.pack(form, value)
    elif type_ == "list<i64>":
        code, content = 15, struct.pack(">biq", 10, 1, value)
    else:
        code, content = 11, struct.pack(">i", len(value)) + value
    return struct.pack(">bh", code, 1) + content + b"\0", options


def _messagepack(_: str, value: Any) -> tuple[bytes, Mapping[str, str]]:
    if isinstance(value, msgpack.ExtType):  # a float of 32 bits, as its bytes
        return b"\x81\xa1v" + value.data, {}
    return msgpack.packb({"v": value}), {}


def _json(_: str, value: Any) -> tuple[bytes, Mapping[str, str]]:
    return json.dumps({"v": value}).encode(), {}


_MAKE = {
    "Avro": _avro,
    "Protobuf": _protobuf,
    "Thrift": _thrift,
    "MessagePack": _messagepack,
    "Json": _json,
}


# ------------------------------------------------------------------------------------- the values


def _stamp(seconds: int, nanos: int) -> bytes:
    return bytes(
        message("logical.R", f"{_PROTO}message R {{ google.protobuf.Timestamp v = 1; }}")(
            v={"seconds": seconds, "nanos": nanos}
        ).SerializeToString()
    )


def _of_avro(type_: str, logical: str, **more: object) -> Any:
    return {"type": type_, "logicalType": logical, **more}


_FLOAT = struct.unpack(">f", struct.pack(">f", 0.1))[0]
_FIXED = {"type": "fixed", "name": "F", "size": 3}
_TIME, _TEXT, _DATE = "04:00:00.123456", "2026-11-21T04:00:00.123456", "2026-11-21"
_DAY_MICROS = MICROS % (86_400 * 10**6)

_VALUES: tuple[tuple[str, Any, Any, tuple[tuple[str, Any, Any], ...]], ...] = (
    (
        "null",
        None,
        None,
        (
            ("Avro", ["null", "string"], None),
            ("Protobuf", "optional string", None),
            ("Thrift", "string", None),
            ("MessagePack", "nil", None),
            ("Json", "null", None),
        ),
    ),
    (
        "boolean",
        True,
        True,
        (
            ("Avro", "boolean", True),
            ("Protobuf", "bool", True),
            ("Thrift", "bool", True),
            ("MessagePack", "bool", True),
            ("Json", "true", True),
        ),
    ),
    (
        "integer",
        -5,
        -5,
        (
            ("Avro", "int", -5),
            ("Avro", "long", -5),
            ("Protobuf", "sint32", -5),
            ("Protobuf", "int64", -5),
            ("Thrift", "byte", -5),
            ("Thrift", "i32", -5),
            ("Thrift", "i64", -5),
            ("MessagePack", "int", -5),
            ("Json", "number", -5),
        ),
    ),
    (
        "integer of 64 bits",
        2**63 - 1,
        2**63 - 1,
        (
            ("Avro", "long", 2**63 - 1),
            ("Protobuf", "int64", 2**63 - 1),
            ("Protobuf", "fixed64", 2**63 - 1),
            ("Thrift", "i64", 2**63 - 1),
            ("MessagePack", "int", 2**63 - 1),
            ("Json", "number", 2**63 - 1),
        ),
    ),
    (
        "integer without a sign",
        2**64 - 1,
        2**64 - 1,
        (
            ("Protobuf", "uint64", 2**64 - 1),
            ("MessagePack", "int", 2**64 - 1),
            ("Json", "number", 2**64 - 1),
        ),
    ),
    (
        "float of 32 bits",
        _FLOAT,
        _FLOAT,
        (
            ("Avro", "float", 0.1),
            ("Protobuf", "float", 0.1),
            ("MessagePack", "float 32", msgpack.ExtType(0, struct.pack(">Bf", 0xCA, 0.1))),
        ),
    ),
    (
        "double",
        1.5,
        1.5,
        (
            ("Avro", "double", 1.5),
            ("Protobuf", "double", 1.5),
            ("Thrift", "double", 1.5),
            ("MessagePack", "float 64", 1.5),
            ("Json", "number", 1.5),
        ),
    ),
    *(
        (
            f"double, {text}",
            number,
            text,
            (
                ("Avro", "double", number),
                ("Protobuf", "double", number),
                ("Thrift", "double", number),
                ("MessagePack", "float 64", number),
            ),
        )
        for text, number in (("NaN", math.nan), ("-Infinity", -math.inf))
    ),
    (
        "decimal",
        "12.50",
        "12.50",
        (
            ("Avro", _of_avro("bytes", "decimal", precision=4, scale=2), (1250).to_bytes(2)),
            ("Json", "text", "12.50"),
        ),
    ),
    (
        "text",
        "é",
        "é",
        (
            ("Avro", "string", "é"),
            ("Protobuf", "string", "é"),
            ("Thrift", "string", "é".encode()),
            ("MessagePack", "str", "é"),
            ("Json", "text", "é"),
        ),
    ),
    *(
        (
            name,
            text,
            text,
            (
                ("Avro", "bytes", value),
                ("Avro", _FIXED, value),
                ("Protobuf", "bytes", value),
                ("Thrift", "binary", value),
                ("MessagePack", "bin", value),
            ),
        )
        for name, value, text in (
            ("bytes, UTF-8", b"abc", "YWJj"),
            ("other bytes", b"\xff\x00a", "/wBh"),
        )
    ),
    (
        "enum",
        "CLICK",
        "CLICK",
        (
            ("Avro", {"type": "enum", "name": "Kind", "symbols": ["CLICK"]}, "CLICK"),
            ("Protobuf", "Kind", 1),
            ("Thrift", "Kind", 1),
        ),
    ),
    ("enum, unknown number", "7", "7", (("Protobuf", "Kind", 7), ("Thrift", "Kind", 7))),
    (
        "date",
        _DATE,
        _DATE,
        (
            ("Avro", _of_avro("int", "date"), SECONDS // 86400),
            ("Json", "text", _DATE),
        ),
    ),
    (
        "time of day",
        "04:00:00.123000",
        "04:00:00.123000",
        (
            ("Avro", _of_avro("int", "time-millis"), _DAY_MICROS // 1000),
            ("Avro", _of_avro("long", "time-micros"), _DAY_MICROS // 1000 * 1000),
        ),
    ),
    (
        "instant, milliseconds",
        "2026-11-21T04:00:00.123000Z",
        "2026-11-21T04:00:00.123000Z",
        (
            ("Avro", _of_avro("long", "timestamp-millis"), MICROS // 1000),
            ("Avro", _of_avro("long", "timestamp-micros"), MICROS // 1000 * 1000),
            ("Avro", _of_avro("long", "timestamp-nanos"), MICROS // 1000 * 10**6),
            ("Protobuf", "google.protobuf.Timestamp", _stamp(SECONDS, 123_000_000)),
            ("MessagePack", "timestamp", msgpack.Timestamp(SECONDS, 123_000_000)),
        ),
    ),
    (
        "instant, a whole second",
        "2026-11-21T04:00:00.000000Z",
        "2026-11-21T04:00:00.000000Z",
        (
            ("Avro", _of_avro("long", "timestamp-millis"), SECONDS * 1000),
            ("Protobuf", "google.protobuf.Timestamp", _stamp(SECONDS, 0)),
            ("MessagePack", "timestamp", msgpack.Timestamp(SECONDS, 0)),
        ),
    ),
    (
        "instant, nanoseconds before 1970",
        "1969-12-31T23:59:59.999999Z",
        "1969-12-31T23:59:59.999999Z",
        (
            ("Avro", _of_avro("long", "timestamp-nanos"), -1),
            ("Protobuf", "google.protobuf.Timestamp", _stamp(-1, 999_999_999)),
            ("MessagePack", "timestamp", msgpack.Timestamp(-1, 999_999_999)),
        ),
    ),
    (
        "time without a zone",
        _TEXT,
        _TEXT,
        (
            ("Avro", _of_avro("long", "local-timestamp-micros"), MICROS),
            ("Avro", _of_avro("long", "local-timestamp-nanos"), MICROS * 1000 + 999),
            ("Json", "text", _TEXT),
        ),
    ),
    (
        "UUID",
        str(ID),
        str(ID),
        (
            ("Avro", _of_avro("string", "uuid"), str(ID)),
            ("Avro", _of_avro("fixed", "uuid", name="F", size=16), ID.bytes),
            ("Json", "text", str(ID)),
        ),
    ),
    (
        "duration",
        NO_SINGLE_VALUE,
        "1.500s",
        (("Protobuf", "google.protobuf.Duration", b"\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01"),),
    ),
    (
        "duration of Avro, as its bytes",
        "AQAAAAIAAAADAAAA",
        "AQAAAAIAAAADAAAA",
        (
            (
                "Avro",
                _of_avro("fixed", "duration", name="F", size=12),
                struct.pack("<3I", 1, 2, 3),
            ),
        ),
    ),
    (
        "list",
        NO_SINGLE_VALUE,
        [5],
        (
            ("Avro", {"type": "array", "items": "long"}, [5]),
            ("Protobuf", "repeated int64", b"\x0a\x01\x05"),
            ("Thrift", "list<i64>", 5),
            ("MessagePack", "array", [5]),
            ("Json", "array", [5]),
        ),
    ),
    (
        "map",
        NO_SINGLE_VALUE,
        {"a": 5},
        (
            ("Avro", {"type": "map", "values": "long"}, {"a": 5}),
            ("Protobuf", "map<string, int64>", b"\x0a\x05\x0a\x01a\x10\x05"),
            ("MessagePack", "map", {"a": 5}),
            ("Json", "object", {"a": 5}),
        ),
    ),
    (
        "record",
        NO_SINGLE_VALUE,
        {"a": 5},
        (
            (
                "Avro",
                {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "long"}]},
                {"a": 5},
            ),
            ("Protobuf", "Inner", b"\x0a\x02\x08\x05"),
            ("Json", "object", {"a": 5}),
        ),
    ),
    (
        "union of several types",
        NO_SINGLE_VALUE,
        {"long": 5},
        (("Avro", ["long", "string"], 5),),
    ),
    (
        "wrapped integer",
        NO_SINGLE_VALUE,
        5,
        (("Protobuf", "google.protobuf.Int64Value", b"\x0a\x02\x08\x05"),),
    ),
    (
        "any JSON",
        NO_SINGLE_VALUE,
        {"a": 5.0},
        (
            (
                "Protobuf",
                "google.protobuf.Struct",
                b"\x0a\x10\x0a\x0e\x0a\x01a\x12\x09\x11\x00\x00\x00\x00\x00\x00\x14\x40",
            ),
        ),
    ),
)


def _type_text(type_: Any) -> str:
    """Return the name of a type, as people call it."""
    match type_:
        case {"logicalType": "uuid", "type": base}:
            return f"uuid ({base})"
        case {"logicalType": str(name)}:
            return name
        case {"type": str(kind)}:
            return kind
        case list():
            return " or ".join(type_)
    return str(type_)


def _samples() -> Iterator[Sample]:
    for logical, field, as_json, sources in _VALUES:
        for format_, type_, value in sources:
            payload, options = _MAKE[format_](type_, value)
            yield Sample(logical, format_, _type_text(type_), payload, options, field, as_json)


SAMPLES = tuple(_samples())
