"""Batches that run at the same time share Spark's slots, so that a small one is not delayed."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark import SparkContext

from landfall.driver.spark.session import SparkRunner
from tests.support.landing import wait_for

pytestmark = pytest.mark.xdist_group("drivers")

TASKS, TASK_SECONDS = 30, 0.4


def has_running_tasks(context: SparkContext) -> bool:
    tracker = context.statusTracker()
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    return any(stage.numActiveTasks for stage in stages if stage)


def test_a_small_batch_does_not_wait_for_the_backlog_of_another(context: SparkContext) -> None:
    runner = SparkRunner(context)
    runner.warm_up()

    def sleep(tasks: Iterable[int]) -> Iterator[int]:
        for _ in tasks:
            time.sleep(TASK_SECONDS)
            yield 0

    with ThreadPoolExecutor(2) as threads:
        began = time.monotonic()
        large = threads.submit(runner.run_tasks, range(TASKS), sleep, "a backlog")
        wait_for(lambda: has_running_tasks(context), "the backlog has running tasks")
        submitted = time.monotonic()
        threads.submit(runner.run_tasks, [0], sleep, "a small batch").result()
        delay = time.monotonic() - submitted
        large.result()
    backlog = time.monotonic() - began

    print(f"small batch: {delay:.1f} s, beside a backlog of {backlog:.1f} s")
    assert delay < backlog / 3


def test_jobs_at_the_same_time_have_pools_of_their_own(context: SparkContext) -> None:
    runner, pools = SparkRunner(context), list[str]()

    def run(_: int) -> None:
        runner.run_tasks([0], lambda tasks: tasks, "nothing")
        pools.append(context.getLocalProperty("spark.scheduler.pool"))

    with ThreadPoolExecutor(1) as one:
        list(one.map(run, range(2)))
    assert set(pools) == {"batch-0"}
