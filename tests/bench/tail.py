"""``make bench ARGS=--tail``: what reading the tail of a scan costs, compared with landing it.

One process, without Spark, lands a topic by a task's own code, uploads the parts and aborts them.
The same process then reads the same offsets as the tail of a scan, as Arrow batches. CPU-seconds
are user and system time of this process, without the broker and the S3 server.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import yaml

import landfall
from dev.servers.server import STATE
from landfall.api.spec import ConsumerGroup
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.store.urls import open_store
from landfall.task import Batch
from landfall.task.worker import land_bin
from tests.bench import topics
from tests.bench.environment import servers
from tests.bench.sink import Bench
from tests.bench.topics import PARTITIONS, Load
from tests.bench.whole_tables import markdown

LOAD = Load("tail-400000", 400_000, 250)
_JSON = {
    "decode": {"format": "Json", "timestamp": {"field": "ts"}},
    "route": {"pattern": "dt={date}/hr={hour}"},
}
CASES: Mapping[str, Mapping[str, Any]] = {
    "SequenceFile, verbatim": {"output": {"format": "SequenceFile"}},
    "JSON by hour, gzip": {**_JSON, "output": {"format": "Json", "codec": "Gzip"}},
    "Parquet by hour": {**_JSON, "output": {"format": "Parquet"}},
}


@dataclass(frozen=True, slots=True)
class TailRun:
    """The CPU-seconds of one landing of a topic, and of reading it as a tail."""

    case: str
    landing: float
    tail: float


def main(options: argparse.Namespace) -> None:
    """Run all cases and print a table, ready for the documentation."""
    load_before = os.getloadavg()[0]
    with servers(STATE / "bench") as ours:
        topics.ensure(ours.broker, LOAD)
        bench = Bench(ours.broker, ours.s3.create_bucket(), ours.pids)
        runs = [
            _run(bench, case, spec) for _ in range(options.repeats) for case, spec in CASES.items()
        ]
    print(f"{LOAD.records:,} messages of {LOAD.size} B, load average before {load_before:.1f}:\n")
    print(markdown(["", "landing", "tail", "ratio"], list(map(_line, CASES, [runs] * len(CASES)))))
    (STATE / "bench" / "tail.json").write_text(json.dumps([asdict(run) for run in runs]))


def _line(case: str, runs: list[TailRun]) -> list[str]:
    own = [run for run in runs if run.case == case]
    landing, tail = median(run.landing for run in own), median(run.tail for run in own)
    return [case, f"{landing:.2f} s", f"{tail:.2f} s", f"{tail / landing:.2f}"]


def _run(bench: Bench, case: str, spec: Mapping[str, Any]) -> TailRun:
    group = bench.group(**spec)
    return TailRun(
        case, _cpu_seconds(lambda: _land(bench, group)), _cpu_seconds(lambda: _read(group))
    )


def _cpu_seconds(work: Callable[[], int]) -> float:
    before = time.process_time()
    rows = work()
    spent = time.process_time() - before
    if rows != LOAD.records:
        raise SystemExit(f"{rows} rows instead of {LOAD.records}")
    return spent


def _land(bench: Bench, group: ConsumerGroup) -> int:
    rows, store = 0, open_store(group.spec.output)
    each = LOAD.records // PARTITIONS
    for partition in range(PARTITIONS):
        slice_ = Slice(TopicPartition(LOAD.topic, partition), OffsetRange(0, each))
        for result in land_bin(Batch(group, uuid4().hex), [slice_]):
            assert isinstance(result, LandedSlice), result
            rows += result.landed
            for landed in result.objects:
                store.abort(landed.upload.key, landed.upload.upload_id)
    return rows


def _read(group: ConsumerGroup) -> int:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "group.yaml"
        document = group.model_dump(mode="json", by_alias=True, exclude_unset=True)
        path.write_text(yaml.safe_dump(document))
        scan = landfall.open(path).scan(LOAD.topic, tail=True)
        return sum(batch.num_rows for batch in scan.to_batches())
