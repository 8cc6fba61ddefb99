"""The columns of records stay aligned, and are built lazily."""

import numpy as np
import pyarrow as pa
import pytest

from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import HEADERS, BadRows, Columns, Records, filled, of_columns

CLICKS = TopicPartition("clicks", 0)


def rows_of(records: Records) -> list[tuple[object, ...]]:
    columns = (records.offsets, records.timestamps, records.values, records.keys, records.headers)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def three() -> Records:
    return of_columns(
        CLICKS,
        np.array([3, 5, 9]),
        pa.array([b"a", None, b""], pa.binary()),
        timestamps=np.array([10, -1, 30]),
        keys=pa.array([None, b"k", b""], pa.binary()),
        headers=pa.array(
            [[], [{"key": "h", "value": None}, {"key": "h", "value": b"2"}], []], HEADERS
        ),
    )


def test_taking_rows_keeps_every_column_aligned() -> None:
    assert rows_of(three().take(np.array([1, 2]))) == rows_of(three())[1:]


def test_taking_rows_twice_is_taking_them_once() -> None:
    assert rows_of(three().take(np.array([0, 2])).take(np.array([1]))) == rows_of(
        three().take(np.array([2]))
    )


def test_taking_no_rows_gives_no_rows() -> None:
    assert rows_of(three().take(np.empty(0, np.int64))) == []


def test_new_values_keep_the_other_columns() -> None:
    renewed = three().with_values(pa.array([b"x", b"y", b"z"], pa.binary()))

    assert renewed.values.to_pylist() == [b"x", b"y", b"z"]
    assert [row[:2] + row[3:] for row in rows_of(renewed)] == [
        row[:2] + row[3:] for row in rows_of(three())
    ]


def test_columns_that_are_left_out_are_absent() -> None:
    assert rows_of(filled(CLICKS, [7], [b"v"])) == [(7, -1, b"v", None, [])]


def test_optional_columns_are_built_once_and_only_on_access() -> None:
    built: list[str] = []

    def column(name: str, value: object) -> object:
        built.append(name)
        return value

    keys = pa.array([b"k"], pa.binary())
    columns = Columns(
        timestamps=lambda: column("timestamps", np.array([1])),  # type: ignore[arg-type, return-value]
        keys=lambda: column("keys", keys),
        headers=lambda: column("headers", pa.array([[]], HEADERS)),
    )
    records = Records(CLICKS, np.array([7]), pa.array([b"v"], pa.binary()), columns).take(
        np.array([0])
    )

    assert built == []
    assert (records.keys.to_pylist(), records.keys.to_pylist()) == ([b"k"], [b"k"])
    assert built == ["keys"]


def test_every_bad_row_has_its_error() -> None:
    assert len(BadRows(np.array([1, 4]), ("no ts", "not JSON"))) == 2
    assert not BadRows(np.empty(0, np.int64), ())
    with pytest.raises(ValueError, match="2 bad rows with 1 errors"):
        BadRows(np.array([1, 4]), ("no ts",))
