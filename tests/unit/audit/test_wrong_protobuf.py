"""Wrong values of Protobuf payloads in landed files: the audit names record and field of each."""

import base64
import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2 as pb

from landfall.schemas.cached import registry_at
from tests.support.audit.audited_payloads import AuditedPayloads, payloads, stored_schema
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.unit.audit.test_wrong_values import change_line, put, rewrite

FIELD = pb.FieldDescriptorProto


def descriptors() -> str:
    """``message M`` of proto2, with a group, a closed enum, a list, a map and a time."""
    file = pb.FileDescriptorProto(name="m.proto", package="shop", syntax="proto2")
    file.dependency.append("google/protobuf/timestamp.proto")
    enum = file.enum_type.add(name="Kind")
    enum.value.add(name="A", number=0)
    enum.value.add(name="B", number=1)
    message = file.message_type.add(name="M")
    group = message.nested_type.add(name="G")
    group.field.add(name="x", number=1, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_INT64)
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_STRING)
    entry.field.add(name="value", number=2, label=FIELD.LABEL_OPTIONAL, type=FIELD.TYPE_INT32)
    optional, repeated = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
    for name, number, label, type_, of in (
        ("n", 1, optional, FIELD.TYPE_UINT32, ""),
        ("s", 2, optional, FIELD.TYPE_STRING, ""),
        ("g", 3, optional, FIELD.TYPE_GROUP, ".shop.M.G"),
        ("kind", 4, optional, FIELD.TYPE_ENUM, ".shop.Kind"),
        ("tags", 5, repeated, FIELD.TYPE_STRING, ""),
        ("counts", 6, repeated, FIELD.TYPE_MESSAGE, ".shop.M.CountsEntry"),
        ("at", 7, optional, FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
        ("price", 8, optional, FIELD.TYPE_DOUBLE, ""),
    ):
        message.field.add(name=name, number=number, label=label, type=type_, type_name=of or None)
    time = pb.FileDescriptorProto(name="google/protobuf/timestamp.proto")
    time.package, time.syntax = "google.protobuf", "proto3"
    stamp = time.message_type.add(name="Timestamp")
    stamp.field.add(name="seconds", number=1, label=optional, type=FIELD.TYPE_INT64)
    stamp.field.add(name="nanos", number=2, label=optional, type=FIELD.TYPE_INT32)
    return base64.b64encode(pb.FileDescriptorSet(file=[time, file]).SerializeToString()).decode()


PAYLOAD = (
    b"\x08\xff\xff\xff\xff\x0f"  # n: 4294967295
    b"\x12\x05caf\xc3\xa9"  # s
    b"\x1b\x08\x07\x1c"  # g { x: 7 }
    b"\x20\x01"  # kind: B
    b"\x2a\x01a\x2a\x01b"  # tags
    b"\x32\x05\x0a\x01k\x10\x05"  # counts
    b"\x3a\x09\x08\x80\xcf\xff\xc8\x06\x10\xe8\x07"  # at
    b"\x41\x00\x00\x00\x00\x00\x00\xf8\x3f"  # price: 1.5
)
UNKNOWN_KIND = b"\x08\x01\x20\x09"
"""A number that the closed enum does not have, which is an unknown field."""


def landed(folder: Path, *values: bytes, **output: Any) -> AuditedPayloads:
    options: Mapping[str, object] = {"message": "shop.M", "descriptors": descriptors()}
    spec = {"decode": {"format": "Protobuf", "options": options}, "output": output}
    return AuditedPayloads(folder / "root", payloads(*values), **spec)


def in_columns(folder: Path) -> AuditedPayloads:
    return landed(
        folder, PAYLOAD, UNKNOWN_KIND, PAYLOAD, format="Parquet", columns="FromSchema", codec=None
    )


def as_json(folder: Path) -> AuditedPayloads:
    return landed(folder, PAYLOAD, UNKNOWN_KIND, b"", format="Json", codec="Gzip")


def test_what_lands_is_whole(tmp_path: Path) -> None:
    for made in (in_columns(tmp_path / "columns"), as_json(tmp_path / "json")):
        findings = made.audit()

        result = findings.results["clicks", 0]
        assert (result.found, result.unchecked) == (3, {}), findings
        assert findings.is_whole, findings


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("g", None, "g is null, must be a struct"),
        ("g", {"x": 8}, "g.x is 8, must be 7"),
        ("kind", "9", "kind is '9', must be 'B'"),
        ("s", "b'caf\\xc3\\xa9'", None),
        ("tags", ["a"], "tags[1] is absent, must be 'b'"),
        ("counts", [("k", 6)], "counts.k is 6, must be 5"),
        ("price", 15.0, "price is 15.0, must be 1.5"),
    ],
)
def test_a_wrong_column_is_named(
    tmp_path: Path, name: str, value: object, message: str | None
) -> None:
    made = in_columns(tmp_path)
    rewrite(made, put(name, 0, value))

    (found,) = made.wrong_values()

    assert found.startswith(f"clicks/0 offset 0: {message or f'{name} is '}")


def test_a_large_number_that_became_negative_is_named(tmp_path: Path) -> None:
    made = in_columns(tmp_path)
    rewrite(made, put("n", 0, -1, pa.int64()))

    assert made.wrong_values() == ["clicks/0 offset 0: n is -1, must be 4294967295"]


def test_a_value_of_a_closed_enum_that_it_does_not_have_is_named(tmp_path: Path) -> None:
    made = in_columns(tmp_path)
    rewrite(made, put("kind", 1, "9"))

    assert made.wrong_values() == ["clicks/0 offset 1: kind is '9', must be null"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b',"g":{"x":"7"}', b"", "g is absent, must be an object"),
        ("café".encode(), b"b'caf'", "s is \"b'caf'\", must be 'café'"),
        (b'"kind":"B"', b'"kind":9', "kind is 9, must be 'B'"),
        (b"4294967295", b"-1", "n is -1, must be 4294967295"),
    ],
)
def test_wrong_json_is_named(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    made = as_json(tmp_path)
    change_line(made, old, new)

    assert made.wrong_values() == [f"clicks/0 offset 0: {message}"]


def test_text_that_is_not_utf_8_must_be_a_dead_letter(tmp_path: Path) -> None:
    made = landed(tmp_path, b"\x12\x04cafe", format="Json", codec="Gzip")
    made.in_kafka(payloads(b"\x12\x04caf\xe9"))
    change_line(made, b"cafe", b"b'caf\\\\xe9'")

    (found,) = made.wrong_values()

    assert found.startswith("clicks/0 offset 0: is landed, and must be a dead letter: protobuf: s")
    assert gzip.decompress(made.files[0].read_bytes())


PROTO = """
syntax = "proto2";
package shop;
message Other { optional string s = 1; }
message Click { optional uint32 n = 1; optional group G = 3 { optional int64 x = 1; } }
"""


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    registry_at.cache_clear()
    with schema_registry() as made:
        made.answers["/schemas/ids/7"] = (200, {"schema": PROTO, "schemaType": "PROTOBUF"})
        yield made


@pytest.mark.parametrize("format_", ["Json", "Parquet"])
def test_schemas_of_a_registry_are_those_that_were_stored(
    tmp_path: Path, registry: FakeRegistry, format_: str
) -> None:
    columns = {"columns": "FromSchema"} if format_ == "Parquet" else {}
    made = AuditedPayloads(
        tmp_path / "root",
        payloads(b"\0\0\0\0\x07\x02\x02" + b"\x08\x05\x1b\x08\x07\x1c"),
        decode={"format": "Protobuf", "registry": {"urls": [registry.url]}},
        output={"format": format_, "codec": None if columns else "Gzip", **columns},
    )
    without = made.audit().undecided
    stored_schema(made, registry.url, 7, PROTO, "PROTOBUF")

    right = made.audit()
    if columns:
        rewrite(made, put("g", 0, None))
    else:
        change_line(made, b',"g":{"x":"7"}', b"")

    assert without == {"clicks": {"schema 7 of the registry is not stored": 1}}
    assert right.results["clicks", 0].unchecked == {}
    (found,) = made.wrong_values()
    assert found.startswith("clicks/0 offset 0: g is ")
