"""The proxy's HTTP on top of aiohttp: what is forwarded, and how a connection is broken."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp
import msgspec
from aiohttp import web
from multidict import CIMultiDict

_HOP_BY_HOP = {
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
"""Headers that concern one connection only (RFC 9110, 7.6.1) and are not forwarded."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: closing discards unsent data and sends RST."""


class S3Error(msgspec.Struct):
    """An error answer of S3."""

    status: int
    code: str
    message: str


async def body(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """Stream the body of a request.

    A client that sends ``Expect: 100-continue`` waits for that answer before it sends the body.
    """
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # As aiohttp's own Expect handler does: otherwise it would take the final answer for begun.
        request.writer.output_size = 0
    async for chunk in request.content.iter_any():
        yield chunk


def forwarded_headers(request: web.BaseRequest) -> CIMultiDict[str]:
    """The headers of a request that are forwarded; ``body`` has answered ``Expect``."""
    dropped = {*_HOP_BY_HOP, "expect"}
    return CIMultiDict(
        (name, value) for name, value in request.headers.items() if name.lower() not in dropped
    )


def response_like(answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """A response with status and headers of the server's answer; the body is still to be sent."""
    headers = CIMultiDict(
        (name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP
    )
    return web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)


def error_response(error: S3Error) -> web.Response:
    """The error as S3 sends it, in XML."""
    fields = (
        f"<Code>{error.code}</Code><Message>{error.message}</Message>"
        "<RequestId>chaos</RequestId><HostId>chaos</HostId>"
    )
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{fields}</Error>'
    return web.Response(status=error.status, body=body.encode(), content_type="application/xml")


def close_connection(request: web.BaseRequest, *, graceful: bool = False) -> web.StreamResponse:
    """End the client's connection, by a reset unless ``graceful``.

    The returned response only satisfies aiohttp; it reaches no client.
    """
    if request.transport:
        request.transport.close() if graceful else reset(request.transport)
    return web.Response()


def reset(transport: asyncio.BaseTransport) -> None:
    """End a connection with RST, as a network failure would."""
    with suppress(OSError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    assert isinstance(transport, asyncio.Transport)
    transport.abort()


def peer(transport: asyncio.BaseTransport) -> str:
    """The client's address, or 0.0.0.0 if the client has disconnected already."""
    name = transport.get_extra_info("peername")
    return str(name[0]) if name else "0.0.0.0"
