"""Times are microseconds in every column that Landfall gives a type, whatever they come from."""

from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from landfall.api.spec import Column, ColumnType
from landfall.pipeline.decoders.typed_columns import (
    TIMESTAMP,
    as_timestamps,
    record_batch,
    schema_of,
)

SCHEMA = schema_of([Column(name="at", type=ColumnType.TIMESTAMP)])
DAY = 86_400 * 10**6
END = 2**63 - 1


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        ("1970-01-01T00:00:00.123456Z", 123_456),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        ("1969-12-31T23:59:59.999999999Z", -1),
        ("1970-01-01T01:00:00.000001+01:00", 1),
        ("1970-01-01 00:00:00.000001", 1),
        ("12", 12_000),
        (12, 12_000),
        (None, None),
    ],
)
def test_a_declared_column_keeps_microseconds(value: object, micros: int | None) -> None:
    for values in ([value, "1970-01-02"], [value, 86_400_000]):
        batch, errors = record_batch(SCHEMA, [values])

        assert errors == {}
        assert batch.schema.field("at").type == TIMESTAMP == pa.timestamp("us", "UTC")
        assert batch.column(0).cast(pa.int64()).to_pylist() == [micros, DAY]


@pytest.mark.parametrize(
    ("type_", "values", "made"),
    [
        (pa.timestamp("s"), [1, -1, None, END], [10**6, -(10**6), None, None]),
        (pa.timestamp("ms", "UTC"), [1, -1, None, END], [1000, -1000, None, None]),
        (pa.timestamp("ms"), [END // 1000, END // 1000 + 1], [END // 1000 * 1000, None]),
        (pa.timestamp("ms"), [-(2**63), -(2**62)], [None, None]),
        (pa.timestamp("us", "Europe/Berlin"), [1, END, -END, None], [1, END, -END, None]),
        (pa.timestamp("ns"), [1999, -1, None, END], [1, -1, None, END // 1000]),
    ],
)
def test_a_time_of_any_unit_is_rounded_down_and_one_that_is_too_far_away_is_named(
    type_: pa.DataType, values: list[int | None], made: list[int | None]
) -> None:
    times, outside = as_timestamps(pa.array(values, type_))

    assert times.type == TIMESTAMP
    assert times.cast(pa.int64()).to_pylist() == made
    assert list(outside) == [
        row for row, value in enumerate(values) if value is not None and made[row] is None
    ]


def test_a_date_is_its_beginning_in_utc() -> None:
    days = pa.array([date(1970, 1, 2), date(1, 1, 1), None]).cast(pa.date32())
    far = pa.array(np.array([2**31 - 1, -(2**31)], np.int32)).view(pa.date32())

    assert as_timestamps(days)[0].cast(pa.int64()).to_pylist() == [DAY, -719_162 * DAY, None]
    assert list(as_timestamps(far)[1]) == [0, 1]
