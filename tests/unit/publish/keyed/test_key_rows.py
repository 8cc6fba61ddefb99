"""Rows of files by their keys: equal keys are equal in any width, and no others are."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.publish.keyed.fold import counted
from landfall.publish.keyed.index import KeyIndex
from landfall.publish.keyed.rows import (
    NO_ROW,
    KeyedRows,
    KeySettings,
    NoKeys,
    keyed_rows,
    lifetimes_in,
    orders_of,
    place_of,
    row_at,
    row_ids,
    without_lifetimes,
)
from landfall.store.memory import MemoryStore

DAY = datetime(2026, 11, 21, tzinfo=UTC)


def file(**columns: Any) -> io.BytesIO:
    rows = len(next(iter(columns.values())))
    found = {
        "_partition": pa.array([3] * rows, pa.int32()),
        "_offset": pa.array(range(rows), pa.int64()),
        **columns,
    }
    body = io.BytesIO()
    pq.write_table(pa.table(found), body)
    return body


def read(body: io.BytesIO, *key: str, **more: Any) -> KeyedRows:
    (rows,) = keyed_rows(body, KeySettings(key or ("id",), **more))
    return rows


def hashes(rows: KeyedRows) -> list[tuple[int, int]]:
    return list(zip(rows.rows["high"].tolist(), rows.rows["low"].tolist(), strict=True))


@pytest.mark.parametrize(
    "values",
    [
        [pa.array([1, -2], pa.int8()), pa.array([1, -2], pa.int64())],
        [pa.array(["a", "é"]), pa.array(["a", "é"], pa.large_string())],
        [pa.array(["a", "b"]), pa.array(["a", "b"]).dictionary_encode()],
        [pa.array([b"a", b"\0"]), pa.array([b"a", b"\0"], pa.large_binary())],
        [
            pa.array([DAY, DAY], pa.timestamp("ms", "UTC")),
            pa.array([DAY, DAY], pa.timestamp("us", "UTC")),
        ],
        [pa.array([date(2026, 1, 1), None])],
        [pa.array([Decimal("1.20"), None])],
        [pa.array([True, False])],
    ],
    ids=lambda values: str(values[0].type),
)
def test_a_key_is_the_same_in_any_width(values: list[pa.Array]) -> None:
    first, *more = [read(file(id=column)) for column in values]

    assert all(hashes(rows) == hashes(first) for rows in more)
    assert first.has_key.tolist() == [value.is_valid for value in values[0]]


@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=20))
def test_keys_of_two_columns_are_equal_if_both_parts_are(keys: list[tuple[str, str]]) -> None:
    columns = {
        name: pa.array([key[at] for key in keys], pa.string()) for at, name in enumerate("ab")
    }
    if keys:
        rows = read(file(**columns), "a", "b")
        assert len({*hashes(rows)}) == len({*keys})


def test_rows_are_numbered_by_partition_and_offset() -> None:
    body = file(id=pa.array([1, None]), _deleted=pa.array([None, True]))

    rows = read(body)

    assert rows.ids.tolist() == [row_at(3, 0), row_at(3, 1)]
    assert (rows.has_key.tolist(), rows.rows["deleted"].tolist()) == ([True, False], [False, True])
    assert rows.deletes_nothing.tolist() == [row_at(3, 1)]
    assert np.concatenate([*row_ids(body)]).tolist() == rows.ids.tolist()
    assert place_of(row_at(2047, 2**48 - 2, 31)) == "offset 281474976710654 of partition 2047"
    assert orders_of(np.array([row_at(7, 12)], np.uint64)).tolist() == [12]


def test_rows_of_a_later_lifetime_are_later() -> None:
    body, ended = file(id=pa.array([1, 2])), {3: [2, 5], 4: [1]}
    lifetimes = [lifetimes_in(generation, ended) for generation in (2, 3, 5, 6)]

    found = [np.concatenate([*row_ids(body, lifetimes=of_file)]).tolist() for of_file in lifetimes]

    assert found == [[row_at(3, 0, n), row_at(3, 1, n)] for n in (0, 1, 1, 2)]
    orders = [orders_of(np.array(rows, np.uint64)).tolist() for rows in (found[1], found[3])]
    assert max(orders[0]) < min(orders[1])
    assert without_lifetimes(np.array(found[3], np.uint64)).tolist() == found[0]
    assert lifetimes_in(None, ended) == {3: -1, 4: -1}


@pytest.mark.parametrize(
    ("lifetime", "message"),
    [
        (-1, "another program wrote it, and it has rows of partition 3"),
        (32, "began again 32 times, and 31 times is the most"),
    ],
)
def test_a_lifetime_that_has_no_number_is_refused(lifetime: int, message: str) -> None:
    assert [*row_ids(file(id=pa.array([1])), lifetimes={2: lifetime})]
    with pytest.raises(NoKeys, match=message):
        [*row_ids(file(id=pa.array([1])), lifetimes={3: lifetime})]


def test_rows_of_other_programs_have_no_number() -> None:
    without = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), without)
    mixed = file(id=pa.array([1, 2]))
    table = pq.read_table(mixed).set_column(1, "_offset", pa.array([None, 5], pa.int64()))
    some = io.BytesIO()
    pq.write_table(table, some)

    assert np.concatenate([*row_ids(without)]).tolist() == [NO_ROW]
    assert not read(without).has_key.any()
    assert np.concatenate([*row_ids(some)]).tolist() == [NO_ROW, row_at(3, 5)]


def test_rows_of_other_programs_are_neither_deletions_nor_deleted() -> None:
    body = io.BytesIO()
    pq.write_table(pa.table({"id": [1, 2], "_deleted": [True, False]}), body)

    rows = read(body)

    assert rows.deletes_nothing.tolist() == []
    assert counted(rows, KeyIndex(MemoryStore())).tolist() == [NO_ROW, NO_ROW]


def test_rows_are_ordered_by_a_column_of_times_or_numbers() -> None:
    times = pa.array([DAY, None], pa.timestamp("ms", "UTC"))

    ordered = read(file(id=pa.array([1, 2]), at=times), order="at")

    assert ordered.rows["order"].tolist() == [int(DAY.timestamp()) * 10**6, -(2**63)]
    assert read(file(id=pa.array([1]), n=pa.array([7])), order="n").rows["order"].tolist() == [7]


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({"x": pa.array([1])}, {}, "it has no column id"),
        ({"id": pa.array([1.5])}, {}, "column id is double, which is no part of a key"),
        ({"id": pa.array([[1]])}, {}, "column id is list.*, which is no part of a key"),
        ({"id": pa.array([1])}, {"order": "at"}, "it has no column at"),
        ({"id": pa.array([1]), "at": pa.array(["x"])}, {"order": "at"}, "column at is string"),
        ({"id": pa.array([1]), "_deleted": pa.array([1])}, {}, "column _deleted is int64"),
        ({"id": pa.array([1]), "_offset": pa.array([2**48])}, {}, "column _offset has 28147497671"),
        ({"id": pa.array([1]), "_offset": pa.array(["x"])}, {}, "column _offset is string"),
    ],
)
def test_a_file_without_keys_is_refused_by_name(
    columns: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(NoKeys, match=message):
        read(file(**columns), **settings)
