"""As many executors as are wanted, in a Spark that goes on running.

Spark is told the total, which brings new executors and withdraws those that have not come yet; it
never lets one go that is there. So of those that are too many, idle ones are ended here. Spark
itself refuses for a busy one: it is asked again at the next look, until it is idle.

Spark's own interface for this (``SparkContext.killExecutors``) ends busy ones as well; what is
called here instead is the scheduler's, which its bytecode has public. Executor ids are never used
again.
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
        """Leave things as Spark's configuration has them until told otherwise."""
        self._context = context
        self._local = str(context.master).partition("[")[0] == "local"
        self._configured = int(context.getConf().get(INSTANCES, INSTANCES_DEFAULT))
        self._told: int | None = None
        self._asked: int | None = None
        self._ending: set[str] = set()
        self._seen = Workers(self.wanted, 0, 0)
        self._trouble = ""

    @property
    def wanted(self) -> int:
        """Executors Spark is asked for; none where tasks run in this process."""
        if self._local:
            return 0
        return self._configured if self._told is None else self._told

    @property
    def none_wanted(self) -> bool:
        """Whether no task is to run at all."""
        return self.wanted == 0 and not self._local

    def want(self, executors: int) -> None:
        """Change the level."""
        self._told = executors

    def settle(self) -> Workers:
        """Ask for what is missing, end idle ones of those that are too many, and tell what there is."""
        try:
            if self._local:
                return Workers(0, 0, self._context.defaultParallelism)
            self._seen = self._look()
        except Exception as error:  # noqa: BLE001  # py4j lets many kinds of error through, and the next look may succeed
            if (why := first_line(error)) != self._trouble:
                log.warning("executors cannot be looked at", extra={"why": why})
            self._trouble = why
        return self._seen

    def _look(self) -> Workers:
        spark = self._context._jsc.sc()  # noqa: SLF001  # there is no other way to Spark's own context
        backend = spark.schedulerBackend()
        wanted, known = (
            self.wanted,
            set(filter(None, backend.getExecutorIds().mkString(",").split(","))),
        )
        self._ending &= known
        if self._told is not None:
            if self._asked != wanted and spark.requestTotalExecutors(
                wanted, 0, self._scala("Map").empty()
            ):
                log.info(
                    "executors asked for",
                    extra={"wanted": wanted, "registered": len(known - self._ending)},
                )
                self._asked = wanted
            self._release_idle(backend, known, wanted)
        return Workers(wanted, len(known - self._ending), int(backend.totalCoreCount()))

    def _release_idle(self, backend: Any, known: set[str], wanted: int) -> None:
        """End as many idle ones as are too many, the youngest first."""
        surplus = len(known - self._ending) - wanted
        candidates = sorted(known - self._ending, key=int, reverse=True)
        while surplus > 0 and candidates:
            asked, candidates = candidates[:surplus], candidates[surplus:]
            # neither adjusts the total, which is right already, nor counts as a failure, nor ends a
            # busy one
            ended = list(
                self._ended(backend.killExecutors(self._sequence(asked), False, False, False))  # noqa: FBT003
            )
            self._ending.update(ended)
            surplus -= len(ended)
            if ended:
                log.info(
                    "idle executors let go", extra={"executors": ",".join(ended), "wanted": wanted}
                )

    def _ended(self, ids: Any) -> Iterator[str]:
        yield from filter(None, ids.mkString(",").split(","))

    def _sequence(self, ids: list[str]) -> Any:
        sequence = self._scala("Nil")
        for name in ids:
            sequence = sequence.prepended(name)
        return sequence

    def _scala(self, name: str) -> Any:
        """An object of Scala's immutable collections."""
        jvm: Any = self._context._jvm  # noqa: SLF001  # as above
        package = jvm.scala.collection.immutable
        return getattr(getattr(package, f"{name}$"), "MODULE$")


def first_line(error: Exception) -> str:
    """What py4j raised, in short: what Python said in a task, if it did, else what Java said."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = (line for line in lines if re.match(r"\w*(Error|Exception): ", line))
    return next(said, lines[0] if lines else type(error).__name__)[:300]
