"""Payloads of several versions of a schema: others read their files as one table."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import msgpack
import pyarrow as pa
import pytest
import thriftpy2
from pyarrow import orc
from thriftpy2.utils import serialize

from landfall.schemas.cached import registry_at
from tests.support.kafka.schema_registry import FakeRegistry, schema_registry
from tests.support.payloads.avro import Declared
from tests.support.payloads.own_schemas import framed, from_registry, is_data, landed, reasons
from tests.support.payloads.protobuf_payloads import inline, message
from tests.support.payloads.thrift_payloads import FACTORIES


def avro(*fields: Declared) -> Declared:
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)}


ID: Declared = {"name": "id", "type": "int"}
WHO: Declared = {"name": "who", "type": "string", "default": "nobody"}
CENTS: Declared = {"name": "cents", "type": ["null", "long"], "default": None}
AT: Declared = {
    "name": "at",
    "type": ["null", {"type": "record", "name": "At", "fields": [{"name": "x", "type": "double"}]}],
    "default": None,
}
VERSIONS = {1: avro(ID, WHO), 2: avro(ID, WHO, CENTS), 3: avro({"name": "id", "type": "long"}, AT)}
"""The third makes ``id`` wider, leaves two fields out and adds a record."""
VALUES: list[tuple[int, dict[str, Any]]] = [
    (1, {"id": 0, "who": "a"}),
    (2, {"id": 1, "who": "b", "cents": 5}),
    (3, {"id": 2**40, "at": {"x": 0.5}}),
    (2, {"id": 3, "who": "c", "cents": None}),
    (1, {"id": 4, "who": "d"}),
    (3, {"id": 5, "at": None}),
]
ROWS = [(100 + i, framed(n, VERSIONS[n], value)) for i, (n, value) in enumerate(VALUES)]
AS_ONE_TABLE = [
    (value["id"], value.get("who"), value.get("cents"), (value.get("at") or {}).get("x"))
    for _, value in VALUES
]
"""What there is of each row: what its version does not have is null."""


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    registry_at.cache_clear()
    with schema_registry() as made:
        for number, schema in VERSIONS.items():
            made.add(number, schema)
        yield made


def written(objects: dict[str, bytes], folder: Path) -> list[str]:
    """The data objects as files."""
    names = []
    for number, (_, body) in enumerate(
        sorted(each for each in objects.items() if is_data(each[0]))
    ):
        path = folder / f"{number}.file"
        path.write_bytes(body)
        names.append(str(path))
    return names


def test_parquet_files_of_all_versions_are_one_table(
    registry: FakeRegistry, tmp_path: Path
) -> None:
    made, objects = landed(ROWS, from_registry(registry))

    files = written(objects, tmp_path)
    assert (made.landed, len(files)) == (len(ROWS), 3)
    rows = (
        duckdb.connect()
        .execute(
            'SELECT id, who, cents, "at".x FROM read_parquet(?, union_by_name=true)'
            " ORDER BY _offset",
            [files],
        )
        .fetchall()
    )
    assert rows == AS_ONE_TABLE


def test_orc_files_of_all_versions_are_one_table(registry: FakeRegistry) -> None:
    _, objects = landed(ROWS, from_registry(registry, format="Orc"))

    tables = [orc.read_table(io.BytesIO(body)) for body in objects.values()]
    whole = pa.concat_tables(tables, promote_options="permissive").sort_by("_offset")
    assert [
        (row["id"], row["who"], row["cents"], (row["at"] or {}).get("x"))
        for row in whole.to_pylist()
    ] == AS_ONE_TABLE


def test_avro_files_of_all_versions_are_read_as_one_schema(registry: FakeRegistry) -> None:
    """As the specification's "Schema Resolution" has it: a missing field is its default."""
    _, objects = landed(ROWS, from_registry(registry, format="Avro", columns="Declared"))

    offset = {"name": "_offset", "type": "long"}
    reader = avro({"name": "id", "type": "long"}, WHO, CENTS, AT, offset)
    rows = [
        row
        for body in objects.values()
        for row in fastavro.reader(io.BytesIO(body), reader_schema=reader)
    ]
    rows.sort(key=lambda row: row["_offset"])  # type: ignore[index, call-overload]  # records
    assert [
        (row["id"], row["who"], row["cents"], (row["at"] or {}).get("x"))  # type: ignore[index, union-attr, call-overload]  # records
        for row in rows
    ] == [(id_, who or "nobody", cents, x) for id_, who, cents, x in AS_ONE_TABLE]


@pytest.mark.parametrize("output", ["Parquet", "Orc"])
def test_with_a_readers_schema_there_is_one_table(registry: FakeRegistry, output: str) -> None:
    spec = from_registry(registry, format=output)
    reader = avro({"name": "id", "type": "long"}, WHO, CENTS)
    spec["decode"]["options"] = {"readerSchema": json.dumps(reader)}

    made, objects = landed(ROWS, spec)

    (body,) = objects.values()
    read = orc.read_table if output == "Orc" else pa.parquet.read_table
    rows = read(io.BytesIO(body), columns=["id", "who", "cents"]).to_pylist()
    assert made.errors == ()
    assert rows == [
        {"id": id_, "who": who or "nobody", "cents": cents} for id_, who, cents, _ in AS_ONE_TABLE
    ]


@pytest.mark.parametrize("output", ["Parquet", "Orc"])
@pytest.mark.parametrize(
    ("reader", "bad", "reason"),
    [
        (avro({"name": "id", "type": "int"}), {102, 105}, "id"),  # a long is no int
        (avro({"name": "id", "type": "string"}), set(range(100, 106)), "id"),
        (avro({"name": "cents", "type": ["null", "long"]}), {100, 104, 102, 105}, "cents"),
    ],
)
def test_versions_that_do_not_resolve_are_dead_letters(
    registry: FakeRegistry, output: str, reader: Declared, bad: set[int], reason: str
) -> None:
    spec = from_registry(registry, format=output)
    spec["decode"]["options"] = {"readerSchema": json.dumps(reader)}

    made, objects = landed(ROWS, spec)

    assert (made.landed, made.dead_lettered) == (len(ROWS) - len(bad), len(bad))
    assert all(f"offset {o}: decode: " in e for o, e in zip(sorted(bad), made.errors, strict=False))
    assert all(error.startswith("avro") for error in reasons(objects))
    assert reason in reasons(objects)[0]


OLD = 'syntax = "proto3"; package shop; message Click { int64 id = 1; string gone = 2; }'
NEW = (
    'syntax = "proto3"; package shop; message Sub { double x = 1; } message Click { int64 id = 1; '
    "reserved 2; optional int64 cents = 3; Sub at = 4; }"
)


def test_protobuf_of_all_versions_is_one_table(tmp_path: Path) -> None:
    registry_at.cache_clear()
    bodies = [
        (1, message("shop.Click", OLD)(id=1, gone="x")),
        (2, message("shop.Click", NEW)(id=2, cents=7, at={"x": 0.5})),
        (1, message("shop.Click", OLD)(id=3)),
        (2, message("shop.Click", NEW)(id=4)),
    ]
    indexes = {1: b"\0", 2: b"\x02\x02"}
    rows = [
        (100 + i, b"\0" + n.to_bytes(4) + indexes[n] + body.SerializeToString())
        for i, (n, body) in enumerate(bodies)
    ]
    with schema_registry() as made:
        for number, text in ((1, OLD), (2, NEW)):
            answer = {"schema": text, "schemaType": "PROTOBUF"}
            made.answers[f"/schemas/ids/{number}"] = (200, answer)
        spec = from_registry(made)
        spec["decode"]["format"] = "Protobuf"
        of_slice, objects = landed(rows, spec)

    assert of_slice.errors == ()
    found = (
        duckdb.connect()
        .execute(
            'SELECT id, gone, cents, "at".x FROM read_parquet(?, union_by_name=true)'
            " ORDER BY _offset",
            [written(objects, tmp_path)],
        )
        .fetchall()
    )
    assert found == [(1, "x", None, None), (2, None, 7, 0.5), (3, "", None, None), (4, *[None] * 3)]


COLUMNS = [{"name": "id", "type": "Int64"}, {"name": "cents", "type": "Int64"}]
IDL = "struct Click {{ 1: i64 id, {} }}"
OLD_IDL, NEW_IDL = IDL.format("2: string gone"), IDL.format("3: optional i64 cents")


def in_thrift(idl: str, name: str, **values: object) -> bytes:
    made = thriftpy2.load_fp(io.StringIO(idl), name).Click(**values)
    payload: bytes = serialize(made, FACTORIES["Compact"])
    return payload


OLD_AND_NEW: dict[str, tuple[dict[str, Any], bytes, bytes]] = {
    "Json": ({}, b'{"id": 1, "gone": "x"}', b'{"id": 2, "cents": 7}'),
    "MessagePack": (
        {},
        msgpack.packb({"id": 1, "gone": "x"}),
        msgpack.packb({"id": 2, "cents": 7}),
    ),
    "Thrift": (
        {"idl": NEW_IDL, "struct": "Click", "protocol": "Compact"},
        in_thrift(OLD_IDL, "old_thrift", id=1, gone="x"),
        in_thrift(NEW_IDL, "new_thrift", id=2, cents=7),
    ),
    "Protobuf": (
        {"descriptors": inline(NEW), "message": "shop.Click"},
        message("shop.Click", OLD)(id=1, gone="x").SerializeToString(),
        message("shop.Click", NEW)(id=2, cents=7).SerializeToString(),
    ),
}


@pytest.mark.parametrize("decoder", OLD_AND_NEW)
@pytest.mark.parametrize("own", [False, True])
def test_the_newest_schema_reads_old_payloads(decoder: str, own: bool, tmp_path: Path) -> None:
    options, old, new = OLD_AND_NEW[decoder]
    if own and decoder in {"Json", "MessagePack"}:
        pytest.skip("these have no schema")
    spec = {
        "decode": {"format": decoder, "options": options, "columns": [] if own else COLUMNS},
        "route": {"pattern": "all"},
        "output": {
            "url": "s3://bucket/root",
            "format": "Parquet",
            "columns": "FromSchema" if own else "Declared",
        },
    }

    made, objects = landed([(100, old), (101, new)], spec)

    assert made.errors == ()
    found = (
        duckdb.connect()
        .execute(
            "SELECT id, cents FROM read_parquet(?) ORDER BY _offset", [written(objects, tmp_path)]
        )
        .fetchall()
    )
    assert found == [(1, None), (2, 7)]
