"""A proxy between an operator and the API server that kills the operator at the worst moment.

That is when a write was done and its response has not arrived: the operator never learns of it.
"""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus

import aiohttp
from aiohttp import web

from tests.support.kubernetes.cluster import Cluster

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_PASSED_ON = ("Authorization", "Content-Type", "Accept", "User-Agent")


class KillProxy:
    """Forwards every request to ``http://127.0.0.1:port``."""

    def __init__(self, cluster: Cluster) -> None:
        """Forward to this cluster."""
        ours = cluster.admin.configuration
        self._upstream, self._context = (
            ours.host,
            ssl.create_default_context(cafile=ours.ssl_ca_cert),
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kill-proxy", daemon=True)
        self._ready, self._stopped = threading.Event(), asyncio.Event()
        self._left = 0
        self._kill: Callable[[], None] | None = None
        self.writes: list[str] = []
        """The writes so far, as ``METHOD path``, without those of leases."""
        self.port = 0

    @contextmanager
    def open(self) -> Iterator["KillProxy"]:
        """Run the proxy until the end of the block."""
        self._thread.start()
        self._ready.wait()
        yield self
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def after(self, writes: int, kill: Callable[[], None]) -> None:
        """Kill after this many more writes, and reject writes that were sent in the meantime."""
        self._left, self._kill = writes, kill

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        connector = aiohttp.TCPConnector(ssl=self._context, limit=0)
        async with aiohttp.ClientSession(
            self._upstream, connector=connector, auto_decompress=False
        ) as self._api:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", self._pass)
            runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            self._ready.set()
            await self._stopped.wait()
            await runner.cleanup()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        counts = request.method in _WRITES and "/leases" not in request.path
        if counts and self._kill and self._left <= 0:
            return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE)
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        body, timeout = await request.read() or None, aiohttp.ClientTimeout(total=None)
        async with self._api.request(
            request.method, request.rel_url, data=body, headers=headers, timeout=timeout
        ) as answer:
            if counts:
                self.writes.append(f"{request.method} {request.path}")
                self._count()
            kind = {"Content-Type": answer.headers.get("Content-Type", "")}
            back = web.StreamResponse(status=answer.status, headers=kind)
            with suppress(ConnectionResetError):
                await back.prepare(request)
                async for chunk in answer.content.iter_any():
                    await back.write(chunk)
                await back.write_eof()
            return back

    def _count(self) -> None:
        self._left -= 1
        if self._kill and self._left == 0:
            self._kill()
