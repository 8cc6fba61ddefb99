"""The Spark context of a driver, and the runner that runs batches on it.

Spark schedules the tasks, keeps their Python workers alive and returns their results. Records never
pass through the JVM, so there is no connector, no shuffle and no cached data.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.resources import files
from itertools import chain, count
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from landfall import native
from landfall.api.contract import EXECUTORS, Workers
from landfall.api.spec import ConsumerGroup
from landfall.driver.runner import Bin
from landfall.driver.spark.class_archive import ClassArchive, class_archive
from landfall.driver.spark.executor_problems import ExecutorProblems
from landfall.driver.spark.executors import INSTANCES, Executors, first_line
from landfall.driver.spark.jvm import jvm_with_events, quiet_py4j, without_numpy_converters
from landfall.errors import BatchFailed, LandfallError, Retry
from landfall.ledger.task_results import FailedSlice, SliceResult
from landfall.task import Batch, worker
from landfall.task.counting import Landed, Miscounted
from landfall.task.merging import MergeResult, MergeShare

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

LOCAL_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
}
"""Settings for a local master: loopback only, and a small JVM, because it sees no data."""
LOG4J = "log4j2.properties"
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""Flags for the JVMs of driver and executors. They only schedule, so optimizing their code costs
more CPU than it saves, and most of that during startup.
"""

PRELOAD = "LANDFALL_PRELOAD"
"""The environment variable with the modules that workers share, separated by commas."""
CONF = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "landfall.driver.spark.worker_daemon",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.speculation": "false",
    "spark.task.maxFailures": "3",
    "spark.executor.maxNumFailures": "1000000",
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(12 * 2**20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 * 2**20),
}
"""Settings for every master.

Batches share the executors fairly. Tasks keep their Python worker, with its consumer and store
client. A driver that runs for weeks must not end because of the failures of all those weeks. The
allocator returns freed memory to the system, which lowers a worker's peak by a tenth. Exactly-once
depends on none of these settings: a task's work counts only if its result reaches the driver.
"""


def spark_context(
    group: ConsumerGroup,
    master: str | None,
    problems: ExecutorProblems | None = None,
    archive: ClassArchive | None = None,
) -> "SparkContext":
    """A context on ``master``, or on the master that Spark's own configuration names.

    ``problems`` reads what Spark prints once it runs; ``archive`` holds or gets its classes.

    Raises:
        Stalled: SPEC_INVALID, Spark does not accept its settings.
        Retry: Spark does not start.
    """
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  # importing takes half a second, which other commands save

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # Another JVM puts together the command line of Spark's own.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", JVM)
    log4j = f"-Dlog4j2.configurationFile={files('landfall.driver.spark') / LOG4J}"
    conf = SparkConf().setAppName(f"landfall-{group.metadata.name}")
    if master:
        conf.setMaster(master)
    local = is_local(master)
    java = {
        "spark.driver.extraJavaOptions": f"{log4j} {JVM} {archive.flags if archive else ''}",
        "spark.executor.extraJavaOptions": JVM,
    }
    settings = {**CONF, **(LOCAL_CONF if local else {}), **java, **executor_count(os.environ)}
    settings[f"spark.executorEnv.{PRELOAD}"] = ",".join(preloaded(group))
    if native.VARIABLE in os.environ:  # what is switched off here is switched off in executors
        settings[f"spark.executorEnv.{native.VARIABLE}"] = os.environ[native.VARIABLE]
    settings |= group.spec.tuning.spark_conf
    conf.setAll(list(settings.items()))
    quiet_py4j()
    without_numpy_converters()
    with jvm_with_events(conf, problems or ExecutorProblems()) as gateway:
        if SparkContext._active_spark_context:  # noqa: SLF001  # getOrCreate takes no gateway
            return SparkContext.getOrCreate(conf)
        return SparkContext(conf=conf, gateway=gateway)


def is_local(master: str | None) -> bool:
    """Whether tasks run on this machine, started by this process."""
    return bool(master and master.startswith("local"))


def preloaded(group: ConsumerGroup) -> list[str]:
    """The modules of the stores that tasks of the group use, if they take long to import."""
    kinds = {root.kind for root in group.spec.roots}
    return ["landfall.store.s3.store"] if "s3" in kinds else []


def executor_count(environment: Mapping[str, str]) -> dict[str, str]:
    """The setting for the executor count to start with, if the environment has one.

    ``spark-defaults.conf`` has the count of the time when the driver was created.
    """
    count = environment.get(EXECUTORS, "")
    return {INSTANCES: count} if count.isdecimal() else {}


@contextmanager
def starting_spark(
    group: ConsumerGroup, master: str | None, problems: ExecutorProblems
) -> Iterator[Future["SparkContext"]]:
    """Start Spark in a thread, beside what is done inside, and stop it afterwards.

    Its start takes seconds, most of them of the JVM, in which the store can be checked. The
    future's result is what ``spark_context`` returns or raises.
    """
    # In a cluster the JVM's class path begins with a folder of settings, which no archive can have.
    archive = class_archive(os.environ) if is_local(master) else None
    with ThreadPoolExecutor(1, "spark-start") as thread:
        starting = thread.submit(spark_context, group, master, problems, archive)
        try:
            yield starting
        finally:
            # Also if the check has failed: a JVM must not outlive this function.
            if not starting.exception():
                context = starting.result()
                stop_spark(context)
                if archive and context._gateway:  # noqa: SLF001  # its process has no other name
                    archive.keep(context._gateway)  # noqa: SLF001


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
        """Inside, nobody else uses the pool."""
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
        """``context`` must live as long as the driver; ``problems`` reads what it prints."""
        self._context = context
        self._problems = problems or ExecutorProblems()
        self._executors = Executors(context)
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
        except Exception as error:  # noqa: BLE001  # py4j wraps whatever failed the job; none of it may stop the loop
            return _all_failed(bins, BatchFailed(f"spark job failed: {first_line(error)}"))

    def read_back(self, shares: Sequence[Landed]) -> list[Miscounted]:
        """See ``Runner``."""
        if not shares:
            return []
        try:
            return self.run_tasks(shares, _read_back, f"reading back {len(shares)} shares")
        except Exception as error:  # py4j wraps whatever failed the job
            raise Retry(f"reading back failed: {first_line(error)}") from error

    def merge(self, shares: Sequence[MergeShare]) -> list[MergeResult]:
        """Run a Spark job with a task per share; see ``Runner``."""
        try:
            return self.run_tasks(shares, _merge, f"merging objects in {len(shares)} tasks")
        except Exception as error:  # py4j wraps whatever failed the job
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
        except Exception as error:  # py4j wraps whatever failed the job
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


def _read_back(shares: Iterable[Landed]) -> Iterator[Miscounted]:
    return chain.from_iterable(map(worker.read_back, shares))


def _merge(shares: Iterable[MergeShare]) -> Iterator[MergeResult]:
    return chain.from_iterable(map(worker.merge, shares))


def _all_failed(bins: Sequence[Bin], error: LandfallError) -> list[SliceResult]:
    return [FailedSlice(piece, error) for pieces in bins for piece in pieces]
