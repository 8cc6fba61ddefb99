"""Query engines that did not write Landfall's tables, to read and change them in tests.

Spark with Iceberg's and Delta Lake's jars, DuckDB with its extensions, polars, daft, pyiceberg and
deltalake, in a virtual environment of their own: they need another PySpark and another DuckDB than
Landfall. ``VERSIONS`` are named in the documentation of the publishers.
"""

import sys
from pathlib import Path

from dev.servers import cache

PINS = Path(__file__).resolve().parents[2] / "requirements/engines.txt"
JARS = {
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0": (
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"
    ),
    "io.delta:delta-spark_4.1_2.13:4.4.0": (
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"
    ),
    "io.delta:delta-storage:4.4.0": (
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"
    ),
    "org.xerial:sqlite-jdbc:3.50.3.0": (
        "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08"
    ),
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0": (
        "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957"
    ),
    "org.apache.hadoop:hadoop-aws:3.4.2": (
        "d2d24e6b715b5656b9d238bf13b6682a07e2004dd36aad74a73aeb854319f4d9"
    ),
    "software.amazon.awssdk:apache-client:2.54.17": (
        "0b00ae3d55c3d1213ca47b5651dc4c2a0080fc9b6192dde3d53c3da6c1811bcb"
    ),
    "software.amazon.awssdk:s3-transfer-manager:2.54.17": (
        "7bef0ea4efd5e0860bab63e08317040951edb51b72a5be734284c28b8324ab87"
    ),
}
"""By Maven coordinates the SHA-256: those for the last Spark that Iceberg has a runtime for.

S3A (``hadoop-aws``, of the Hadoop in that Spark) takes the AWS SDK from Iceberg's bundle and two
modules that it lacks, in the bundle's version, instead of a jar of 600 MB.
"""
DUCKDB_EXTENSIONS = ("avro", "delta", "httpfs", "iceberg")


def home() -> Path:
    """Return the folder with ``venv``, ``jars`` and DuckDB's extensions, and make it if necessary.

    Raises:
        Missing: this machine has no Maven, or an installation failed.
    """
    recipe = f"{PINS.read_text()}{JARS}{DUCKDB_EXTENSIONS}{sys.version_info[:2]}"
    announcement = (
        "installing Spark, DuckDB, polars and daft to read tables with (once, a minute, 1.1 GB)"
    )
    return cache.built("engines", recipe, _build_into, announcement)


def _build_into(folder: Path) -> None:
    python = cache.virtualenv(folder / "venv", PINS)
    cache.copy_duckdb_extensions(python, folder / "duckdb", DUCKDB_EXTENSIONS)
    cache.fetch(JARS, folder / "jars", "reading tables with Spark")


def main() -> None:
    """Install the engines if necessary."""
    try:
        home()
    except cache.MissingTool as missing:
        sys.exit(str(missing))


if __name__ == "__main__":
    main()
