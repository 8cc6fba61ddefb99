"""The decoder JsonSchema: framing, validation by several schemas and drafts, references."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from landfall.pipeline.decoders import Decoder, Wanted
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.row_schemas import SCHEMA_ID, SCHEMA_NAME
from landfall.schemas import RegisteredSchema, SchemaReference
from landfall.schemas.cached import CachedRegistry
from landfall.schemas.client import RegistryOptions
from landfall.schemas.json_schema import JsonSchemaDecoder, Options, Validator
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

ORDER: Mapping[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "who": {"type": "string", "pattern": "^[a-z]*$"}},
    "required": ["id"],
}
STRICT = {**ORDER, "additionalProperties": False}
USES = {"type": "object", "properties": {"order": {"$ref": "order.json"}}}


def schema(document: object, *references: tuple[str, object]) -> RegisteredSchema:
    listed = tuple(SchemaReference(name, json.dumps(each)) for name, each in references)
    return RegisteredSchema("JSON", json.dumps(document), listed)


SCHEMAS: Mapping[int | str, RegisteredSchema] = {
    1: schema(ORDER),
    2: schema(STRICT),
    3: schema(USES, ("order.json", ORDER)),
    GUID: schema(ORDER),
}


def decoder(of: Wanted, registry: CachedRegistry | None = None, **options: Any) -> Decoder:
    read = Options(registry=RegistryOptions(("http://nobody",)), **options)
    return JsonSchemaDecoder(JsonDecoder.of({}, of), read, of, registry or knows(SCHEMAS), None)


def payload(schema_id: int, document: object) -> bytes:
    return framed(schema_id, json.dumps(document).encode())


def test_each_payload_is_checked_by_its_own_schema() -> None:
    extra = {"id": 1, "more": True}

    decoded = decoder(wanted("id")).decode(
        records(payload(1, extra), payload(2, extra), None, payload(2, {"id": 3}))
    )

    assert errors(decoded) == {
        1: "json: not what the schema allows: Additional properties are not allowed "
        "('more' was unexpected)"
    }
    assert values(decoded, "id") == [1, None, 3]
    assert {used.schema_id for used in decoded.used} == {"1", "2"}


def test_without_validation_only_the_id_must_be_known() -> None:
    made = decoder(wanted("id"), validate=False)

    decoded = made.decode(records(payload(2, {"id": "x"}), payload(9, {"id": 1})))

    assert errors(decoded) == {1: "json: schema id 9 is not in the registry"}
    assert values(decoded, "id") == ["x"]
    assert [used.schema_id for used in decoded.used] == ["2"]


def test_columns_and_json_are_without_the_header() -> None:
    made = decoder(wanted(columns={"id": "Int64"}, json=True))

    decoded = made.decode(records(payload(1, {"id": 5, "who": "ann"})))

    assert decoded.records.values.to_pylist() == [b'{"id": 5, "who": "ann"}']
    assert decoded.columns is not None
    assert decoded.columns.to_pylist() == [{"id": 5}]


def test_a_payload_that_is_landed_as_it_is_keeps_its_header() -> None:
    decoded = decoder(wanted("id")).decode(records(payload(1, {"id": 5})))

    assert decoded.records.values.to_pylist() == [payload(1, {"id": 5})]


def test_references_are_followed() -> None:
    good, bad = {"order": {"id": 1}}, {"order": {"who": "ann"}}

    decoded = decoder(wanted()).decode(records(payload(3, good), payload(3, bad)))

    assert errors(decoded) == {1: 'json: not what the schema allows: "id" is a required property'}


@pytest.mark.parametrize(
    ("document", "references"),
    [
        ({"$ref": "http://example.com/other.json"}, ()),
        ({"$ref": "file:///etc/passwd"}, ()),
        ({"$id": "http://example.com/a/b.json", "$ref": "other.json"}, ()),
    ],
)
def test_nothing_is_fetched(document: object, references: Any) -> None:
    with pytest.raises(ValueError, match=r"no schema that can be used: .* not present"):
        Validator.of(schema(document, *references))


def test_a_reference_may_be_relative_to_the_schemas_own_address() -> None:
    document = {"$id": "http://example.com/a/b.json", "$ref": "order.json"}
    made = Validator.of(schema(document, ("order.json", ORDER)))

    assert [*made.errors(records(b"{}", b'{"id":1}').values)] == [0]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (b"", "json: too short for a schema id"),
        (b'{"id":1}', "json: does not begin with the byte 0 of a schema id"),
        (b"\3\5" + b"\0" * 20, "json: has the header of AWS Glue"),
        (framed(7, b"{}"), "json: schema id 7: the schema is AVRO, not JSON"),
        (framed(8, b"{}"), "json: schema id 8: no schema that can be used: "),
        (framed(6, b"{}"), "json: schema id 6: not JSON"),
        (framed(1, b""), "json: "),
        (framed(1, b'{"id":1'), "json: "),
        (framed(1, b'{"id":NaN}'), "json: "),
        (framed(1, b'{"id":1}{}'), "json: "),
        (framed(1, b"[1]"), "json: not what the schema allows: [1] is not of type"),
        (framed(4, b"[1]"), "json: "),
        (framed(1, b'{"id":1,"who":"\xff"}'), "json: "),
        (framed(4, b"[" * 100_000), "json: "),
        (payload(1, {"id": 1, "who": "A"}), 'json: not what the schema allows: "A" does not match'),
        (payload(5, "a" * 50 + "!"), "json: not what the schema allows: "),
    ],
)
def test_bad_payloads_are_dead_letters_with_a_reason(bad: bytes, error: str) -> None:
    more: Mapping[int | str, RegisteredSchema] = {
        4: schema(True),
        5: schema({"pattern": "^(?=(a+)+b)x"}),
        6: RegisteredSchema("JSON", "{"),
        7: RegisteredSchema("AVRO", '"long"'),
        8: schema({"type": 12}),
    }

    decoded = decoder(wanted("id"), knows({**SCHEMAS, **more})).decode(
        records(payload(1, {"id": 1}), bad)
    )

    assert {*errors(decoded)} == {1}
    assert errors(decoded)[1].startswith(error)
    assert values(decoded, "id") == [1]


def test_the_draft_is_the_schemas_own() -> None:
    """In draft 4 ``exclusiveMaximum`` is a boolean beside ``maximum``, later a number."""
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 5}
    rows = records(b"5", b"4").values

    assert [*Validator.of(schema({**old, "exclusiveMaximum": True})).errors(rows)] == [0]
    assert [*Validator.of(schema({"exclusiveMaximum": 5})).errors(rows)] == [0]


def test_large_numbers_are_compared_exactly() -> None:
    made = Validator.of(schema({"type": "integer", "maximum": 2**64}))

    rows = records(str(2**64).encode(), str(2**64 + 1).encode()).values
    assert [*made.errors(rows)] == [1]


def test_the_id_may_be_in_a_record_header() -> None:
    rows = records(b'{"id":1}', b'{"id":"x"}', headers=[[("__value_schema_id", GUID_HEADER)]] * 2)

    decoded = decoder(wanted("id"), schema_id="Header").decode(rows)

    assert errors(decoded) == {1: 'json: not what the schema allows: "x" is not of type "integer"'}
    assert values(decoded, "id") == [1]


def test_routes_have_the_name_and_the_id_of_the_schema() -> None:
    titled = schema({**ORDER, "title": "shop.Order"})
    known = {**SCHEMAS, 4: titled, 6: schema(True)}
    rows = records(
        *(payload(4, {"id": 1}), payload(1, {"id": 2}), None),
        *(payload(9, {}), payload(4, {"id": "x"}), payload(6, {})),
    )

    for validate in (True, False):
        made = decoder(Wanted((SCHEMA_ID, SCHEMA_NAME)), knows(known), validate=validate)
        decoded = made.decode(rows)

        assert [*errors(decoded)] == ([3, 4] if validate else [3])
        fourth = ([], []) if validate else ([4], ["shop.Order"])
        assert decoded.fields[SCHEMA_ID] == [4, 1, None, *fourth[0], 6]
        assert decoded.fields[SCHEMA_NAME] == ["shop.Order", "", None, *fourth[1], ""]


@pytest.mark.parametrize("validate", [True, False])
def test_the_only_schema_has_a_name_and_no_id(validate: bool) -> None:
    options = {"schema": json.dumps({**ORDER, "title": "Order"}), "validate": validate}

    decoded = JsonSchemaDecoder.of(options, Wanted((SCHEMA_NAME, ("id",)))).decode(
        records(b'{"id":1}', None)
    )

    assert as_list(decoded.fields[SCHEMA_NAME]) == ["Order", None]
    with pytest.raises(ValueError, match=r"\{schema:id\} needs decode\.registry"):
        JsonSchemaDecoder.of(options, Wanted((SCHEMA_ID,)))


@pytest.mark.parametrize("of", [Wanted(own_columns=True), Wanted(bodies=True)])
def test_a_json_schema_has_no_columns(of: Wanted) -> None:
    with pytest.raises(ValueError, match=r"declare decode\.columns"):
        JsonSchemaDecoder.of({"schema": "{}"}, of)


def test_one_schema_may_be_given_for_all_payloads() -> None:
    made = JsonSchemaDecoder.of({"schema": json.dumps(ORDER)}, wanted("id"))

    decoded = made.decode(records(b'{"id":1}', b'{"who":"ann"}', None))

    assert [*errors(decoded)] == [1]
    assert values(decoded, "id") == [1, None]
    assert decoded.used == ()


def test_the_file_of_a_schema_is_pinned(tmp_path: Path) -> None:
    file = tmp_path / "order.json"
    file.write_text(json.dumps(ORDER))

    made = JsonSchemaDecoder.of({"schemaFile": str(file)}, wanted("id"))

    assert [each.path for each in made.files] == [str(file)]
    with pytest.raises(ValueError, match=r"order\.json"):
        JsonSchemaDecoder.of({"schemaFile": str(file), "sha256": "0" * 64}, wanted())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schema": "{}", "sha256": "0" * 64}, "option sha256: is for schemaFile"),
        ({}, "JsonSchema needs schema, schemaFile or decode.registry"),
        ({"schema": "{"}, "option schema: not JSON"),
        ({"schema": '{"type": 12}'}, "option schema: no schema that can be used"),
        ({"schema": "{}", "schemaFile": "x"}, "as schema or as schemaFile"),
        ({"schemaFile": "/nowhere"}, "option schemaFile: cannot be read"),
        ({"schema": "{}", "strict": True}, "unknown option strict"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JsonSchemaDecoder.of(options, wanted())
