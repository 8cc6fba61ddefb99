"""Puts a driver together from its spec and runs it: for ``landfall run`` and for the driver pod."""

import gc
import logging
import math
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from types import FrameType

import stamina

from landfall.api.contract import LANE, ExitCode, LedgerAnchor, LedgerPosition, Status
from landfall.api.hidden_columns import hidden_columns
from landfall.api.plain_http import plain_http
from landfall.api.spec import ConsumerGroup, Schedule, TopicSpecs
from landfall.api.values import duration_text
from landfall.api.verbs import Answer, Request, RetryRequest
from landfall.clock import SteadyClock
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.deps import DriverDeps
from landfall.driver.core.observer import Observer, longest_pause
from landfall.driver.core.pinned_spec import pinned_spec
from landfall.driver.core.runner import BinRunner
from landfall.driver.core.store_monitor import StoreMonitor, fail_fast
from landfall.driver.http.control import Control, ControlHandler, serve_control
from landfall.driver.http.past import PastReader
from landfall.driver.http.peers import is_any_working
from landfall.driver.http.record_finder import RecordFinder
from landfall.driver.http.server import StatusBoard, serve, serve_near
from landfall.driver.http.status import DriverProgress, StatusReport
from landfall.driver.landing.closed_ranges import scheduled
from landfall.driver.landing.goals import GoalType
from landfall.driver.landing.letters_places import claim_letters_place
from landfall.driver.process.handover import ContenderOptions, LaneContender, StatusReporter
from landfall.driver.process.ledger_root import check_roots
from landfall.driver.process.loop import Driver
from landfall.driver.process.preflight import require_sound
from landfall.driver.process.publishing import LAST_PATIENCE, LAST_TRIES, Publishing
from landfall.driver.process.startup import (
    check_hot_path,
    explain,
    explained,
    kafka_servers,
    store_servers,
)
from landfall.driver.replacing.compacting import planner_of
from landfall.driver.spark.direct_start import EarlyStart
from landfall.driver.spark.executor_problems import ExecutorProblems
from landfall.driver.spark.session import SparkRunner, starting_spark
from landfall.errors import Retry, StoreDenied
from landfall.landed.opening import backup_of, open_log
from landfall.lane import Lane, LaneWriter, claim_output_root
from landfall.lane.stores import open_stores
from landfall.store import Store
from landfall.store.lifecycle import settings_warning
from landfall.store.measured import measured
from landfall.store.probe import probe

# How long a run with an end waits for servers that do not answer.
#
# A driver without an end waits for ever: what it waits for comes back, or a user sees its alerts. A
# run of cron would only hang, so it ends as unavailable instead, and the next run continues.


@dataclass
class Patience:
    """Follows the statuses of a driver.

    Attributes:
        limit: how long nothing may be committed while something fails; None for any time.
        message: why the limit is exceeded; empty while it is not.
    """

    limit: timedelta | None
    message: str = ""
    _since: datetime | None = None
    _commits: int = -1

    def is_exceeded(self, status: Status) -> bool:
        """Return whether this status is the first that is beyond the limit."""
        now, failed = datetime.fromisoformat(status.time), status.commits.last_failure
        waits = failed is not None and status.commits.consecutive_failures > 0
        if self._since is None or not waits or status.commits.total != self._commits:
            self._since = now if waits else None
            self._commits = status.commits.total
            return False
        if self.message or self.limit is None or now - self._since <= self.limit or failed is None:
            return False
        self.message = f"{failed.reason}: {failed.message}"
        return True


log = logging.getLogger(__name__)

Progress = Callable[[StatusReport], None]

STARTUP_TRIES = 60
REPEAT_SECONDS = 60.0
"""Retries because of the same kind of error are logged once in this time."""
GARBAGE_THRESHOLD = 10_000
"""How many more objects are created than freed before Python's garbage collector looks for cycles.

A batch has thousands of results and makes no cycles: reference counting frees them. With Python's
default threshold the collector looks through them again and again while they are checked and
committed, which takes a quarter of the driver's time for a result.
"""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run a group.

    Attributes:
        until_caught_up: stop when everything the log holds at the start is landed.
        goal: what to land before it ends; None for what is due by ``spec.schedule``, or no end.
        max_wait: how long a run with an end waits while nothing can be landed; None for any time.
        stays: wait for the next range of ``spec.schedule``, instead of ending when none is due.
        master: Spark's master; None for the one that Spark's own configuration names.
        http_host: the address to serve status and metrics on.
        http_port: None for the spec's, or any free port if that one is taken; 0 for any free port.
        revision: of software and spec, for handovers; empty to open the lane at once,
            unconditionally.
        peers: a host name with the addresses of all drivers of the group; empty if it is alone.
        known_ledger: what the group's ledger has reached at least; None if nothing is known.
        anchor: a slot of the group's ledger with its hash; None if nothing is known.
        control: where to accept control commands, if anywhere.
        begun: what this process has begun of Spark's start already.
    """

    until_caught_up: bool = False
    goal: GoalType | None = None
    max_wait: timedelta | None = None
    stays: bool = False
    master: str | None = None
    http_host: str = "127.0.0.1"
    http_port: int | None = None
    revision: str = ""
    peers: str = ""
    known_ledger: LedgerPosition | None = None
    anchor: LedgerAnchor | None = None
    control: Control | None = None
    begun: EarlyStart | None = None


def run_group(
    group: ConsumerGroup, options: RunOptions, progress: Progress | None = None
) -> ExitCode:
    """Land a group's topics until caught up, SIGTERM or SIGINT.

    Raises:
        Stalled: the spec or the store is unusable, or another group owns the output root; the
            ledger was not opened.
        StoreDenied: the store refuses. A driver that runs already waits until it does not.
        Retry: the store does not answer, or no task can run.
    """
    stamina.instrumentation.set_on_retry_hooks((RetryLog(),))
    log.info("hot path chosen", extra={"hot_path": str(check_hot_path())})
    require_sound(group)  # before Spark starts, which takes seconds
    group = pinned_spec(group, uuid.uuid4().hex)
    for path, used in TopicSpecs.of(group.spec).used():
        for warning in hidden_columns(used):
            log.warning(
                "column hidden by a folder", extra={"field": f"{path}.route", "why": warning}
            )
    for name, warning in plain_http(group.spec):
        log.warning("secret sent without encryption", extra={"field": name, "why": warning})
    if group.spec.state == "Suspended":
        log.warning("group suspended by spec.state")
        return ExitCode.UNFINISHED if has_end(group, options) else ExitCode.OK
    store = open_stores(group.spec)
    problems = ExecutorProblems()
    with starting_spark(group, options.master, problems, options.begun) as spark:
        if group.spec.source.kafka:
            explain(kafka_servers(group))
        with ExitStack() as stack:
            for root in group.spec.roots:
                stack.enter_context(explained(store_servers(root)))
            _wait_for_store(store, group)
        tune_garbage_collector()
        return drive(
            group=group,
            store=store,
            runner=SparkRunner(spark.result(), problems),
            options=options,
            progress=progress,
        )


def tune_garbage_collector() -> None:
    """Look for cycles less often in this process."""
    gc.set_threshold(GARBAGE_THRESHOLD)


def _wait_for_store(store: Store, group: ConsumerGroup) -> None:
    """Return when the store has shown that it is safe, and that the output root is this group's."""
    for attempt in stamina.retry_context(on=_may_pass, attempts=STARTUP_TRIES, timeout=120):
        with attempt:
            probe(store)
            check_roots(store, group.spec)
            claim_output_root(store, group.full_name)
            claim_letters_place(store, group)


def drive(
    group: ConsumerGroup,
    store: Store,
    runner: BinRunner,
    options: RunOptions,
    progress: Progress | None = None,
) -> ExitCode:
    """Contend for the lane, with signal handlers, HTTP endpoints and the store monitor attached."""
    clock = SteadyClock()
    # Started below, when there is a contender to check for; the status shows its outage from the
    # start.
    monitor = StoreMonitor(clock)
    counters = DriverCounters(clock(), warning=settings_warning(store))
    if counters.warning:
        log.warning("store settings unsuitable", extra={"why": counters.warning})
    store = measured(store, [root.kind for root in group.spec.roots], counters.store_calls)
    board = StatusBoard(clock, monitor.outage)
    deps = DriverDeps(
        store=store,
        observer=_observer(group),
        runner=runner,
        clock=clock,
        new_name=lambda: uuid.uuid4().hex,
        counters=counters,
    )
    deps = replace(deps, backup=backup_of(group), new_planner=partial(planner_of, group, deps))
    publishing = Publishing(group, store, clock)
    impatient = open_stores(fail_fast(group.spec))
    finder = RecordFinder(group, impatient)
    past = PastReader(Lane(impatient, group.metadata.name, LANE), board.history, clock)
    goal = options.goal or scheduled(_schedule(group, options), stays=options.stays)
    ends = has_end(group, options)
    patience = Patience(options.max_wait if ends else None)

    def post(report: StatusReport) -> None:
        if patience.is_exceeded(report.status):
            contender.stop("nothing could be landed for too long")
        report = publishing.overlay(report)
        board.post(report, counters)
        if progress:
            progress(report)

    def new_driver(writer: LaneWriter, report: Callable[[DriverProgress], None]) -> Driver:
        def shown(progress: DriverProgress) -> None:
            publishing.observe(progress.state)
            finder.observe(progress.state)
            past.observe(progress.state)
            report(progress)

        return Driver(
            group=group,
            writer=writer,
            deps=deps,
            report=shown,
            until_caught_up=options.until_caught_up,
            goal=goal,
        )

    reporter, how = StatusReporter(post, board.wait_for), _contender_options(options)
    contender = LaneContender(
        group=group, deps=deps, new_driver=new_driver, reporter=reporter, options=how
    )
    with ExitStack() as stack:
        stack.callback(monitor.stop)
        monitor.start(lambda: contender.check_store(impatient.read))
        _serve(
            board=board,
            finder=finder,
            handler=_control(contender, publishing),
            options=options,
            group=group,
            stack=stack,
        )
        stack.enter_context(_signals(contender.stop))
        publishing.start()
        stack.callback(publishing.stop)
        code = contender.run()
        code = _publish_the_rest(publishing, code, has_end=ends and contender.has_ended)
        return code if not ends or contender.has_ended else _unfinished(code, patience)


def _unfinished(code: ExitCode, patience: Patience) -> ExitCode:
    """Return the exit code of an unfinished run, and log an event with the reason."""
    if code is not ExitCode.OK:
        return code
    if patience.message:
        waited = f"nothing could be landed for {duration_text(patience.limit or timedelta())}"
        log.error("%s: run it again to land the rest", waited, extra={"why": patience.message})
        return ExitCode.UNAVAILABLE
    log.error("run stopped before its end: run it again to land the rest")
    return ExitCode.UNFINISHED


def _schedule(group: ConsumerGroup, options: RunOptions) -> Schedule | None:
    return None if options.until_caught_up else group.spec.schedule


def has_end(group: ConsumerGroup, options: RunOptions) -> bool:
    """Return whether a run ends by itself, so that ending before is no success."""
    has_goal = options.goal is not None or _schedule(group, options) is not None
    return options.until_caught_up or (has_goal and not options.stays)


def _contender_options(options: RunOptions) -> ContenderOptions:
    return ContenderOptions(
        options.revision,
        known_ledger=options.known_ledger,
        anchor=options.anchor,
        is_owner_working=lambda: bool(options.peers) and is_any_working(options.peers),
    )


def _observer(group: ConsumerGroup) -> Observer:
    discovery_interval = group.spec.source.discovery_interval
    return Observer(open_log(group), discovery_interval, longest_pause(group.spec.upload_policy))


def _publish_the_rest(publishing: Publishing, code: ExitCode, *, has_end: bool) -> ExitCode:
    """Publish what landed last; a run that came to its end ends well only if that is published.

    A driver that is fenced or stalled leaves it to the next one.
    """
    if code is not ExitCode.OK:
        return code
    if not has_end:
        publishing.stop(tries=1)
        return code
    wrong = publishing.stop(LAST_TRIES, LAST_PATIENCE)
    if wrong is None:
        return code
    log.error("commits not published", extra={"why": str(wrong)})
    return ExitCode.UNAVAILABLE if isinstance(wrong, Retry) else ExitCode.STALLED


def _control(contender: LaneContender, publishing: Publishing) -> ControlHandler:
    """Return the executor of control commands; ``retry`` is for publishers, too."""

    def decide(request: Request) -> Answer:
        if isinstance(request, RetryRequest) and not request.dry_run:
            publishing.retry_now()
        return contender.decide(request)

    want = contender.deps.runner.want
    return ControlHandler(want, contender.hand_over, contender.take_over, decide)


def _serve(  # noqa: PLR0913  # each by keyword
    *,
    board: StatusBoard,
    finder: RecordFinder,
    handler: ControlHandler,
    options: RunOptions,
    group: ConsumerGroup,
    stack: ExitStack,
) -> None:
    """Serve status, metrics and, if it is configured, control, until ``stack`` is closed."""
    if options.http_port is None:
        server = serve_near(board, options.http_host, group.spec.tuning.http_port, finder=finder)
    else:
        server = serve(board, options.http_host, options.http_port, finder=finder)
    stack.callback(server.shutdown)
    log.info("serving", extra={"url": f"http://{options.http_host}:{server.server_port}/"})
    if control := options.control:
        control_server = serve_control(control, handler)
        stack.callback(control_server.shutdown)
        url = f"http://{control.host}:{control_server.server_port}/control/"
        log.info("listening", extra={"url": url})


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


def _may_pass(error: Exception) -> bool:
    """Return whether a start waits for the error to pass; wrong keys are reported at once."""
    return isinstance(error, Retry) and not isinstance(error, StoreDenied)


class RetryLog:
    """Logs retries: of the same kind of error one in ``REPEAT_SECONDS``, since all are alike."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged: dict[type[BaseException], float] = {}

    def __call__(self, details: stamina.instrumentation.RetryDetails) -> None:
        """Log this retry, or not."""
        kind, now = type(details.caused_by), self._clock()
        if now - self._logged.get(kind, -math.inf) < REPEAT_SECONDS:
            return
        self._logged[kind] = now
        log.warning(
            "retry scheduled",
            extra={"in_seconds": round(details.wait_for, 1), "why": str(details.caused_by)},
        )
