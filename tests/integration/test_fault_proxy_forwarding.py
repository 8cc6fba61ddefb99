"""The chaos proxy forwards requests and responses unchanged."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.chaos.proxy import FaultProxy


class _Recorder(socketserver.StreamRequestHandler):
    """Records each request and sends a given response."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, Upstream)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.rfile.readline()
        server.heads.append(head)
        server.bodies.append(self._body(head))
        self.wfile.write(server.answer)

    def _body(self, head: bytes) -> bytes:
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
        if b"transfer-encoding" not in headers:
            return self.rfile.read(int(headers.get(b"content-length", b"0")))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)


class Upstream(socketserver.ThreadingTCPServer):
    """A server behind the proxy that records what the proxy sends."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Recorder)
        self.answer = b""
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []


@dataclass(frozen=True)
class RecordedProxy:
    """The proxy in front of a recording server."""

    proxy: FaultProxy
    upstream: Upstream

    def connect(
        self, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    ) -> socket.socket:
        """Connect to the proxy; the server will send this response to every request."""
        self.upstream.answer = answer
        self.upstream.heads.clear()
        self.upstream.bodies.clear()
        url = urlsplit(self.proxy.endpoint)
        return socket.create_connection((url.hostname, url.port), 60)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedProxy]:
    with Upstream() as upstream:
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{upstream.server_address[1]}"
        proxy = FaultProxy(
            address, "127.0.0.1:0", seed=1, folder=tmp_path_factory.mktemp("recorded")
        )
        yield RecordedProxy(proxy, upstream)
        proxy.stop()
        upstream.shutdown()


def read_until(connection: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        chunk = connection.recv(65536)
        assert chunk, received
        received += chunk
    return received


def test_path_query_host_and_headers_are_forwarded_unchanged(recorded: RecordedProxy) -> None:
    target = b"/b/a%2Fb//c/./../d%20+%7e~'!*()?x-id=a+b&y=%2f&empty&z="
    kept = [
        b"Host: s3.somewhere.example:1234",
        b"x-amz-meta-a: 1",
        b"x-amz-meta-a: 2",
        b"Range: bytes=1-2",
    ]
    with recorded.connect() as connection:
        connection.sendall(b"GET " + target + b" HTTP/1.1\r\n" + b"\r\n".join(kept) + b"\r\n\r\n")
        read_until(connection, b"\r\n\r\n")

    line, *headers = recorded.upstream.heads[0].rstrip().split(b"\r\n")
    assert line == b"GET " + target + b" HTTP/1.1"
    assert sorted(headers) == sorted([*kept, b"Connection: close"])


@pytest.mark.parametrize("encoding", [b"gzip", b"aws-chunked"])
def test_a_body_is_forwarded_unchanged_whatever_its_encoding(
    recorded: RecordedProxy, encoding: bytes
) -> None:
    body = bytes(range(256)) * 4096
    head = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n" % (
        encoding,
        len(body),
    )
    with recorded.connect() as connection:
        connection.sendall(head + body)
        read_until(connection, b"\r\n\r\n")

    assert recorded.upstream.bodies == [body]
    assert b"Content-Encoding: " + encoding in recorded.upstream.heads[0]


def test_a_chunked_body_is_forwarded(recorded: RecordedProxy) -> None:
    head = b"PUT /b/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    with recorded.connect() as connection:
        connection.sendall(head + b"3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n")
        read_until(connection, b"\r\n\r\n")

    assert recorded.upstream.bodies == [b"abcdefg"]


def test_a_client_that_expects_100_continue_gets_it(recorded: RecordedProxy) -> None:
    with recorded.connect() as connection:
        connection.sendall(
            b"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
        )
        assert read_until(connection, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"body")
        assert read_until(connection, b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")

    assert recorded.upstream.bodies == [b"body"]


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        (b"HEAD", b'HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nETag: "e"\r\n\r\n'),
        (b"DELETE", b"HTTP/1.1 204 No Content\r\nx-amz-a: b\r\n\r\n"),
        (b"GET", b'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\n\r\n'),
        (
            b"GET",
            (
                b"HTTP/1.1 206 Partial Content\r\nContent-Length: 3\r\n"
                b"Content-Encoding: gzip\r\n\r\nabc"
            ),
        ),
    ],
)
def test_responses_are_forwarded_and_the_connection_is_kept(
    recorded: RecordedProxy, method: bytes, answer: bytes
) -> None:
    with recorded.connect(answer) as connection:
        for _ in range(2):
            connection.sendall(method + b" /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
            head, _, body = read_until(
                connection, b"abc" if answer.endswith(b"abc") else b"\r\n\r\n"
            ).partition(b"\r\n\r\n")
            expected_head, _, expected = answer.partition(b"\r\n\r\n")
            assert set(expected_head.lower().split(b"\r\n")) <= set(head.lower().split(b"\r\n"))
            assert body == expected
            assert b"Transfer-Encoding" not in head

    assert len(recorded.upstream.heads) == 2


def test_a_server_that_is_down_looks_like_a_reset(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    proxy = FaultProxy(nobody, "127.0.0.1:0", seed=1, folder=tmp_path)
    place = urlsplit(proxy.endpoint)
    with socket.create_connection((place.hostname, place.port), 60) as connection:
        connection.sendall(b"GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert (proxy.counts().faults, proxy.stop()) == ({}, 0)
