"""Any payloads in typed files: each is landed and can be read by others, or is a dead letter.

Values are drawn without regard to what their logical types allow, and payloads are damaged.
"""

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any
from unittest.mock import patch

import duckdb
import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from landfall.registry import output_format
from tests.properties.test_protobuf_columns import CLICKS, PROTO, TREES
from tests.properties.test_protobuf_columns import packed as in_protobuf
from tests.properties.test_thrift_properties import FULL
from tests.support.driver.slice_landing import group
from tests.support.examples import share
from tests.support.kafka.schema_registry import FakeRegistry
from tests.support.payloads.avro import Declared, encoded
from tests.support.payloads.damage import damaged
from tests.support.payloads.own_schemas import (
    framed,
    from_registry,
    is_data,
    landed,
    orders_registry,
)
from tests.support.payloads.protobuf_payloads import inline
from tests.support.payloads.thrift_payloads import IDL, packed

OUTPUTS: list[dict[str, Any]] = [
    {"format": "Parquet", "columns": "FromSchema"},
    {"format": "Parquet", "columns": "FromSchema", "codec": "None", "options": {"sortBy": "at"}},
    {"format": "Parquet", "columns": "FromSchema", "options": {"envelope": False}},
    {"format": "Orc", "columns": "FromSchema"},
    {"format": "Orc", "columns": "FromSchema", "options": {"timestamps": "Utc", "sortBy": "-day"}},
    {"format": "Orc", "columns": "FromSchema", "options": {"envelope": False}, "codec": "None"},
    {"format": "Avro", "codec": "None"},
    {"format": "Avro", "options": {"envelope": False, "blockBytes": 64}},
]
COLUMNAR = [output for output in OUTPUTS if output["format"] != "Avro"]

LOGICAL: Mapping[str, Declared] = {
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "ms": {"type": "long", "logicalType": "timestamp-millis"},
    "wall": {"type": "long", "logicalType": "local-timestamp-millis"},
    "day": {"type": "int", "logicalType": "date"},
    "clock": {"type": "int", "logicalType": "time-millis"},
    "exact": {"type": "long", "logicalType": "time-micros"},
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "wide": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
    "huge": {"type": "bytes", "logicalType": "decimal", "precision": 70, "scale": 3},
    "key": {"type": "string", "logicalType": "uuid"},
}
OTHERS: Mapping[str, Declared] = {
    "ratio": "double",
    "half": "float",
    "raw": "bytes",
    "none": "null",
    "either": ["null", "long", "string"],
    "kind": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
    "fix": {"type": "fixed", "name": "Fix", "size": 3},
    "all": {"type": "array", "items": ["null", LOGICAL["ms"]]},
    "by": {"type": "map", "values": LOGICAL["day"]},
    "tree": {
        "type": "record",
        "name": "Tree",
        "fields": [{"name": "inner", "type": {"type": "array", "items": "Tree"}}],
    },
}


def avro(fields: Mapping[str, Declared]) -> Declared:
    made = [{"name": name, "type": type_} for name, type_ in fields.items()]
    return {"type": "record", "name": "E", "namespace": "fuzz", "fields": made}


def plain(declared: Declared) -> Declared:
    """The same without logical types, so that any value can be written."""
    match declared:
        case {"logicalType": _, "type": inner}:
            return inner
        case dict():
            return {key: plain(each) for key, each in declared.items()}
        case list():
            return [plain(each) for each in declared]
    return declared


SCHEMA = avro({**LOGICAL, **OTHERS})
WITHOUT_LOGIC = avro(plain({**LOGICAL, **OTHERS}))
SECONDS = st.sampled_from(
    [0, -1, 1, 9_223_372_036, -9_223_372_036, -12_219_292_800, 253_402_300_800, -62_135_596_801]
)


def _times(per_second: int) -> st.SearchStrategy[int]:
    edges = st.builds(lambda s, n: s * per_second + n, SECONDS, st.integers(-2, 2))
    return edges | st.integers(0, 2 * 10**9).map(lambda s: s * per_second) | LONGS


INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers(-150_000, 3_000_000) | INTS
UNSCALED = st.integers(-(10**9), 10**9).map(
    lambda number: number.to_bytes(5, "big", signed=True)
) | st.binary(max_size=40)
TREE = st.recursive(
    st.just({"inner": []}), lambda each: st.fixed_dictionaries({"inner": st.lists(each)})
)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "at": _times(10**6),
    "ms": _times(10**3),
    "wall": _times(10**3),
    "day": DAYS,
    "clock": st.integers(-1, 86_400_000) | INTS,
    "exact": st.integers(-1, 86_400_000_000) | LONGS,
    **dict.fromkeys(("price", "wide", "huge"), UNSCALED),
    "key": st.uuids().map(str) | st.text(max_size=3),
    "ratio": st.floats(),
    "half": st.floats(width=32),
    "raw": st.binary(max_size=5),
    "none": st.none(),
    "either": st.none() | LONGS | st.text(max_size=3),
    "kind": st.sampled_from(["A", "B"]),
    "fix": st.binary(min_size=3, max_size=3),
    "all": st.lists(st.none() | _times(10**3), max_size=3),
    "by": st.dictionaries(st.text(max_size=2), DAYS, max_size=2),
    "tree": TREE,
}
SOUND: Mapping[str, Any] = {
    **dict.fromkeys(("at", "ms", "wall", "day", "clock", "exact"), 0),
    **dict.fromkeys(("price", "wide", "huge"), b"\x07"),
    "key": "6b0b4c4e-2a3f-4a50-9f57-0d6f2f6a9f21",
    "ratio": 0.5,
    "half": 0.5,
    "raw": b"x",
    "none": None,
    "either": 1,
    "kind": "A",
    "fix": b"abc",
    "all": [],
    "by": {},
    "tree": {"inner": []},
}
# Mostly one value is odd; with all of them odd nothing would ever land.
EVENTS = st.fixed_dictionaries({}, optional=VALUES).flatmap(
    lambda drawn: st.sets(st.sampled_from(sorted(VALUES)), max_size=3).map(
        lambda kept: {**SOUND, **{name: drawn[name] for name in kept if name in drawn}}
    )
)


def check(payloads: list[bytes | None], spec: Mapping[str, Any], chunk: int) -> None:
    """Land them: all are accounted for, and others read as many rows as there are."""
    rows = [(100 + 2 * i, payload) for i, payload in enumerate(payloads)]

    made, objects = landed(rows, spec, chunk)

    assert made.landed + made.dead_lettered == len(rows)
    output = parse_output(spec)
    offsets: list[int | None] = []
    for key, body in objects.items():
        if is_data(key):
            found = [row.offset for row in output_format(output).rows(io.BytesIO(body))]
            assert rows_read(output.format, body) == len(found)
            offsets += found
    assert len(offsets) == made.landed
    if output.options.get("envelope", True):
        assert len(set(offsets)) == made.landed
        assert set(offsets) <= {offset for offset, _ in rows}


def parse_output(spec: Mapping[str, Any]) -> Any:
    return group(**spec).spec.output


def rows_read(format_: str, body: bytes) -> int:
    """How many rows another reader finds after it has read every value of the file."""
    if format_ == "Avro":
        # fastavro makes objects of Python of times and decimals, which has not all of them.
        with patch.dict(fastavro._read.LOGICAL_READERS, clear=True):
            return len(list(fastavro.reader(io.BytesIO(body))))
    if format_ == "Orc":
        table = orc.read_table(io.BytesIO(body))
        table.validate(full=True)
        return int(table.num_rows)
    with tempfile.NamedTemporaryFile(suffix=".parquet") as file:
        file.write(body)
        file.flush()
        return len(
            duckdb.connect().execute(f"SELECT COLUMNS(*)::VARCHAR FROM '{file.name}'").fetchall()
        )


CHUNKS = st.integers(1, 6)
THRIFT = st.fixed_dictionaries({}, optional=FULL)


@settings(max_examples=share(150))
@given(
    payloads=st.lists(damaged(EVENTS.map(lambda event: encoded(WITHOUT_LOGIC, event))), max_size=6),
    output=st.sampled_from(OUTPUTS),
    chunk=CHUNKS,
)
def test_avro(payloads: list[bytes | None], output: dict[str, Any], chunk: int) -> None:
    check(payloads, spec_of("Avro", {"schema": json.dumps(SCHEMA)}, output), chunk)


@settings(max_examples=share(60))
@given(
    payloads=st.lists(damaged(CLICKS.map(in_protobuf)), max_size=6),
    output=st.sampled_from(COLUMNAR),
    proto=st.sampled_from([PROTO, TREES]),
    chunk=CHUNKS,
)
def test_protobuf(
    payloads: list[bytes | None], output: dict[str, Any], proto: str, chunk: int
) -> None:
    options = {"message": "shop.Click", "descriptors": inline(proto)}

    check(payloads, spec_of("Protobuf", options, output), chunk)


@settings(max_examples=share(60))
@given(
    drawn=st.sampled_from(["Binary", "Compact"]).flatmap(
        lambda protocol: st.tuples(
            st.just(protocol),
            st.lists(damaged(THRIFT.map(lambda row: packed(row, protocol=protocol))), max_size=6),
        )
    ),
    output=st.sampled_from(COLUMNAR),
    chunk=CHUNKS,
)
def test_thrift(drawn: tuple[str, list[bytes | None]], output: dict[str, Any], chunk: int) -> None:
    protocol, payloads = drawn
    options = {"idl": IDL, "struct": "Event", "protocol": protocol}

    check(payloads, spec_of("Thrift", options, output), chunk)


FIRST = avro({"at": "long", "who": "string"})
OF_TIMES = {"type": "array", "items": LOGICAL["ms"]}
SECOND = avro({"who": "string", "day": "int", "all": {"type": "array", "items": "long"}})
ROWS = {
    1: st.fixed_dictionaries({"at": _times(10**6), "who": st.text(max_size=3)}),
    2: st.fixed_dictionaries(
        {"who": st.text(max_size=3), "day": DAYS, "all": st.lists(_times(10**3), max_size=2)}
    ),
}
FRAMED = st.sampled_from([1, 2, 3]).flatmap(
    lambda id_: ROWS[1 + id_ % 2].map(lambda row: framed(id_, SECOND if id_ % 2 else FIRST, row))
)


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    """Knows 1 and 2; the payloads of 3, and of damaged ids, are of nobody."""
    with orders_registry() as made:
        made.add(1, avro({"who": "string", "day": LOGICAL["day"], "all": OF_TIMES}))
        made.add(2, avro({"at": LOGICAL["at"], "who": "string"}))
        yield made


@settings(max_examples=share(80))
@given(
    payloads=st.lists(damaged(FRAMED), max_size=8), output=st.sampled_from(OUTPUTS), chunk=CHUNKS
)
def test_avro_of_a_registry(
    registry: FakeRegistry, payloads: list[bytes | None], output: dict[str, Any], chunk: int
) -> None:
    spec = from_registry(registry, **{"columns": "Declared", **output})

    check(payloads, spec, chunk)


def spec_of(format_: str, options: Mapping[str, object], output: dict[str, Any]) -> dict[str, Any]:
    return {
        "decode": {"format": format_, "options": options},
        "route": {"pattern": "all"},
        "output": {"url": "s3://bucket/root", **output},
    }
