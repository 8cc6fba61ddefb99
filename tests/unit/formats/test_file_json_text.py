"""Typed rows of Parquet and Avro keep their types, and lose nothing as JSON."""

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from landfall.formats.avro.parts import AvroReader
from landfall.formats.json_text import json_objects, json_texts
from landfall.formats.parquet.parts import ParquetReader
from landfall.formats.parts import FilePart
from tests.support.payloads.file_records import MemoryFile, avro_file

INSTANT = datetime(2026, 11, 21, 4, 0, 0, 1234, UTC)


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        (pa.int8(), -3, "-3"),
        (pa.uint64(), 2**64 - 1, "18446744073709551615"),
        (pa.bool_(), True, "true"),
        (pa.float16(), np.float16(0.5), "0.5"),
        (pa.float32(), 0.1, "0.10000000149011612"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float64(), float("-inf"), '"-Infinity"'),
        (pa.decimal128(38, 4), Decimal("1234567890123456789012345678901234.5000"),
         '"1234567890123456789012345678901234.5000"'),
        (pa.decimal256(50, 1), Decimal("-0.1"), '"-0.1"'),
        (pa.string(), 'a"\\\n\x01é😀', '"a\\"\\\\\\n\\u0001é😀"'),
        (pa.large_string(), "a", '"a"'),
        (pa.string_view(), "a", '"a"'),
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.large_binary(), b"", '""'),
        (pa.binary(2), b"ab", '"YWI="'),
        (pa.date32(), date(2026, 11, 21), '"2026-11-21"'),
        (pa.date64(), date(1582, 1, 1), '"1582-01-01"'),
        (pa.time32("ms"), time(1, 2, 3, 4000), '"01:02:03.004"'),
        (pa.timestamp("s"), datetime(1960, 1, 2, 3, 4, 5),  # noqa: DTZ001  # a time without a zone
         '"1960-01-02T03:04:05"'),
        (pa.timestamp("us", "UTC"), INSTANT, '"2026-11-21T04:00:00.001234Z"'),
        (pa.timestamp("us", "Europe/Berlin"), INSTANT, '"2026-11-21T04:00:00.001234Z"'),
        (pa.timestamp("ns", "UTC"), INSTANT, '"2026-11-21T04:00:00.001234000Z"'),
        (pa.duration("ms"), 1500, "1500"),
        (pa.list_(pa.int8()), [1, None], "[1,null]"),
        (pa.large_list(pa.string()), [], "[]"),
        (pa.list_(pa.int8(), 2), [1, 2], "[1,2]"),
        (pa.struct([("a", pa.int8()), ("b", pa.binary())]), {"a": 1, "b": b"a"},
         '{"a":1,"b":"YQ=="}'),
        (pa.struct([]), {}, "{}"),
        (pa.map_(pa.string(), pa.int8()), [("k", 1), ('"', None)], '{"k":1,"\\"":null}'),
        (pa.map_(pa.int8(), pa.int8()), [(1, 2)], '[{"key":1,"value":2}]'),
        (pa.list_(pa.map_(pa.string(), pa.list_(pa.int8()))), [[("k", [1])], None, []],
         '[{"k":[1]},null,{}]'),
        (pa.dictionary(pa.int8(), pa.string()), "a", '"a"'),
        (pa.null(), None, "null"),
        (pa.uuid(), b"0123456789abcdef", '"MDEyMzQ1Njc4OWFiY2RlZg=="'),
    ],
)  # fmt: skip
def test_values_of_each_type(type_: pa.DataType, value: object, written: str) -> None:
    column = pa.array([value, None, value], type_)

    assert json_texts(column).to_pylist() == [written, "null", written]
    assert json_texts(column[1:]).to_pylist() == ["null", written]
    json.loads(written)


NESTED = pa.struct(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("l", pa.list_(pa.struct([("x", pa.string()), ("m", pa.map_(pa.string(), pa.int8()))]))),
    ]
)
SMALL = st.integers(-128, 127)
ROWS = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-(2**63), 2**63 - 1),
            "s": st.none() | st.text(max_size=4),
            "l": st.none()
            | st.lists(
                st.none()
                | st.fixed_dictionaries(
                    {
                        "x": st.text(max_size=2),
                        "m": st.none() | st.dictionaries(st.text(max_size=2), SMALL, max_size=2),
                    }
                ),
                max_size=3,
            ),
        }
    ),
    max_size=6,
)


@given(rows=ROWS, start=st.integers(0, 6))
def test_nested_rows_are_those_that_json_reads_back(rows: list[object], start: int) -> None:
    column = pa.array(rows, NESTED).slice(min(start, len(rows)))
    batch = pa.RecordBatch.from_arrays([column], ["row"])

    found = [json.loads(value)["row"] for value in json_objects(batch).to_pylist()]

    assert found == column.to_pylist(maps_as_pydicts="strict")


def test_parquet_has_the_types_of_the_file() -> None:
    table = pa.table(
        {
            "sum": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
            "at": pa.array([INSTANT, None], pa.timestamp("us", "UTC")),
            "raw": pa.array([b"\xff", b""], pa.binary()),
        }
    )
    made = io.BytesIO()
    pq.write_table(table, made)

    (chunk,) = ParquetReader().read(MemoryFile("f", made.getvalue()), FilePart(0, made.tell()))

    assert chunk.columns == table.to_batches()[0]
    assert chunk.values.to_pylist()[0] == (
        b'{"sum":"1.50","at":"2026-11-21T04:00:00.001234Z","raw":"/w=="}'
    )


def test_avro_has_the_types_of_its_schema() -> None:
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    micros = {"type": "long", "logicalType": "timestamp-micros"}
    fields = [{"name": "sum", "type": money}, {"name": "at", "type": micros}]
    content = avro_file(
        {"type": "record", "name": "R", "fields": fields},
        [{"sum": Decimal("1.50"), "at": INSTANT}],
        100,
    )

    (chunk,) = AvroReader().read(MemoryFile("f", content), FilePart(0, len(content)))

    assert chunk.columns is not None
    assert chunk.columns.to_pylist() == [{"sum": Decimal("1.50"), "at": INSTANT}]
    assert chunk.values.to_pylist() == [b'{"sum":"1.50","at":1795233600001234}']
