"""The operator's port is open to the cluster: what strangers may hold of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from landfall_operator.runtime import http
from landfall_operator.runtime.http import MAX_CONNECTIONS, serve

pytestmark = pytest.mark.asyncio

LOCAL = "127.0.0.1"


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    runner = await serve(CollectorRegistry(), lambda: (True, "ok"), lambda: (True, "ok"), LOCAL, 0)
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def slow_client(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has sent the beginning of a request."""
    reader, writer = await asyncio.open_connection(LOCAL, port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    await writer.drain()
    return reader, writer


async def probe(port: int) -> str:
    url = f"http://{LOCAL}:{port}/healthz"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(2):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


async def test_slow_clients_make_room_and_the_probe_is_answered() -> None:
    async with serving() as port:
        clients = [await slow_client(port) for _ in range(MAX_CONNECTIONS + 10)]

        assert await probe(port) == "ok\n"
        assert all([await is_closed(reader) for reader, _ in clients[:10]])
        for _, writer in clients:
            writer.transport.abort()


async def test_a_client_that_never_ends_its_request_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "CONNECTION_SECONDS", 0.2)

    async with serving() as port:
        reader, _ = await slow_client(port)

        assert await is_closed(reader)
        assert await probe(port) == "ok\n"
