"""Avro's schema ids: before payloads, in record headers, of keys."""

from collections.abc import Mapping

import pytest

from landfall.errors import SchemasAway
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.avro.rows import AvroRows
from landfall.pipeline.decoders.confluent import Framing
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID
from landfall.schemas import RegisteredSchema
from landfall.schemas.avro import RegistrySchemas
from landfall.schemas.cached import CachedRegistry, SchemaId
from tests.support.kafka.registered import (
    GUID,
    GUID_HEADER,
    Known,
    errors,
    framed,
    knows,
    records,
    values,
    wanted,
)
from tests.support.payloads.avro import encoded
from tests.support.payloads.decoded import as_list

RECORD = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
SCHEMAS: Mapping[SchemaId, RegisteredSchema] = {
    7: RegisteredSchema("AVRO", RECORD),
    GUID: RegisteredSchema("AVRO", RECORD.replace("int", "string")),
}
NAME = "__value_schema_id"


def decoder(of: Wanted, *, in_headers: bool = True) -> AvroRows:
    framing = Framing("avro", in_headers, of.is_key)
    return AvroRows(RegistrySchemas(knows(SCHEMAS), None, None, of.is_key), of, framing)


def body(value: object, kind: str = "int") -> bytes:
    return encoded(kind, value)


def test_ids_and_guids_may_be_in_headers_or_before_payloads() -> None:
    rows = records(
        framed(7, body(1)),
        body(2),
        None,
        body("x", "string"),
        b"\0",
        body(3),
        headers=[
            [],
            [(NAME, b"\0\0\0\0\7")],
            [(NAME, GUID_HEADER)],
            [(NAME, GUID_HEADER)],
            [(NAME, GUID_HEADER)],
            [(NAME, GUID_HEADER), (NAME, b"\0\0\0\0\7")],
        ],
    )

    decoded = decoder(Wanted((("a",), SCHEMA_ID))).decode(rows)

    assert errors(decoded) == {}
    assert values(decoded, "a") == [1, 2, None, "x", "", 3]
    assert as_list(decoded.fields[SCHEMA_ID]) == [7, 7, None, GUID, GUID, 7]
    assert {used.schema_id for used in decoded.used} == {"7", GUID}


def test_every_chunk_has_its_own_guids() -> None:
    made = decoder(wanted("a"))

    for _ in range(2):
        rows = records(body("x", "string"), headers=[[(NAME, GUID_HEADER)]])
        assert values(made.decode(rows), "a") == ["x"]


@pytest.mark.parametrize(
    ("header", "error"),
    [
        (b"", "avro: header __value_schema_id is no schema id"),
        (None, "avro: header __value_schema_id is no schema id"),
        (b"\1" * 16, "avro: header __value_schema_id is no schema id"),
        (b"\2" * 17, "avro: header __value_schema_id is no schema id"),
        (b"\1" * 17, "avro: schema id 01010101-0101-0101-0101-010101010101 is not in the registry"),
        (b"\0\0\0\0\1", "avro: schema id 1 is not in the registry"),
        (b"\0\x80\0\0\0", "avro: header __value_schema_id is no schema id"),
    ],
)
def test_a_header_that_names_no_schema_makes_a_dead_letter(
    header: bytes | None, error: str
) -> None:
    rows = records(body(1), framed(7, body(5)), headers=[[(NAME, header)], []])

    decoded = decoder(wanted("a")).decode(rows)

    assert errors(decoded) == {0: error}
    assert values(decoded, "a") == [5]


@pytest.mark.parametrize(
    ("payload", "headers", "error"),
    [
        (body(1), [(NAME, GUID_HEADER)], "avro: the schema's id is in the record's header"),
        (b"\3\0" + b"u" * 16 + body(1), [], "avro: has the header of AWS Glue"),
        (b"\3\0", [], "avro: too short for a schema id"),
        (b"\0\x80\0\0\0" + body(1), [], "avro: the number before the payload is above 2147483647"),
        (b"\0\xff\xff\xff\xff", [], "avro: the number before the payload is above 2147483647"),
        (b"\3\0abc", [("other", b"x")], "avro: does not begin with the byte 0 of a schema id"),
    ],
)
def test_without_the_option_the_reason_says_what_is_there(
    payload: bytes, headers: list[tuple[str, bytes | None]], error: str
) -> None:
    rows = records(framed(7, body(5)), payload, headers=[[], headers])

    decoded = decoder(wanted("a"), in_headers=False).decode(rows)

    assert {*errors(decoded)} == {1}
    assert errors(decoded)[1].startswith(error)


def test_keys_have_a_header_and_a_subject_of_their_own() -> None:
    class Subjects(Known):
        def latest(self, subject: str) -> RegisteredSchema | None:
            raise SchemasAway(subject)

    rows = records(body(2), headers=[[("__key_schema_id", b"\0\0\0\0\7"), (NAME, b"")]])
    of = wanted("a", is_key=True)
    assert values(decoder(of).decode(rows), "a") == [2]

    latest = RegistrySchemas(CachedRegistry(Subjects({**SCHEMAS})), "Latest", None, is_key=True)
    with pytest.raises(SchemasAway, match="clicks-key"):
        AvroRows(latest, of, Framing("avro", in_headers=True, is_key=True)).decode(rows)
