"""Scales the executors of a running Spark context.

Spark is given the desired total. It then starts executors, and withdraws requests that are not
fulfilled yet, but it never ends a running executor. So surplus executors are ended here, once they
are idle: Spark refuses to end a busy one without force, and is asked again at the next look.

Spark's public method for this (``SparkContext.killExecutors``) ends busy executors as well. The
scheduler backend's method is called instead, which is public in its bytecode. Spark never uses an
executor id twice.
"""

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from landfall.api.contract import Workers

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

INSTANCES = "spark.executor.instances"
INSTANCES_DEFAULT = "2"


class Executors:
    """The executors of one context; ``want`` may be called from any thread, ``settle`` from one."""

    def __init__(self, context: "SparkContext") -> None:
        """Nothing changes until ``want`` is called: Spark's configuration decides the number."""
        self._context = context
        self._local = str(context.master).partition("[")[0] == "local"
        self._configured = int(context.getConf().get(INSTANCES, INSTANCES_DEFAULT))
        self._desired: int | None = None
        self._requested: int | None = None
        self._ending: set[str] = set()
        self._last_known = Workers(self.wanted, 0, 0)
        self._last_error = ""

    @property
    def wanted(self) -> int:
        """The desired number of executors; 0 where tasks run in this process."""
        if self._local:
            return 0
        return self._configured if self._desired is None else self._desired

    @property
    def none_wanted(self) -> bool:
        """True if the desired number is 0, so that no task can run."""
        return self.wanted == 0 and not self._local

    def want(self, executors: int) -> None:
        """Set the desired number."""
        self._desired = executors

    def settle(self) -> Workers:
        """Request missing executors, end idle surplus ones, and return how many there are.

        If Spark does not answer, the last known numbers are returned.
        """
        try:
            if self._local:
                return Workers(0, 0, self._context.defaultParallelism)
            self._last_known = self._scale()
        except Exception as error:  # noqa: BLE001  # py4j raises many types of errors, and the next look may succeed
            # Logged once, not at every pass.
            if (why := first_line(error)) != self._last_error:
                log.warning("executor count unknown", extra={"why": why})
            self._last_error = why
        return self._last_known

    def _scale(self) -> Workers:
        spark = self._context._jsc.sc()  # noqa: SLF001  # PySpark has no public access to the JVM's context
        backend = spark.schedulerBackend()
        wanted, known = self.wanted, set(self._ids(backend.getExecutorIds()))
        self._ending &= known
        if self._desired is not None:
            if self._requested != wanted and spark.requestTotalExecutors(
                wanted, 0, self._scala("Map").empty()
            ):
                log.info(
                    "executors requested",
                    extra={"wanted": wanted, "registered": len(known - self._ending)},
                )
                self._requested = wanted
            self._release_idle(backend, known, wanted)
        return Workers(wanted, len(known - self._ending), int(backend.totalCoreCount()))

    def _release_idle(self, backend: Any, known: set[str], wanted: int) -> None:
        """End as many idle executors as are surplus, the youngest first."""
        surplus = len(known - self._ending) - wanted
        candidates = sorted(known - self._ending, key=int, reverse=True)
        while surplus > 0 and candidates:
            chosen, candidates = candidates[:surplus], candidates[surplus:]
            # The flags: do not adjust the total, which is right already; do not count this as a
            # failure; do not end a busy executor.
            ended = list(
                self._ids(backend.killExecutors(self._sequence(chosen), False, False, False))  # noqa: FBT003  # Scala's parameters have no names here
            )
            self._ending.update(ended)
            surplus -= len(ended)
            if ended:
                log.info(
                    "idle executors released",
                    extra={"executors": ",".join(ended), "wanted": wanted},
                )

    def _ids(self, sequence: Any) -> Iterator[str]:
        """Yield the strings of a Scala sequence."""
        yield from filter(None, sequence.mkString(",").split(","))

    def _sequence(self, ids: list[str]) -> Any:
        sequence = self._scala("Nil")
        for name in ids:
            sequence = sequence.prepended(name)
        return sequence

    def _scala(self, name: str) -> Any:
        """Return a singleton object of Scala's immutable collections."""
        jvm: Any = self._context._jvm  # noqa: SLF001  # as above
        package = jvm.scala.collection.immutable
        return getattr(getattr(package, f"{name}$"), "MODULE$")


def first_line(error: Exception) -> str:
    """Return the first line that names the error: a task's Python error if any, else Java's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = (line for line in lines if re.match(r"\w*(Error|Exception): ", line))
    return next(errors, lines[0] if lines else type(error).__name__)[:300]
