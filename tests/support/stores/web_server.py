"""A server in this process with answers that a test sets, and the requests that it got."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.support.stores.scripted import Asked

LOST = 0
"""In place of a status: the request is done, and the answer lost."""


@dataclass
class WebServer:
    """Answers requests.

    Attributes:
        answers: status, headers and body of the next answers, in order; then ``reply`` decides.
        reply: answers all others.
        asked: what it was asked.
    """

    answers: list[tuple[int, dict[str, str], object]] = field(default_factory=list)
    reply: Callable[[Asked], tuple[int, object]] = lambda _: (200, {})
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def next(self, status: int, body: object = "", **headers: str) -> None:
        """Answer one request more like this."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, named, body))

    def answer(self, asked: Asked) -> tuple[int, dict[str, str], object]:
        self.asked.append(asked)
        if self.answers:
            return self.answers.pop(0)
        status, body = self.reply(asked)
        return status, {}, body


@contextmanager
def web_server() -> Iterator[WebServer]:
    """Serve, on a port of its own."""
    made = WebServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            status, named, content = made.answer(asked)
            if status == LOST:
                self.close_connection = True
                return
            sent = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {**named, "Content-Length": str(len(sent))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(sent)

        do_POST = do_GET  # noqa: N815  # the name of the base class

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
