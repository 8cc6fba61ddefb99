"""What lets Spark start with less CPU in tests; drivers are started a hundred times."""

from pathlib import Path

from landfall.driver.spark.class_archive import VARIABLE

ARCHIVE = "spark.jsa"
"""The file with Spark's classes, in the virtual environment; see ``spark_archive``."""
QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""For JVMs that live for minutes at most: optimized code would never pay for itself.

It is for the JVM that only puts together the command of the next one, and for Spark SQL, which
reads what landed.
"""


def variables(environment: Path) -> dict[str, str]:
    """The environment variables of Spark in a virtual environment, with the archive if it has one.

    A JVM of another Java leaves the archive alone and starts as ever. Drivers make none of their
    own, whose time a test would pay for.
    """
    archive = environment / ARCHIVE
    return {"SPARK_LAUNCHER_OPTS": QUICK, VARIABLE: str(archive) if archive.exists() else ""}
