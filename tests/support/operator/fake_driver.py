"""Drivers without Spark, Kafka and a store, which follow ``landfall.api.contract``.

Each one serves ``/status`` and the control paths on an address of its own. It stands by, opens the
lane, hands it over and is fenced as a real driver. The lane of a group is a ``Lane``, which
outlives the pods as a ledger does. The name of its image decides how a driver behaves:

    broken         crashes at each start
    slow           never becomes ready
    bad            is blocked by bad records
    failing        fails all its commits
    deaf           does not answer commands
    anything else  works
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import count
from typing import Any

from aiohttp import web

from landfall.api.contract import (
    CONTROL_PORT,
    EXECUTORS_PATH,
    HTTP_PORT,
    OPEN_PATH,
    VERSION,
    YIELD_PATH,
    CommitStatus,
    DriverPhase,
    Failure,
    PartitionStatus,
    Rates,
    Status,
    Workers,
)
from landfall.api.signatures import SignatureRefusal, SignedHeader, challenge
from landfall.api.status_summary import summarize
from landfall.driver.http.signed_requests import SignatureCheck, is_body

Json = dict[str, Any]


@dataclass
class Lane:
    """The lane of a group as its ledger shows it: which driver may commit.

    Attributes:
        holder: The uid of the pod that appended the last OPEN.
        revision: The revision of that pod.
        yielded: Whether the last record is a YIELD, or there is no record.
        opened: The revisions in the order of their OPEN records.
        changed: Set when any of this changes, and then replaced by a new event.
    """

    holder: str = ""
    revision: str = ""
    yielded: bool = True
    opened: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self, uid: str, revision: str) -> None:
        """Append OPEN, which fences the former holder."""
        self.holder, self.revision, self.yielded = uid, revision, False
        self.opened.append(revision)
        self._notify()

    def hand_over(self, uid: str) -> None:
        """Append YIELD if this pod holds the lane."""
        if self.holder == uid and not self.yielded:
            self.yielded = True
            self._notify()

    def _notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass
class FakeDriver:
    """The driver in one pod.

    Attributes:
        busy: Whether it commits every minute, and lags behind until then.
        received: The paths of the commands that it has executed.
        received_at: When it executed the last one, by the monotonic clock.
    """

    uid: str
    pod: str
    group: str
    namespace: str
    revision: str
    image: str
    generation: int
    address: str
    signatures: SignatureCheck
    lane: Lane
    wanted: int
    phase: DriverPhase = DriverPhase.STARTING
    lag: int = 2
    failures: int = 0
    silent: bool = False
    busy: bool = False
    received: list[str] = field(default_factory=list)
    received_at: float = 0.0
    restarts: int = 0
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def behaves(self, how: str) -> bool:
        """Whether the name of the image asks for this behavior."""
        return self.image.startswith(how)

    def may_open(self) -> bool:
        """Whether it may open the lane: it is free, or this revision opened it last."""
        return self.lane.yielded or self.lane.revision == self.revision

    def open(self) -> None:
        """Take the lane over."""
        self.lane.open(self.uid, self.revision)
        self.phase = DriverPhase.RUNNING

    def hand_over(self) -> None:
        """Hand the lane over."""
        self.lane.hand_over(self.uid)
        self.phase = DriverPhase.YIELDED

    def dispatch(self, path: str, document: Json) -> None:
        """Execute a command."""
        self.received.append(path)
        self.received_at = time.monotonic()
        if path == EXECUTORS_PATH:
            self.wanted = document["wanted"]
        elif path == YIELD_PATH:
            self.hand_over()
        elif self.phase in {DriverPhase.STANDBY, DriverPhase.YIELDED}:
            self.open()

    def _progress(self, seconds: int) -> tuple[int, int, int]:
        """Its commits, the age of its oldest record in seconds, and its lag in records."""
        if not self.busy:
            return 0, 3, self.lag
        commits, waiting = divmod(seconds, 60)
        return commits, waiting, self.lag + 100 * waiting

    def status(self) -> Status:
        """The status of a driver with little to land."""
        runs = self.phase is DriverPhase.RUNNING
        failures = 9 if runs and self.behaves("failing") else self.failures
        blocked = "BadRecordsOverLimit" if runs and self.behaves("bad") else None
        seconds = int((datetime.now(UTC) - self.started).total_seconds())
        began = self.started.isoformat()
        commits, waiting, lag = self._progress(seconds)
        return Status(
            contract=VERSION,
            version="fake",
            group=self.group,
            namespace=self.namespace,
            generation=self.generation,
            epoch=len(self.lane.opened),
            lane="0",
            phase=self.phase,
            time=datetime.now(UTC).isoformat(),
            started=began,
            lag_records=lag,
            lag_seconds=float(waiting),
            overdue_seconds=0.0,
            rounds=0,
            commits=CommitStatus(
                total=5 + commits,
                failures=failures,
                consecutive_failures=failures,
                last_time=began,
                last_failure=Failure(began, "EncodeFailed", "cannot encode") if failures else None,
                unapplied=0,
            ),
            rates=Rates(
                100, 100, 100, 0, 1.0, 1.0, arrived_records=10 * seconds, task_seconds=0.1 * seconds
            ),
            partitions=(
                PartitionStatus(
                    "clicks",
                    0,
                    10,
                    10 + lag,
                    lag,
                    float(waiting),
                    0.0,
                    blocked=blocked,
                    message="12 of 800 records",
                ),
            ),
            revision=self.revision,
            workers=Workers(self.wanted, self.wanted, self.wanted),
        )


class DriverServers:
    """The HTTP servers of all fake drivers: one application that listens on many addresses.

    The addresses are 127.x.y.z, which need no setup on Linux.
    """

    def __init__(self) -> None:
        self.drivers: dict[str, FakeDriver] = {}
        """The running drivers by address; others are not answered."""
        self._addresses = _addresses()
        self._runner = web.AppRunner(
            self._app(), access_log=None, handle_signals=False, shutdown_timeout=0.1
        )

    async def start(self) -> None:
        """Prepare to serve."""
        await self._runner.setup()

    async def stop(self) -> None:
        """Close all servers."""
        await self._runner.cleanup()

    def _app(self) -> web.Application:
        app = web.Application()
        app.add_routes([web.get("/status", self._status)])
        app.add_routes(
            [web.post(path, self._command) for path in (EXECUTORS_PATH, YIELD_PATH, OPEN_PATH)]
        )
        return app

    async def serve(self, driver: FakeDriver) -> list[web.TCPSite]:
        """Give the driver an unused address and serve it there."""
        while True:
            driver.address = next(self._addresses)
            sites = [
                web.TCPSite(self._runner, driver.address, port)
                for port in (HTTP_PORT, CONTROL_PORT)
            ]
            try:
                for site in sites:
                    await site.start()
            except OSError:
                continue
            return sites

    def _addressee(self, request: web.Request) -> FakeDriver | None:
        assert request.transport
        return self.drivers.get(request.transport.get_extra_info("sockname")[0])

    async def _status(self, request: web.Request) -> web.Response:
        driver = self._addressee(request)
        if driver is None or driver.silent or driver.phase is DriverPhase.STARTING:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        status = driver.status()
        asks_summary = request.query.get("summary") == "true"
        return web.json_response(asdict(summarize(status) if asks_summary else status))

    async def _command(self, request: web.Request) -> web.Response:
        driver, body = self._addressee(request), await request.read()
        if driver is None or driver.silent or driver.behaves("deaf"):
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        header, check = request.headers.get("Authorization", ""), driver.signatures
        found = check.check(request.method, request.path_qs, header)
        if isinstance(found, SignedHeader) and not is_body(found, body):
            found = SignatureRefusal.BODY
        if isinstance(found, SignatureRefusal):
            wanted = {"WWW-Authenticate": challenge(check.clock(), found)}
            return web.Response(status=HTTPStatus.UNAUTHORIZED, headers=wanted)
        driver.dispatch(request.path, json.loads(body))
        return web.Response(status=HTTPStatus.ACCEPTED)


def _addresses() -> Iterator[str]:
    """Loopback addresses that start elsewhere in each process, so test workers rarely collide."""
    first = 1 + os.getpid() % 250
    for number in count(1):
        yield f"127.{first + number // 62_500 % 3}.{1 + number // 250 % 250}.{1 + number % 250}"
