"""What a local run begins before its second thread: the JVM, and a copy of its own process."""

import os
import sys
from dataclasses import dataclass

from landfall.api.spec import ConsumerGroup
from landfall.driver.spark.class_archive import ClassArchive, class_archive
from landfall.driver.spark.fork_server import ForkServer, fork_server
from landfall.driver.spark.local_jvm import LocalJvm, needs_scripts, start_local_jvm
from landfall.driver.spark.malloc import tune_malloc
from landfall.driver.spark.settings import jvm_flags, preloaded
from landfall.driver.spark.worker_daemon import preload, serve_workers


@dataclass(frozen=True, slots=True)
class LocalStart:
    """What was begun.

    Attributes:
        archive: of Spark's classes, which its JVM uses or makes.
        jvm: None if Spark's scripts are to start it.
        server: the copy; None if Spark's daemon has to import what it needs.
    """

    archive: ClassArchive | None
    jvm: LocalJvm | None
    server: ForkServer | None


def local_start(group: ConsumerGroup) -> LocalStart:
    """Start the JVM, import what driver and workers need meanwhile, and fork the copy."""
    tune_malloc(os.environ)
    archive = class_archive(os.environ)
    jvm = started_jvm(group, archive)
    preload(preloaded(group))
    pipes = (jvm.process.stdin, jvm.errors) if jvm else ()
    server = fork_server(serve_workers, [pipe for pipe in pipes if pipe])
    return LocalStart(archive, jvm, server)


def started_jvm(group: ConsumerGroup, archive: ClassArchive | None) -> LocalJvm | None:
    """A JVM that starts, or None if this process has one, or Spark's scripts are to start it."""
    if _has_jvm() or needs_scripts(group.spec.tuning.spark_conf, os.environ):
        return None
    try:
        return start_local_jvm(jvm_flags(archive), os.environ)
    except FileNotFoundError:  # the scripts fail as well, and their error is reported
        return None


def _has_jvm() -> bool:
    # Not imported: the JVM starts while PySpark is.
    context = sys.modules.get("pyspark.core.context")
    return bool(context and context.SparkContext._gateway)  # noqa: SLF001  # there is no other way to ask
