"""What lets Spark start with less CPU in tests; drivers are started a hundred times."""

from pathlib import Path

from landfall.driver.spark.class_archive import VARIABLE

ARCHIVE = "spark.jsa"
"""The file with Spark's classes, in the virtual environment; see ``spark_archive``."""
_LAUNCHER = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""For the JVM that only puts together the command of the next one."""


def variables(environment: Path) -> dict[str, str]:
    """The environment variables of Spark in a virtual environment, with the archive if it has one.

    A JVM of another Java leaves the archive alone and starts as ever. Drivers make none of their
    own, whose time a test would pay for.
    """
    archive = environment / ARCHIVE
    return {"SPARK_LAUNCHER_OPTS": _LAUNCHER, VARIABLE: str(archive) if archive.exists() else ""}
