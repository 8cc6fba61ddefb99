"""The dependencies of a driver: one value, put together once by ``landfall.driver.process.run``."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from landfall.api.spec import Feed
from landfall.driver.core.background import Background, Threads
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.observer import Observer
from landfall.driver.core.planned_replacement import NoPlanner, Planner
from landfall.driver.core.runner import BinRunner
from landfall.errors import LandfallError
from landfall.lane import Lane
from landfall.ledger import Record, State
from landfall.source import Backup
from landfall.source.file_events import EventSource, open_events
from landfall.store import SourceFiles, Store
from landfall.store.urls import open_files

log = logging.getLogger(__name__)

Append = Callable[[Callable[..., Record]], State]
"""Appends the record that the given callable makes when it is called with ``header=…``."""

REPEATED_AFTER = timedelta(minutes=1)
"""A failure that continues is logged again after this time."""
CONFIRM_AFTER = timedelta(seconds=10)
"""How long a COMMIT whose objects are visible waits for another record that carries this."""
DECIDE_AGAIN_AFTER = timedelta(seconds=30)
"""How long a REPLACE whose new objects are not visible may hold up what was recorded after it."""


@dataclass(frozen=True)
class DriverDeps:
    """The dependencies of a driver; they outlive it when the process takes the lane again.

    Tests run the same loop on fakes: each field is a protocol, a callable or a plain value.

    Attributes:
        store: holds the ledger and the landed objects.
        observer: the last known state of the log.
        runner: runs tasks, on Spark in production.
        clock: the current time.
        new_name: returns a name that was never used before, for batches and ledger writers.
        counters: what this process has done since it started.
        background: makes thread pools and notifiers.
        open_files: where the files of a feed are.
        open_events: opens the notifications of new files of a feed.
        backup: what another group has landed of offsets that the log has lost, if any has.
        new_planner: returns what plans REPLACEs of a lane, given a function that wakes the driver.
        confirm_after: how long what has become visible waits for another record that carries this,
            before the driver appends one for it.
        decide_again_after: how long a REPLACE whose new objects are not visible may hold up what
            was recorded after it, before it is decided again.
    """

    store: Store
    observer: Observer
    runner: BinRunner
    clock: Callable[[], datetime]
    new_name: Callable[[], str]
    counters: DriverCounters
    background: Background = field(default_factory=Threads)
    open_files: Callable[[Feed], SourceFiles] = open_files
    open_events: Callable[[Feed], EventSource | None] = open_events
    backup: Backup | None = None
    new_planner: Callable[[Lane, Callable[[], object]], Planner] = lambda *_: NoPlanner()
    confirm_after: timedelta = CONFIRM_AFTER
    decide_again_after: timedelta = DECIDE_AGAIN_AFTER


def record_failure(deps: DriverDeps, reason: str, error: LandfallError) -> None:
    """Count and log what kept records from being landed; ``reason`` is a metric's label.

    While nothing is landed, the same failure is logged once in ``REPEATED_AFTER``.
    """
    counters, now = deps.counters, deps.clock()
    last = counters.last_failure if counters.consecutive_failures else None
    is_known = last is not None and (last.reason, last.message) == (reason, str(error))
    counters.failed(reason, str(error), now)
    logged = counters.failure_logged
    if not is_known or logged is None or now - logged >= REPEATED_AFTER:
        counters.failure_logged = now
        log.warning("landing failed", extra={"reason": reason, "why": str(error)})
