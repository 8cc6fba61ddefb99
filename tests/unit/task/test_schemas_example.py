"""The example with three kinds of payloads: what a task lands of them, read by DuckDB."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from examples.schemas import produce
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from landfall import registry as stages
from landfall.api import group_file
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import FakeReader, Rows, content
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.pages import shop
from tests.support.pages.shop import TOPICS

BROKEN = b"\xffbroken"
END = produce.COUNT + 1


def logs(registry: FakeRegistry) -> dict[TopicPartition, Rows]:
    def register(version: Mapping[str, Any]) -> int:
        schema_id = produce.VERSIONS.index(version) + 1
        registry.add(schema_id, version)
        return schema_id

    payloads = (
        produce.avro_payloads(register),
        produce.protobuf_payloads(),
        produce.json_payloads(),
    )
    return {
        TopicPartition(name, 0): list(enumerate([*of_topic, BROKEN]))
        for name, of_topic in zip(TOPICS, payloads, strict=True)
    }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[LandedSlice, Path]]:
    folder, store = tmp_path_factory.mktemp("tour"), MemoryStore()
    with schema_registry() as registry:
        addresses = {"LANDFALL_KAFKA": "none:1", "LANDFALL_SCHEMA_REGISTRY": registry.url}
        group = group_file.load(shop.written(folder, ""), addresses)
        log = logs(registry)
        slices = [Slice(tp, OffsetRange(0, END)) for tp in log]
        landed = land(Batch(stages.pinned(group), "token"), slices, FakeReader(log), store)
    found = {}
    for result in landed:
        assert isinstance(result, LandedSlice), result
        for key, body in content(result, store).items():
            path = folder / "landed" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        found[result.piece.topic_partition.topic] = (result, folder / "landed")
    return found


@pytest.mark.parametrize("topic", TOPICS)
def test_every_value_is_that_which_was_produced(
    results: dict[str, tuple[LandedSlice, Path]], topic: str
) -> None:
    _, landed = results[topic]
    types, _ = shop.types(topic)

    assert shop.in_duckdb(landed / topic, topic) == (types, shop.expected(topic))


@pytest.mark.parametrize(
    ("topic", "filtered", "files"), [("orders", 0, 6), ("clicks", 0, 2), ("logins", 30, 2)]
)
def test_every_record_is_landed_left_out_or_a_dead_letter(
    results: dict[str, tuple[LandedSlice, Path]], topic: str, filtered: int, files: int
) -> None:
    result, landed = results[topic]
    letters = landed / f"_landfall/shop/dead-letters/{topic}"

    assert (result.landed, result.filtered, result.dead_lettered) == (
        produce.COUNT - filtered,
        filtered,
        1,
    )
    # Each version of the orders' schema has files of its own, in each of the two days.
    assert len(list((landed / topic).rglob("*.parquet"))) == files
    assert shop.dead_letters(letters) == [broken for broken in shop.BROKEN if broken[0] == topic]


def test_the_descriptor_set_is_that_of_the_proto_file(tmp_path: Path) -> None:
    made = tmp_path / "clicks.bin"

    protoc.main(["", f"-I{produce.FOLDER}", f"--descriptor_set_out={made}", "clicks.proto"])

    described = descriptor_pb2.FileDescriptorSet.FromString
    assert described(made.read_bytes()) == described((produce.FOLDER / "clicks.bin").read_bytes())
