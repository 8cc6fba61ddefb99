"""The Spark context of a driver, and the runner that runs batches on it.

Spark schedules the tasks, keeps their Python workers alive and returns their results. Records never
pass through the JVM, so there is no connector, no shuffle and no cached data.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, count
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from landfall.api.contract import Workers
from landfall.api.spec import ConsumerGroup
from landfall.driver.core.runner import Bin
from landfall.driver.spark.class_archive import ClassArchive, check_use, class_archive
from landfall.driver.spark.direct_start import EarlyStart, is_local, start_directly
from landfall.driver.spark.executor_problems import ExecutorProblems
from landfall.driver.spark.executors import Executors, first_line
from landfall.driver.spark.fork_server import fork_server
from landfall.driver.spark.gateway_jvm import JVM
from landfall.driver.spark.jvm import jvm_with_events, quiet_py4j, without_numpy_converters
from landfall.driver.spark.malloc import tune_malloc
from landfall.driver.spark.settings import preloaded, spark_settings
from landfall.driver.spark.worker_daemon import preload, serve_workers
from landfall.errors import BatchFailed, LandfallError, Retry
from landfall.ledger.task_results import FailedSlice, SliceResult
from landfall.task import Batch, worker
from landfall.task.counting import Miscounted, ObjectsOfSpec
from landfall.task.merging import MergeResult, MergeShare

if TYPE_CHECKING:
    from pyspark import SparkContext


log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


def spark_context(
    group: ConsumerGroup,
    master: str | None,
    problems: ExecutorProblems | None = None,
    start: EarlyStart | None = None,
) -> "SparkContext":
    """Return a context on ``master``, or on the master that Spark's own configuration names.

    ``problems`` reads what Spark prints once it runs; ``start`` is what was begun.

    Raises:
        Stalled: SPEC_INVALID, Spark does not accept its settings.
        Retry: Spark does not start.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  # importing takes half a second, which other commands save

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Where Spark's scripts start it, another JVM assembles the command line of Spark's own.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", JVM)
    if start is None:
        start = local_jvm(group, master) if is_local(master) else EarlyStart()
    conf = SparkConf().setAppName(f"landfall-{group.metadata.name}")
    if master:
        conf.setMaster(master)
    conf.setAll(list(spark_settings(group, master, start.archive, start.server).items()))
    quiet_py4j()
    without_numpy_converters()
    with jvm_with_events(conf, problems or ExecutorProblems(), start.jvm) as gateway:
        if SparkContext._active_spark_context:  # noqa: SLF001  # getOrCreate takes no gateway
            return SparkContext.getOrCreate(conf)
        if start.archive and start.jvm:
            check_use(start.archive.path, start.jvm.process.pid)
        return SparkContext(conf=conf, gateway=gateway)


@contextmanager
def starting_spark(
    group: ConsumerGroup,
    master: str | None,
    problems: ExecutorProblems,
    begun: EarlyStart | None = None,
) -> Iterator[Future["SparkContext"]]:
    """Start Spark in a thread, alongside the block's work, and stop it afterwards.

    Its start takes seconds, most of them of the JVM, in which the store can be checked. The
    future's result is what ``spark_context`` returns or raises. ``begun`` is what this process has
    begun already.
    """
    start = local_start(group, master) if is_local(master) else begun or EarlyStart()
    try:
        with ThreadPoolExecutor(1, "spark-start") as thread:
            starting = thread.submit(spark_context, group, master, problems, start)
            try:
                yield starting
            finally:
                # Also if the check has failed: a JVM must not outlive this function.
                if not starting.exception():
                    context = starting.result()
                    stop_spark(context)
                    if start.archive and context._gateway:  # noqa: SLF001  # its process has no other name
                        start.archive.keep(context._gateway)  # noqa: SLF001
    finally:
        if start.server:
            start.server.close()


def stop_spark(context: "SparkContext") -> None:
    """Stop Spark; an error, such as of a JVM that has died, is only logged."""
    try:
        context.stop()
    except Exception as error:  # noqa: BLE001  # py4j raises many types of errors, and nothing is left to do
        log.warning("spark did not stop cleanly", extra={"why": first_line(error)})


class SchedulerPools:
    """Names of Spark's scheduler pools, each used by one job at a time.

    Spark shares its slots fairly between pools only, and keeps every pool that a job ever named.
    """

    def __init__(self) -> None:
        self._used: set[int] = set()
        self._lock = Lock()

    @contextmanager
    def own(self) -> Iterator[str]:
        """Keep the pool for the caller alone while inside."""
        with self._lock:
            number = next(n for n in count() if n not in self._used)
            self._used.add(number)
        try:
            yield f"batch-{number}"
        finally:
            with self._lock:
                self._used.remove(number)


class SparkRunner:
    """Runs a Spark job per batch and a Spark task per bin; no shuffle, nothing cached."""

    def __init__(self, context: "SparkContext", problems: ExecutorProblems | None = None) -> None:
        """``context`` must live as long as the driver; ``problems`` reads what it prints.

        Raises:
            Retry: Spark has died since its start.
        """
        self._context = context
        self._problems = problems or ExecutorProblems()
        try:
            self._executors = Executors(context)
        except Exception as error:  # py4j raises many types of errors
            raise Retry(f"spark is gone: {first_line(error)}") from error
        self._pools = SchedulerPools()

    @property
    def slots(self) -> int:
        """Cores of all executors that are running now, at least 1.

        Raises:
            Retry: Spark has died; this process cannot start it again.
        """
        try:
            return max(1, self._context.defaultParallelism)
        except Exception as error:  # py4j raises many types of errors
            raise Retry(f"spark is gone: {first_line(error)}") from error

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        """Run the bins; if the job as a whole fails, every slice fails with BatchFailed."""
        try:
            description = f"{batch.group.metadata.name}: {len(bins)} bins"
            return self.run_tasks(bins, partial(_land_bins, batch), description)
        except Exception as error:  # noqa: BLE001  # py4j wraps every cause of a failed job; none of them may stop the loop
            return _all_failed(bins, BatchFailed(f"spark job failed: {first_line(error)}"))

    def read_back(self, shares: Sequence[ObjectsOfSpec]) -> list[Miscounted]:
        """See ``Runner``."""
        if not shares:
            return []
        try:
            return self.run_tasks(shares, _read_back, f"reading back {len(shares)} shares")
        except Exception as error:  # py4j wraps every cause of a failed job
            raise Retry(f"reading back failed: {first_line(error)}") from error

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:
        """Run a Spark job with a task per share; see ``Runner``."""
        try:
            return self.run_tasks(shares, _merge, f"merging objects in {len(shares)} tasks")
        except Exception as error:  # py4j wraps every cause of a failed job
            raise Retry(f"merging failed: {first_line(error)}") from error

    def run_tasks(
        self,
        items: Sequence[Item],
        task: Callable[[Iterable[Item]], Iterable[Result]],
        description: str,
    ) -> list[Result]:
        """Run a task for each item, and return what they return.

        Jobs that run at the same time get the same share of the slots, however many tasks they
        have: a job of one task starts it as soon as any other task ends.
        """
        with self._pools.own() as pool:
            # Local properties belong to this thread: PySpark gives it a thread of its own in the
            # JVM.
            self._context.setLocalProperty("spark.scheduler.pool", pool)
            self._context.setLocalProperty("spark.job.description", description)
            return self._context.parallelize(items, len(items)).mapPartitions(task).collect()

    def warm_up(self) -> None:
        """Start a Python worker in every slot and let it import what tasks need.

        Raises:
            Retry: no task can run.
        """
        if self._executors.none_wanted:
            return
        slots = self.slots
        try:
            self._context.parallelize(range(slots), slots).mapPartitions(_imported).collect()
        except Exception as error:  # py4j wraps every cause of a failed job
            raise Retry(f"spark cannot run our tasks: {first_line(error)}") from error

    def want(self, executors: int) -> None:
        """Set the desired number of executors; ignored where tasks run in this process."""
        self._executors.want(executors)

    def settle(self) -> Workers:
        """See ``Runner``."""
        return replace(self._executors.settle(), problem=self._problems.latest)


def _imported(_: Iterable[int]) -> Iterator[int]:
    """Do nothing: to unpickle this function, a worker imports all that tasks need."""
    return iter(())


def _land_bins(batch: Batch, bins: Iterable[Bin]) -> Iterator[SliceResult]:
    return chain.from_iterable(worker.land_bin(batch, pieces) for pieces in bins)


def _read_back(shares: Iterable[ObjectsOfSpec]) -> Iterator[Miscounted]:
    return chain.from_iterable(map(worker.read_back, shares))


def _merge(shares: Iterable[MergeShare]) -> Iterator[MergeResult]:
    return chain.from_iterable(map(worker.merge, shares))


def _all_failed(bins: Sequence[Bin], error: LandfallError) -> list[SliceResult]:
    return [FailedSlice(piece, error) for pieces in bins for piece in pieces]


# What a local run begins before its second thread: the JVM, and a copy of its own process.


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
