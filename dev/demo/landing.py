"""Both groups land at once, and one driver is killed in the middle."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import Progress, TaskID

from dev.demo.drivers import Driver, Group, Landfall
from dev.demo.flights import COUNT
from dev.demo.proof import Bucket, Ledger

VICTIM = "partition"
ENOUGH_COMMITS = 2


@dataclass
class Run:
    """A group being landed, and its ledger as seen from outside."""

    driver: Driver
    ledger: Ledger
    bar: TaskID


def land(landfall: Landfall, bucket: Bucket, groups: Sequence[Group], progress: Progress) -> None:
    """Land all groups to the end; the victim's driver dies by kill -9 once it has committed some flights but not all.

    Raises:
        SystemExit: a driver failed, or the victim was too quick to be killed.
    """
    bars = [progress.add_task(f"{group.name:9}", total=COUNT, note="") for group in groups]
    runs = [
        Run(landfall.run(group), Ledger(bucket, group.name), bar)
        for group, bar in zip(groups, bars, strict=True)
    ]
    victim = next(run for run in runs if run.driver.group.name == VICTIM)
    with _none_left_behind(runs):
        _watch(runs, progress, until=lambda: _in_the_middle(victim))
        _kill_and_start_again(victim, landfall, progress)
        _watch(runs, progress, until=lambda: not any(run.driver.running() for run in runs))
    for run in runs:
        _draw(run, progress)


def _in_the_middle(victim: Run) -> bool:
    ended = not victim.driver.running()
    if ended and victim.ledger.follow().commits < ENOUGH_COMMITS:
        raise SystemExit(
            f"{victim.driver.group.name} ended after {victim.ledger.commits} commits and {victim.ledger.rows:,} flights; "
            f"its log is {victim.driver.log}"
        )
    return victim.ledger.commits >= ENOUGH_COMMITS


def _watch(runs: Sequence[Run], progress: Progress, until: Callable[[], bool]) -> None:
    while not until():
        for run in runs:
            _draw(run, progress)
            run.driver.running()  # raises when it failed
        time.sleep(0.25)


def _draw(run: Run, progress: Progress) -> None:
    run.ledger.follow()
    progress.update(run.bar, completed=run.ledger.rows, note=f"{run.ledger.commits} commits")


def _kill_and_start_again(victim: Run, landfall: Landfall, progress: Progress) -> None:
    group, was_running, pid = victim.driver.group, victim.driver.running(), victim.driver.kill()
    committed = victim.ledger.follow()
    if committed.rows >= COUNT or not was_running:
        raise SystemExit(
            f"{group.name} had committed everything before it could be killed, so nothing would be proven"
        )
    progress.console.print(
        f"   [bold red]kill -9 {pid}[/]: {group.name} dies after {committed.commits} commits, {committed.rows:,} flights"
    )
    victim.driver = landfall.run(group)
    progress.console.print(f"   {group.name} is started again: process {victim.driver.process.pid}")


@contextmanager
def _none_left_behind(runs: Sequence[Run]) -> Iterator[None]:
    try:
        yield
    finally:
        for run in runs:
            if run.driver.process.poll() is None:
                run.driver.kill()
