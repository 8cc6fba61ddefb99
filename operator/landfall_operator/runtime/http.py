"""The operator's HTTP face: ``/metrics``, ``/healthz`` (is it alive), ``/readyz`` (is it at work, or ready to be).

It is served by the loop that runs the passes, so a loop that hangs does not answer. One that stands
by for the lease is alive and ready: an upgrade waits for that before it ends the one that leads.
"""

from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from landfall import __version__

Check = Callable[[], tuple[bool, str]]
"""Whether all is well, and a word about it."""


async def serve(
    registry: CollectorRegistry, healthy: Check, ready: Check, host: str, port: int
) -> web.AppRunner:
    """Answer until the runner's ``cleanup``.

    Raises:
        OSError: the port is taken.
    """
    paths = {"/healthz": healthy, "/readyz": ready}

    async def check(request: web.Request) -> web.Response:
        well, word = paths[request.path]()
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return web.Response(text=f"{word}\n", status=status)

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
            *(web.get(path, check) for path in paths),
        ]
    )
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
