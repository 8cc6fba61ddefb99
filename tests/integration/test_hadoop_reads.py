"""Independent readers read Landfall's objects: Hadoop, Spark, DuckDB, Java's gzip and zcat."""

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import msgpack
import numpy as np
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from landfall.formats import Block, Format
from landfall.formats.jsonlines import JsonFormat
from landfall.formats.parquet import ParquetFormat
from landfall.formats.sequencefile import SequenceFileFormat
from landfall.formats.text import TextFormat
from landfall.ledger.offsets import TopicPartition
from landfall.pipeline.records import Records, of_columns
from tests.support.landing.spark_start import QUICK

pytestmark = pytest.mark.xdist_group("spark")

CLICKS = TopicPartition("clicks", 3)
COMPRESSIONS = [
    (compression, codec) for compression in ("Block", "Record") for codec in ("Deflate", "Gzip")
] + [("None", "None")]
LARGE = b"%d large " % 7 * 1_200_000  # over 10 MB
VALUES = [b'{"n": %d, "text": "%s"}' % (n, b"w" * (n % 97)) for n in range(3000)]
UNUSUAL = [LARGE, b"", None, b"\xff\x00", b"x" * (2**24 + 5)]
UNUSUAL_KEYS = [None, b"", b"k" * 70_000, b"k", b"\xff\x00"]
UNUSUAL_TIMES = [-1, 0, 1763683200000, -1, 255]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    end_jvm()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("formats")
        .config("spark.ui.enabled", "false")
    )
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    session = (
        builder.config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", QUICK)
        .getOrCreate()
    )
    yield session
    session.stop()


def end_jvm() -> None:
    """End the JVM of this process, if there is one: it has a driver's heap, a quarter of this."""
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None


def unusual_records() -> Records:
    keys, times = pa.array(UNUSUAL_KEYS, pa.binary()), np.array(UNUSUAL_TIMES, np.int64)
    return of_columns(
        CLICKS, np.arange(5), pa.array(UNUSUAL, pa.binary()), keys=keys, timestamps=times
    )


def plain_blocks() -> list[Records]:
    offsets, values = np.arange(3000), pa.array(VALUES, pa.binary())
    keys = pa.array([b"%d" % (n % 5) for n in range(3000)], pa.binary())
    whole = of_columns(CLICKS, offsets, values, keys=keys, timestamps=1763683200000 + offsets)
    return [whole.take(np.arange(start, min(3000, start + 700))) for start in range(0, 3000, 700)]


def write(path: Path, format_: Format, *blocks: Records) -> Path:
    encoder = format_.encoder()
    path.write_bytes(
        b"".join((*(encoder.encode(Block(block)) for block in blocks), encoder.finish()))
    )
    return path


def hadoop_rows(spark: SparkSession, path: Path) -> list[tuple[Any, bytes]]:
    """Return key and value of every record, read by Hadoop's own reader."""
    jvm, conf = spark._jvm, spark._jsc.hadoopConfiguration()
    hadoop = jvm.org.apache.hadoop
    options = spark._sc._gateway.new_array(jvm.org.apache.hadoop.io.SequenceFile.Reader.Option, 1)
    options[0] = hadoop.io.SequenceFile.Reader.file(hadoop.fs.Path(path.as_uri()))
    reader = hadoop.io.SequenceFile.Reader(conf, options)
    key, value = reader.getKeyClass().newInstance(), hadoop.io.BytesWritable()
    read_key = key.get if "Long" in reader.getKeyClassName() else lambda: bytes(key.copyBytes())
    rows = []
    while reader.next(key, value):
        rows.append((read_key(), bytes(value.copyBytes())))
    reader.close()
    return rows


def rows_of(query: str) -> list[Any]:
    relation = duckdb.connect().sql(query)
    assert relation is not None
    return relation.fetchall()


def expected_key(offset: int, key: bytes | None, time: int) -> bytes:
    return bytes(
        msgpack.packb({1: offset, **({3: time} if time != -1 else {}), **({2: key} if key else {})})
    )


@pytest.mark.parametrize(("compression", "codec"), COMPRESSIONS)
@pytest.mark.parametrize("mode", ["Legacy", "MessagePack"])
def test_hadoop_reads_unusual_records(
    spark: SparkSession, tmp_path: Path, mode: str, compression: str, codec: str
) -> None:
    file = SequenceFileFormat.of({"keyMode": mode, "compression": compression, "codec": codec})

    rows = hadoop_rows(spark, write(tmp_path / "a.seq", file, unusual_records()))

    packed = [expected_key(*row) for row in zip(range(5), UNUSUAL_KEYS, UNUSUAL_TIMES, strict=True)]
    assert [key for key, _ in rows] == (packed if mode == "MessagePack" else list(range(5)))
    assert [value for _, value in rows] == [value or b"" for value in UNUSUAL]


@pytest.mark.parametrize(("compression", "codec"), COMPRESSIONS)
@pytest.mark.parametrize("mode", ["Legacy", "MessagePack"])
def test_spark_reads_a_file_in_splits(
    spark: SparkSession, tmp_path: Path, mode: str, compression: str, codec: str
) -> None:
    """Splits begin in the middle of the file and look for the next sync marker."""
    file = SequenceFileFormat.of({"keyMode": mode, "compression": compression, "codec": codec})
    path = write(tmp_path / "a.seq", file, *plain_blocks())

    found = spark.sparkContext.sequenceFile(path.as_uri(), minSplits=5).collect()

    keys = [
        key if mode == "Legacy" else msgpack.unpackb(key, strict_map_key=False) for key, _ in found
    ]
    packed = [{1: n, 3: 1763683200000 + n, 2: b"%d" % (n % 5)} for n in range(3000)]
    assert keys == (list(range(3000)) if mode == "Legacy" else packed)
    assert [bytes(value) for _, value in found] == VALUES


@pytest.mark.parametrize("codec", ["Gzip", "Zstd", "None"])
def test_duckdb_reads_json_of_many_blocks(tmp_path: Path, codec: str) -> None:
    json = JsonFormat.of({"codec": codec})
    path = write(tmp_path / f"a{json.extension}", json, *plain_blocks())

    found = rows_of(f"select count(*), sum(n), count(distinct n) from read_json('{path}')")

    assert found == [(3000, 2999 * 1500, 3000)]


@pytest.mark.parametrize("codec", ["Gzip", "Zstd", "None"])
def test_spark_reads_json_of_many_blocks(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    json = JsonFormat.of({"codec": codec})
    path = write(tmp_path / f"a{json.extension}", json, *plain_blocks())

    rows = spark.read.schema("n long, text string").json(path.as_uri()).collect()

    assert [(row.n, len(row.text)) for row in rows] == [(n, n % 97) for n in range(3000)]


def test_gzip_of_many_blocks_is_read_by_zcat_python_and_java(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.txt.gz", TextFormat.of({}), *plain_blocks())
    jvm = spark._jvm

    java = jvm.java.util.zip.GZIPInputStream(jvm.java.io.FileInputStream(str(path)))

    lines = b"".join(value + b"\n" for value in VALUES)
    assert subprocess.run(["zcat", path], check=True, capture_output=True).stdout == lines
    assert gzip.decompress(path.read_bytes()) == lines
    assert bytes(java.readAllBytes()) == lines


@pytest.mark.parametrize("codec", ["Zstd", "Snappy", "Gzip", "None"])
def test_spark_and_duckdb_read_parquet_of_many_row_groups(
    spark: SparkSession, tmp_path: Path, codec: str
) -> None:
    path = write(
        tmp_path / "a.parquet",
        ParquetFormat.of({"codec": codec}),
        unusual_records(),
        *plain_blocks(),
    )

    by_spark = [
        (row.topic, row.partition, row.offset, row.key, row.value, row.headers)
        for row in spark.read.parquet(path.as_uri()).collect()
    ]
    by_duckdb = rows_of(
        'select topic, partition, "offset", epoch_ms(timestamp), key, value, headers'
        f" from read_parquet('{path}')"
    )

    keys, values = [*UNUSUAL_KEYS, *(b"%d" % (n % 5) for n in range(3000))], [*UNUSUAL, *VALUES]
    times = [
        *(time if time != -1 else None for time in UNUSUAL_TIMES),
        *(1763683200000 + n for n in range(3000)),
    ]
    offsets = [*range(5), *range(3000)]
    expected = list(zip(offsets, keys, values, strict=True))
    assert by_spark == [("clicks", 3, offset, key, value, []) for offset, key, value in expected]
    timed = zip(expected, times, strict=True)
    assert by_duckdb == [
        ("clicks", 3, offset, time, key, value, []) for (offset, key, value), time in timed
    ]
