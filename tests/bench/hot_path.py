"""What a task costs per GB in one process: Landfall's, by each hot path, beside a floor.

``python -m tests.bench.hot_path`` lands a topic's Kafka partitions one after the other with what a
Spark worker runs (``landing.land``), in turns with the floor, and prints medians of CPU-seconds per
GB and ratios to the floor of the same turn. Neither a JVM nor COMMITs are in it. Broker and store
are never counted.

``peers/floor.py`` says what the floor does.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any
from uuid import uuid4

import pyarrow as pa

from dev.servers.server import STATE
from landfall.api.spec import ConsumerGroup
from landfall.ledger.offsets import OffsetRange, Slice
from landfall.ledger.offsets import TopicPartition as Tp
from landfall.ledger.task_results import LandedSlice
from landfall.native import HotPath
from landfall.source.properties import kafka_properties
from landfall.source.reader import KafkaReader
from landfall.store import Store
from landfall.store.urls import open_store
from landfall.task import Batch, landing
from landfall.task.worker import GARBAGE_THRESHOLD
from tests.bench import topics
from tests.bench.environment import servers
from tests.bench.peers import floor as peers_floor
from tests.bench.sink import Bench
from tests.bench.topics import PARTITIONS, Load
from tests.support.driver.hot_paths import NATIVE, PYTHON, running

BY_DATE = {"route": {"pattern": "dt={date}"}}
BY_FIELD = {"decode": {"format": "Json", "timestamp": {"field": "ts"}}, **BY_DATE}
BY_KAFKA = {"decode": {"format": "Raw"}, **BY_DATE}
KEYED = {"format": "SequenceFile", "options": {"keyMode": "MessagePack"}}
SPECS: Mapping[str, Mapping[str, Any]] = {
    "json": {**BY_FIELD, "output": {"format": "Json", "codec": "Gzip"}},
    "zstd": {**BY_FIELD, "output": {"format": "Json", "codec": "Zstd"}},
    "sequence": {**BY_KAFKA, "output": {"format": "SequenceFile"}},
    "sequence-keyed": {**BY_KAFKA, "output": KEYED},
}
LOADS = (Load("h250", 1_600_000, 250), Load("h1k", 480_000, 1000))


def floor(group: ConsumerGroup, store: Store, load: Load) -> None:
    """Land the topic as cheaply as Python can; uploads are aborted."""

    def put(name: str, body: bytes) -> None:
        upload = store.begin(f"floor/{name}", "floor")
        store.put_part(f"floor/{name}", upload, 1, body)
        store.abort(f"floor/{name}", upload)

    peers_floor.land({**kafka_properties(group), "auto.offset.reset": "error"}, load.topic, put)


def landfall(path: HotPath, group: ConsumerGroup, store: Store, load: Load) -> None:
    """Land the topic as a worker does; uploads are aborted."""
    with running(path):
        reader = KafkaReader(kafka_properties(group), timedelta(seconds=60))
        each = load.records // PARTITIONS
        for partition in range(PARTITIONS):
            slice_ = Slice(Tp(load.topic, partition), OffsetRange(0, each))
            (result,) = landing.land(Batch(group, uuid4().hex), [slice_], reader, store)
            assert isinstance(result, LandedSlice), result
            assert result.landed == each
            for landed in result.objects:
                store.abort(landed.upload.key, landed.upload.upload_id)
        reader.close()


CONTENDERS: dict[str, Callable[[ConsumerGroup, Store, Load], None]] = {
    "floor": floor,
    "pure Python": partial(landfall, PYTHON),
    "native": partial(landfall, NATIVE),
}


def measure(bench: Bench, spec: str, turns: int) -> dict[str, dict[str, list[float]]]:
    """CPU-seconds per GB of each contender, by topic."""
    group = bench.group(**SPECS[spec])
    store = open_store(group.spec.output)
    found: dict[str, dict[str, list[float]]] = {}
    for load in LOADS:
        topics.ensure(bench.broker, load)
        of_load = found[load.topic] = {name: [] for name in CONTENDERS}
        for turn in range(turns + 1):
            for name, run in CONTENDERS.items():
                begun = time.process_time()
                run(group, store, load)
                spent = (time.process_time() - begun) / (load.records * load.size / 1e9)
                if turn:  # the first warms up
                    of_load[name].append(spent)
    return found


def show(found: Mapping[str, Mapping[str, list[float]]]) -> None:
    """Print Markdown."""
    print("| topic | contender | CPU-s per GB (min-max) | of the floor's speed |")
    print("|---|---|---|---|")
    for topic, of_load in found.items():
        for name, spent in of_load.items():
            ratio = median(f / s for f, s in zip(of_load["floor"], spent, strict=True))
            bounds = f"{min(spent):.2f}-{max(spent):.2f}"
            print(f"| {topic} | {name} | {median(spent):.2f} ({bounds}) | {ratio:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hot_path", description=__doc__)
    parser.add_argument("--turns", type=int, default=3, help="the median of so many counts")
    parser.add_argument("--spec", choices=SPECS, default="json", help="what is landed")
    options = parser.parse_args()
    gc.set_threshold(GARBAGE_THRESHOLD)  # as a worker does
    pa.set_memory_pool(pa.system_memory_pool())
    with servers(STATE / "bench") as ours:
        found = measure(
            Bench(ours.broker, ours.s3.create_bucket(), ours.pids), options.spec, options.turns
        )
    show(found)
    (STATE / "bench" / "hot_path.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
