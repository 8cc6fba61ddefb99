"""Forks Spark's Python workers from a process that has imported what tasks need.

Spark starts one daemon per executor (``spark.python.daemon.module``), which forks a worker for each
slot. PySpark's own daemon imports next to nothing, so that each of its workers spends a second on
the same imports and keeps memory of its own for them. Forking is safe while a process has one
thread: NumPy must not start any (``OPENBLAS_NUM_THREADS``), and the one that Arrow's jemalloc
starts is not used, and prepared for forks. ``tests/unit/driver/test_worker_daemon.py`` looks after
that.
"""

import gc
import os
from importlib import import_module

from landfall.driver.spark.session import PRELOAD


def preload() -> None:
    """Import what every task needs, and the modules that the driver names for its group."""
    import_module("pyspark.worker")
    for name in filter(None, os.environ.get(PRELOAD, "").split(",")):
        import_module(name)
    # Workers share these objects as long as nobody writes to them, as the collector would.
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
