"""Protobuf by a registry's ids: any message of any version, text or descriptors, and bad input."""

import base64
import itertools
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.schemas import RegisteredSchema, SchemaReference
from landfall.schemas.cached import CachedRegistry
from landfall.schemas.client import RegistryOptions
from landfall.schemas.proto_files import file_set
from landfall.schemas.protobuf import Options, ProtobufDecoder
from tests.support.kafka.registered import (
    GUID,
    GUID_HEADER,
    errors,
    framed,
    knows,
    records,
    values,
    wanted,
)
from tests.support.payloads.decoded import as_list

V1 = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Click { string url = 1; google.protobuf.Timestamp at = 2; Meta meta = 3;
  message Inner { int32 depth = 1; } }
message Meta { string host = 1; }
"""
V2 = V1.replace("string url = 1;", "string url = 1; int64 price = 4;")
USES = """
syntax = "proto3";
package shop;
import "money/amount.proto";
import "confluent/type/decimal.proto";
message Bill { money.Amount amount = 1; confluent.type.Decimal exact = 2; }
"""
AMOUNT = 'syntax = "proto3"; package money; message Amount { int64 cents = 1; }'


def protobuf(text: str, *references: tuple[str, str]) -> RegisteredSchema:
    return RegisteredSchema("PROTOBUF", text, tuple(SchemaReference(*each) for each in references))


compiled = cache(file_set)


def described(schema: RegisteredSchema) -> RegisteredSchema:
    """The schema as confluent-kafka's Python client registers it."""
    known = {file.name: file for file in compiled(schema).file}

    def text(file: descriptor_pb2.FileDescriptorProto) -> str:
        return base64.b64encode(file.SerializeToString()).decode()

    main = known.pop("landfall-schema.proto")
    mine = tuple(SchemaReference(r.name, text(known[r.name])) for r in schema.references)
    return RegisteredSchema("PROTOBUF", text(main), mine)


def message(schema: RegisteredSchema, name: str, **content: Any) -> bytes:
    """What google.protobuf writes."""
    pool = descriptor_pool.DescriptorPool()
    for file in compiled(schema).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))(**content)
    return bytes(made.SerializeToString())


SCHEMAS = {1: protobuf(V1), 2: protobuf(V2), 3: protobuf(USES, ("money/amount.proto", AMOUNT))}
FIRST = b"\0"


def decoder(of: Wanted, registry: CachedRegistry | None = None, **options: Any) -> ProtobufDecoder:
    read = Options(RegistryOptions(("http://nobody",)), **options)
    return ProtobufDecoder(registry or knows(SCHEMAS), read, of)


def click(schema_id: int, **content: Any) -> bytes:
    return framed(schema_id, FIRST + message(SCHEMAS[schema_id], "shop.Click", **content))


def test_each_version_is_read_by_its_own_schema() -> None:
    made = decoder(wanted("url", "price"))

    decoded = made.decode(
        records(click(2, url="b", price=7), click(1, url="a"), None, click(2, url="c"))
    )

    assert not decoded.bad
    assert values(decoded, "url") == ["b", "a", None, "c"]
    assert values(decoded, "price") == [7, None, None, 0]
    assert {used.schema_id for used in decoded.used} == {"1", "2"}


def test_columns_that_a_version_does_not_have_are_null() -> None:
    made = decoder(wanted(columns={"url": "String", "price": "Int64"}))

    decoded = made.decode(records(click(2, url="b", price=7), click(1, url="a")))

    assert decoded.columns is not None
    assert decoded.columns.to_pylist() == [
        {"url": "b", "price": 7},
        {"url": "a", "price": None},
    ]


def test_a_column_that_must_not_be_null_makes_them_bad() -> None:
    made = decoder(wanted(columns={"price!": "Int64"}))

    decoded = made.decode(records(click(1, url="a"), click(2, price=3)))

    assert errors(decoded) == {0: "column price: null"}
    assert decoded.columns is not None
    assert decoded.columns.to_pylist() == [{"price": 3}]


def test_a_column_of_another_type_makes_the_rows_of_its_version_bad() -> None:
    other = protobuf(V1.replace("string url", "int32 url"))
    made = decoder(wanted(columns={"url": "String"}), knows({**SCHEMAS, 9: other}))

    decoded = made.decode(records(framed(9, FIRST), click(1, url="a")))

    assert errors(decoded) == {
        0: "protobuf: schema 9: column url: String cannot be read from int32"
    }


@pytest.mark.parametrize(
    ("indexes", "name", "field"),
    [
        (b"\0", "shop.Click", "url"),
        (b"\x02\0", "shop.Click", "url"),  # the long form of the same
        (b"\x02\x02", "shop.Meta", "host"),
        (b"\x04\0\0", "shop.Click.Inner", "depth"),
    ],
)
def test_the_indexes_name_the_message(indexes: bytes, name: str, field: str) -> None:
    value = 5 if field == "depth" else "x"
    body = indexes + message(SCHEMAS[1], name, **{field: value})

    decoded = decoder(wanted(field)).decode(records(framed(1, body)))

    assert (errors(decoded), values(decoded, field)) == ({}, [value])


def test_several_messages_of_one_schema_lie_side_by_side() -> None:
    meta = framed(1, b"\x02\x02" + message(SCHEMAS[1], "shop.Meta", host="h"))

    decoded = decoder(wanted(json=True)).decode(records(meta, click(1, url="a"), meta))

    assert [json.loads(value) for value in decoded.records.values.to_pylist()] == [
        {"host": "h"},
        {"url": "a"},
        {"host": "h"},
    ]


def test_only_one_message_may_be_wanted() -> None:
    meta = framed(1, b"\x02\x02" + message(SCHEMAS[1], "shop.Meta", host="h"))
    made = decoder(wanted("url"), message="shop.Click")

    decoded = made.decode(records(meta, click(2, url="a")))

    assert errors(decoded) == {0: "protobuf: message shop.Meta in place of shop.Click"}
    assert values(decoded, "url") == ["a"]


@pytest.mark.parametrize("as_base64", [False, True], ids=["text", "descriptors"])
def test_imports_come_from_references(as_base64: bool) -> None:
    schema = described(SCHEMAS[3]) if as_base64 else SCHEMAS[3]
    content = {"amount": {"cents": 250}, "exact": {"scale": 2}}
    body = FIRST + message(SCHEMAS[3], "shop.Bill", **content)

    made = decoder(wanted("amount.cents", "exact.scale"), knows({3: schema}))
    decoded = made.decode(records(framed(3, body)))

    assert (values(decoded, "amount.cents"), values(decoded, "exact.scale")) == ([250], [2])


CURRENCY = 'syntax = "proto3"; package money; message Currency { string code = 1; }'
PRICED = """
syntax = "proto3";
package money;
import "money/currency.proto";
import "google/protobuf/timestamp.proto";
message Amount { int64 cents = 1; Currency currency = 2; google.protobuf.Timestamp at = 3; }
"""


@pytest.mark.parametrize(
    "as_base64", [each for each in itertools.product([False, True], repeat=3) if any(each)]
)
def test_text_and_descriptors_may_refer_to_each_other(as_base64: Sequence[bool]) -> None:
    """As where some producers are Java's, whose client registers text, and some Python's."""
    names = "money/amount.proto", "money/currency.proto"
    text = protobuf(USES, *reversed([*zip(names, (PRICED, CURRENCY), strict=True)]))
    other = described(text)
    main = (other if as_base64[0] else text).text
    of_text, of_other = ({r.name: r for r in each.references} for each in (text, other))
    chosen = [
        (of_other if is_base64 else of_text)[name]
        for name, is_base64 in zip(names, as_base64[1:], strict=True)
    ]
    schema = RegisteredSchema("PROTOBUF", main, tuple(chosen))
    body = message(text, "shop.Bill", amount={"cents": 250, "currency": {"code": "EUR"}})

    made = decoder(wanted("amount.cents", "amount.currency.code"), knows({3: schema}))
    decoded = made.decode(records(framed(3, FIRST + body)))

    assert errors(decoded) == {}
    assert values(decoded, "amount.cents") == [250]
    assert values(decoded, "amount.currency.code") == ["EUR"]


def test_a_described_file_may_import_what_google_has() -> None:
    schema = described(SCHEMAS[1])

    decoded = decoder(wanted("at"), knows({1: schema})).decode(
        records(click(1, at={"seconds": 1_763_697_600}))
    )

    assert values(decoded, "at") == ["2025-11-21T04:00:00.000000Z"]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"", "protobuf: too short for a schema id"),
        (b"\0\0\0\1", "protobuf: too short for a schema id"),
        (b"\1" + b"\0" * 8, "protobuf: does not begin with the byte 0 of a schema id"),
        (b"\3\0" + b"\0" * 16, "protobuf: has the header of AWS Glue, whose registry is not"),
        (framed(1, b""), "protobuf: malformed message indexes"),
        (framed(1, b"\x02"), "protobuf: malformed message indexes"),
        (framed(1, b"\x03"), "protobuf: malformed message indexes"),
        (framed(1, b"\xff" * 8), "protobuf: malformed message indexes"),
        (framed(1, b"\x02\x0a"), "protobuf: schema 1 has no message at the indexes [5]"),
        (framed(77, FIRST), "protobuf: schema id 77 is not in the registry"),
        (framed(4, FIRST), "protobuf: schema id 4: the schema is AVRO, not PROTOBUF"),
        (framed(5, FIRST), "protobuf: schema id 5: protoc: "),
        (framed(6, FIRST), "protobuf: schema id 6: protoc: "),
        (framed(7, FIRST), "protobuf: schema id 7: a reference is called '../x.proto'"),
        (framed(1, FIRST + b"\x0a\x05ab"), "protobuf: "),
        (framed(1, FIRST + b"\x0a\x02\xff\xff"), "protobuf: "),
    ],
)
def test_bad_payloads_are_dead_letters_with_a_reason(payload: bytes, error: str) -> None:
    bad: Mapping[int | str, RegisteredSchema] = {
        4: RegisteredSchema("AVRO", '"long"'),
        5: protobuf("this is no schema"),
        6: protobuf('syntax = "proto3"; import "missing.proto"; message M {}'),
        7: protobuf('syntax = "proto3"; message M {}', ("../x.proto", AMOUNT)),
    }

    decoded = decoder(wanted("url"), knows({**SCHEMAS, **bad})).decode(
        records(click(1, url="good"), payload)
    )

    assert {*errors(decoded)} == {1}
    assert errors(decoded)[1].startswith(error)
    assert values(decoded, "url") == ["good"]


def test_files_that_import_each_other_are_refused() -> None:
    def file(name: str, *imports: str) -> str:
        made = descriptor_pb2.FileDescriptorProto(name=name, dependency=imports)
        return base64.b64encode(made.SerializeToString()).decode()

    schema = protobuf(file("a", "b"), ("b", file("b", "a")))

    with pytest.raises(ValueError, match="a imports itself"):
        file_set(schema)
    with pytest.raises(ValueError, match="imports c, which is not among its references"):
        file_set(protobuf(file("a", "c")))


def test_the_id_may_be_in_a_record_header() -> None:
    by_guid: Mapping[int | str, RegisteredSchema] = {**SCHEMAS, GUID: SCHEMAS[1]}
    body = message(SCHEMAS[1], "shop.Meta", host="h")
    name = "__value_schema_id"
    rows = records(
        body,
        click(1, url="prefix"),
        body,
        b"\0" * 9,
        headers=[[(name, GUID_HEADER + b"\x02\x02")], [], [(name, b"\7")], [(name, GUID_HEADER)]],
    )

    made = decoder(wanted("host", "url"), knows(by_guid), schema_id="Header")
    decoded = made.decode(rows)

    assert errors(decoded) == {
        2: "protobuf: header __value_schema_id is no schema id",
        3: "protobuf: malformed message indexes",
    }
    assert values(decoded, "host") == ["h", None]
    assert values(decoded, "url") == [None, "prefix"]


def test_a_header_that_is_not_looked_at_is_the_reason() -> None:
    rows = records(b"\x0a\x01x", headers=[[("__value_schema_id", GUID_HEADER)]])

    assert errors(decoder(wanted("url")).decode(rows)) == {
        0: "protobuf: the schema's id is in the record's header __value_schema_id; "
        "set option schemaId: Header"
    }


def test_given_descriptors_need_no_registry() -> None:
    """A group may name a registry for its other topics."""
    content = base64.b64encode(file_set(SCHEMAS[1]).SerializeToString()).decode()
    options = {"registry": {"urls": ["http://nobody"]}, "descriptors": content}

    made = ProtobufDecoder.of({**options, "message": "shop.Meta"}, wanted("host"))
    decoded: Decoded = made.decode(records(message(SCHEMAS[1], "shop.Meta", host="h")))

    assert values(decoded, "host") == ["h"]
    with pytest.raises(ValueError, match="unknown option framing"):
        ProtobufDecoder.of(
            {"registry": {"urls": ["http://nobody"]}, "framing": "Confluent"}, wanted()
        )


def test_each_version_has_columns_of_its_own() -> None:
    made = decoder(Wanted((SCHEMA_ID, SCHEMA_NAME), own_columns=True))

    decoded = made.decode(
        records(click(2, url="b", price=7), None, click(1, url="a"), b"x", click(2, url="c"))
    )

    assert errors(decoded) == {
        1: "protobuf: a tombstone, which has no schema",
        3: "protobuf: too short for a schema id",
    }
    assert as_list(decoded.fields[SCHEMA_ID]) == [2, 1, 2]
    assert as_list(decoded.fields[SCHEMA_NAME]) == ["shop.Click"] * 3
    assert decoded.by_schema is not None
    found = {
        tuple(part.rows.tolist()): part.columns.column("url").to_pylist()
        for part in decoded.by_schema
        if part.columns is not None
    }
    assert found == {(0, 2): ["b", "c"], (1,): ["a"]}
