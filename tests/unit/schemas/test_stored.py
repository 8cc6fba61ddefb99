"""Schemas beside the ledger: stored once, before anybody names them, and found again."""

import json

import pytest

from landfall.errors import SchemaChanged, SchemasAway, StoreAway, cause
from landfall.ledger import digest
from landfall.ledger.names import object_names
from landfall.pipeline.decoders import UsedSchema
from landfall.schemas import (
    RegisteredSchema,
    SchemaKind,
    SchemaReference,
    decode_schema,
    encode_schema,
)
from landfall.schemas.cached import ASKS_BETWEEN, CachedRegistry, SchemaId
from landfall.schemas.stored import StoredSchemas, registry_name
from landfall.store.memory import MemoryStore

LONG = RegisteredSchema("AVRO", '"long"')
TEXT = RegisteredSchema("AVRO", ' "string" ', (SchemaReference("a.B", '{"type": "int"}'),))
HERE = registry_name("http://registry:8081")
GUID = "89791762-2336-4186-9674-299b90a802e2"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def stored(store: MemoryStore) -> StoredSchemas:
    return StoredSchemas(store, "shop", "0")


def used(schema: RegisteredSchema, schema_id: str = "7") -> UsedSchema:
    return UsedSchema(encode_schema(schema), HERE, schema_id)


class Source:
    """A registry of one schema, or one that is away."""

    def __init__(self, found: RegisteredSchema | None, *, away: bool = False) -> None:
        self.found, self.away, self.asked = found, away, 0

    def by_id(self, _: SchemaId) -> RegisteredSchema | None:
        self.asked += 1
        if self.away:
            raise SchemasAway("away")
        return self.found

    def latest(self, _: str) -> RegisteredSchema | None:
        return self.by_id(0)


@pytest.mark.parametrize("schema", [LONG, TEXT, RegisteredSchema("PROTOBUF", "message M {}")])
def test_a_schema_is_stored_under_its_hash(
    schema: RegisteredSchema, store: MemoryStore, stored: StoredSchemas
) -> None:
    name = stored.keep(used(schema))

    body = store.read(f"_landfall/shop/0-schemas/{name}.json") or b""
    assert digest(body) == name
    assert encode_schema(decode_schema(body)) == body
    assert decode_schema(body).kind == schema.kind


def test_a_schema_with_references_comes_back_whole(stored: StoredSchemas) -> None:
    stored.keep(used(TEXT))

    assert stored.find(HERE, "7") == RegisteredSchema(
        SchemaKind.AVRO, '"string"', (SchemaReference("a.B", '{"type":"int"}'),)
    )


def test_a_guid_is_an_id_too(stored: StoredSchemas) -> None:
    stored.keep(used(LONG, GUID))

    assert stored.find(HERE, GUID) == LONG
    assert stored.find(registry_name("http://other"), GUID) is None


def test_keeping_twice_changes_nothing(store: MemoryStore, stored: StoredSchemas) -> None:
    stored.keep(used(LONG))
    before = {stat.key: store.read(stat.key) for stat in store.list_after("")}

    StoredSchemas(store, "shop", "0").keep(used(LONG))

    assert {stat.key: store.read(stat.key) for stat in store.list_after("")} == before
    assert len(before) == 2


def test_a_schema_without_an_id_is_stored_alone(store: MemoryStore, stored: StoredSchemas) -> None:
    stored.keep(used(LONG, ""))

    assert len([*store.list_after("")]) == 1


def test_an_id_that_means_another_schema_is_refused(
    store: MemoryStore, stored: StoredSchemas
) -> None:
    stored.keep(used(LONG))

    with pytest.raises(SchemaChanged, match=r"/7\.json: differs") as caught:
        StoredSchemas(store, "shop", "0").keep(used(TEXT))

    assert cause(caught.value, "") == "SchemaRegistryChanged"


def test_the_same_schema_written_otherwise_is_the_same(
    store: MemoryStore, stored: StoredSchemas
) -> None:
    spaced = RegisteredSchema("AVRO", json.dumps({"type": "int", "logicalType": "date"}, indent=4))
    turned = RegisteredSchema("AVRO", '{"logicalType":"date","type":"int"}')

    assert stored.keep(used(spaced)) == StoredSchemas(store, "shop", "0").keep(used(turned))


def test_a_damaged_schema_is_not_believed(store: MemoryStore, stored: StoredSchemas) -> None:
    name = stored.keep(used(LONG))
    store.overwrite(object_names.schema_key("shop", "0", name), b"{}")

    with pytest.raises(SchemaChanged, match="missing or damaged"):
        stored.find(HERE, "7")
    with pytest.raises(SchemaChanged, match="differs"):
        StoredSchemas(store, "shop", "0").keep(used(LONG))


def test_an_id_that_names_nothing_is_not_believed(
    store: MemoryStore, stored: StoredSchemas
) -> None:
    store.create(object_names.schema_id_key("shop", "0", HERE, "7"), b'{"schema":"../x"}')

    with pytest.raises(SchemaChanged, match="names no stored schema"):
        stored.find(HERE, "7")


@pytest.mark.parametrize("source", [Source(None), Source(None, away=True)], ids=["gone", "away"])
def test_a_stored_schema_takes_the_place_of_the_registry(
    source: Source, stored: StoredSchemas
) -> None:
    stored.keep(used(LONG))
    registry = CachedRegistry(source, HERE, stored)

    assert [registry.by_id(7) for _ in range(3)] == [LONG] * 3
    assert source.asked <= 2


def test_a_registry_that_is_away_is_waited_for_where_nothing_is_stored(
    stored: StoredSchemas,
) -> None:
    registry = CachedRegistry(Source(None, away=True), HERE, stored)

    with pytest.raises(SchemasAway):
        registry.by_id(7)


def test_an_id_that_neither_knows_is_none(stored: StoredSchemas) -> None:
    source = Source(None)
    registry = CachedRegistry(source, HERE, stored)

    assert [registry.by_id(7) for _ in range(ASKS_BETWEEN)] == [None] * ASKS_BETWEEN
    assert source.asked == 2


def test_a_store_that_is_away_is_waited_for() -> None:
    class Away(MemoryStore):
        def read(self, key: str) -> bytes | None:
            raise StoreAway(key)

    registry = CachedRegistry(Source(None), HERE, StoredSchemas(Away(), "shop", "0"))

    with pytest.raises(StoreAway):
        registry.by_id(7)


@pytest.mark.parametrize("schema_id", ["", "07", "1/2", "..", "-1", GUID.upper()])
def test_only_numbers_and_guids_are_ids(schema_id: str) -> None:
    with pytest.raises(ValueError, match="not a registry and an id"):
        object_names.schema_id_key("shop", "0", HERE, schema_id)


def test_a_lane_is_not_called_like_the_schemas_of_another() -> None:
    with pytest.raises(ValueError, match="not a lane name"):
        object_names.ledger_prefix("shop", "0-schemas")


def test_one_registry_has_one_name() -> None:
    assert registry_name("http://a/") == registry_name("http://a") != registry_name("http://b")
