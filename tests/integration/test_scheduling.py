"""Batches that run at the same time share Spark's slots, so that a small one is not delayed."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark import SparkContext

from landfall.driver.spark.session import SparkRunner
from tests.support.waiting import eventually

pytestmark = pytest.mark.xdist_group("drivers")

TASKS = 30


def active_stages(context: SparkContext) -> int:
    return len(context.statusTracker().getActiveStageIds())


def test_a_small_batch_does_not_wait_for_the_backlog_of_another(
    context: SparkContext, tmp_path: Path
) -> None:
    runner, may_end = SparkRunner(context), tmp_path / "may-end"
    begun = tmp_path / "begun"
    begun.mkdir()
    runner.warm_up()

    def backlog(tasks: Iterable[int]) -> Iterator[int]:
        (begun / uuid4().hex).touch()
        eventually(may_end.exists, bool)
        return iter(tasks)

    def small(_: Iterable[int]) -> Iterator[int]:
        return iter((len([*begun.iterdir()]),))

    with ThreadPoolExecutor(2) as threads:
        large = threads.submit(runner.run_tasks, range(TASKS), backlog, "a backlog")
        try:
            eventually(lambda: len([*begun.iterdir()]), lambda count: count == runner.slots)
            waiting = threads.submit(runner.run_tasks, [0], small, "a small batch")
            eventually(lambda: active_stages(context), lambda count: count == 2)
        finally:
            may_end.touch()  # every slot was taken until here
        (begun_before,) = waiting.result()
        large.result()

    assert len([*begun.iterdir()]) == TASKS
    assert begun_before < TASKS / 3


def test_jobs_at_the_same_time_have_pools_of_their_own(context: SparkContext) -> None:
    runner, pools = SparkRunner(context), list[str]()

    def run(_: int) -> None:
        runner.run_tasks([0], lambda tasks: tasks, "nothing")
        pools.append(context.getLocalProperty("spark.scheduler.pool"))

    with ThreadPoolExecutor(1) as one:
        list(one.map(run, range(2)))
    assert set(pools) == {"batch-0"}
