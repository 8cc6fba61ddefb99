"""The driver's HTTP server: its page, ``/status``, ``/history``, ``/record``, metrics, health.

At ``/`` a browser gets a page (``landfall.api.console``), another program the paths.

``/healthcheck`` answers 200 while the loop makes passes, or waits for a store or a source that does
not answer (a restart would not help then). It answers 503 when the driver is stalled or fenced, or
has made no pass for ``STUCK``.

Any client may connect, so a connection is worth little: it is closed after ``PATIENCE_SECONDS``,
and earlier when there are too many, the oldest first, so that a probe that sends its request at
once is still answered. A page is made once for a state of the driver, however many ask for it.
"""

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from landfall import __version__
from landfall.api import console
from landfall.api.contract import DriverPhase, Status
from landfall.api.status_summary import summarize
from landfall.driver.core.counters import DriverCounters
from landfall.driver.core.store_monitor import Outage
from landfall.driver.http.history import SHORTEST_SECONDS, Point, StatusHistory
from landfall.driver.http.metrics import HAVE_LANE, StatusCollector
from landfall.driver.http.record_finder import RecordFinder
from landfall.driver.http.status import StatusReport
from landfall.errors import Retry

log = logging.getLogger(__name__)

STUCK = timedelta(minutes=2)
SHUTDOWN_SECONDS = 0.1
"""How long ``shutdown`` may have to wait for the server's thread."""
PATIENCE_SECONDS = 10
"""How long a client may take to send its request and to read the answer."""
MAX_CONNECTIONS = 32
"""Connections of a port, each with a thread of its own."""
PAGE_SECONDS = 1.0
"""How long a page may be shown again, if nothing new is posted before."""
_JSON = "application/json; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_PATHS = (
    "/healthcheck  200 while the driver is healthy\n"
    "/version      version of Landfall\n"
    "/status       progress, as JSON; with ?summary=true, only some topic partitions\n"
    "/history      lag and rates of the last hours, as JSON\n"
    "/record       where a record is: ?topic=NAME&partition=NUMBER&offset=NUMBER, as JSON\n"
    "/metrics      for Prometheus\n"
)


@dataclass(frozen=True, slots=True)
class _Page:
    """The body of an answer, with what it was made from, and when."""

    posted: object
    outage: Outage | None
    rendered: float
    body: bytes


class StatusBoard:
    """Holds the latest status and what the loop waits for, for the threads that answer requests."""

    def __init__(
        self, clock: Callable[[], datetime], outage: Callable[[], Outage | None] = lambda: None
    ) -> None:
        """``outage`` returns the store's outage if there is one, also while the loop is busy."""
        self._clock = clock
        self._outage = outage
        self._posted: tuple[StatusReport, DriverCounters] | None = None
        self._pages: dict[str, _Page] = {}
        self._rendering = threading.Lock()
        self.history = StatusHistory()
        self.posted = clock()
        self.waiting_for = ""

    def post(self, report: StatusReport, counters: DriverCounters) -> None:
        """Show a new status; the loop is not waiting any more."""
        self._posted, self.posted, self.waiting_for = (report, counters), self._clock(), ""

    def wait_for(self, what: str) -> None:
        """Show that the loop waits until ``what`` answers again."""
        self.waiting_for = what

    @property
    def latest(self) -> tuple[Status, DriverCounters] | None:
        """The latest status, with the store's outage in it; None before the first status."""
        posted, outage = self._posted, self._outage()
        if posted is None:
            return None
        status = posted[0].status
        return (outage.overlay(status) if outage else status), posted[1]

    def remember(self) -> None:
        """Add what is shown now to the history."""
        if latest := self.latest:
            self.history.add(Point.of(latest[0], self._clock()))

    def page(self, name: str, render: Callable[[], bytes]) -> bytes:
        """Return the result of ``render``, or its recent one for the same status."""
        # One thread renders at a time: together they would take turns with the driver's loop.
        with self._rendering:
            posted = self._posted
            outage = self._outage()
            now = time.monotonic()
            page = self._pages.get(name)
            is_current = page and page.posted is posted and page.outage == outage
            if page and is_current and now - page.rendered < PAGE_SECONDS:
                return page.body
            page = self._pages[name] = _Page(posted, outage, now, render())
            return page.body

    def health(self) -> tuple[HTTPStatus, dict[str, object]]:
        """Return the status code of ``/healthcheck``, and its JSON body with the reason."""
        age = self._clock() - self.posted
        phase = self._posted[0].summary.phase if self._posted else DriverPhase.STARTING
        outage = self._outage()
        waiting_for = self.waiting_for or (f"store: {outage.failure.message}" if outage else "")
        dead = phase in {DriverPhase.STALLED, DriverPhase.FENCED}
        alive = not dead and (age < STUCK or bool(waiting_for))
        why = {"alive": alive, "phase": phase, "seconds_since_pass": round(age.total_seconds(), 1)}
        if waiting_for:
            why["waiting_for"] = waiting_for
        return (HTTPStatus.OK if alive else HTTPStatus.SERVICE_UNAVAILABLE), why


class PortUnavailable(Retry):
    """The port is in use, or this process may not listen on it."""


def serve(
    board: StatusBoard,
    host: str,
    port: int,
    remember_every: float = SHORTEST_SECONDS,
    *,
    finder: RecordFinder | None = None,
) -> ThreadingHTTPServer:
    """Answer in background threads until ``shutdown``; port 0 picks a free port.

    Args:
        board: has what is shown.
        host: the address to listen on.
        port: to listen on.
        remember_every: seconds between two points of the history.
        finder: finds records; None to find none.

    Raises:
        PortUnavailable: nothing can listen on the port now.
    """
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: board.latest))

    class StatusHandler(BaseHTTPRequestHandler):
        server_version = f"landfall/{__version__}"
        timeout = PATIENCE_SECONDS

        def do_GET(self) -> None:
            is_browser = "text/html" in self.headers.get("Accept", "")
            code, kind, body = _answer(self.path, board, registry, finder, is_browser=is_browser)
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            for name, value in console.HEADERS.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
            """Log nothing: probes and scrapers ask every few seconds."""

    server = in_background(host, port, StatusHandler)

    def remember() -> None:
        while not server.stopped.wait(remember_every):
            board.remember()

    threading.Thread(target=remember, name="history", daemon=True).start()
    return server


def serve_near(
    board: StatusBoard, host: str, port: int, *, finder: RecordFinder | None = None
) -> ThreadingHTTPServer:
    """As ``serve``, but on any free port if this one cannot be listened on."""
    try:
        return serve(board, host, port, finder=finder)
    except PortUnavailable as error:
        server = serve(board, host, 0, finder=finder)
        log.warning(
            "port taken: another one opened", extra={"port": server.server_port, "why": str(error)}
        )
        return server


class _Server(ThreadingHTTPServer):
    """Closes connections that take too long, and the oldest ones if there are too many."""

    request_queue_size = 128

    def __init__(
        self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], seconds: float
    ) -> None:
        self._seconds = seconds
        self._open: dict[Any, float] = {}
        self._lock = threading.Lock()
        self.stopped = threading.Event()
        super().__init__(address, handler)

    def shutdown(self) -> None:
        """Answer no more."""
        self.stopped.set()
        super().shutdown()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; the oldest connection makes room for the one beyond the limit."""
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                self._hang_up(next(iter(self._open)))
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, answered or not."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Hang up on clients that have had their time; called several times a second."""
        with self._lock:
            latest = time.monotonic() - self._seconds
            for request in [open_ for open_, began in self._open.items() if began < latest]:
                self._hang_up(request)

    def _hang_up(self, request: Any) -> None:
        """End what the connection's thread waits for; the thread then closes it."""
        del self._open[request]
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Do not log clients that hang up or are too slow: they could fill the log."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def in_background(
    host: str,
    port: int,
    handler: type[BaseHTTPRequestHandler],
    seconds: float = PATIENCE_SECONDS,
) -> "_Server":
    """Answer each request in a thread of its own until ``shutdown``, within so many seconds.

    Raises:
        PortUnavailable: nothing can listen on the port now.
    """
    try:
        server = _Server((host, port), handler, seconds)
    except OSError as error:
        raise PortUnavailable(f"cannot listen on {host}:{port}: {error.strerror}") from error
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, args=(SHUTDOWN_SECONDS,), name="http", daemon=True
    ).start()
    return server


def _answer(
    target: str,
    board: StatusBoard,
    registry: CollectorRegistry,
    finder: RecordFinder | None,
    *,
    is_browser: bool,
) -> tuple[HTTPStatus, str, bytes]:
    path, _, query = target.partition("?")
    name = console.PAGE if path == "/" and is_browser else path.removeprefix("/")
    if kind := console.content_type(name):
        return HTTPStatus.OK, kind, console.content(name)
    pages: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {
        "/": lambda: (HTTPStatus.OK, _TEXT, f"landfall {__version__}\n\n{_PATHS}".encode()),
        "/healthcheck": lambda: _json(*board.health()),
        "/version": lambda: _json(HTTPStatus.OK, {"version": __version__}),
        "/status": lambda: _status(board, summary=parse_qs(query).get("summary") == ["true"]),
        "/history": lambda: _json(HTTPStatus.OK, board.history.columns()),
        "/record": lambda: _record(board, finder, query),
        "/metrics": lambda: (
            HTTPStatus.OK,
            CONTENT_TYPE_LATEST,
            board.page("metrics", lambda: generate_latest(registry)),
        ),
    }
    missing = (HTTPStatus.NOT_FOUND, _TEXT, f"not found; these paths exist:\n{_PATHS}".encode())
    return pages[path]() if path in pages else missing


def _status(board: StatusBoard, *, summary: bool) -> tuple[HTTPStatus, str, bytes]:
    latest = board.latest
    if latest is None:
        return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"phase": DriverPhase.STARTING})

    def render() -> bytes:
        return msgspec.json.encode(summarize(latest[0]) if summary else latest[0])

    return HTTPStatus.OK, _JSON, board.page("summary" if summary else "status", render)


def _record(
    board: StatusBoard, finder: RecordFinder | None, query: str
) -> tuple[HTTPStatus, str, bytes]:
    latest = board.latest
    if finder is None or latest is None or latest[0].phase not in HAVE_LANE:
        message = "this process does not land the group now: ask the driver that does"
        return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"error": message})
    return _json(*finder.find(parse_qs(query), latest[0].publishers))


def _json(code: HTTPStatus, value: object) -> tuple[HTTPStatus, str, bytes]:
    return code, _JSON, msgspec.json.encode(value)
