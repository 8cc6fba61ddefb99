"""What a level of compression costs in CPU time and in bytes, and both in money.

    python -m tests.bench.levels

The messages are those of ``tests.bench.topics``. Each format encodes them in blocks as a task does,
with nothing else: CPU-seconds are of encoding and compressing, the median of five turns.
"""

import time
from collections.abc import Iterator
from itertools import islice
from statistics import median

import numpy as np
import pyarrow as pa

from landfall.formats import Block, Format, text
from landfall.formats.jsonlines import JsonFormat
from landfall.formats.sequencefile import SequenceFileFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Records, of_columns
from tests.bench.topics import Load, make_messages

TURNS = 5
MEGABYTES = 32
SIZES = (250, 1000)
CASES: tuple[tuple[str, Format, int], ...] = (
    *(("Json, Gzip", JsonFormat.of({"level": level}), level) for level in (1, 2, 3)),
    *(("Json, Zstd", JsonFormat.of({"codec": "Zstd", "level": level}), level) for level in (1, 3)),
    *(
        ("SequenceFile, Deflate", SequenceFileFormat.of({"level": level}), level)
        for level in (1, 2, 3)
    ),
)
CPU_HOUR = 0.048
"""USD for an hour of one vCPU: an m6i.large of two vCPUs, 0.096 on demand, us-east-1."""
GB_MONTH = 0.023
"""USD for a GB in S3 Standard for a month, the first 50 TB, us-east-1."""


def blocks(size: int) -> Iterator[Records]:
    """The messages, a block of a format at a time."""
    count = MEGABYTES * 1_000_000 // size
    values = [value for _, value in islice(make_messages(Load("", count, size)), count)]
    step = text.BLOCK_BYTES // size
    for at in range(0, count, step):
        some = values[at : at + step]
        yield of_columns(
            TopicPartition("levels", 0),
            np.arange(at, at + len(some), dtype=np.int64),
            pa.array(some, pa.binary()),
        )


def measure(form: Format, records: list[Records]) -> tuple[float, int]:
    """CPU-seconds and bytes of one object that holds all records."""
    begun, encoder = time.process_time(), form.encoder()
    size = sum(len(encoder.encode(Block(each))) for each in records) + len(encoder.finish())
    return time.process_time() - begun, size


def main() -> None:
    columns = "messages", "format", "level", "bytes in per byte out", "MB per CPU-s", "GB stored"
    print("|", " | ".join((*columns, "USD for the CPU", "USD for a month")), "|")
    print("|---" * (len(columns) + 2) + "|")
    for size in SIZES:
        records = list(blocks(size))
        payload = sum(sum(map(len, each.values.to_pylist())) for each in records)
        for name, form, level in CASES:
            turns = [measure(form, records) for _ in range(TURNS)]
            seconds, stored = median(cpu for cpu, _ in turns), turns[0][1]
            print(
                f"| {size} B | {name} | {level} | {payload / stored:.2f} | "
                f"{payload / seconds / 1e6:.0f} | {stored / payload * 1000:.0f} | "
                f"{1e6 / (payload / seconds / 1e6) / 3600 * CPU_HOUR:.3f} | "
                f"{stored / payload * 1000 * GB_MONTH:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
