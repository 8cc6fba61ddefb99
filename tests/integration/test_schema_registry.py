"""What a real registry has registered is read by the decoders, and lands through the data plane."""

import json
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory

from landfall import registry as built_in
from landfall.api.spec import parse_group
from landfall.pipeline.decoders import Decoder
from landfall.schemas import RegisteredSchema, SchemaKind, SchemaReference
from landfall.schemas.cached import registry_at
from landfall.schemas.client import RegistryClient, RegistryOptions
from landfall.schemas.proto_files import file_set
from tests.support.kafka.registered import errors, records, values
from tests.support.kafka.registry import Registry, framed
from tests.support.kubernetes.groups import document
from tests.support.payloads.avro import encoded

COUNTRY = {"type": "enum", "name": "shop.Country", "symbols": ["DE", "FR"]}
VISIT: dict[str, Any] = {
    "type": "record",
    "name": "shop.Visit",
    "fields": [{"name": "country", "type": "shop.Country"}],
}
AMOUNT = 'syntax = "proto3"; package money; message Amount { int64 cents = 1; }'
CLICK = """
syntax = "proto3";
package shop;
import "money/amount.proto";
message View { string url = 1; }
message Click { string url = 1; money.Amount price = 2; }
"""
ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture(autouse=True)
def _new_worker() -> None:
    registry_at.cache_clear()


def decoder(registry: Registry, format_: str, pattern: str, **options: object) -> Decoder:
    made = document("schemas")
    made["spec"]["decode"] = {
        "format": format_,
        "options": options,
        "registry": {"urls": [registry.url]},
    }
    made["spec"]["route"] = {"pattern": pattern}
    made["spec"]["output"] = {"url": "file:///tmp/out", "format": "SequenceFile"}
    return built_in.pipeline(parse_group(made).spec).decoder


def reference(name: str, subject: str) -> dict[str, object]:
    return {"name": name, "subject": subject, "version": 1}


def test_schemas_and_their_references_are_read(registry: Registry) -> None:
    inner, outer = registry.subject(), registry.subject()
    registry.register(inner, COUNTRY)
    schema_id = registry.register(outer, VISIT, references=[reference("shop.Country", inner)])

    client = RegistryClient(RegistryOptions((registry.url,)))
    found = client.by_id(schema_id)

    assert found is not None
    assert [each.name for each in found.references] == ["shop.Country"]
    assert client.latest(outer) == found
    assert client.by_id(999_999) is None
    assert client.latest("nobody-value") is None


def test_avro_protobuf_and_json_schema_are_decoded(registry: Registry) -> None:
    inner, avro = registry.subject(), registry.subject()
    registry.register(inner, COUNTRY)
    avro_id = registry.register(avro, VISIT, references=[reference("shop.Country", inner)])
    whole = {**VISIT, "fields": [{"name": "country", "type": COUNTRY}]}

    money = registry.subject()
    registry.register(money, AMOUNT, SchemaKind.PROTOBUF)
    proto_id = registry.register(
        registry.subject(), CLICK, SchemaKind.PROTOBUF, [reference("money/amount.proto", money)]
    )
    json_id = registry.register(registry.subject(), ORDER, SchemaKind.JSON)

    visits = decoder(registry, "Avro", "{field:country}").decode(
        records(framed(avro_id, encoded(whole, {"country": "FR"})))
    )
    clicks = decoder(registry, "Protobuf", "{field:price.cents}").decode(
        records(
            framed(proto_id, b"\x02\x02" + _click(url="a", price={"cents": 250})),
            framed(999_999, b"\0"),
        )
    )
    orders = decoder(registry, "JsonSchema", "{field:id}").decode(
        records(
            framed(json_id, json.dumps({"id": 7}).encode()),
            framed(json_id, b'{"id":"x"}'),
        )
    )

    assert (values(visits, "country"), errors(visits)) == (["FR"], {})
    assert values(clicks, "price.cents") == [250]
    assert errors(clicks) == {1: "protobuf: schema id 999999 is not in the registry"}
    assert values(orders, "id") == [7]
    assert errors(orders) == {1: 'json: not what the schema allows: "x" is not of type "integer"'}
    assert [len(decoded.used) for decoded in (visits, clicks, orders)] == [1, 1, 1]


def _click(**content: Any) -> bytes:
    schema = RegisteredSchema("PROTOBUF", CLICK, (SchemaReference("money/amount.proto", AMOUNT),))
    pool = descriptor_pool.DescriptorPool()
    for file in file_set(schema).file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Click"))(**content)
    return bytes(made.SerializeToString())
