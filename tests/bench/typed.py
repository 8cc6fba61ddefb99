"""What it costs to land payloads with a schema, beside landing them as they are.

    .venv/bin/python -m tests.bench.typed [NAME ...]

Everything of a task but Kafka and the store: decode, date, route by hour, encode, compress and
checksum, from batches of 10,000 records already in memory to parts in memory, of one event of ten
fields (250 bytes as JSON, see ``decoders``). Reading from Kafka costs about 0.6 µs a record more
(docs/performance.md), which ``with reading`` adds. Each row has its floor, the verbatim
SequenceFile of the same payloads, measured in the same turn, so that a busy machine slows down
both.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from landfall.ledger.offsets import OffsetRange, Slice, TopicPartition
from landfall.ledger.task_results import LandedSlice
from landfall.pipeline.records import Records, of_columns
from landfall.store.memory import MemoryStore
from landfall.task import Batch
from landfall.task.landing import land
from tests.bench.decoders import CONTENDERS, TYPES, events
from tests.bench.topics import START_MS
from tests.support.driver.slice_landing import group

CHUNKS, TURNS = 8, 5
READING_MICROS = 0.63
TP = TopicPartition("events", 0)
COLUMNS = [
    {"name": path.replace(".", "_"), "type": kind, "field": path} for path, kind in TYPES.items()
]
FLOOR: Mapping[str, Any] = {"format": "SequenceFile"}


@dataclass(frozen=True)
class Row:
    """One way to land the events.

    Attributes:
        payload: the decoder, one of ``decoders.CONTENDERS``.
        output: of the spec.
        columns: whether the group declares the columns.
        bar: thousand records per CPU-second to reach on a quiet machine, or the ratio to the floor.
    """

    payload: str
    output: Mapping[str, Any]
    columns: bool = False
    bar: float = 0.0


OWN = {"format": "Parquet", "columns": "FromSchema"}
ROWS: Mapping[str, Row] = {
    "avro-file": Row("Avro", {"format": "Avro", "options": {"envelope": False}}, bar=0.85),
    "avro-file-envelope": Row("Avro", {"format": "Avro"}, bar=0.85),
    "avro-parquet": Row("Avro", OWN, bar=300),
    "avro-parquet-declared": Row("Avro", {"format": "Parquet"}, columns=True, bar=300),
    "protobuf-parquet": Row("Protobuf", OWN, bar=300),
    "protobuf-parquet-declared": Row("Protobuf", {"format": "Parquet"}, columns=True, bar=300),
    "thrift-parquet": Row("Thrift", OWN, bar=250),
    "thrift-parquet-declared": Row("Thrift", {"format": "Parquet"}, columns=True, bar=250),
    "messagepack-parquet-declared": Row(
        "MessagePack", {"format": "Parquet"}, columns=True, bar=200
    ),
}


@dataclass
class _Reader:
    """Yields the same chunks again and again."""

    chunks: Sequence[Records]

    def read(self, slice_: Slice) -> Sequence[Records]:  # noqa: ARG002  # one topic partition
        return self.chunks


def main(names: list[str]) -> None:
    """Print one line for each row."""
    pa.set_memory_pool(pa.system_memory_pool())
    print(
        f"{'row':30} {'k rec/CPU-s':>11} {'floor':>7} {'ratio':>6}"
        f" {'with reading':>13} {'bytes':>6}  bar"
    )
    for name in names or ROWS:
        row = ROWS[name]
        decode, payloads = CONTENDERS[row.payload](events())
        count = len(payloads)
        values = pa.array(payloads, pa.binary())
        chunks = [
            of_columns(
                TP,
                np.arange(i * count, (i + 1) * count),
                values,
                timestamps=START_MS + np.arange(count),
            )
            for i in range(CHUNKS)
        ]
        is_verbatim = row.output["format"] == "Avro"
        timestamp = {} if is_verbatim else {"timestamp": {"field": "ts", "unit": "Milliseconds"}}
        written = decode.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        typed = {**written, **timestamp, **({"columns": COLUMNS} if row.columns else {})}
        best = {"row": float("inf"), "floor": float("inf")}
        size = 0
        for _ in range(TURNS):
            best["floor"] = min(best["floor"], _seconds(chunks, {"format": "Raw"}, FLOOR)[0])
            seconds, size = _seconds(chunks, typed, row.output)
            best["row"] = min(best["row"], seconds)
        micros = {kind: seconds / (count * CHUNKS) * 1e6 for kind, seconds in best.items()}
        reading = (micros["floor"] + READING_MICROS) / (micros["row"] + READING_MICROS)
        print(
            f"{name:30} {1e3 / micros['row']:11,.0f} {1e3 / micros['floor']:7,.0f}"
            f" {micros['floor'] / micros['row']:6.2f}"
            f" {1e3 / (micros['row'] + READING_MICROS):6,.0f} {reading:6.2f}"
            f" {size / (count * CHUNKS):6.0f}  {row.bar:g}"
        )


def _seconds(
    chunks: Sequence[Records], decode: Mapping[str, Any], output: Mapping[str, Any]
) -> tuple[float, int]:
    """CPU seconds of landing all chunks, and the bytes that were landed."""
    spec = {
        "decode": decode,
        "route": {"pattern": "dt={date}/hr={hour}"},
        "output": {"url": "s3://bucket/root", **output},
    }
    slice_ = Slice(TP, OffsetRange(0, sum(map(len, chunks))))
    batch, store = Batch(group(**spec), "token"), MemoryStore()
    before = time.process_time()
    (made,) = land(batch, [slice_], _Reader(chunks), store)  # type: ignore[arg-type]  # a sequence is enough
    seconds = time.process_time() - before
    assert isinstance(made, LandedSlice), made
    assert made.landed == len(slice_.offsets), made.errors
    return seconds, sum(landed.upload.size for landed in made.objects)


if __name__ == "__main__":
    main(sys.argv[1:])
