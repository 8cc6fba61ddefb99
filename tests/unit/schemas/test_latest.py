"""The latest schema of a subject: the same for all tasks of a driver, and ever after."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall import registry as stages
from landfall.api.contract import LANE
from landfall.api.spec import ConsumerGroup, TopicSpecs
from landfall.driver.core.pinned_spec import pinned_spec
from landfall.driver.core.stored_specs import store_spec, stored_spec
from landfall.errors import Retry, SchemaChanged, SchemasAway, Stalled, StoreAway
from landfall.ledger.names.schema_ids import latest_key
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import FailedSlice, LandedSlice, SliceResult
from landfall.schemas import RegisteredSchema
from landfall.schemas.cached import CachedRegistry, SchemaId, registry_at
from landfall.schemas.stored import StoredSchemas, registry_name
from landfall.store import Created
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import LandingDeps, land_with
from landfall.task.partitioning import Partitioners
from tests.support.driver.fakes import group
from tests.support.driver.slice_landing import TP, FakeReader, content
from tests.support.kafka.registry import framed
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.payloads.avro import encoded

HERE = registry_name("http://registry:8081")
SLICE = Slice(TP, OffsetRange(100, 200))
OLD: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}],
}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "cents", "type": "int", "default": 5}]}
LATEST = f"/subjects/{TP.topic}-value/versions/latest"


# -------------------------------------------------------------------------- one name, one answer


@dataclass
class Source:
    """A registry: the number of the version that is the latest, none, or away."""

    now: int | str

    def by_id(self, schema_id: SchemaId) -> RegisteredSchema | None:
        raise NotImplementedError(schema_id)

    def latest(self, subject: str) -> RegisteredSchema | None:
        if self.now == "away":
            raise SchemasAway(subject)
        return None if self.now == "none" else version(int(self.now))


class Unsteady(MemoryStore):
    """A store of which a call fails: with its effect, or without."""

    fails: str = ""

    def create(self, key: str, body: bytes) -> Created:
        fails, self.fails = self.fails, ""
        if fails == "before":
            raise StoreAway(key)
        created = super().create(key, body)
        if fails == "after":
            raise StoreAway(key)
        return created


def version(number: int) -> RegisteredSchema:
    return RegisteredSchema("AVRO", json.dumps({"type": "int", "version": number}))


def number_of(schema: RegisteredSchema) -> int:
    return int(json.loads(schema.text)["version"])


asks = st.tuples(
    st.integers(0, 2),  # the process
    st.sampled_from(["one", "two"]),  # the pin
    st.sampled_from([1, 2, 3, "none", "away"]),  # what the registry says
    st.sampled_from(["", "before", "after"]),  # what the store does
)


@given(st.lists(asks, max_size=20))
def test_under_a_pin_all_processes_get_the_same(
    steps: list[tuple[int, str, int | str, str]],
) -> None:
    store, source, found = Unsteady(), Source("none"), dict[str, set[int]]()
    processes = [CachedRegistry(source, HERE, StoredSchemas(store, "shop", LANE)) for _ in range(3)]

    for process, pin, source.now, store.fails in steps:
        try:
            schema = processes[process].latest("orders-value", pin)
        except Retry:
            assert store.fails == "" or isinstance(source.now, str)
            continue
        found.setdefault(pin, set()).add(number_of(schema))

    assert all(len(numbers) == 1 for numbers in found.values())


@given(st.sampled_from(["none", "away", 2]))
def test_what_is_pinned_needs_no_registry(now: int | str) -> None:
    store = MemoryStore()
    CachedRegistry(Source(1), HERE, StoredSchemas(store, "shop", LANE)).latest("a", "pin")

    later = CachedRegistry(Source(now), HERE, StoredSchemas(store, "shop", LANE))

    assert number_of(later.latest("a", "pin")) == 1


def test_of_two_that_ask_at_once_the_first_decides() -> None:
    store = MemoryStore()
    first, second = (StoredSchemas(store, "shop", LANE) for _ in range(2))
    assert first.latest(HERE, "pin", "a") is second.latest(HERE, "pin", "a") is None

    found = first.keep_latest(HERE, "pin", "a", version(1))

    assert second.keep_latest(HERE, "pin", "a", version(2)) == found
    assert number_of(found) == 1


def test_subjects_registries_and_pins_do_not_share_an_answer() -> None:
    stored, other = StoredSchemas(MemoryStore(), "shop", LANE), registry_name("http://other")
    stored.keep_latest(HERE, "pin", "a", version(1))

    assert stored.latest(HERE, "pin", "b") is None
    assert stored.latest(HERE, "nip", "a") is None
    assert stored.latest(other, "pin", "a") is None


@pytest.mark.parametrize("body", [b"", b"{}", b'{"schema":"../x"}', b'{"schema":"' + b"0" * 64])
def test_a_damaged_answer_is_not_believed(body: bytes) -> None:
    store = MemoryStore()
    store.create(latest_key("shop", LANE, HERE, "pin", "a"), body)

    with pytest.raises(SchemaChanged):
        StoredSchemas(store, "shop", LANE).latest(HERE, "pin", "a")


@pytest.mark.parametrize("pin", ["", "A", "a/b", "..", "-a", "a" * 64])
def test_a_pin_is_part_of_a_key(pin: str) -> None:
    with pytest.raises(ValueError, match="not a registry and a pin"):
        latest_key("shop", LANE, HERE, pin, "a")
    if pin:
        with pytest.raises(Stalled, match=r"spec\.decode\.options\.pin: expected"):
            stages.check_spec(reading("http://registry", pin=pin))


# ------------------------------------------------------------------------------------ in the spec


def reading(url: str, **options: object) -> ConsumerGroup:
    """A group that reads payloads as the latest schema of their topic, and writes JSON."""
    decode = {
        "format": "Avro",
        "options": {"readerSchema": "Latest", **options},
        "registry": {"urls": [url], "timeout": "1s"},
    }
    return group(decode=decode, output={"url": "s3://b/r", "format": "Json", "codec": "None"})


def test_each_driver_has_a_pin_of_its_own() -> None:
    of = reading("http://registry")

    made, other = pinned_spec(of, "one"), pinned_spec(of, "two")

    assert made.spec.decode.options == {"readerSchema": "Latest", "pin": "one"}
    assert made.spec != other.spec
    assert pinned_spec(made, "three") == made


def test_only_decoders_that_ask_for_the_latest_are_pinned() -> None:
    urls = {"urls": ["http://registry"]}
    reader = {"readerSchema": json.dumps(OLD)}
    for decode in (
        {"format": "Json"},
        {"format": "Avro", "registry": urls},
        {"format": "Avro", "options": reader, "registry": urls},
        {"format": "Protobuf", "registry": urls},
    ):
        assert pinned_spec(group(decode=decode), "one") == group(decode=decode)


def test_entries_of_topics_and_keys_are_pinned() -> None:
    latest = {"readerSchema": "Latest"}
    made = group(
        decode={"format": "Avro", "registry": {"urls": ["http://registry"]}},
        topics=[
            {"pattern": "a", "decode": {"options": latest}},
            {"pattern": "b", "decode": {"format": "Json"}},
            {
                "pattern": "c",
                "decode": {
                    "key": {
                        "format": "Avro",
                        "options": latest,
                        "columns": [{"name": "k", "type": "Int32", "field": "k"}],
                    },
                },
                "output": {"format": "Parquet"},
            },
        ],
    )

    specs = [spec.decode for _, spec in TopicSpecs.of(pinned_spec(made, "one").spec).used()]

    assert [decode.options.get("pin") for decode in specs] == [None, "one", None, None]
    assert [decode.key and decode.key.options.get("pin") for decode in specs] == [
        None,
        None,
        None,
        "one",
    ]


# -------------------------------------------------------------------------------------- in a task


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with schema_registry() as made:
        made.add(1, OLD)
        made.answers[LATEST] = latest(OLD)
        yield made


def latest(schema: dict[str, Any]) -> tuple[int, object]:
    return 200, {"schema": json.dumps(schema)}


def landed(of: ConsumerGroup, slots: MemoryStore) -> tuple[SliceResult, list[object]]:
    """Land an order in a new worker; returns its rows, too."""
    registry_at.cache_clear()
    partitioners = Partitioners(of.spec, StoredSchemas(slots, of.metadata.name, LANE))
    reader = FakeReader({TP: [(100, framed(1, encoded(OLD, {"id": 1})))]})
    uploads = MemoryStore()
    deps, batch = LandingDeps(partitioners, uploads), Batch(of, "token")
    (result,) = land_with(deps, batch, [SLICE], reader)
    if isinstance(result, FailedSlice):
        return result, []
    lines = b"".join(content(result, uploads).values()).splitlines()
    return result, [json.loads(line) for line in lines]


def test_workers_of_one_driver_read_by_the_same_schema(registry: FakeRegistry) -> None:
    store, of = MemoryStore(), reading(registry.url)
    here, next_ = pinned_spec(of, "one"), pinned_spec(of, "two")

    _, before = landed(here, store)
    registry.answers[LATEST] = latest(NEW)

    assert landed(here, MemoryStore())[1] != before  # or this proves nothing
    assert landed(here, store)[1] == before == [{"id": 1}]
    assert landed(next_, store)[1] == [{"id": 1, "cents": 5}]


def test_what_was_landed_is_made_again_by_the_schema_of_that_time(registry: FakeRegistry) -> None:
    store, of = MemoryStore(), reading(registry.url)
    then = pinned_spec(of, "one")
    name = store_spec(store, then, LANE)
    before, rows = landed(then, store)
    registry.answers.clear()
    registry.status = 503

    now = pinned_spec(of, "two")
    again, same_rows = landed(stored_spec(store, now, LANE, name), store)
    unseen, _ = landed(now, store)

    assert isinstance(before, LandedSlice)
    assert isinstance(again, LandedSlice)
    assert again.schemas == before.schemas
    assert same_rows == rows == [{"id": 1}]
    assert isinstance(unseen, FailedSlice)
    assert isinstance(unseen.error, SchemasAway)
