"""``make bench ARGS=--shapes``: what is compared with what, and the table."""

from dataclasses import replace

from landfall.ledger.offsets import OffsetRange, Slice
from tests.bench.shapes import TP, Measured, Reader, large, shapes, table


def test_every_shape_is_compared_with_one_that_is_measured() -> None:
    known = shapes()

    assert {of().to or name for name, of in known.items()} <= known.keys()


def test_chunks_end_as_those_of_kafka() -> None:
    reader = Reader(replace(large(key_bytes=10), rows=20_001))

    chunks = list(reader.read(Slice(TP, OffsetRange(0, 20_001))))

    assert [len(chunk) for chunk in chunks] == [10_000, 10_000, 1]
    assert len(chunks[0].keys[0].as_py()) == 10
    assert reader.read_bytes > 20_001 * (10 + 100)


def test_wide_rows_are_compared_by_cell() -> None:
    names = ["columns: 20", "columns: 200"]
    found = dict.fromkeys(names, Measured(2.0, 10**9, 50.0, 1, 0))

    text = table(names, dict.fromkeys(names, names[0]), found)

    assert "| columns: 20 | 2.0 | 1000 |  | 50 | 0 |" in text
    assert "| columns: 200 | 2.0 | 1000 | 1.00 times columns: 20 | 50 | 0 |" in text
