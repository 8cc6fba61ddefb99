"""Avro schemas that are unions of records: several types of events under one subject."""

import json
from typing import Any

import pytest

from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.avro.rows import AvroRows
from landfall.pipeline.decoders.confluent import Framing
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.schemas import RegisteredSchema, SchemaKind, SchemaReference
from landfall.schemas.avro import AvroDecoder, RegistrySchemas
from tests.support.kafka.registered import errors, framed, knows, records, values, wanted
from tests.support.payloads.avro import Declared, encoded
from tests.support.payloads.decoded import as_list

CREATED: Declared = {
    "type": "record",
    "name": "Created",
    "namespace": "ev",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": "long"},
        {"name": "who", "type": "string"},
    ],
}
DELETED: Declared = {
    "type": "record",
    "name": "Deleted",
    "namespace": "ev",
    "fields": [{"name": "at", "type": "long"}, {"name": "why", "type": "string"}],
}
REGISTERED = RegisteredSchema(
    SchemaKind.AVRO,
    json.dumps(["null", "ev.Created", "ev.Deleted"]),
    (SchemaReference("c", json.dumps(CREATED)), SchemaReference("d", json.dumps(DELETED))),
)
EVENTS: list[Any] = [
    ("ev.Created", {"id": 1, "at": 10, "who": "ann"}),
    ("ev.Deleted", {"at": 20, "why": "old"}),
    None,
    ("ev.Created", {"id": 2, "at": 30, "who": "bob"}),
]
BODIES = [encoded(["null", CREATED, DELETED], event) for event in EVENTS]


def decode(*fields: str, **more: Any) -> Decoded:
    """What is read of the events, which a registry's schema describes, and of a broken one."""
    schemas = RegistrySchemas(knows({7: REGISTERED}), None, None)
    rows = AvroRows(
        schemas, wanted(*fields, **more), Framing("avro", in_headers=False, is_key=False)
    )
    payloads = [framed(7, body) for body in BODIES]
    return rows.decode(records(*payloads, None, framed(7, BODIES[0][:-1])))


BROKEN = {5: "avro: who: ends inside a value"}


def test_json_is_the_record_of_the_branch() -> None:
    decoded = decode(json=True)

    assert decoded.records.values.to_pylist()[:3] == [
        b'{"id":1,"at":10,"who":"ann"}',
        b'{"at":20,"why":"old"}',
        None,
    ]
    assert {5} == errors(decoded).keys()


def test_a_field_is_read_in_each_branch_that_has_it() -> None:
    decoded = decode("at", "id", "why")

    assert values(decoded, "at")[:5] == [10, 20, None, 30, None]
    assert values(decoded, "id")[:5] == [1, None, None, 2, None]
    assert values(decoded, "why")[:5] == [None, "old", None, None, None]
    assert errors(decoded) == BROKEN


def test_the_name_of_the_schema_is_that_of_the_branch() -> None:
    framing = Framing("avro", in_headers=False, is_key=False)
    schemas = RegistrySchemas(knows({7: REGISTERED}), None, None)
    rows = AvroRows(schemas, Wanted((SCHEMA_NAME, SCHEMA_ID)), framing)

    decoded = rows.decode(records(*(framed(7, body) for body in BODIES), None))
    names, ids = (as_list(decoded.fields[path]) for path in (SCHEMA_NAME, SCHEMA_ID))

    assert names == ["ev.Created", "ev.Deleted", None, "ev.Created", None]
    assert ids == [7, 7, 7, 7, None]


def test_a_path_may_begin_with_the_branch() -> None:
    decoded = decode("Created.at", "id")

    assert values(decoded, "Created.at")[:4] == [10, None, None, 30]
    assert values(decoded, "id")[:4] == [1, None, None, 2]


def test_declared_columns_are_read_in_the_branch() -> None:
    columns = decode(columns={"at": "Int64", "who": "String", "Deleted": "Json"}).columns

    assert columns is not None
    assert columns.slice(0, 4).to_pylist() == [
        {"at": 10, "who": "ann", "Deleted": None},
        {"at": 20, "who": None, "Deleted": '{"at":20,"why":"old"}'},
        {"at": None, "who": None, "Deleted": None},
        {"at": 30, "who": "bob", "Deleted": None},
    ]


def test_a_column_that_a_branch_does_not_have_is_null_there() -> None:
    found = errors(decode(columns={"id!": "Int64"}))

    assert found == {1: "column id: null", 2: "column id: null", **BROKEN}


def test_own_columns_stay_one_struct_of_all_branches() -> None:
    decoded = decode("at", own_columns=True)

    assert decoded.by_schema is not None
    own = [each.columns for each in decoded.by_schema if 0 in each.rows]
    assert own[0].column("value").slice(0, 3).to_pylist() == [
        {"Created": {"id": 1, "at": 10, "who": "ann"}, "Deleted": None},
        {"Created": None, "Deleted": {"at": 20, "why": "old"}},
        None,
    ]


@pytest.mark.parametrize("schema", [["null", CREATED], [CREATED, "null"]])
def test_an_optional_record_is_a_record(schema: Declared) -> None:
    decoder = AvroDecoder.of(
        {"schema": json.dumps(schema)}, Wanted((("at",), SCHEMA_NAME), json=True)
    )
    payloads = [encoded(schema, event) for event in ({"id": 1, "at": 10, "who": "ann"}, None)]

    decoded = decoder.decode(records(*payloads))

    assert decoded.records.values.to_pylist() == [b'{"id":1,"at":10,"who":"ann"}', None]
    assert values(decoded, "at") == [10, None]
    assert as_list(decoded.fields[SCHEMA_NAME]) == ["ev.Created", None]


def test_a_field_is_refused_if_no_branch_has_it() -> None:
    options = {"schema": json.dumps([CREATED, DELETED])}

    for path in ("at", "why", "Created.who"):
        AvroDecoder.of(options, wanted(path))
    with pytest.raises(ValueError, match="no field 'when' in the Avro schema"):
        AvroDecoder.of(options, wanted("when"))
    with pytest.raises(ValueError, match=r"no field 'Deleted\.who' in the Avro schema"):
        AvroDecoder.of(options, wanted("Deleted.who"))


def test_a_union_of_other_types_is_no_object() -> None:
    with pytest.raises(ValueError, match="no record"):
        AvroDecoder.of({"schema": json.dumps([CREATED, "string"])}, wanted(json=True))


def test_payloads_of_one_branch_may_be_read_as_a_record() -> None:
    options = {"schema": json.dumps([CREATED, DELETED]), "readerSchema": json.dumps(DELETED)}
    decoded = AvroDecoder.of(options, Wanted((SCHEMA_NAME,), json=True)).decode(
        records(*(encoded([CREATED, DELETED], event) for event in EVENTS if event))
    )

    assert decoded.records.values.to_pylist() == [b'{"at":20,"why":"old"}']
    assert errors(decoded).keys() == {0, 2}
    assert as_list(decoded.fields[SCHEMA_NAME]) == ["ev.Deleted"]
