"""Forks Spark's Python workers from a process that has imported what tasks need.

Spark starts one daemon per executor (``spark.python.daemon.module``), which forks a worker for each
slot. PySpark's own daemon imports next to nothing, so that each of its workers spends a second on
the same imports and keeps memory of its own for them. Forking is safe while a process has one
thread: NumPy must not start any (``OPENBLAS_NUM_THREADS``), and the one that Arrow's jemalloc
starts is not used, and prepared for forks. ``tests/unit/driver/test_worker_daemon.py`` looks after
that.

In a local run, a copy of the driver's process takes the daemon's place: see ``fork_server``.
"""

import gc
import os
from collections.abc import Iterable
from importlib import import_module

from landfall.driver.spark.fork_server import VARIABLE, hand_over

PRELOAD = "LANDFALL_PRELOAD"
"""The environment variable with the modules that workers share, separated by commas."""


def preload(modules: Iterable[str]) -> None:
    """Import what every task needs, and these modules."""
    for name in ("pyspark.worker", "landfall.task.worker", *modules):
        import_module(name)


def main() -> None:
    """Be the daemon, or let the copy of the driver be it, until Spark closes the input."""
    if hand_over(os.environ.get(VARIABLE, "")):
        return
    preload(filter(None, os.environ.get(PRELOAD, "").split(",")))
    # Workers share these objects as long as nobody writes to them, as the collector would.
    gc.freeze()
    serve_workers()


def serve_workers() -> None:
    """Fork a worker whenever Spark asks for one; does not return."""
    from pyspark.daemon import manager  # noqa: PLC0415  # not imported where a copy takes over

    manager()


if __name__ == "__main__":
    main()
