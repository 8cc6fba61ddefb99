"""The last act: what landed as a table and complete days, read by others."""

import os
import subprocess
import sys
from pathlib import Path

import duckdb
from pyiceberg.catalog import load_catalog

from dev.demo import flights, proof
from dev.demo.drivers import Landfall
from dev.demo.story import Story

TOPIC = "flights.LGA"
TABLE = "lake.flights_LGA"
SPARK = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
landed = spark.read.format("landfall").schema("id LONG, dt DATE").load(sys.argv[1])
print(*landed.selectExpr("count(*)", "count(DISTINCT id)", "count(DISTINCT dt)").first())
"""
"""What a user of Spark writes; the group's file names the store, and Spark finds the format."""


def run(story: Story, landfall: Landfall, bucket: proof.Bucket) -> bool:
    """Land a topic as Parquet, publish it and count it twice; returns whether all is right."""
    group = landfall.group("lake", BUCKET=bucket.name, FOLDER=str(landfall.folder))
    with story.phase("Land flights.LGA as Parquet; publish it as a table, mark complete days"):
        driver = landfall.run(group)
        try:
            driver.process.wait()
        finally:
            driver.kill()
        driver.running()  # raises if it failed
        published = landfall.command("publish", str(group.file))
        story.say("[bold]$ landfall publish lake.yaml")
        story.show(published.stdout)
        markers = [key for key in bucket.sizes(f"lake/{TOPIC}/") if key.endswith("/_SUCCESS")]
        story.say(f"_SUCCESS in the folders of {len(markers)} days, which are complete")
    with story.phase("Count the table with DuckDB, and what landed with Spark"):
        expected = flights.counts()[TOPIC]
        counted = _in_iceberg(bucket, landfall.folder)
        read = _in_spark(landfall, group.file)
        story.say(
            f"DuckDB, Iceberg table {TABLE}: [bold]{counted[0]:,} flights[/], {counted[1]:,} ids"
        )
        story.say(f'spark.read.format("landfall"): [bold]{read[0]:,} flights[/], {read[1]:,} ids')
    is_exact = counted == (expected, expected) and read[:2] == (expected, expected)
    return is_exact and bool(markers) and published.returncode == 0


def _in_iceberg(bucket: proof.Bucket, folder: Path) -> tuple[int, int]:
    """Flights and distinct ids of the table, by the catalog and DuckDB."""
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
    """Flights, distinct ids and days, as Spark counts them in a process of its own."""
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
