"""What is counted for buffered rows is what they cost."""

import gc

import numpy as np
import pyarrow as pa
import pytest

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import of_columns
from landfall.task.row_buffer import BufferedRows, PayloadRulesBuffer, RowBuffer, batch_bytes
from landfall.task.rows import ChosenRows, RowLayout

TYPED = RowLayout(timestamps=False, keys=False, headers=False, payloads=False)
INT64 = pa.int64()
NESTED = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])


def chunk(columns: int, rows: int, type_: pa.DataType = INT64, value: object = 7) -> ChosenRows:
    payloads = pa.array([b"x" * 2_000] * rows, pa.binary())
    records = of_columns(TopicPartition("wide", 0), np.arange(rows), payloads)
    of_payloads = [pa.array([value] * rows, type_) for _ in range(columns)]
    names = [f"c{n}" for n in range(columns)]
    return ChosenRows(TYPED.rows(records, pa.RecordBatch.from_arrays(of_payloads, names)))


def dealt(rows: ChosenRows, objects: int) -> list[ChosenRows]:
    """The rows of a chunk that each of so many objects gets."""
    return [
        ChosenRows(rows.batch, np.arange(first, len(rows), objects)) for first in range(objects)
    ]


def kept(buffer: RowBuffer, parts: list[ChosenRows]) -> list[BufferedRows]:
    runs = [run for part in parts for run in buffer.keep([part])]
    buffer.settle()
    return runs


@pytest.mark.parametrize(
    ("columns", "type_", "value"),
    [
        (20, pa.int64(), 7),
        (200, pa.int64(), 7),
        (200, pa.string(), "seven"),
        (50, NESTED, {"a": 1, "b": ["x", None]}),
        (300, pa.bool_(), None),
    ],
)
def test_as_much_is_counted_as_arrow_allocates(
    columns: int, type_: pa.DataType, value: object
) -> None:
    buffer, runs = RowBuffer(), []
    rows = chunk(columns, 1_000, type_, value)
    gc.collect()  # copies of other tests, which refer to their runs and back
    before = pa.total_allocated_bytes()

    for _ in range(3):
        runs += kept(buffer, dealt(rows, 250))

    allocated = pa.total_allocated_bytes() - before
    arrays_of_a_run = 250 * 3 * 256
    assert allocated <= buffer.held_bytes <= 2 * allocated + arrays_of_a_run + 3 * columns * 6_000
    assert buffer.held_bytes == pytest.approx(sum(run.bytes for run in runs), rel=0.01)


def test_many_objects_with_rows_of_a_chunk_need_few_batches() -> None:
    one, many = RowBuffer(), RowBuffer()
    rows = chunk(200, 1_000)

    kept(one, dealt(rows, 1))
    kept(many, dealt(rows, 500))

    assert many.held_bytes < 1.2 * one.held_bytes


def test_the_chunk_is_not_kept() -> None:
    rows = chunk(5, 10_000)
    buffer = RowBuffer()
    before = pa.total_allocated_bytes()
    runs = kept(buffer, [rows.part(0, 10)])
    del rows

    gc.collect()

    assert pa.total_allocated_bytes() - before < 0
    assert [run.rows.offsets.tolist() for run in runs] == [list(range(10))]


def test_what_is_taken_is_counted_until_its_copy_is_compacted() -> None:
    buffer = RowBuffer()
    runs = kept(buffer, dealt(chunk(20, 1_000), 10))
    whole = buffer.held_bytes

    taken = buffer.take(runs[:9])
    after_taking = buffer.held_bytes
    buffer.compact()
    after_compacting = buffer.held_bytes
    last = buffer.take(runs[9:])

    assert [rows.offsets.tolist() for rows in [*taken, *last]] == [
        list(range(first, 1_000, 10)) for first in range(10)
    ]
    assert after_taking == whole
    assert after_compacting < whole / 4
    assert buffer.held_bytes == 0


def test_an_empty_buffer_holds_nothing_of_what_was_taken() -> None:
    buffer = RowBuffer()
    runs = kept(buffer, dealt(chunk(200, 1_000), 100))
    before = pa.total_allocated_bytes()

    buffer.take(runs)

    gc.collect()
    assert before - pa.total_allocated_bytes() >= 200 * 1_000 * 8


def test_columns_inside_of_columns_count() -> None:
    flat = pa.RecordBatch.from_arrays([pa.array([1])], ["a"])
    nested = pa.RecordBatch.from_arrays([pa.array([{"a": 1, "b": ["x"]}], NESTED)], ["a"])

    assert batch_bytes(nested) > 3 * batch_bytes(flat)


def test_by_the_first_rules_a_batch_has_2_kib_more() -> None:
    buffer, parts = PayloadRulesBuffer(), dealt(chunk(20, 100), 4)

    kept(buffer, parts)

    assert buffer.held_bytes == sum(part.taken().nbytes + 2048 for part in parts)
