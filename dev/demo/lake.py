"""The last act: the published tables, and their content for other engines."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
from pyiceberg.catalog import load_catalog

from dev.demo import flights
from dev.demo.buckets import DemoBucket
from dev.demo.buckets.s3 import DemoS3Bucket
from dev.demo.drivers import Group, Landfall
from dev.demo.story import Story

TOPIC = "flights.LGA"
TABLE = "lake.flights_LGA"
SPARK = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")  # starts sooner
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
landfall = spark.read.format("landfall").option("topic", "flights.LGA")
landed = landfall.schema("id LONG").load(sys.argv[1])
print(*landed.selectExpr("count(*)", "count(DISTINCT id)").first())
"""
"""A Spark user's program; the group's file names the store, and Spark finds the format."""


def run(story: Story, landfall: Landfall, bucket: DemoBucket, group: Group) -> bool:
    """Show and count the tables published by ``group``'s driver; return whether all is right."""
    title = "Count what landed of a topic with Spark"
    if isinstance(bucket, DemoS3Bucket):
        title = "Count a table with DuckDB, and what landed of its topic with Spark"
    with (
        story.phase(title),
        ThreadPoolExecutor(1) as pool,
    ):
        spark = pool.submit(_in_spark, landfall, group.file)
        markers = [key for key in bucket.sizes(f"{group.name}/") if key.endswith("/_SUCCESS")]
        story.say(f"_SUCCESS in {len(markers)} folders of months, which are complete")
        found: list[tuple[str, tuple[int, ...]]] = []
        if isinstance(bucket, DemoS3Bucket):
            found.append((f"DuckDB, Iceberg table {TABLE}", _in_iceberg(bucket, landfall.folder)))
        found.append(('spark.read.format("landfall")', spark.result()))
        for reader, (rows, ids) in found:
            story.say(f"{reader}: [bold]{rows:,} flights[/], {ids:,} ids")
    expected = flights.counts()[TOPIC]
    return bool(markers) and all(counts == (expected, expected) for _, counts in found)


def _in_iceberg(bucket: DemoS3Bucket, folder: Path) -> tuple[int, int]:
    """Flights and distinct ids of a table, by the catalog and DuckDB."""
    catalog = load_catalog(
        "landfall",
        type="sql",
        uri=f"sqlite:///{folder}/catalog.db",
        **{
            "s3.endpoint": bucket.endpoint,
            "s3.access-key-id": bucket.env["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": bucket.env["AWS_SECRET_ACCESS_KEY"],
            "s3.region": bucket.env.get("AWS_DEFAULT_REGION", "us-east-1"),
        },
    )
    rows = catalog.load_table(TABLE).scan(selected_fields=("id",)).to_arrow()
    connection = duckdb.connect()
    connection.register("flights", rows)
    [found] = connection.sql("SELECT count(*), count(DISTINCT id) FROM flights").fetchall()
    return int(found[0]), int(found[1])


def _in_spark(landfall: Landfall, file: Path) -> tuple[int, ...]:
    """Flights and distinct ids, as Spark counts them in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SPARK, str(file)],
        env={**os.environ, **landfall.env, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"Spark cannot read what landed:\n{done.stderr[-3000:]}")
    return tuple(map(int, done.stdout.split()))
