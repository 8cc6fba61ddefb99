"""Runs queries of other engines: a process of ``engines``, in their environment.

Reads a JSON object a line from its standard input, ``{"engine", "session", "query", ...}``, and
answers with ``{"rows": [...]}`` or ``{"error": "..."}``. Rows are objects by column. Times are ISO
8601 in UTC, decimals are text. It imports nothing of Landfall.
"""

import json
import os
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

HOME = Path(sys.argv[1])
ICEBERG = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
DELTA = "io.delta.sql.DeltaSparkSessionExtension"


@cache
def spark() -> Any:
    from pyspark.sql import SparkSession  # only if it is asked for

    builder = SparkSession.builder.master("local[1]")
    for name, value in {
        "spark.jars": ",".join(map(str, (HOME / "jars").glob("*.jar"))),
        "spark.sql.extensions": f"{ICEBERG},{DELTA}",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
        # One, so that actions of a version keep their order: with more, what it does is by chance.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
            "-Daws.accessKeyId=testing -Daws.secretAccessKey=testing"  # of a Glue that is moto's
        ),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


@cache
def spark_session(name: str) -> Any:
    """A session with catalogs and settings of its own, in the same JVM."""
    return spark().newSession() if name else spark()


def run_spark(request: dict[str, Any]) -> list[dict[str, Any]]:
    session = spark_session(request["session"])
    for name, value in request.get("conf", {}).items():
        session.conf.set(name, value)
    return [row.asDict(recursive=True) for row in session.sql(request["query"]).collect()]


@cache
def duckdb_session(name: str) -> Any:
    import duckdb

    del name
    connection = duckdb.connect(config={"extension_directory": str(HOME / "duckdb")})
    connection.execute("SET timezone = 'UTC'; LOAD avro; LOAD httpfs; LOAD iceberg; LOAD delta;")
    return connection


def run_duckdb(request: dict[str, Any]) -> list[dict[str, Any]]:
    session = duckdb_session(request["session"])
    if s3 := request.get("s3"):
        host = s3["endpoint"].partition("://")[2]
        session.execute(
            f"CREATE OR REPLACE SECRET (TYPE s3, KEY_ID '{s3['key']}', SECRET '{s3['secret']}', "
            f"ENDPOINT '{host}', REGION 'us-east-1', URL_STYLE 'path', USE_SSL false)"
        )
    found = session.execute(request["query"])
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def pyiceberg_table(request: dict[str, Any]) -> Any:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.table import StaticTable

    if catalog := request.get("catalog"):
        return load_catalog("landfall", **catalog).load_table(request["table"])
    return StaticTable.from_metadata(request["table"], of_pyiceberg(request))


def of_pyiceberg(request: dict[str, Any]) -> dict[str, str]:
    """Properties of pyiceberg that reach the store."""
    if not (s3 := request.get("s3")):
        return {}
    return {
        "s3.endpoint": s3["endpoint"],
        "s3.access-key-id": s3["key"],
        "s3.secret-access-key": s3["secret"],
        "s3.region": "us-east-1",
    }


def of_object_store(request: dict[str, Any]) -> dict[str, str]:
    """Storage options of delta-rs, of its kernel and of polars."""
    if not (s3 := request.get("s3")):
        return {}
    return {
        "aws_endpoint_url": s3["endpoint"],
        "aws_access_key_id": s3["key"],
        "aws_secret_access_key": s3["secret"],
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }


def run_polars(request: dict[str, Any]) -> list[dict[str, Any]]:
    import polars as pl

    options = of_object_store(request) or None
    if request["format"] == "parquet":
        table = pl.scan_parquet(request["table"], hive_partitioning=True)
    elif request["format"] == "iceberg":
        table = pl.scan_iceberg(pyiceberg_table(request), storage_options=options)
    else:
        table = pl.scan_delta(request["table"], storage_options=options)
    return list(pl.SQLContext(t=table).execute(request["query"]).collect().to_dicts())


def run_kernel(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Delta's Rust kernel, by polars-deltalake."""
    import polars as pl
    import polars_deltalake

    options = of_object_store(request)
    table = polars_deltalake.scan_delta(request["table"], storage_options=options)
    return list(pl.SQLContext(t=table).execute(request["query"]).collect().to_dicts())


def run_daft(request: dict[str, Any]) -> list[dict[str, Any]]:
    import daft

    config = None
    if s3 := request.get("s3"):
        config = daft.io.IOConfig(
            s3=daft.io.S3Config(
                region_name="us-east-1",
                endpoint_url=s3["endpoint"],
                key_id=s3["key"],
                access_key=s3["secret"],
                use_ssl=False,
            )
        )
    if request["format"] == "iceberg":
        table = daft.read_iceberg(pyiceberg_table(request), io_config=config)
    else:
        table = daft.read_deltalake(request["table"], io_config=config)
    return list(daft.sql(request["query"], t=table).to_pylist())


def run_pyiceberg(request: dict[str, Any]) -> list[dict[str, Any]]:
    scan = pyiceberg_table(request).scan(row_filter=request["query"])
    return list(scan.to_arrow().to_pylist())


def run_deltalake(request: dict[str, Any]) -> list[dict[str, Any]]:
    import pyarrow  # noqa: ICN001
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(request["table"], storage_options=of_object_store(request))
    found = QueryBuilder().register("t", table).execute(request["query"])
    return list(pyarrow.table(found.read_all()).to_pylist())


def plain(value: object) -> object:
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            value = value.astimezone(UTC)
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines print to the standard output
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"rows": globals()[f"run_{request['engine']}"](request)}
        except Exception as error:  # noqa: BLE001  # it is the answer
            answer = {"error": f"{type(error).__name__}: {error}".split("\n\tat ")[0][:1000]}
        answers.write(json.dumps(answer, default=plain) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
