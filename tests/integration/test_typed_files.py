"""Files with columns of the payloads' schema, read by Spark, Hive, DuckDB and Avro for Java."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from time import timezone
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from tests.integration.test_hadoop_reads import spark  # noqa: F401  # a fixture
from tests.support.payloads.avro import Declared, encoded
from tests.support.payloads.own_schemas import fixed, is_data, landed, reasons

pytestmark = pytest.mark.xdist_group("spark")

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}
SCHEMA: Declared = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "who", "type": ["null", "string"]},
        {"name": "price", "type": DECIMAL},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "ratio", "type": "double"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "by", "type": {"type": "map", "values": "int"}},
        {"name": "inner", "type": {"type": "record", "name": "In", "fields": [
            {"name": "x", "type": ["null", "int"]},
            {"name": "raw", "type": "bytes"},
        ]}},
        {"name": "either", "type": ["null", "long", "string"]},
    ],
}  # fmt: skip
ROWS = 100
CHECK = """
    count(*), sum(id), count(who), sum(price), min(day), max(at), min(kind), max(kind),
    sum(CASE WHEN lower(CAST(ratio AS STRING)) = 'nan' THEN 1 ELSE 0 END),
    sum(CASE WHEN inner_x IS NULL THEN 1 ELSE 0 END),
    min(_offset), max(_offset), sum(n_tags), sum(of_k), count(long_one)
"""


def value(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "who": None if n % 7 == 0 else f"user {n} ü",
        "price": Decimal(n) / 1000 - 1,
        "day": date(2026, 1, 1 + n % 28),
        "at": datetime(2026, 11, 21, 4, 0, n % 60, n, tzinfo=UTC),
        "ratio": math.nan if n % 11 == 0 else n / 2,
        "kind": "AB"[n % 2],
        "tags": ["x"] * (n % 4),
        "by": {"k": n, "l": -n},
        "inner": {"x": None if n % 3 == 0 else n, "raw": bytes([n % 256])},
        "either": [None, n, f"text {n}"][n % 3],
    }


def truth() -> tuple[object, ...]:
    """What every reader must find."""
    rows = [value(n) for n in range(ROWS)]
    return (
        ROWS,
        sum(row["id"] for row in rows),
        sum(row["who"] is not None for row in rows),
        sum((row["price"] for row in rows), Decimal(0)),
        date(2026, 1, 1),
        max(row["at"] for row in rows).replace(tzinfo=None),
        "A",
        "B",
        sum(math.isnan(row["ratio"]) for row in rows),
        sum(row["inner"]["x"] is None for row in rows),
        100,
        100 + ROWS - 1,
        sum(len(row["tags"]) for row in rows),
        sum(row["by"]["k"] for row in rows),
        sum(isinstance(row["either"], int) for row in rows),
    )


@pytest.fixture(scope="module")
def payloads() -> list[tuple[int, bytes]]:
    return [(100 + n, encoded(SCHEMA, value(n))) for n in range(ROWS)]


def file_of(payloads: list[tuple[int, bytes]], folder: Path, **output: object) -> Path:
    """The one object that lands, as a file."""
    spec = fixed(SCHEMA, **output)
    made, objects = landed(payloads, spec)
    assert made.errors == ()
    ((key, body),) = [(key, body) for key, body in objects.items() if is_data(key)]
    path = folder / key.rpartition("/")[2]
    path.write_bytes(body)
    return path


@pytest.fixture
def utc(spark: SparkSession) -> Iterator[SparkSession]:  # noqa: F811  # the fixture
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    spark.conf.unset("spark.sql.session.timeZone")


def by_spark(spark: SparkSession, format_: str, path: Path) -> tuple[object, ...]:  # noqa: F811  # as above
    spark.read.format(format_).load(str(path)).createOrReplaceTempView("landed")
    spark.sql("""CREATE OR REPLACE TEMP VIEW flat AS SELECT *, inner.x AS inner_x,
        size(tags) AS n_tags, by['k'] AS of_k, either.long AS long_one FROM landed""")
    (row,) = spark.sql(f"SELECT {CHECK} FROM flat").collect()
    return tuple(row)


def in_utc(found: tuple[object, ...]) -> tuple[object, ...]:
    """The same with the latest time as wall time in UTC."""
    at = found[5]
    assert isinstance(at, datetime)
    if at.tzinfo is not None:
        at = at.astimezone(UTC).replace(tzinfo=None)
    elif timezone:
        pytest.skip("Spark gives times in the zone of the machine")
    return (*found[:5], at, *found[6:])


@pytest.mark.parametrize("codec", ["Zstd", "Snappy", "Gzip", "None"])
def test_spark_and_duckdb_read_parquet(
    utc: SparkSession, tmp_path: Path, payloads: list[tuple[int, bytes]], codec: str
) -> None:
    path = file_of(
        payloads, tmp_path, codec=codec, options={"pageIndex": True, "bloomFilters": "id"}
    )

    assert in_utc(by_spark(utc, "parquet", path)) == truth()
    found = duckdb.connect().execute(
        f"""WITH flat AS (SELECT *, "inner".x AS inner_x, len(tags) AS n_tags, "by"['k'] AS of_k,
        either.long AS long_one, "at" AT TIME ZONE 'UTC' AS at_utc FROM '{path}')
        SELECT {CHECK.replace("max(at)", "max(at_utc)")} FROM flat"""
    )
    assert found.fetchall() == [truth()]


HIVE = "org.apache.spark.sql.hive.orc.OrcFileFormat"
"""Hive's own reader of ORC, which Spark has beside its newer one."""


@pytest.mark.parametrize("reader", ["orc", HIVE])
@pytest.mark.parametrize("codec", ["Zstd", "Snappy", "Deflate", "None"])
def test_spark_and_hive_read_orc(
    utc: SparkSession, tmp_path: Path, payloads: list[tuple[int, bytes]], reader: str, codec: str
) -> None:
    if (reader, codec) == (HIVE, "Zstd"):
        pytest.skip("Hive 2.3's reader of ORC is older than Zstd")
    # Hive 2.3 knows no instants.
    options = {"timestamps": "Utc" if reader == HIVE else "Instant"}
    path = file_of(payloads, tmp_path, format="Orc", codec=codec, options=options)

    assert in_utc(by_spark(utc, reader, path)) == truth()


@pytest.mark.parametrize("codec", ["Deflate", "Zstd", "Snappy", "None"])
@pytest.mark.parametrize("envelope", [True, False])
def test_avro_for_java_reads_containers(
    utc: SparkSession,
    tmp_path: Path,
    payloads: list[tuple[int, bytes]],
    codec: str,
    envelope: bool,
) -> None:
    path = file_of(
        payloads,
        tmp_path,
        format="Avro",
        columns="Declared",
        codec=codec,
        options={"envelope": envelope, "blockBytes": "1Ki"},
    )

    java = utc._jvm
    assert java is not None
    reader = java.org.apache.avro.file.DataFileReader(
        java.java.io.File(str(path)), java.org.apache.avro.generic.GenericDatumReader()
    )
    ids, offsets = [], []
    while reader.hasNext():
        record = reader.next()
        ids.append(int(record.get("id")))
        if envelope:
            offsets.append(int(record.get("_offset")))
    assert ids == list(range(ROWS))
    assert offsets == (list(range(100, 100 + ROWS)) if envelope else [])
    assert str(reader.getSchema().getFullName()) == "shop.Order"
    # A reader in the middle finds the next block by the sync marker.
    reader.sync(path.stat().st_size // 2)
    left = 0
    while reader.hasNext():
        reader.next()
        left += 1
    reader.close()
    assert 0 < left < ROWS


def test_a_time_of_day_is_a_time_in_parquet_and_text_in_orc(
    utc: SparkSession, tmp_path: Path
) -> None:
    schema = {"type": "record", "name": "T", "fields": [
        {"name": "t", "type": {"type": "int", "logicalType": "time-millis"}},
    ]}  # fmt: skip
    payload = encoded(schema, {"t": time(4, 5, 6, 7000)})
    for format_, expected in (("Parquet", time(4, 5, 6, 7000)), ("Orc", "04:05:06.007")):
        made, objects = landed([(100, payload)], fixed(schema, format=format_))
        assert made.landed == 1
        path = tmp_path / f"t.{format_}"
        path.write_bytes(next(iter(objects.values())))
        if format_ == "Parquet":
            found = duckdb.connect().execute(f"SELECT t FROM read_parquet('{path}')").fetchall()
            assert found == [(expected,)]
        else:
            assert utc.read.orc(str(path)).select("t").collect()[0][0] == expected


@pytest.mark.parametrize("reader", ["parquet", "orc", HIVE])
def test_nan_is_found_by_a_comparison(
    utc: SparkSession, tmp_path: Path, payloads: list[tuple[int, bytes]], reader: str
) -> None:
    """Spark takes it for the largest number; minimum and maximum must not hide it."""
    output: dict[str, Any] = {"format": "Parquet", "options": {"pageIndex": True}}
    if reader != "parquet":
        output = {"format": "Orc", "codec": "Snappy", "options": {"timestamps": "Utc"}}
    path = file_of(payloads, tmp_path, **output)

    found = utc.read.format(reader).load(str(path))

    assert found.where("ratio > 1e9").count() == truth()[8]
    assert found.where("ratio = double('NaN')").count() == truth()[8]


TIMES: Declared = {"type": "record", "name": "Times", "fields": [
    {"name": "us", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "ms", "type": {"type": "array", "items": {
        "type": "long", "logicalType": "timestamp-millis"}}},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
]}  # fmt: skip
LAST_SECOND = 9_223_372_036
HELD = [
    (0, [], None),
    (-1_000_000, [-1000, 1], -1),
    (-LAST_SECOND * 10**6, [-LAST_SECOND * 1000], -141_427),
    (LAST_SECOND * 10**6 - 1, [LAST_SECOND * 1000 - 1], 2**31 - 1),
]
NOT_IN_ORC = [
    (-1, [], None),
    (LAST_SECOND * 10**6, [], None),
    (-LAST_SECOND * 10**6 - 1, [], None),
    (0, [5, -1], None),
    (0, [2**62], None),
    (0, [], -141_428),
    (0, [], -(2**31)),
]
NOT_IN_PARQUET = [(0, [2**62], None), (0, [0, -(2**63)], None)]
ALL_TIMES = [*HELD, *NOT_IN_ORC, NOT_IN_PARQUET[1]]


@pytest.mark.parametrize("format_", ["orc", HIVE, "parquet"])
def test_times_that_land_are_read_and_others_are_dead_letters(
    utc: SparkSession, tmp_path: Path, format_: str
) -> None:
    is_parquet = format_ == "parquet"
    rows = [
        (100 + i, encoded(TIMES, dict(zip(("us", "ms", "day"), each, strict=True))))
        for i, each in enumerate(ALL_TIMES)
    ]
    output: dict[str, Any] = {"format": "Parquet" if is_parquet else "Orc"}
    if format_ == HIVE:
        output["options"] = {"timestamps": "Utc"}
    good = [each for each in ALL_TIMES if each not in (NOT_IN_PARQUET if is_parquet else [])]
    good = good if is_parquet else HELD

    made, objects = landed(rows, fixed(TIMES, **output))

    assert (made.landed, made.dead_lettered) == (len(good), len(ALL_TIMES) - len(good))
    assert reasons(objects)[-1].startswith("column ms: a time that not every reader of")
    path = tmp_path / "times"
    path.write_bytes(next(body for key, body in objects.items() if is_data(key)))
    found = (
        utc.read.format(format_)
        .load(str(path))
        .selectExpr(
            "unix_micros(cast(us AS timestamp))",
            "transform(ms, each -> unix_millis(cast(each AS timestamp)))",
            "unix_date(day)",
        )
    )
    assert [tuple(row) for row in found.collect()] == good
    if is_parquet:
        duck = (
            duckdb.connect().execute(f"SELECT epoch_us(us) FROM read_parquet('{path}')").fetchall()
        )
        assert [us for (us,) in duck] == [us for us, *_ in good]
