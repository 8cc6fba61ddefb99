"""Servers that publishers talk to hold no publisher, fill no memory and send it nowhere.

Without a deadline, what drips here never ends.
"""

import gzip
import json
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest

from landfall.errors import DestinationAway, LandfallError
from landfall.publish.building import publisher
from landfall.publish.events import web
from landfall.publish.events.web import _seconds
from landfall.publish.iceberg import catalog as iceberg_catalog
from tests.support.ledger.event_ledger import CLICKS as EVENTS
from tests.support.ledger.event_ledger import EventLedger
from tests.support.publishers.lake import CLICKS, Landed

DRIPS = {
    "headers": b"HTTP/1.1 200 OK\r\nX: ",
    "body": b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
    "chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n",
}


@contextmanager
def dripping(first: bytes) -> Iterator[str]:
    """The URL of a server that sends a byte every 50 ms, for ever."""
    stopped = Event()

    def drip(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.recv(65536)
            connection.sendall(first)
            while not stopped.wait(0.05):
                connection.sendall(b"x")

    def serve() -> None:
        with suppress(OSError):
            while True:
                Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        stopped.set()


@contextmanager
def catalog(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[str]]]:
    """A server with one answer to everything, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self)

        do_POST = do_HEAD = do_GET  # noqa: N815  # the names of the base class

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def publish_to(uri: str, folder: Path) -> None:
    landed = Landed(folder).land(CLICKS).settle()
    context = landed.context("Iceberg", {"catalog": {"type": "rest", "uri": uri}})
    publisher(context.group, context.entry, context.store).publish(context.follower())


@pytest.mark.parametrize("kind", DRIPS)
def test_a_webhook_that_drips_ends(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "ANSWER_TIMEOUTS", 1)
    with dripping(DRIPS[kind]) as url:
        scene = EventLedger("Webhook", {"url": f"{url}/in", "timeout": "1s"}).land(EVENTS).settle()
        before = time.monotonic()

        with pytest.raises(DestinationAway, match=url):
            scene.publish()

        assert time.monotonic() - before < 60


@pytest.mark.parametrize(
    "value",
    [
        "\u00b2",
        "\u0661",
        "9" * 400,
        "Mon, 1 Jan 99999999999 00:00:00 GMT",
        "Mon, 1 Jan 2026 00:00:00 +999999999999999999",
        "Mon, 1 Jan 0001 00:00:00 +2359",
        "-1",
        "nan",
        "1e400",
        "",
    ],
)
def test_a_time_to_wait_that_is_none_is_a_number_of_seconds(value: str) -> None:
    assert _seconds(value) >= 0


def test_a_webhook_fills_no_memory() -> None:
    bomb = gzip.compress(bytes(64 << 20))

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(422)
        request.send_header("Content-Encoding", "gzip")
        request.send_header("Content-Length", str(len(bomb)))
        request.end_headers()
        with suppress(OSError):
            request.wfile.write(bomb)

    with catalog(answer) as (url, _):
        scene = EventLedger("Webhook", {"url": f"{url}/in", "timeout": "9s"}).land(EVENTS).settle()
        tracemalloc.start()
        try:
            with pytest.raises(LandfallError, match="answered with status 422"):
                scene.publish()
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert most < 48 << 20


@pytest.mark.parametrize("kind", DRIPS)
def test_a_catalog_that_drips_ends(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(iceberg_catalog, "ANSWER_SECONDS", 1.0)
    with dripping(DRIPS[kind]) as uri:
        before = time.monotonic()

        with pytest.raises(LandfallError, match="Iceberg table"):
            publish_to(uri, tmp_path)

        assert time.monotonic() - before < 60


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_catalog_fills_no_memory(
    encoding: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(iceberg_catalog, "MAX_ANSWER_BYTES", 1 << 20)
    body = json.dumps({"defaults": {"x": "y" * (4 << 20)}, "overrides": {}}).encode()
    sent = gzip.compress(body) if encoding == "gzip" else body

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Encoding", encoding)
        request.send_header("Content-Length", str(len(sent)))
        request.end_headers()
        with suppress(OSError):
            request.wfile.write(sent)

    with (
        catalog(answer) as (uri, asked),
        pytest.raises(LandfallError, match="answers with more than 1 MiB"),
    ):
        publish_to(uri, tmp_path)
    assert len(asked) == 1


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_catalog_sends_nobody_elsewhere(code: int, tmp_path: Path) -> None:
    with catalog(lambda request: request.send_error(500)) as (elsewhere, asked):

        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(code)
            request.send_header("Location", f"{elsewhere}/latest/meta-data/")
            request.send_header("Content-Length", "0")
            request.end_headers()

        with (
            catalog(answer) as (uri, _),
            pytest.raises(LandfallError, match="a redirect, which is not followed"),
        ):
            publish_to(uri, tmp_path)
        assert asked == []
