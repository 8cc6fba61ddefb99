"""Putting a driver together from its spec and running it: what ``landfall run`` and the driver pod's entry both call."""

import logging
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType

import stamina

from landfall import registry
from landfall.api.contract import LANE, ExitCode, Status
from landfall.api.spec import ConsumerGroup
from landfall.clock import SteadyClock
from landfall.driver.counters import DriverCounters
from landfall.driver.handover import LaneContender
from landfall.driver.http.control import Control, ControlHandler, serve_control
from landfall.driver.http.server import StatusBoard, serve
from landfall.driver.loop import DriverDeps
from landfall.driver.observer import Observer
from landfall.driver.runner import Runner
from landfall.driver.spark.session import SparkRunner, end, spark_context
from landfall.driver.store_monitor import StoreMonitor, fail_fast
from landfall.errors import Retry
from landfall.lane import Lane, claim_output_root
from landfall.source.kafka import KafkaLog
from landfall.store import Store
from landfall.store.probe import probe
from landfall.store.urls import open_store

log = logging.getLogger(__name__)

Progress = Callable[[Status], None]

STARTUP_TRIES = 60


@dataclass(frozen=True, slots=True)
class Options:
    """How to run.

    Attributes:
        until_caught_up: stop when everything the log holds at the start is landed.
        master: Spark's master; None for what the environment says.
        http_host: where to serve status and metrics.
        http_port: None for the spec's; 0 for any free port.
        revision: ours, where drivers take turns; empty to take the lane at once, whoever has it.
        control: where to be told things, if anywhere.
    """

    until_caught_up: bool = False
    master: str | None = None
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    revision: str = ""
    control: Control | None = None


def run_group(group: ConsumerGroup, options: Options, progress: Progress | None = None) -> ExitCode:
    """Land a group's topics until caught up, SIGTERM or SIGINT; see ``ExitCode`` for how it may end.

    Raises:
        Stalled: before the ledger was opened: the spec, the store or its owner is wrong.
        Retry: the store cannot be reached, or no task can be run.
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
            claim_output_root(store, f"{group.metadata.namespace}/{group.metadata.name}")
    context = spark_context(group, options.master)
    try:
        return drive(group, store, SparkRunner(context), options, progress)
    finally:
        end(context)


def drive(
    group: ConsumerGroup,
    store: Store,
    runner: Runner,
    options: Options,
    progress: Progress | None = None,
) -> ExitCode:
    """Take turns at the lane with signals, HTTP and control attached."""
    clock = SteadyClock()
    monitor = StoreMonitor(lambda: turns.look(tail.read), clock)
    board, counters = StatusBoard(clock, monitor.outage), DriverCounters(clock())

    def post(status: Status) -> None:
        board.post(status, counters)
        if progress:
            progress(status)

    observer = Observer(KafkaLog(group), group.spec.source.kafka.discovery_interval)
    parts = DriverDeps(store, observer, runner, clock, lambda: uuid.uuid4().hex)
    lane = Lane(store, group.metadata.name, LANE)
    turns = LaneContender(
        group,
        lane,
        parts,
        counters,
        post,
        board.wait_for,
        options.revision,
        options.until_caught_up,
    )
    tail = open_store(fail_fast(group.spec.output))
    with ExitStack() as stack:
        stack.callback(monitor.stop)
        monitor.start()
        port = group.spec.tuning.http_port if options.http_port is None else options.http_port
        server = serve(board, options.http_host, port)
        stack.callback(server.shutdown)
        log.info("serving", extra={"url": f"http://{options.http_host}:{server.server_port}/"})
        if options.control:
            listening = serve_control(
                options.control, ControlHandler(runner.want, turns.hand_over, turns.take_over)
            )
            stack.callback(listening.shutdown)
            log.info(
                "listening",
                extra={"url": f"http://{options.control.host}:{listening.server_port}/control/"},
            )
        stack.enter_context(_signals(turns.stop))
        return turns.run()


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
    log.warning(
        "trying again",
        extra={"in_seconds": round(details.wait_for, 1), "why": str(details.caused_by)},
    )
