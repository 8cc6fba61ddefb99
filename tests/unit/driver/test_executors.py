"""How executors are scaled, on a scripted Spark; tests on a cluster show what Spark does."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from landfall.api.contract import Workers
from landfall.driver.spark.executor_problems import ExecutorProblems
from landfall.driver.spark.executors import Executors, first_line
from landfall.driver.spark.session import SparkRunner
from landfall.errors import Retry

if TYPE_CHECKING:
    from pyspark import SparkContext


class Nil(tuple[str, ...]):
    """Scala's list, as far as the product uses it."""

    __slots__ = ()

    def prepended(self, item: str) -> "Nil":
        return Nil((item, *self))

    def mkString(self, by: str) -> str:  # noqa: N802  # Scala's name
        return by.join(self)


@dataclass
class Cluster:
    """A SparkContext with executors of two cores.

    An executor that was ended is listed until ``remove_ended``.
    """

    master: str = "k8s://x"
    running: list[str] = field(default_factory=lambda: ["1", "2", "3"])
    busy: set[str] = field(default_factory=set)
    totals: list[int] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    error: Exception | None = None
    defaultParallelism: int = 4  # noqa: N815  # Spark's name

    def __post_init__(self) -> None:
        backend = SimpleNamespace(
            getExecutorIds=lambda: Nil(self.running),
            totalCoreCount=lambda: 2 * len(self.running),
            killExecutors=self._kill,
        )
        spark = SimpleNamespace(
            schedulerBackend=lambda: backend, requestTotalExecutors=self._request
        )
        self._jsc = SimpleNamespace(sc=lambda: self._spark(spark))
        modules = {
            "Nil$": SimpleNamespace(**{"MODULE$": Nil()}),
            "Map$": SimpleNamespace(**{"MODULE$": SimpleNamespace(empty=dict)}),
        }
        self._jvm = SimpleNamespace(
            scala=SimpleNamespace(collection=SimpleNamespace(immutable=SimpleNamespace(**modules)))
        )

    def getConf(self) -> dict[str, str]:  # noqa: N802  # Spark's name
        if self.error:
            raise self.error
        return {"spark.executor.instances": "3"}

    def _spark(self, spark: Any) -> Any:
        if self.error:
            raise self.error
        return spark

    def _request(self, total: int, _: int, __: object) -> bool:
        self.totals.append(total)
        return True

    def _kill(self, ids: Nil, adjust: bool, count: bool, force: bool) -> Nil:
        assert not any((adjust, count, force))
        idle = Nil(name for name in ids if name not in self.busy)
        self.ended += idle
        return idle

    def remove_ended(self) -> None:
        self.running = [name for name in self.running if name not in self.ended]


def executors(cluster: Cluster) -> Executors:
    return Executors(cluster)  # type: ignore[arg-type]


def test_nothing_changes_before_a_number_is_wanted() -> None:
    cluster = Cluster(running=["1", "2", "3", "4"])

    assert executors(cluster).settle() == Workers(3, 4, 8)
    assert (cluster.totals, cluster.ended) == ([], [])


def test_missing_executors_are_requested_once() -> None:
    cluster = Cluster()
    some = executors(cluster)
    some.want(5)

    assert [some.settle(), some.settle()] == [Workers(5, 3, 6)] * 2
    assert cluster.totals == [5]


def test_idle_executors_are_released_the_youngest_first() -> None:
    cluster = Cluster(running=["9", "10", "2"])
    some = executors(cluster)
    some.want(1)

    assert some.settle() == Workers(1, 1, 6)
    assert some.settle() == Workers(1, 1, 6)
    cluster.remove_ended()
    assert some.settle() == Workers(1, 1, 2)
    assert (cluster.totals, sorted(cluster.ended)) == ([1], ["10", "9"])


def test_busy_executors_are_released_once_they_are_idle() -> None:
    cluster = Cluster(busy={"1", "3"})
    some = executors(cluster)
    some.want(1)

    assert some.settle() == Workers(1, 2, 6)
    assert cluster.ended == ["2"]
    cluster.busy.clear()
    cluster.remove_ended()
    assert some.settle() == Workers(1, 1, 4)
    assert cluster.ended == ["2", "3"]


def test_a_number_is_ignored_where_tasks_run_in_this_process() -> None:
    cluster = Cluster(master="local[4]", running=[])
    some = executors(cluster)
    some.want(5)

    assert some.settle() == Workers(0, 0, 4)
    assert (cluster.totals, some.none_wanted) == ([], False)


def test_the_last_known_numbers_stay_while_spark_does_not_answer_which_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()
    some = executors(cluster)
    before = some.settle()
    cluster.error = RuntimeError("gone")

    assert [some.settle(), some.settle()] == [before, before]
    assert caplog.messages == ["executor count unknown"]


def test_what_spark_says_of_executors_is_reported_with_their_number() -> None:
    problems = ExecutorProblems()
    runner = SparkRunner(cast("SparkContext", Cluster()), problems)
    assert runner.settle() == Workers(3, 3, 6)

    problems.read("termination reason: OOMKilled")

    assert runner.settle() == Workers(3, 3, 6, problems.latest)
    assert problems.latest


def test_a_spark_that_dies_before_its_first_task_is_unavailable() -> None:
    dead = Cluster(error=ConnectionRefusedError(111, "Connection refused"))

    with pytest.raises(Retry, match=r"spark is gone: .*Connection refused"):
        SparkRunner(cast("SparkContext", dead))


def test_a_tasks_python_error_is_quoted_rather_than_javas() -> None:
    java = (
        "An error occurred while calling "
        "z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n: org.apache.spark.X\n"
    )
    error = RuntimeError(
        f"{java}  File x\nModuleNotFoundError: No module named 'landfall'\n SQLSTATE: 38000"
    )

    assert first_line(error) == "ModuleNotFoundError: No module named 'landfall'"
    assert first_line(RuntimeError("")) == "RuntimeError"
