"""Tables of a Hive metastore, and their folders, read by programs that wrote neither.

docs/publishers/hive.md names them. ``make publisher-suite`` runs these.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.publishers.engines import Engines, Rows
from tests.support.publishers.hive import HiveServer
from tests.support.publishers.hive_reader import SparkSql
from tests.support.publishers.published import COLUMNS, PublishedOrders, rows_of
from tests.support.publishers.table_places import TablePlaces

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("hive")]

WHERE = "dt = '2026-11-21'"


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    started = Engines.start()
    yield started
    started.stop()


@pytest.fixture
def database(hive: HiveServer) -> str:
    return hive.create_database()


def orders(
    hive: HiveServer, database: str, tmp_path: Path, engines: Engines, **fields: object
) -> PublishedOrders:
    options = {"metastore": hive.uri, "database": database}
    places = TablePlaces(tmp_path)
    return PublishedOrders(places, "Hive", engines, options=options, **fields)  # type: ignore[arg-type]  # its fields


def read(spark: SparkSql, database: str, where: str = "true") -> Rows:
    table = f"{database}.orders"
    spark.rows(f"refresh table {table}")
    columns = "id, customer, amount, date_format(ts, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\") ts"
    found = spark.rows(f"select {columns} from {table} where {where} order by id")
    return [dict(zip(("id", "customer", "amount", "ts"), row, strict=True)) for row in found]


def test_spark_reads_tables_of_a_metastore(
    hive: HiveServer, database: str, tmp_path: Path, engines: Engines, spark: SparkSql
) -> None:
    table = orders(hive, database, tmp_path, engines).land(0, 40, 100).publish()

    spark.rows("set spark.sql.session.timeZone=UTC")
    assert read(spark, database) == rows_of(range(100))
    assert read(spark, database, WHERE) == rows_of(range(1, 100, 2))
    assert len(spark.rows(f"select * from {database}.orders")) == 100
    types = {name: type_ for name, type_, *_ in spark.rows(f"describe {database}.orders")}
    assert (types["id"], types["amount"], types["ts"]) == ("bigint", "double", "timestamp")
    table.land(100, 120)  # into folders that are partitions already
    assert read(spark, database) == rows_of(range(120))


def test_spark_reads_tables_of_a_metastore_whose_columns_changed(
    hive: HiveServer, database: str, tmp_path: Path, engines: Engines, spark: SparkSql
) -> None:
    table = orders(hive, database, tmp_path, engines, columns=COLUMNS[:2]).land(0, 40).publish()

    table.evolve(COLUMNS).land(40, 100).publish()

    spark.rows("set spark.sql.session.timeZone=UTC")
    old = [row | {"amount": None, "ts": None} for row in rows_of(range(40))]
    assert read(spark, database) == old + rows_of(range(40, 100))
    assert read(spark, database, "amount is null") == old


def test_folders_are_read_without_a_metastore(
    hive: HiveServer, database: str, tmp_path: Path, engines: Engines
) -> None:
    orders(hive, database, tmp_path, engines).land(0, 40, 100)
    files = f"{tmp_path}/landed/orders/*/*.parquet"
    scan = f"read_parquet('{files}', hive_partitioning = true)"
    columns = "id, customer, amount, ts"

    assert engines.ask("duckdb", f"select {columns} from {scan} order by id") == rows_of(range(100))
    found = engines.ask("duckdb", f"select {columns} from {scan} where {WHERE} order by id")
    assert found == rows_of(range(1, 100, 2))
    asked = f"select {columns} from t where dt = date '2026-11-21' order by id"
    found = engines.ask("polars", asked, table=files, format="parquet")
    assert found == rows_of(range(1, 100, 2))
