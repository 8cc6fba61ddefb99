"""Schemas and payloads that are made to break a worker: each is a dead letter that says why."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from landfall.errors import Retry
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.avro.rows import AvroRows
from landfall.pipeline.decoders.confluent import Framing
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.thrift import ThriftDecoder
from landfall.schemas import (
    RegisteredSchema,
    SchemaReference,
    UnusableSchemaError,
    client,
    proto_files,
)
from landfall.schemas.avro import RegistrySchemas
from landfall.schemas.client import RegistryClient, RegistryOptions
from landfall.schemas.json_schema import MAX_APPLIED, JsonSchemaDecoder, applied
from landfall.schemas.json_schema import Options as JsonOptions
from landfall.schemas.protobuf import Options as ProtobufOptions
from landfall.schemas.protobuf import ProtobufDecoder
from tests.support.kafka.registered import errors, framed, knows, records, values, wanted
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.payloads.avro import encoded

NOBODY = RegistryOptions(("http://nobody",))
EVERYTHING = Wanted(own_columns=True)


def avro(schema: object, body: bytes, of: Wanted, *references: str) -> Decoded:
    """Decode one payload of a schema, between two of another one that must not suffer."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    bad = RegisteredSchema("AVRO", text, tuple(SchemaReference(each, each) for each in references))
    rows = RegistrySchemas(knows({1: bad, 2: GOOD}), None, None)
    good = framed(2, encoded(json.loads(GOOD.text), {"a": 7}))
    return AvroRows(rows, of, Framing("avro")).decode(records(good, framed(1, body), good))


def record(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    listed = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


GOOD = RegisteredSchema("AVRO", json.dumps(record("Good", {"a": "int"})))


def doubled(levels: int) -> dict[str, Any]:
    """Records of which each has the next one twice: 2 to the power of levels in all."""
    found = record(f"L{levels}", {"a": "int"})
    for level in reversed(range(levels)):
        found = record(f"L{level}", {"a": found, "b": f"L{level + 1}"})
    return found


def decimal(**more: object) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "logicalType": "decimal", **more}


NESTED = '{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000
LIST = record("List", {"a": ["null", "List"]})


@pytest.mark.parametrize(
    ("schema", "body", "reason"),
    [
        (NESTED, b"", "schema id 1: schema: too deeply nested"),
        (doubled(60), b"", "schema 1: schema: more than 20000 types"),
        (record("W", {f"f{n}": "int" for n in range(60_000)}), b"", "more than 20000 types"),
        (record("Self", {"a": "Self"}), b"\0", "nested more than 200 levels deep"),
        (LIST, b"\2" * 1_000_000 + b"\0", "nested more than 200 levels deep"),
    ],
    ids=["nested", "doubled", "wide", "inside itself", "long list"],
)
@pytest.mark.parametrize("of", [wanted("a"), EVERYTHING], ids=["field", "columns"])
def test_an_avro_bomb_is_a_dead_letter(
    schema: object, body: bytes, reason: str, of: Wanted
) -> None:
    decoded = avro(schema, body, of)

    assert [*errors(decoded)] == [1]
    assert reason in errors(decoded)[1]
    assert len(errors(decoded)[1]) < 300


@pytest.mark.parametrize(
    "type_",
    [
        decimal(size=16, precision=10**9),
        decimal(size=2**31 - 1, precision=5),
        {"type": "bytes", "logicalType": "decimal", "precision": 10**9},
    ],
)
def test_numbers_in_a_schema_are_not_computed_with(type_: dict[str, Any]) -> None:
    decoded = avro(record("D", {"a": type_}), b"", wanted("a"))

    assert [*errors(decoded)] == [1]


def test_a_schema_of_megabytes_is_one_schema() -> None:
    large = {**record("D", {"a": "int"}), "doc": "x" * 8_000_000}

    decoded = avro(large, b"\2", wanted("a"))

    assert errors(decoded) == {}
    assert values(decoded, "a") == [7, 1, 7]


def test_avro_references_in_a_circle_are_a_dead_letter() -> None:
    """Named types may refer to themselves, but a file of one cannot be read before the other."""
    one, two = (json.dumps(record(name, {"a": of})) for name, of in (("B", "C"), ("C", "B")))

    decoded = avro(record("A", {"a": "B"}), b"", wanted("a"), one, two)

    assert errors(decoded) == {1: "avro: schema id 1: B.a: unknown type 'C'"}


# ----------------------------------------------------------------------------------------- Protobuf


def protobuf(text: str, body: bytes, of: Wanted, **references: str) -> Decoded:
    named = tuple(SchemaReference(name, each) for name, each in references.items())
    known = {
        1: RegisteredSchema("PROTOBUF", text, named),
        2: RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message Good { string a = 1; }'),
    }
    good = framed(2, b"\0\x0a\x01x")
    decoder = ProtobufDecoder(knows(known), ProtobufOptions(NOBODY), of)
    return decoder.decode(records(good, framed(1, b"\0" + body), good))


def messages(*texts: str) -> str:
    return 'syntax = "proto3"; ' + " ".join(texts)


def chain(levels: int, *fields: str) -> str:
    """Messages of which each has the next one in these fields."""
    inner = (
        " ".join(f"M{n + 1} {f} = {i};" for i, f in enumerate(fields, 2)) for n in range(levels)
    )
    made = (f"message M{n} {{ string a = 1; {each} }}" for n, each in enumerate(inner))
    return messages(*made, f"message M{levels} {{}}")


def complete(size: int) -> str:
    """Messages of which each has all others: more paths than memory holds, and no deep one."""
    fields = " ".join(f"M{n} f{n} = {n + 2};" for n in range(size))
    return messages(*(f"message M{n} {{ string a = 1; {fields} }}" for n in range(size)))


def inside(levels: int) -> bytes:
    """A message in field 1 of a message, and so on."""
    found = b""
    for _ in range(levels):
        size = len(found)
        length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
        found = b"\x0a" + length + found
    return found


@pytest.mark.parametrize(
    ("text", "body", "reason"),
    [
        (messages("message M {" * 500 + "}" * 500), b"", "Reached maximum recursion limit"),
        (messages("message M { M a = 1; }"), inside(5_000), "protobuf: "),
        (chain(2_000, "b"), b"", "message M0 has too many messages inside of each other"),
    ],
    ids=["nested", "long list", "long chain"],
)
def test_a_protobuf_bomb_is_a_dead_letter(text: str, body: bytes, reason: str) -> None:
    found = {errors(protobuf(text, body, wanted("b")))[1] for _ in range(2)}

    (said,) = found  # or a range that is read again would have other dead letters
    assert reason in said
    assert "/tmp" not in said  # no file of ours


@pytest.mark.parametrize(
    "text",
    [chain(60, "b", "c"), chain(150, "b"), complete(12)],
    ids=["doubled", "deep", "complete"],
)
def test_a_message_with_too_many_fields_is_read_without_columns_of_its_own(text: str) -> None:
    field = protobuf(text, b"\x0a\x01y", wanted("a"))
    columns = protobuf(text, b"\x0a\x01y", EVERYTHING)

    assert (errors(field), values(field, "a")) == ({}, ["x", "y", "x"])
    assert [*errors(columns)] == [1]
    assert "schema 1: message M0 has more than 20000 fields" in errors(columns)[1]


def test_a_message_inside_itself_is_json_as_a_column() -> None:
    text = messages("message M { M a = 1; int32 b = 2; }")

    decoded = protobuf(text, b"\x0a\x02\x10\x05", Wanted(json=True))

    assert errors(decoded) == {}
    assert json.loads(decoded.records.values[1].as_py() or b"") == {"a": {"b": 5}}


def test_protobuf_references_in_a_circle_are_a_dead_letter() -> None:
    decoded = protobuf(
        messages('import "a.proto"; message M {}'),
        b"",
        wanted("a"),
        **{
            "a.proto": messages('import "b.proto";'),
            "b.proto": messages('import "a.proto";'),
        },
    )

    assert [*errors(decoded)] == [1]
    assert "File recursively imports itself: a.proto -> b.proto -> a.proto" in errors(decoded)[1]


@pytest.mark.parametrize("signal", [9, 15])
def test_a_protoc_that_is_killed_says_nothing_about_the_schema(
    signal: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["/bin/sh", "-c", f"kill -{signal} $$"]
    run = proto_files.subprocess.run  # type: ignore[attr-defined]  # of the module
    monkeypatch.setattr(proto_files.subprocess, "run", lambda _, **more: run(command, **more))  # type: ignore[attr-defined]  # as above

    with pytest.raises(Retry, match=f"stopped by signal {signal}"):
        protobuf(messages("message M {}"), b"", wanted("a"))


# -------------------------------------------------------------------------------------- JSON Schema


def json_schema(document: object, body: bytes, **references: object) -> Decoded:
    text = document if isinstance(document, str) else json.dumps(document)
    named = tuple(SchemaReference(name, json.dumps(each)) for name, each in references.items())
    known = {1: RegisteredSchema("JSON", text, named), 2: RegisteredSchema("JSON", "{}")}
    of = wanted("a")
    made = JsonSchemaDecoder(
        JsonDecoder.of({}, of), JsonOptions(registry=NOBODY), of, knows(known), None
    )
    good = framed(2, b'{"a":1}')
    return made.decode(records(good, framed(1, body), good))


def again(levels: int) -> dict[str, Any]:
    """Definitions of which each applies the next one twice."""
    two = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(levels)}
    return {"definitions": {**two, f"d{levels}": {}}, "$ref": "#/definitions/d0"}


@pytest.mark.parametrize(
    ("document", "body", "reason"),
    [
        (again(60), b"{}", "json: schema id 1: applies more than 100000 schemas to one value"),
        ('{"not":' * 5_000 + "{}" + "}" * 5_000, b"{}", "json: schema id 1: "),
        ({"properties": {"a": {"$ref": "#"}}}, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "json: "),
        ({"$ref": "a.json"}, b"[]", "json: "),
    ],
    ids=["doubled", "nested", "long list", "no such reference"],
)
def test_a_bomb_of_a_json_schema_is_a_dead_letter(
    document: object, body: bytes, reason: str
) -> None:
    decoded = json_schema(document, body)

    assert [*errors(decoded)] == [1]
    assert errors(decoded)[1].startswith(reason)
    assert len(errors(decoded)[1]) < 300


@pytest.mark.parametrize(
    ("document", "references"),
    [
        ({"$ref": "#"}, {}),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {}),
        ({"$ref": "a.json"}, {"a.json": {"$ref": "b.json"}, "b.json": {"$ref": "a.json"}}),
        (again(10), {}),
    ],
)
def test_json_schemas_in_a_circle_end(document: object, references: dict[str, object]) -> None:
    assert errors(json_schema(document, b'{"a":2}', **references)) == {}


@pytest.mark.parametrize(
    ("document", "references", "count"),
    [
        (True, {}, 1),
        ({"properties": {"a": {"allOf": [{}, {}]}}}, {}, 1),
        ({"allOf": [{}, True], "not": {}, "if": {}, "dependencies": {"a": {}, "b": ["a"]}}, {}, 7),
        ({"$ref": "#/$defs/a~1b/0", "$defs": {"a/b": [{"anyOf": [{}]}]}}, {}, 3),
        ({"$ref": "#/nowhere/0"}, {}, 1),
        ({"$ref": "http://x/a.json#/$defs/n"}, {"a.json": {"$defs": {"n": {"not": {}}}}}, 3),
        ({"$ref": "a.json"}, {"a.json": {"$ref": "#/x", "x": {"$ref": "a.json"}}}, 3),
        (again(16), {}, 4 * 2**16 - 2),
    ],
)
def test_what_is_applied_to_one_value_is_counted(
    document: object, references: dict[str, object], count: int
) -> None:
    assert applied(document, references) == count


def test_the_most_that_is_allowed_takes_a_moment() -> None:
    assert MAX_APPLIED // 2 < applied(again(14), {}) <= MAX_APPLIED
    assert errors(json_schema(again(14), b"{}")) == {}


# ------------------------------------------------------------------------- Thrift, and the client


def structs(levels: int, *fields: str) -> str:
    """Structs of which each has the next one in these fields."""
    made = [f"struct S{levels} {{ 1: i32 a }}"]
    for n in reversed(range(levels)):
        inner = ", ".join(f"{i}: S{n + 1} {field}" for i, field in enumerate(fields, 2))
        made.append(f"struct S{n} {{ 1: i32 a, {inner} }}")
    return "\n".join(made)


@pytest.mark.parametrize("idl", [structs(40, "b", "c"), structs(120, "b")])
def test_a_thrift_struct_with_too_many_fields_has_no_columns_of_its_own(idl: str) -> None:
    options = {"struct": "S0", "idl": idl}

    decoded = ThriftDecoder.of(options, wanted("a")).decode(
        records(bytes.fromhex("0800010000000700"))
    )

    assert values(decoded, "a") == [7]
    with pytest.raises(ValueError, match="struct S0 has more than 20000 fields"):
        ThriftDecoder.of(options, EVERYTHING)


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as made:
        yield made


def test_an_answer_that_is_too_long_is_none(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 1 << 20)
    asking = RegistryClient(RegistryOptions((registry.url,)))
    registry.answers["/schemas/ids/1"] = (200, {"schema": "x" * (1 << 20)})
    registry.answers["/schemas/ids/2"] = (200, {"schema": "x" * (1 << 19)})

    with pytest.raises(UnusableSchemaError, match="answers with more than 1 MiB"):
        asking.by_id(1)
    assert asking.by_id(2) == RegisteredSchema("AVRO", "x" * (1 << 19))


def test_references_in_a_circle_are_asked_for_once(registry: FakeRegistry) -> None:
    def uses(name: str) -> list[dict[str, object]]:
        return [{"name": name, "subject": name, "version": 1}]

    registry.add(1, "top", references=uses("a"))
    for name, other in (("a", "b"), ("b", "a")):
        body = {"schema": name, "references": uses(other)}
        registry.answers[f"/subjects/{name}/versions/1"] = (200, body)

    found = RegistryClient(RegistryOptions((registry.url,))).by_id(1)

    assert found is not None
    assert [each.name for each in found.references] == ["b", "a"]
    assert len(registry.asked) == 3
