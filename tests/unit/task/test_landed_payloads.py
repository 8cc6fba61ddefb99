"""The same events in every format of payloads land with the same values, as others read them."""

import csv
import gzip
import io
import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import msgpack
import pytest

from landfall.ledger.task_results import LandedSlice
from landfall.store.memory import MemoryStore
from tests.support.driver.slice_landing import MIDNIGHT, content, land_rows
from tests.support.payloads.avro import EVENT, Declared, encoded
from tests.support.payloads.protobuf_payloads import inline, message
from tests.support.payloads.thrift_payloads import IDL, packed

Event = Mapping[str, Any]

EVENTS: Mapping[int, Event] = {
    offset: {
        "id": offset * 2**40,
        "user": user,
        "amount": amount,
        "ok": offset % 2 == 0,
        "raw": b"r%d" % offset,
        "meta": {"ts": MIDNIGHT + offset},
    }
    for offset, user, amount in [
        (101, "ann", 12.5),
        (104, 'é "quoted", 漢', -0.1),
        (105, "", 1e300),
    ]
}
BAD = 103
"""The offset of a payload that ends inside a value."""

CSV = ("id", "user", "amount", "ok", "raw", "meta.ts")
AVRO: Declared = {
    **EVENT,
    "fields": [
        *(f for f in EVENT["fields"] if f["name"] in {"id", "user", "amount", "ok"}),
        {"name": "raw", "type": "bytes"},
        {
            "name": "meta",
            "type": {"type": "record", "name": "M", "fields": [{"name": "ts", "type": "long"}]},
        },
    ],
}
COLUMNS = {"id": "Int64", "user": "String", "amount": "Float64", "ok": "Boolean", "raw": "Binary"}


def in_csv(event: Event) -> bytes:
    texts = [event["id"], event["user"], event["amount"], str(event["ok"]).lower()]
    line = io.StringIO()
    csv.writer(line).writerow([*texts, event["raw"].decode(), event["meta"]["ts"]])
    return line.getvalue().encode()


def in_protobuf(event: Event) -> bytes:
    made = message()(**event)
    serialized: bytes = made.SerializeToString()
    return serialized


def plain(event: Event) -> object:
    """The JSON in which numbers are numbers, and bytes base64."""
    return {**event, "raw": b64encode(event["raw"]).decode()}


def as_texts(event: Event) -> object:
    line = next(csv.reader([in_csv(event).decode()]))
    return dict(zip(CSV, line, strict=True))


def proto_json(event: Event) -> object:
    """64-bit integers are text, and what holds its default is left out."""
    ts = str(event["meta"]["ts"])
    every = {**event, "id": str(event["id"]), "meta": {"ts": ts}}
    return {name: value for name, value in (every | {"raw": plain(event)["raw"]}).items() if value}  # type: ignore[index]  # a dictionary


def avro_json(event: Event) -> object:
    return {**event, "raw": event["raw"].decode("latin-1")}


FORMATS: Mapping[
    str, tuple[dict[str, Any], Callable[[Event], bytes], Callable[[Event], object]]
] = {
    "MessagePack": ({}, msgpack.packb, plain),
    "Csv": ({"columns": list(CSV)}, in_csv, as_texts),
    "Thrift": ({"idl": IDL, "struct": "Event"}, packed, plain),
    "Avro": ({"schema": json.dumps(AVRO)}, lambda event: encoded(AVRO, event), avro_json),
    "Protobuf": ({"message": "shop.Event", "descriptors": inline()}, in_protobuf, proto_json),
}


def landed(format_: str, output: str, columns: Mapping[str, str]) -> dict[str, bytes]:
    """The data objects of all events and of a bad payload between them."""
    options, encode, _ = FORMATS[format_]
    rows = [(offset, encode(event)) for offset, event in EVENTS.items()]
    bad = b'"' if format_ == "Csv" else rows[1][1][:-1]
    declared = [{"name": name, "type": type_} for name, type_ in columns.items()]
    at = {"name": "at", "type": "Timestamp", "field": "meta.ts"}
    store = MemoryStore()

    result = land_rows(
        sorted([*rows, (BAD, bad)]),
        store,
        decode={
            "format": format_,
            "options": options,
            "timestamp": {"field": "meta.ts", "unit": "Milliseconds"},
            "columns": [*declared, at] if columns else [],
        },
        output={"url": "s3://b", "format": output},
    )

    assert isinstance(result, LandedSlice)
    assert (result.landed, result.dead_lettered) == (len(EVENTS), 1), result.errors
    assert result.errors[0].startswith(f"offset {BAD}: decode: ")
    bodies = content(result, store)
    return {key: body for key, body in bodies.items() if not key.startswith("_landfall/")}


@pytest.mark.parametrize("format_", FORMATS)
def test_as_json_each_format_has_its_documented_values(format_: str) -> None:
    (body,) = landed(format_, "Json", {}).values()

    as_json = FORMATS[format_][2]
    lines = gzip.decompress(body).splitlines()
    assert [json.loads(line) for line in lines] == [as_json(event) for event in EVENTS.values()]


@pytest.mark.parametrize("format_", FORMATS)
def test_as_typed_parquet_all_formats_have_the_same_values(format_: str, tmp_path: Path) -> None:
    (body,) = landed(format_, "Parquet", COLUMNS).values()
    (tmp_path / "landed.parquet").write_bytes(body)

    rows = (
        duckdb.connect()
        .execute(
            f'select _offset, {", ".join(COLUMNS)}, epoch_ms("at") '
            f"from '{tmp_path}/landed.parquet' order by 1"
        )
        .fetchall()
    )

    assert rows == [
        (offset, *(event[name] for name in COLUMNS), event["meta"]["ts"])
        for offset, event in EVENTS.items()
    ]
