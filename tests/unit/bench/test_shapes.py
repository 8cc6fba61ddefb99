"""``make bench ARGS=--shapes``: what is compared with what, and the table."""

from dataclasses import replace

from landfall.ledger.offsets import OffsetRange, Slice
from tests.bench.shapes import TP, Line, Measured, Reader, large, shapes, table


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
    known, names = shapes(), ["columns: 20", "columns: 200"]
    twenty = known[names[0]]()
    cells = {name: known[name]().rows * known[name]().cells for name in names}
    found = {
        name: Measured(2.0 * cells[name] / cells[names[0]], 10**9, 50.0, 1, 0) for name in names
    }

    text = table(
        [Line(name, known[name](), found[name], names[0], found[names[0]]) for name in names]
    )

    each = f"{2.0 / twenty.rows / twenty.cells * 1e9:.0f}"
    assert [row.split(" | ")[2:4] for row in text.splitlines()[2:]] == [
        [each, ""],
        [each, "1.00 times columns: 20"],
    ]


def test_a_shape_beyond_its_bar_is_named() -> None:
    known, names = shapes(), ["columns: 20", "columns: 200"]
    shape, plain = known[names[1]](), known[names[0]]()
    assert shape.bar
    dear = 2.0 * shape.rows * shape.cells / plain.rows / plain.cells * (shape.bar + 0.1)
    other = Measured(2.0, 10**9, 50.0, 1, 0)

    line = Line(names[1], shape, Measured(dear, 10**9, 50.0, 1, 0), names[0], other)

    assert line.is_beyond
    assert not replace(line, run=replace(line.run, cpu_seconds=dear / 2)).is_beyond
    assert replace(line, run=Measured(1.0, 10**9, 10_000.0, 1, 0)).is_beyond
