"""Schemas of a registry as the auditor compiles them: what the writer makes of the same texts."""

import base64
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from landfall.schemas import RegisteredSchema, SchemaReference
from landfall.schemas import proto_files as writers
from landfall_audit.payloads.proto_files import file_set

MONEY = """\
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Money { int64 units = 1; google.protobuf.Timestamp at = 2; }
"""
ORDER = """\
syntax = "proto3";
package shop;
import "shop/money.proto";
import "confluent/type/decimal.proto";
message Order { Money total = 1; confluent.type.Decimal tax = 2; }
"""


def described(text: str, *references: tuple[str, str]) -> str:
    """What clients in Python register instead of a text."""
    return base64.b64encode(file_set(text, references).file[-1].SerializeToString()).decode()


BYTES_OF_MONEY = described(MONEY)
BYTES_OF_ORDER = described(ORDER, ("shop/money.proto", MONEY))


def fields(files: Any) -> dict[str, list[tuple[str, int, str]]]:
    """The messages of all files, with their fields."""
    return {
        f"{file.package}.{message.name}": [(f.name, f.number, f.type_name) for f in message.field]
        for file in files.file
        for message in file.message_type
    }


@pytest.mark.slow
@pytest.mark.parametrize("money", [MONEY, BYTES_OF_MONEY], ids=["text", "bytes"])
@pytest.mark.parametrize("order", [ORDER, BYTES_OF_ORDER], ids=["text", "bytes"])
def test_a_schema_is_what_the_writer_makes_of_it(order: str, money: str) -> None:
    name = "shop/money.proto"

    own = file_set(order, [(name, money)])

    others = writers.file_set(RegisteredSchema("PROTOBUF", order, (SchemaReference(name, money),)))
    assert fields(own) == fields(others)
    assert [m.name for m in own.file[-1].message_type] == ["Order"]
    known: set[str] = set()
    for file in own.file:  # each after what it imports, as a pool of descriptors wants them
        assert known.issuperset(file.dependency)
        known.add(file.name)


@pytest.mark.parametrize(
    "name",
    ["../up.proto", "/abs.proto", "-I.proto", "@list", "a//b", "", "audited-schema.proto", "é"],
)
def test_a_name_that_is_no_plain_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="which no file may be"):
        file_set(MONEY, [(name, MONEY)])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message {", "protoc: "),
        (ORDER, "protoc: .*shop/money.proto"),
        (BYTES_OF_ORDER, "protoc: .*shop/money.proto"),
    ],
)
def test_what_cannot_be_compiled_is_said(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        file_set(text, [])


def test_files_that_import_each_other_are_refused() -> None:
    one = descriptor_pb2.FileDescriptorProto(name="one.proto", dependency=["two.proto"])
    two = descriptor_pb2.FileDescriptorProto(name="two.proto", dependency=["one.proto"])
    main = descriptor_pb2.FileDescriptorProto(name="main.proto", dependency=["one.proto"])
    texts = {f.name: base64.b64encode(f.SerializeToString()).decode() for f in (one, two, main)}

    with pytest.raises(ValueError, match=r"imports itself|protoc"):
        file_set(texts["main.proto"], [(f.name, texts[f.name]) for f in (two, one)])


def test_a_described_file_imports_by_plain_names_only() -> None:
    name = 'a.proto";\noption java_package = "b'
    main = descriptor_pb2.FileDescriptorProto(name="main.proto", dependency=[name])

    with pytest.raises(ValueError, match="which no file may be"):
        file_set(base64.b64encode(main.SerializeToString()).decode(), [])


def test_no_folder_and_no_environment_reach_protoc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("PYTHONHOME", "/nowhere")

    assert file_set(MONEY, []).file[-1].message_type[0].name == "Money"
