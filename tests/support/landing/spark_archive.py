"""Makes an archive of Spark's classes, with which a driver's JVM starts with half the CPU.

    python -m tests.support.landing.spark_archive .venv/spark.jsa

The JVM maps the archive into memory instead of reading, checking and linking ten thousand classes.
An archive is of one Java and of the jars of one virtual environment.
"""

import os
import sys
from pathlib import Path

from landfall.api.spec import parse_group
from landfall.driver.spark.class_archive import QUIET
from landfall.driver.spark.session import spark_context

GROUP = {
    "apiVersion": "landfall.dev/v1alpha1",
    "kind": "ConsumerGroup",
    "metadata": {"name": "archive"},
    "spec": {
        "source": {"kafka": {"bootstrapServers": "none:9092", "topics": ["none"]}},
        "output": {"url": "file:///-"},
    },
}


def make(archive: Path) -> None:
    """Run a job as a driver does; its JVM writes the archive when it ends."""
    archive.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f'"-XX:ArchiveClassesAtExit={archive}" {QUIET}'
    context = spark_context(parse_group(GROUP), "local[2]")
    for _ in range(2):
        context.parallelize(range(4), 4).map(str).collect()
    gateway = context._gateway
    context.stop()
    assert gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
