"""Audits of Avro whose schemas are named in record headers, against files that fastavro wrote."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest

from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.records import Records
from landfall.store.file import FileStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.audit.audited_group import DAY, TP, Landed
from tests.support.audit.auditor_fakes import GeneratedLog, Message, of_messages
from tests.support.kafka.schema_registry import FakeRegistry
from tests.support.payloads.avro import encoded
from tests.support.payloads.own_schemas import V1, orders_registry

BY_NUMBER = b"\0\0\0\0\x01"
BY_GUID = b"\x01" + bytes(range(16))
"""The bytes of ids, as confluent-kafka's ``header_schema_id_serializer`` writes them."""
COORDINATES = [
    {"name": "_topic", "type": "string"},
    {"name": "_partition", "type": "int"},
    {"name": "_offset", "type": "long"},
    {"name": "_timestamp", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
]
KINDS: dict[str, list[tuple[str, bytes | None]]] = {
    "before the payload": [],
    "in a header": [("__value_schema_id", BY_NUMBER)],
    "in a header, as a GUID": [("other", None), ("__value_schema_id", BY_GUID)],
    "in the last header of two": [("__value_schema_id", b"?"), ("__value_schema_id", BY_NUMBER)],
    "of the key only, in a header": [("__key_schema_id", BY_NUMBER)],
}


def value(offset: int) -> dict[str, Any]:
    return {"id": offset, "who": f"user {offset}", "tags": ["a", "b"][: offset % 3]}


def message(kind: str, offset: int) -> Message:
    """A record whose payload has the id before it, unless a header names it."""
    pairs = KINDS[kind]
    is_named = any(name == "__value_schema_id" for name, _ in pairs)
    payload = encoded(V1, value(offset))
    before = b"" if is_named else BY_NUMBER
    return Message(offset, before + payload, timestamp_ms=DAY, header_pairs=pairs)


def mixed(offset: int) -> Message:
    return message([*KINDS][offset % len(KINDS)], offset)


def spec(registry: FakeRegistry | None = None, **options: object) -> dict[str, Any]:
    urls = [registry.url if registry else "http://registry"]
    return {
        "decode": {
            "format": "Avro",
            "registry": {"urls": urls},
            "options": {"schemaId": "Header", **options},
        },
        "route": {"pattern": "dt={date}"},
        "output": {"format": "Avro"},
    }


def by_fastavro(offsets: Sequence[int]) -> bytes:
    """The file that these records make, by another library."""
    schema = {**V1, "fields": [*V1["fields"], *COORDINATES]}
    rows = [
        {**value(o), "_topic": "clicks", "_partition": 0, "_offset": o, "_timestamp": DAY}
        for o in offsets
    ]
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(schema), rows, codec="deflate")
    return stream.getvalue()


def audited(tmp_path: Path) -> Landed:
    """A group whose ledger names a file that fastavro wrote, of ten records."""
    landed = Landed(tmp_path / "root", **spec())
    landed.sample.body, landed.sample.extension = by_fastavro, ".avro"
    landed.land(0, 10)
    return landed


@pytest.mark.parametrize("kind", KINDS)
def test_payloads_are_compared_wherever_the_id_is(tmp_path: Path, kind: str) -> None:
    landed = audited(tmp_path)

    found = landed.found(GeneratedLog(10, lambda offset: message(kind, offset)))

    assert found == {"expected": 10, "found": 10}


def test_payloads_that_differ_are_found_wherever_the_id_is(tmp_path: Path) -> None:
    landed = audited(tmp_path)

    def changed(offset: int) -> Message:
        made = mixed(offset)
        payload = (made.payload or b"").replace(b"user 4", b"user 5").replace(b"user 7", b"user 9")
        return Message(offset, payload, timestamp_ms=DAY, header_pairs=made.header_pairs)

    assert landed.found(GeneratedLog(10, mixed)) == {"expected": 10, "found": 10}
    assert landed.found(GeneratedLog(10, changed)) == {"expected": 10, "found": 10, "corrupted": 2}


def test_without_the_option_a_header_means_nothing(tmp_path: Path) -> None:
    """The writer makes dead letters of such records; the auditor must not read them otherwise."""
    landed = Landed(tmp_path / "root", **spec(schemaId="Payload"))
    landed.sample.body, landed.sample.extension = by_fastavro, ".avro"
    landed.land(0, 10)

    found = landed.found(GeneratedLog(10, lambda offset: message("in a header", offset)))

    assert found == {"expected": 10, "found": 10, "corrupted": 10}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with orders_registry() as made:
        yield made


def test_what_the_writer_lands_of_ids_in_headers_is_whole(
    tmp_path: Path, registry: FakeRegistry
) -> None:
    """Ids as GUIDs are left out: they need a registry that knows them."""
    registry.answers["/schemas/guids/00010203-0405-0607-0809-0a0b0c0d0e0f"] = registry.answers[
        "/schemas/ids/1"
    ]
    landed = Landed(tmp_path / "root", **spec(registry))

    class Reader:
        def read(self, slice_: Slice) -> Iterator[Records]:
            offsets = range(slice_.offsets.start, slice_.offsets.end)
            yield of_messages(slice_.topic_partition, [mixed(offset) for offset in offsets])

    piece = Slice(TP, OffsetRange(0, 20))
    (slice_,) = land(Batch(landed.group, "token-2"), [piece], Reader(), FileStore(landed.root))
    assert isinstance(slice_, LandedSlice), slice_
    landed.sample.commit(slice_).applied().open()

    assert (slice_.landed, slice_.dead_lettered) == (20, 0)
    assert landed.found(GeneratedLog(20, mixed)) == {"expected": 20, "found": 20}
