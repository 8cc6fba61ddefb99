"""Columns from the payloads' own schemas: an object for each schema, and what their names are."""

import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal

import fastavro
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.errors import Stalled
from landfall.ledger.names import object_names
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.decoders import Decoded
from landfall.pipeline.decoders.row_schemas import RowSchema, SchemaRows
from landfall.pipeline.records import filled
from landfall.registry import pipeline
from landfall.schemas.cached import registry_at
from tests.support.driver.slice_landing import SLICE, TP, group
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.payloads.avro import Declared, encoded
from tests.support.payloads.own_schemas import (
    V1,
    V2,
    fixed,
    framed,
    from_registry,
    is_data,
    landed,
    order,
    orders_registry,
    reasons,
)
from tests.support.payloads.protobuf_payloads import message

RECORDS = {"output": {"url": "s3://bucket/root", "columns": "FromSchema", "format": "Parquet"}}


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with orders_registry() as made:
        yield made


def tables(objects: dict[str, bytes]) -> dict[str, list[dict[str, object]]]:
    return {
        key: pq.read_table(io.BytesIO(body)).to_pylist()
        for key, body in objects.items()
        if is_data(key)
    }


def check_names(made: LandedSlice) -> None:
    """The rules of ``checks.chain`` for names, and that counts and ranges are right."""
    keys = [o.upload.key for o in made.objects]
    assert len(set(keys)) == len(keys)
    for o in made.objects:
        start = object_names.origin("events", o.upload.key).start
        assert start in {SLICE.offsets.start, o.first_offset}
        assert start <= o.first_offset <= o.last_offset < SLICE.offsets.end


def test_each_schema_has_an_object_with_its_own_columns(registry: FakeRegistry) -> None:
    rows = [(100 + i, order(1 + i % 2, i)) for i in range(6)]

    made, objects = landed(rows, from_registry(registry))

    first, second = tables(objects).values()
    check_names(made)
    assert [o.rows for o in made.objects] == [3, 3]
    assert [(o.first_offset, o.last_offset) for o in made.objects] == [(100, 104), (101, 105)]
    assert [row["_offset"] for row in first] == [100, 102, 104]
    assert list(first[0]) == ["id", "who", "tags", "_topic", "_partition", "_offset", "_timestamp"]
    assert second[1] == {
        "id": 3,
        "who": "user 3",
        "tags": [],
        "cents": 3,
        "at": {"x": 0.5, "by": [("k", 3)]},
        "_topic": "clicks",
        "_partition": 3,
        "_offset": 103,
        "_timestamp": second[1]["_timestamp"],
    }


def test_the_footer_names_the_schema(registry: FakeRegistry) -> None:
    _, objects = landed([(100, order(1, 1)), (101, order(2, 2))], from_registry(registry))

    metadata = [pq.read_metadata(io.BytesIO(body)).metadata for body in objects.values()]
    assert [found[b"landfall-schema-name"] for found in metadata] == [b"shop.Order"] * 2
    assert len({found[b"landfall-schema-digest"] for found in metadata}) == 2


@given(
    kinds=st.lists(st.sampled_from([1, 2, 9]), min_size=1, max_size=40),
    gap=st.integers(0, 3),
    chunk=st.integers(1, 50),
    max_rows=st.integers(1, 10) | st.none(),
)
def test_names_are_unique_and_every_row_is_in_one_object(
    registry: FakeRegistry, kinds: list[int], gap: int, chunk: int, max_rows: int | None
) -> None:
    """Schema 9 is unknown: its rows are dead letters."""
    rows = [(100 + gap + i, order(kind, i)) for i, kind in enumerate(kinds)]
    spec = from_registry(registry, rotate={"maxRecords": max_rows} if max_rows else {})

    made, objects = landed(rows, {**spec, "route": {"pattern": "n={field:id}"}}, chunk)
    whole, whole_objects = landed(rows, spec, chunk)

    for of_slice in (made, whole):
        check_names(of_slice)
        assert of_slice.landed == sum(kind != 9 for kind in kinds)
        assert of_slice.dead_lettered == kinds.count(9)
    for found in (objects, whole_objects):
        offsets = [row["_offset"] for of_object in tables(found).values() for row in of_object]
        assert sorted(offsets) == [o for (o, _), kind in zip(rows, kinds, strict=True) if kind != 9]  # type: ignore[type-var]  # integers
    for of_object in tables(whole_objects).values():
        assert len({"cents" in row for row in of_object}) == 1


def test_the_same_rows_make_the_same_objects(registry: FakeRegistry) -> None:
    rows = [(100 + i, order(1 + i * i % 2, i)) for i in range(90)]
    spec = from_registry(registry, rotate={"maxRecords": 7})

    assert landed(rows, spec, 20)[1] == landed(rows, spec, 20)[1]


def test_ids_with_one_content_share_an_object(registry: FakeRegistry) -> None:
    registry.add(3, V1)
    rows = [(100, order(1, 0)), (101, framed(3, V1, {"id": 1, "who": "b", "tags": []}))]
    rows.append((102, order(1, 2)))

    made, objects = landed(rows, from_registry(registry))

    assert [o.rows for o in made.objects] == [3]
    assert [row["id"] for row in next(iter(tables(objects).values()))] == [0, 1, 2]


def test_a_reader_schema_gives_all_rows_its_columns(registry: FakeRegistry) -> None:
    registry.answers["/subjects/clicks-value/versions/latest"] = registry.answers["/schemas/ids/2"]
    at = {**V2, "fields": [*V2["fields"][:4]]}
    registry.add(4, at)
    registry.answers["/subjects/clicks-value/versions/latest"] = registry.answers["/schemas/ids/4"]
    spec = from_registry(registry)
    spec["decode"]["options"] = {"readerSchema": "Latest"}

    made, objects = landed([(100, order(1, 1)), (101, order(2, 2)), (102, None)], spec)

    (found,) = tables(objects).values()
    assert [o.rows for o in made.objects] == [3]
    assert [(row["id"], row["cents"]) for row in found] == [(1, None), (2, 2), (None, None)]


def test_a_tombstone_without_a_schema_is_a_dead_letter(registry: FakeRegistry) -> None:
    _, objects = landed([(100, order(1, 1)), (101, None)], from_registry(registry))

    assert reasons(objects) == ["avro: a tombstone, which has no schema"]


def test_filter_leaves_rows_out(registry: FakeRegistry) -> None:
    spec = from_registry(registry)
    spec["transforms"] = [{"use": "Filter", "options": {"where": "id >= 3"}}]

    made, objects = landed([(100 + i, order(1 + i % 2, i)) for i in range(6)], spec)

    assert (made.landed, made.filtered) == (3, 3)
    assert sorted(row["id"] for of in tables(objects).values() for row in of) == [3, 4, 5]  # type: ignore[type-var]  # integers


DECIMAL = {"type": "bytes", "logicalType": "decimal"}
LOGICAL: Declared = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "price", "type": {**DECIMAL, "precision": 9, "scale": 2}},
        {"name": "huge", "type": {**DECIMAL, "precision": 60, "scale": 1}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "exact", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "nothing", "type": "null"},
        {"name": "empty", "type": ["null", {"type": "record", "name": "Empty", "fields": []}]},
        {"name": "either", "type": ["null", "long", "string"]},
        {"name": "_offset", "type": "string"},
        {"name": "tree", "type": {"type": "record", "name": "Tree", "fields": [
            {"name": "n", "type": "int"},
            {"name": "inner", "type": {"type": "array", "items": "Tree"}},
        ]}},
    ],
}  # fmt: skip


def test_logical_nested_and_recursive_types_are_kept() -> None:
    value = {
        "price": Decimal("12.30"),
        "huge": Decimal("123456789012345678901234567890123456789012345678.9"),
        "day": date(2026, 11, 21),
        "clock": time(4, 5, 6, 7000),
        "exact": time(4, 5, 6, 7),
        "ms": datetime(2026, 11, 21, tzinfo=UTC),
        "us": datetime(2026, 11, 21, 0, 0, 0, 1, tzinfo=UTC),
        "key": "6b0b4c4e-2a3f-4a50-9f57-0d6f2f6a9f21",
        "kind": "B",
        "nothing": None,
        "empty": {},
        "either": "x",
        "_offset": "mine",
        "tree": {"n": 1, "inner": [{"n": 2, "inner": []}]},
    }
    rows = [(100, encoded(LOGICAL, value)), (101, None)]

    _, objects = landed(rows, fixed(LOGICAL))

    (found,) = tables(objects).values()
    coordinates = {"_topic", "_partition", "_offset", "_timestamp"}
    assert {k: v for k, v in found[0].items() if k not in coordinates} == {
        **{k: v for k, v in value.items() if k != "_offset"},
        "huge": str(value["huge"]),
        "key": value["key"],
        "empty": "{}",
        "either": {"long": None, "string": "x"},
        "_offset_": "mine",
        "tree": {"n": 1, "inner": ['{"n":2,"inner":[]}']},
    }
    assert found[0]["_offset"] == 100
    assert {v for k, v in found[1].items() if k not in coordinates} == {None}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"decode": {"format": "Json"}, **RECORDS}, "decode.format Json does not have"),
        (
            {"decode": {"format": "Raw"}, "route": {"pattern": "s={schema:name}"}},
            "{schema:name} needs payloads with a schema",
        ),
        (
            fixed(V1, format="Json"),
            "output.columns: FromSchema is for formats that write columns, not for Json",
        ),
        ({**fixed(V1), "route": {"pattern": "s={schema:id}"}}, "{schema:id} needs decode.registry"),
        (
            {**fixed(V1), "transforms": [{"use": "LogId", "options": {}}]},
            "spec.transforms: the steps may change rows",
        ),
        ({**fixed(V1), "transforms": [{"use": "a.b:c"}]}, "spec.transforms"),
    ],
)
def test_what_cannot_be_is_refused(spec: dict[str, object], said: str) -> None:
    with pytest.raises(Stalled, match=said.replace("{", r"\{")):
        pipeline(group(**spec).spec)


def test_declared_columns_and_those_of_the_schema_exclude_each_other() -> None:
    spec = fixed(V1)
    spec["decode"]["columns"] = [{"name": "id", "type": "Int64"}]

    with pytest.raises(Stalled, match=r"leave decode\.columns out"):
        pipeline(group(**spec).spec)


def test_routes_by_schema(registry: FakeRegistry) -> None:
    spec = {**from_registry(registry), "route": {"pattern": "id={schema:id}/{schema:name}"}}

    made, _ = landed([(100 + i, order(1 + i % 2, i)) for i in range(4)], spec)

    assert TP.topic == "clicks"
    assert [o.upload.key for o in made.objects] == [
        "clicks/id=1/shop.Order/4_3_00000000000000000100.parquet",
        "clicks/id=2/shop.Order/4_3_00000000000000000100.parquet",
    ]


def test_messages_of_two_protobuf_schemas_have_files_of_their_own() -> None:
    old = (
        "syntax = 'proto3'; package shop; message Click { int64 id = 1; repeated string tags = 2; }"
    )
    new = old.replace(
        "repeated string tags = 2;", "repeated string tags = 2; optional bool ok = 3;"
    )
    registry_at.cache_clear()
    with schema_registry() as made:
        for schema_id, text in ((1, old), (2, new)):
            made.answers[f"/schemas/ids/{schema_id}"] = (
                200,
                {"schema": text, "schemaType": "PROTOBUF"},
            )
        click = message("shop.Click", new)
        bodies = [click(id=i, tags=["a"] * i).SerializeToString() for i in range(4)]
        payloads = [b"\0" + (1 + i % 2).to_bytes(4) + b"\0" + body for i, body in enumerate(bodies)]
        spec = from_registry(made)
        spec["decode"]["format"] = "Protobuf"
        spec["route"] = {"pattern": "{schema:name}/id={schema:id}"}

        rows = [(100 + i, each) for i, each in enumerate([*payloads, None])]
        of_slice, objects = landed(rows, spec)

    check_names(of_slice)
    assert reasons(objects) == ["protobuf: a tombstone, which has no schema"]
    first, second = tables(objects).values()
    assert [(row["_offset"], row["id"], row["tags"]) for row in first] == [
        (100, 0, []),
        (102, 2, ["a", "a"]),
    ]
    assert [row["ok"] for row in second] == [None, None]
    assert {key.split("/")[1] for key in objects if is_data(key)} == {"shop.Click"}


def test_rows_that_a_decoder_forgets_are_bad() -> None:
    rows = SchemaRows(RowSchema("d"), np.array([0, 2]))
    decoded = Decoded(filled(TP, [5, 6, 7], [b"a", None, b"c"]), by_schema=(rows,))

    found = decoded.with_schema()

    assert found.records.offsets.tolist() == [5, 7]
    assert (found.bad.rows.tolist(), found.bad.errors) == (
        [1],
        ["a tombstone, which has no schema"],
    )
    assert Decoded(found.records).with_schema().bad.rows.tolist() == []


UUIDS: Declared = {
    "type": "record",
    "name": "U",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {
            "name": "more",
            "type": {"type": "array", "items": {"type": "string", "logicalType": "uuid"}},
        },
    ],
}
GOOD_UUID = "00112233-4455-6677-8899-AABBCCDDEEFF"
TEXTS = [GOOD_UUID, "", "x", GOOD_UUID + "\n", GOOD_UUID.replace("-", ""), "1-1-1-1-1"]
AS_TEXT: Declared = json.loads(json.dumps(UUIDS).replace(', "logicalType": "uuid"', ""))


def uuid_rows() -> list[tuple[int, bytes]]:
    values = [{"id": text, "more": []} for text in TEXTS]
    values += [{"id": GOOD_UUID, "more": [GOOD_UUID, text]} for text in TEXTS]
    return list(enumerate((encoded(AS_TEXT, value) for value in values), 100))


@pytest.mark.parametrize("chunk", [1, 1000])
def test_text_that_is_no_uuid_makes_no_avro_file_that_others_cannot_read(chunk: int) -> None:
    made, objects = landed(uuid_rows(), fixed(UUIDS, format="Avro", columns="Declared"), chunk)

    (body,) = [body for key, body in objects.items() if is_data(key)]
    rows = [*fastavro.reader(io.BytesIO(body))]
    assert [row["_offset"] for row in rows] == [100, 106]
    assert made.errors[0] == "offset 101: decode: avro"
    assert reasons(objects)[0] == "avro: id: not a UUID"


def test_text_that_is_no_uuid_is_text_in_columns() -> None:
    made, objects = landed(uuid_rows(), fixed(UUIDS))

    (body,) = [body for key, body in objects.items() if is_data(key)]
    assert made.errors == ()
    assert pq.read_table(io.BytesIO(body))["id"].to_pylist()[: len(TEXTS)] == TEXTS
