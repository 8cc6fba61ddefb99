import http.server
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from landfall.api.contract import DriverPhase
from landfall.driver.core.counters import DriverCounters
from landfall.driver.http import peers
from landfall.driver.http.peers import is_any_working
from landfall.driver.http.server import StatusBoard, in_background, serve
from landfall.driver.http.status import StatusReport
from landfall.store.memory import MemoryStore
from tests.support.driver.driver_status import report_of
from tests.support.driver.fakes import FakeLog, FakeRunner, driver, group

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LOCAL = "127.0.0.1"


@contextmanager
def driver_in(phase: DriverPhase) -> Iterator[int]:
    """The port of a driver that answers with this phase."""
    board = StatusBoard(lambda: NOW)
    store = MemoryStore()
    report = report_of(driver(group(), store, FakeLog(), FakeRunner(store)))
    summary = replace(report.summary, phase=phase)
    board.post(StatusReport(summary), DriverCounters(NOW))
    server = serve(board, LOCAL, 0)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("phase", DriverPhase)
def test_only_a_driver_that_owns_the_lane_counts_as_working(phase: DriverPhase) -> None:
    with driver_in(phase) as port:
        assert is_any_working(LOCAL, port) is (
            phase in {DriverPhase.RECOVERING, DriverPhase.RUNNING, DriverPhase.DRAINING}
        )


def test_a_driver_that_is_gone_does_not_count() -> None:
    with driver_in(DriverPhase.RUNNING) as port:
        pass

    assert not is_any_working(LOCAL, port)


def test_a_name_without_addresses_has_no_driver() -> None:
    assert not is_any_working("no-such-driver.invalid")


def test_a_driver_that_hangs_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PATIENCE_SECONDS", 0.1)
    with socket.create_server((LOCAL, 0)) as silent:
        assert not is_any_working(LOCAL, silent.getsockname()[1])


def test_another_server_does_not_count() -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"[1]")

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = in_background(LOCAL, 0, Other)
    try:
        assert not is_any_working(LOCAL, server.server_port)
    finally:
        server.shutdown()
        server.server_close()
