"""Lands with both groups at once, and kills one driver before it is done."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import Progress, TaskID

from dev.demo.buckets import DemoBucket
from dev.demo.drivers import DemoDriver, Group, Landfall
from dev.demo.flights import COUNT
from dev.demo.proof import DemoLedger

KILLED_GROUP = "partition"
MIN_COMMITS = 2
"""How many COMMITs the driver makes before it is killed."""


@dataclass
class DemoRun:
    """A group that is being landed, and its ledger, read without Landfall's code."""

    driver: DemoDriver
    ledger: DemoLedger
    bar: TaskID


def land(
    landfall: Landfall, bucket: DemoBucket, groups: Sequence[Group], progress: Progress
) -> None:
    """Land all groups to the end; kill one driver once it has committed some flights but not all.

    Raises:
        SystemExit: a driver failed, or was done before it could be killed.
    """
    bars = [progress.add_task(f"{group.name:9}", total=COUNT, note="") for group in groups]
    runs = [
        DemoRun(landfall.run(group), DemoLedger(bucket, group.name), bar)
        for group, bar in zip(groups, bars, strict=True)
    ]
    to_kill = next(run for run in runs if run.driver.group.name == KILLED_GROUP)
    with _killed_at_exit(runs):
        _watch(runs, progress, until=lambda: _has_committed(to_kill))
        _kill_and_restart(to_kill, landfall, progress)
        _watch(runs, progress, until=lambda: not any(run.driver.running() for run in runs))
    for run in runs:
        _draw(run, progress)


def _has_committed(run: DemoRun) -> bool:
    is_done = not run.driver.running()
    if is_done and run.ledger.follow().commits < MIN_COMMITS:
        raise SystemExit(
            f"{run.driver.group.name} ended after {run.ledger.commits} commits and "
            f"{run.ledger.rows:,} flights; its log is {run.driver.log}"
        )
    return run.ledger.commits >= MIN_COMMITS


def _watch(runs: Sequence[DemoRun], progress: Progress, until: Callable[[], bool]) -> None:
    while not until():
        for run in runs:
            _draw(run, progress)
            run.driver.running()  # raises if it failed
        time.sleep(0.25)


def _draw(run: DemoRun, progress: Progress) -> None:
    run.ledger.follow()
    progress.update(run.bar, completed=run.ledger.rows, note=f"{run.ledger.commits} commits")


def _kill_and_restart(run: DemoRun, landfall: Landfall, progress: Progress) -> None:
    group, was_running, pid = run.driver.group, run.driver.running(), run.driver.kill()
    committed = run.ledger.follow()
    if committed.rows >= COUNT or not was_running:
        raise SystemExit(
            f"{group.name} committed everything before it could be killed, "
            "so this run proves nothing about crashes"
        )
    progress.console.print(
        f"   [bold red]kill -9 {pid}[/]: {group.name} is killed after "
        f"{committed.commits} commits, {committed.rows:,} flights"
    )
    run.driver = landfall.run(group)
    progress.console.print(f"   {group.name} is restarted: process {run.driver.process.pid}")


@contextmanager
def _killed_at_exit(runs: Sequence[DemoRun]) -> Iterator[None]:
    try:
        yield
    finally:
        for run in runs:
            if run.driver.process.poll() is None:
                run.driver.kill()
