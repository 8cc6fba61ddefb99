"""Spark SQL with a Hive metastore, in a process of its own: ``python -m … URI``, a query a line.

The process has the environment of the test. Without a URI the metastore is Spark's own, in memory.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.landing.spark_start import QUICK


class SparkSql:
    """Asks Spark, which finds tables and partitions by the metastore alone."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def rows(self, query: str) -> list[list[Any]]:
        """The rows that a statement gives."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(query) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        found: list[list[Any]] = answer["rows"]
        return found


@contextmanager
def spark_sql(uri: str, folder: Path) -> Iterator[SparkSql]:
    """Start Spark, and end it."""
    with (folder / "spark.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.publishers.hive_reader", uri, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            yield SparkSql(process)
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(60)


def _serve(uri: str, folder: str) -> None:
    from pyspark.sql import SparkSession

    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.catalogImplementation": "hive",
        # Those of symlink manifests say that they are.
        "spark.hadoopRDD.ignoreEmptySplits": "false",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
    }
    if uri:
        settings["spark.hadoop.hive.metastore.uris"] = uri
    else:
        settings["spark.hadoop.javax.jdo.option.ConnectionURL"] = "jdbc:derby:memory:m;create=true"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for line in sys.stdin:
        answer: dict[str, Any]
        try:
            answer = {"rows": [[*row] for row in session.sql(json.loads(line)).collect()]}
        except Exception as error:  # noqa: BLE001  # the test shows it
            answer = {"error": str(error)[:2000]}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
