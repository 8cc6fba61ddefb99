"""A schema registry in this process: what it answers, by path, and what it was asked."""

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

NOT_FOUND = {"error_code": 40403, "message": "Schema not found"}


@dataclass
class FakeRegistry:
    """Answers GET requests.

    Attributes:
        answers: status and body by path; a path that is missing is answered as unknown.
        asked: the path and the header ``Authorization`` of each request.
        status: answered to everything instead, if not 0.
    """

    answers: dict[str, tuple[int, object]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    status: int = 0
    url: str = ""

    def add(self, schema_id: int, schema: object, **more: object) -> None:
        """Register a schema."""
        self.answers[f"/schemas/ids/{schema_id}"] = (200, {"schema": json.dumps(schema), **more})

    def answer(self, path: str) -> tuple[int, object]:
        """The status and the body of a path."""
        return (
            (self.status, {"error_code": 0})
            if self.status
            else self.answers.get(path, (404, NOT_FOUND))
        )


@contextmanager
def schema_registry(tls: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    """Serve a registry, on a port of its own."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append((self.path, self.headers["Authorization"]))
            status, body = registry.answer(self.path)
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    registry.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
