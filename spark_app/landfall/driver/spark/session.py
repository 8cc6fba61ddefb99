"""Spark: the context a driver lives with, and rounds run on it.

Spark schedules the tasks, keeps their Python workers alive and hands their answers back; no record
ever passes through the JVM, so there is no connector, no shuffle and nothing cached.
"""

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from landfall.api.contract import Workers
from landfall.api.spec import ConsumerGroup
from landfall.driver.runner import Bin
from landfall.driver.spark.executors import Executors, first_line
from landfall.errors import LandfallError, Retry
from landfall.ledger.task_results import FailedSlice, SliceResult
from landfall.task import Batch, worker

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

LOCAL_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
}
"""For a master inside this process: loopback only, and a small JVM, since data never passes through
it.
"""
JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""Of driver and executors. They only schedule: compiling their code well costs more CPU than it
ever
gives back, and most of it while somebody waits for them to start.
"""

CONF = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.speculation": "false",
    "spark.task.maxFailures": "3",
    "spark.executor.maxNumFailures": "1000000",
    "spark.executorEnv.MALLOC_ARENA_MAX": "2",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(12 * 2**20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(64 * 2**20),
}
"""Rounds share the executors fairly; tasks keep their Python worker with its consumer and store; a
long-lived driver must not die of failures added up over weeks. The allocator is told to give freed
parts and chunks back, which takes a tenth off a worker's peak. Exactly-once depends on none of
these: what a task does counts only if returned.
"""


def spark_context(group: ConsumerGroup, master: str | None) -> "SparkContext":
    """A context on ``master``, or on the one that ``spark-submit`` or the pod's configuration names."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415  # half a second that no other command should pay

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    log4j = f"-Dlog4j2.configurationFile={files('landfall.driver') / 'log4j2.properties'}"
    conf = SparkConf().setAppName(f"landfall-{group.metadata.name}")
    if master:
        conf.setMaster(master)
    local = bool(master and master.startswith("local"))
    java = {
        "spark.driver.extraJavaOptions": f"{log4j} {JVM}",
        "spark.executor.extraJavaOptions": JVM,
    }
    settings = {**CONF, **(LOCAL_CONF if local else {}), **java}
    settings |= group.spec.tuning.spark_conf
    conf.setAll(list(settings.items()))
    quiet_py4j()
    with _stderr_as_events():
        return SparkContext.getOrCreate(conf)


def quiet_py4j() -> None:
    """Drop what py4j logs: it raises all of it as well. Some it logs through the root logger, with a trace."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_py4j)


def _not_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


@contextmanager
def _stderr_as_events() -> Iterator[None]:
    """Let the JVM started inside write its standard error to a pipe, whose lines become events of this logger.

    Spark greets with lines that mean nothing to anybody who runs Landfall, unless it fails to
    start; what it and the tasks write later does matter.
    """
    source, sink = os.pipe()
    own = os.dup(2)
    os.dup2(sink, 2)
    os.close(sink)
    greeting = StartupOutput()
    Thread(
        target=greeting.tell,
        args=(os.fdopen(source, errors="replace"),),
        name="spark-stderr",
        daemon=True,
    ).start()
    try:
        yield
    except Exception:
        log.error("spark did not start: %s", " ".join(greeting.lines))  # noqa: TRY400  # the caller has the traceback
        raise
    finally:
        greeting.over = True
        os.dup2(own, 2)
        os.close(own)


@dataclass
class StartupOutput:
    """What Spark says before it is there; afterwards every line is an event."""

    lines: list[str] = field(default_factory=list)
    over: bool = False

    def tell(self, lines: Iterable[str]) -> None:
        """Keep the greeting, pass the rest on; ends with the JVM."""
        for line in lines:
            if self.over:
                log.warning("spark: %s", line.rstrip())
            else:
                self.lines.append(line.strip())


def end(context: "SparkContext") -> None:
    """End Spark, also one whose JVM has died."""
    try:
        context.stop()
    except Exception as error:  # noqa: BLE001  # py4j lets many kinds of error through, and there is nothing left to do
        log.warning("spark did not end well", extra={"why": first_line(error)})


class SparkRunner:
    """A Spark job per round, a Spark task per bin, no shuffle, nothing cached."""

    def __init__(self, context: "SparkContext") -> None:
        """Use a context that lives as long as the driver."""
        self._context = context
        self._executors = Executors(context)

    @property
    def slots(self) -> int:
        """Cores of all executors that are there now.

        Raises:
            Retry: Spark is gone, and stays so in this process.
        """
        try:
            return max(1, self._context.defaultParallelism)
        except Exception as error:  # py4j lets many kinds of error through
            raise Retry(f"spark is gone: {first_line(error)}") from error

    def run(self, batch: Batch, bins: Sequence[Bin]) -> list[SliceResult]:
        """Run the bins; a job that fails as a whole fails every slice of it for now."""
        try:
            self._context.setLocalProperty(
                "spark.job.description", f"{batch.group.metadata.name}: {len(bins)} bins"
            )
            return (
                self._context.parallelize(bins, len(bins))
                .mapPartitions(partial(_land_bins, batch))
                .collect()
            )
        except Exception as error:  # noqa: BLE001  # py4j wraps whatever killed the job; none of it may stop the loop
            return _all_failed(bins, Retry(f"spark job failed: {first_line(error)}"))

    def warm_up(self) -> None:
        """Let every slot start its Python worker and import what tasks need.

        Raises:
            Retry: no task can run.
        """
        if self._executors.none_wanted:
            return
        slots = self.slots
        try:
            self._context.parallelize(range(slots), slots).mapPartitions(_imported).collect()
        except Exception as error:  # py4j wraps whatever killed the job
            raise Retry(f"spark cannot run our tasks: {first_line(error)}") from error

    def want(self, executors: int) -> None:
        """Change the number of executors; ignored where tasks run in this process."""
        self._executors.want(executors)

    def settle(self) -> Workers:
        """See to it."""
        return self._executors.settle()


def _imported(_: Iterable[int]) -> Iterator[int]:
    """Nothing to do: to find this function, a worker has imported all that tasks need."""
    return iter(())


def _land_bins(batch: Batch, bins: Iterable[Bin]) -> Iterator[SliceResult]:
    return chain.from_iterable(worker.land_bin(batch, pieces) for pieces in bins)


def _all_failed(bins: Sequence[Bin], error: LandfallError) -> list[SliceResult]:
    return [FailedSlice(piece, error) for pieces in bins for piece in pieces]
