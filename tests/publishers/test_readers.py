"""Streams of Spark that are killed, and the options of its source: what takes long."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

import landfall
from tests.integration.test_hadoop_reads import spark  # noqa: F401  # a fixture
from tests.integration.test_readers import HOURS, ids, land, stream
from tests.support.ledger import readable
from tests.support.ledger.readable import CLICKS, Readable
from tests.unit.reading.test_page import EXAMPLES, landed_in

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("spark")]

QUERY = """
import json, pathlib, sys, time
from pyspark.sql import SparkSession
url, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()

def take(frame, batch):
    rows = [row.id for row in frame.select("id").collect()]
    temporary = pathlib.Path(folder, f".{batch}")
    temporary.write_text(json.dumps(rows))
    temporary.rename(pathlib.Path(folder, str(batch)))  # a batch again takes its own place
    time.sleep(0.3)

frame = spark.readStream.format("landfall").load(url, topic="clicks", maxFilesPerTrigger=2)
query = frame.writeStream.foreachBatch(take).option("checkpointLocation", f"{folder}/.c")
query.trigger(availableNow=True).start().awaitTermination()
"""


@pytest.fixture
def landed(tmp_path: Path) -> Readable:
    return Readable(tmp_path)


def test_a_stream_that_is_killed_again_and_again_has_each_row_once(
    landed: Readable, tmp_path: Path
) -> None:
    (folder := tmp_path / "sink").mkdir()
    for i in range(15):
        land(landed, 2 * i, 2 * i + 2)
    kills = 0
    while True:
        query = subprocess.Popen(
            [sys.executable, "-c", QUERY, landed.url, str(folder)],
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        done = len(list(folder.glob("[0-9]*")))
        while query.poll() is None and len(list(folder.glob("[0-9]*"))) < done + 3:
            time.sleep(0.02)
        if query.poll() is not None:
            break
        os.killpg(query.pid, signal.SIGKILL)
        query.wait()
        kills += 1
        if kills == 2:
            land(landed, 30, 33)

    assert query.returncode == 0
    assert kills >= 3
    rows = Counter(i for path in folder.glob("[0-9]*") for i in json.loads(path.read_text()))
    assert rows == Counter(range(33))


def test_a_stream_begins_at_a_slot(landed: Readable, spark: SparkSession) -> None:  # noqa: F811
    first = land(landed, 0, 3)
    land(landed, 3, 5)
    found = list[int]()

    stream(spark, landed, lambda frame, _: found.extend(ids(frame)), startingSlot=first + 1)

    assert found == [3, 4]


def test_wrong_options_are_refused(landed: Readable, spark: SparkSession) -> None:  # noqa: F811
    land(landed, 0, 1)

    with pytest.raises(Exception, match="option slto: unknown"):
        spark.read.format("landfall").load(landed.url, slto=1)
    with pytest.raises(Exception, match="slot 99 is not in the ledger"):
        spark.read.format("landfall").load(landed.url, slot=99)
    with pytest.raises(Exception, match="option since: not a time"):
        spark.read.format("landfall").load(landed.url, since="yesterday")


def test_types_that_spark_lacks_are_wider(landed: Readable, spark: SparkSession) -> None:  # noqa: F811
    values = {"u": pa.array([2**32 - 1], pa.uint32()), "t": pa.array([1], pa.time32("s"))}
    body = io.BytesIO()
    pq.write_table(pa.table(values), body)
    readable.BODIES["Parquet"], before = lambda _: body.getvalue(), readable.BODIES["Parquet"]
    try:
        landed.land(CLICKS, (HOURS[0], [{}])).settle()
    finally:
        readable.BODIES["Parquet"] = before

    found = spark.read.format("landfall").load(landed.url).select("u", "t").collect()

    assert found == [Row(u=2**32 - 1, t="00:00:01.000")]


def test_filters_on_folders_leave_out_files(landed: Readable, spark: SparkSession) -> None:  # noqa: F811
    land(landed, 0, 6)
    for file in landfall.open(landed.url).scan("clicks", where={"hr": "00"}).files():
        (landed.root / "landed" / file.key).unlink()  # who reads it, fails
    read = spark.read.format("landfall").schema("id LONG, hr INT, dt DATE")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read.load(landed.url, topic="clicks")

        assert ids(frame.where("hr >= 1 AND hr IN (0, 2, 4) AND dt = DATE'2026-11-21'")) == [2, 4]
        with pytest.raises(Exception, match="it is not there"):
            ids(frame.where("id >= 1"))
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    since = read.load(landed.url, since="2026-11-21T01:00:00Z", outputPartition="dt=2026-*")
    assert ids(since) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("example", [each for each in EXAMPLES if "spark" in each])
def test_an_example_of_the_page_runs(
    example: str,
    tmp_path: Path,
    spark: SparkSession,  # noqa: F811
    capfd: pytest.CaptureFixture[str],
) -> None:
    landed = landed_in(tmp_path)
    shown = example.replace("s3://logs/parsed", landed.url).replace("/data", str(tmp_path))

    exec(shown, {"spark": spark})

    if "readStream" in example:
        assert spark.read.parquet(str(tmp_path / "clicks")).count() == 6
    else:
        assert capfd.readouterr().out.strip() == "2"
