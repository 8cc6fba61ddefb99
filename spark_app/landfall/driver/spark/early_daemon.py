"""Imports what an executor's tasks need while the executor's JVM starts.

    python -m landfall.driver.spark.early_daemon SOCKET

Spark starts its daemon when the first task arrives, and the daemon imports for a second before it
forks a worker. The image's entry point starts this process alongside the JVM instead. When Spark
starts its daemon, that finds this process by the socket (``fork_server``), and this one replaces
it. The JVM holds the other end of the standard input, so this process does not outlive it.
"""

import os
import sys
from pathlib import Path

from landfall.driver.spark.fork_server import listening, take_over
from landfall.driver.spark.worker_daemon import check_archive, preload_named, serve_workers


def main() -> None:
    """Become Spark's daemon, or end with the JVM."""
    # The standard input becomes the daemon's.
    alive = os.dup(sys.stdin.fileno())
    # Before the imports, so that a daemon which comes early waits for them.
    listener = listening(Path(sys.argv[1]))
    preload_named()
    take_over(listener, alive)
    check_archive()
    serve_workers()


if __name__ == "__main__":
    main()
