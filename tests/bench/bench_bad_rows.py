"""What bad rows cost decoders and ``Cast``: ``python -m tests.bench.bench_bad_rows [NAME ...]``.

CPU milliseconds for 10,000 rows of twenty columns of one type, all of them good, and with rows that
are bad in every column. The best of five turns, and the ratio to good rows.
"""

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from landfall import registry
from landfall.api.spec import Column, ColumnType, Decode, ValueType
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.typed_columns import schema_of
from landfall.pipeline.records import filled
from landfall.pipeline.transforms import cast

ROWS, COLUMNS, TURNS = 10_000, 20, 5
SHARES = (1, 100)
"""How many of the rows are bad."""
TEXTS: Mapping[ColumnType, tuple[str, str]] = {
    ColumnType.INT32: ("1234{:02}", "12x"),
    ColumnType.INT64: ("1763700000{:03}", "n/a"),
    ColumnType.FLOAT64: ("12.{:02}", "1e400"),
    ColumnType.BOOLEAN: ("true", "yes"),
    ColumnType.DATE: ("2026-02-{:02}", "0000-00-00"),
    ColumnType.TIMESTAMP: ("2026-02-03T04:05:{:02}Z", "yesterday"),
}
"""For each type a good text, with a number from 1 to 28, and a bad one."""


def decoding(format_: str, type_: ColumnType, bad: int) -> Callable[[], object]:
    """Decode rows, so many of them bad."""
    names = [f"c{i}" for i in range(COLUMNS)]
    options: dict[str, Any] = {} if format_ == "Json" else {"columns": names}
    schema = schema_of([Column(name=name, type=type_) for name in names])
    decoder = registry.decoder(Decode(format=format_, options=options), Wanted(schema=schema))
    good_text, bad_text = TEXTS[type_]
    rows: list[bytes | None] = []
    for row in range(ROWS):
        text = bad_text if row < bad else good_text.format(row % 28 + 1)
        line = ",".join(f'"c{i}":"{text}"' if format_ == "Json" else text for i in range(COLUMNS))
        rows.append((f"{{{line}}}" if format_ == "Json" else line).encode())
    return partial(decoder.decode, filled(TopicPartition("t", 0), range(ROWS), rows))


def casting(type_: pa.DataType, to: ColumnType, wrong: object, bad: int) -> Callable[[], object]:
    """Cast columns of numbers, so many of them wrong."""
    column = pa.array([wrong if row < bad else row for row in range(ROWS)], type_)
    return lambda: [cast.cast(column, ValueType(type=to), "c") for _ in range(COLUMNS)]


CASES: Mapping[str, Callable[[int], Callable[[], object]]] = {
    **{f"Csv {type_}": partial(decoding, "Csv", type_) for type_ in TEXTS},
    "Json Date": partial(decoding, "Json", ColumnType.DATE),
    "Json Timestamp": partial(decoding, "Json", ColumnType.TIMESTAMP),
    "Cast Int64 to Int32": partial(casting, pa.int64(), ColumnType.INT32, 2**40),
    "Cast Float64 to Int64": partial(casting, pa.float64(), ColumnType.INT64, 0.5),
    "Cast Int64 to Float64": partial(casting, pa.int64(), ColumnType.FLOAT64, 2**60 + 1),
}


def milliseconds(work: Callable[[], object]) -> float:
    turns = []
    for _ in range(TURNS):
        began = time.process_time()
        work()
        turns.append(time.process_time() - began)
    return min(turns) * 1000


def main() -> None:
    for name in sys.argv[1:] or CASES:
        good = milliseconds(CASES[name](0))
        figures = [(bad, milliseconds(CASES[name](bad))) for bad in SHARES]
        shown = ", ".join(f"{bad} bad {cost:.1f} ms (x{cost / good:.1f})" for bad, cost in figures)
        print(f"{name:24} good {good:.1f} ms, {shown}")


if __name__ == "__main__":
    main()
