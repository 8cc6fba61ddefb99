"""What each format costs: CPU of this process from columns to bytes, and what an open object holds.

    .venv/bin/python tests/bench/bench_formats.py [--megabytes 50]

Payloads are JSON of 250 B and 1 kB whose text is random slices of 24 MB of words, so that repeats
are rarer than any compressor's window: honest for all of them. CPU is the median of three; the
floor is the compressor alone on the same bytes.
"""

import argparse
import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import psutil
import pyarrow as pa
from isal import isal_zlib

from landfall.formats import Block, Encoder, Format
from landfall.formats.jsonlines import JsonFormat
from landfall.formats.parquet import ParquetFormat
from landfall.formats.sequencefile import SequenceFileFormat
from landfall.formats.text import TextFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import HEADERS, Records, of_columns

CLICKS = TopicPartition("clicks", 3)
START = 1763683200000
FORMATS: Mapping[str, Format] = {
    "Json None": JsonFormat.of({"codec": "None"}),
    "Json Gzip": JsonFormat.of({}),
    "Json Zstd": JsonFormat.of({"codec": "Zstd"}),
    "Text Gzip": TextFormat.of({}),
    "SequenceFile Legacy Deflate": SequenceFileFormat.of({}),
    "SequenceFile Legacy Gzip": SequenceFileFormat.of({"codec": "Gzip"}),
    "SequenceFile MessagePack Deflate": SequenceFileFormat.of({"keyMode": "MessagePack"}),
    "SequenceFile Legacy Record Deflate": SequenceFileFormat.of({"compression": "Record"}),
    "SequenceFile Legacy None": SequenceFileFormat.of({"compression": "None"}),
    "Parquet Zstd": ParquetFormat.of({}),
    "Parquet Snappy": ParquetFormat.of({"codec": "Snappy"}),
}


def payloads(size: int, megabytes: int) -> list[bytes]:
    """JSON messages of ``size`` bytes, always the same."""
    dice = random.Random(7)
    words = [f"w{dice.getrandbits(28):x}" for _ in range(3000)]
    text = " ".join(dice.choice(words) for _ in range(3_000_000))
    made = []
    for number in range(megabytes * 10**6 // size):
        event, page = dice.choice(("click", "view", "purchase")), dice.choice(words)
        head = f'{{"ts":{START + number},"id":"{dice.getrandbits(64):016x}",'
        head += f'"event":"{event}","page":"/{page}","msg":"'
        start = dice.randrange(len(text) - size)
        made.append(f'{head}{text[start : start + size - len(head) - 2]}"}}'.encode())
    return made


def blocks(values: list[bytes], block_bytes: int) -> list[Block]:
    """The payloads as records with keys and timestamps, without headers, in blocks of this size."""
    rows = max(1, block_bytes // len(values[0]))
    return [
        Block(records(start, values[start : start + rows])) for start in range(0, len(values), rows)
    ]


def records(start: int, values: list[bytes]) -> Records:
    offsets = np.arange(start, start + len(values))
    keys = pa.array([b"%08d" % (offset % 1_000_000) for offset in offsets.tolist()], pa.binary())
    headers = pa.array([[]] * len(values), HEADERS)
    payload = pa.array(values, pa.binary())
    return of_columns(
        CLICKS, offsets, payload, timestamps=START + offsets, keys=keys, headers=headers
    )


def encoded(of: Format, of_object: list[Block]) -> int:
    """Size of the object in bytes."""
    encoder, size = of.encoder(), 0
    for block in of_object:
        assert not of.refuse(block.records)
        size += len(encoder.encode(block))
    return size + len(encoder.finish())


def cpu_seconds(task: Callable[[], int]) -> tuple[float, int]:
    """Median of three, after a warm-up, and what the task returns."""
    size, taken = task(), []
    for _ in range(3):
        start = time.process_time()
        task()
        taken.append(time.process_time() - start)
    return statistics.median(taken), size


def floor(values: list[bytes]) -> int:
    """ISA-L at level 2 on the same bytes and nothing else."""
    compressor, size = isal_zlib.compressobj(2, isal_zlib.DEFLATED, 31), 0
    joined = b"\n".join(values)
    for start in range(0, len(joined), 2**20):
        size += len(compressor.compress(joined[start : start + 2**20]))
    return size + len(compressor.flush())


def held(of: Format, rows: int, groups: int, encoders: int = 500) -> tuple[int, int]:
    """Growth of this process for each open object, measured and claimed, in bytes."""
    block = Block(records(0, [random.Random(7).randbytes(100) for _ in range(rows)]))

    def opened(count: int) -> list[Encoder]:
        made = [of.encoder() for _ in range(count)]
        for encoder in made:
            for _ in range(groups):
                encoder.encode(block)
        return made

    warm = opened(20)  # the first few load libraries, which is not their own memory
    gc.collect()
    before = psutil.Process().memory_info().rss
    made = opened(encoders)
    gc.collect()
    assert len(warm) + len(made) == encoders + 20
    grown = (psutil.Process().memory_info().rss - before) // encoders
    return grown, made[0].held_bytes


def main(megabytes: int) -> None:
    print(f"{'an open object holds':36} {'measured':>12} {'claimed':>12}")
    for name in ("Json Gzip", "Json Zstd", "SequenceFile Legacy Deflate", "Parquet Zstd"):
        grown, claimed = held(FORMATS[name], rows=100, groups=5)
        print(f"{name:36} {grown:10} B {claimed:10} B", flush=True)
    for size in (250, 1000):
        values = payloads(size, megabytes)
        print(
            f"\n{size} B, {len(values):,} records {'':12} "
            f"{'krec/CPU-s':>12} {'MB/CPU-s':>9} {'ratio':>6}"
        )
        report("(floor: ISA-L -2 alone)", values, partial(floor, values))
        for name, of in FORMATS.items():
            report(name, values, partial(encoded, of, blocks(values, of.block_bytes)))


def report(name: str, values: list[bytes], task: Callable[[], int]) -> None:
    seconds, written = cpu_seconds(task)
    total = sum(map(len, values))
    rate = (
        f"{len(values) / seconds / 1e3:12.0f} {total / seconds / 1e6:9.0f} {total / written:6.2f}"
    )
    print(f"{name:36} {rate}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--megabytes", type=int, default=50, help="payload of each size (default: %(default)s)"
    )
    main(parser.parse_args(sys.argv[1:]).megabytes)
