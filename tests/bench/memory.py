"""How much memory a task needs that has a thousand output partitions open, beside its budget.

A process of its own lands 512 MB of text that hardly compresses, spread evenly over 1,000 output
partitions, with the default budget, into a store that throws parts away. The figure is the growth
of the process's resident memory.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from landfall.api.spec import parse_group
from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.objects import Part
from landfall.pipeline.records import Records, of_columns
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land

OUTPUT_PARTITIONS = 1000
ROWS = 1_000_000
ROW_BYTES = 512
CHUNK_ROWS = 10_000
BUDGET = 256 * 2**20


class Reader:
    """Generates records, one chunk at a time."""

    def read(self, piece: Slice) -> Iterator[Records]:
        noise = np.random.default_rng(7)
        for start in range(piece.offsets.start, piece.offsets.end, CHUNK_ROWS):
            text = noise.bytes(CHUNK_ROWS * ROW_BYTES // 2).hex().encode()
            offsets = np.arange(start, start + CHUNK_ROWS)
            values = [
                b'{"who":%d,"x":"%s"}'
                % (offset * 7919 % OUTPUT_PARTITIONS, text[at : at + ROW_BYTES])
                for at, offset in zip(range(0, len(text), ROW_BYTES), offsets.tolist(), strict=True)
            ]
            yield of_columns(piece.topic_partition, offsets, pa.array(values, pa.binary()))


class Store(MemoryStore):
    """Forgets the bytes it is given."""

    def put_part(self, key: str, upload_id: str, number: int, body: bytes) -> Part:
        return Part(f"{key}{upload_id}{number}", len(body))


def thousand_partitions() -> str:
    """The line that ``main`` prints, measured in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.memory"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    head = {
        "apiVersion": "landfall.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "memory"},
    }
    spec = {
        "source": {"kafka": {"bootstrapServers": "nobody:1", "topicPattern": ".*"}},
        "decode": {"format": "Json"},
        "route": {"pattern": "who={field:who}"},
        "output": {"url": "s3://nowhere", "format": "Json"},
        "tuning": {"taskMemory": BUDGET},
    }
    group = parse_group({**head, "spec": spec})
    tp, store = TopicPartition("memory", 0), Store(least_part_bytes=5 * 2**20)
    land(Batch(group, "warm-up"), [Slice(tp, OffsetRange(0, CHUNK_ROWS))], Reader(), store)
    Path("/proc/self/clear_refs").write_text("5")
    before = peak_mb()
    (result,) = land(Batch(group, "bench"), [Slice(tp, OffsetRange(0, ROWS))], Reader(), store)
    assert isinstance(result, LandedSlice), result
    grown = peak_mb() - before
    print(
        f"memory: {OUTPUT_PARTITIONS} output partitions, {result.input_bytes / 1e6:.0f} MB in: "
        f"peak {grown:.0f} MB above the {before:.0f} MB of an idle worker, "
        f"budget {BUDGET / 2**20:.0f} MB; {len(result.objects)} objects"
    )


if __name__ == "__main__":
    main()
