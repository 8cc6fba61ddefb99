"""Putting a driver together from its spec and running it: what ``landfall run`` and the driver pod's entry both call."""

import logging
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType

import stamina

from landfall import __version__, layout, registry
from landfall.app.driver import Driver, Parts
from landfall.app.http import Board, serve
from landfall.app.observer import Observer
from landfall.app.report import picture
from landfall.app.runner import Runner
from landfall.app.spark import SparkRunner, end, spark_context
from landfall.app.tally import Tally
from landfall.contract import LANE, ExitCode, Status
from landfall.errors import Reason, Retry, Stalled
from landfall.lane import Lane, LaneWriter, claim
from landfall.source.kafka import KafkaLog
from landfall.spec import ConsumerGroup
from landfall.store import Store
from landfall.store.probe import probe
from landfall.store.urls import open_store

log = logging.getLogger(__name__)

Progress = Callable[[Status], None]

STARTUP_TRIES = 60
FIRST_KEYS = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """How to run.

    Attributes:
        until_caught_up: stop when everything the log holds at the start is landed.
        master: Spark's master; None for what the environment says.
        http_host: where to serve status and metrics.
        http_port: None for the spec's; 0 for any free port.
    """

    until_caught_up: bool = False
    master: str | None = None
    http_host: str = "127.0.0.1"
    http_port: int | None = None


def run_group(group: ConsumerGroup, options: Options, progress: Progress | None = None) -> ExitCode:
    """Land a group's topics until caught up, SIGTERM or SIGINT; see ``ExitCode`` for how it may end.

    Raises:
        Stalled: before the ledger was opened: the spec, the store or its owner is wrong.
        Retry: the store cannot be reached.
    """
    stamina.instrumentation.set_on_retry_hooks((_log_retry,))
    registry.check_spec(group)
    if group.spec.state == "Suspended":
        log.warning("the group is suspended: spec.state says so")
        return ExitCode.OK
    store = open_store(group.spec.output)
    for attempt in stamina.retry_context(on=Retry, attempts=STARTUP_TRIES, timeout=120):
        with attempt:
            probe(store)
            claim(store, f"{group.metadata.namespace}/{group.metadata.name}")
    context = spark_context(group, options.master)
    try:
        return drive(group, store, SparkRunner(context), options, progress)
    finally:
        end(context)


def drive(
    group: ConsumerGroup, store: Store, runner: Runner, options: Options, progress: Progress | None = None
) -> ExitCode:
    """Open the ledger and run the loop with signals and HTTP attached."""
    board = Board(_now)
    port = group.spec.tuning.http_port if options.http_port is None else options.http_port
    server = serve(board, options.http_host, port)
    log.info("serving", extra={"url": f"http://{options.http_host}:{server.server_port}/"})

    def report(driver: Driver) -> None:
        status = picture(driver, _now())
        board.post(status, driver.tally)
        if progress:
            progress(status)

    def store_is_away(error: Retry) -> None:
        driver_tally.failed("StoreUnavailable", str(error), _now())
        if driver:
            report(driver)
        board.waiting_for = f"store: {error}"

    driver: Driver | None = None
    driver_tally = Tally(_now())
    try:
        writer = open_lane(group, store, store_is_away)
        observer = Observer(KafkaLog(group), group.spec.source.kafka.discovery_interval)
        parts = Parts(store, observer, runner, _now, lambda: uuid.uuid4().hex)
        driver = Driver(group, writer, parts, driver_tally, report, options.until_caught_up)
        with _signals(driver.stop):
            return driver.run()
    finally:
        server.shutdown()


def open_lane(group: ConsumerGroup, store: Store, on_retry: Callable[[Retry], None]) -> LaneWriter:
    """Take the lane, fencing whoever had it.

    Raises:
        Stalled: OUTPUT_OCCUPIED, the ledger is empty but objects are there with the names this generation would give;
            LEDGER_BROKEN.
    """
    lane = Lane(store, group.metadata.name, LANE)
    if lane.is_empty():
        _refuse_strangers(group, store)
    return LaneWriter.open(
        lane, uuid.uuid4().hex, _now, generation=group.spec.generation, software=__version__, on_retry=on_retry
    )


def _refuse_strangers(group: ConsumerGroup, store: Store) -> None:
    """A new ledger must not give names that something else (Secor, a deleted ledger) has given already."""
    for _, stat in zip(range(FIRST_KEYS), store.list_after(""), strict=False):
        try:
            name = layout.parse_key(stat.key)
        except ValueError:
            continue
        if name.generation == group.spec.generation:
            raise Stalled(
                Reason.OUTPUT_OCCUPIED,
                f"{group.spec.output.url} has no ledger of {group.metadata.name}, but holds {stat.key}: "
                f"raise spec.generation above {name.generation}, or choose an empty output root",
            )


@contextmanager
def _signals(stop: Callable[[str], None]) -> Iterator[None]:
    """Drain on the first SIGTERM or SIGINT, and let a second one end the process at once."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def drain(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop(signal.Signals(number).name)

    for number in before:
        signal.signal(number, drain)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _log_retry(details: stamina.instrumentation.RetryDetails) -> None:
    log.warning("trying again", extra={"in_seconds": round(details.wait_for, 1), "why": str(details.caused_by)})


def _now() -> datetime:
    return datetime.now(UTC)
