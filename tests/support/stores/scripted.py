"""An HTTP server that sends the responses that a test gives it, one after the other."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


@dataclass(frozen=True)
class Answer:
    """One response; status 0 closes the connection without one.

    The last ``cut`` bytes of the body are not sent, and the connection is closed.
    """

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0


def error(status: int, code: str, message: str = "as scripted") -> Answer:
    """An error response as S3 sends it."""
    return Answer(
        status, f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    )


HANG_UP = Answer(0)
"""No response: the connection is closed, and the request may or may not have taken effect."""


@dataclass(frozen=True)
class Asked:
    """A received request; the path includes the query, and header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


@dataclass
class Scripted:
    """A running server: its address and all requests that it received."""

    endpoint: str
    asked: list[Asked] = field(default_factory=list)

    @property
    def methods(self) -> list[str]:
        return [asked.method for asked in self.asked]


@contextmanager
def scripted(answers: Sequence[Answer]) -> Iterator[Scripted]:
    """A server on loopback that sends the responses in turn; after the last one it hangs up."""
    remaining = list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        server_log: ClassVar[Scripted]

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.server_log.asked.append(Asked(self.command, self.path, headers, body))
            answer = remaining.pop(0) if remaining else HANG_UP
            self.close_connection = answer.status == 0 or answer.cut > 0
            if answer.status == 0:
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if "Content-Length" not in answer.headers:
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body[: len(answer.body) - answer.cut])

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815  # the base class's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.server_log = Scripted(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield Handler.server_log
    finally:
        server.shutdown()
        server.server_close()
