"""What reading files costs, for each reader: CPU of this process from the bytes to payloads.

    .venv/bin/python -m tests.bench.bench_files [--megabytes 50] [NAME ...]

Records are events of seven fields, 270 B as JSON. Files are in memory and are read in parts of 16
MiB. A row with "typed" stops at typed columns; the others make payloads. CPU is the best of three.
"""

import argparse
import gzip
import io
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from landfall.formats.readers import reader_of
from tests.support.payloads.file_records import MemoryFile, SequenceFileOf, bytes_writable, text

PART_BYTES = 16 * 2**20
SCHEMA = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": name, "type": kind}
        for name, kind in (
            ("ts", "long"),
            ("id", "string"),
            ("event", "string"),
            ("text", "string"),
            ("n", "long"),
            ("ok", "boolean"),
            ("amount", "double"),
        )
    ],
}
Event = Mapping[str, object]


def events(count: int) -> list[Event]:
    """Events, always the same."""
    dice = random.Random(7)
    words = [f"w{dice.getrandbits(28):x}" for _ in range(3000)]
    return [
        {
            "ts": 1763683200000 + number,
            "id": f"{dice.getrandbits(64):016x}",
            "event": dice.choice(("click", "view", "purchase")),
            "text": " ".join(dice.choice(words) for _ in range(18)),
            "n": number,
            "ok": bool(number % 3),
            "amount": dice.random(),
        }
        for number in range(count)
    ]


def json_lines(rows: list[Event]) -> bytes:
    return b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)


def csv(rows: list[Event]) -> bytes:
    lines = [",".join(map(str, row.values())) for row in rows]
    return "\n".join((",".join(rows[0]), *lines, "")).encode()


def quoted_csv(rows: list[Event]) -> bytes:
    lines = [",".join(f'"{value}"' for value in row.values()) for row in rows]
    return "\n".join((",".join(rows[0]), *lines, "")).encode()


def parquet(rows: list[Event]) -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), made, row_group_size=50_000, compression="zstd")
    return made.getvalue()


def avro(rows: list[Event], codec: str) -> bytes:
    made = io.BytesIO()
    fastavro.writer(made, SCHEMA, rows, codec=codec, sync_interval=64_000)
    return made.getvalue()


def sequence_file(rows: list[Event], kind: str) -> bytes:
    lines = json_lines(rows).splitlines()
    pairs = [(bytes_writable(b"%d" % n), text(line)) for n, line in enumerate(lines)]
    return SequenceFileOf(kind, 3500).of(pairs)


@dataclass(frozen=True)
class Case:
    """A file, how it is read, and whether reading ends with typed columns."""

    reader: str
    made: Callable[[list[Event]], bytes]
    suffix: str = ""
    is_typed: bool = False
    is_multiline: bool = False


CASES: Mapping[str, Case] = {
    "Lines": Case("Lines", json_lines),
    "JsonLines": Case("JsonLines", json_lines),
    "JsonLines .gz": Case("JsonLines", lambda rows: gzip.compress(json_lines(rows), 6), ".gz"),
    "Csv": Case("Csv", csv),
    "Csv quoted": Case("Csv", quoted_csv),
    "Csv multiline": Case("Csv", csv, is_multiline=True),
    "Parquet typed": Case("Parquet", parquet, is_typed=True),
    "Parquet": Case("Parquet", parquet),
    "Avro typed": Case("Avro", partial(avro, codec="null"), is_typed=True),
    "Avro": Case("Avro", partial(avro, codec="null")),
    "Avro deflate": Case("Avro", partial(avro, codec="deflate")),
    "SequenceFile": Case("SequenceFile", partial(sequence_file, kind="None")),
    "SequenceFile record": Case("SequenceFile", partial(sequence_file, kind="Record")),
    "SequenceFile block": Case("SequenceFile", partial(sequence_file, kind="Block")),
}


def read(case: Case, file: MemoryFile) -> int:
    """How many records were read."""
    reader = reader_of(case.reader, {"multiline": True} if case.is_multiline else {})
    count = 0
    for part in reader.parts(file.name, file.size, PART_BYTES):
        for chunk in reader.read(file, part):
            count += len(chunk) if case.is_typed else len(chunk.values)
    return count


def main(names: list[str], megabytes: int) -> None:
    rows = events(megabytes * 10**6 // 270)
    payload = len(json_lines(rows)) / 1e6
    print(f"{'':22} {'MB/s of file':>13} {'MB/s of JSON':>13} {'krec/s':>7}")
    for name in names or CASES:
        case = CASES[name]
        file = MemoryFile(f"events{case.suffix}", case.made(rows))
        taken = []
        for _ in range(3):
            begun = time.process_time()
            assert read(case, file) == len(rows)
            taken.append(time.process_time() - begun)
        rates = file.size / 1e6 / min(taken), payload / min(taken), len(rows) / 1e3 / min(taken)
        print(f"{name:22} {rates[0]:13.0f} {rates[1]:13.0f} {rates[2]:7.0f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--megabytes", type=int, default=50, help="of JSON (default: %(default)s)")
    options = parser.parse_args(sys.argv[1:])
    main(options.names, options.megabytes)
