"""What merging objects costs: CPU of this process, copied as they are and with rows read again.

    .venv/bin/python tests/bench/bench_merging.py [--megabytes 100] [--keys 5000000]

Payloads are those of bench_formats.py, 1 kB each, in objects of 1 MB of payload. MB are those of
the payloads. Then the memory for comparing keys.
"""

import argparse
import io
import resource
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import psutil

from landfall.api.spec import Keep
from landfall.formats import Block, Format
from landfall.formats.jsonlines import JsonFormat
from landfall.formats.orc import OrcFormat
from landfall.formats.parquet import ParquetFormat
from landfall.formats.sequencefile import SequenceFileFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import filled
from landfall.task.duplicates import Fingerprints
from landfall.task.merging import merger_of
from tests.bench.bench_formats import blocks, payloads

FORMATS: Mapping[str, Format] = {
    "Json Gzip": JsonFormat.of({}),
    "Json Zstd": JsonFormat.of({"codec": "Zstd"}),
    "Json None": JsonFormat.of({"codec": "None"}),
    "SequenceFile Deflate": SequenceFileFormat.of({}),
    "Parquet Zstd": ParquetFormat.of({}),
    "Orc Zstd": OrcFormat.of({}),
}
OBJECT_BYTES = 10**6


def objects(format_: Format, values: list[bytes]) -> list[bytes]:
    """The payloads as objects."""
    made = []
    for block in blocks(values, OBJECT_BYTES):
        encoder = format_.encoder()
        made.append(encoder.encode(block) + encoder.finish())
    return made


def merged(format_: Format, bodies: list[bytes]) -> None:
    merger = merger_of(format_)
    assert merger is not None
    for body in bodies:
        for _ in merger.add(io.BytesIO(body)):
            pass
    merger.finish()


def read_and_encoded(format_: Format, bodies: list[bytes]) -> None:
    """The same by reading rows and encoding them, as the only way that any format has."""
    encoder = format_.encoder()
    for body in bodies:
        values = [row.value for row in format_.rows(io.BytesIO(body))]
        encoder.encode(Block(filled(TopicPartition("clicks", 0), range(len(values)), values)))
    encoder.finish()


def without_duplicates(format_: Format, bodies: list[bytes]) -> None:
    """The same with keys compared, and one row of a hundred left out."""
    found, merger, path = Fingerprints(), merger_of(format_), ("id",)
    assert merger is not None
    for body in bodies:
        for keys in merger.keys(io.BytesIO(body), path):
            found.add(keys)
    kept, at = found.kept(Keep.FIRST), 0
    kept[::100] = False
    for body in bodies:
        for _ in merger.add(io.BytesIO(body), kept[at:]):
            pass
        at = merger.rows


def speed(work: Callable[[], None], megabytes: float) -> float:
    """MB per second of CPU."""
    began = time.process_time()
    work()
    return megabytes / (time.process_time() - began)


def compare_keys(count: int) -> None:
    """Print the memory of comparing so many different keys, a tenth of which come twice."""
    process, found = psutil.Process(), Fingerprints()
    before, began = process.memory_info().rss, time.process_time()
    for start in range(0, count, 10_000):
        found.add([b"%016x" % (n * 9 // 10) for n in range(start, start + 10_000)])
    kept = found.kept(Keep.FIRST)
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    left_out = len(kept) - int(np.count_nonzero(kept))
    print(
        f"{count:,} keys: {peak / count:.0f} B each at most, {count / took / 1e6:.1f} million a "
        f"second of CPU, {left_out:,} left out"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--keys", type=int, default=5_000_000)
    chosen = parser.parse_args()
    values = payloads(1000, chosen.megabytes)
    compare_keys(chosen.keys)
    print(f"{'MB per second of CPU':24}{'merged':>10}{'rows again':>12}{'keys compared':>15}")
    for name, format_ in FORMATS.items():
        bodies = objects(format_, values)
        ways = [merged, read_and_encoded]
        if not isinstance(format_, SequenceFileFormat | ParquetFormat | OrcFormat):
            ways.append(without_duplicates)
        found = [speed(partial(way, format_, bodies), chosen.megabytes) for way in ways]
        print(f"{name:24}" + "".join(f"{each:12,.0f}" for each in found))


if __name__ == "__main__":
    main()
