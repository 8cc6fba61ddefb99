"""The operator's HTTP server: ``/metrics``, ``/healthz`` (liveness) and ``/readyz`` (readiness).

At ``/`` a browser gets a page of all groups, which asks for ``/groups``.

The event loop that reconciles the groups serves it too, so a loop that hangs fails its probes. An
operator on standby is alive and ready: a rolling update waits for the new one's readiness before it
stops the leader.

Any client in the cluster may connect, so a connection is worth little: it is closed after a few
seconds, and earlier when there are too many, the oldest first.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from landfall import __version__
from landfall.api import console

MAX_CONNECTIONS = 64
"""Connections that are kept; the next one closes the oldest."""
CONNECTION_SECONDS = 15.0
"""How long a connection lasts at most: to send a request, to be answered, and idle."""
GROUPS_SECONDS = 1.0
"""How long the document of all groups is shown again, however many ask for it."""
Check = Callable[[], tuple[bool, str]]
"""A probe: whether it succeeds, and the text of the response."""


async def serve(  # noqa: PLR0913  # each by keyword
    registry: CollectorRegistry,
    healthy: Check,
    ready: Check,
    host: str,
    port: int,
    *,
    groups: Callable[[], dict[str, Any]] = dict,
) -> web.AppRunner:
    """Start the server; it runs until ``cleanup`` of the runner is called.

    Raises:
        OSError: The port is in use.
    """
    checks = {"/healthz": healthy, "/readyz": ready}

    async def check(request: web.Request) -> web.Response:
        succeeded, text = checks[request.path]()
        status = HTTPStatus.OK if succeeded else HTTPStatus.SERVICE_UNAVAILABLE
        return web.Response(text=f"{text}\n", status=status)

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def root(request: web.Request) -> web.Response:
        if "text/html" in request.headers.get("Accept", ""):
            return _page(console.GROUPS_PAGE)
        return web.Response(
            text=f"landfall-operator {__version__}\n\n/groups\n/metrics\n/healthz\n/readyz\n"
        )

    async def page_file(request: web.Request) -> web.Response:
        return _page(request.path.removeprefix("/"))

    made, body = -GROUPS_SECONDS, b""

    async def group_document(_: web.Request) -> web.Response:
        nonlocal made, body
        if time.monotonic() - made >= GROUPS_SECONDS:
            body, made = json.dumps(groups()).encode(), time.monotonic()
        return web.Response(
            body=body, headers={"Content-Type": "application/json", **console.HEADERS}
        )

    app = web.Application()
    app.add_routes(
        [
            web.get("/", root),
            web.get("/metrics", metrics),
            web.get("/groups", group_document),
            *(web.get(f"/{name}", page_file) for name in console.GROUPS_FILES),
            *(web.get(path, check) for path in checks),
        ]
    )
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, max_headers=64, lingering_time=0.0
    )
    await runner.setup()
    await _Site(runner, host, port).start()
    return runner


def _page(name: str) -> web.Response:
    headers = {"Content-Type": console.content_type(name) or "", **console.HEADERS}
    return web.Response(body=console.content(name), headers=headers)


class _Site(web.TCPSite):
    """Listens with a bound for the number of connections and for the time that each lasts."""

    async def start(self) -> None:
        """Listen; aiohttp itself has no deadline for the headers of a request."""
        await web.BaseSite.start(self)
        loop = asyncio.get_running_loop()
        server = self._runner.server
        assert server
        newest: deque[web.RequestHandler] = deque()

        def connection() -> asyncio.Protocol:
            if len(newest) >= MAX_CONNECTIONS:
                _close(newest.popleft())
            made = server()
            newest.append(made)
            loop.call_later(CONNECTION_SECONDS, _close, made)
            return made

        self._server = await loop.create_server(connection, self._host, self._port)


def _close(handler: web.RequestHandler) -> None:
    """End a connection without waiting for the client to read."""
    if handler.transport:
        handler.transport.abort()
