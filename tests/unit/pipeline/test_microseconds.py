"""Times are microseconds in every column that Landfall gives a type, whatever they come from."""

import json
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from math import floor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.api.spec import Column, ColumnType, ColumnUnit, Timestamp, TimeUnit
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.decoders import Wanted
from landfall.pipeline.decoders.json import JsonDecoder
from landfall.pipeline.decoders.typed_columns import (
    TIMESTAMP,
    as_timestamps,
    record_batch,
    schema_of,
)
from landfall.pipeline.event_time import column_times
from landfall.pipeline.event_time.numbers import float_times
from landfall.pipeline.records import filled
from tests.support.driver.transformed import Group, payloads

SCHEMA = schema_of([Column(name="at", type=ColumnType.TIMESTAMP)])
TP = TopicPartition("t", 0)
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
        (1.0009, 1000),
        (1.001, 1001),
        (None, None),
    ],
)
def test_a_declared_column_keeps_microseconds(value: object, micros: int | None) -> None:
    for values in ([value, "1970-01-02"], [value, 86_400_000]):
        batch, errors = record_batch(SCHEMA, [values])

        assert errors == {}
        assert batch.schema.field("at").type == TIMESTAMP == pa.timestamp("us", "UTC")
        assert batch.column(0).cast(pa.int64()).to_pylist() == [micros, DAY]


MIDNIGHT = 1_763_683_200
"""2025-11-21T00:00:00Z, in seconds."""
DISTINCT = 2**33
"""Seconds around 1970, of which doubles tell microseconds apart."""


@pytest.mark.parametrize(
    ("unit", "number", "micros_before_midnight"),
    [
        ("Seconds", 1763683199.999999, 1),
        ("Seconds", 1763683199.9999984, 2),
        ("Seconds", 1763683199.9999996, 1),
        ("Auto", 1763683199.9999998, 1),
        ("Seconds", "1763683199.9999999", 1),
        ("Milliseconds", 1763683199999.999, 1),
        ("Milliseconds", 1763683199999.9985, 2),
        ("Auto", 1763683199999.9997, 1),
        ("Milliseconds", "1763683199999.99999", 1),
        ("Microseconds", 1763683199999999.8, 1),
        ("Nanoseconds", 1763683199999999999, 1),
    ],
)
def test_the_last_microsecond_of_a_day_is_rounded_down(
    unit: str, number: float | str, micros_before_midnight: int
) -> None:
    schema = schema_of([Column(name="at", type=ColumnType.TIMESTAMP, unit=ColumnUnit(unit))])
    time = Timestamp(field="at", unit=TimeUnit(unit))
    payload = json.dumps({"at": number}).encode()
    step = {"use": "Cast", "options": {"at": {"type": "Timestamp", "unit": unit}}}

    batch, _ = record_batch(schema, [[number]])
    columns = JsonDecoder.of({}, Wanted((), schema)).decode(filled(TP, [0], [payload])).columns
    (text,) = payloads(Group([step]).apply({"at": number}))

    micros = MIDNIGHT * 10**6 - micros_before_midnight
    assert column_times([number], time).micros.tolist() == [micros]
    assert batch.column(0).cast(pa.int64()).to_pylist() == [micros]
    assert columns is not None
    assert columns.column(0).cast(pa.int64()).to_pylist() == [micros]
    moment = datetime.fromtimestamp(MIDNIGHT, UTC) - timedelta(microseconds=micros_before_midnight)
    assert json.loads(text or b"") == {"at": moment.isoformat().replace("+00:00", "Z")}


@given(st.floats(-DISTINCT + 1, DISTINCT))
def test_a_double_is_rounded_down_but_for_that_of_a_microsecond(seconds: float) -> None:
    (made,) = float_times(np.array([seconds]), TimeUnit.SECONDS).micros.tolist()

    exact = Fraction(seconds) * 10**6
    assert made == floor(exact) or float(Fraction(made, 10**6)) == seconds
    assert abs(made - exact) < 1


@given(st.integers((-DISTINCT + 1) * 10**6, DISTINCT * 10**6 - 1))
def test_a_microsecond_is_that_of_its_double(micros: int) -> None:
    seconds = np.array([micros / 10**6])

    assert float_times(seconds, TimeUnit.SECONDS).micros.tolist() == [micros]
    millis = np.array([micros / 10**3])
    assert float_times(millis, TimeUnit.MILLISECONDS).micros.tolist() == [micros]


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
