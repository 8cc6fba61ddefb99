"""A registry that drips holds no worker: its whole answer has a deadline, wherever it drips."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from landfall.errors import SchemasAway
from landfall.schemas import client
from landfall.schemas.client import RegistryClient, RegistryOptions

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"


@pytest.fixture(params=["headers", "body", "handshake"])
def dripping(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a server that sends a byte every 50 ms, for ever."""
    stopped = Event()
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            if request.param != "handshake":
                connection.recv(65536)
            connection.sendall(
                {"headers": b"HTTP/1.1 200 OK\r\nX: ", "body": HEAD}.get(request.param, b"")
            )
            while not stopped.wait(0.05):
                connection.sendall(b"\x16" if request.param == "handshake" else b"x")

    thread = Thread(target=serve, daemon=True)
    thread.start()
    scheme = "https" if request.param == "handshake" else "http"
    yield f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
    stopped.set()
    server.close()
    thread.join()


def test_an_answer_that_drips_ends(dripping: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_TIMEOUTS", 1)
    before = time.monotonic()

    with pytest.raises(SchemasAway, match=dripping):
        RegistryClient(RegistryOptions((dripping,), None, 0.5)).by_id(7)

    assert time.monotonic() - before < 60
