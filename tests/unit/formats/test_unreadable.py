"""Values that a file could store and readers could not hold make dead letters, however deep."""

import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import orc

from landfall.formats import Row, unreadable
from landfall.formats.orc import OrcFormat
from landfall.formats.parquet import ParquetFormat
from landfall.formats.typed_rows import plain_rows
from landfall.pipeline.records import of_columns
from tests.support.driver.slice_landing import TP
from tests.support.payloads.avro import Declared, encoded, reference
from tests.support.payloads.own_schemas import fixed, is_data, landed, reasons

MICROS: Declared = {"type": "long", "logicalType": "timestamp-micros"}
MILLIS: Declared = {"type": "long", "logicalType": "timestamp-millis"}
SCHEMA: Declared = {"type": "record", "name": "T", "fields": [
    {"name": "at", "type": ["null", MICROS]},
    {"name": "inner", "type": {"type": "record", "name": "In", "fields": [
        {"name": "all", "type": {"type": "array", "items": MILLIS}},
        {"name": "by", "type": {"type": "map", "values": ["null", {
            "type": "int", "logicalType": "date"}]}},
    ]}},
]}  # fmt: skip
LAST_SECOND = 9_223_372_036


def value(at: int | None = None, every: tuple[int, ...] = (), **by: int | None) -> dict[str, Any]:
    return {"at": at, "inner": {"all": list(every), "by": by}}


HELD = [
    value(),
    value(0, (0, -1000), a=-141_427, b=None),
    value(-LAST_SECOND * 10**6, (LAST_SECOND * 1000 - 1,), a=2**31 - 1),
]
ONLY_PARQUET = [
    value(-1),
    value(LAST_SECOND * 10**6),
    value(None, (0, 1, -1)),
    value(None, (0, LAST_SECOND * 1000)),
    value(None, (), a=0, b=-141_428),
]
NOWHERE = [value(None, (0, 2**62)), value(None, (-(2**63), 0))]


@pytest.mark.parametrize("format_", ["Orc", "Parquet"])
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_rows_that_readers_cannot_hold_are_dead_letters(format_: str, chunk: int) -> None:
    good = HELD if format_ == "Orc" else [*HELD, *ONLY_PARQUET]
    every = [*ONLY_PARQUET, *NOWHERE, *HELD, *NOWHERE]
    rows = [(100 + i, encoded(SCHEMA, each)) for i, each in enumerate(every)]

    made, objects = landed(rows, fixed(SCHEMA, format=format_), chunk)

    assert (made.landed, made.dead_lettered) == (len(good), len(every) - len(good))
    column, name = ("at", "ORC") if format_ == "Orc" else ("inner", "Parquet")
    assert made.errors[0].endswith(": encode")
    assert f"column {column}: a time that not every reader of {name}" in reasons(objects)[0]


def test_what_is_below_a_null_and_beside_a_slice_counts_for_nothing() -> None:
    late = pa.array([2**62], pa.timestamp("us"))
    hidden = pa.StructArray.from_arrays([late], ["at"], mask=pa.array([True]))
    lists = pa.ListArray.from_arrays(pa.array([0, 0, 1, 1], pa.int32()), late)
    batch = pa.record_batch([hidden, lists.slice(2)], ["a", "b"])

    assert unreadable.refused(batch, unreadable.wrong_in_orc, "x") == {}
    shown = pa.record_batch([lists], ["b"])
    assert unreadable.refused(shown, unreadable.wrong_in_orc, "x") == {1: "column b: x"}


@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        (OrcFormat.of({}), [-1, 0, 10**12, -1000], [-2, -1001, 2**62, -(2**63)]),
        (ParquetFormat.of({}), [-1, 0, -2, 253_402_300_800_000], [2**62, 2**63 - 1, -(2**63)]),
    ],
)
def test_kafka_timestamps_are_looked_at_too(
    format_: OrcFormat | ParquetFormat, good: list[int], bad: list[int]
) -> None:
    every = [*good, *bad]
    records = of_columns(
        TP,
        np.arange(len(every)),
        pa.array([b"x"] * len(every), pa.binary()),
        timestamps=np.array(every, np.int64),
    )

    refused = format_.refuse(records)

    assert refused.rows.tolist() == list(range(len(good), len(every)))
    assert refused.errors[0].startswith("Kafka timestamp: a time that not every reader of")


def test_the_times_that_land_in_orc_are_read_back() -> None:
    rows = [(100 + i, encoded(SCHEMA, each)) for i, each in enumerate(HELD)]

    _, objects = landed(rows, fixed(SCHEMA, format="Orc"))

    (body,) = [body for key, body in objects.items() if is_data(key)]
    found = orc.read_table(io.BytesIO(body))
    micros = found["at"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    assert micros == [each["at"] for each in HELD]
    assert [row.offset for row in OrcFormat.of({}).rows(io.BytesIO(body))] == [100, 101, 102]


def test_a_year_that_python_has_not_is_shown_as_a_number() -> None:
    rows = [(100, encoded(SCHEMA, value(0))), (101, encoded(SCHEMA, value(2**62, a=2_932_897)))]

    _, objects = landed(rows, fixed(SCHEMA))

    (body,) = objects.values()
    found = [
        row.value for row in ParquetFormat.of({}).rows(io.BytesIO(body)) if isinstance(row, Row)
    ]
    assert found == [
        b'{"at":"1970-01-01T00:00:00Z","inner":{"all":[],"by":{}}}',
        b'{"at":4611686018427387904,"inner":{"all":[],"by":{"a":2932897}}}',
    ]


def test_flags_are_keys_of_maps_in_json() -> None:
    inner = pa.array([[(True, [[(False, 1)]])], None], pa.map_(pa.bool_(), pa.list_(FLAGS)))

    assert plain_rows(pa.record_batch([inner], ["by"])) == [
        {"by": {"true": [{"false": 1}]}},
        {"by": None},
    ]


FLAGS = pa.map_(pa.bool_(), pa.int64())


def test_nanoseconds_are_cut() -> None:
    batch = pa.record_batch([pa.array([1999], pa.timestamp("ns"))], ["at"])

    (row,) = plain_rows(batch)

    assert row["at"].microsecond == 1


COUNTS: Declared = {"type": "record", "name": "C", "fields": [
    {"name": "by", "type": {"type": "map", "values": "int"}},
    {"name": "all", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
]}  # fmt: skip
ONCE, TWICE = bytes.fromhex("04 0261 02 0262 04 00"), bytes.fromhex("04 0261 02 0261 04 00")
EMPTY, IN_BLOCKS = b"\0", bytes.fromhex("02 0261 02 02 0261 04 00")


@pytest.mark.parametrize("format_", ["Orc", "Parquet"])
def test_of_a_key_that_is_there_twice_the_last_value_lands(format_: str, tmp_path: Path) -> None:
    every = [
        ONCE + EMPTY,
        TWICE + EMPTY,
        EMPTY + b"\x06" + ONCE + EMPTY + ONCE + b"\0",
        IN_BLOCKS + EMPTY,
        EMPTY + b"\x04" + ONCE + TWICE + b"\0",
        EMPTY + EMPTY,
        ONCE + EMPTY,
    ]
    expected = [reference(COUNTS, payload)[0] for payload in every]

    for chunk in (1, 3, 100):
        made, objects = landed([*enumerate(every, 100)], fixed(COUNTS, format=format_), chunk)
        assert made.errors == ()
        (body,) = [body for key, body in objects.items() if is_data(key)]
        table = orc.read_table(io.BytesIO(body)) if format_ == "Orc" else by_duckdb(body, tmp_path)
        rows = table.select(["by", "all"]).to_pylist(maps_as_pydicts="strict")
        assert rows == expected


def by_duckdb(body: bytes, folder: Path) -> pa.Table:
    (folder / "maps.parquet").write_bytes(body)
    query = f"""SELECT "by", "all" FROM '{folder}/maps.parquet'"""
    return duckdb.connect().sql(query).to_arrow_table()


def test_keys_of_a_slice_of_numbers_are_compared() -> None:
    type_ = pa.map_(pa.float64(), pa.int64())
    maps = pa.array([[(1.0, 1), (1.0, 2)], [(1.0, 1)], None, [(2.0, 1), (3.0, 1), (2.0, 1)]], type_)

    for start, expected in ((0, {0, 3}), (1, {2}), (3, {0})):
        batch = pa.record_batch([maps.slice(start)], ["by"])
        assert set(unreadable.refused(batch, unreadable.wrong_in_parquet, "x")) == expected
