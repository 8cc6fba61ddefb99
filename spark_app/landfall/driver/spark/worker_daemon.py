"""Forks Spark's Python workers from a process that has imported what tasks need.

Spark starts one daemon per executor (``spark.python.daemon.module``), which forks a worker for each
slot. PySpark's own daemon imports next to nothing, so that each of its workers spends a second on
the same imports and keeps memory of its own for them. Forking is safe while a process has one
thread: NumPy must not start any (``OPENBLAS_NUM_THREADS``), and the one that Arrow's jemalloc
starts is not used, and prepared for forks. ``tests/unit/driver/test_worker_daemon.py`` looks after
that.

In a local run, a copy of the driver's process takes the daemon's place: see ``fork_server``.

Spark has its workers read PySpark from ``pyspark.zip``, where Python finds no compiled modules, so
that each daemon compiles PySpark for half a second. The same modules lie compiled in the package
that the zip is in.
"""

import gc
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path

from landfall.driver.spark.class_archive import VARIABLE as ARCHIVE
from landfall.driver.spark.class_archive import check_use
from landfall.driver.spark.fork_server import VARIABLE, hand_over

PRELOAD = "LANDFALL_PRELOAD"
"""The environment variable with the modules that workers share, separated by commas."""


def without_zips(paths: Iterable[str]) -> list[str]:
    """Return the search path without the zips of PySpark whose package is in the path as well."""
    rest = [path for path in paths if not path.endswith(".zip")]
    found = PathFinder.find_spec("pyspark", rest)
    if not found or not found.origin:
        return [*paths]
    folder = (Path(found.origin).parent / "python" / "lib").resolve()
    return [path for path in paths if path in rest or Path(path).parent.resolve() != folder]


def preload(modules: Iterable[str]) -> None:
    """Import what every task needs, and these modules."""
    for name in ("pyspark.worker", "landfall.task.worker", *modules):
        import_module(name)


def preload_named() -> None:
    """Import what every task needs, and the modules that the environment names."""
    preload(filter(None, os.environ.get(PRELOAD, "").split(",")))
    # Workers share these objects as long as no process writes to them, as the collector would.
    gc.freeze()


def check_archive() -> None:
    """Log a warning if the JVM that started this process runs without its archive."""
    if archive := os.environ.get(ARCHIVE):
        check_use(Path(archive), os.getppid())


def main() -> None:
    """Be the daemon, or let the process that waits be it, until Spark closes the input."""
    if hand_over(os.environ.get(VARIABLE, "")):
        return
    check_archive()
    sys.path[:] = without_zips(sys.path)
    preload_named()
    serve_workers()


def serve_workers() -> None:
    """Fork a worker whenever Spark asks for one; does not return."""
    from pyspark.daemon import manager  # noqa: PLC0415  # not imported where a copy takes over

    manager()


if __name__ == "__main__":
    main()
