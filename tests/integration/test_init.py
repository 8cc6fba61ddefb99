"""Groups that ``landfall init`` writes land topics of many shapes, unedited.

Real Kafka, a real schema registry; what landed is read by gzip, json and pyarrow alone.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from landfall.api import group_file
from landfall.api.contract import ExitCode
from landfall.cli import main
from landfall.schemas import SchemaKind
from landfall.schemas.cached import registry_at
from tests.support.kafka.broker import Broker, Message
from tests.support.kafka.registry import Registry, framed
from tests.support.landing.group import land
from tests.support.payloads.avro import encoded
from tests.support.payloads.protobuf_payloads import message

NOW = datetime.now(UTC).replace(minute=10, second=0, microsecond=0)
FIRST = NOW - timedelta(days=3)
COUNT = 120
ENVELOPE = frozenset({"_topic", "_partition", "_offset", "_timestamp"})

Row = Any
Rows = Mapping[str, Sequence[Row]]
"""Rows by the folder below the topic."""


def at(n: int) -> datetime:
    """The time of the event with this number: one a minute, days before it is produced."""
    return FIRST + timedelta(minutes=n)


def seconds(n: int) -> int:
    return int(at(n).timestamp())


def millis(n: int) -> int:
    return 1000 * seconds(n)


def folder(time: datetime) -> str:
    return f"dt={time:%Y-%m-%d}/hr={time:%H}"


@dataclass
class Shape:
    """A topic.

    Attributes:
        messages: its records, in order.
        expected: each row that must land, with the time that its folder is of.
        later: what is produced after the group was written.
        schema: the schema and its kind in the registry, whose id begins each payload.
    """

    messages: Sequence[Message | bytes | None]
    expected: Sequence[tuple[datetime, Row]]
    later: Sequence[Message | bytes | None] = ()
    schema: tuple[Any, str] | None = None

    def rows(self) -> Rows:
        found: dict[str, list[Row]] = {}
        for time, row in self.expected:
            found.setdefault(folder(time), []).append(row)
        return found


def of_json(event: Callable[[int], Any], row: Callable[[int], Any] | None = None) -> Shape:
    numbers = range(COUNT)
    made = [json.dumps(event(n)).encode() for n in numbers]
    return Shape(made, [(at(n), (row or event)(n)) for n in numbers])


def json_seconds() -> Shape:
    """Nested epoch seconds, next to a larger number and an older time."""
    user = {"id": 1_234_567_890, "created_at": "2024-02-29T00:00:00Z"}
    return of_json(lambda n: {"user": user, "meta": {"ts": seconds(n)}, "n": n})


def json_millis() -> Shape:
    """Epoch milliseconds, next to a time that is to come."""
    return of_json(lambda n: {"expires_at": millis(n + 9999), "time": millis(n), "n": n})


def json_text() -> Shape:
    """Texts with an offset."""

    def event(n: int) -> Any:
        local = at(n).astimezone(timezone(timedelta(hours=1, minutes=30)))
        return {"id": n, "occurred": local.isoformat()}

    return of_json(event)


def json_access_log() -> Shape:
    """Times as web servers write them."""
    return of_json(lambda n: {"path": f"/{n}", "time_local": f"{at(n):%d/%b/%Y:%H:%M:%S} +0000"})


def json_without_time() -> Shape:
    """Numbers that could be times by their size, and null payloads."""
    events: list[Any] = [{"serial": 1_790_000_000 + 7_000_000 * n, "n": n} for n in range(COUNT)]
    messages = [Message(json.dumps(e).encode(), b"k", timestamp=millis(1)) for e in events]
    messages.insert(5, Message(None, b"k", timestamp=millis(1)))
    events.insert(5, None)
    return Shape(messages, [(at(1), event) for event in events])


def json_some_without_time() -> Shape:
    """A field of time that some records lack."""
    events = [{"n": n, **({"ts": millis(n)} if n % 10 else {})} for n in range(COUNT)]
    messages = [Message(json.dumps(e).encode(), timestamp=millis(0)) for e in events]
    return Shape(messages, [(at(e["n"] if "ts" in e else 0), e) for e in events])


def avro() -> Shape:
    millis_type = {"type": "long", "logicalType": "timestamp-millis"}
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "meta", "type": {"type": "record", "name": "M", "fields": [
                {"name": "at", "type": millis_type}]}},
            {"name": "note", "type": ["null", "string"]},
        ],
    }  # fmt: skip
    rows = [{"id": n, "meta": {"at": at(n)}, "note": None if n % 3 else "x"} for n in range(COUNT)]
    return Shape(
        [encoded(schema, row) for row in rows],
        [(at(n), row) for n, row in enumerate(rows)],
        schema=(schema, SchemaKind.AVRO),
    )


PROTO = """
syntax = "proto3";
package web;
import "google/protobuf/timestamp.proto";
message Click { int64 id = 1; string page = 2; google.protobuf.Timestamp at = 3; }
"""


def protobuf() -> Shape:
    payloads = []
    for n in range(COUNT):
        click = message("web.Click", PROTO)(id=n, page=f"/{n}")
        click.at.FromDatetime(at(n))
        payloads.append(b"\0" + click.SerializeToString())
    rows = [{"id": n, "page": f"/{n}", "at": at(n)} for n in range(COUNT)]
    return Shape(
        payloads,
        [(at(n), row) for n, row in enumerate(rows)],
        schema=(PROTO, SchemaKind.PROTOBUF),
    )


def json_schema() -> Shape:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    rows = [{"id": n, "when": seconds(n)} for n in range(COUNT)]
    return Shape(
        [json.dumps(row).encode() for row in rows],
        [(at(n), row) for n, row in enumerate(rows)],
        schema=(schema, SchemaKind.JSON),
    )


def changes(*, with_schema: bool) -> Shape:
    """Inserts, updates, deletions without their row, and the tombstones after them."""
    messages: list[Message] = []
    expected: list[tuple[datetime, Row]] = []

    def part(content: Any) -> bytes:
        schema = {"schema": {"type": "struct", "fields": []}, "payload": content}
        return json.dumps(schema if with_schema else content).encode()

    def put(value: Any, key: Any) -> None:
        messages.append(Message(part(value), part(key)))

    for n in range(COUNT):
        source = {"connector": "postgresql", "ts_ms": millis(n), "table": "orders", "lsn": n}
        row = {"id": n, "quantity": 2 * n}
        put({"before": None, "after": row, "source": source, "op": "c"}, {"id": n})
        expected.append((at(n), {**row, "_op": "c", "_deleted": False}))
        if n % 4 == 0:
            put({"before": None, "after": None, "source": source, "op": "d"}, {"id": n})
            messages.append(Message(None, messages[-1].key))
            expected.append((at(n), {"id": n, "_op": "d", "_deleted": True}))
    return Shape(messages, expected)


def debezium() -> Shape:
    return changes(with_schema=False)


def debezium_with_schema() -> Shape:
    return changes(with_schema=True)


def csv_line(n: int) -> str:
    return f'{n},"O""Hara, {n}",{at(n):%Y-%m-%dT%H:%M:%SZ},{n / 2}'


def csv_row(n: int, *names: str) -> Row:
    values = (str(n), f'O"Hara, {n}', f"{at(n):%Y-%m-%dT%H:%M:%SZ}", str(n / 2))
    return dict(zip(names, values, strict=True))


def csv_with_header() -> Shape:
    """A file with its header line, a line each record."""
    names = ("id", "name", "at", "amount")
    lines = [",".join(names), *map(csv_line, range(COUNT))]
    rows = [(at(n), csv_row(n, *names)) for n in range(COUNT)]
    return Shape([line.encode() for line in lines], rows)


def csv_without_header() -> Shape:
    rows = [(at(n), csv_row(n, "c1", "c2", "c3", "c4")) for n in range(COUNT)]
    return Shape([csv_line(n).encode() for n in range(COUNT)], rows)


def tabs() -> Shape:
    lines = [f"{n}\t\t{seconds(n)}" for n in range(COUNT)]
    rows = [{"c1": str(n), "c2": "", "c3": str(seconds(n))} for n in range(COUNT)]
    expected = [(at(n), row) for n, row in enumerate(rows)]
    return Shape([line.encode() for line in lines], expected)


def messagepack() -> Shape:
    rows = [{"id": n, "ts": millis(n)} for n in range(COUNT)]
    payloads = [msgspec.msgpack.encode(row) for row in rows]
    return Shape(payloads, [(at(n), row) for n, row in enumerate(rows)])


def text() -> Shape:
    """Prose of a service, with commas here and there."""
    lines = [f"worker {n % 7}: done, {n} left" + ", late" * (n % 3) for n in range(COUNT)]
    messages = [Message(line.encode(), timestamp=millis(n)) for n, line in enumerate(lines)]
    return Shape(messages, [(at(n), line) for n, line in enumerate(lines)])


def keys_only() -> Shape:
    messages = [Message(None, f"user-{n}".encode(), timestamp=millis(n)) for n in range(COUNT)]
    return Shape(messages, [(at(n), (f"user-{n}".encode(), None)) for n in range(COUNT)])


def empty() -> Shape:
    """What comes later may be anything."""
    rows = ((b"k", b'{"a": 1}'), (None, b"\xff\0"), (b"gone", None))
    later = [Message(payload, key, timestamp=millis(0)) for key, payload in rows]
    return Shape([], [(at(0), row) for row in rows], later=later)


SHAPES = (
    *(json_seconds, json_millis, json_text, json_access_log),
    *(json_without_time, json_some_without_time),
    *(avro, protobuf, json_schema, debezium, debezium_with_schema),
    *(csv_with_header, csv_without_header, tabs, messagepack, text, keys_only, empty),
)


def produce(kafka: Broker, registry: Registry, topic: str, shape: Shape) -> None:
    messages = shape.messages
    if shape.schema:
        schema_id = registry.register(f"{topic}-value", *shape.schema)
        messages = [framed(schema_id, payload) for payload in messages]  # type: ignore[arg-type]  # of schemas: bytes
    kafka.produce(topic, messages)


def landed(root: Path, topic: str) -> Rows:
    """The rows below a topic's folder, by the folder that they are in, in the order of offsets."""
    found: dict[str, list[Row]] = {}
    for path in sorted((root / topic).rglob("1_*")):
        found.setdefault(str(path.parent.relative_to(root / topic)), []).extend(rows_of(path))
    return found


def rows_of(path: Path) -> Iterator[Row]:
    match path.suffixes:
        case [".json", ".gz"]:
            yield from map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
        case [".txt", ".gz"]:
            yield from gzip.decompress(path.read_bytes()).decode().splitlines()
        case [".parquet"]:
            for row in pq.read_table(path, partitioning=None).to_pylist():
                if "headers" in row:
                    yield row["key"], row["value"]
                else:
                    yield {name: row[name] for name in row if name not in ENVELOPE}
        case other:
            pytest.fail(f"{path}: nothing here reads {other}")


def without_sources(rows: Rows) -> Rows:
    """Rows of changes without what their envelope adds that is not compared."""
    added = ("_source", "_source_ts")
    return {
        folder: [
            {k: v for k, v in row.items() if k not in added} if isinstance(row, dict) else row
            for row in rows_in
        ]
        for folder, rows_in in rows.items()
    }


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LANDFALL_KAFKA", raising=False)
    registry_at.cache_clear()


@pytest.mark.parametrize("make", SHAPES, ids=lambda make: make.__name__)
def test_the_written_group_lands_the_topic(
    make: Callable[[], Shape],
    kafka: Broker,
    registry: Registry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, shape = kafka.create_topic(), make()
    produce(kafka, registry, topic, shape)
    given = ["--topic", topic, "--bootstrap-servers", str(kafka), "--schema-registry", registry.url]

    assert main(["init", *given, "--url", f"file://{tmp_path}/landed"]) == ExitCode.OK
    said = capsys.readouterr().out
    assert main(["check", "group.yaml"]) == ExitCode.OK
    tried = main(["try", "group.yaml", "--limit", "1000"])
    kafka.produce(topic, shape.later)
    group = group_file.load(Path("group.yaml"), {})
    code = land(group, None).code

    assert (tried, code) == (ExitCode.OK if shape.messages else ExitCode.NOTHING, ExitCode.OK)
    assert without_sources(landed(tmp_path / "landed", topic)) == shape.rows()
    assert not list((tmp_path / "landed/_landfall").rglob("dead-letters/*"))
    assert ("0 dead letters" in said) == bool(shape.messages)
    assert " looked at" in Path("group.yaml").read_text()
