"""The decoder ``Avro``: framing, schemas by id, fields, declared columns, JSON, outages."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from landfall import registry as built_in
from landfall.api.spec import Column, parse_group
from landfall.errors import NotTried, SchemasAway, Stalled
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import FailedSlice, LandedSlice
from landfall.pipeline.decoders import Decoded, Wanted
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from landfall.schemas.avro import AvroDecoder
from landfall.schemas.cached import registry_at
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.support.driver.slice_landing import TP, FakeReader, content, group, is_empty
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.payloads.avro import EVENT, Declared, encoded
from tests.support.payloads.own_schemas import reasons

V1: Declared = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "who", "type": "string"}],
}
V2: Declared = {
    **V1,
    "fields": [
        {"name": "who", "type": ["null", "string"], "default": None},
        {"name": "id", "type": "long"},
        {"name": "cents", "type": "long", "default": 0},
    ],
}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    registry_at.cache_clear()
    with schema_registry() as made:
        made.add(1, V1)
        made.add(2, V2)
        yield made


def framed(schema_id: int, schema: Declared, value: object) -> bytes:
    return b"\0" + schema_id.to_bytes(4) + encoded(schema, value)


def decode(
    values: Sequence[bytes | None], wanted: Wanted, registry: FakeRegistry, **options: object
) -> Decoded:
    decoder = AvroDecoder.of({"registry": {"urls": [registry.url]}, **options}, wanted)
    return decoder.decode(filled(TopicPartition("orders", 0), range(len(values)), values))


def errors_of(decoded: Decoded) -> dict[int, str]:
    return dict(zip(decoded.bad.rows.tolist(), decoded.bad.errors, strict=True))


def field(decoded: Decoded, *path: str) -> list[object]:
    values = decoded.fields[path]
    return values if isinstance(values, list) else values.tolist()


ID_AND_WHO = Wanted((("id",), ("who",)))
MIXED = [
    framed(1, V1, {"id": 1, "who": "a"}),
    framed(2, V2, {"id": 2**40, "who": None, "cents": 5}),
    None,
    framed(1, V1, {"id": 3, "who": "c"}),
    framed(2, V2, {"id": 4, "who": "d", "cents": 6}),
]


def test_rows_of_several_schemas_stay_in_order(registry: FakeRegistry) -> None:
    decoded = decode(MIXED, ID_AND_WHO, registry)

    assert errors_of(decoded) == {}
    assert field(decoded, "id") == [1, 2**40, None, 3, 4]
    assert field(decoded, "who") == ["a", None, None, "c", "d"]
    assert decoded.records.values.to_pylist() == MIXED


def test_each_bad_row_says_why(registry: FakeRegistry) -> None:
    registry.add(9, "syntax", schemaType="PROTOBUF")
    good = MIXED[0]
    assert good is not None
    rows = [b"", b"\0\0\0\0", b"\1" + good[1:], good[:4] + b"\7" + good[5:], good[:-1], good + b"x"]

    decoded = decode([*rows, good, b"\0\0\0\0\x09x"], ID_AND_WHO, registry)

    assert errors_of(decoded) == {
        0: "avro: too short for a schema id",
        1: "avro: too short for a schema id",
        2: "avro: does not begin with the byte 0 of a schema id",
        3: "avro: schema id 7 is not in the registry",
        4: "avro: who: ends inside a value",
        5: "avro: bytes left over after the value",
        7: "avro: schema id 9: the schema is PROTOBUF, not AVRO",
    }
    assert field(decoded, "id") == [1]


def test_a_schema_is_fetched_once(registry: FakeRegistry) -> None:
    for _ in range(3):
        decode(MIXED, ID_AND_WHO, registry)

    assert sorted(path for path, _ in registry.asked) == ["/schemas/ids/1", "/schemas/ids/2"]


def test_rows_are_read_as_the_latest_schema(registry: FakeRegistry) -> None:
    latest = (200, {"schema": json.dumps(V2)})
    registry.answers["/subjects/orders-value/versions/latest"] = latest
    wanted = Wanted((("id",), ("cents",)))

    assert field(decode(MIXED[:2], wanted, registry), "cents") == [None, 5]
    decoded = decode(MIXED[:2], wanted, registry, readerSchema="Latest")
    fixed = decode(MIXED[:2], wanted, registry, readerSchema=json.dumps(V2))

    assert field(decoded, "cents") == field(fixed, "cents") == [0, 5]


def test_rows_that_the_readers_schema_cannot_read_are_bad(registry: FakeRegistry) -> None:
    narrow = {**V1, "fields": [{"name": "id", "type": "int"}]}

    decoded = decode(MIXED, Wanted((("id",),)), registry, readerSchema=json.dumps(narrow))

    assert errors_of(decoded) == dict.fromkeys(
        (1, 4), "avro: schema 2: id: long cannot be read as int"
    )
    assert field(decoded, "id") == [1, None, 3]


def test_json_has_all_fields(registry: FakeRegistry) -> None:
    decoded = decode(MIXED, Wanted(json=True), registry)

    values = decoded.records.values.to_pylist()
    assert [None if value is None else json.loads(value) for value in values] == [
        {"id": 1, "who": "a"},
        {"who": None, "id": 2**40, "cents": 5},
        None,
        {"id": 3, "who": "c"},
        {"who": "d", "id": 4, "cents": 6},
    ]


KINDS: Declared = {
    "type": "record",
    "name": "Kinds",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "on", "type": {"type": "int", "logicalType": "date"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "count", "type": "long"},
        {"name": "ok", "type": "boolean"},
        {"name": "raw", "type": "bytes"},
    ],
}
KIND = {
    "at": datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    "on": date(2026, 11, 21),
    "price": Decimal("12.30"),
    "tags": {"k": "v"},
    "count": 2**40,
    "ok": True,
    "raw": b"\xff",
}


def declared(*columns: tuple[str, str]) -> pa.Schema:
    return schema_of([Column(name=f"c{i}", type=t, field=f) for i, (f, t) in enumerate(columns)])


def fixed(schema: Declared, wanted: Wanted, *values: object) -> Decoded:
    decoder = AvroDecoder.of({"schema": json.dumps(schema)}, wanted)
    payloads = [encoded(schema, value) for value in values]
    return decoder.decode(filled(TopicPartition("orders", 0), range(len(values)), payloads))


def test_declared_columns_have_their_types() -> None:
    schema = declared(
        ("at", "Timestamp"),
        ("on", "Date"),
        ("on", "Timestamp"),
        ("price", "String"),
        ("tags", "Json"),
        ("tags.k", "String"),
        ("count", "Float64"),
        ("count", "Timestamp"),
        ("raw", "Binary"),
        ("at", "Int64"),
        ("on", "Int32"),
    )

    decoded = fixed(KINDS, Wanted(schema=schema), KIND)

    assert decoded.columns is not None
    assert decoded.columns.schema.types == schema.types
    assert list(decoded.columns.to_pylist()[0].values()) == [
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        date(2026, 11, 21),
        datetime(2026, 11, 21, tzinfo=UTC),
        "12.30",
        '{"k":"v"}',
        "v",
        float(2**40),
        datetime.fromtimestamp(2**40 / 1000, UTC),
        b"\xff",
        -1,
        (date(2026, 11, 21) - date(1970, 1, 1)).days,
    ]


@pytest.mark.parametrize(
    ("column", "error"),
    [
        (("count", "Int32"), "column c0: out of range"),
        (("count", "String"), "column c0: expected String, got int64"),
        (("count", "Date"), "column c0: expected Date, got int64"),
        (("ok", "Int64"), "column c0: expected Int64, got bool"),
        (("raw", "String"), "column c0: expected String, got binary"),
    ],
)
def test_what_does_not_fit_its_column_is_bad(column: tuple[str, str], error: str) -> None:
    decoded = fixed(KINDS, Wanted(schema=declared(column)), KIND)

    assert errors_of(decoded) == {0: error}


def test_fields_are_numbers_and_text() -> None:
    paths = (("at",), ("on",), ("price",), ("tags", "k"), ("tags", "none"), ("ok",), ("raw",))

    decoded = fixed(KINDS, Wanted(paths), {**KIND, "raw": b"x"})

    assert [field(decoded, *path)[0] for path in paths] == [
        -1,
        "2026-11-21",
        "12.30",
        "v",
        None,
        True,
        "x",
    ]
    assert errors_of(fixed(KINDS, Wanted(paths), KIND)) == {
        0: "field raw: bytes that are not UTF-8"
    }


@pytest.mark.parametrize(
    ("options", "wanted", "error"),
    [
        ({}, Wanted(), "needs one of schema, schemaFile and decode.registry, got none"),
        ({"schema": "{"}, Wanted(), "option schema: schema: not JSON"),
        ({"schemaFile": "/nowhere"}, Wanted(), "option schemaFile: cannot be read"),
        ({"schema": "long", "schemaFile": "/x"}, Wanted(), "got schema and schemaFile"),
        ({"schema": "long", "readerSchema": "Latest"}, Wanted(), "Latest needs decode.registry"),
        ({"schema": "long", "readerSchema": "{"}, Wanted(), "option readerSchema: "),
        ({"schema": "long", "readerSchema": "string"}, Wanted(), "long cannot be read as string"),
        ({"schema": "long", "reader": "x"}, Wanted(), "unknown option reader"),
        ({"schema": json.dumps(EVENT)}, Wanted((("meta", "no"),)), "no field 'meta.no' in the"),
        ({"schema": "long"}, Wanted(json=True), "no record"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], wanted: Wanted, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        AvroDecoder.of(options, wanted)


def test_a_schema_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(V1))
    decoder = AvroDecoder.of({"schemaFile": str(file)}, ID_AND_WHO)

    payload = encoded(V1, {"id": 5, "who": "é"})
    decoded = decoder.decode(filled(TopicPartition("orders", 0), [7], [payload]))

    assert (field(decoded, "id"), field(decoded, "who")) == ([5], ["é"])


# --------------------------------------------------------------------------------------- in a group


def test_the_resource_names_the_registry() -> None:
    document = group().model_dump(by_alias=True, mode="json", exclude_none=True)
    document["spec"]["decode"] = {
        "format": "Avro",
        "registry": {"urls": ["http://registry:8081"], "secretRef": {"name": "login"}},
    }

    spec = parse_group(document).spec
    made = built_in.pipeline(spec).decoder

    assert isinstance(made, AvroDecoder)
    document["spec"]["decode"] = {"format": "Avro"}
    with pytest.raises(Stalled, match=r"spec\.decode\.options: Avro needs one of"):
        built_in.pipeline(parse_group(document).spec)


def test_a_registry_that_is_away_makes_no_dead_letters(registry: FakeRegistry) -> None:
    """The task fails, and waits only once; later it lands every record."""
    registry.status = 503
    store = MemoryStore()
    spec = group(
        decode={"format": "Avro", "registry": {"urls": [registry.url]}},
        output={"url": "s3://bucket/root", "format": "SequenceFile"},
    )
    first, second = (Slice(TP, OffsetRange(start, start + 10)) for start in (100, 110))
    rows = [(offset, framed(1, V1, {"id": 1, "who": str(offset)})) for offset in (101, 115)]

    failed = land(Batch(spec, "token"), [first, second], FakeReader({TP: rows}), store)

    errors = [result.error for result in failed if isinstance(result, FailedSlice)]
    assert [type(error) for error in errors] == [SchemasAway, NotTried]
    assert len(registry.asked) == 1
    assert is_empty(store)

    registry.status = 0
    landed = land(Batch(spec, "token"), [first, second], FakeReader({TP: rows}), store)

    counts = [(r.landed, r.dead_lettered) for r in landed if isinstance(r, LandedSlice)]
    assert counts == [(1, 0), (1, 0)]


def test_an_id_that_nobody_knows_is_a_dead_letter(registry: FakeRegistry) -> None:
    store = MemoryStore()
    spec = group(
        decode={"format": "Avro", "registry": {"urls": [registry.url]}},
        route={"pattern": "who={field:who}"},
    )
    rows = [
        (101, framed(7, V1, {"id": 1, "who": "a"})),
        (102, framed(1, V1, {"id": 2, "who": "b"})),
    ]

    (result,) = land(
        Batch(spec, "token"), [Slice(TP, OffsetRange(100, 200))], FakeReader({TP: rows}), store
    )

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered) == (1, 1)
    assert result.errors == ("offset 101: decode: avro",)
    objects = content(result, store)
    assert reasons(objects) == ["avro: schema id 7 is not in the registry"]
    assert any("who=b" in key for key in objects)
