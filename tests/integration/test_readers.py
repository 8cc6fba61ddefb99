"""What landed, read by Spark: at a slot, with filters on folders, and slot after slot."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import landfall
from tests.integration.test_hadoop_reads import spark  # noqa: F401  # a fixture
from tests.support.ledger.readable import CLICKS, ORDERS, Readable

pytestmark = pytest.mark.xdist_group("spark")

HOURS = [f"dt=2026-11-21/hr={hour:02}" for hour in range(6)]


def land(landed: Readable, first: int, end: int) -> int:
    """Land rows of some hours, and return the slot that calls them visible."""
    part = [(HOURS[i % 6], [{"id": i, "name": f"n{i}"}]) for i in range(first, end)]
    landed.land(CLICKS, *part)
    return landed.settle()


@pytest.fixture
def landed(tmp_path: Path) -> Readable:
    return Readable(tmp_path)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_spark_reads_what_is_visible_at_a_slot(landed: Readable, spark: SparkSession) -> None:  # noqa: F811
    first = land(landed, 0, 6)
    land(landed, 6, 12)
    landed.land(ORDERS, (HOURS[0], [{"id": 1, "name": "x"}]))
    landed.settle()
    frame = spark.read.format("landfall").load(landed.url, topic="clicks")
    land(landed, 12, 18)
    now = spark.read.format("landfall").load(landed.url, topic="clicks")
    then = spark.read.format("landfall").load(landed.url, topic="clicks", slot=first)

    assert ids(frame) == [*range(12)]  # loaded before more landed
    assert now.count() == landfall.open(landed.url).scan("clicks").rows == 18
    assert ids(then) == [*range(6)]
    assert frame.where("hr = '04' AND id > 4").collect() == [
        Row(id=10, name="n10", dt="2026-11-21", hr="04")
    ]


def stream(
    spark: SparkSession,  # noqa: F811
    landed: Readable,
    take: Callable[[DataFrame, int], None],
    **options: Any,
) -> None:
    """Run a query over what is there now."""
    frame = spark.readStream.format("landfall").options(topic="clicks", **options).load(landed.url)
    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(landed.root / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_stream_that_fails_and_starts_again_has_each_row_once(
    landed: Readable,
    spark: SparkSession,  # noqa: F811
) -> None:
    for i in range(3):
        land(landed, 4 * i, 4 * i + 4)
    batches: dict[int, list[int]] = {}
    again: dict[int, list[int]] = {}

    def take(frame: DataFrame, batch: int) -> None:
        again.setdefault(batch, ids(frame))
        if batch == 1 and batch not in batches:
            batches[batch] = again[batch]
            raise RuntimeError("ended behind its effect, before its checkpoint")
        assert batches.setdefault(batch, again[batch]) == again[batch] == ids(frame)

    with pytest.raises(Exception, match="ended behind its effect"):
        stream(spark, landed, take, maxFilesPerTrigger=5)
    land(landed, 12, 14)
    again.clear()
    stream(spark, landed, take, maxFilesPerTrigger=5)

    assert 1 in again
    assert [len(batch) for batch in batches.values()] == [8, 4, 2]
    assert sorted(i for batch in batches.values() for i in batch) == [*range(14)]
