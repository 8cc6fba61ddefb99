"""What merging objects costs: CPU of this process, copied as they are and with rows read again.

    .venv/bin/python tests/bench/bench_merging.py [--megabytes 100] [--keys 5000000]

Payloads are those of bench_formats.py, 1 kB each, in objects of 1 MB of payload. MB are those of
the payloads. Then the memory for comparing keys. Last Parquet with row groups that are copied,
against the same rows decoded and encoded, by the bytes of the files, the best of three turns:
payloads in objects of 16 MB, and typed columns with row groups of 400,000 rows.
"""

import argparse
import io
import resource
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import psutil
import pyarrow as pa

from landfall.api.spec import Keep
from landfall.formats import Block, Format
from landfall.formats.jsonlines import JsonFormat
from landfall.formats.merged_columns import ColumnsMerger
from landfall.formats.orc import OrcFormat
from landfall.formats.parquet import ParquetEncoder, ParquetFormat
from landfall.formats.parquet.row_groups import RowGroupsMerger
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
LARGE_OBJECT_BYTES = 16 * 10**6


def objects(format_: Format, values: list[bytes], size: int = OBJECT_BYTES) -> list[bytes]:
    """The payloads as objects of so many bytes of payload."""
    made = []
    for block in blocks(values, size):
        encoder = format_.encoder()
        made.append(encoder.encode(block) + encoder.finish())
    return made


def whole(parquet: ParquetFormat, table: pa.Table) -> bytes:
    """A file with one row group."""
    encoder = ParquetEncoder(parquet)
    return encoder.write(table, None) + encoder.finish()


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


def typed_rows(start: int, rows: int) -> pa.Table:
    """Numbers in order, small ones, random ones, and texts of which many are equal."""
    dice = np.random.default_rng(start)
    names = np.char.add("name", dice.integers(0, 50_000, rows).astype(str))
    columns = [np.arange(start, start + rows), dice.integers(0, 1_000, rows), dice.random(rows)]
    return pa.table(dict(zip("abcd", [*columns, names], strict=True)))


def compare_row_groups(values: list[bytes]) -> None:
    """Print how fast row groups are copied, how fast encoded again, and how large the files are."""
    typed, envelope = ParquetFormat.of({}).typed(), ParquetFormat.of({})
    values = values[: sum(map(len, values)) // LARGE_OBJECT_BYTES * LARGE_OBJECT_BYTES // 1000]
    tables = (typed_rows(start, 400_000) for start in range(0, 3_200_000, 400_000))
    files = {
        "payloads": (envelope, objects(envelope, values, LARGE_OBJECT_BYTES)),
        "typed": (typed, [whole(typed, table) for table in tables]),
    }
    print(f"{'MB of files per second of CPU':32}{'copied':>9}{'encoded':>9}{'MB':>9}{'MB':>9}")
    for name, (parquet, bodies) in files.items():
        copied = max(file_speed(parquet.merger(), bodies) for _ in range(3))
        encoded = max(file_speed(encoding(parquet), bodies) for _ in range(3))
        found = [*zip(copied, encoded, strict=True)]
        print(f"{name:32}" + "".join(f"{each:9,.0f}" for pair in found for each in pair))


def encoding(parquet: ParquetFormat) -> ColumnsMerger:
    """A merger that copies nothing."""
    return ColumnsMerger(parquet, ParquetEncoder(parquet))


def file_speed(merger: ColumnsMerger, bodies: list[bytes]) -> tuple[float, float]:
    """MB of files that are merged per second of CPU, and the MB of the new file."""
    size, began, made = sum(map(len, bodies)), time.process_time(), 0
    for body in bodies:
        made += sum(map(len, merger.add(io.BytesIO(body))))
    made += len(merger.finish())
    if isinstance(merger, RowGroupsMerger) and merger.copied_rows < merger.rows:
        raise SystemExit(f"only {merger.copied_rows} of {merger.rows} rows are copied")
    return size / 1e6 / (time.process_time() - began), made / 1e6


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
    compare_row_groups(values)


if __name__ == "__main__":
    main()
