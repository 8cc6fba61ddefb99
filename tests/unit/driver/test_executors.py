"""How executors are brought to a number, on a Spark that is scripted: what Spark itself does with
this is seen on a real cluster.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from landfall.api.contract import Workers
from landfall.driver.spark.executors import Executors, first_line


class Nil(tuple[str, ...]):
    """Scala's list, as far as it is used."""

    __slots__ = ()

    def prepended(self, item: str) -> "Nil":
        return Nil((item, *self))

    def mkString(self, by: str) -> str:  # noqa: N802  # Scala's name
        return by.join(self)


@dataclass
class Cluster:
    """A SparkContext with executors of two cores; what is asked for comes at once, what is ended is
    seen one look later.
    """

    master: str = "k8s://x"
    there: list[str] = field(default_factory=lambda: ["1", "2", "3"])
    busy: set[str] = field(default_factory=set)
    totals: list[int] = field(default_factory=list)
    going: list[str] = field(default_factory=list)
    error: Exception | None = None
    defaultParallelism: int = 4  # noqa: N815  # Spark's name

    def __post_init__(self) -> None:
        backend = SimpleNamespace(
            getExecutorIds=lambda: Nil(self.there),
            totalCoreCount=lambda: 2 * len(self.there),
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
        ended = Nil(name for name in ids if name not in self.busy)
        self.going += ended
        return ended

    def gone(self) -> None:
        """What was ended is not there any more."""
        self.there = [name for name in self.there if name not in self.going]


def executors(cluster: Cluster) -> Executors:
    return Executors(cluster)  # type: ignore[arg-type]


def test_nothing_is_changed_before_anything_is_told() -> None:
    cluster = Cluster(there=["1", "2", "3", "4"])

    assert executors(cluster).settle() == Workers(3, 4, 8)
    assert (cluster.totals, cluster.going) == ([], [])


def test_more_are_asked_for_once() -> None:
    cluster = Cluster()
    some = executors(cluster)
    some.want(5)

    assert [some.settle(), some.settle()] == [Workers(5, 3, 6)] * 2
    assert cluster.totals == [5]


def test_idle_ones_are_let_go_the_youngest_first() -> None:
    cluster = Cluster(there=["9", "10", "2"])
    some = executors(cluster)
    some.want(1)

    assert some.settle() == Workers(1, 1, 6)
    assert some.settle() == Workers(1, 1, 6)
    cluster.gone()
    assert some.settle() == Workers(1, 1, 2)
    assert (cluster.totals, sorted(cluster.going)) == ([1], ["10", "9"])


def test_busy_ones_are_asked_again_when_they_are_idle() -> None:
    cluster = Cluster(busy={"1", "3"})
    some = executors(cluster)
    some.want(1)

    assert some.settle() == Workers(1, 2, 6)
    assert cluster.going == ["2"]
    cluster.busy.clear()
    cluster.gone()
    assert some.settle() == Workers(1, 1, 4)
    assert cluster.going == ["2", "3"]


def test_a_number_is_ignored_where_tasks_run_in_this_process() -> None:
    cluster = Cluster(master="local[4]", there=[])
    some = executors(cluster)
    some.want(5)

    assert some.settle() == Workers(0, 0, 4)
    assert (cluster.totals, some.none_wanted) == ([], False)


def test_a_spark_that_does_not_answer_leaves_the_last_numbers_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster()
    some = executors(cluster)
    before = some.settle()
    cluster.error = RuntimeError("gone")

    assert [some.settle(), some.settle()] == [before, before]
    assert caplog.messages == ["executors cannot be looked at"]


def test_what_a_task_said_is_quoted_rather_than_what_java_made_of_it() -> None:
    said = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n: org.apache.spark.X\n"
    error = RuntimeError(
        f"{said}  File x\nModuleNotFoundError: No module named 'landfall'\n SQLSTATE: 38000"
    )

    assert first_line(error) == "ModuleNotFoundError: No module named 'landfall'"
    assert first_line(RuntimeError("")) == "RuntimeError"
