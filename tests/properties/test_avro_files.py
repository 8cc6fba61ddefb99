"""Avro files: what fastavro, the auditor and Landfall's own reader find is what was landed."""

import io
import json
import math
from collections.abc import Sequence

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from landfall.api.spec import parse_group
from landfall.formats import Block
from landfall.formats.avro import AvroFormat, varints
from landfall.formats.avro.envelopes import enveloped
from landfall.formats.avro.file import varint
from landfall.pipeline.decoders.avro.complete import complete, digest
from landfall.pipeline.decoders.avro.plan import compile_schema
from landfall.pipeline.decoders.avro.reading import payload_data, read
from landfall.pipeline.decoders.avro.schema import parse_schema
from landfall.pipeline.decoders.row_schemas import RowSchema
from landfall.pipeline.records import of_columns
from landfall_audit.objects.rows import Order, rows_of
from tests.support.audit.audited_spec import for_auditor
from tests.support.driver.slice_landing import TP
from tests.support.kubernetes.groups import document
from tests.support.payloads.avro import Declared, columns, encoded, same, schemas, values

CODECS = ["Deflate", "Zstd", "Snappy", "None"]
FASTAVRO_READS = ["Deflate", "None"]
NAN_IN_A_UNION: Declared = {
    "type": "array",
    "items": [
        "int",
        {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "float"}]},
    ],
}


def written(
    schema: Declared, payloads: Sequence[bytes], cut: int = 1000, **options: object
) -> bytes:
    """A file of these payloads, at the offsets from 100 on; every third has no timestamp."""
    text = json.dumps(schema)
    rows = len(payloads)
    times = np.where(np.arange(rows) % 3 == 2, -1, 1_763_700_000_000 + np.arange(rows))
    records = of_columns(
        TP, np.arange(100, 100 + rows), pa.array(payloads, pa.binary()), timestamps=times
    )
    encoder = AvroFormat.of(options).encoder()
    blocks = [
        Block(
            records.take(np.arange(at, min(at + cut, rows))),
            schema=RowSchema(digest(text), "n", text),
        )
        for at in range(0, rows, cut)
    ]
    return b"".join((*(encoder.encode(block) for block in blocks), encoder.finish()))


@st.composite
def with_values(draw: st.DrawFn) -> tuple[Declared, list[object]]:
    schema = draw(schemas())
    return schema, draw(st.lists(values(schema), min_size=1, max_size=12))


@given(made=with_values(), cut=st.integers(1, 12), codec=st.sampled_from(FASTAVRO_READS))
@example(made=(NAN_IN_A_UNION, [[("Point", {"x": math.nan})]]), cut=1, codec="Deflate")
def test_fastavro_reads_what_was_copied(
    made: tuple[Declared, list[object]], cut: int, codec: str
) -> None:
    schema, given_values = made
    payloads = [encoded(schema, value) for value in given_values]

    for envelope in (False, True):
        data = written(schema, payloads, cut, codec=codec, envelope=envelope)
        found = list(fastavro.reader(io.BytesIO(data), return_record_name=True))
        assert len(found) == len(payloads)
        if envelope:
            assert [row["_offset"] for row in found] == list(range(100, 100 + len(found)))  # type: ignore[index]  # a record
            assert {row["_topic"] for row in found} == {"clicks"}  # type: ignore[index]  # a record
            assert [row["_timestamp"] is None for row in found] == [  # type: ignore[index]  # a record
                i % 3 == 2 for i in range(len(found))
            ]
        bodies = [_without_envelope(row, schema) if envelope else row for row in found]
        truth = [
            fastavro.schemaless_reader(
                io.BytesIO(payload), fastavro.parse_schema(schema), return_record_name=True
            )
            for payload in payloads
        ]
        assert all(map(same, bodies, truth))


def _without_envelope(row: object, schema: Declared) -> object:
    assert isinstance(row, dict)
    inner = {name: value for name, value in row.items() if name not in COORDINATES}
    is_wrapped = json.loads(enveloped(json.dumps(schema)))["name"].startswith("LandfallEnvelope")
    return inner["value"] if is_wrapped else inner


COORDINATES = {"_topic", "_partition", "_offset", "_timestamp"}


@given(
    made=with_values(),
    cut=st.integers(1, 12),
    codec=st.sampled_from(CODECS),
    envelope=st.booleans(),
)
def test_the_auditor_and_the_own_reader_find_the_payloads(
    made: tuple[Declared, list[object]], cut: int, codec: str, envelope: bool
) -> None:
    schema, given_values = made
    payloads = [encoded(schema, value) for value in given_values]
    data = written(schema, payloads, cut, codec=codec, envelope=envelope)
    offsets = [100 + i if envelope else None for i in range(len(payloads))]

    group = parse_group(
        document(
            decode__format="Avro", output__format="Avro", output__options={"envelope": envelope}
        )
    )
    order, *rows = rows_of(for_auditor(group.spec)).rows(io.BytesIO(data))
    assert order == Order(digest(json.dumps(schema)))
    assert rows == list(zip(offsets, payloads, strict=True))

    own = list(AvroFormat.of({}).rows(io.BytesIO(data)))
    _, texts, _ = columns(schema, payloads)
    assert [row.offset for row in own] == offsets
    assert [row.value for row in own] == [text.encode() for text in texts.to_pylist()]


@given(
    made=with_values(),
    codec=st.sampled_from(CODECS),
    at=st.floats(0, 1, exclude_max=True),
    cut=st.booleans(),
)
def test_damage_is_an_error_and_never_fewer_rows(
    made: tuple[Declared, list[object]], codec: str, at: float, cut: bool
) -> None:
    schema, given_values = made
    data = written(schema, [encoded(schema, value) for value in given_values], 3, codec=codec)
    place = int(at * len(data))
    damaged = (
        data[:place] if cut else data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
    )

    # A file that ends between two blocks is whole to any reader; the ledger knows its size.
    try:
        found = list(AvroFormat.of({}).rows(io.BytesIO(damaged)))
    except ValueError:
        return
    assert len(found) == len(given_values) or (cut and len(found) % 3 == 0)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_numbers_are_those_of_fastavro(numbers: list[int]) -> None:
    made = varints(np.array(numbers, np.int64)).to_pylist()

    assert made == [encoded("long", number) for number in numbers]
    assert made == [varint(number) for number in numbers]


NODE: Declared = {
    "type": "record",
    "name": "Node",
    "namespace": "a.b",
    "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


@pytest.mark.parametrize(
    ("schema", "is_wrapped"),
    [
        ({"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}, False),
        ({"type": "record", "name": "A", "fields": [{"name": "_Offset", "type": "int"}]}, True),
        (NODE, True),
        ("string", True),
        (["null", NODE], True),
        ({"type": "enum", "name": "LandfallEnvelope", "symbols": ["X"]}, True),
    ],
)
def test_a_record_gets_more_fields_and_all_else_an_envelope(
    schema: Declared, is_wrapped: bool
) -> None:
    made = json.loads(enveloped(json.dumps(schema)))

    fastavro.parse_schema(made)
    assert [field["name"] for field in made["fields"][-4:]] == sorted(COORDINATES, key=_place)
    assert made["name"].startswith("LandfallEnvelope") is is_wrapped


def _place(name: str) -> int:
    return ["_topic", "_partition", "_offset", "_timestamp"].index(name)


def test_types_of_other_schemas_are_put_where_they_are_used_first() -> None:
    money = {"type": "record", "name": "Money", "namespace": "pay", "fields": [
        {"name": "cents", "type": "long"},
        {"name": "in", "type": {"type": "enum", "name": "Currency", "symbols": ["EUR"]}},
    ]}  # fmt: skip
    order = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "a", "type": "pay.Money"},
        {"name": "b", "type": ["null", "pay.Money"]},
        {"name": "c", "type": {"type": "array", "items": "pay.Currency"}},
    ]}  # fmt: skip

    made = json.loads(complete(order, [money]))

    value = {"a": {"cents": 1, "in": "EUR"}, "b": {"cents": 2, "in": "EUR"}, "c": ["EUR"]}
    file = io.BytesIO()
    fastavro.writer(file, made, [value])
    file.seek(0)
    assert list(fastavro.reader(file)) == [value]
    assert made["fields"][1]["type"] == ["null", "pay.Money"]


@given(made=with_values(), flips=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 255))))
def test_what_is_copied_is_checked_like_what_is_read(
    made: tuple[Declared, list[object]], flips: list[tuple[int, int]]
) -> None:
    schema, given_values = made
    damaged = bytearray(b"\xff".join(encoded(schema, value) for value in given_values))
    for at, mask in flips:
        if at < len(damaged):
            damaged[at] ^= mask
    payloads = pa.array(bytes(damaged).split(b"\xff"), pa.binary())
    parsed = parse_schema(json.dumps(schema))

    _, read_errors = read(compile_schema(parsed), *payload_data(payloads))
    _, copied_errors = read(
        compile_schema(parsed, None, {}), *payload_data(payloads, is_strict=True)
    )

    assert copied_errors.keys() == read_errors.keys()
