"""Damaged payloads of every format, through any steps: each record is landed, or a dead letter.

``tests/properties/test_fuzz_landing.py`` does the same with JSON and text.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgpack
from hypothesis import given, settings
from hypothesis import strategies as st
from thriftpy2 import load_fp

from landfall.ledger.offsets import TopicPartition
from tests.properties.test_fuzz_landing import (
    HEADERS,
    OUTPUTS,
    ROUTES,
    STAMPS,
    TEXTS,
    check_landing,
    group,
    messages,
)
from tests.support.examples import share
from tests.support.payloads.avro import Declared, encoded
from tests.support.payloads.damage import damaged
from tests.support.payloads.protobuf_payloads import inline, message
from tests.support.payloads.thrift_payloads import FACTORIES

Event = Mapping[str, Any]

IDL = "struct M { 1: i64 c } struct E { 1: i64 ts, 2: string c, 3: M meta, 4: binary x }"
PROTO = """
syntax = "proto3";
package fuzz;
message M { int64 c = 1; }
message E { int64 ts = 1; string c = 2; M meta = 3; bytes x = 4; }
"""
INNER: Declared = {"type": "record", "name": "M", "fields": [{"name": "c", "type": "long"}]}
AVRO: Declared = {
    "type": "record",
    "name": "E",
    "fields": [
        {"name": "ts", "type": ["null", "long"]},
        {"name": "c", "type": "string"},
        {"name": "meta", "type": INNER},
        {"name": "x", "type": "bytes"},
    ],
}


@cache
def thrift() -> Any:
    return load_fp(io.StringIO(IDL), "fuzz_thrift")


def in_thrift(event: Event) -> bytes:
    from thriftpy2.utils import serialize

    made = thrift().E(**{**event, "meta": thrift().M(**event["meta"])})
    payload: bytes = serialize(made, FACTORIES["Binary"])
    return payload


def in_protobuf(event: Event) -> bytes:
    payload: bytes = message("fuzz.E", PROTO)(**event).SerializeToString()
    return payload


def in_csv(event: Event) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow([event["ts"], event["c"], event["meta"]["c"], event["x"].hex()])
    return line.getvalue().encode()


def in_json(event: Event) -> bytes:
    return json.dumps({**event, "x": event["x"].hex()}).encode()


FORMATS: Mapping[str, tuple[dict[str, Any], Callable[[Event], bytes]]] = {
    "Json": ({}, in_json),
    "MessagePack": ({}, msgpack.packb),
    "Csv": ({"columns": ["ts", "c", "meta.c", "x"]}, in_csv),
    "Thrift": ({"idl": IDL, "struct": "E"}, in_thrift),
    "Avro": ({"schema": json.dumps(AVRO)}, lambda event: encoded(AVRO, event)),
    "Protobuf": ({"message": "fuzz.E", "descriptors": inline(PROTO)}, in_protobuf),
    "JsonSchema": ({"schema": '{"required": ["ts"], "maxProperties": 4}'}, in_json),
}
COLUMNAR = [
    {"format": "Orc"},
    {"format": "Orc", "codec": "Snappy", "options": {"timestamps": "Utc", "sortBy": "ts"}},
    {"format": "Orc", "columns": "FromSchema", "options": {"envelope": False}},
    {"format": "Orc", "columns": "FromSchema"},
    {"format": "Parquet", "columns": "FromSchema", "options": {"sortBy": "-ts"}},
    {"format": "Parquet", "columns": "FromSchema", "codec": "Gzip"},
    {"format": "Avro"},
    {"format": "Avro", "codec": "Zstd", "options": {"envelope": False}},
]
"""Not every decoder can have all of these; the driver refuses such groups."""
EVENTS = st.fixed_dictionaries(
    {
        "ts": st.integers(1_767_225_600_000, 1_767_225_600_000 + 10**9) | st.integers(-5, 5),
        "c": TEXTS.filter(lambda text: not re.search("[\ud800-\udfff]", text)),
        "meta": st.fixed_dictionaries({"c": st.integers(-(2**63), 2**63 - 1)}),
        "x": st.binary(max_size=9),
    }
)
STEPS = st.lists(
    st.sampled_from(
        [
            {"use": "Filter", "options": {"where": 'c != "x" and not matches(c, "^a")'}},
            {"use": "Filter", "options": {"drop": "ts < 100"}},
            {"use": "Select", "options": {"drop": ["meta.c"]}},
            {"use": "Select", "options": {"fields": ["ts", "c"]}},
            {"use": "Rename", "options": {"c": "country"}},
            {"use": "Cast", "options": {"ts": "String"}},
            {"use": "Cast", "options": {"c": "Int64"}},
            {"use": "Set", "options": {"day": "{date}", "c": "{topic}"}},
            {"use": "Set", "options": {"x.y": 1}},
            {"use": "Flatten", "options": {"separator": "_"}},
            {"use": "Mask", "options": {"fields": ["c"], "kind": "Mail"}},
            {"use": "LogId", "options": {"from": "Key"}},
            {"use": "Sql", "options": {"query": "SELECT *, c::INT AS n FROM records"}},
        ]
    ),
    max_size=3,
)
COLUMNS = [
    [],
    [{"name": "c", "type": "String"}, {"name": "ts", "type": "Timestamp"}],
    [{"name": "ts", "type": "Int64", "nullable": False}, {"name": "c", "type": "String"}],
]


@st.composite
def drawn_of(draw: st.DrawFn) -> tuple[str, Any]:
    """A format, and messages whose payloads are whole or damaged."""
    format_ = draw(st.sampled_from(sorted(FORMATS)))
    whole = EVENTS.map(FORMATS[format_][1])
    payloads = whole | damaged(whole)
    keys = st.none() | st.binary(max_size=5)
    message_ = st.tuples(st.integers(1, 4), payloads, keys, STAMPS, HEADERS)
    return format_, draw(st.lists(message_, max_size=12))


@settings(max_examples=share(150))
@given(
    drawn=drawn_of(),
    steps=STEPS,
    columns=st.sampled_from(COLUMNS),
    timed=st.booleans(),
    route=ROUTES,
    output=OUTPUTS | st.sampled_from(COLUMNAR),
    cut=st.integers(1, 12),
)
def test_every_record_of_any_format_is_landed_left_out_or_dead_lettered(
    drawn: tuple[str, Any],
    steps: Any,
    columns: Any,
    timed: bool,
    route: Any,
    output: Any,
    cut: int,
) -> None:
    format_, found = drawn
    decode = {"format": format_, "options": FORMATS[format_][0], "columns": columns}
    if timed:
        decode["timestamp"] = {"field": "ts", "unit": "Milliseconds"}

    made = group(decode, route, output, steps)

    if made is not None:
        check_landing(made, TopicPartition("clicks", 0), messages(found), cut)
