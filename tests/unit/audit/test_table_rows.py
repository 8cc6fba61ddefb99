"""Texts of rows: the same for the same values, however a library or a file has them."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from landfall_audit.tables.delta import DeltaVersion
from landfall_audit.tables.iceberg import IcebergSnapshot
from landfall_audit.tables.row_texts import hashes
from landfall_audit.tables.rows import DELETES, IS_KEYLESS, ROW, RowParts, Rows, compare, newest

AT = datetime(2026, 11, 21, 6, 5, 4, 321_987, tzinfo=UTC)
INNER = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False, None]),
    "int": (pa.int32(), [-1, 2**31 - 1, None]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "float": (pa.float32(), [0.1, -0.0, None]),
    "double": (pa.float64(), [0.1, float("nan"), 1e300]),
    "text": (pa.string(), ["", "a:1:b", None]),
    "bytes": (pa.binary(), [b"", b"\x00\xff", None]),
    "day": (pa.date32(), [date(1969, 12, 31), date(2026, 11, 21), None]),
    "at": (pa.timestamp("us", "UTC"), [AT, datetime(1, 1, 1, tzinfo=UTC), None]),
    "decimal": (pa.decimal128(20, 3), [Decimal("1.500"), Decimal("-0.001"), None]),
    "list": (pa.list_(pa.int64()), [[], [1, None], None]),
    "struct": (INNER, [{"a": 1, "b": ["x"]}, {"a": None, "b": None}, None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1), ("l", None)], [], None]),
    "times": (pa.list_(pa.timestamp("us", "UTC")), [[AT], [], None]),
}


def landed() -> pa.Table:
    return pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})


def in_delta(rows: pa.Table, root: Path) -> Iterator[pa.RecordBatch]:
    write_deltalake(str(root), rows)
    version = DeltaVersion(DeltaTable(str(root)), 0, frozenset())
    return version.batches([*version.columns.in_files])


def in_iceberg(rows: pa.Table, root: Path) -> Iterator[pa.RecordBatch]:
    catalog = load_catalog("x", type="in-memory", warehouse=f"file://{root}")
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.rows", rows.schema)
    table.append(rows)
    version = IcebergSnapshot(table, table.current_snapshot().snapshot_id, 0, frozenset())
    return version.batches([*version.columns.in_files])


def hashes_of(rows: pa.Table | pa.RecordBatch) -> list[tuple[int, int]]:
    found = hashes({name: rows.column(name) for name in rows.schema.names}, rows.num_rows)
    return [(int(high), int(low)) for high, low in found]


@pytest.mark.parametrize("read", [in_delta, in_iceberg])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_value_has_one_text_in_files_and_in_tables(
    read: Callable[[pa.Table, Path], Iterator[pa.RecordBatch]], name: str, tmp_path: Path
) -> None:
    rows = landed().select([name])

    found = [hash_ for batch in read(rows, tmp_path) for hash_ in hashes_of(batch)]

    assert found == hashes_of(rows)
    assert len({*found}) == 3


def one(kind: pa.DataType, value: Any, name: str = "x") -> tuple[int, int]:
    return hashes_of(pa.table({name: pa.array([value], kind)}))[0]


@pytest.mark.parametrize(
    ("one_kind", "other_kind", "value"),
    [
        (pa.int32(), pa.int64(), 7),
        (pa.uint64(), pa.decimal128(20, 0), 2**64 - 1),
        (pa.float32(), pa.float64(), 0.5),
        (pa.string(), pa.large_string(), "é"),
        (pa.string(), pa.string_view(), "é"),
        (pa.string(), pa.dictionary(pa.int32(), pa.string()), "é"),
        (pa.binary(), pa.binary(2), b"ab"),
        (pa.binary(), pa.binary_view(), b"ab"),
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), datetime(2026, 1, 1, tzinfo=UTC)),
        (pa.time32("ms"), pa.time64("us"), time(1, 2, 3)),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), Decimal("1.50")),
        (pa.list_(pa.int32()), pa.large_list(pa.int64()), [1, 2]),
        (
            pa.struct([("a", pa.int32())]),
            pa.struct([("b", pa.int8()), ("a", pa.int64())]),
            {"a": 1},
        ),
        (pa.list_(pa.decimal128(4, 1)), pa.list_(pa.decimal128(6, 3)), [Decimal("1.5")]),
    ],
)
def test_a_wider_type_is_no_other_value(
    one_kind: pa.DataType, other_kind: pa.DataType, value: object
) -> None:
    assert one(one_kind, value) == one(other_kind, value)


def test_a_null_is_as_no_column_and_not_as_an_empty_text() -> None:
    text = pa.array(["x"])
    assert hashes({"a": text, "b": pa.nulls(1)}, 1).tolist() == hashes({"a": text}, 1).tolist()
    assert one(pa.string(), "") != one(pa.string(), None)
    assert one(pa.string(), "x", "a") != one(pa.string(), "x", "b")


def test_columns_do_not_run_into_each_other() -> None:
    rows = [{"a": "1", "b": "2"}, {"a": "1;b:1:2", "b": None}, {"a": "", "b": "1b:1:2"}]
    found = hashes_of(pa.Table.from_pylist(rows, pa.schema({"a": pa.string(), "b": pa.string()})))
    assert len({*found}) == 3


def row(key: int, offset: int, **more: int) -> dict[str, int]:
    return {"key_high": key, "offset": offset, **more}


def made_of(rows: Sequence[dict[str, int]]) -> Rows:
    made = np.zeros(len(rows), ROW)
    for at, values in enumerate(rows):
        for name, number in values.items():
            made[name][at] = number
    return made


def test_rows_without_places_are_compared_by_their_values() -> None:
    landed, shown = RowParts(), RowParts()
    landed.add(made_of([row(1, -1, high=n) for n in (1, 2, 2, 3)]))
    shown.add(made_of([row(1, -1, high=n) for n in (1, 2, 9)]))

    found = compare(landed, shown, lambda rows: rows)

    assert (found.expected, found.counts) == (4, {"missing": 2, "foreign": 1})
    for each in (landed, shown):
        each.close()


def test_rows_of_many_keys_are_compared_in_parts() -> None:
    landed, shown = RowParts(), RowParts()
    numbers = [*range(1000)]
    for start in range(0, 1000, 300):
        landed.add(made_of([row(n, n, high=n) for n in numbers[start : start + 300]]))
    shown.add(made_of([row(n, n, high=n + (n == 500)) for n in numbers[:0:-1]]))

    found = compare(landed, shown, lambda rows: rows)

    assert (found.expected, landed.count, shown.count) == (1000, 1000, 999)
    assert found.counts == {"missing": 1, "corrupted": 1}
    assert found.places == {"missing": [(0, 0)], "corrupted": [(0, 500)]}
    for each in (landed, shown):
        each.close()


@pytest.mark.parametrize(
    ("rows", "is_ordered", "expected"),
    [
        ([row(1, 5), row(1, 9), row(2, 1)], False, [9, 1]),
        ([row(1, 5), row(1, 9, flags=DELETES), row(2, 1)], False, [1]),
        ([row(1, 9, flags=DELETES), row(1, 10)], False, [10]),
        ([row(1, 9), row(1, 2, lifetime=1)], False, [2]),
        ([row(1, 9, partition=1), row(1, 10)], False, [10]),
        ([row(1, 9, order=5), row(1, 10, order=4)], True, [9]),
        ([row(1, 9, order=5, partition=1), row(1, 10, order=5)], True, [9]),
        ([row(1, 9, order=5, lifetime=1), row(1, 10, order=5)], True, [9]),
        ([row(1, 5, flags=IS_KEYLESS), row(1, 5, flags=IS_KEYLESS)], False, [5, 5]),
        ([row(1, 5, flags=IS_KEYLESS | DELETES)], False, []),
        ([], True, []),
    ],
)
def test_the_newest_row_of_a_key_counts(
    rows: list[dict[str, int]], is_ordered: bool, expected: list[int]
) -> None:
    made = made_of(rows)
    for order in (np.arange(len(rows)), np.arange(len(rows))[::-1]):
        found = newest(made[order], is_ordered=is_ordered)
        assert sorted(found["offset"].tolist()) == sorted(expected)
