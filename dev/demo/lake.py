"""The last act: what the driver has published, and what others read of it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
from pyiceberg.catalog import load_catalog

from dev.demo import flights, proof
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
"""What a user of Spark writes; the group's file names the store, and Spark finds the format."""


def run(story: Story, landfall: Landfall, bucket: proof.Bucket, group: Group) -> bool:
    """Show and count what the driver of ``group`` published; whether all is right."""
    with (
        story.phase("Count a table with DuckDB, and what landed of its topic with Spark"),
        ThreadPoolExecutor(1) as pool,
    ):
        spark = pool.submit(_in_spark, landfall, group.file)
        markers = [key for key in bucket.sizes(f"{group.name}/") if key.endswith("/_SUCCESS")]
        story.say(f"_SUCCESS in {len(markers)} folders of months, which are complete")
        counted = _in_iceberg(bucket, landfall.folder)
        story.say(
            f"DuckDB, Iceberg table {TABLE}: [bold]{counted[0]:,} flights[/], {counted[1]:,} ids"
        )
        read = spark.result()
        story.say(f'spark.read.format("landfall"): [bold]{read[0]:,} flights[/], {read[1]:,} ids')
    expected = flights.counts()[TOPIC]
    is_exact = counted == read == (expected, expected)
    return is_exact and bool(markers)


def _in_iceberg(bucket: proof.Bucket, folder: Path) -> tuple[int, int]:
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
