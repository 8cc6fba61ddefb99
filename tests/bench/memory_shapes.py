"""How far the memory of a task is above an idle worker, for shapes that cost more than their bytes.

Each shape is landed by a process of its own, with the settings of executors. The bound is
``tuning.taskMemory`` and ``ABOVE_TASK_MEMORY``, by which executors' pods are sized: ``main`` fails
if a shape needs more.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from landfall.api.spec import parse_group
from landfall.driver.spark.malloc import MALLOC
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.records import Records, of_columns
from landfall.source.progress import CHUNK_BYTES, CHUNK_ROWS
from landfall.task import Batch
from landfall.task.landing import land
from landfall_operator.objects.resources import ABOVE_TASK_MEMORY
from tests.bench.memory import BUDGET, Store, peak_mb
from tests.bench.shapes import noise

MIB = 2**20


@dataclass(frozen=True)
class Shape:
    """Records, and how they are landed.

    Attributes:
        rows: how many.
        columns: declared Int64 columns; none lands JSON.
        present: how many of them each record has.
        output_partitions: over which rows are spread.
        output: the format of objects.
        text_bytes: of a text column that each record has, too; 0 for none.
    """

    rows: int
    columns: int
    present: int
    output_partitions: int
    output: str = "Parquet"
    text_bytes: int = 0


SHAPES = {
    "wide, few folders": Shape(40_000, 200, 200, 24),
    "wide, many folders": Shape(40_000, 200, 200, 500),
    "wider, many folders": Shape(10_000, 500, 500, 500),
    "widest, many folders": Shape(6_000, 1_000, 1_000, 200),
    "sparse": Shape(60_000, 300, 20, 1),
    "sparse, wider": Shape(60_000, 1_000, 20, 24),
    "sparse, widest": Shape(30_000, 2_000, 20, 1),
    "rows of 50 MB": Shape(5, 1, 1, 1, text_bytes=50_000_000),
    "JSON, many folders": Shape(400_000, 0, 20, 500, output="Json"),
}


@dataclass
class Reader:
    """Generates the records of a shape, cut into chunks as Kafka's reader cuts them."""

    shape: Shape

    def read(self, piece: Slice) -> Iterator[Records]:
        values, size = [], 0
        payloads = self._payloads()
        for offset in range(piece.offsets.start, piece.offsets.end):
            values.append(next(payloads))
            size += len(values[-1])
            is_last = offset == piece.offsets.end - 1
            if is_last or size >= CHUNK_BYTES or len(values) == CHUNK_ROWS:
                offsets = np.arange(offset + 1 - len(values), offset + 1)
                column = pa.array(values, pa.binary())
                values, size = [], 0
                yield of_columns(
                    piece.topic_partition, offsets, column, timestamps=np.full(len(offsets), 1)
                )

    def _payloads(self) -> Iterator[bytes]:
        shape, random = self.shape, Random(7)
        text = b',"text":"%s"' % noise(shape.text_bytes) if shape.text_bytes else b""
        names = range(max(shape.columns, shape.present))
        while True:
            present = names if shape.present == len(names) else random.sample(names, shape.present)
            columns = ",".join(f'"c{n}":{random.randrange(10)}' for n in present).encode()
            folder = random.randrange(shape.output_partitions)
            yield b'{"who":%d,%s%s}' % (folder, columns, text)


def measure(shape: Shape) -> str:
    """Land a shape in this process, and return its peak above what the process had before."""
    columns: list[dict[str, str]] = [
        {"name": f"c{n}", "type": "Int64"} for n in range(shape.columns)
    ]
    if shape.text_bytes:
        columns.append({"name": "text", "type": "String"})
    spec = {
        "source": {"kafka": {"bootstrapServers": "nobody:1", "topicPattern": ".*"}},
        "decode": {"format": "Json", **({"columns": columns} if columns else {})},
        "route": {"pattern": "who={field:who}"},
        "output": {"url": "s3://nowhere", "format": shape.output},
        "tuning": {"taskMemory": BUDGET},
    }
    head = {"apiVersion": "landfall.dev/v1alpha1", "kind": "ConsumerGroup"}
    group = parse_group({**head, "metadata": {"name": "memory"}, "spec": spec})
    tp, store = TopicPartition("memory", 0), Store(least_part_bytes=5 * MIB)
    warm_up = [Slice(tp, OffsetRange(0, min(shape.rows, 100)))]
    land(Batch(group, "warm-up"), warm_up, Reader(shape), store)
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_mb()
    (result,) = land(
        Batch(group, "bench"), [Slice(tp, OffsetRange(0, shape.rows))], Reader(shape), store
    )
    assert isinstance(result, LandedSlice), result
    return f"{peak_mb() - before:.0f} {before:.0f} {len(result.objects)} {result.input_bytes}"


def lines() -> Iterator[tuple[bool, str]]:
    """A line for each shape, each measured in a process of its own, and whether it is in bounds."""
    bound = (BUDGET + ABOVE_TASK_MEMORY) / MIB
    tuned = {name: str(value) for name, value in MALLOC.items()}
    environment = {**os.environ, **tuned, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    for name, shape in SHAPES.items():
        command = [sys.executable, "-m", "tests.bench.memory_shapes", name]
        made = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        peak, idle, objects, read = map(int, made.stdout.split())
        what = f"{shape.columns} columns, {shape.output_partitions} output partitions"
        line = (
            f"memory, {name}: {what}, {read / 1e6:.0f} MB in: peak {peak} MiB above the {idle} MiB "
            f"of an idle worker, at most {bound:.0f}; {objects} objects"
        )
        yield peak <= bound, line


def main() -> None:
    if len(sys.argv) > 1:
        print(measure(SHAPES[sys.argv[1]]))
        return
    are_in_bounds = True
    for is_in_bounds, line in lines():
        are_in_bounds &= is_in_bounds
        print(line, flush=True)
    sys.exit(not are_in_bounds)


if __name__ == "__main__":
    main()
