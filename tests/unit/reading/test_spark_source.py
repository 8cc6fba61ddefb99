"""What Spark's source does without Spark: options, tasks, and files that filters leave out."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import (
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from landfall.api.spec import Output
from landfall.reading import File, RowSource
from pyspark_landfall.source import Files, PruningReader, ReadOptions, packed
from pyspark_landfall.types import arrow_schema, spark_schema

SOURCE = RowSource(Output(url="file:///x"), {}, pa.schema([]), ("shop", "0"), {})
SCHEMA = StructType(
    [
        StructField("dt", DateType()),
        StructField("hr", IntegerType()),
        StructField("app", StringType()),
        StructField("id", LongType()),
        StructField("price", DoubleType()),
    ]
)


def file(folders: str, size: int = 10) -> File:
    return File(f"clicks/{folders}/1_0_00000000000000000000.parquet", 3, 1, size)


FILES = [
    file("app=a%2Fb/dt=2026-11-21/hr=04"),
    file("app=c/dt=2026-11-21/hr=05"),
    file("app=__HIVE_DEFAULT_PARTITION__/dt=2026-11-22/hr=05"),
    file("dt=2026-11-22"),
    file("dt=today/hr=x"),
]


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([], [0, 1, 2, 3, 4]),
        ([EqualTo(("hr",), 5)], [1, 2, 3, 4]),
        ([EqualTo(("dt",), date(2026, 11, 22))], [2, 3, 4]),
        ([GreaterThan(("hr",), 4), LessThanOrEqual(("dt",), date(2026, 11, 21))], [1, 4]),
        ([In(("hr",), (4, 7))], [0, 3, 4]),
        ([EqualTo(("app",), "a/b")], [0, 3, 4]),
        ([StringStartsWith(("app",), "a/")], [0, 3, 4]),
        ([EqualTo(("id",), 7), IsNull(("app",)), Not(EqualTo(("hr",), 5))], [0, 1, 2, 3, 4]),
        ([EqualTo(("price",), 1.0), EqualTo(("meta", "hr"), 5)], [0, 1, 2, 3, 4]),
    ],
)
def test_filters_leave_out_files_whose_folders_they_exclude(
    filters: list[Filter], left: list[int]
) -> None:
    reader = PruningReader(SOURCE, FILES, 100, SCHEMA)

    kept_by_spark = reader.pushFilters(filters)

    assert list(reader.files) == [FILES[i] for i in left]
    assert list(kept_by_spark) == filters


def test_tasks_are_about_so_large_and_never_split_a_file() -> None:
    files = [file("dt=1", size) for size in (60, 30, 20, 500, 90, 10, 1)]

    tasks = packed(SOURCE, files, 100)

    sizes = [[each.size for each in task.files] for task in tasks if isinstance(task, Files)]
    assert sizes == [[60, 30], [20], [500], [90, 10], [1]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"slto": "1"}, "option slto: unknown; known are path, topic"),
        ({"slot": "-1"}, "option slot: must be a whole number"),
        ({"since": "noon"}, "option since: not a time"),
        ({}, "name the output root"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], message: str) -> None:
    def read() -> object:
        options = ReadOptions(given)
        return options.number("slot", 0), options.choice, options.open()

    with pytest.raises(ValueError, match=message):
        read()


def test_options_choose_output_partitions() -> None:
    options = ReadOptions({"OUTPUTPARTITION": "dt=1", "since": "2026-11-21T04:00:00"})

    assert options.choice == {
        "output_partition": "dt=1",
        "since": datetime(2026, 11, 21, 4, tzinfo=UTC),
    }


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.uint32(), LongType()),
        (pa.time32("ms"), StringType()),
        (pa.null(), StringType()),
        (pa.map_(pa.string(), pa.uint8()), MapType(StringType(), ShortType())),
    ],
)
def test_columns_that_spark_lacks_are_wider(type_: pa.DataType, expected: DataType) -> None:
    found = spark_schema(pa.schema([pa.field("x", type_)]))

    assert found["x"].dataType == expected
    assert arrow_schema(found).names == ["x"]
