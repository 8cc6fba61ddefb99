"""The extension writes the same bytes as Arrow and NumPy, whatever rows it is given."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.formats.lines import Lines
from landfall.formats.sequencefile import writables
from landfall.formats.slices import native_columns
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Columns, Records, Selected, SelectedRecords, gathered
from tests.support.driver.hot_paths import NATIVE, PYTHON, needs_native, running

pytestmark = needs_native
TP = TopicPartition("clicks", 0)
PAYLOADS = st.one_of(
    st.binary(max_size=20),
    st.text(alphabet='{"é\n\r \t', max_size=20).map(str.encode),
    st.sampled_from([b"", b"x" * 127, b"x" * 124, b"x" * 300, b"x" * 70_000]),
)


@st.composite
def selections(draw: st.DrawFn, *, nulls: bool) -> list[Selected]:
    """Rows of slices of columns, at least one in all."""
    payloads = st.none() | PAYLOADS if nulls else PAYLOADS
    found: list[Selected] = []
    for _ in range(draw(st.integers(1, 3))):
        whole = pa.array(draw(st.lists(payloads, min_size=1, max_size=12)), pa.binary())
        start = draw(st.integers(0, len(whole) - 1))
        column = whole.slice(start, draw(st.integers(1, len(whole) - start)))
        if draw(st.booleans()):
            found.append((column, None))
        else:
            rows = draw(st.sets(st.integers(0, len(column) - 1), min_size=1))
            found.append((column, np.array(sorted(rows), np.int64)))
    return found


def records(
    selected: list[Selected], keys: list[bytes | None] | None = None, at: int = -1
) -> Records:
    count = sum(len(column) if rows is None else len(rows) for column, rows in selected)
    columns = Columns(
        lambda: np.full(count, at, np.int64),
        lambda: pa.array(keys or [None] * count, pa.binary()),
        lambda: pa.nulls(count),
    )
    return SelectedRecords(TP, np.arange(count) + 7, selected, columns)


@given(
    selections(nulls=True),
    st.sampled_from([b"", b"\n", b"--"]),
    st.sampled_from([b"", b"null"]),
    st.booleans(),
)
def test_lines_are_the_same(
    selected: list[Selected], delimiter: bytes, tombstone: bytes, unbroken: bool
) -> None:
    lines, rows = Lines(delimiter, tombstone, unbroken), records(selected)
    with running(PYTHON):
        python = bytes(lines.join(rows))

    with running(NATIVE):
        assert bytes(lines.join(rows)) == python
    kept = [tombstone if value is None else value for value in gathered(selected).to_pylist()]
    if unbroken:
        kept = [value.replace(b"\n", b" ").replace(b"\r", b" ") for value in kept]
    assert python == b"".join(value + delimiter for value in kept)


@given(selections(nulls=True))
def test_a_tombstone_that_cannot_be_written_is_the_same_error(selected: list[Selected]) -> None:
    lines, outcomes = Lines(b"\n"), []
    for path in (PYTHON, NATIVE):
        with running(path):
            try:
                outcomes.append(bytes(lines.join(records(selected))))
            except ValueError as error:
                outcomes.append(str(error).encode())

    assert outcomes[0] == outcomes[1]
    assert (b"tombstone" in outcomes[0]) == (gathered(selected).null_count > 0) or any(
        b"tombstone" in (value or b"") for value in gathered(selected).to_pylist()
    )


@given(selections(nulls=True))
def test_payloads_are_the_same_writables(selected: list[Selected]) -> None:
    with running(PYTHON):
        python = writables.values_written(records(selected))

    with running(NATIVE):
        native = writables.values_written(records(selected))
    assert bytes(native.lengths) == bytes(python.lengths)
    assert bytes(native.contents) == bytes(python.contents)


LIMITS = [sign * 2**power + more for sign in (1, -1) for power in range(64) for more in (-1, 0, 1)]
INT64S = st.sampled_from([n for n in LIMITS if -(2**63) <= n < 2**63]) | st.integers(
    -(2**63), 2**63 - 1
)


@given(st.lists(st.tuples(INT64S, INT64S, st.none() | PAYLOADS), min_size=1, max_size=20))
def test_messagepack_keys_are_the_same(rows: list[tuple[int, int, bytes | None]]) -> None:
    offsets, timestamps, keys = zip(*rows, strict=True)
    values = pa.array([b""] * len(rows), pa.binary())
    columns = Columns(
        lambda: np.array(timestamps, np.int64),
        lambda: pa.array(keys, pa.binary()),
        lambda: pa.nulls(len(rows)),
    )
    of = Records(TP, np.array(offsets, np.int64), values, columns)
    with running(PYTHON):
        python = writables.messagepack_keys_written(of)

    with running(NATIVE):
        native = writables.messagepack_keys_written(of)
    assert bytes(native.lengths) == bytes(python.lengths)
    assert bytes(native.contents) == bytes(python.contents)


@pytest.mark.parametrize("row", [-1, 2, 2**40])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    column = pa.array([b"a", b"b", b"c"], pa.binary()).slice(1)
    columns = native_columns([(column, np.array([0, row], np.int64))])

    with pytest.raises(ValueError, match="rows outside of the column"):
        NATIVE.module.lines(columns, b"\n", False)


def test_bounds_outside_of_the_bytes_are_refused() -> None:
    bounds, payload = pa.py_buffer(np.array([0, 5], np.int32)), pa.py_buffer(b"abcd")

    with pytest.raises(ValueError, match="rows outside of the bytes"):
        NATIVE.module.lines([(None, bounds, payload, 0, 1, None)], b"\n", False)
    with pytest.raises(ValueError, match="rows outside of the bounds"):
        NATIVE.module.lines([(None, bounds, payload, 0, 2, None)], b"\n", False)


def test_keys_of_another_number_are_refused() -> None:
    (keys,) = native_columns([(pa.array([b"a"], pa.binary()), None)])
    two = np.array([1, 2], np.int64)

    with pytest.raises(ValueError, match="2 offsets, 2 timestamps and 1 keys"):
        NATIVE.module.messagepack_keys(two, two, keys)
