"""What Spark plans with the sizes that a Hive metastore has of partitions.

More lands in a partition after it is added, so a size that was true then would make Spark broadcast
a table that is too large for it. ``make publisher-suite`` runs them.
"""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from landfall.publish.catalog import TableName
from tests.support.publishers.catalogs import Warehouse, hive_warehouse, parquet_of
from tests.support.publishers.hive import HiveServer
from tests.support.publishers.hive_reader import SparkSql
from tests.support.publishers.lake import CLICKS, ORDERS, Landed

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("hive")]

DAY = "2026-11-21"


@pytest.fixture
def warehouse(hive: HiveServer, tmp_path: Path) -> Warehouse:
    """Two tables with a partition that has grown, and was widened, since it was added."""
    landed = Landed(tmp_path)
    landed.sample.body = parquet_of(name=pa.string())
    made = hive_warehouse(landed, hive)
    landed.land(CLICKS, ORDERS).settle()
    made.publish()
    landed.sample.open(generation=2)
    landed.sample.body = parquet_of(name=pa.string(), more=pa.int64())
    landed.land(CLICKS, ORDERS).settle()
    made.publish()
    return made


def plan(spark: SparkSql, warehouse: Warehouse) -> str:
    """How Spark joins a partition of each table, by the metastore's sizes alone."""
    tables = [f"{warehouse.database}.{topic}" for topic in ("clicks", "orders")]
    for table in tables:
        spark.rows(f"refresh table {table}")
    clicks, orders = (f"(select * from {table} where dt = '{DAY}')" for table in tables)
    spark.rows("set spark.sql.hive.convertMetastoreParquet=false")
    try:
        ((found,),) = spark.rows(f"explain select * from {clicks} join {orders} using (_offset)")
    finally:
        spark.rows("set spark.sql.hive.convertMetastoreParquet=true")
    return str(found)


def test_a_partition_is_never_broadcast_by_what_the_metastore_has(
    warehouse: Warehouse, spark: SparkSql
) -> None:
    planned = plan(spark, warehouse)

    assert "SortMergeJoin" in planned
    assert "Broadcast" not in planned
    found = warehouse.partition("orders", DAY).found
    found.parameters["totalSize"] = "100"
    name = TableName(warehouse.database, "orders")
    client = warehouse.catalog()._client  # type: ignore[attr-defined]  # of the metastore
    client.ask(name, lambda c: c.alter_partition(name.database, name.table, found))
    assert "BroadcastHashJoin" in plan(spark, warehouse)  # with a size it would


def test_spark_that_reads_parquet_itself_knows_the_size_of_the_files(
    warehouse: Warehouse, spark: SparkSql
) -> None:
    table = f"{warehouse.database}.clicks"

    ((found,),) = spark.rows(f"explain cost select * from {table} where dt = '{DAY}'")

    sizes = [path.stat().st_size for path in warehouse.landed.root.glob("landed/clicks/*/*")]
    assert len(sizes) == 2
    assert re.findall(r"sizeInBytes=([\d.]+) (\w+)\)", found)[-1] == (f"{sum(sizes)}.0", "B")
