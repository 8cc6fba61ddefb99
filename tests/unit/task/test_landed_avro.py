"""Payloads of Avro landed as Avro files, read by fastavro."""

import io
import math
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from landfall.errors import Stalled
from landfall.registry import pipeline
from tests.support.driver.slice_landing import group
from tests.support.kafka.schema_registry import FakeRegistry
from tests.support.payloads.avro import encoded
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

DECLARED = {"columns": "Declared", "format": "Avro"}


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with orders_registry() as made:
        yield made


def files(objects: dict[str, bytes]) -> list[tuple[dict[str, str], list[dict[str, Any]]]]:
    """Metadata and rows of each file, in the order of keys."""
    found = []
    for key, body in sorted(objects.items()):
        if is_data(key):
            reader = fastavro.reader(io.BytesIO(body))
            found.append((dict(reader.metadata), list(reader)))  # type: ignore[arg-type]  # records
    return found


def test_each_schema_has_a_file_with_its_own_schema(registry: FakeRegistry) -> None:
    rows = [(100 + i, order(1 + i % 2, i)) for i in range(6)]

    made, objects = landed(rows, from_registry(registry, **DECLARED))

    (first, ones), (second, twos) = files(objects)
    assert [o.upload.key for o in made.objects] == [
        "clicks/all/4_3_00000000000000000100.avro",
        "clicks/all/4_3_00000000000000000101.avro",
    ]
    assert first["landfall-schema-name"] == second["landfall-schema-name"] == "shop.Order"
    assert [(row["_offset"], row["id"]) for row in ones] == [(100, 0), (102, 2), (104, 4)]
    assert twos[1] == {
        "id": 3,
        "who": "user 3",
        "tags": [],
        "cents": 3,
        "at": {"x": 0.5, "by": {"k": 3}},
        "_topic": "clicks",
        "_partition": 3,
        "_offset": 103,
        "_timestamp": twos[1]["_timestamp"],
    }


def test_without_envelope_the_schema_is_that_of_the_payloads() -> None:
    spec = fixed(V1, **DECLARED, options={"envelope": False}, codec="None")
    payloads = [encoded(V1, {"id": i, "who": "x", "tags": []}) for i in range(3)]

    _, objects = landed([(100 + i, payload) for i, payload in enumerate(payloads)], spec)

    ((metadata, found),) = files(objects)
    assert [row["id"] for row in found] == [0, 1, 2]
    assert set(found[0]) == {"id", "who", "tags"}
    assert b"".join(payloads) in next(iter(objects.values()))
    assert "_offset" not in metadata["avro.schema"]


def test_a_reader_with_the_payloads_schema_sees_the_payloads_alone(registry: FakeRegistry) -> None:
    _, objects = landed([(100, order(1, 7))], from_registry(registry, **DECLARED))

    reader = fastavro.reader(io.BytesIO(next(iter(objects.values()))), reader_schema=V1)

    assert list(reader) == [{"id": 7, "who": "user 7", "tags": ["a"]}]


BAD: list[tuple[str, bytes | None, str]] = [
    ("tombstone", None, "avro: a tombstone, which no Avro file can hold"),
    ("no header", b"\x01abcdef", "avro: does not begin with the byte 0 of a schema id"),
    ("short", b"\0\0", "avro: too short for a schema id"),
    ("unknown id", b"\0\0\0\0\x63x", "avro: schema id 99 is not in the registry"),
    ("truncated", order(1, 7)[:-1], "ends inside a value"),
    ("too long", order(1, 7) + b"\0", "avro: bytes left over after the value"),
    ("no UTF-8", framed(1, V1, {"id": 1, "who": "abc", "tags": []}).replace(b"abc", b"a\xffc"), ""),
    ("a length of 2 GiB", b"\0\0\0\0\x01\x02" + b"\xff\xff\xff\xff\x0f", "avro: who"),
    ("a billion items", b"\0\0\0\0\x01\x02\x02x" + b"\xff\xff\xff\xff\x0f", "avro: tags"),
]


@pytest.mark.parametrize(("payload", "error"), [each[1:] for each in BAD], ids=[b[0] for b in BAD])
@pytest.mark.parametrize("format_", ["Avro", "Parquet", "Orc"])
def test_a_bad_payload_is_a_dead_letter_alone(
    registry: FakeRegistry, payload: bytes | None, error: str, format_: str
) -> None:
    columns = "Declared" if format_ == "Avro" else "FromSchema"
    spec = from_registry(registry, format=format_, columns=columns)

    made, objects = landed([(100, order(1, 1)), (101, payload), (102, order(1, 2))], spec)

    assert (made.landed, made.dead_lettered) == (2, 1)
    assert made.errors == ("offset 101: decode: avro",)
    if payload is not None:
        assert error in reasons(objects)[0]
    (letters,) = [body for key, body in objects.items() if not is_data(key)]
    (letter,) = pq.read_table(io.BytesIO(letters)).to_pylist()
    assert letter["value"] == payload


def test_a_field_of_ten_megabytes_and_nan_are_kept(registry: FakeRegistry) -> None:
    big = framed(1, V1, {"id": 1, "who": "x" * 10_000_000, "tags": []})
    odd = framed(2, V2, {"id": 2, "who": "", "tags": [], "at": {"x": math.nan, "by": {}}})
    rows = [(100, big), (101, odd), (102, order(1, 3))]

    for format_, columns in (("Avro", "Declared"), ("Parquet", "FromSchema")):
        spec = from_registry(registry, format=format_, columns=columns)
        _, objects = landed(rows, spec)
        bodies = [body for _, body in sorted(objects.items())]
        found = (
            [row for _, of_file in files(objects) for row in of_file]
            if format_ == "Avro"
            else [row for body in bodies for row in pq.read_table(io.BytesIO(body)).to_pylist()]
        )
        assert [len(row["who"]) for row in found] == [10_000_000, 6, 0]
        assert math.isnan(found[2]["at"]["x"])


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"decode": {"format": "Json"}}, "output.format: Avro needs payloads with a schema"),
        (
            {**fixed(V1, **DECLARED), "transforms": [{"use": "LogId", "options": {}}]},
            "spec.transforms: the steps may change rows",
        ),
        (fixed(V1, **DECLARED, codec="Gzip"), "spec.output.codec: must be Deflate, Zstd, Snappy"),
    ],
)
def test_what_cannot_be_is_refused(spec: dict[str, Any], said: str) -> None:
    made = {
        "output": {"url": "s3://bucket/root", "format": "Avro"},
        "route": {"pattern": "a"},
        **spec,
    }
    with pytest.raises(Stalled, match=said.replace(".", r"\.")):
        pipeline(group(**made).spec)


def test_payloads_that_are_read_as_another_schema_cannot_be_copied() -> None:
    spec = fixed(V1, **DECLARED)
    spec["decode"]["options"]["readerSchema"] = spec["decode"]["options"]["schema"]

    with pytest.raises(Stalled, match=r"options\.readerSchema"):
        pipeline(group(**spec).spec)
