"""What goes over a wire, and how a wire is cut: the proxy's view of HTTP, on top of aiohttp."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict

_BETWEEN_NEIGHBOURS = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Headers that are not passed on, for they say something of one connection only; ``expect`` is
answered here.
"""
_RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing throws away what is not sent, and sends RST."""


class Answer(msgspec.Struct):
    """An error of S3's."""

    status: int
    code: str
    message: str


async def body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """A request's body, which a client with ``Expect: 100-continue`` only sends when told to."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = (
            0  # aiohttp's own handler does so: nothing of the answer has been sent
        )
    async for piece in request.content.iter_any():
        yield piece


def kept(request: web.BaseRequest) -> CIMultiDict[str]:
    """A request's headers that are passed on."""
    dropped = {*_BETWEEN_NEIGHBOURS, "expect"}
    return CIMultiDict(
        (name, value) for name, value in request.headers.items() if name.lower() not in dropped
    )


def like(answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """The same answer, its body still to come."""
    kept = CIMultiDict(
        (n, v) for n, v in answer.headers.items() if n.lower() not in _BETWEEN_NEIGHBOURS
    )
    return web.StreamResponse(status=answer.status, reason=answer.reason, headers=kept)


def error(answer: Answer) -> web.Response:
    """As S3 says it."""
    told = (
        f"<Code>{answer.code}</Code><Message>{answer.message}</Message><RequestId>chaos</RequestId>"
    )
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{told}<HostId>chaos</HostId></Error>'
    return web.Response(status=answer.status, body=body.encode(), content_type="application/xml")


def cut(request: web.BaseRequest, *, politely: bool = False) -> web.StreamResponse:
    """End the connection; what is returned reaches nobody."""
    if request.transport:
        request.transport.close() if politely else reset(request.transport)
    return web.Response()


def reset(transport: asyncio.BaseTransport) -> None:
    """End a connection as a broken one ends."""
    with suppress(OSError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    assert isinstance(transport, asyncio.Transport)
    transport.abort()


def peer(transport: asyncio.BaseTransport) -> str:
    """A client's address; of one that is gone already, no one's."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if name else "0.0.0.0"
