"""Measures the decoders alone: thousand records per CPU-second on one event of ten fields.

    .venv/bin/python -m tests.bench.decoders [NAME ...]

The event has a nested record and an optional text; as JSON it is 250 bytes. Every decoder extracts
the same ten typed columns and the event time, from batches of 10,000 records, and the best of five
turns counts. Landing adds reading, routing and writing to this: see ``make bench``.
"""

import csv
import io
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgpack
import orjson
import thriftpy2
from thriftpy2.protocol import TCompactProtocolFactory, TCyBinaryProtocolFactory
from thriftpy2.utils import serialize

from landfall import registry
from landfall.api.spec import Column, Decode
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from tests.support.payloads.avro import EVENT as AVRO_EVENT
from tests.support.payloads.avro import encoded
from tests.support.payloads.protobuf_payloads import inline, message

Contender: TypeAlias = Callable[[list[dict[str, object]]], tuple[Decode, list[bytes]]]
"""Makes what ``spec.decode`` says, and the payloads, from the events."""

ROWS, TURNS = 10_000, 5
TYPES: Mapping[str, str] = {
    "id": "Int64",
    "user": "String",
    "ts": "Int64",
    "amount": "Float64",
    "country": "String",
    "url": "String",
    "agent": "String",
    "status": "Int32",
    "ok": "Boolean",
    "meta.host": "String",
    "meta.ts": "Int64",
}
SCHEMA = schema_of(
    [
        Column(name=path.replace(".", "_"), type=kind, field=path)  # type: ignore[arg-type]  # pydantic converts the text
        for path, kind in TYPES.items()
    ]
)


def event(i: int, rng: random.Random) -> dict[str, object]:
    """The logical event number ``i``."""
    return {
        "id": 10**9 + i * 37,
        "user": f"user-{rng.randrange(10**7):08d}",
        "ts": 1_763_700_000_000 + i * 13,
        "amount": round(rng.random() * 1000, 2),
        "country": rng.choice(["DE", "FR", "US", "BR", "CN"]),
        "url": f"/shop/item/{rng.randrange(10**6)}?ref=mail&c={rng.randrange(10**4)}",
        "agent": None if i % 10 == 0 else "Mozilla/5.0 (X11; Linux x86_64) rv:140.0",
        "status": rng.choice([200, 200, 301, 404, 500]),
        "ok": bool(i % 3),
        "meta": {"host": f"web-{rng.randrange(200):03d}.eu", "ts": 1_763_700_000_500 + i * 13},
    }


def events() -> list[dict[str, object]]:
    """The same events in every run."""
    rng = random.Random(7)
    return [event(i, rng) for i in range(ROWS)]


def as_json(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
    return Decode(format="Json"), [orjson.dumps(row) for row in rows]


def as_messagepack(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
    return Decode(format="MessagePack"), [msgpack.packb(row) for row in rows]


def as_csv(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
    return Decode(format="Csv", options={"columns": list(TYPES)}), lines(rows, ",")


def as_delimited(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
    options: dict[str, Any] = {"columns": list(TYPES), "separator": "\t"}
    return Decode(format="Delimited", options=options), lines(rows, "\t")


def as_regex(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
    pattern = "\t".join([r"([^\t]*)"] * len(TYPES))
    options: dict[str, Any] = {"pattern": f"^{pattern}$", "fields": list(TYPES)}
    return Decode(format="Regex", options=options), lines(rows, "\t")


def lines(rows: list[dict[str, object]], separator: str) -> list[bytes]:
    """The values of each event as text."""
    made = []
    for row in rows:
        flat = {**row, **{f"meta.{key}": value for key, value in row["meta"].items()}}  # type: ignore[attr-defined]  # a record
        line = [str(flat[path]).lower() if path == "ok" else flat[path] for path in TYPES]
        file = io.StringIO()
        csv.writer(file, delimiter=separator, lineterminator="").writerow(line)
        made.append(file.getvalue().encode())
    return made


JSON_TYPES = {"Int32": "integer", "Int64": "integer", "Float64": "number", "Boolean": "boolean"}


def as_json_schema(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
    top = {path: JSON_TYPES.get(kind, "string") for path, kind in TYPES.items() if "." not in path}
    properties: dict[str, Any] = {path: {"type": kind} for path, kind in top.items()}
    properties["agent"] = {"type": ["string", "null"]}
    properties["meta"] = {"type": "object", "required": ["host", "ts"]}
    schema = {"type": "object", "required": ["id", "ts"], "properties": properties}
    decode = Decode(format="JsonSchema", options={"schema": json.dumps(schema)})
    return decode, [orjson.dumps(row) for row in rows]


IDL = """
struct Meta { 1: string host, 2: i64 ts }
struct Event { 1: i64 id, 2: string user, 3: i64 ts, 4: double amount, 5: string country,
  6: string url, 7: optional string agent, 8: i32 status, 9: bool ok, 10: Meta meta }
"""


def as_thrift(protocol: str) -> Contender:
    def make(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
        module = thriftpy2.load_fp(io.StringIO(IDL), "landfall_bench_thrift")
        structs = [module.Event(**{**row, "meta": module.Meta(**row["meta"])}) for row in rows]  # type: ignore[arg-type]  # a record
        factory: dict[str, Any] = {
            "Binary": TCyBinaryProtocolFactory(),
            "Compact": TCompactProtocolFactory(),
        }
        options: dict[str, Any] = {"idl": IDL, "struct": "Event", "protocol": protocol}
        return Decode(format="Thrift", options=options), [
            serialize(each, factory[protocol]) for each in structs
        ]

    return make


def as_avro(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
    decode = Decode(format="Avro", options={"schema": json.dumps(AVRO_EVENT)})
    return decode, [encoded(AVRO_EVENT, row) for row in rows]


PROTO = """
syntax = "proto3";
message Meta { string host = 1; int64 ts = 2; }
message Event { int64 id = 1; string user = 2; int64 ts = 3; double amount = 4; string country = 5;
  string url = 6; optional string agent = 7; int32 status = 8; bool ok = 9; Meta meta = 10; }
"""


def as_protobuf(rows: list[dict[str, object]]) -> tuple[Decode, list[bytes]]:
    made = message("Event", PROTO)
    options: dict[str, Any] = {"descriptors": inline(PROTO), "message": "Event"}
    return Decode(format="Protobuf", options=options), [
        made(**row).SerializeToString() for row in rows
    ]


CONTENDERS: Mapping[str, Contender] = {
    "Json": as_json,
    "MessagePack": as_messagepack,
    "Csv": as_csv,
    "Delimited": as_delimited,
    "Regex": as_regex,
    "JsonSchema": as_json_schema,
    "Thrift": as_thrift("Binary"),
    "Protobuf": as_protobuf,
    "ThriftCompact": as_thrift("Compact"),
    "Avro": as_avro,
}


def main(names: list[str]) -> None:
    """Print one line for each decoder."""
    for name in names or CONTENDERS:
        decode, payloads = CONTENDERS[name](events())
        decoder = registry.decoder(decode, Wanted((("ts",),), SCHEMA))
        records = filled(TopicPartition("events", 0), range(ROWS), payloads)
        best = float("inf")
        for _ in range(TURNS):
            before = time.process_time()
            decoded = decoder.decode(records)
            best = min(best, time.process_time() - before)
            assert len(decoded.records) == ROWS, decoded.bad.errors[:1]
        size = sum(map(len, payloads)) // ROWS
        print(f"{name:14} {size:4} B  {ROWS / best / 1000:7.0f} k records per CPU-second")


if __name__ == "__main__":
    main(sys.argv[1:])
