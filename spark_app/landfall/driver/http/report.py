"""The HTTP server of ``landfall backfill land``: ``/status`` with its report, and ``/healthcheck``.

The driver inside of it has a status, too; what matters here is how much of the plan is landed. Both
paths take a query, which they ignore.
"""

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from landfall import __version__
from landfall.driver.http.server import PATIENCE_SECONDS, in_background


def serve_report(host: str, port: int, report: Callable[[], bytes]) -> ThreadingHTTPServer:
    """Answer with what ``report`` returns, JSON, in background threads until ``shutdown``.

    Raises:
        PortUnavailable: nothing can listen on the port now.
    """
    answers: dict[str, Callable[[], bytes]] = {"/status": report, "/healthcheck": lambda: b"{}"}

    class ReportHandler(BaseHTTPRequestHandler):
        server_version = f"landfall/{__version__}"
        timeout = PATIENCE_SECONDS

        def do_GET(self) -> None:
            found = answers.get(self.path.partition("?")[0])
            body = found() if found else b""
            self.send_response(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
            """Log nothing: the operator asks every few seconds."""

    return in_background(host, port, ReportHandler)
