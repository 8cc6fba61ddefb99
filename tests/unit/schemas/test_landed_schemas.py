"""What a task lands names the schemas it was decoded with, and they are stored before."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from landfall.errors import Retry, SchemaChanged, StoreAway
from landfall.ledger.names import object_names
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import FailedSlice, LandedSlice, SliceResult
from landfall.pipeline.records import of_columns
from landfall.schemas import RegisteredSchema
from landfall.schemas.cached import registry_at
from landfall.schemas.stored import StoredSchemas
from landfall.store import Created
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import LandingDeps, land_with
from landfall.task.partitioning import Partitioners
from tests.support.driver.fakes import group
from tests.support.driver.slice_landing import TP, FakeReader
from tests.support.kafka.registered import content_hash
from tests.support.kafka.registry import framed
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.payloads.avro import encoded

ONE, TWO = '"string"', '{"type": "string", "doc": "another"}'
SLICE = Slice(TP, OffsetRange(100, 200))


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    registry_at.cache_clear()
    with schema_registry() as made:
        made.answers["/schemas/ids/1"] = (200, {"schema": ONE})
        made.answers["/schemas/ids/2"] = (200, {"schema": TWO})
        yield made


def landed(registry: FakeRegistry, store: MemoryStore, *ids: int) -> SliceResult:
    """Land a text per id, with the options of a new worker."""
    decode = {"format": "Avro", "registry": {"urls": [registry.url], "timeout": "1s"}}
    output = {"url": "s3://b/r", "format": "SequenceFile"}
    spec = group(decode=decode, output=output, badRecords={"maxRatio": "1"})
    rows = [(100 + n, framed(i, encoded("string", "text"))) for n, i in enumerate(ids)]
    partitioners = Partitioners(spec.spec, StoredSchemas(store, "fake", "0"))
    deps, batch = LandingDeps(partitioners, store), Batch(spec, f"t{len(ids)}")
    (result,) = land_with(deps, batch, [SLICE], FakeReader({TP: rows}))
    return result


def digests(*texts: str) -> tuple[str, ...]:
    return tuple(sorted(content_hash(RegisteredSchema("AVRO", text)) for text in texts))


def schemas_of(result: SliceResult) -> tuple[str, ...]:
    assert isinstance(result, LandedSlice), result
    return result.schemas


def test_every_schema_of_the_slice_is_named_and_stored(registry: FakeRegistry) -> None:
    store = MemoryStore()

    result = landed(registry, store, 2, 1, 2)

    assert schemas_of(result) == digests(ONE, TWO)
    for name in digests(ONE, TWO):
        assert store.read(object_names.schema_key("fake", "0", name)) is not None


def test_a_schema_that_was_not_used_is_not_named(registry: FakeRegistry) -> None:
    assert schemas_of(landed(registry, MemoryStore(), 1)) == digests(ONE)
    assert schemas_of(landed(registry, MemoryStore(), 9)) == ()
    assert schemas_of(landed(registry, MemoryStore())) == ()


def test_the_same_range_lands_without_the_registry(registry: FakeRegistry) -> None:
    store = MemoryStore()
    before = landed(registry, store, 1, 2)
    registry.status = 503

    after = landed(registry, store, 1, 2)

    assert schemas_of(after) == schemas_of(before)
    assert isinstance(after, LandedSlice)
    assert after.landed == 2


def test_a_registry_that_has_forgotten_makes_no_dead_letters(registry: FakeRegistry) -> None:
    store = MemoryStore()
    landed(registry, store, 1)
    registry.answers.clear()

    after = landed(registry, store, 1)

    assert isinstance(after, LandedSlice)
    assert (after.landed, after.dead_lettered) == (1, 0)


def test_another_registry_at_the_same_address_lands_nothing(registry: FakeRegistry) -> None:
    """A registry that was made anew gives old ids to other schemas."""
    store = MemoryStore()
    landed(registry, store, 1)
    registry.answers["/schemas/ids/1"] = (200, {"schema": TWO})

    result = landed(registry, store, 1)

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, SchemaChanged)
    assert not [stat for stat in store.list_after("") if not stat.key.startswith("_landfall/")]


def test_a_schema_that_cannot_be_stored_is_not_named(registry: FakeRegistry) -> None:
    class ReadOnly(MemoryStore):
        def create(self, key: str, body: bytes) -> Created:
            raise StoreAway(f"{key}: {len(body)} bytes")

    result = landed(registry, ReadOnly(), 1)

    assert isinstance(result, FailedSlice)
    assert isinstance(result.error, Retry)


def test_schemas_of_keys_are_named_too(registry: FakeRegistry) -> None:
    store = MemoryStore()
    decode = {
        "format": "Avro",
        "registry": {"urls": [registry.url]},
        "key": {"format": "Avro", "columns": [{"name": "k", "type": "String"}]},
    }
    key = '{"type":"record","name":"K","fields":[{"name":"k","type":"string"}]}'
    registry.answers["/schemas/ids/3"] = (200, {"schema": key})
    spec = group(decode=decode, output={"url": "s3://b/r", "format": "Parquet"}).spec
    partitioner = Partitioners(spec, StoredSchemas(store, "fake", "0")).for_topic("clicks")
    rows = of_columns(
        TP,
        np.array([100]),
        pa.array([framed(1, encoded("string", "text"))], pa.binary()),
        timestamps=np.array([0]),
        keys=pa.array([framed(3, encoded("string", "kay"))], pa.binary()),
    )

    chunk = partitioner.partition(rows)

    assert {used.schema_id for used in chunk.used} == {"1", "3"}
    ((_, batch),) = chunk.outputs
    assert batch.column("_k").to_pylist() == ["kay"]
