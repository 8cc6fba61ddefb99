"""Processes that are killed: drivers without Spark that merge often, and commands.

They are forked by a process that has imported everything, so that one starts in no time. A driver
is the loop of ``landfall run`` with its planner of merges; only tasks run in the process itself.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Self
from uuid import uuid4

from landfall.api import group_file
from landfall.cli import main as landfall_command
from landfall.cli.decide import verb  # noqa: F401  # so that it need not be imported again
from landfall.cli.group_store import GroupStore
from landfall.cli.land.backfill import OpenBackfill
from landfall.clock import SteadyClock
from landfall.driver.backfill.side_source import side_group_of
from landfall.driver.core.pinned_spec import pinned_spec
from landfall.driver.process.run import RunOptions, drive
from landfall.driver.replacing import compacting, compaction_folders
from landfall.lane import claim_output_root
from landfall.lane.stores import open_stores
from landfall.logs import log_as_json
from landfall.store.probe import probe
from tests.support.landing.crashing_store import STRIKE
from tests.support.landing.group import InProcessRunner
from tests.support.landing.processes import ROOT

OFTEN = timedelta(milliseconds=300)
"""Between two looks for what is to be merged."""


@dataclass
class Forked:
    """A process; it is killed at the end of a ``with`` block."""

    process: BaseProcess

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """``kill -9``, unless it has ended; returns once it is gone."""
        self.process.kill()
        self.process.join()

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        assert self.process.pid
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def end(self, seconds: float) -> int | None:
        """The exit code, negative for a signal; None if it does not end in this time."""
        self.process.join(seconds)
        return self.process.exitcode


class Forks:
    """Starts processes whose output is appended to logs in a folder."""

    def __init__(self, folder: Path) -> None:
        """Return once everything is imported that they need."""
        self._folder = folder
        self._context = multiprocessing.get_context("forkserver")
        # Python 3.11 does not pass its path on to the process that imports.
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), *sys.path)))
        # With what the main module imports, or each process would import that anew.
        self._context.set_forkserver_preload(["tests.chaos.replacing"])
        first = self._context.Process(target=os.getpid, daemon=True)
        first.start()
        first.join()

    def driver(self, file: Path, strike: str = "", *, until_caught_up: bool = False) -> Forked:
        """A driver of a group, which kills itself where a strike says."""
        name = "last" if until_caught_up else "driver"
        return self._start(name, strike, _drive, (file, until_caught_up))

    def backfill(self, file: Path, name: str, strike: str = "") -> Forked:
        """What lands the ranges of a backfill."""
        return self._start("backfill", strike, _backfill, (file, name))

    def command(self, *arguments: str, strike: str = "") -> Forked:
        """A command of ``landfall``."""
        return self._start(arguments[0], strike, landfall_command, (list(arguments),))

    def _start(self, name: str, strike: str, run: object, arguments: tuple[object, ...]) -> Forked:
        environment = {**os.environ, STRIKE: strike and f"KILL {strike}"}
        log = self._folder / f"{name}.log"
        made = self._context.Process(
            target=_run, args=(log, environment, run, arguments), daemon=True
        )
        made.start()
        return Forked(made)


def _run(log: Path, environment: Mapping[str, str], run: object, arguments: tuple[object]) -> None:
    os.environ.update(environment)
    with log.open("ab", buffering=0) as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    assert callable(run)
    sys.exit(run(*arguments))


def _drive(file: Path, until_caught_up: bool) -> int:  # sent to another process
    """Land and merge until a signal, or until everything is landed; returns the exit code."""
    log_as_json()
    compacting.INTERVAL = compacting.RETRY_PAUSE = OFTEN
    compaction_folders.LATE_PAUSE = 2 * OFTEN
    group = pinned_spec(group_file.load(file, os.environ), uuid4().hex)
    store = open_stores(group.spec)
    probe(store)
    claim_output_root(store, group.full_name)
    options = RunOptions(until_caught_up=until_caught_up, http_port=0)
    return drive(group, store, InProcessRunner(), options)


def _backfill(file: Path, name: str) -> int:
    """Land the ranges of a backfill, as ``landfall backfill run`` does; returns the exit code."""
    log_as_json()
    opened = OpenBackfill(GroupStore.of(file), name)
    clock = SteadyClock()
    group = side_group_of(opened.live.group, opened.plan, opened.store, None, clock)
    group = pinned_spec(group, uuid4().hex)
    store = open_stores(group.spec)
    claim_output_root(store, group.full_name)
    return drive(group, store, InProcessRunner(), RunOptions(goal=opened.plan.goal, http_port=0))
