"""Port 8080 of a driver is open to anybody: what strangers may hold of it."""

import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer

import pytest

from landfall.driver.core.counters import DriverCounters
from landfall.driver.http import server as http
from landfall.driver.http.server import MAX_CONNECTIONS, StatusBoard, serve
from landfall.driver.http.status import StatusReport
from tests.support.operator.reconciled import status_of
from tests.support.waiting import eventually

NOW = datetime(2026, 11, 21, tzinfo=UTC)
LOCAL = "127.0.0.1"


@pytest.fixture
def board() -> StatusBoard:
    board = StatusBoard(lambda: NOW)
    post(board, "g1-a")
    return board


@pytest.fixture
def server(board: StatusBoard) -> Iterator[ThreadingHTTPServer]:
    server = serve(board, LOCAL, 0)
    yield server
    server.shutdown()
    server.server_close()


def post(board: StatusBoard, revision: str) -> None:
    board.post(StatusReport(status_of(revision, NOW)), DriverCounters(NOW))


def get(server: ThreadingHTTPServer, path: str) -> bytes:
    url = f"http://{LOCAL}:{server.server_port}{path}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
        return body


def slow_clients(server: ThreadingHTTPServer, count: int) -> list[socket.socket]:
    """Clients that have sent the beginning of a request."""
    clients = [socket.create_connection((LOCAL, server.server_port), 10) for _ in range(count)]
    for client in clients:
        client.sendall(b"GET /")
    return clients


def is_closed(client: socket.socket) -> bool:
    """Whether the server has hung up on a client that sends another byte."""
    try:
        client.sendall(b"x")
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_slow_clients_hold_few_threads_and_the_probe_is_answered(
    server: ThreadingHTTPServer,
) -> None:
    before = threading.active_count()
    clients = slow_clients(server, 200)

    assert b'"alive":true' in get(server, "/healthcheck")
    eventually(threading.active_count, lambda count: count <= before + MAX_CONNECTIONS, 10)
    assert b'"alive":true' in get(server, "/healthcheck")
    for client in clients:
        client.close()


def test_a_client_that_drips_is_hung_up_on(
    server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_seconds", 0.5)
    (client,) = slow_clients(server, 1)
    client.settimeout(0.05)

    eventually(lambda: is_closed(client), bool, 5)


def test_a_client_that_does_not_read_is_hung_up_on(
    board: StatusBoard, server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_seconds", 0.5)
    monkeypatch.setattr(board, "page", lambda *_: b" " * 2**26)
    before = threading.active_count()
    client = socket.create_connection((LOCAL, server.server_port), 10)
    client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")

    eventually(threading.active_count, lambda count: count > before, 5)
    eventually(threading.active_count, lambda count: count <= before, 5)
    client.close()


@pytest.mark.parametrize("path", ["/status", "/status?summary=true", "/metrics"])
def test_a_page_is_made_once_for_a_status(
    board: StatusBoard, server: ThreadingHTTPServer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    page = board.page

    def counted(name: str, render: Callable[[], bytes]) -> bytes:
        def counting() -> bytes:
            made.append(name)
            return render()

        return page(name, counting)

    monkeypatch.setattr(http, "PAGE_SECONDS", 60.0)
    monkeypatch.setattr(board, "page", counted)

    first = get(server, path)
    assert get(server, path) == first
    assert len(made) == 1

    post(board, "g2-b")
    second = get(server, path)

    assert len(made) == 2
    if path != "/metrics":
        assert b"g2-b" in second


def test_a_page_gets_old(
    board: StatusBoard, server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "PAGE_SECONDS", 0.0)
    made = iter((b"one", b"two"))

    assert board.page("x", lambda: next(made)) == b"one"
    assert board.page("x", lambda: next(made)) == b"two"
