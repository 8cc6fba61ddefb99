"""What runs in the pods of a hostile tenant, and what a hostile client does to a port."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from landfall.api.contract import CONTROL_PORT, HTTP_PORT

Answer = Callable[[str, str, dict[str, Any]], AsyncIterator[bytes]]
"""From the method, the path and the pod: the bytes to send, then the connection is closed."""


@dataclass
class OwnServer:
    """A server on both ports of a driver that sends what a test likes.

    Attributes:
        answer: what it sends.
        asked: the method and the path of each request, with the credentials that came with it.
    """

    answer: Answer
    asked: list[str] = field(default_factory=list)
    _servers: list[asyncio.Server] = field(default_factory=list)

    async def serve(self, address: str, pod: dict[str, Any]) -> None:
        """Listen."""

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                method, path, *_ = head.split(" ")
                self.asked.append(f"{method} {path}")
                async for part in self.answer(method, path, pod):
                    writer.write(part)
                    await writer.drain()
            with suppress(OSError):
                writer.close()

        for port in (HTTP_PORT, CONTROL_PORT):
            self._servers.append(await asyncio.start_server(connected, address, port))

    async def close(self) -> None:
        """Stop."""
        for server in self._servers:
            server.close()


def response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """An HTTP response."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def always(*parts: bytes) -> Answer:
    """Send the same each time."""

    async def answer(_method: str, _path: str, _pod: dict[str, Any]) -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return answer


def endless(first: bytes, then: bytes, pause: float) -> Answer:
    """Send a start, and then the same again and again."""

    async def answer(_method: str, _path: str, _pod: dict[str, Any]) -> AsyncIterator[bytes]:
        yield first
        while True:
            yield then
            await asyncio.sleep(pause)

    return answer


def exchange(address: str, port: int, *parts: bytes, seconds: float = 10) -> bytes:
    """Send bytes to a port; returns what comes back until it closes or time is up."""
    found = b""
    deadline = time.monotonic() + seconds
    with suppress(OSError), socket.create_connection((address, port), seconds) as connection:
        for part in parts:
            connection.sendall(part)
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            more = connection.recv(65_536)
            if not more:
                break
            found += more
    return found


class SlowClients:
    """Connections that send a byte now and then, and never a whole request."""

    def __init__(self, address: str, port: int, number: int) -> None:
        self._sockets: list[socket.socket] = []
        for _ in range(number):
            with suppress(OSError):
                connection = socket.create_connection((address, port), 5)
                connection.sendall(b"GET /status HTTP/1.1\r\nX: ")
                self._sockets.append(connection)
        self.opened = len(self._sockets)

    def drip(self, seconds: float, pause: float = 1.0) -> int:
        """Send a byte on each connection per pause; returns how many are still open."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for connection in [*self._sockets]:
                try:
                    connection.sendall(b"x")
                except OSError:
                    self._sockets.remove(connection)
            time.sleep(pause)
        return len(self._sockets)

    def close(self) -> None:
        """Close all."""
        for connection in self._sockets:
            connection.close()


def status_code(answered: bytes) -> int:
    """The status code of an HTTP response; 0 if it is none."""
    words: Sequence[bytes] = answered.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") else 0
