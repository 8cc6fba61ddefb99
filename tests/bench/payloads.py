"""``make bench ARGS=--payloads``: payloads with a schema, beside the same payloads verbatim.

One event of ten fields (see ``decoders``), 250 bytes as JSON, in a topic for each kind of payload,
landed by warm Spark tasks (see ``sink``). Each round lands the topic as it is, to a SequenceFile,
and then as each row says, so that a busy machine slows down both.
"""

import argparse
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from landfall.driver.spark.session import SparkRunner, spark_context
from tests.bench import topics
from tests.bench.decoders import CONTENDERS, TYPES, event
from tests.bench.sink import Bench, Run
from tests.bench.topics import SPAN_MS, START_MS, Load, Messages

RECORDS, CHUNK = 2_000_000, 20_000
HOURLY = {"route": {"pattern": "dt={date}/hr={hour}"}}
FLOOR: Mapping[str, Any] = {"output": {"format": "SequenceFile"}}
COLUMNS = [
    {"name": path.replace(".", "_"), "type": kind, "field": path} for path, kind in TYPES.items()
]


@dataclass(frozen=True)
class Row:
    """One way to land the events.

    Attributes:
        payload: one of ``decoders.CONTENDERS``.
        output: of the spec.
        columns: whether the group declares the columns.
        bar: thousand records per CPU-second to reach on a quiet machine; below 2, the ratio to
            the verbatim SequenceFile.
    """

    payload: str
    output: Mapping[str, Any]
    columns: bool = False
    bar: float = 0.0


OWN = {"format": "Parquet", "columns": "FromSchema"}
PARQUET = {"format": "Parquet"}
ROWS: Mapping[str, Row] = {
    "Avro to Avro files": Row("Avro", {"format": "Avro", "options": {"envelope": False}}, bar=0.85),
    "Avro to Avro files, envelope": Row("Avro", {"format": "Avro"}, bar=0.85),
    "Avro to Parquet, its columns": Row("Avro", OWN, bar=300),
    "Avro to Parquet, declared": Row("Avro", PARQUET, columns=True, bar=300),
    "Protobuf to Parquet, its columns": Row("Protobuf", OWN, bar=300),
    "Protobuf to Parquet, declared": Row("Protobuf", PARQUET, columns=True, bar=300),
    "Thrift to Parquet, its columns": Row("Thrift", OWN, bar=250),
    "Thrift to Parquet, declared": Row("Thrift", PARQUET, columns=True, bar=250),
    "MessagePack to Parquet, declared": Row("MessagePack", PARQUET, columns=True, bar=200),
    "JSON to Parquet, declared": Row("Json", PARQUET, columns=True),
}


def messages(payload: str) -> Messages:
    """The events as payloads of a kind, the same in every run, over three hours."""

    def make(load: Load) -> Iterator[tuple[int, bytes]]:
        rng = random.Random(7)
        for first in range(0, load.records, CHUNK):
            events = [
                {**event(n, rng), "ts": START_MS + n * SPAN_MS // load.records}
                for n in range(first, first + CHUNK)
            ]
            times = [each["ts"] for each in events]
            yield from zip(times, CONTENDERS[payload](events)[1], strict=True)

    return make


def spec(row: Row) -> dict[str, Any]:
    """What the spec of a group says for a row."""
    decode = CONTENDERS[row.payload]([])[0]
    written = decode.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # Avro files take payloads as they are, and so does their floor: by Kafka's time.
    is_copied = row.output["format"] == "Avro"
    timestamp = {} if is_copied else {"timestamp": {"field": "ts", "unit": "Milliseconds"}}
    columns = {"columns": COLUMNS} if row.columns else {}
    return {"decode": {**written, **timestamp, **columns}, "output": row.output, **HOURLY}


def measure(bench: Bench, options: argparse.Namespace, console: Console) -> None:
    """Land every row and its floor as often as the options say, and print the medians."""
    rows = {name: row for name, row in ROWS.items() if name in (options.row or ROWS)}
    context = spark_context(bench.group(), "local[2]")
    runner = SparkRunner(context)
    runs: dict[str, list[tuple[Run, Run]]] = {name: [] for name in rows}
    for payload in dict.fromkeys(row.payload for row in rows.values()):
        load = Load(f"events-{payload.lower()}", RECORDS, 0)
        topics.ensure(bench.broker, load, messages(payload))
        same = {name: row for name, row in rows.items() if row.payload == payload}
        for _ in range(options.repeats):
            for name, row in same.items():
                floor = bench.run(runner, "verbatim", {**FLOOR, **HOURLY}, load)
                runs[name].append((bench.run(runner, name, spec(row), load), floor))
                console.print(f"  {name:34} {_speed(runs[name][-1][0]):6.0f}")
    context.stop()
    console.print(_table(runs))


def _speed(run: Run) -> float:
    """Thousand records per CPU-second."""
    return run.records / run.cpu_seconds / 1000


def _table(runs: Mapping[str, list[tuple[Run, Run]]]) -> Table:
    names = (
        "payload to format", "k rec/CPU-s (min-max)", "verbatim", "ratio (min-max)", "bar",
        "bytes in", "bytes out", "worker peak MB",
    )  # fmt: skip
    table = Table(*names, title="payloads with a schema: medians")
    for name, pairs in runs.items():
        speeds = sorted(_speed(run) for run, _ in pairs)
        floors = [_speed(floor) for _, floor in pairs]
        ratios = sorted(_speed(run) / _speed(floor) for run, floor in pairs)
        run = pairs[0][0]
        table.add_row(
            name,
            f"{median(speeds):.0f} ({speeds[0]:.0f}-{speeds[-1]:.0f})",
            f"{median(floors):.0f}",
            f"{median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})",
            f"{ROWS[name].bar:g}" if ROWS[name].bar else "",
            f"{run.input_mb * 1e6 / run.records:.0f}",
            f"{run.output_mb * 1e6 / run.records:.0f}",
            f"{max(each.worker_peak_mb for each, _ in pairs)}",
        )
    return table
