"""``python -m tests.bench.keyed_merge``: keyed tables and Spark's MERGE INTO, by the same changes.

Changes of rows with keys, chosen at random, come in batches. Landfall lands each as a Parquet
object with a COMMIT and publishes it to a keyed Iceberg table, in one process. Spark, in another,
reads a Parquet file of the same rows, keeps the newest change of each key and merges that into an
Iceberg table, as a query with ``foreachBatch`` does: once with merge-on-read and once with
copy-on-write. Printed are CPU seconds of each process with everything below it, how long a batch
took, and the size of all files that were made, landed objects apart. In the end each table must
have the same rows, as DuckDB reads them.
"""

import argparse
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dev.tools import engines
from landfall.api.spec import parse_group
from landfall.lane import Lane
from landfall.publish.building import publisher
from landfall.publish.following import Follower
from tests.bench import process_tree
from tests.bench.publishing import catalog
from tests.support.ledger.sample_ledger import LANE
from tests.support.publishers.engines import Engines
from tests.support.publishers.lake import CLICKS, Landed

PEER = Path(__file__).parent / "peers/merge_into.py"
DELETED = 0.05
"""How many of the changes delete their row."""
MODES = ("merge-on-read", "copy-on-write")


@dataclass(frozen=True)
class Stream:
    """Changes of so many keys, always the same ones, in batches."""

    keys: int
    changes: int
    batch: int

    def batches(self) -> Iterator[pa.Table]:
        """The changes of each batch, in the order of their offsets."""
        chosen = np.random.default_rng(7)
        for first in range(0, self.changes, self.batch):
            count = min(self.batch, self.changes - first)
            ids = chosen.integers(0, self.keys, count)
            yield pa.table(
                {
                    "_partition": np.zeros(count, np.int32),
                    "_offset": np.arange(first, first + count),
                    "id": ids,
                    "name": [f"customer-{number:012}-{first}" for number in ids],
                    "amount": chosen.integers(0, 10**6, count),
                    "removed": chosen.random(count) < DELETED,
                }
            )


def body_of(batch: pa.Table) -> bytes:
    """A batch as a file, as Landfall lands it."""
    body = io.BytesIO()
    pq.write_table(batch, body, compression="zstd")
    return body.getvalue()


def always(body: bytes) -> Callable[[Sequence[int]], bytes]:
    """Return a function that gives the same file for any offsets."""
    return lambda _: body


def land_and_publish(stream: Stream, root: Path) -> list[float]:
    """Land and publish each batch in this process; returns how long each took, in seconds."""
    landed, took = Landed(root), list[float]()
    context = landed.context("Iceberg", {"catalog": catalog(root), **KEYED})
    group = parse_group(context.group.model_dump(mode="json", by_alias=True, exclude_unset=True))
    built = publisher(group, group.spec.publish[0], landed.store, LANE)
    follower = Follower(Lane(landed.store, group.metadata.name, LANE))
    for batch in stream.batches():
        began = time.monotonic()
        landed.sample.body = always(body_of(batch))
        landed.land(CLICKS, rows=batch.num_rows).settle()
        built.publish(follower)
        took.append(time.monotonic() - began)
    return took


KEYED = {"mode": "Keyed", "key": ["id"], "deleted": "removed"}
"""The publisher's options."""


def megabytes_below(folder: Path) -> float:
    """The size of all files that were made in a folder."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".crc")
    return round(sum(file.stat().st_size for file in files) / 1e6, 1)


def metadata_of(root: Path) -> Path:
    """The newest metadata of the one table below a folder."""
    files = (root / "warehouse").rglob("*.metadata.json")
    return max(files, key=lambda file: file.stat().st_mtime_ns)


def measured(command: list[str], env: Mapping[str, str], root: Path) -> dict[str, Any]:
    """Run a contender, and return its line of the table."""
    used = process_tree.measure(command, env, root / "log", process_tree.new_counter())
    took = json.loads((root / "log").read_text().splitlines()[-1])
    tenth = max(1, len(took) // 10)
    return {
        "CPU seconds": round(used.cpu_seconds, 1),
        "peak MB": round(used.peak_mb),
        "seconds of a batch": round(median(took), 2),
        "seconds of the last tenth": round(median(took[-tenth:]), 2),
        "MB landed": megabytes_below(root / "landed"),
        "MB of the table": megabytes_below(root / "warehouse"),
    }


def compare(stream: Stream, folder: Path) -> None:
    """Run all, print a line for each, and check that they have the same rows."""
    arguments = [f"--{name}={value}" for name, value in vars(stream).items()]
    own = folder / "landfall"
    own.mkdir()
    command = [sys.executable, "-m", "tests.bench.keyed_merge", *arguments, "--only", str(own)]
    lines = {"Landfall": measured(command, os.environ, own)}
    roots = {"Landfall": own}
    print(json.dumps({"contender": "Landfall", **lines["Landfall"]}), flush=True)
    inputs = folder / "input"
    inputs.mkdir()
    for number, batch in enumerate(stream.batches()):
        (inputs / f"{number:06}.parquet").write_bytes(body_of(batch))
    home = engines.home()
    for mode in MODES:
        root = roots[mode] = folder / mode
        root.mkdir()
        python = str(home / "venv/bin/python")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PY"))}
        command = [python, str(PEER), str(home / "jars"), str(inputs), str(root), mode]
        line = lines[mode] = measured(command, {**env, "PYSPARK_PYTHON": python}, root)
        ratios = {
            f"times the {what}": round(line[name] / lines["Landfall"][name], 1)
            for what, name in (("CPU", "CPU seconds"), ("bytes", "MB of the table"))
        }
        print(json.dumps({"contender": f"Spark MERGE, {mode}", **line, **ratios}), flush=True)
    found = {name: rows_of(root) for name, root in roots.items()}
    print(json.dumps({"rows": found["Landfall"]}))
    if any(rows != found["Landfall"] for rows in found.values()):
        raise SystemExit(f"the tables differ: {found}")


def rows_of(root: Path) -> dict[str, Any]:
    """How many rows a table has, and sums over them, as DuckDB reads it."""
    worker = Engines.start()
    try:
        query = (
            "select count(*) AS row_count, sum(id)::BIGINT AS id_sum, "
            "sum(amount)::BIGINT AS amount_sum, sum(hash(name) % 1000003)::BIGINT AS text_hash "
            f"from iceberg_scan('{metadata_of(root)}')"
        )
        return worker.ask("duckdb", query)[0]
    finally:
        worker.stop()


def main() -> None:
    """Measure, and print a line of JSON for each contender."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.keyed_merge", description=__doc__)
    parser.add_argument("--keys", type=float, default=1e6, help="how many keys there are")
    parser.add_argument("--changes", type=float, default=5e6, help="how many changes come in")
    parser.add_argument("--batch", type=float, default=1e5, help="how many of them in each batch")
    parser.add_argument("--only", type=Path, help="land and publish below this folder, and say how")
    options = parser.parse_args()
    stream = Stream(int(options.keys), int(options.changes), int(options.batch))
    if options.only:
        print(json.dumps(land_and_publish(stream, options.only)))
        return
    with TemporaryDirectory() as folder:
        compare(stream, Path(folder))


if __name__ == "__main__":
    main()
