"""A proxy in front of a BigQuery or Cloud Storage server that loses, delays and changes answers.

It passes on one new job at a time. BigQuery never runs two jobs of the same id; local-bigquery
looks whether there is one and then writes it down, so that two at the same moment both run.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, dict[str, str], bytes]
Choose = Callable[[str, str], str]
"""What becomes of a request, by its method and path; "" for nothing."""

LATE_SECONDS = 0.3
DROPPED = {"connection", "content-length", "transfer-encoding", "host", "accept-encoding"}


def nothing(method: str, path: str) -> str:
    return ""


def refusal(status: int, reason: str) -> Answer:
    error = {"code": status, "message": f"{reason}, says the test", "errors": [{"reason": reason}]}
    return status, {"Content-Type": "application/json"}, json.dumps({"error": error}).encode()


REFUSALS = {
    "503": refusal(503, "backendError"),
    "500": refusal(500, "internalError"),
    "429": refusal(429, "rateLimitExceeded"),
    "quota": refusal(403, "quotaExceeded"),
    "denied": refusal(403, "accessDenied"),
    "garbage": (200, {"Content-Type": "application/json"}, b"<html>"),
}
FAULTS = ("unsent", "lost", "late", "running", "503", "500", "429", "quota", "garbage")
"""What may become of a request: it does not arrive, its answer is lost, it arrives later, its job
runs, it is refused, its answer is none."""


@dataclass
class FaultProxy:
    """Passes requests on.

    Attributes:
        choose: what becomes of each.
        requests: ``METHOD path`` of all so far.
    """

    upstream: str
    choose: Choose = nothing
    requests: list[str] = field(default_factory=list)
    url: str = ""
    _late: list[threading.Timer] = field(default_factory=list)
    _inserts: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, handler: BaseHTTPRequestHandler) -> Answer | None:
        """The answer to a request; None to say nothing."""
        body = handler.rfile.read(int(handler.headers["Content-Length"] or 0))
        method, path = handler.command, handler.path
        headers = {n: v for n, v in handler.headers.items() if n.lower() not in DROPPED}
        self.requests.append(f"{method} {path}")
        match self.choose(method, path):
            case "unsent":
                return None
            case "lost":
                self._passed(method, path, headers, body)
                return None
            case "late":
                timer = threading.Timer(LATE_SECONDS, self._quietly, (method, path, headers, body))
                timer.daemon = True
                timer.start()
                self._late.append(timer)
                return None
            case "running":
                return _running(self._passed(method, path, headers, body))
            case "":
                return self._passed(method, path, headers, body)
            case other:
                return REFUSALS[other]

    def settle(self) -> None:
        """Wait until late requests have arrived."""
        for timer in self._late:
            timer.join()
        self._late.clear()

    def _quietly(self, *request: Any) -> None:
        with suppress(OSError):
            self._passed(*request)

    def _passed(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        is_new_job = method == "POST" and path.partition("?")[0].endswith("/jobs")
        connection = HTTPConnection(urlsplit(self.upstream).netloc, timeout=60)
        try:
            with self._inserts if is_new_job else nullcontext():
                connection.request(method, path, body or None, headers)
                got = connection.getresponse()
            kept = {n: v for n, v in got.getheaders() if n.lower() not in DROPPED}
            here = urlsplit(self.url).netloc
            if "Location" in kept:  # where the rest of an upload goes
                kept["Location"] = kept["Location"].replace(urlsplit(self.upstream).netloc, here)
            return got.status, kept, got.read()
        finally:
            connection.close()


def _running(answer: Answer) -> Answer:
    """An answer about a job that is said to run."""
    status, headers, body = answer
    with suppress(ValueError):
        found = json.loads(body)
        if isinstance(found, dict) and "status" in found and status == 200:
            found["status"] = {"state": "RUNNING"}
            return status, headers, json.dumps(found).encode()
    return answer


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """Run a proxy on a port of its own."""
    proxy = FaultProxy(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            answer = proxy.answer(self)
            if answer is None:
                self.close_connection = True
                return
            status, headers, body = answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any  # noqa: N815  # the API

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield proxy
    finally:
        proxy.settle()
        server.shutdown()
        server.server_close()
