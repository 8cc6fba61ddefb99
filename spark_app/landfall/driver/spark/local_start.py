"""What a local run begins before its second thread: the JVM, and a copy of its own process."""

import os
import sys
from dataclasses import replace

from landfall.api.spec import ConsumerGroup
from landfall.driver.spark.class_archive import ClassArchive, class_archive
from landfall.driver.spark.direct_start import EarlyStart, start_directly
from landfall.driver.spark.fork_server import fork_server
from landfall.driver.spark.malloc import tune_malloc
from landfall.driver.spark.settings import preloaded
from landfall.driver.spark.worker_daemon import preload, serve_workers


def local_start(group: ConsumerGroup, master: str) -> EarlyStart:
    """Start the JVM, import what driver and workers need meanwhile, and fork the copy."""
    tune_malloc(os.environ)
    start = local_jvm(group, master, class_archive(os.environ))
    preload(preloaded(group))
    pipes = (start.jvm.process.stdin, start.jvm.errors) if start.jvm else ()
    return replace(start, server=fork_server(serve_workers, [pipe for pipe in pipes if pipe]))


def local_jvm(group: ConsumerGroup, master: str, archive: ClassArchive | None = None) -> EarlyStart:
    """Start the JVM, unless this process has one already."""
    if _has_jvm():
        return EarlyStart()
    return start_directly(master, group.spec.tuning.spark_conf, os.environ, archive)


def _has_jvm() -> bool:
    # Not imported: the JVM starts while PySpark is.
    context = sys.modules.get("pyspark.core.context")
    return bool(context and context.SparkContext._gateway)  # noqa: SLF001  # there is no other way to ask
