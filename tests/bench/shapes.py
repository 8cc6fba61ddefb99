"""``make bench ARGS=--shapes``: what other shapes of data cost than a plain one.

Each shape is landed by ``land``, as a task does it, in a process of its own with the allocator
settings of an executor; the store forgets the parts. The figures are CPU seconds per input byte, or
per cell of a row, as a ratio to the shape it is compared with, in the same run, and how far memory
rises above that of the idle worker. What it costs to generate the records is subtracted.
``--shapes sql,folders`` chooses shapes whose names begin so; what they are compared with is
measured, too. Each is measured ``--repeats`` times, in turns, and the least CPU time and the
highest peak count. A shape beyond its bar, or that needs more memory than a pod leaves a task,
makes the bench fail.
"""

import argparse
import gc
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from dev.servers.server import STATE
from landfall.api.spec import parse_group
from landfall.driver.spark.malloc import MALLOC
from landfall.formats import Block
from landfall.formats.parquet import ParquetEncoder, ParquetFormat
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.records import HEADERS, Records, of_columns
from landfall.source.progress import CHUNK_BYTES, CHUNK_ROWS
from landfall.task import Batch
from landfall.task.landing import land
from landfall.task.worker import GARBAGE_THRESHOLD
from landfall_operator.objects.resources import ABOVE_TASK_MEMORY
from tests.bench import decoders
from tests.bench.memory import Store, peak_mb
from tests.bench.whole_tables import markdown
from tests.support.payloads.avro import encoded

Payloads: TypeAlias = Callable[[int], bytes]
"""Makes the payload of an offset."""

ALL = "all"
TASK_MEMORY = 256 * 2**20
MOST_MIB = (TASK_MEMORY + ABOVE_TASK_MEMORY) / 2**20
"""How far memory may rise: a pod is sized by it."""
TP = TopicPartition("shapes", 0)


@dataclass(frozen=True)
class Shape:
    """A topic of one shape, and the group that lands it.

    Attributes:
        rows: how many records.
        payload: makes them.
        spec: the group's sections.
        to: the shape that it is compared with; None for itself.
        cells: of a row, if costs are compared by cell and not by byte.
        key_bytes: of each record's key.
        header_bytes: of each record's header.
        writer_alone: whether only the files are written, of columns that are there: what Arrow's
            writer costs, whatever is before it.
        bar: how many times the cost of the shape it is compared with it may cost; 0 for any.
    """

    rows: int
    payload: Payloads
    spec: Mapping[str, Any]
    to: str | None = None
    cells: int = 0
    key_bytes: int = 0
    header_bytes: int = 0
    writer_alone: bool = False
    bar: float = 0.0


@dataclass(frozen=True)
class Measured:
    """What landing a shape cost: CPU seconds, input bytes, MiB above idle, objects, bad records."""

    cpu_seconds: float
    input_bytes: int
    peak_mib: float
    objects: int
    bad: int

    def least(self, other: "Measured") -> "Measured":
        """The least CPU time and the highest peak of both."""
        return replace(
            self,
            cpu_seconds=min(self.cpu_seconds, other.cpu_seconds),
            peak_mib=max(self.peak_mib, other.peak_mib),
        )


# ----------------------------------------------------------------------------------------- payloads


def plain(offset: int) -> bytes:
    """A row of ten columns, 200 bytes of JSON."""
    return json_row(10, offset, "x" * 100)


def json_row(columns: int, offset: int, pad: str = "") -> bytes:
    cells = ",".join(f'"c{i}":{(offset * 7 + i) % 100_000}' for i in range(columns - 1))
    return f'{{"who":{offset * 7919 % 500},{cells},"pad":"{pad}"}}'.encode()


@cache
def noise(size: int) -> bytes:
    """Text that compresses to half."""
    return random.Random(7).randbytes(size // 2).hex().encode()


def row_of_50_mb(offset: int) -> bytes:
    return b'{"who":%d,"c0":1,"pad":"%s"}' % (offset, noise(50_000_000))


def integers(columns: int) -> dict[str, Any]:
    """Decode JSON as so many integers, one of them ``who``."""
    names = ["who", *(f"c{i}" for i in range(columns - 1))]
    return {"format": "Json", "columns": [{"name": name, "type": "Int64"} for name in names]}


def with_text(decode: dict[str, Any], name: str) -> dict[str, Any]:
    return {**decode, "columns": [*decode["columns"], {"name": name, "type": "String"}]}


def csv_row(bad_of: int = 0) -> Payloads:
    """Twenty integers; one row of so many is bad in every column."""

    def payload(offset: int) -> bytes:
        if bad_of and offset % bad_of == bad_of // 2:
            return b",".join([b"n/a"] * 20)
        return b",".join(b"%d" % (1_763_700_000_000 + offset * 31 + i) for i in range(20))

    return payload


def dated_row(bad_of: int = 0) -> Payloads:
    """Twenty dates in JSON; one row of so many is bad in every column."""

    def payload(offset: int) -> bytes:
        bad = bad_of and offset % bad_of == bad_of // 2
        text = "0000-00-00" if bad else f"2026-02-{offset % 28 + 1:02}"
        return json.dumps({f"c{i}": text for i in range(20)}).encode()

    return payload


def priced_row(bad_of: int = 0, *, distinct: bool = False) -> Payloads:
    """A plain row with a price; one of so many rows has none."""

    def payload(offset: int) -> bytes:
        bad = bad_of and offset % bad_of == bad_of // 2
        price = (f"n/a {offset}" if distinct else "n/a") if bad else f"{offset % 997}.25"
        return b'{"price":"%s",%s' % (price.encode(), plain(offset)[1:])

    return payload


CSV = {
    "format": "Csv",
    "options": {"columns": [f"c{i}" for i in range(20)]},
    "columns": [{"name": f"c{i}", "type": "Int64"} for i in range(20)],
}
DATES = {"format": "Json", "columns": [{"name": f"c{i}", "type": "Date"} for i in range(20)]}


def priced(expression: str = "price::DOUBLE") -> dict[str, Any]:
    """The group's sections of ``priced_row``, with this expression in place of the price."""
    columns = [*integers(10)["columns"], {"name": "price", "type": "String"}]
    query = f"SELECT * REPLACE ({expression} AS price) FROM records"
    return {
        **TABLE,
        "decode": {"format": "Json", "columns": columns},
        "transforms": [{"use": "Sql", "options": {"query": query}}],
    }


NUMBERS: dict[str, Any] = {
    "type": "record",
    "name": "Numbers",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "values", "type": {"type": "array", "items": "long"}},
    ],
}
ARRAYS = {
    "format": "Avro",
    "options": {"schema": json.dumps(NUMBERS)},
    "columns": [{"name": "id", "type": "Int64"}],
}
TABLE: Mapping[str, Any] = {"route": {"pattern": "all"}, "output": {"format": "Parquet"}}


def numbers(offset: int) -> bytes:
    """An array of 500 numbers in Avro."""
    values = [(offset * 31 + i * 7919) % 1_000_000 for i in range(500)]
    return encoded(NUMBERS, {"id": offset, "values": values})


def events(name: str, change: Callable[[str], str] = str) -> tuple[dict[str, Any], Payloads]:
    """What ``spec.decode`` says, and the payloads, of the events of ``tests.bench.decoders``."""
    made = decoders.CONTENDERS[name]([decoders.event(i, random.Random(i)) for i in range(1_000)])
    decode, payloads = made
    changed = [change(p.decode()).encode() if change is not str else p for p in payloads]
    columns = [
        {"name": path.replace(".", "_"), "type": kind, "field": path}
        for path, kind in decoders.TYPES.items()
    ]
    declared = {"format": decode.format, "options": dict(decode.options), "columns": columns}
    return declared, lambda offset: changed[offset % len(changed)]


def in_quotes(line: str) -> str:
    return ",".join(f'"{value}"' for value in line.split(","))


# ------------------------------------------------------------------------------------------- shapes


def shape(rows: int, payload: Payloads, decode: Mapping[str, Any], to: str, **more: Any) -> Shape:
    """A shape that is landed as one table."""
    return Shape(rows, payload, {**TABLE, "decode": decode}, to, **more)


def of_events(
    name: str, to: str | None = None, change: Callable[[str], str] = str, **options: Any
) -> Shape:
    decode, payload = events(name, change)
    decode["options"] |= options
    return Shape(100_000, payload, {**TABLE, "decode": decode}, to, bar=3)


def folders(columns: int, count: int, to: str | None = None) -> Shape:
    def payload(offset: int) -> bytes:
        return b'{"folder":%d,%s' % (offset * 7919 % count, json_row(columns, offset)[1:])

    rows = 2_000_000 // columns
    route = {"pattern": "f={field:folder}"}
    return Shape(rows, payload, {**TABLE, "decode": integers(columns), "route": route}, to, bar=2)


def snappy(of: Shape) -> Shape:
    return replace(of, spec={**of.spec, "output": {"format": "Parquet", "codec": "Snappy"}})


def wide(columns: int, to: str | None) -> Shape:
    return Shape(
        2_000_000 // columns,
        lambda offset: json_row(columns, offset),
        {**TABLE, "decode": integers(columns)},
        to,
        cells=columns,
        bar=1.5,
    )


def large(key_bytes: int = 0, header_bytes: int = 0) -> Shape:
    """Small payloads with a large key or header, verbatim."""
    to = "payloads of 10 kB"
    return Shape(20_000, plain, TABLE, to, key_bytes=key_bytes, header_bytes=header_bytes, bar=1.5)


def shapes() -> dict[str, Callable[[], Shape]]:
    """All shapes by name; a shape is made in the process that lands it."""
    return {
        "plain": lambda: Shape(200_000, plain, {**TABLE, "decode": integers(10)}),
        "bad rows, Csv: none": lambda: shape(100_000, csv_row(), CSV, ""),
        "bad rows, Csv: one in 10,000": lambda: shape(
            100_000, csv_row(10_000), CSV, "bad rows, Csv: none", bar=1.3
        ),
        "bad rows, Csv: 1 %": lambda: shape(
            100_000, csv_row(100), CSV, "bad rows, Csv: none", bar=3
        ),
        "bad rows, dates: none": lambda: shape(60_000, dated_row(), DATES, ""),
        "bad rows, dates: one in 10,000": lambda: shape(
            60_000, dated_row(10_000), DATES, "bad rows, dates: none", bar=1.3
        ),
        "bad rows, dates: 1 %": lambda: shape(
            60_000, dated_row(100), DATES, "bad rows, dates: none", bar=3
        ),
        "sql: no row fails": lambda: Shape(100_000, priced_row(), priced()),
        "sql: one in 10,000": lambda: Shape(
            100_000, priced_row(10_000), priced(), "sql: no row fails", bar=1.3
        ),
        "sql: 1 %": lambda: Shape(100_000, priced_row(100), priced(), "sql: no row fails", bar=3),
        "sql: 1 %, each another value": lambda: Shape(
            100_000,
            priced_row(100, distinct=True),
            priced(),
            "sql: no row fails",
            bar=3,
        ),
        "sql: 1 %, each another value, rounded": lambda: Shape(
            100_000,
            priced_row(100, distinct=True),
            priced("round(price::DOUBLE, 2)"),
            "sql: no row fails",
            bar=3,
        ),
        "sql: 10 %": lambda: Shape(100_000, priced_row(10), priced(), "sql: no row fails"),
        "columns: 20": lambda: wide(20, None),
        **{f"columns: {n:,}": partial(wide, n, "columns: 20") for n in (200, 1_000, 2_000)},
        "folders: 24, 20 columns": lambda: folders(20, 24),
        "folders: 500, 20 columns": lambda: folders(20, 500, "folders: 24, 20 columns"),
        "folders: 500, 20 columns, Parquet's writer": lambda: replace(
            folders(20, 500, "folders: 500, 20 columns"), writer_alone=True, bar=0
        ),
        "folders: 24, 20 columns, Snappy": lambda: snappy(folders(20, 24)),
        "folders: 500, 20 columns, Snappy": lambda: snappy(
            folders(20, 500, "folders: 24, 20 columns, Snappy")
        ),
        "folders: 24, 200 columns": lambda: folders(200, 24),
        "folders: 500, 200 columns": lambda: folders(200, 500, "folders: 24, 200 columns"),
        "folders: 500, 200 columns, Parquet's writer": lambda: replace(
            folders(200, 500, "folders: 500, 200 columns"), writer_alone=True, bar=0
        ),
        "payloads of 10 kB": lambda: Shape(20_000, lambda o: plain(o) + b" " * 10_000, TABLE),
        "keys of 10 kB": lambda: large(key_bytes=10_000),
        "headers of 10 kB": lambda: large(header_bytes=10_000),
        "avro: records": lambda: of_events("Avro"),
        "avro: arrays of numbers": lambda: shape(10_000, numbers, ARRAYS, "avro: records", bar=3),
        "csv": lambda: of_events("Csv"),
        "csv with quotes": lambda: of_events("Csv", "csv", in_quotes),
        "csv with trim": lambda: of_events("Csv", "csv", trim=True),
        "csv with escape": lambda: of_events("Csv", "csv", escape="\\"),
        "delimited": lambda: of_events("Delimited", "csv"),
        "thrift": lambda: of_events("Thrift"),
        "thrift, compact": lambda: of_events("ThriftCompact", "thrift"),
        "rows of 50 MB": lambda: Shape(
            5, row_of_50_mb, {**TABLE, "decode": with_text(integers(2), "pad")}, "plain"
        ),
        "rows of 50 MB, Orc": lambda: Shape(
            5,
            row_of_50_mb,
            {**TABLE, "decode": with_text(integers(2), "pad"), "output": {"format": "Orc"}},
            "plain",
        ),
    }


# ---------------------------------------------------------------------------------------- measuring


@dataclass
class Reader:
    """Generates the records of a shape, in chunks as a reader of Kafka makes them.

    Attributes:
        shape: the shape.
        read_bytes: the payloads, keys and headers of all records.
        seconds: of CPU, spent on generating them.
    """

    shape: Shape
    read_bytes: int = 0
    seconds: float = 0.0

    def read(self, piece: Slice) -> Iterator[Records]:
        start, end = piece.offsets.start, piece.offsets.end
        more = self.shape.key_bytes + self.shape.header_bytes
        while start < end:
            begun = time.thread_time()
            payloads, size = list[bytes](), 0
            while start + len(payloads) < end and len(payloads) < CHUNK_ROWS and size < CHUNK_BYTES:
                payloads.append(self.shape.payload(start + len(payloads)))
                size += len(payloads[-1]) + more
            records = self._records(start, payloads)
            self.read_bytes += size
            start += len(payloads)
            del payloads
            self.seconds += time.thread_time() - begun
            yield records

    def _records(self, start: int, payloads: Sequence[bytes]) -> Records:
        rows = len(payloads)
        more = self.shape.key_bytes + self.shape.header_bytes
        blob = random.Random(start).randbytes(more)
        pair = [("trace", blob[self.shape.key_bytes :])] if self.shape.header_bytes else []
        return of_columns(
            TP,
            np.arange(start, start + rows),
            pa.array(payloads, pa.binary()),
            timestamps=np.full(rows, 1_763_700_000_000),
            keys=pa.array([blob[: self.shape.key_bytes] or None] * rows, pa.binary()),
            headers=pa.array([pair] * rows, HEADERS),
        )


def landed(of: Shape) -> Measured:
    """Land a shape in this process."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    if of.writer_alone:
        return written_alone(of)
    output = {"url": "s3://nowhere", **of.spec["output"]}
    head = {"apiVersion": "landfall.dev/v1alpha1", "kind": "ConsumerGroup"}
    source = {"kafka": {"bootstrapServers": "nobody:1", "topicPattern": ".*"}}
    spec = {**of.spec, "source": source, "output": output, "tuning": {"taskMemory": TASK_MEMORY}}
    group = parse_group({**head, "metadata": {"name": "shapes"}, "spec": spec})
    piece = Slice(TP, OffsetRange(0, of.rows))
    few = Slice(TP, OffsetRange(0, min(of.rows, 2)))
    land(Batch(group, "warm-up"), [few], Reader(of), Store(least_part_bytes=5 * 2**20))
    Path("/proc/self/clear_refs").write_text("5")
    idle = peak_mb()
    # What a process does once, such as for the first dead letter, is no cost of a shape.
    chunk = Slice(TP, OffsetRange(0, min(of.rows, 2 if of.rows < CHUNK_ROWS else CHUNK_ROWS)))
    land(Batch(group, "warm-up"), [chunk], Reader(of), Store(least_part_bytes=5 * 2**20))
    Path("/proc/self/clear_refs").write_text("5")
    begun, reader = time.process_time(), Reader(of)
    (result,) = land(Batch(group, "bench"), [piece], reader, Store(least_part_bytes=5 * 2**20))
    spent = time.process_time() - begun - reader.seconds
    assert isinstance(result, LandedSlice), result
    assert result.landed + result.dead_lettered == of.rows, result
    return Measured(
        spent, reader.read_bytes, peak_mb() - idle, len(result.objects), result.dead_lettered
    )


def written_alone(of: Shape) -> Measured:
    """Write the files of a shape of ``folders`` in this process, from columns that are there."""
    names = [column["name"] for column in of.spec["decode"]["columns"]]
    schema = pa.schema([(name, pa.int64()) for name in names])
    by_folder: dict[int, list[tuple[int, dict[str, Any]]]] = {}
    payloads = map(of.payload, range(of.rows))
    read = 0
    for offset, payload in enumerate(payloads):
        document = json.loads(payload)
        by_folder.setdefault(document["folder"], []).append((offset, document))
        read += len(payload)
    typed = ParquetFormat.of({}).typed()
    tables = []
    for rows in by_folder.values():
        offsets, documents = np.array([offset for offset, _ in rows]), [row for _, row in rows]
        stamps = np.full(len(rows), 1_763_700_000_000)
        records = of_columns(TP, offsets, pa.nulls(len(rows), pa.binary()), timestamps=stamps)
        tables.append(typed.table(Block(records, pa.RecordBatch.from_pylist(documents, schema))))
    ParquetEncoder(typed).write(tables[0], None)
    Path("/proc/self/clear_refs").write_text("5")
    idle, begun = peak_mb(), time.process_time()
    for table in tables:
        encoder = ParquetEncoder(typed)
        encoder.write(table, None)
        encoder.finish()
    return Measured(time.process_time() - begun, read, peak_mb() - idle, len(tables), 0)


def main(options: argparse.Namespace) -> None:
    """Measure the shapes that are asked for, each in a process of its own, and print a table."""
    known = shapes()
    prefixes = tuple(name.strip() for name in options.shapes.split(","))
    chosen = [name for name in known if options.shapes == ALL or name.startswith(prefixes)]
    to = {name: known[name]().to or name for name in chosen}
    wanted = [name for name in known if name in {*chosen, *to.values()}]
    malloc = {name: str(value) for name, value in MALLOC.items()}
    env = {**os.environ, **malloc, "ARROW_DEFAULT_MEMORY_POOL": "system"}  # as in executors
    found: dict[str, Measured] = {}
    load = os.getloadavg()[0]
    for turn in range(options.repeats):
        for name in wanted:
            command = [sys.executable, "-m", "tests.bench.shapes", name]
            run = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
            now = Measured(**json.loads(run.stdout))
            found[name] = now if turn == 0 else found[name].least(now)
            print(f"{name}: {now}", file=sys.stderr, flush=True)
    print(f"Load average before {load:.1f}, taskMemory {TASK_MEMORY // 2**20} MiB:\n")
    rows = [Line(name, known[name](), found[name], to[name], found[to[name]]) for name in chosen]
    print(table(rows))
    path = STATE / "bench" / "shapes.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({name: asdict(run) for name, run in found.items()}, indent=1))
    beyond = [row.name for row in rows if row.is_beyond]
    if beyond:
        sys.exit(f"beyond their bars: {'; '.join(beyond)}")


@dataclass(frozen=True)
class Line:
    """A shape in the table, and what it is compared with."""

    name: str
    shape: Shape
    run: Measured
    to: str
    other: Measured

    @property
    def ratio(self) -> float:
        """What it costs for each byte, or for each cell, as a multiple of the other shape."""
        plain, cells = shapes()[self.to](), self.shape.cells
        units = self.shape.rows * cells if cells else self.run.input_bytes
        per = plain.rows * plain.cells if cells else self.other.input_bytes
        return (self.run.cpu_seconds / units) / (self.other.cpu_seconds / per)

    @property
    def is_beyond(self) -> bool:
        """Whether it costs more than its bar, or needs more memory than a pod leaves a task."""
        is_dear = bool(self.shape.bar) and self.ratio > self.shape.bar
        return is_dear or self.run.peak_mib > MOST_MIB

    @property
    def texts(self) -> list[str]:
        """The cells of the row."""
        of, run = self.shape, self.run
        cells = f"{run.cpu_seconds / of.rows / of.cells * 1e9:.0f}" if of.cells else ""
        compared = "" if self.to == self.name else f"{self.ratio:.2f} times {self.to}"
        bar = f"{of.bar:g}" if of.bar else ""
        cost = f"{run.cpu_seconds / run.input_bytes * 1e9:.1f}"
        return [self.name, cost, cells, compared, bar, f"{run.peak_mib:.0f}", f"{run.bad:,}"]


def table(lines: Sequence[Line]) -> str:
    """A row for each shape."""
    peak = f"peak MiB above idle (at most {MOST_MIB:.0f})"
    heads = ("shape", "CPU-s per GB", "ns per cell", "ratio", "bar", peak, "bad records")
    return markdown(heads, [line.texts for line in lines])


if __name__ == "__main__":
    print(json.dumps(asdict(landed(shapes()[sys.argv[1]]()))))
