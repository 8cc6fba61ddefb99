"""The operator's HTTP server: ``/metrics``, ``/healthz`` (liveness) and ``/readyz`` (readiness).

The event loop that reconciles the groups serves it too, so a loop that hangs fails its probes. An
operator on standby is alive and ready: a rolling update waits for the new one's readiness before it
stops the leader.
"""

from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from landfall import __version__

Check = Callable[[], tuple[bool, str]]
"""A probe: whether it succeeds, and the text of the response."""


async def serve(
    registry: CollectorRegistry, healthy: Check, ready: Check, host: str, port: int
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

    async def root(_: web.Request) -> web.Response:
        return web.Response(
            text=f"landfall-operator {__version__}\n\n/metrics\n/healthz\n/readyz\n"
        )

    app = web.Application()
    app.add_routes(
        [
            web.get("/", root),
            web.get("/metrics", metrics),
            *(web.get(path, check) for path in checks),
        ]
    )
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
